"""What a row needs of the bodies of one exchange.

In: topics, partitions and numbers, while they are read. Out: :class:`ExchangeSummary` with its
:class:`PartitionColumns`.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.codec.values import NO_UUID, SEEN_CODECS
from kanalyze.spec.rows.requests import COLUMNS

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    PARTITION, RECORD_COUNT, RECORD_BYTES, BASE_OFFSET, HIGH_WATERMARK = range(1, 6)
    CODEC, ERROR_CODE, LAST_OFFSET, CELLS = range(6, 10)
    FIRST_TEXT = GROUP_ID = 20
    TRANSACTIONAL_ID, KEY = 21, 22
    FIRST_NUMBER = MAX_WAIT_MS = 40
    MIN_BYTES, MAX_BYTES, MAX_RECORDS, SHARE_EPOCH, SESSION_ID, SESSION_EPOCH = range(41, 47)
    RESPONSE_SESSION_ID, KEY_TYPE, REPLICA_ID, REBALANCE_TIMEOUT_MS = range(47, 51)
    SESSION_TIMEOUT_MS = 51

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.tables.requests.fetch_sessions import FetchSessionUpdate

__all__ = [
    "DEFAULTED_FIELDS",
    "FIELD_NUMBERS",
    "Delivery",
    "ExchangeSummary",
    "PartitionColumns",
    "PartitionSummary",
    "summary_without_ids",
]

_USED = {
    "group_id": 20,
    "transactional_id": 21,
    "key": 22,
    "max_wait_ms": 40,
    "min_bytes": 41,
    "max_bytes": 42,
    "max_records": 43,
    "share_epoch": 44,
    "session_id": 45,
    "session_epoch": 46,
    "response_session_id": 47,
    "key_type": 48,
    "replica_id": 49,
    "rebalance_timeout_ms": 50,
    "session_timeout_ms": 51,
}
"""Fields that code refers to, by their numbers in ``summaries.pxd``: texts from 20, numbers from
40."""
_END = 83
_COLUMNS = {column.name: column for column in COLUMNS if column.field is not None}


def _field_numbers() -> dict[str, int]:
    numbers = dict(_USED)
    next_text, next_number = 23, 52
    for name, column in _COLUMNS.items():
        if name in numbers:
            continue
        if column.type == "string":
            numbers[name], next_text = next_text, next_text + 1
        else:
            numbers[name], next_number = next_number, next_number + 1
    assert next_text <= 40
    assert next_number <= _END
    return numbers


FIELD_NUMBERS = _field_numbers()
"""Fields of an exchange with a single value: columns that are declared as fields of messages, and
others that columns are computed from."""
DEFAULTED_FIELDS = frozenset(FIELD_NUMBERS.keys() - _COLUMNS.keys())
"""Fields that have the default of the definition if a version does not have them. A column is null
then."""

_ONE = 1
"""A number of 64 bits, so that it can be shifted by as many."""
_FEW = 8
"""Up to this number of partitions, a search compares them one by one; beyond, it uses a dict."""


class PartitionSummary(NamedTuple):
    """One partition or topic in a message, as an object.

    The fields are those of the row contract, with two differences: the topic id is 16 bytes, and
    ``last_offset`` is the last offset of a compressed first batch, which hides its base offset.
    """

    topic: str | None
    topic_id: bytes
    partition: int | None
    record_count: int | None = None
    record_bytes: int | None = None
    base_offset: int | None = None
    high_watermark: int | None = None
    codec: str | None = None
    error_code: int | None = None
    last_offset: int | None = None


class PartitionColumns:
    """The topics and partitions that a message names, by column.

    Attributes:
        topics, topic_ids: one for each entry; None, and zeros, if the message does not have them.
        count: number of entries: partitions, and topics without partitions.
        cells: for each entry, a group of numbers: a bit mask of the known columns, then the value
            of each column. The codec is an index of
            :data:`~kanalyze.kafka.codec.values.SEEN_CODECS`.
    """

    __slots__ = ("cells", "count", "index", "indexed", "topic_ids", "topics")

    def __init__(self) -> None:
        self.topics: list[str | None] = []
        self.topic_ids: list[bytes] = []
        self.cells = memoryview(array("q", bytes(8 * CELLS * _FEW)))
        self.count = 0
        self.index: dict[tuple[str | None, bytes, int], int] | None = None
        self.indexed = 0

    def clear(self) -> None:
        """Remove all topics and partitions."""
        if self.count > 0:
            self.topics.clear()
            self.topic_ids.clear()
            self.count = 0
            self.index = None

    def add(self, topic: str | None, topic_id: bytes) -> int:
        """Append a partition or topic without values; return its index."""
        at = self.count
        begin = at * CELLS
        if begin >= len(self.cells):
            self._grow()
        self.topics.append(topic)
        self.topic_ids.append(topic_id)
        self.cells[begin] = 0
        self.count = at + 1
        return at

    def _grow(self) -> None:
        more = array("q", bytes(8 * len(self.cells)))
        self.cells = memoryview(array("q", self.cells) + more)

    def put(self, at: int, column: int, value: int) -> None:
        """Set the value of a column."""
        begin = at * CELLS
        self.cells[begin] |= 1 << column
        self.cells[begin + column] = value

    def forget(self, at: int, column: int) -> None:
        """Make the value of a column unknown."""
        self.cells[at * CELLS] &= ~(1 << column)

    def present_columns(self, at: int) -> int:
        """Return the bit mask of the columns whose values are known."""
        return self.cells[at * CELLS]

    def has(self, at: int, column: int) -> bool:
        """Return true if the value of a column is known."""
        return self.cells[at * CELLS] & (1 << column) != 0

    def number(self, at: int, column: int) -> int:
        """Return the value of a column, which must be known."""
        return self.cells[at * CELLS + column]

    def get(self, at: int, column: int) -> int | None:
        """Return the value of a column; None if unknown."""
        return self.number(at, column) if self.has(at, column) else None

    def insert(self, at: int, topic: str | None, topic_id: bytes) -> None:
        """Insert a partition or topic without values."""
        self.add(topic, topic_id)
        self.topics.insert(at, self.topics.pop())
        self.topic_ids.insert(at, self.topic_ids.pop())
        begin = at * CELLS
        for cell in range(self.count * CELLS - 1, begin + CELLS - 1, -1):
            self.cells[cell] = self.cells[cell - CELLS]
        self.cells[begin] = 0

    def copy(self, other: PartitionColumns, at: int) -> int:
        """Append a copy of a partition of ``other``; return its index."""
        to = self.add(other.topics[at], other.topic_ids[at])
        for column in range(CELLS):
            self.cells[to * CELLS + column] = other.cells[at * CELLS + column]
        return to

    def index_of(self, other: PartitionColumns, at: int, within: int) -> int:
        """Return the index of a partition of ``other`` among the first ``within``; -1 for none.

        If it is there more than once, return the last index.
        """
        if within > _FEW:
            return self._looked_up(other, at, within)
        topic, topic_id = other.topics[at], other.topic_ids[at]
        partition = other.number(at, PARTITION)
        for index in range(within - 1, -1, -1):
            if (
                self.number(index, PARTITION) == partition
                and self.topics[index] == topic
                and self.topic_ids[index] == topic_id
            ):
                return index
        return -1

    def _looked_up(self, other: PartitionColumns, at: int, within: int) -> int:
        if self.index is None or self.indexed != within:
            self.index = {self.key_of(place): place for place in range(within)}
            self.indexed = within
        return self.index.get(other.key_of(at), -1)

    def key_of(self, at: int) -> tuple[str | None, bytes, int]:
        """Return the topic, its id and the partition, which must be known."""
        return self.topics[at], self.topic_ids[at], self.number(at, PARTITION)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[PartitionSummary]:
        """Iterate over all entries as :class:`PartitionSummary`; this is slow."""
        return iter([self._partition_at(at) for at in range(self.count)])

    def _partition_at(self, at: int) -> PartitionSummary:
        codec = self.get(at, CODEC)
        return PartitionSummary(
            self.topics[at],
            self.topic_ids[at],
            self.get(at, PARTITION),
            self.get(at, RECORD_COUNT),
            self.get(at, RECORD_BYTES),
            self.get(at, BASE_OFFSET),
            self.get(at, HIGH_WATERMARK),
            None if codec is None else SEEN_CODECS[codec],
            self.get(at, ERROR_CODE),
            self.get(at, LAST_OFFSET),
        )

    def add_partition(self, summary: PartitionSummary) -> None:
        """Append a partition or topic with all its values."""
        at = self.add(summary.topic, summary.topic_id)
        codec = None if summary.codec is None else SEEN_CODECS.index(summary.codec)
        for column, value in (
            (PARTITION, summary.partition),
            (RECORD_COUNT, summary.record_count),
            (RECORD_BYTES, summary.record_bytes),
            (BASE_OFFSET, summary.base_offset),
            (HIGH_WATERMARK, summary.high_watermark),
            (CODEC, codec),
            (ERROR_CODE, summary.error_code),
            (LAST_OFFSET, summary.last_offset),
        ):
            if value is not None:
                self.put(at, column, value)


class Delivery(NamedTuple):
    """The limits and the result of a request whose response may be delayed until there is data."""

    max_wait_ms: int | None
    """The longest delay in ms, from :func:`~kanalyze.tables.requests.long_polls.longest_wait_ms`;
    None if the request has no limit of its own."""
    is_enough: bool
    """Whether the response had the data that the request waited for."""
    is_all: bool
    """Whether the response had all available data."""
    failed: bool


class ExchangeSummary:
    """The values that a row needs of the bodies of one exchange; None or empty if absent.

    Attributes:
        partitions: the topics and partitions that the exchange is about.
        errors: topic or None, topic id or zeros, partition or None, and a code other than 0.
        names: topic ids, and the names that the bodies give them.
        session: the fetch session of a Fetch that uses, begins or closes one.
        delivery: of a ShareFetch or heartbeat with a response.
        has_assignments: whether a SyncGroup request has the assignments of the group.
        code: the top-level error code of the response; 0 for none.
        groups: the number of groups in an OffsetFetch, and ``first_group`` the id of the first.
        known: a bit for each of :data:`FIELD_NUMBERS` that has a value, from ``FIRST_TEXT`` on;
            ``numbers`` and ``texts`` are these values.
    """

    __slots__ = (
        *("code", "delivery", "errors", "first_group", "groups", "has_assignments", "known"),
        *("names", "numbers", "partitions", "session", "texts"),
    )

    def __init__(self) -> None:
        self.partitions = PartitionColumns()
        self.errors: list[tuple[str | None, bytes, int | None, int]] = []
        self.names: list[tuple[bytes, str]] = []
        self.numbers = memoryview(array("q", bytes(8 * (_END - FIRST_TEXT))))
        self.texts: list[str | None] = [None] * (FIRST_NUMBER - FIRST_TEXT)
        self.clear(self.partitions)

    def clear(self, partitions: PartitionColumns) -> None:
        """Reset all values; use ``partitions`` for topics and partitions."""
        self.partitions = partitions
        if self.errors:
            self.errors = []
        if self.names:
            self.names = []
        self.session: FetchSessionUpdate | None = None
        self.delivery: Delivery | None = None
        self.has_assignments: bool | None = None
        self.code = 0
        self.groups = 0
        self.first_group: str | None = None
        self.known = 0

    def set_number(self, field: int, value: int) -> None:
        """Set a number; ``field`` is one of :data:`FIELD_NUMBERS`."""
        self.known |= _ONE << (field - FIRST_TEXT)
        self.numbers[field - FIRST_TEXT] = value

    def set_text(self, field: int, value: str | None) -> None:
        """Set a text; ``field`` is one of :data:`FIELD_NUMBERS`."""
        self.known |= _ONE << (field - FIRST_TEXT)
        self.texts[field - FIRST_TEXT] = value

    def has(self, field: int) -> bool:
        """Return true if a field has a value."""
        return self.known & (_ONE << (field - FIRST_TEXT)) != 0

    def number(self, field: int) -> int | None:
        """Return a number; None if absent."""
        return self.numbers[field - FIRST_TEXT] if self.has(field) else None

    def text(self, field: int) -> str | None:
        """Return a text; None if absent."""
        return self.texts[field - FIRST_TEXT] if self.has(field) else None


def summary_without_ids(partitions: Iterable[Any]) -> ExchangeSummary:
    """Return the summary of an exchange that has no more than partitions and their errors.

    Each is a named tuple of some fields of :class:`PartitionSummary`, without the topic's id.
    """
    summary = ExchangeSummary()
    for fields in partitions:
        part = PartitionSummary(topic_id=NO_UUID, **fields._asdict())
        summary.partitions.add_partition(part)
        if part.error_code:
            summary.errors.append((part.topic, NO_UUID, part.partition, part.error_code))
    return summary
