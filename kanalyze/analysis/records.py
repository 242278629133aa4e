"""The rows of records: what stands inside Produce requests and Fetch responses.

In: exchanges whose messages hold their bytes, with their rows. Out: blocks of rows, or
:class:`RecordRow`. This module must not know of packets, nor where rows go.

A batch that cannot be read, or not to its end, gives a row of its own that has no record but a
``problem``: what is left out is said.
"""

from __future__ import annotations

import base64
from fnmatch import fnmatchcase
from struct import Struct
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from kanalyze.analysis.decoding.metadata_log import METADATA_TOPICS, holds_credentials
from kanalyze.analysis.decoding.secrets import HIDDEN
from kanalyze.analysis.record_columns import RecordColumns
from kanalyze.analysis.record_field import OF_BATCH, RecordField, add_problem
from kanalyze.analysis.row import (
    CAPTURE,
    COLUMNS,
    CONNECTION,
    CONNECTION_NUMBER,
    Meaning,
    columns_of,
)
from kanalyze.analysis.topics import topic_id_text
from kanalyze.model import AnomalyKind
from kanalyze.named import NamedTuple
from kanalyze.protocol.batches import RecordSet
from kanalyze.protocol.headers import parse_request_header, parse_response_header
from kanalyze.protocol.kafka07 import FetchPart07, Part07, RequestType
from kanalyze.protocol.messages07 import MessageSet07Records
from kanalyze.protocol.plain_header import plain_body
from kanalyze.protocol.projection import Projection
from kanalyze.protocol.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.analysis.block import RowBlock
    from kanalyze.analysis.row import Column, PartitionItem, Row
    from kanalyze.connection.exchange import Exchange, Message
    from kanalyze.protocol.catalog import Catalog
    from kanalyze.protocol.compiler import Decoder, Decoders
    from kanalyze.protocol.record_batch import RecordBatch
    from kanalyze.protocol.record_types import DecompressionLimits, Record

__all__ = [
    "RECORD_COLUMNS",
    "VALUE_COLUMNS",
    "HeaderItem",
    "RecordReader",
    "RecordRow",
    "has_records",
]

PRODUCE, FETCH = 0, 1

ValuesAs: TypeAlias = Literal["base64", "escaped"]
"""How bytes that are no text are written."""


class HeaderItem(NamedTuple):
    """One header of a record."""

    key: Annotated[str, Meaning("string", "its name; what is no UTF-8 as \\xNN")]
    value: Annotated[str | None, Meaning("string", "as in the column value", nullable=True)]
    encoding: Annotated[
        str | None, Meaning("string", "of the value: text, base64 or escaped", nullable=True)
    ]


