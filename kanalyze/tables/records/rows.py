"""The rows of records in Produce requests, and in Fetch and ShareFetch responses.

In: exchanges whose messages keep their bytes, with their rows. Out: blocks of rows.

A batch that cannot be decoded to its end gives a row of its own, with a ``problem`` and without a
record. So nothing is left out silently.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.caches import remember
from kanalyze.decoding.secrets import METADATA_TOPICS
from kanalyze.kafka.codec.compiler import Projection
from kanalyze.kafka.framing.frame import parse_request_header, parse_response_header, plain_body
from kanalyze.kafka.other_wires import other_wire
from kanalyze.kafka.records.batches import RecordSet
from kanalyze.kafka.wire import WireError
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.packets import known_time
from kanalyze.spec.columns import columns_named, columns_of
from kanalyze.spec.rows.records import RECORD_COLUMNS
from kanalyze.spec.rows.requests import COLUMNS, PartitionItem
from kanalyze.tables.columns.block import Lists, RowBlock
from kanalyze.tables.records.columns import OF_BATCH, RecordColumns, RecordFieldRows, add_problem
from kanalyze.tables.records.fetched import FetchedField, OffsetRanges, Transactions
from kanalyze.tables.records.values import ShownValues
from kanalyze.tables.requests.topic_names import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.other_wires import OtherWire
    from kanalyze.kafka.records.types import DecompressionLimits
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.exchange import Exchange, Message
    from kanalyze.tables.filters import RowFilter
    from kanalyze.tables.records.fetched import ProducedOffsets
    from kanalyze.tables.records.schemas import SchemaColumns
    from kanalyze.tables.records.values import RecordSearch, ValuesAs

PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78
_API_NAMES: dict[int | None, str] = {PRODUCE: "Produce", FETCH: "Fetch", SHARE_FETCH: "ShareFetch"}


def has_records(api_key: int) -> bool:
    """Return true if the messages of an API have records that are read here."""
    return api_key in _API_NAMES


class _PartitionRecords:
    """The records of one partition in one message.

    Attributes:
        assigned_offset: offset that the broker assigned to the first record; Produce only.
        first_offset: position of the first byte in the log; Fetch of Kafka 0.7 only.
        marked: the list of aborted transactions of a Fetch, or of acquired records of a
            ShareFetch; None if the message does not have it.
    """

    def __init__(
        self,
        topic: str | None,
        topic_id: str | None,
        partition: int | None,
        error_code: int | None,
        assigned_offset: int | None,
        data: bytes,
        first_offset: int | None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.assigned_offset = assigned_offset
        self.data = data
        self.first_offset = first_offset
        self.marked: Any = None


class _RequestRows:
    """The columns of a block of requests that are needed here, and those of their partitions.

    Attributes:
        offsets: where the partitions of each row begin, and where the last ones end.
    """

    def __init__(self, block: RowBlock) -> None:
        lists = block.columns["partitions"]
        assert isinstance(lists, Lists)
        self.offsets = lists.offsets
        cells = block.values(_REQUEST_COLUMNS)
        self.capture, self.connection, self.connection_number, self.broker_ip = cells[:4]
        self.client_id, self.request_packet, self.response_packet = cells[4:]
        items = RowBlock(lists.offsets[-1], dict(lists.fields)).values(_PARTITION_COLUMNS)
        self.topic, self.topic_id, self.partition, self.record_bytes = items[:4]
        self.base_offset, self.error_code = items[4:]

    def by_name(self, at: int) -> dict[Any, Any]:
        """Return where the partitions of a row are, by the topic's id or name and the index."""
        return {
            (self.topic_id[n] or self.topic[n], self.partition[n]): n
            for n in range(self.offsets[at], self.offsets[at + 1])
        }


_PARTITION_COLUMNS = columns_named(
    columns_of(PartitionItem),
    *("topic", "topic_id", "partition", "record_bytes", "base_offset", "error_code"),
)
_REQUEST_COLUMNS = columns_named(
    COLUMNS,
    *("capture", "connection", "connection_number", "broker_ip", "client_id", "request_packet"),
    "response_packet",
)


class _RecordsMessage:
    """A message with records, and which of the rows it belongs to."""

    def __init__(
        self,
        rows: _RequestRows,
        at: int,
        message: Message,
        api_name: str,
        packet: int | None,
        is_produce: bool,
        other: OtherWire | None,
    ) -> None:
        self.rows, self.at = rows, at
        self.message = message
        self.api_name = api_name
        self.packet = packet
        self.is_produce = is_produce
        self.other = other


class _MessageLayout:
    """How to decode the messages of a version.

    Attributes:
        head: of requests: API key and version as bytes; empty for responses.
    """

    def __init__(self, head: bytes, header_version: int, decode: BodyDecoder) -> None:
        self.head = head
        self.header_version = header_version
        self.decode = decode


