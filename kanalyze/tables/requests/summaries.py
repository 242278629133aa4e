"""What a row needs of the bodies of one exchange, and the walk that reads it.

In: a :class:`~kanalyze.kafka.codec.values.EncodedFields`, and the role of each of its fields
(:class:`~kanalyze.tables.requests.field_selection.FieldRoles`). Out: numbers, texts, errors and
names in an :class:`ExchangeSummary`, topics and partitions in its :class:`PartitionColumns`.

A :class:`BodyWalk` reads the cells of the tape in place, without making tuples or lists. Cells are
pointers in compiled code: every position on the tape is compared with its end. It walks a struct
twice, because a nested struct may come before the topic that it belongs to: first it reads the
struct's own values, then, in the same order, its error codes and nested structs.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.codec.values import NO_UUID, SEEN_CODECS
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.requests.topics import KeyTable, TopicTable

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import cells_from, texts_from, words_of
    from kanalyze.kafka.codec.machine import doubled
    from kanalyze.kafka.codec.opcodes import (
        HIDDEN_COUNT,
        HIDDEN_FIRST,
        MISSING_RECORDS,
        RECORDS_CELLS,
    )
    from kanalyze.kafka.codec.values import (
        AS_ARRAY,
        AS_BYTES,
        AS_NULLABLE,
        AS_RECORDS,
        AS_TEXT,
    )
    from kanalyze.tables.requests.topics import NO_TOPIC

    PARTITION, RECORD_COUNT, RECORD_BYTES, BASE_OFFSET, HIGH_WATERMARK = range(1, 6)
    CODEC, ERROR_CODE, LAST_OFFSET, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE = range(6, 12)
    PREFERRED_READ_REPLICA, TOPIC, TOPIC_ID, CELLS = range(12, 16)
    FIELD_CELLS = 3
    FIRST_TEXT = GROUP_ID = 20
    TRANSACTIONAL_ID, KEY = 21, 22
    FIRST_NUMBER = MAX_WAIT_MS = 40
    MIN_BYTES, MAX_BYTES, MAX_RECORDS, SHARE_EPOCH, SESSION_ID, SESSION_EPOCH = range(41, 47)
    RESPONSE_SESSION_ID, KEY_TYPE, REPLICA_ID, REBALANCE_TIMEOUT_MS = range(47, 51)
    SESSION_TIMEOUT_MS = 51

    AT_NOTHING, AT_ERROR, AT_TOPIC, AT_TOPIC_ID, AT_PARTITION, AT_OFFSET = range(6)
    AT_HIGH_WATERMARK, AT_RECORDS, AT_OLD_OFFSETS, AT_TOPICS, AT_PARTITIONS = range(6, 11)
    AT_BELOW, AT_FORGOTTEN, AT_ASSIGNMENTS, AT_KEYS, AT_REQUESTED_GROUP = range(11, 16)
    AT_PREFERRED_REPLICA = 16

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.kafka.codec.machine import Tape
    from kanalyze.kafka.codec.values import EncodedFields, Shape
    from kanalyze.tables.requests.field_selection import FieldRoles

_USED = {
    "group_id": GROUP_ID,
    "transactional_id": TRANSACTIONAL_ID,
    "key": KEY,
    "max_wait_ms": MAX_WAIT_MS,
    "min_bytes": MIN_BYTES,
    "max_bytes": MAX_BYTES,
    "max_records": MAX_RECORDS,
    "share_epoch": SHARE_EPOCH,
    "session_id": SESSION_ID,
    "session_epoch": SESSION_EPOCH,
    "response_session_id": RESPONSE_SESSION_ID,
    "key_type": KEY_TYPE,
    "replica_id": REPLICA_ID,
    "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
    "session_timeout_ms": SESSION_TIMEOUT_MS,
}
"""Fields that code refers to, by their numbers in ``summaries.pxd``: texts from 20, numbers from
40."""
_END = 83
_COLUMNS = {column.name: column for column in COLUMNS if column.field is not None}


def _field_numbers() -> dict[str, int]:
    numbers = dict(_USED)
    next_text, next_number = KEY + 1, SESSION_TIMEOUT_MS + 1
    for name, column in _COLUMNS.items():
        if name in numbers:
            continue
        if column.type == "string":
            numbers[name], next_text = next_text, next_text + 1
        else:
            numbers[name], next_number = next_number, next_number + 1
    assert next_text <= FIRST_NUMBER
    assert next_number <= _END
    return numbers


FIELD_NUMBERS = _field_numbers()
"""Fields of an exchange with a single value: columns that are declared as fields of messages, and
others that columns are computed from."""
DEFAULTED_FIELDS = frozenset(FIELD_NUMBERS.keys() - _COLUMNS.keys())
"""Fields that have the default of the definition if a version does not have them. A column is null
then."""

NO_PARTITION = NO_NUMBER = 1 << 40
"""In place of numbers of 32 bits."""
_ONE = 1
"""A number of 64 bits, so that it can be shifted by as many."""
_FEW = 8
"""Up to this number of partitions, a search compares them one by one; beyond, it uses a table."""


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
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    preferred_read_replica: int | None = None


class PartitionColumns:
    """The topics and partitions that a message names, by column.

    Attributes:
        topics: the table of the numbers of topics and their ids.
        count: number of entries: partitions, and topics without partitions.
        cells: for each entry, a group of numbers: a bit mask of the known columns, then the value
            of each column, then the topic and its id: ``NO_TOPIC`` and 0 if the message does not
            have them. The codec is an index of
            :data:`~kanalyze.kafka.codec.values.SEEN_CODECS`.
    """

    def __init__(self, topics: TopicTable) -> None:
        self.topics = topics
        self._keep(memoryview(array("q", bytes(8 * CELLS * _FEW))))
        self.count = 0
        self._entries = KeyTable()
        self._places = memoryview(array("q", bytes(8 * 16)))
        self._indexed = 0

    def _keep(self, cells: memoryview) -> None:
        self._kept = cells
        self.cells: memoryview = cells_from(cells, 0)

    def clear(self) -> None:
        """Remove all topics and partitions."""
        self.count = 0
        if self._indexed != 0:
            self._entries.clear()
            self._indexed = 0

    def add(self, topic: int, topic_id: int) -> int:
        """Append a partition or topic without values; return its index."""
        at = self.count
        begin = at * CELLS
        if begin >= len(self._kept):
            self._keep(doubled(self._kept))
        self.cells[begin] = 0
        self.cells[begin + TOPIC] = topic
        self.cells[begin + TOPIC_ID] = topic_id
        self.count = at + 1
        return at

    def put(self, at: int, column: int, value: int) -> None:
        """Set the value of a column."""
        begin = _begin_of(self, at)
        self.cells[begin] |= 1 << column
        self.cells[begin + column] = value

    def forget(self, at: int, column: int) -> None:
        """Make the value of a column unknown."""
        self.cells[_begin_of(self, at)] &= ~(1 << column)

    def has(self, at: int, column: int) -> bool:
        """Return true if the value of a column is known."""
        return self.cells[_begin_of(self, at)] & (1 << column) != 0

    def number(self, at: int, column: int) -> int:
        """Return the value of a column, which must be known, the topic or its id."""
        return self.cells[_begin_of(self, at) + column]

    def partition(self, at: int) -> int:
        """Return the partition; ``NO_PARTITION`` for a topic as a whole."""
        return self.number(at, PARTITION) if self.has(at, PARTITION) else NO_PARTITION

    def insert(self, at: int, topic: int, topic_id: int) -> None:
        """Insert a partition or topic without values."""
        self.add(topic, topic_id)
        begin = at * CELLS
        for cell in range(self.count * CELLS - 1, begin + CELLS - 1, -1):
            self.cells[cell] = self.cells[cell - CELLS]
        self.cells[begin] = 0
        self.cells[begin + TOPIC] = topic
        self.cells[begin + TOPIC_ID] = topic_id

    def copy(self, other: PartitionColumns, at: int) -> int:
        """Append a copy of a partition of ``other``; return its index."""
        to = self.add(NO_TOPIC, 0)
        for column in range(CELLS):
            self.cells[to * CELLS + column] = other.number(at, column)
        return to

    def index_of(self, other: PartitionColumns, at: int, within: int) -> int:
        """Return the index of a partition of ``other`` among the first ``within``; -1 for none.

        If it is there more than once, return the last index.
        """
        return self.index_of_key(
            other.number(at, TOPIC), other.number(at, TOPIC_ID), other.partition(at), within
        )

    def index_of_key(self, topic: int, topic_id: int, partition: int, within: int) -> int:
        """Return the index of a key as :meth:`index_of` does that of a partition."""
        if within > _FEW:
            if self._indexed != within:
                self._note_first(within)
            return self.noted(topic, topic_id, partition)
        for index in range(within - 1, -1, -1):
            if (
                self.partition(index) == partition
                and self.number(index, TOPIC) == topic
                and self.number(index, TOPIC_ID) == topic_id
            ):
                return index
        return -1

    def _note_first(self, within: int) -> None:
        self._entries.clear()
        for index in range(within):
            self.note(self.number(index, TOPIC), self.number(index, TOPIC_ID), index)
        self._indexed = within

    def entry_in(self, keys: KeyTable, first: int, at: int, adds: bool) -> int:
        """Return the entry of a partition in a table, under ``first`` and its own key.

        If it is not there, it is added, or -1 is returned.
        """
        topic, topic_id = self.number(at, TOPIC), self.number(at, TOPIC_ID)
        partition = self.partition(at)
        entry = keys.find(first, topic, topic_id, partition)
        if entry < 0 and adds:
            entry = keys.add(first, topic, topic_id, partition)
        return entry

    def note_all(self) -> int:
        """Note the index of every partition; return how many different ones there are."""
        if self._indexed != self.count:
            self._note_first(self.count)
        return len(self._entries)

    def noted(self, topic: int, topic_id: int, partition: int) -> int:
        """Return the index that was noted for a key; -1 if there is none."""
        entry = self._entries.find(0, topic, topic_id, partition)
        return -1 if entry < 0 else self._places[entry]

    def note(self, topic: int, topic_id: int, index: int) -> None:
        """Note the index of a partition under a topic and an id, which may be others than its own.

        It replaces what was noted before.
        """
        self._indexed = -1
        entry = self._entries.find(0, topic, topic_id, self.partition(index))
        if entry < 0:
            entry = self._entries.add(0, topic, topic_id, self.partition(index))
            if entry >= len(self._places):
                self._places = doubled(self._places)
        self._places[entry] = index

    def __iter__(self) -> Iterator[PartitionSummary]:
        """Iterate over all entries as :class:`PartitionSummary`; this is slow."""
        return iter([_partition_at(self, at) for at in range(self.count)])

    def add_partition(self, summary: PartitionSummary) -> None:
        """Append a partition or topic with all its values."""
        topic, topic_id = summary.topic, summary.topic_id
        at = self.add(self.topics.number_of(topic), self.topics.number_of_id(topic_id))
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
            (PRODUCER_ID, summary.producer_id),
            (PRODUCER_EPOCH, summary.producer_epoch),
            (BASE_SEQUENCE, summary.base_sequence),
            (PREFERRED_READ_REPLICA, summary.preferred_read_replica),
        ):
            if value is not None:
                self.put(at, column, value)


def _begin_of(columns: PartitionColumns, at: int) -> int:
    if not 0 <= at < columns.count:
        raise IndexError("no partition has this index")
    return at * CELLS


def _value_at(columns: PartitionColumns, at: int, column: int) -> int | None:
    return columns.number(at, column) if columns.has(at, column) else None


def _partition_at(columns: PartitionColumns, at: int) -> PartitionSummary:
    codec = _value_at(columns, at, CODEC)
    return PartitionSummary(
        columns.topics.name(columns.number(at, TOPIC)),
        columns.topics.id(columns.number(at, TOPIC_ID)),
        _value_at(columns, at, PARTITION),
        _value_at(columns, at, RECORD_COUNT),
        _value_at(columns, at, RECORD_BYTES),
        _value_at(columns, at, BASE_OFFSET),
        _value_at(columns, at, HIGH_WATERMARK),
        None if codec is None else SEEN_CODECS[codec],
        _value_at(columns, at, ERROR_CODE),
        _value_at(columns, at, LAST_OFFSET),
        _value_at(columns, at, PRODUCER_ID),
        _value_at(columns, at, PRODUCER_EPOCH),
        _value_at(columns, at, BASE_SEQUENCE),
        _value_at(columns, at, PREFERRED_READ_REPLICA),
    )


SessionPartition: TypeAlias = tuple[str | None, bytes, int]
"""Topic name or None, topic id or zeros, partition; as in the messages of the session."""


class FetchSessionUpdate:
    """What a fetch changes in its session.

    Attributes:
        session_id, epoch: values in the request.
        named: partitions that the request names.
        forgotten: partitions that the request removes from the session.
        response_session_id: session id in the response; ``NO_NUMBER`` without a decoded response.
        error_code: the top-level error code of the response.
    """

    def __init__(self, named: PartitionColumns, forgotten: PartitionColumns) -> None:
        self.named = named
        self.forgotten = forgotten
        self.set(0, 0, 0, 0)

    def set(self, session_id: int, epoch: int, response_session_id: int, error_code: int) -> None:
        """Set all that is not partitions."""
        self.session_id = session_id
        self.epoch = epoch
        self.response_session_id = response_session_id
        self.error_code = error_code

    def has_new_id(self) -> bool:
        """Return true if the response has the id of a session."""
        return self.response_session_id not in (0, NO_NUMBER)


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
        pairs: numbers of topic ids, and of the names that the bodies give them.
        session: the fetch session of a Fetch that uses, begins or closes one.
        delivery: of a ShareFetch or heartbeat with a response.
        has_assignments: whether a SyncGroup request has the assignments of the group.
        code: the top-level error code of the response; 0 for none.
        groups: the number of groups in an OffsetFetch, and ``first_group`` the id of the first.
        known: a bit for each of :data:`FIELD_NUMBERS` that has a value, from ``FIRST_TEXT`` on;
            ``numbers`` and ``texts`` are these values.
    """

    def __init__(self, topics: TopicTable) -> None:
        self.topics = topics
        self.partitions = PartitionColumns(topics)
        self.errors: list[tuple[str | None, bytes, int | None, int]] = []
        self.pairs: list[tuple[int, int]] = []
        if not cython.compiled:
            self.numbers = [0] * (_END - FIRST_TEXT)
        self.texts: list[str | None] = [None] * (FIRST_NUMBER - FIRST_TEXT)
        self.clear(self.partitions)

    def clear(self, partitions: PartitionColumns) -> None:
        """Reset all values; use ``partitions`` for topics and partitions."""
        self.partitions = partitions
        if self.errors:
            self.errors = []
        if self.pairs:
            self.pairs = []
        self.session: FetchSessionUpdate | None = None
        self.delivery: Delivery | None = None
        self.has_assignments: bool | None = None
        self.code = 0
        self.groups = 0
        self.first_group: str | None = None
        self.known = 0

    @property
    def names(self) -> list[tuple[bytes, str]]:
        """Topic ids, and the names that the bodies give them."""
        topics = self.topics
        return [(topics.id(number), topics.name(topic) or "") for number, topic in self.pairs]

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

    def number_or(self, field: int, absent: int) -> int:
        """Return a number; ``absent`` if it is absent."""
        return self.numbers[field - FIRST_TEXT] if self.has(field) else absent

    def text(self, field: int) -> str | None:
        """Return a text; None if absent."""
        return self.texts[field - FIRST_TEXT] if self.has(field) else None