class RecordRow(NamedTuple):
    """One record, where it was on the wire and what its batch says of it."""

    capture: Annotated[str, CAPTURE]
    connection: Annotated[str, CONNECTION]
    connection_number: Annotated[int, CONNECTION_NUMBER]
    packet: Annotated[
        int | None,
        Meaning(
            "int64",
            "number in the capture, from 1, of the packet with the first byte of the message",
            nullable=True,
        ),
    ]
    time_ns: Annotated[
        int, Meaning("int64", "time of the packet with the first byte of the message", "ns")
    ]
    api_name: Annotated[
        str, Meaning("string", "Produce or Fetch; in Kafka 0.7 MultiProduce or MultiFetch too")
    ]
    client_id: Annotated[str | None, Meaning("string", "as the client calls itself", nullable=True)]
    topic: Annotated[
        str | None,
        Meaning("string", "topic name; null when only its id was seen", nullable=True),
    ]
    topic_id: Annotated[
        str | None,
        Meaning("string", "topic id in Kafka's URL-safe base64", nullable=True),
    ]
    partition: Annotated[
        int | None,
        Meaning("int32", "partition index; null when the message was not read", nullable=True),
    ]
    error_code: Annotated[
        int | None, Meaning("int16", "of this partition; null without a response", nullable=True)
    ]
    record_index: Annotated[
        int | None,
        Meaning("int64", "place in what the message has for the partition, from 0", nullable=True),
    ]
    offset: Annotated[
        int | None,
        Meaning(
            "int64",
            "in the log; Produce: as the broker's response tells, null where it tells none; "
            "Kafka 0.7: position in bytes, of the compressed message for what is inside one",
            nullable=True,
        ),
    ]
    timestamp_ms: Annotated[
        int | None, Meaning("int64", "Unix time in ms; null where it has none", "ms", nullable=True)
    ]
    timestamp_type: Annotated[
        str | None,
        Meaning(
            "string",
            "create (by the producer) or append (by the broker); null in magic 0",
            "",
            True,
        ),
    ]
    key_bytes: Annotated[
        int | None, Meaning("int64", "size of the key; null for a null key", "B", nullable=True)
    ]
    value_bytes: Annotated[
        int | None,
        Meaning("int64", "size of the value; null for a null value (tombstone)", "B", True),
    ]
    header_count: Annotated[int | None, Meaning("int32", "headers of the record", nullable=True)]
    key: Annotated[str | None, Meaning("string", "the key, as key_encoding says", nullable=True)]
    key_encoding: Annotated[
        str | None,
        Meaning("string", "text, or base64 or escaped where it is no text", nullable=True),
    ]
    value: Annotated[
        str | None, Meaning("string", "the value, as value_encoding says", nullable=True)
    ]
    value_encoding: Annotated[
        str | None,
        Meaning(
            "string",
            "text, or base64 or escaped where it is no text; hidden for credentials in the log of "
            "the controllers",
            nullable=True,
        ),
    ]
    headers: Annotated[list[HeaderItem], Meaning("list<struct>", "the headers, in their order")]
    codec: Annotated[
        str | None,
        Meaning("string", "none, gzip, snappy, lz4, zstd or unknown", nullable=True),
    ]
    magic: Annotated[int | None, Meaning("int16", "format of the batch: 0, 1 or 2", nullable=True)]
    batch_base_offset: Annotated[
        int | None,
        Meaning(
            "int64",
            "in the header of the batch; in what producers send mostly 0; "
            "of a message that is compressed (magic 0 and 1) that of the last one inside; "
            "Kafka 0.7: position of the message in bytes, null in Produce, which has none",
            nullable=True,
        ),
    ]
    batch_bytes: Annotated[
        int | None,
        Meaning("int64", "bytes of the batch on the wire, header and all", "B", nullable=True),
    ]
    batch_record_count: Annotated[
        int | None,
        Meaning("int32", "records, by the header of the batch; null below magic 2", nullable=True),
    ]
    partition_leader_epoch: Annotated[
        int | None, Meaning("int32", "as the broker wrote it; null where none", nullable=True)
    ]
    producer_id: Annotated[int | None, Meaning("int64", "of an idempotent producer", nullable=True)]
    producer_epoch: Annotated[
        int | None, Meaning("int16", "of an idempotent producer", nullable=True)
    ]
    sequence: Annotated[
        int | None, Meaning("int32", "of the record, by an idempotent producer", nullable=True)
    ]
    is_transactional: Annotated[
        bool | None, Meaning("bool", "written in a transaction", nullable=True)
    ]
    is_control: Annotated[
        bool | None, Meaning("bool", "a marker of the broker's, no user's record", nullable=True)
    ]
    control_type: Annotated[
        str | None,
        Meaning("string", "abort, commit, leader_change, ...; unknown for others", nullable=True),
    ]
    delete_horizon_ms: Annotated[
        int | None,
        Meaning("int64", "when tombstones and markers of the batch may go", "ms", nullable=True),
    ]
    crc_ok: Annotated[
        bool | None, Meaning("bool", "the checksum is that of the bytes", nullable=True)
    ]
    problem: Annotated[
        str | None,
        Meaning(
            "string",
            "why there are no (more) records where this row stands; such a row has no record",
            nullable=True,
        ),
    ]


RECORD_COLUMNS: tuple[Column, ...] = columns_of(RecordRow)
"""The columns of :class:`RecordRow`, in the order of its fields."""

VALUE_COLUMNS = frozenset({"key", "key_encoding", "value", "value_encoding", "headers"})
"""Columns that hold what users wrote: null or empty unless values are asked for."""


def has_records(api_key: int) -> bool:
    """Tell whether the messages of an API hold records that are read here."""
    return api_key in (PRODUCE, FETCH)


class _Part(NamedTuple):
    """The records of one partition in one message."""

    topic: str | None
    topic_id: str | None
    partition: int | None
    error_code: int | None
    assigned_offset: int | None
    """Offset of the first record as the broker assigned it; Produce only."""
    data: bytes
    first_offset: int | None = None
    """Position in the log of the first byte; Fetch of Kafka 0.7 only."""


class _Facts(NamedTuple):
    """What is needed of a row."""

    capture: str
    connection: str
    connection_number: int
    client_id: str | None
    request_packet: int | None
    response_packet: int | None
    partitions: list[PartitionItem]


_FACTS = [column for column in COLUMNS if column.name in _Facts._fields]
"""In the order of the fields of :class:`_Facts`: a test holds them together."""