_HEAD = Struct(">hh").pack
_MAX_CACHED = 4096
"""Limit of each cache: keys, versions and ids come from the wire."""


_REQUEST = Projection.of(
    *("TopicData.Name", "TopicData.TopicId", "TopicData.PartitionData.Index"),
    "TopicData.PartitionData.Records",
    raw_records=True,
)
_RESPONSE = Projection.of(
    *("Responses.Topic", "Responses.TopicId", "Responses.Partitions.PartitionIndex"),
    *("Responses.Partitions.AbortedTransactions", "Responses.Partitions.Records"),
    raw_records=True,
)
_SHARE_RESPONSE = Projection.of(
    *("Responses.TopicId", "Responses.Partitions.PartitionIndex"),
    *("Responses.Partitions.Records", "Responses.Partitions.AcquiredRecords"),
    raw_records=True,
)
_ISOLATION = Projection.of("IsolationLevel")
_READ_COMMITTED = 1


class RecordReader:
    """Makes rows of the records in exchanges."""

    def __init__(
        self,
        catalog: Catalog,
        decoders: Decoders,
        *,
        row_filter: RowFilter | None = None,
        values_as: ValuesAs | None = None,
        longest_value: int | None = None,
        limits: DecompressionLimits | None = None,
        produced: ProducedOffsets | None = None,
        search: RecordSearch | None = None,
        schemas: SchemaColumns | None = None,
    ) -> None:
        """Make a reader.

        Args:
            catalog: names and versions of messages.
            decoders: decoders of messages; those for records are compiled when first needed.
            row_filter: selects records by topic and partition; None for all.
            values_as: how to write keys, values and headers that are not text; None to leave keys,
                values and headers out.
            longest_value: bytes after which keys and values are cut; None to keep all.
            limits: bounds of a decompressed batch; None for the defaults.
            produced: when records were produced, which the caller keeps up to date; None to leave
                that out.
            search: leaves out records in which it finds nothing; None for no search.
            schemas: decodes keys and values, and names their schemas; None for no schemas.
        """
        self._catalog = catalog
        self._decoders = decoders
        self._filter = row_filter if row_filter is not None and row_filter.names_items else None
        self._show = None if values_as is None else ShownValues(values_as, longest_value)
        self._schemas = schemas
        self._limits = limits
        self._produced = produced
        self._search = search
        self._reads_contents = search is not None or values_as is not None
        self._layouts: dict[tuple[int, int, int], _MessageLayout] = {}
        self._topic_ids: dict[bytes, str | None] = {}

    def blocks(self, exchanges: Iterable[Exchange], block: RowBlock) -> Iterator[RowBlock]:
        """Yield the rows of records by column, in order, in blocks of bounded size. Raises nothing.

        ``block`` has the rows of the exchanges. Messages must keep their bytes (``Message.data``)
        if :func:`has_records` is true. A message with missing bytes gives a row with the problem
        ``missing_bytes``.
        """
        if self._schemas is None:
            yield from self._blocks(exchanges, block, self._show)
            return
        whole = None if self._show is None else ShownValues("base64", None)
        for records in self._blocks(exchanges, block, whole):
            yield self._schemas.of_block(records, self._show)

    def _blocks(
        self, exchanges: Iterable[Exchange], block: RowBlock, show: ShownValues | None
    ) -> Iterator[RowBlock]:
        rows = _RequestRows(block)
        columns = RecordColumns(RECORD_COLUMNS, _SHARED, show)
        for at, exchange in enumerate(exchanges):
            for field in self._fields(exchange, rows, at, columns):
                while not field.add_to(columns):
                    yield columns.drain()
            if columns.is_full:
                yield columns.drain()
        if len(columns):
            yield columns.drain()

    def _fields(
        self, exchange: Exchange, rows: _RequestRows, at: int, columns: RecordColumns
    ) -> list[RecordFieldRows]:
        """Return the records fields of an exchange; if there are none, add rows that say why."""
        holder = _records_message(exchange, rows, at)
        if holder is None:
            return []
        try:
            parts = self._partitions(exchange, holder)
        except WireError:
            # The bytes differ from those that the row was made from; the row's anomalies say why.
            parts = None
        if parts is None:
            self._add_unread(holder, columns)
            return []
        fields = []
        for part in parts:
            if self._filter is None or self._is_selected(part):
                fields.append(self._field(exchange, holder, part))  # noqa: PERF401 - compiled, this is faster
        return fields

    # -- where the records are --------------------------------------------------------------------

    def _partitions(
        self, exchange: Exchange, holder: _RecordsMessage
    ) -> list[_PartitionRecords] | None:
        """Return the records of every partition; None if the message cannot be decoded.

        Raises WireError.
        """
        if holder.other is not None:
            return _other_partitions(holder.other, exchange)
        data, version = holder.message.data, holder.message.version
        api_key, api_version = exchange.api_key, exchange.api_version
        if data is None or version is None or api_key is None or api_version is None:
            return None
        layout = self._layouts.get((api_key, api_version, version))
        if layout is None:
            layout = self._make_layout(api_key, api_version, version)
        body = plain_body(data, layout.head, layout.header_version)
        if body == 0:
            body = self._body(data, layout)
        values, _ = layout.decode(data, body)
        parts: list[_PartitionRecords] = []
        row_partitions = None
        for topic, topic_id, partitions in _topics(values[0], api_key):
            for partition, marked, records in partitions:
                if not records:
                    continue
                if row_partitions is None:
                    row_partitions = holder.rows.by_name(holder.at)
                part = self._part(holder, row_partitions, topic, topic_id, partition, records)
                part.marked = marked
                parts.append(part)
        return parts

    def _part(
        self,
        holder: _RecordsMessage,
        row_partitions: dict[Any, Any],
        topic: str,
        topic_id: bytes,
        partition: int,
        records: bytes,
    ) -> _PartitionRecords:
        id_text = self._topic_id(topic_id)
        n: Any = row_partitions.get((id_text or topic, partition))
        if n is None:
            return _PartitionRecords(topic or None, id_text, partition, None, None, records, None)
        rows: _RequestRows = holder.rows
        return _PartitionRecords(
            *(rows.topic[n], rows.topic_id[n], partition, rows.error_code[n]),
            *(rows.base_offset[n] if holder.is_produce else None, records, None),
        )

    def _make_layout(self, api_key: int, api_version: int, version: int) -> _MessageLayout:
        catalog = self._catalog
        if api_key == PRODUCE:
            header_version = catalog.request_header_version(api_key, api_version)
            decode = self._decoders.get(api_key, "request", version, _REQUEST)
            layout = _MessageLayout(_HEAD(api_key, api_version), header_version, decode)
        else:
            header_version = catalog.response_header_version(api_key, api_version)
            projection = _RESPONSE if api_key == FETCH else _SHARE_RESPONSE
            decode = self._decoders.get(api_key, "response", version, projection)
            layout = _MessageLayout(b"", header_version, decode)
        remember(self._layouts, (api_key, api_version, version), layout, _MAX_CACHED)
        return layout

    def _body(self, data: bytes, layout: _MessageLayout) -> int:
        """Return the position of the body, after a header of any version; raises WireError."""
        if layout.head:
            return parse_request_header(data, 4, len(data), self._catalog).body
        return parse_response_header(data, 4, len(data), layout.header_version).body

    def _topic_id(self, topic_id: bytes) -> str | None:
        if topic_id not in self._topic_ids:
            remember(self._topic_ids, topic_id, topic_id_text(topic_id), _MAX_CACHED)
        return self._topic_ids[topic_id]

    def _is_selected(self, part: _PartitionRecords) -> bool:
        row_filter = self._filter
        return row_filter is None or row_filter.has_item(
            part.topic or part.topic_id, part.partition
        )

    # -- rows -------------------------------------------------------------------------------------

    def _field(
        self, exchange: Exchange, holder: _RecordsMessage, part: _PartitionRecords
    ) -> RecordFieldRows:
        """Return the rows of one records field."""
        records: Any = None
        if holder.other is not None:
            records = holder.other.records_in(part.data, part.first_offset or 0, self._limits)
        else:
            records = RecordSet(part.data, self._limits)
        return RecordFieldRows(
            records,
            records.problems,
            _message_cells(holder, part),
            part.assigned_offset,
            None if holder.is_produce else self._fetched(exchange, holder, part),
            not (holder.is_produce and holder.other is not None),
            self._search,
            may_have_secrets=self._reads_contents and _is_metadata(part),
        )

    def _fetched(
        self, exchange: Exchange, holder: _RecordsMessage, part: _PartitionRecords
    ) -> FetchedField:
        """Return what the response, and the capture before it, show about its records."""
        produced: list[OffsetRanges] = []
        transactions: Callable[[], Transactions] | None = None
        acquired = None
        if holder.other is None:
            if self._produced is not None:
                produced = self._produced.find(
                    holder.rows.broker_ip[holder.at], part.topic_id, part.topic, part.partition
                )
            if exchange.api_key == FETCH:
                transactions = partial(self._transactions, exchange, part)
            else:
                ranges = ((first, last + 1, times) for first, last, times in part.marked or ())
                acquired = OffsetRanges(ranges)
        return FetchedField(transactions, holder.message.start_ns, produced, acquired)

    def _transactions(self, exchange: Exchange, part: _PartitionRecords) -> Transactions:
        aborted = part.marked
        # For a consumer that gets no list, some brokers send null, others an empty list.
        if not aborted and aborted is not None and not self._is_read_committed(exchange):
            aborted = None
        return Transactions(RecordSet(part.data, self._limits), aborted)

    def _is_read_committed(self, exchange: Exchange) -> bool:
        """Return true if a Fetch is known to be ``read_committed``."""
        message = exchange.request
        if message is None or message.data is None or message.version is None:
            return False
        data = message.data
        try:
            decode = self._decoders.get(FETCH, "request", message.version, _ISOLATION)
            body = parse_request_header(data, 4, len(data), self._catalog).body
            values, _ = decode(data, body)
        except WireError:
            return False
        return bool(values[0] == _READ_COMMITTED)

    def _add_unread(self, holder: _RecordsMessage, columns: RecordColumns) -> None:
        """Add rows for records that cannot be decoded: one per partition, if known."""
        missing = holder.message.data is None
        problem = AnomalyKind.MISSING_BYTES if missing else AnomalyKind.MALFORMED_BODY
        rows: _RequestRows = holder.rows
        places = range(rows.offsets[holder.at], rows.offsets[holder.at + 1])
        items = [n for n in places if rows.record_bytes[n]]
        for n in items:
            part = _PartitionRecords(
                *(rows.topic[n], rows.topic_id[n], rows.partition[n], rows.error_code[n]),
                *(None, b"", None),
            )
            if self._is_selected(part):
                add_problem(columns, _message_cells(holder, part), problem.value)
        if not items and holder.message.values is None:
            add_problem(columns, _message_cells(holder, _NO_PARTITION), problem.value)


