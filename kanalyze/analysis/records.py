"""The rows of records: what stands inside Produce requests and Fetch responses.

In: exchanges whose messages hold their bytes, with their rows. Out: :class:`RecordRow`. This module
must not know of packets, nor where rows go.

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
from kanalyze.analysis.row import CAPTURE, CONNECTION, CONNECTION_NUMBER, Meaning, columns_of
from kanalyze.analysis.topics import topic_id_text
from kanalyze.model import AnomalyKind
from kanalyze.named import NamedTuple
from kanalyze.protocol.batches import RecordSet
from kanalyze.protocol.headers import parse_request_header, parse_response_header
from kanalyze.protocol.kafka07 import FetchPart07, Part07, RequestType
from kanalyze.protocol.messages07 import MessageSet07Records
from kanalyze.protocol.projection import Projection
from kanalyze.protocol.record_types import RecordProblem, as_int64
from kanalyze.protocol.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.analysis.row import Column, PartitionItem, Row
    from kanalyze.connection.exchange import Exchange, Message
    from kanalyze.protocol.catalog import Catalog
    from kanalyze.protocol.compiler import Decoders
    from kanalyze.protocol.record_types import DecompressionLimits, Record, RecordBatch

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


_TOPIC_CELLS = slice(RecordRow._fields.index("topic"), RecordRow._fields.index("topic_id") + 1)
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


class _Place(NamedTuple):
    """Where a message stands."""

    row: Row
    message: Message
    api_name: str
    packet: int | None
    is_kafka07: bool = False

    @property
    def is_produce(self) -> bool:
        return self.api_name in ("Produce", "MultiProduce")


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

_ROWS_AT_ONCE = 2048
_BYTES_AT_ONCE = 8 << 20
"""Of keys, values and headers in one list of rows, about."""
_HEADER_BYTES = 100
"""Of a header in a row, besides its value."""


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

    def row_batches(self, exchanges: Iterable[tuple[Exchange, Row]]) -> Iterator[list[RecordRow]]:
        """Give the rows of records, in lists of bounded size, in the order of the exchanges.

        The exchanges' messages hold their bytes (``Message.data``) where they were asked for with
        :func:`has_records`; one whose bytes are not all there gives a row with the problem
        ``missing_bytes``. Raises nothing.
        """
        rows: list[RecordRow] = []
        size = 0
        for exchange, row in exchanges:
            for record_row in self.rows(exchange, row):
                rows.append(record_row)
                size += (record_row.key_bytes or 0) + (record_row.value_bytes or 0)
                for item in record_row.headers:
                    size += _HEADER_BYTES + len(item.value or "")
                if len(rows) >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
                    yield rows
                    rows, size = [], 0
        if rows:
            yield rows

    def rows(self, exchange: Exchange, row: Row) -> Iterator[RecordRow]:
        """Give the rows of the records in one exchange. Raises nothing."""
        place = _place(exchange, row)
        if place is None:
            return
        try:
            parts = self._parts(exchange, place)
        except WireError:
            # The bytes are not those that the row was made of; its own anomalies say why.
            parts = None
        if parts is None:
            yield from self._unread(place)
            return
        for part in parts:
            if self._wants(part):
                yield from self._part_rows(place, part)

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
        if place.is_produce:
            body = parse_request_header(data, 4, len(data), self._catalog).body
            decode = self._decoders.get(api_key, "request", version, _REQUEST)
        else:
            header_version = self._catalog.response_header_version(api_key, api_version)
            body = parse_response_header(data, 4, len(data), header_version).body
            decode = self._decoders.get(api_key, "response", version, _RESPONSE)
        values, _ = decode(data, body, 0, None)
        known = {
            (item.topic_id or item.topic, item.partition): item for item in place.row.partitions
        }
        return [
            _part(place, known, (topic, topic_id_text(topic_id), partition), records)
            for topic, topic_id, partitions in values[0]
            for partition, records in partitions
            if records
        ]

    def _wants(self, part: _Part) -> bool:
        if not self._topics:
            return True
        name = part.topic or part.topic_id
        return name is not None and any(fnmatchcase(name, glob) for glob in self._topics)

    # -- rows -------------------------------------------------------------------------------------

    def _part_rows(self, place: _Place, part: _Part) -> Iterator[RecordRow]:
        found: RecordSet | MessageSet07Records = RecordSet(part.data, self._limits)
        if place.is_kafka07:
            found = MessageSet07Records(part.data, part.first_offset or 0, self._limits)
        where = _where(place, part)
        index = 0
        for batch in found:
            about = _about(batch)
            if place.is_kafka07 and place.is_produce:
                about = _without_base_offset(about)
            for record in batch.records():
                offset: int | None = record.offset
                if place.is_produce:
                    offset = _assigned(part, index)
                yield self._row(where, about, (index, offset), batch, record)
                index += 1
            for problem in batch.problems:
                yield _problem_row(where, problem.value, batch, about)
        for problem in found.problems:
            # A broker fills a response as far as it may, and cuts the last batch: that is legal.
            if place.is_produce or problem is not RecordProblem.CUT_BATCH:
                yield _problem_row(where, problem.value)

    def _unread(self, place: _Place) -> Iterator[RecordRow]:
        """Give the rows of a message whose records cannot be read: one a partition, if known."""
        missing = place.message.data is None
        problem = AnomalyKind.MISSING_BYTES if missing else AnomalyKind.MALFORMED_BODY
        items = [item for item in place.row.partitions if item.record_bytes]
        for item in items:
            part = _Part(item.topic, item.topic_id, item.partition, item.error_code, None, b"")
            if self._wants(part):
                yield _problem_row(_where(place, part), problem.value)
        if not items and place.message.values is None:
            yield _problem_row(_where(place, _NO_PART), problem.value)

    def _row(
        self,
        where: _Cells,
        about: _Cells,
        number: tuple[int, int | None],
        batch: RecordBatch,
        record: Record,
    ) -> RecordRow:
        key, value = record.key, record.value
        return RecordRow._make(
            (
                *where,
                *number,
                record.timestamp_ms,
                batch.timestamp_type,
                None if key is None else len(key),
                None if value is None else len(value),
                len(record.headers),
                *self._shown(where, record, batch),
                *about,
                batch.sequence(record.offset),
                batch.is_transactional,
                batch.is_control,
                _control_type(key) if batch.is_control else None,
                batch.delete_horizon_ms,
                batch.crc_ok and record.crc_ok,
                None,
            )
        )

    def _shown(self, where: _Cells, record: Record, batch: RecordBatch) -> _Cells:
        """Return the cells from ``key`` to ``headers``, without what nobody may see."""
        if self._show is None:
            return _NOTHING_SHOWN
        cells = self._show(record)
        is_metadata = not METADATA_TOPICS.isdisjoint(where[_TOPIC_CELLS])
        if not is_metadata or batch.is_control or record.value is None:
            return cells
        return (
            (*cells[:2], *_HIDDEN_VALUE, *cells[4:]) if holds_credentials(record.value) else cells
        )


_Cells: TypeAlias = tuple[Any, ...]
_HIDDEN_VALUE: _Cells = (HIDDEN, "hidden")
_NO_PART = _Part(None, None, None, None, None, b"")
_NOTHING_SHOWN: _Cells = (None, None, None, None, [])


def _place(exchange: Exchange, row: Row) -> _Place | None:
    """Return the message of an exchange that holds records; None where there is none."""
    if exchange.wire != "kafka":
        return _place_07(exchange, row)
    if exchange.api_key == PRODUCE and exchange.request is not None:
        return _Place(row, exchange.request, "Produce", row.request_packet)
    if exchange.api_key == FETCH and exchange.response is not None:
        return _Place(row, exchange.response, "Fetch", row.response_packet)
    return None


def _place_07(exchange: Exchange, row: Row) -> _Place | None:
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


def _assigned(part: _Part, index: int) -> int | None:
    return None if part.assigned_offset is None else as_int64(part.assigned_offset + index)


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


def _about(batch: RecordBatch) -> _Cells:
    """Return the cells from ``codec`` to ``producer_epoch``."""
    return (
        batch.codec,
        batch.magic,
        batch.base_offset,
        batch.batch_bytes,
        batch.record_count,
        batch.partition_leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
    )


def _without_base_offset(about: _Cells) -> _Cells:
    return (*about[:2], None, *about[3:])


_NO_RECORD: _Cells = (None,) * 7


def _problem_row(
    where: _Cells,
    problem: str,
    batch: RecordBatch | None = None,
    about: _Cells = (None,) * 8,
) -> RecordRow:
    """Return a row without a record, that says why; with a batch comes what :func:`_about` says."""
    tail: _Cells = (None,) * 6
    if batch is not None:
        tail = (
            None,
            batch.is_transactional,
            batch.is_control,
            None,
            batch.delete_horizon_ms,
            batch.crc_ok,
        )
    return RecordRow._make((*where, *_NO_RECORD, *_NOTHING_SHOWN, *about, *tail, problem))


# -- control records ------------------------------------------------------------------------------

_CONTROL_TYPES = (
    "abort",
    "commit",
    "leader_change",
    "snapshot_header",
    "snapshot_footer",
    "kraft_version",
    "kraft_voters",
)
_control_key = Struct(">hh").unpack_from


def _control_type(key: bytes | None) -> str:
    """Name what the key of a control record says: int16 version, int16 type (KIP-98, KIP-595)."""
    if key is None or len(key) < 4:
        return "unknown"
    number = _control_key(key, 0)[1]
    return _CONTROL_TYPES[number] if 0 <= number < len(_CONTROL_TYPES) else "unknown"


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