class _Place(NamedTuple):
    """Where a message stands."""

    row: Row | _Facts
    message: Message
    api_name: str
    packet: int | None
    is_kafka07: bool = False

    @property
    def is_produce(self) -> bool:
        return self.api_name in ("Produce", "MultiProduce")


class _Plan(NamedTuple):
    """How to read the messages of a version."""

    head: bytes
    """Of requests: key and version, as they begin; of responses nothing."""
    header_version: int
    decode: Decoder


_HEAD = Struct(">hh").pack
_MOST_REMEMBERED = 4096
"""Keys, versions and ids come from the wire."""


def _remember(known: dict[Any, Any], key: object, value: object) -> None:
    if len(known) >= _MOST_REMEMBERED:
        known.clear()
    known[key] = value


_REQUEST = Projection.of(
    "TopicData.Name",
    "TopicData.TopicId",
    "TopicData.PartitionData.Index",
    "TopicData.PartitionData.Records",
    raw_records=True,
)
_RESPONSE = Projection.of(
    "Responses.Topic",
    "Responses.TopicId",
    "Responses.Partitions.PartitionIndex",
    "Responses.Partitions.Records",
    raw_records=True,
)


class RecordReader:
    """Makes rows of the records in exchanges."""

    def __init__(
        self,
        catalog: Catalog,
        decoders: Decoders,
        *,
        topics: Iterable[str] = (),
        values_as: ValuesAs | None = None,
        longest_value: int | None = None,
        limits: DecompressionLimits | None = None,
    ) -> None:
        """Make a reader.

        Args:
            catalog: names and versions of messages.
            decoders: to read them with; those for records are made when first needed.
            topics: globs; only records of topics that match one. Empty for all.
            values_as: how to write keys, values and headers that are no text; None to leave keys,
                values and headers out.
            longest_value: cut keys and values to so many bytes; None to keep all.
            limits: bounds of what may come out of a compressed batch; None for the defaults.
        """
        self._catalog = catalog
        self._decoders = decoders
        self._topics = tuple(topics)
        self._show = None if values_as is None else _Shown(values_as, longest_value)
        self._limits = limits
        self._plans: dict[tuple[int, int, int], _Plan] = {}
        self._topic_ids: dict[bytes, str | None] = {}

    def blocks(self, exchanges: Iterable[Exchange], block: RowBlock) -> Iterator[RowBlock]:
        """Give the rows of records by column, in blocks of bounded size, in their order.

        ``block`` has the rows of the exchanges. Their messages hold their bytes
        (``Message.data``) where they were asked for with :func:`has_records`; one whose bytes are
        not all there gives a row with the problem ``missing_bytes``. Raises nothing.
        """
        facts = map(_Facts._make, zip(*block.values(_FACTS), strict=True))
        return self._blocks(zip(exchanges, facts, strict=True))

    def row_batches(self, exchanges: Iterable[tuple[Exchange, Row]]) -> Iterator[list[RecordRow]]:
        """Give the rows of records as objects, otherwise as :meth:`blocks`."""
        return map(_rows, self._blocks(exchanges))

    def rows(self, exchange: Exchange, row: Row) -> Iterator[RecordRow]:
        """Give the rows of the records in one exchange. Raises nothing."""
        for block in self._blocks([(exchange, row)]):
            yield from _rows(block)

    def _blocks(self, exchanges: Iterable[tuple[Exchange, Row | _Facts]]) -> Iterator[RowBlock]:
        made = RecordColumns(RECORD_COLUMNS, _SHARED)
        for exchange, row in exchanges:
            place = _place(exchange, row)
            if place is None:
                continue
            try:
                parts = self._parts(exchange, place)
            except WireError:
                # The bytes are not those that the row was made of; its own anomalies say why.
                parts = None
            if parts is None:
                self._add_unread(place, made)
                if made.is_full:
                    yield made.take()
                continue
            for part in parts:
                if not self._topics or self._wants(part):
                    field = self._field(place, part)
                    while not field.add_to(made):
                        yield made.take()
        if len(made):
            yield made.take()

    # -- where the records are --------------------------------------------------------------------

    def _parts(self, exchange: Exchange, place: _Place) -> list[_Part] | None:
        """Return the records of every partition; None where the message cannot be read.

        Raises WireError.
        """
        if place.is_kafka07:
            return _parts_07(exchange, place.message)
        data, version = place.message.data, place.message.version
        api_key, api_version = exchange.api_key, exchange.api_version
        if data is None or version is None or api_key is None or api_version is None:
            return None
        plan = self._plans.get((api_key, api_version, version))
        if plan is None:
            plan = self._make_plan(api_key, api_version, version)
        body = plain_body(data, plan.head, plan.header_version)
        if body:
            values, _ = plan.decode(data, body, 0, None)
        else:
            values, _ = plan.decode(data, self._body(data, plan), 0, None)
        known = {
            (item.topic_id or item.topic, item.partition): item for item in place.row.partitions
        }
        return [
            _part(place, known, (topic, self._topic_id(topic_id), partition), records)
            for topic, topic_id, partitions in values[0]
            for partition, records in partitions
            if records
        ]

    def _make_plan(self, api_key: int, api_version: int, version: int) -> _Plan:
        catalog = self._catalog
        if api_key == PRODUCE:
            header_version = catalog.request_header_version(api_key, api_version)
            decode = self._decoders.get(api_key, "request", version, _REQUEST)
            plan = _Plan(_HEAD(api_key, api_version), header_version, decode)
        else:
            header_version = catalog.response_header_version(api_key, api_version)
            decode = self._decoders.get(api_key, "response", version, _RESPONSE)
            plan = _Plan(b"", header_version, decode)
        _remember(self._plans, (api_key, api_version, version), plan)
        return plan

    def _body(self, data: bytes, plan: _Plan) -> int:
        """Return where the body begins behind any header; raises WireError."""
        if plan.head:
            return parse_request_header(data, 4, len(data), self._catalog).body
        return parse_response_header(data, 4, len(data), plan.header_version).body

    def _topic_id(self, topic_id: bytes) -> str | None:
        if topic_id not in self._topic_ids:
            _remember(self._topic_ids, topic_id, topic_id_text(topic_id))
        return self._topic_ids[topic_id]

    def _wants(self, part: _Part) -> bool:
        if not self._topics:
            return True
        name = part.topic or part.topic_id
        return name is not None and any(fnmatchcase(name, glob) for glob in self._topics)

    # -- rows -------------------------------------------------------------------------------------

    def _field(self, place: _Place, part: _Part) -> RecordField:
        """Return the rows of one records field."""
        found: RecordSet | MessageSet07Records = RecordSet(part.data, self._limits)
        if place.is_kafka07:
            found = MessageSet07Records(part.data, part.first_offset or 0, self._limits)
        is_produce = place.is_produce
        return RecordField(
            found,
            found.problems,
            _where(place, part),
            None if self._show is None else self._shown(part),
            part.assigned_offset,
            is_produce,
            not (is_produce and place.is_kafka07),
        )

    def _add_unread(self, place: _Place, made: RecordColumns) -> None:
        """Add the rows of a message whose records cannot be read: one a partition, if known."""
        missing = place.message.data is None
        problem = AnomalyKind.MISSING_BYTES if missing else AnomalyKind.MALFORMED_BODY
        items = [item for item in place.row.partitions if item.record_bytes]
        for item in items:
            part = _Part(item.topic, item.topic_id, item.partition, item.error_code, None, b"")
            if self._wants(part):
                add_problem(made, _where(place, part), problem.value)
        if not items and place.message.values is None:
            add_problem(made, _where(place, _NO_PART), problem.value)

    def _shown(self, part: _Part) -> Callable[[Record, RecordBatch], _Cells]:
        """Return what gives the cells from ``key`` to ``headers``, without what nobody may see."""
        show = self._show
        assert show is not None
        is_metadata = part.topic in METADATA_TOPICS or part.topic_id in METADATA_TOPICS
        if not is_metadata:
            return lambda record, _: show(record)

        def shown(record: Record, batch: RecordBatch) -> _Cells:
            cells = show(record)
            if batch.is_control or record.value is None or not holds_credentials(record.value):
                return cells
            return (*cells[:2], *_HIDDEN_VALUE, *cells[4:])

        return shown