def summary_without_ids(topics: TopicTable, partitions: Iterable[Any]) -> ExchangeSummary:
    """Return the summary of an exchange that has no more than partitions and their errors.

    Each is a named tuple of some fields of :class:`PartitionSummary`, without the topic's id.
    """
    summary = ExchangeSummary(topics)
    for fields in partitions:
        part = PartitionSummary(topic_id=NO_UUID, **fields._asdict())
        summary.partitions.add_partition(part)
        if part.error_code:
            summary.errors.append((part.topic, NO_UUID, part.partition, part.error_code))
    return summary


_UNKNOWN_OFFSET = -1
_ROLES = {
    "error": AT_ERROR,
    "topic": AT_TOPIC,
    "topic_id": AT_TOPIC_ID,
    "partition": AT_PARTITION,
    "offset": AT_OFFSET,
    "high_watermark": AT_HIGH_WATERMARK,
    "records": AT_RECORDS,
    "old_offsets": AT_OLD_OFFSETS,
    "topics": AT_TOPICS,
    "partitions": AT_PARTITIONS,
    "forgotten": AT_FORGOTTEN,
    "has_assignments": AT_ASSIGNMENTS,
    "keys": AT_KEYS,
    "requested_group": AT_REQUESTED_GROUP,
    "preferred_replica": AT_PREFERRED_REPLICA,
    **FIELD_NUMBERS,
}
"""Roles of fields as numbers: of struct fields (``AT_``), and the fields of a summary."""