_Cells: TypeAlias = tuple[Any, ...]
_NO_PARTITION = _PartitionRecords(None, None, None, None, None, b"", None)


def _topics(topics: Any, api_key: int) -> Iterator[tuple[Any, Any, Any]]:
    """Yield name, id and partitions of topics.

    A partition is its index, the value of ``_PartitionRecords.marked``, and its records.
    """
    if api_key == PRODUCE:
        for topic, topic_id, partitions in topics:
            yield topic, topic_id, [(index, None, records) for index, records in partitions]
    elif api_key == FETCH:
        yield from topics
    else:
        for topic_id, partitions in topics:
            parts = [(index, acquired, records) for index, records, acquired in partitions]
            yield "", topic_id, parts


def _is_metadata(part: _PartitionRecords) -> bool:
    return part.topic in METADATA_TOPICS or part.topic_id in METADATA_TOPICS


def _records_message(exchange: Exchange, rows: _RequestRows, at: int) -> _RecordsMessage | None:
    """Return the message of an exchange that has records; None if there is none."""
    other: OtherWire | None = None
    if exchange.wire == "kafka":
        name, is_produce = _API_NAMES.get(exchange.api_key), exchange.api_key == PRODUCE
    else:  # it has API keys of its own
        other = other_wire(exchange.wire)
        api = other.api(exchange.api_key)
        name, is_produce = api.name if api.has_records else None, api.is_produce
    message, packet = exchange.response, rows.response_packet[at]
    if is_produce:
        message, packet = exchange.request, rows.request_packet[at]
    if name is None or message is None:
        return None
    return _RecordsMessage(rows, at, message, name, packet, is_produce, other)