_Cells: TypeAlias = tuple[Any, ...]
_HIDDEN_VALUE: _Cells = (HIDDEN, "hidden")
_NO_PART = _Part(None, None, None, None, None, b"")


def _place(exchange: Exchange, row: Row | _Facts) -> _Place | None:
    """Return the message of an exchange that holds records; None where there is none."""
    if exchange.wire != "kafka":
        return _place_07(exchange, row)
    if exchange.api_key == PRODUCE and exchange.request is not None:
        return _Place(row, exchange.request, "Produce", row.request_packet)
    if exchange.api_key == FETCH and exchange.response is not None:
        return _Place(row, exchange.response, "Fetch", row.response_packet)
    return None


def _place_07(exchange: Exchange, row: Row | _Facts) -> _Place | None:
    """Return the same for Kafka 0.7, whose keys are others."""
    kind, request, response = exchange.api_key, exchange.request, exchange.response
    if kind is None or kind == RequestType.OFFSETS:
        return None
    name = RequestType(kind).api_name
    message, packet = response, row.response_packet
    if not RequestType(kind).is_answered:
        message, packet = request, row.request_packet
    return None if message is None else _Place(row, message, name, packet, is_kafka07=True)


def _parts_07(exchange: Exchange, message: Message) -> list[_Part] | None:
    """Return what :meth:`RecordReader._parts` does, of Kafka 0.7."""
    data, values = message.data, message.values
    if data is None or values is None or exchange.request is None:
        return None
    asked: tuple[Part07, ...] = exchange.request.values.parts
    answers: tuple[FetchPart07, ...] | None = None if message is exchange.request else values
    parts = []
    for index, part in enumerate(asked):
        answer = None if answers is None else answers[index]
        messages = part.messages if answer is None else answer.messages
        if messages is None or not messages.record_bytes:
            continue
        code = None if answer is None else answer.error_code
        field = data[messages.start : messages.start + messages.record_bytes]
        parts.append(
            _Part(part.topic, None, part.partition, code, None, field, first_offset=part.offset)
        )
    return parts