class _StructPlan:
    """How to walk the structs of one shape; made once per shape.

    Attributes:
        count: number of values on the tape; the first ``untagged`` are not tagged. ``fields``,
            ``shapes`` and ``below`` are by value: three numbers, its role, one of the numbers in
            :data:`_ROLES`, the kind of its shape, and how many cells it takes, -1 if that depends;
            the shape; the plan of a nested struct, or of the structs in an array, None for others.
        tagged: by tag, the index of its value; None if there is no tag section.
        goes_below: whether a nested struct has a field that a row needs; ``nested`` are the
            ``nested_count`` indices of such structs.
        nested_tail: index of the last value if it is a nested struct and ends the struct, else -1.
            Such a struct need not be skipped before it is read.
        has_topic, has_topic_id, has_partition, has_code, has_high_watermark, has_preferred_replica:
            whether the struct has such a field in any version.
        has_lists: whether it has a list of topics, or of partitions.
        topic, topic_id, partition, offset, high_watermark, preferred_replica: defaults of fields
            that this version does not have; ``absent`` has those of the summary's
            :data:`.DEFAULTED_FIELDS`.
    """

    def __init__(
        self, level: FieldRoles, shape: Shape, topics: TopicTable, *, by_hand: bool
    ) -> None:
        roles = [role for role, _ in level.fields]
        tags = shape.tags or {}
        fields = list(zip(shape.keys, shape.shapes, strict=True))
        self.untagged = len(fields)
        self.tagged: dict[int, int] | None = None if shape.tags is None else {}
        for tag, field in tags.items():
            assert self.tagged is not None
            self.tagged[tag] = len(fields)
            fields.append(field)
        self.count = len(fields)
        self.shapes: list[Shape] = [field_shape for _, field_shape in fields]
        self.below: list[_StructPlan | None] = []
        numbers = []
        for index, field_shape in fields:
            role, below = level.fields[index]
            number = AT_NOTHING if role is None else _ROLES[role]
            plan = None
            if below is not None and role != "has_assignments":
                struct = field_shape
                while struct.inner is not None:
                    struct = struct.inner
                plan = _StructPlan(below, struct, topics, by_hand=by_hand)
                number = number or AT_BELOW
            self.below.append(plan)
            numbers.append(number)
        self._kept_fields = memoryview(array("i", [0] * (FIELD_CELLS * self.count)))
        for at, (role, each) in enumerate(zip(numbers, self.shapes, strict=True)):
            for place, number in enumerate((role, each.kind, each.cells)):
                self._kept_fields[FIELD_CELLS * at + place] = number
        self.fields: memoryview = words_of(self._kept_fields)
        nested = [index for index, each in enumerate(numbers) if each in (AT_BELOW, AT_FORGOTTEN)]
        self.goes_below = bool(nested)
        self.nested = memoryview(array("i", nested or [0]))
        self.nested_count = len(nested)
        is_last_below = bool(numbers) and numbers[-1] in (AT_BELOW, AT_FORGOTTEN)
        self.nested_tail = self.count - 1 if is_last_below and shape.tags is None else -1
        defaults = {
            role: value
            for role, value in zip(roles, shape.defaults, strict=True)
            if role is not None
        }
        read = set(numbers[: self.untagged])
        self.absent: list[tuple[int, Any]] = [
            (_ROLES[role], value)
            for role, value in defaults.items()
            if role in DEFAULTED_FIELDS and _ROLES[role] not in read
        ]
        self.topic = topics.number_of(defaults.get("topic"))
        self.topic_id = topics.number_of_id(defaults.get("topic_id", NO_UUID))
        self.partition: int = defaults.get("partition", 0)
        self.offset: int = defaults.get("offset", _UNKNOWN_OFFSET)
        self.high_watermark: int = defaults.get("high_watermark", _UNKNOWN_OFFSET)
        self.preferred_replica: int = defaults.get("preferred_replica", _UNKNOWN_OFFSET)
        self.has_topic = "topic" in roles
        self.has_topic_id = "topic_id" in roles
        self.has_partition = "partition" in roles
        self.has_code = "error" in roles
        self.has_high_watermark = "high_watermark" in roles
        self.has_preferred_replica = "preferred_replica" in roles
        self.has_lists = "topics" in roles or "partitions" in roles
        self.has_names = level.has_names
        self.opens_topic = level.opens_topic and not by_hand