def _other_partitions(other: OtherWire, exchange: Exchange) -> list[_PartitionRecords] | None:
    """Do what :meth:`RecordReader._partitions` does, for another wire."""
    fields = other.records_fields(exchange)
    if fields is None:
        return None
    return [
        _PartitionRecords(
            *(field.topic, None, field.partition, field.error_code, None, field.data, field.offset)
        )
        for field in fields
    ]


def _message_cells(holder: _RecordsMessage, part: _PartitionRecords) -> _Cells:
    """Return the cells from ``capture`` to ``error_code``."""
    rows: _RequestRows = holder.rows
    at = holder.at
    return (
        *(rows.capture[at], rows.connection[at], rows.connection_number[at]),
        holder.packet,
        known_time(holder.message.start_ns),
        holder.api_name,
        rows.client_id[at],
        part.topic,
        part.topic_id,
        part.partition,
        part.error_code,
    )


_OF_MESSAGE = (
    *("capture", "connection", "connection_number", "packet", "time_ns", "api_name", "client_id"),
    *("topic", "topic_id", "partition", "error_code"),
)
"""Columns of the cells that :func:`_message_cells` returns."""
_SHARED = (*_OF_MESSAGE, *OF_BATCH)
"""Columns that have the same cell for all records of a batch."""