def _part(
    place: _Place,
    known: dict[tuple[str | None, int | None], PartitionItem],
    names: tuple[str, str | None, int],
    records: bytes,
) -> _Part:
    topic, topic_id, partition = names
    item = known.get((topic_id or topic, partition))
    if item is None:
        return _Part(topic or None, topic_id, partition, None, None, records)
    assigned = item.base_offset if place.is_produce else None
    return _Part(item.topic, item.topic_id, partition, item.error_code, assigned, records)


def _where(place: _Place, part: _Part) -> _Cells:
    """Return the cells from ``capture`` to ``error_code``."""
    row = place.row
    return (
        row.capture,
        row.connection,
        row.connection_number,
        place.packet,
        place.message.start_ns,
        place.api_name,
        row.client_id,
        part.topic,
        part.topic_id,
        part.partition,
        part.error_code,
    )


_OF_PLACE = (
    *("capture", "connection", "connection_number", "packet", "time_ns", "api_name", "client_id"),
    *("topic", "topic_id", "partition", "error_code"),
)
"""Columns whose cells :func:`_where` gives."""
_SHARED = (*_OF_PLACE, *OF_BATCH)
"""Columns whose cells the records of a batch share."""
_PLAIN = [column for column in RECORD_COLUMNS if column.name != "headers"]
_HEADERS_AT = RecordRow._fields.index("headers")
_HEADERS = [RECORD_COLUMNS[_HEADERS_AT]]


def _rows(block: RowBlock) -> list[RecordRow]:
    """Return the rows of a block as objects."""
    values: list[list[Any]] = block.values(_PLAIN)
    headers = [list(map(HeaderItem._make, items)) for items in block.values(_HEADERS)[0]]
    values.insert(_HEADERS_AT, headers)
    return list(map(RecordRow._make, zip(*values, strict=True)))


# -- keys and values ------------------------------------------------------------------------------

_LINES = str.maketrans("", "", "\t\n\r")


class _Shown:
    """Keys, values and headers as text."""

    def __init__(self, values_as: ValuesAs, longest: int | None) -> None:
        self._bytes_as = values_as
        self._longest = longest

    def __call__(self, record: Record) -> _Cells:
        """Return the cells from ``key`` to ``headers``."""
        headers = [
            HeaderItem(str(key, "utf-8", "backslashreplace"), *self._text(value))
            for key, value in record.headers
        ]
        return (*self._text(record.key), *self._text(record.value), headers)

    def _text(self, data: bytes | None) -> tuple[str | None, str | None]:
        """Return bytes as text, and how they were made text."""
        if data is None:
            return None, None
        if self._longest is not None and len(data) > self._longest:
            data = _cut(data, self._longest)
        text = _as_text(data)
        if text is not None:
            return text, "text"
        if self._bytes_as == "escaped":
            return _escaped(data), "escaped"
        return base64.b64encode(data).decode("ascii"), "base64"


def _cut(data: bytes, length: int) -> bytes:
    """Return the first bytes; where they are UTF-8, no part of a character."""
    end = length
    while end > length - 3 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def _as_text(data: bytes) -> str | None:
    """Return what is UTF-8 and can be printed, tabs and line ends included; None for all else."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if text.isprintable() or text.translate(_LINES).isprintable():
        return text
    return None


def _escaped(data: bytes) -> str:
    r"""Return printable ASCII as it is and all else as ``\xNN``; a backslash too."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}" for byte in data
    )