class BodyWalk:
    """Walks the bodies of one kind of message, in any version."""

    def __init__(
        self, level: FieldRoles, topics: TopicTable, *, is_request: bool, by_hand: bool = False
    ) -> None:
        """Make a walk for messages with these fields.

        Args:
            level: the roles of the selected fields.
            topics: numbers the topics.
            is_request: whether the messages are requests, whose error codes are not errors of the
                exchange.
            by_hand: whether the fields were selected by hand. Then a partition counts even if its
                topic is not named, a topic without partitions does not count, null record data
                means no records, and an empty text counts as a text.
        """
        self._level = level
        self._topics = topics
        self._is_request = is_request
        self._by_hand = by_hand
        self._plans: dict[Shape, _StructPlan] = {}
        self._generation = topics.generation
        self._last_shape: Shape | None = None
        self._last_plan: _StructPlan
        self._tape: Tape | None = None
        self._end = self._arena_bytes = 0
        self._at = self._arena_at = 0
        self._kept_marks = memoryview(array("q", bytes(8 * 64)))
        self._marks: memoryview = cells_from(self._kept_marks, 0)
        self._used = 0

    def read(
        self,
        encoded: EncodedFields,
        summary: ExchangeSummary,
        partitions: PartitionColumns,
        forgotten: PartitionColumns,
    ) -> None:
        """Add the values of a body to a summary.

        Topics and partitions that a fetch removes from its session are added to ``forgotten``.
        """
        self.read_cells(
            encoded.shape,
            encoded.tape,
            encoded.at,
            encoded.arena_at,
            summary,
            partitions,
            forgotten,
        )

    def read_cells(
        self,
        shape: Shape,
        tape: Tape,
        at: int,
        arena_at: int,
        summary: ExchangeSummary,
        partitions: PartitionColumns,
        forgotten: PartitionColumns,
    ) -> None:
        """Add the values of a body as :meth:`read` does.

        Its cells begin at index ``at`` of a tape, its texts at index ``arena_at`` of the arena.
        """
        if self._generation != self._topics.generation:  # plans have numbers of topics too
            self._generation = self._topics.generation
            self._plans, self._last_shape = {}, None
        if shape is not self._last_shape:  # consecutive messages often have one version
            self._last_plan, self._last_shape = self._plan_of(shape), shape
        plan = self._last_plan
        self._summary, self._partitions, self._forgotten = summary, partitions, forgotten
        if tape is not self._tape:
            self._tape = tape
            self._cells: memoryview = cells_from(tape.cells, 0)
            self._arena: memoryview = texts_from(tape.arena, 0)
            self._end, self._arena_bytes = len(tape.cells), len(tape.arena)
        self._at, self._arena_at = at, arena_at
        self._used = 0
        code = self._struct(plan, NO_TOPIC, 0, 0, False)
        if not self._is_request:
            summary.code = code

    def _plan_of(self, shape: Shape) -> _StructPlan:
        plan = self._plans.get(shape)
        if plan is None:
            plan = _StructPlan(self._level, shape, self._topics, by_hand=self._by_hand)
            self._plans[shape] = plan
        return plan

    def _struct(
        self, plan: _StructPlan, topic: int, topic_id: int, partition: int, in_partition: bool
    ) -> int:
        """Walk a struct; return the first of its error codes that is not 0."""
        first = self._used
        self._used = first + plan.count
        while self._used > len(self._kept_marks):
            self._kept_marks = doubled(self._kept_marks)
            self._marks = cells_from(self._kept_marks, 0)
        self._read_values(plan, first)
        code, end = self._code, self._at
        if plan.has_topic and (topic < 0 or self._topic > 0):
            topic = self._topic
        if plan.has_topic_id and (topic_id == 0 or self._topic_id > 0):
            topic_id = self._topic_id
        if plan.has_partition:
            partition, in_partition = self._partition, True
        if plan.has_names and topic > 0 and topic_id > 0:
            self._summary.pairs.append((topic_id, topic))
        has_topic = self._by_hand or topic > 0 or topic_id > 0
        if plan.has_lists:
            self._lists(plan, first, AT_TOPICS, NO_TOPIC, 0)
        if has_topic and plan.has_partition:
            self._add_partition(plan, topic, topic_id)
        before = self._partitions.count
        if has_topic and plan.has_lists:
            self._lists(plan, first, AT_PARTITIONS, topic, topic_id)
        if plan.goes_below or code != 0:
            self._read_nested(plan, first, topic, topic_id, partition, in_partition, code != 0)
        if plan.nested_tail < 0:
            self._at = end
        if has_topic and plan.opens_topic and (code != 0 or self._partitions.count == before):
            self._add_topic(plan, before, topic, topic_id, code)
        self._used = first
        return code

    def _read_values(self, plan: _StructPlan, first: int) -> None:
        """Read the struct's own values, and note the position of each."""
        self._topic, self._topic_id, self._partition = plan.topic, plan.topic_id, plan.partition
        self._offset, self._high_watermark = plan.offset, plan.high_watermark
        self._preferred_replica = plan.preferred_replica
        self._records_at, self._code = -1, 0
        if plan.absent:
            self._set_absent(plan)
        at = self._at
        for index in range(plan.untagged):
            self._marks[first + index] = at
            if index != plan.nested_tail:
                at = self._read_value(plan, index, at)
        if plan.tagged is not None:
            for index in range(plan.untagged, plan.count):
                self._marks[first + index] = -1
            count = _cell(self, at)
            at += 1
            for _i in range(count):
                place: int = plan.tagged[_cell(self, at)]
                self._marks[first + place] = at + 1
                at = self._read_value(plan, place, at + 1)
        self._at = at

    def _read_value(self, plan: _StructPlan, index: int, at: int) -> int:  # noqa: C901 - one switch
        """Read a value, or skip it if the second walk reads it; return the index of the next."""
        place = FIELD_CELLS * index
        role, cells = plan.fields[place], plan.fields[place + 2]
        value = 0 if cells == 0 else _cell(self, at)  # a struct of which nothing is read has none
        if role == AT_ERROR:
            if self._code == 0:
                self._code = value
        elif role == AT_PARTITION:
            self._partition = value
        elif role == AT_TOPIC:
            self._topic = self._topic_at(at)
        elif role == AT_TOPIC_ID:
            self._topic_id = self._topics.id_number(value, _cell(self, at + 1))
        elif role == AT_OFFSET:
            self._offset = value
        elif role == AT_HIGH_WATERMARK:
            self._high_watermark = value
        elif role == AT_PREFERRED_REPLICA:
            self._preferred_replica = value
        elif role >= FIRST_NUMBER:
            self._summary.set_number(role, value)
        elif role >= FIRST_TEXT:
            self._set_text(role, self._text_at(at))
        elif role == AT_RECORDS:
            self._records_at = at
        elif role == AT_OLD_OFFSETS:
            if value > 0:
                self._offset = _cell(self, at + 1)  # the first offset is the newest
        elif role in (AT_ASSIGNMENTS, AT_KEYS, AT_REQUESTED_GROUP):
            self._read_rare(role, at)
        if cells >= 0:
            return at + cells
        kind = plan.fields[place + 1]
        if kind in (AS_TEXT, AS_BYTES):
            return at + 1 if value < 0 else at + 2
        return self._after(plan.shapes[index], at)

    def _after(self, shape: Shape, at: int) -> int:
        """Return the index of the first cell after a value of a shape."""
        if shape.cells >= 0:
            return at + shape.cells
        kind, count = shape.kind, _cell(self, at)
        if kind in (AS_TEXT, AS_BYTES):
            return at + 1 if count < 0 else at + 2
        if kind == AS_RECORDS:
            return at + 1 if count < 0 else at + RECORDS_CELLS
        inner = shape.inner
        if inner is None:
            return self._after_struct(shape, at)
        if kind == AS_NULLABLE and count >= 0:
            count = 1
        at += 1
        if inner.cells >= 0:
            return at + max(count, 0) * inner.cells
        for _i in range(count):
            at = self._after(inner, at)
        return at

    def _after_struct(self, shape: Shape, at: int) -> int:
        for inner in shape.shapes:
            at = self._after(inner, at)
        if shape.tags is not None:
            count = _cell(self, at)
            at += 1
            for _i in range(count):
                tagged: Any = shape.tags[_cell(self, at)]
                at = self._after(tagged[1], at + 1)
        return at

    def _topic_at(self, at: int) -> int:
        """Return the number of the name at an index."""
        size = _cell(self, at)
        if size < 0:
            return NO_TOPIC
        return self._topics.number(self._arena, _text_begin(self, at, size), size)

    def _text_at(self, at: int) -> str | None:
        """Return the text at an index; None for null."""
        size = _cell(self, at)
        if size < 0:
            return None
        begin = _text_begin(self, at, size)
        return self._topics.texts.text(self._arena, begin, begin + size)

    def _add_topic(
        self, plan: _StructPlan, before: int, topic: int, topic_id: int, code: int
    ) -> None:
        """Add a topic as a whole, before its partitions.

        A topic is added if it has no partitions, or if the topic itself has an error.
        """
        self._partitions.insert(before, topic, topic_id)
        if plan.has_code:
            self._partitions.put(before, ERROR_CODE, code)

    def _add_partition(self, plan: _StructPlan, topic: int, topic_id: int) -> None:
        """Add the partition that a struct describes, with its values."""
        partitions = self._partitions
        at = partitions.add(topic, topic_id)
        partitions.put(at, PARTITION, self._partition)
        if plan.has_code:
            partitions.put(at, ERROR_CODE, self._code)
        if plan.has_high_watermark and self._high_watermark != _UNKNOWN_OFFSET:
            partitions.put(at, HIGH_WATERMARK, self._high_watermark)
        if plan.has_preferred_replica and self._preferred_replica >= 0:
            partitions.put(at, PREFERRED_READ_REPLICA, self._preferred_replica)
        self._add_records(at, self._records_at, self._offset)

    def _read_nested(
        self,
        plan: _StructPlan,
        first: int,
        topic: int,
        topic_id: int,
        partition: int,
        in_partition: bool,
        has_errors: bool,
    ) -> None:
        """Read the error codes of a struct, if one is not 0, and its nested structs, in order."""
        for place in range(plan.count if has_errors else plan.nested_count):
            index = place if has_errors else plan.nested[place]
            at, role = self._marks[first + index], plan.fields[FIELD_CELLS * index]
            if at < 0:
                continue
            if role == AT_ERROR:
                value = _cell(self, at)
                if value != 0 and not self._is_request:
                    name, id_bytes = self._topics.name(topic), self._topics.id(topic_id)
                    number = partition if in_partition else None
                    self._summary.errors.append((name, id_bytes, number, value))
            elif role == AT_BELOW:
                self._at = at
                self._below(plan, index, topic, topic_id, partition, in_partition)
            elif role == AT_FORGOTTEN:
                self._at = at
                partitions, self._partitions = self._partitions, self._forgotten
                self._below(plan, index, topic, topic_id, partition, in_partition)
                self._partitions = partitions

    def _below(
        self,
        plan: _StructPlan,
        index: int,
        topic: int,
        topic_id: int,
        partition: int,
        in_partition: bool,
    ) -> None:
        """Walk a nested struct, or each of an array of them."""
        nested = plan.below[index]
        assert nested is not None
        kind, count = plan.fields[FIELD_CELLS * index + 1], 1
        if kind in (AS_ARRAY, AS_NULLABLE):
            count = _cell(self, self._at)
            self._at += 1
            if kind == AS_NULLABLE and count >= 0:
                count = 1
        for _i in range(count):
            self._struct(nested, topic, topic_id, partition, in_partition)

    def _lists(self, plan: _StructPlan, first: int, role: int, topic: int, topic_id: int) -> None:
        """Add the topics, or the partitions of the current topic, that a struct lists."""
        partitions = self._partitions
        for index in range(plan.count):
            at = self._marks[first + index]
            if plan.fields[FIELD_CELLS * index] != role or at < 0:
                continue
            count = _cell(self, at)
            at += 1
            for _i in range(count):
                if role == AT_PARTITIONS:
                    place = partitions.add(topic, topic_id)
                    partitions.put(place, PARTITION, _cell(self, at))
                    at += 1
                else:
                    name = self._topic_at(at)
                    at += 1 if name < 0 else 2
                    if name > 0:
                        partitions.add(name, 0)

    def _add_records(self, index: int, at: int, offset: int) -> None:
        """Set the records of a partition; without records, set its offset."""
        partitions = self._partitions
        size = _cell(self, at) if at >= 0 else -1
        if size >= 0:
            _cell(self, at + RECORDS_CELLS - 1)  # all are there
            partitions.put(index, RECORD_BYTES, size)
            flags = self._cells[at + 7]
            if not flags & (HIDDEN_COUNT | MISSING_RECORDS):
                partitions.put(index, RECORD_COUNT, self._cells[at + 1])
            if self._cells[at + 4] > 0:
                column = LAST_OFFSET if flags & HIDDEN_FIRST else BASE_OFFSET
                partitions.put(index, column, self._cells[at + 2])
            if self._cells[at + 3]:
                partitions.put(index, CODEC, self._cells[at + 3])
            if self._cells[at + 8] >= 0:
                partitions.put(index, PRODUCER_ID, self._cells[at + 8])
                if self._cells[at + 9] >= 0:
                    partitions.put(index, PRODUCER_EPOCH, self._cells[at + 9])
                if self._cells[at + 10] >= 0:
                    partitions.put(index, BASE_SEQUENCE, self._cells[at + 10])
        elif at >= 0 and self._by_hand:
            partitions.put(index, RECORD_COUNT, 0)
            partitions.put(index, RECORD_BYTES, 0)
        elif offset != _UNKNOWN_OFFSET:
            partitions.put(index, BASE_OFFSET, offset)

    def _set_absent(self, plan: _StructPlan) -> None:
        """Set fields that this version does not have to their defaults."""
        for field, value in plan.absent:
            if field >= FIRST_NUMBER:
                self._summary.set_number(field, value)
            else:
                self._set_text(field, value)

    def _set_text(self, field: int, text: str | None) -> None:
        # A new member joins with an empty id and gets its id in the response.
        if text or self._by_hand:
            self._summary.set_text(field, text)

    def _read_rare(self, role: int, at: int) -> None:
        summary = self._summary
        if role == AT_ASSIGNMENTS:
            summary.has_assignments = _cell(self, at) > 0
        elif role == AT_REQUESTED_GROUP:
            summary.groups += 1
            if summary.groups == 1:
                summary.first_group = self._text_at(at)
        elif _cell(self, at) == 1 and not summary.text(KEY):  # a list with exactly one key
            summary.set_text(KEY, self._text_at(at + 1))


def _cell(walk: BodyWalk, at: int) -> int:
    if not 0 <= at < walk._end:
        raise IndexError("a cell outside of the tape")
    return walk._cells[at]


def _text_begin(walk: BodyWalk, at: int, size: int) -> int:
    """Return where the text of a cell begins in the arena."""
    begin = walk._arena_at + _cell(walk, at + 1)
    if begin < 0 or size > walk._arena_bytes - begin:
        raise IndexError("a text outside of its arena")
    return begin
