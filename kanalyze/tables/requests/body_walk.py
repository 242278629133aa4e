"""Walks the decoded fields of a body and collects what a row needs.

In: a :class:`~kanalyze.kafka.codec.values.EncodedFields`, and the role of each of its fields
(:class:`~kanalyze.tables.requests.field_selection.FieldRoles`). Out: numbers, texts, errors and
names in an :class:`~kanalyze.tables.requests.summaries.ExchangeSummary`, topics and partitions in
its :class:`~kanalyze.tables.requests.summaries.PartitionColumns`.

It reads the cells of the tape in place, without making tuples or lists. It walks a struct twice,
because a nested struct may come before the topic that it belongs to: first it reads the struct's
own values, then, in the same order, its error codes and nested structs.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.values import NO_UUID, TapeCursor
from kanalyze.tables.requests.summaries import DEFAULTED_FIELDS, FIELD_NUMBERS

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.codec.opcodes import HIDDEN_COUNT, HIDDEN_FIRST, MISSING_RECORDS
    from kanalyze.kafka.codec.values import AS_ARRAY, AS_NULLABLE
    from kanalyze.tables.requests.summaries import (
        BASE_OFFSET,
        CODEC,
        ERROR_CODE,
        FIRST_NUMBER,
        FIRST_TEXT,
        HIGH_WATERMARK,
        KEY,
        LAST_OFFSET,
        PARTITION,
        RECORD_BYTES,
        RECORD_COUNT,
    )

    AT_NOTHING, AT_ERROR, AT_TOPIC, AT_TOPIC_ID, AT_PARTITION, AT_OFFSET = range(6)
    AT_HIGH_WATERMARK, AT_RECORDS, AT_OLD_OFFSETS, AT_TOPICS, AT_PARTITIONS = range(6, 11)
    AT_BELOW, AT_FORGOTTEN, AT_ASSIGNMENTS, AT_KEYS, AT_REQUESTED_GROUP = range(11, 16)

if TYPE_CHECKING:
    from kanalyze.kafka.codec.values import EncodedFields, Shape
    from kanalyze.tables.requests.field_selection import FieldRoles
    from kanalyze.tables.requests.summaries import ExchangeSummary, PartitionColumns

__all__ = ["BodyWalk"]

_UNKNOWN_OFFSET = -1
_ROLES = {
    "error": 1,
    "topic": 2,
    "topic_id": 3,
    "partition": 4,
    "offset": 5,
    "high_watermark": 6,
    "records": 7,
    "old_offsets": 8,
    "topics": 9,
    "partitions": 10,
    "forgotten": 12,
    "has_assignments": 13,
    "keys": 14,
    "requested_group": 15,
    **FIELD_NUMBERS,
}
"""Roles of fields as numbers: those in ``body_walk.pxd``, and the fields of a summary."""
_BELOW = 11


class _ValueStep:
    """How to read one value of a struct on the tape.

    Attributes:
        role: one of the numbers in :data:`_ROLES`.
        index: its number in the struct; tagged fields come after all others.
        shape: its layout on the tape.
        below: the plan of a nested struct, or of the structs in an array; None for other values.
    """

    __slots__ = ("below", "index", "role", "shape")

    def __init__(self, role: int, index: int, shape: Shape, below: _StructPlan | None) -> None:
        self.role = role
        self.index = index
        self.shape = shape
        self.below = below


class _StructPlan:
    """How to walk the structs of one shape; made once per shape.

    Attributes:
        steps: a step for each value on the tape; the first ``untagged`` are not tagged.
        tagged: steps of tagged fields, by tag; None if there is no tag section.
        goes_below: whether a nested struct has a field that a row needs.
        nested_tail: index of the last step if it is a nested struct and ends the struct, else -1.
            Such a struct need not be skipped before it is read.
        has_topic, has_topic_id, has_partition, has_code, has_high_watermark: whether the struct
            has such a field in any version.
        has_lists: whether it has a list of topics, or of partitions.
        topic, topic_id, partition, offset, high_watermark: defaults of fields that this version
            does not have; ``absent`` has those of the summary's :data:`.DEFAULTED_FIELDS`.
    """

    __slots__ = (
        *(
            "absent",
            "count",
            "goes_below",
            "has_code",
            "has_high_watermark",
            "has_lists",
            "has_partition",
        ),
        *("has_topic", "has_topic_id", "high_watermark", "offset", "opens_topic"),
        *("partition", "nested_tail", "steps", "tagged", "has_names", "topic", "topic_id"),
        "untagged",
    )

    def __init__(self, level: FieldRoles, shape: Shape, *, by_hand: bool) -> None:
        roles = [role for role, _ in level.fields]
        self.steps: list[_ValueStep] = []
        self.tagged: dict[int, _ValueStep] | None = None if shape.tags is None else {}
        for index, field_shape in zip(shape.keys, shape.shapes, strict=True):
            self._add(level, index, field_shape, by_hand=by_hand)
        self.untagged = len(self.steps)
        for tag, (index, field_shape) in (shape.tags or {}).items():
            assert self.tagged is not None
            self.tagged[tag] = self._add(level, index, field_shape, by_hand=by_hand)
        self.count = len(self.steps)
        self.goes_below = any(step.role in (_BELOW, _ROLES["forgotten"]) for step in self.steps)
        last = self.steps[-1] if self.steps and shape.tags is None else None
        is_below = last is not None and last.role in (_BELOW, _ROLES["forgotten"])
        self.nested_tail = self.count - 1 if is_below else -1
        defaults = {
            role: value
            for role, value in zip(roles, shape.defaults, strict=True)
            if role is not None
        }
        read = {step.role for step in self.steps[: self.untagged]}
        self.absent: list[tuple[int, Any]] = [
            (_ROLES[role], value)
            for role, value in defaults.items()
            if role in DEFAULTED_FIELDS and _ROLES[role] not in read
        ]
        self.topic: str | None = defaults.get("topic")
        absent_id: bytes = defaults.get("topic_id", NO_UUID)
        self.topic_id = NO_UUID if absent_id == NO_UUID else absent_id
        self.partition: int = defaults.get("partition", 0)
        self.offset: int = defaults.get("offset", _UNKNOWN_OFFSET)
        self.high_watermark: int = defaults.get("high_watermark", _UNKNOWN_OFFSET)
        self.has_topic = "topic" in roles
        self.has_topic_id = "topic_id" in roles
        self.has_partition = "partition" in roles
        self.has_code = "error" in roles
        self.has_high_watermark = "high_watermark" in roles
        self.has_lists = "topics" in roles or "partitions" in roles
        self.has_names = level.has_names
        self.opens_topic = level.opens_topic and not by_hand

    def _add(self, level: FieldRoles, index: int, shape: Shape, *, by_hand: bool) -> _ValueStep:
        role, below = level.fields[index]
        number = 0 if role is None else _ROLES[role]
        plan = None
        if below is not None and role != "has_assignments":
            struct = shape
            while struct.inner is not None:
                struct = struct.inner
            plan = _StructPlan(below, struct, by_hand=by_hand)
            number = number or _BELOW
        step = _ValueStep(number, len(self.steps), shape, plan)
        self.steps.append(step)
        return step


class BodyWalk:
    """Walks the bodies of one kind of message, in any version."""

    __slots__ = (
        *("_by_hand", "_code", "_cursor", "_summary", "_forgotten", "_high_watermark"),
        *("_is_request", "_last_plan", "_last_shape", "_level", "_marks", "_offset", "_partition"),
        *("_partitions", "_plans", "_records_at", "_topic", "_topic_id", "_used"),
    )

    def __init__(
        self, level: FieldRoles, cursor: TapeCursor, *, is_request: bool, by_hand: bool = False
    ) -> None:
        """Make a walk for messages with these fields.

        Args:
            level: the roles of the selected fields.
            cursor: reads tapes; shared, because it caches texts.
            is_request: whether the messages are requests, whose error codes are not errors of the
                exchange.
            by_hand: whether the fields were selected by hand. Then a partition counts even if its
                topic is not named, a topic without partitions does not count, null record data
                means no records, and an empty text counts as a text.
        """
        self._level = level
        self._cursor = cursor
        self._is_request = is_request
        self._by_hand = by_hand
        self._plans: dict[Shape, _StructPlan] = {}
        self._last_shape: Shape | None = None
        self._last_plan: _StructPlan
        self._marks = memoryview(array("q", bytes(8 * 64)))
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
        if encoded.shape is not self._last_shape:  # consecutive messages often have one version
            self._last_plan, self._last_shape = self._plan_of(encoded.shape), encoded.shape
        plan = self._last_plan
        self._summary, self._partitions, self._forgotten = summary, partitions, forgotten
        self._used = 0
        self._cursor.begin(encoded)
        code = self._struct(plan, None, NO_UUID, 0, False)
        if not self._is_request:
            summary.code = code

    def _plan_of(self, shape: Shape) -> _StructPlan:
        plan = self._plans.get(shape)
        if plan is None:
            plan = self._plans[shape] = _StructPlan(self._level, shape, by_hand=self._by_hand)
        return plan

    def _struct(
        self,
        plan: _StructPlan,
        topic: str | None,
        topic_id: bytes,
        partition: int,
        in_partition: bool,
    ) -> int:
        """Walk a struct; return the first of its error codes that is not 0."""
        first = self._used
        self._used = first + plan.count
        if self._used > len(self._marks):
            self._make_room(self._used)
        self._read_values(plan, first)
        code, end = self._code, self._cursor.at
        if plan.has_topic and (topic is None or self._topic):
            topic = self._topic
        if plan.has_topic_id and (topic_id is NO_UUID or self._topic_id is not NO_UUID):
            topic_id = self._topic_id
        if plan.has_partition:
            partition, in_partition = self._partition, True
        if plan.has_names and topic and topic_id is not NO_UUID:
            self._summary.names.append((topic_id, topic))
        has_topic = self._by_hand or bool(topic) or topic_id is not NO_UUID
        if plan.has_lists:
            self._lists(plan, first, AT_TOPICS, None, NO_UUID)
        if has_topic and plan.has_partition:
            self._add_partition(plan, topic, topic_id)
        before = self._partitions.count
        if has_topic and plan.has_lists:
            self._lists(plan, first, AT_PARTITIONS, topic, topic_id)
        if plan.goes_below or code != 0:
            self._read_nested(plan, first, topic, topic_id, partition, in_partition)
        if plan.nested_tail < 0:
            self._cursor.at = end
        if has_topic and plan.opens_topic and (code != 0 or self._partitions.count == before):
            self._add_topic(plan, before, topic, topic_id, code)
        self._used = first
        return code

    def _read_values(self, plan: _StructPlan, first: int) -> None:
        """Read the struct's own values, and note the position of each."""
        cursor = self._cursor
        self._topic, self._topic_id, self._partition = plan.topic, plan.topic_id, plan.partition
        self._offset, self._high_watermark = plan.offset, plan.high_watermark
        self._records_at, self._code = -1, 0
        if plan.absent:
            self._set_absent(plan)
        for index in range(plan.untagged):
            step = plan.steps[index]
            self._marks[first + index] = cursor.at
            if index != plan.nested_tail:
                self._read_value(step)
        if plan.tagged is None:
            return
        for index in range(plan.untagged, plan.count):
            self._marks[first + index] = -1
        count = cursor.number()
        for _i in range(count):
            step = plan.tagged[cursor.number()]
            self._marks[first + step.index] = cursor.at
            self._read_value(step)

    def _read_value(self, step: _ValueStep) -> None:  # noqa: C901 - one switch
        """Read a value, or skip it if the second walk reads it."""
        cursor, role = self._cursor, step.role
        if role == AT_ERROR:
            code = cursor.number()
            if self._code == 0:
                self._code = code
        elif role == AT_PARTITION:
            self._partition = cursor.number()
        elif role == AT_TOPIC:
            self._topic = cursor.text()
        elif role == AT_TOPIC_ID:
            self._topic_id = cursor.uuid()
        elif role == AT_OFFSET:
            self._offset = cursor.number()
        elif role == AT_HIGH_WATERMARK:
            self._high_watermark = cursor.number()
        elif role >= FIRST_NUMBER:
            self._summary.set_number(role, cursor.number())
        elif role >= FIRST_TEXT:
            self._set_text(role, cursor.text())
        elif role in (AT_ASSIGNMENTS, AT_KEYS, AT_REQUESTED_GROUP):
            self._read_rare(step)
        else:
            if role == AT_RECORDS:
                self._records_at = cursor.at
            elif role == AT_OLD_OFFSETS and cursor.peek(cursor.at) > 0:
                self._offset = cursor.peek(cursor.at + 1)  # the first offset is the newest
            cursor.pass_value(step.shape)

    def _add_topic(
        self, plan: _StructPlan, before: int, topic: str | None, topic_id: bytes, code: int
    ) -> None:
        """Add a topic as a whole, before its partitions.

        A topic is added if it has no partitions, or if the topic itself has an error.
        """
        self._partitions.insert(before, topic, topic_id)
        if plan.has_code:
            self._partitions.put(before, ERROR_CODE, code)

    def _add_partition(self, plan: _StructPlan, topic: str | None, topic_id: bytes) -> None:
        """Add the partition that a struct describes, with its values."""
        partitions = self._partitions
        at = partitions.add(topic, topic_id)
        partitions.put(at, PARTITION, self._partition)
        if plan.has_code:
            partitions.put(at, ERROR_CODE, self._code)
        if plan.has_high_watermark and self._high_watermark != _UNKNOWN_OFFSET:
            partitions.put(at, HIGH_WATERMARK, self._high_watermark)
        self._add_records(at, self._records_at, self._offset)

    def _read_nested(
        self,
        plan: _StructPlan,
        first: int,
        topic: str | None,
        topic_id: bytes,
        partition: int,
        in_partition: bool,
    ) -> None:
        """Read the error codes of a struct and its nested structs, in their order."""
        cursor = self._cursor
        for index in range(plan.count):
            at = self._marks[first + index]
            if at < 0:
                continue
            step = plan.steps[index]
            if step.role == AT_ERROR:
                value = cursor.peek(at)
                if value != 0 and not self._is_request:
                    number = partition if in_partition else None
                    self._summary.errors.append((topic, topic_id, number, value))
            elif step.role == AT_BELOW:
                cursor.at = at
                self._below(step, topic, topic_id, partition, in_partition)
            elif step.role == AT_FORGOTTEN:
                cursor.at = at
                partitions, self._partitions = self._partitions, self._forgotten
                self._below(step, topic, topic_id, partition, in_partition)
                self._partitions = partitions

    def _below(
        self,
        step: _ValueStep,
        topic: str | None,
        topic_id: bytes,
        partition: int,
        in_partition: bool,
    ) -> None:
        """Walk a nested struct, or each of an array of them."""
        plan = step.below
        assert plan is not None
        kind, count = step.shape.kind, 1
        if kind in (AS_ARRAY, AS_NULLABLE):
            count = self._cursor.number()
            if kind == AS_NULLABLE and count >= 0:
                count = 1
        for _i in range(count):
            self._struct(plan, topic, topic_id, partition, in_partition)

    def _lists(
        self, plan: _StructPlan, first: int, role: int, topic: str | None, topic_id: bytes
    ) -> None:
        """Add the topics, or the partitions of the current topic, that a struct lists."""
        cursor, partitions = self._cursor, self._partitions
        for index in range(plan.count):
            at = self._marks[first + index]
            step = plan.steps[index]
            if step.role != role or at < 0:
                continue
            cursor.at = at
            count = cursor.number()
            for _i in range(count):
                if role == AT_PARTITIONS:
                    place = partitions.add(topic, topic_id)
                    partitions.put(place, PARTITION, cursor.number())
                else:
                    name = cursor.text()
                    if name:
                        partitions.add(name, NO_UUID)

    def _add_records(self, index: int, at: int, offset: int) -> None:
        """Set the records of a partition; without records, set its offset."""
        partitions, cursor = self._partitions, self._cursor
        size = cursor.peek(at) if at >= 0 else -1
        if size < 0:
            if at >= 0 and self._by_hand:
                partitions.put(index, RECORD_COUNT, 0)
                partitions.put(index, RECORD_BYTES, 0)
            elif offset != _UNKNOWN_OFFSET:
                partitions.put(index, BASE_OFFSET, offset)
            return
        partitions.put(index, RECORD_BYTES, size)
        flags = cursor.peek(at + 7)
        if not flags & (HIDDEN_COUNT | MISSING_RECORDS):
            partitions.put(index, RECORD_COUNT, cursor.peek(at + 1))
        if cursor.peek(at + 4) > 0:
            column = LAST_OFFSET if flags & HIDDEN_FIRST else BASE_OFFSET
            partitions.put(index, column, cursor.peek(at + 2))
        codec_and_seen = cursor.peek(at + 3)
        if codec_and_seen:
            partitions.put(index, CODEC, codec_and_seen)

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

    def _read_rare(self, step: _ValueStep) -> None:
        cursor, summary = self._cursor, self._summary
        if step.role == AT_ASSIGNMENTS:
            summary.has_assignments = cursor.peek(cursor.at) > 0
            cursor.pass_value(step.shape)
        elif step.role == AT_REQUESTED_GROUP:
            group = cursor.text()
            summary.groups += 1
            if summary.groups == 1:
                summary.first_group = group
        else:
            self._read_keys(step)

    def _read_keys(self, step: _ValueStep) -> None:
        """Set the key if the list has exactly one."""
        cursor, summary = self._cursor, self._summary
        end = cursor.at
        cursor.pass_value(step.shape)
        end, cursor.at = cursor.at, end
        if cursor.number() == 1 and not summary.text(KEY):
            summary.set_text(KEY, cursor.text())
        cursor.at = end

    def _make_room(self, least: int) -> None:
        """Make room for at least ``least`` more marks."""
        marks: Any = array("q", self._marks) + array("q", bytes(8 * least))
        self._marks = memoryview(marks)
