"""Which fields of which messages a row needs.

In: the catalog of messages. Out: a :class:`~kanalyze.protocol.projection.Projection` for each API
and kind, and where in the decoded values each kind of thing stands. This module must not know how
rows are laid out.

Some APIs (Produce, Fetch, ...) have their fields named by hand in
:mod:`kanalyze.analysis.extract`. For all others, what a row wants is found in the definitions
themselves: every topic that is named, by name or by id, and every partition of it with what is said
of that; every ``...ErrorCode`` with the topic and partition around it, the throttle time, the ids
that Kafka's definitions mark with an entity type, and every struct that has both the name and the
id of a topic.

Compiled by Cython, with the types in ``interests.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.protocol.projection import Projection

try:
    import cython
except ModuleNotFoundError:  # as in extract.py
    from kanalyze.compiled import cython

if not cython.compiled:
    from kanalyze.analysis.facts import known_offset, new_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.analysis.facts import Part
    from kanalyze.protocol.language import Field, Message

__all__ = ["BodyWalk", "ErrorAt", "ids_in", "projection_of"]

_NO_ID = bytes(16)
_PARTITION_NAMES = frozenset({"Partition", "PartitionIndex", "PartitionId", "Index"})
_PARTITION_LIST_NAMES = frozenset({"Partitions", "PartitionIndexes"})
_LEFT_OUT = frozenset({"ForgottenTopicsData"})
"""Names partitions that a fetch session no longer reads."""
_OFFSET_NAMES = frozenset({"Offset", "CommittedOffset", "StartOffset", "EndOffset"})
_ROLE_OF_ENTITY = {"groupId": "group_id", "transactionalId": "transactional_id"}
_ROLE_OF_NAME = {
    "ThrottleTimeMs": "throttle_time_ms",
    "MemberId": "member_id",
    "GroupId": "group_id",
    "TransactionalId": "transactional_id",
    # Of a ShareFetch: what its response may be held back for.
    "MaxWaitMs": "max_wait_ms",
    "MinBytes": "min_bytes",
    "MaxBytes": "max_bytes",
    "MaxRecords": "max_records",
    "ShareSessionEpoch": "share_epoch",
}


ErrorAt: TypeAlias = tuple[str | None, bytes, int | None, int]
"""Topic, topic id, partition and error code; the topic is None or empty and the id all zeros
where the message tells none."""


def role_of(definition: Field) -> str | None:
    """Return what a field is to a row, or None: ``error``, ``topic``, ``partition``, an id."""
    name, kind, entity = definition.name, definition.type, definition.entity_type
    # An array of codes is "[]int16": no code of its own.
    if kind == "int16" and name.endswith("ErrorCode"):
        return "error"
    if entity == "topicName":
        return {"string": "topic", "[]string": "topics"}.get(kind)
    if kind == "string" and entity in _ROLE_OF_ENTITY:
        return _ROLE_OF_ENTITY[entity]
    found = _ROLE_OF_TYPE_AND_NAME.get((kind, name))
    return _ROLE_OF_NAME.get(name) if found is None else found


_ROLE_OF_TYPE_AND_NAME = {
    ("uuid", "TopicId"): "topic_id",
    **{("int32", name): "partition" for name in _PARTITION_NAMES},
    **{("[]int32", name): "partitions" for name in _PARTITION_LIST_NAMES},
    **{("int64", name): "offset" for name in _OFFSET_NAMES},
    ("int64", "HighWatermark"): "high_watermark",
    ("records", "Records"): "records",
}
_ID_ROLES = frozenset({*_ROLE_OF_ENTITY.values(), *_ROLE_OF_NAME.values()})
_PARTITION_ROLES = frozenset({"partition", "partitions"})
_DETAIL_ROLES = frozenset({"offset", "high_watermark", "records"})


class _Level:
    """Where things stand in the tuple of one struct; -1 for what it does not have.

    Attributes:
        topic, topic_id, partition: their places.
        steps: (place, level below or None for an error code, is an array), in wire order.
        tells_names: the struct has a topic's name and its id.
        topics: arrays of topic names.
        partitions: arrays of partitions of the topic around.
        offset, high_watermark, records: their places.
        opens_topic: the struct names a topic, and no partition of it.
        has_partitions: a topic or a partition of one is named here or below.
    """

    __slots__ = (
        *("topic", "topic_id", "partition", "steps", "tells_names", "topics", "partitions"),
        *("offset", "high_watermark", "records", "opens_topic", "has_partitions"),
    )

    def __init__(
        self,
        places: dict[str, int],
        lists: dict[str, list[int]],
        steps: list[tuple[int, _Level | None, bool]],
        tells_names: bool,
        opens_topic: bool,
        has_partitions: bool,
    ) -> None:
        self.topic = places.get("topic", -1)
        self.topic_id = places.get("topic_id", -1)
        self.partition = places.get("partition", -1)
        self.offset = places.get("offset", -1)
        self.high_watermark = places.get("high_watermark", -1)
        self.records = places.get("records", -1)
        self.steps = steps
        self.tells_names = tells_names
        self.topics, self.partitions = lists["topics"], lists["partitions"]
        self.opens_topic = opens_topic
        self.has_partitions = has_partitions


def _is_wanted(definition: Field, *, in_topic: bool) -> bool:
    """Tell whether a row wants anything of a struct: a code, a topic, a partition of one."""
    if definition.name in _LEFT_OUT:
        return False
    inner = _inner(definition)
    roles = {role_of(one) for one in inner}
    if "error" in roles or "topics" in roles or _tells_names(inner):
        return True
    if _is_cursor(definition):
        return False
    in_topic = in_topic or _names_topic(inner)
    if _names_topic(inner) or (in_topic and roles & _PARTITION_ROLES):
        return True
    return any(_is_wanted(one, in_topic=in_topic) for one in inner if one.struct is not None)


def _names_topic(fields: Iterable[Field]) -> bool:
    return any(role_of(one) in ("topic", "topic_id") for one in fields)


def _is_cursor(definition: Field) -> bool:
    """Tell whether a struct says where a list goes on.

    Topics that a message is about come in arrays; one that stands alone with a partition is a
    position among them.
    """
    roles = {role_of(one) for one in _inner(definition)}
    return not definition.is_array and {"topic", "partition"} <= roles


def _tells_names(fields: Iterable[Field]) -> bool:
    """Tell whether some version has a topic's name and its id side by side."""
    by_role = {role_of(definition): definition for definition in fields}
    topic, topic_id = by_role.get("topic"), by_role.get("topic_id")
    if topic is None or topic_id is None:
        return False
    return max(topic.versions.lowest, topic_id.versions.lowest) <= min(
        topic.versions.highest, topic_id.versions.highest
    )


def _inner(definition: Field) -> tuple[Field, ...]:
    return definition.struct.fields if definition.struct is not None else ()


def _wanted_fields(fields: tuple[Field, ...], *, top: bool, in_topic: bool) -> Iterator[Field]:
    """Give the fields of one struct that a row wants, in the order of the definition."""
    roles = [role_of(definition) for definition in fields]
    is_partition = in_topic and "partition" in roles
    for definition, role in zip(fields, roles, strict=True):
        if definition.struct is not None:
            if _is_wanted(definition, in_topic=in_topic):
                yield definition
        elif role in _ID_ROLES:
            if top:
                yield definition
        elif role in _DETAIL_ROLES:
            if is_partition:
                yield definition
        elif role == "partitions":
            if in_topic:
                yield definition
        elif role is not None:
            yield definition


def projection_of(message: Message) -> Projection:
    """Return the fields that a row wants of any message."""
    return Projection.of(*_paths(message.struct.fields, "", top=True, in_topic=False))


def _paths(fields: tuple[Field, ...], prefix: str, *, top: bool, in_topic: bool) -> Iterator[str]:
    in_topic = in_topic or _names_topic(fields)
    for definition in _wanted_fields(fields, top=top, in_topic=in_topic):
        path = prefix + definition.name
        if definition.struct is not None:
            yield from _paths(definition.struct.fields, path + ".", top=False, in_topic=in_topic)
        else:
            yield path


def ids_in(message: Message) -> dict[str, int]:
    """Return where in the values of ``projection_of(message)`` the ids of the top level stand.

    Keys: ``group_id``, ``member_id``, ``transactional_id``, ``throttle_time_ms``, and what a
    response may be held back for.
    """
    found: dict[str, int] = {}
    fields = message.struct.fields
    wanted = _wanted_fields(fields, top=True, in_topic=_names_topic(fields))
    for index, definition in enumerate(wanted):
        role = role_of(definition)
        if role in _ID_ROLES:
            found.setdefault(role, index)
    return found


class BodyWalk:
    """Collects what the values of ``projection_of(message)`` say of topics, and error codes."""

    __slots__ = ("_level",)

    def __init__(self, message: Message) -> None:
        """Find out where they stand in the values of a message."""
        self._level = _level(message.struct.fields, top=True, in_topic=False)

    @property
    def finds_names(self) -> bool:
        """Whether the message has names and ids of topics side by side."""
        return _any_names(self._level)

    @property
    def finds_partitions(self) -> bool:
        """Whether the message names topics."""
        return self._level.has_partitions

    def __call__(
        self, values: tuple[Any, ...], errors: list[ErrorAt], names: list[tuple[bytes, str]]
    ) -> None:
        """Add every code that is not 0 to ``errors``, and to ``names`` what ids are called.

        Both in wire order.
        """
        _walk(self._level, values, None, _NO_ID, None, errors, names)

    def partitions(self, values: tuple[Any, ...]) -> list[Part]:
        """Return the topics and partitions that are named, in wire order.

        A topic stands as a whole, before its partitions, where none of them is named or where
        something went wrong with the topic itself.
        """
        found: list[Part] = []
        if self._level.has_partitions:
            _collect(self._level, values, None, _NO_ID, found)
        return found


def _any_names(level: _Level) -> bool:
    return level.tells_names or any(below and _any_names(below) for _, below, _ in level.steps)


def _level(fields: tuple[Field, ...], *, top: bool, in_topic: bool) -> _Level:
    in_topic = in_topic or _names_topic(fields)
    places: dict[str, int] = {}
    lists: dict[str, list[int]] = {"topics": [], "partitions": []}
    steps: list[tuple[int, _Level | None, bool]] = []
    wanted = _wanted_fields(fields, top=top, in_topic=in_topic)
    for index, definition in enumerate(wanted):
        role = role_of(definition)
        if definition.struct is not None:
            below = _level(definition.struct.fields, top=False, in_topic=in_topic)
            steps.append((index, below, definition.is_array))
        elif role == "error":
            steps.append((index, None, definition.is_array))
        elif role in lists:
            lists[role].append(index)
        elif role is not None:
            places.setdefault(role, index)
    return _Level(
        places,
        lists,
        steps,
        tells_names=_tells_names(fields),
        opens_topic=_names_topic(fields) and "partition" not in places,
        has_partitions=bool(lists["topics"])
        or _names_topic(fields)
        or (in_topic and ("partition" in places or bool(lists["partitions"])))
        or any(below is not None and below.has_partitions for _, below, _ in steps),
    )


def _walk(
    level: _Level,
    values: tuple[Any, ...],
    topic: str | None,
    topic_id: bytes,
    partition: int | None,
    errors: list[ErrorAt],
    names: list[tuple[bytes, str]],
) -> None:
    topic, topic_id = _topic(level, values, topic), _topic_id(level, values, topic_id)
    if level.partition >= 0:
        partition = values[level.partition]
    if level.tells_names and topic and topic_id != _NO_ID:
        names.append((topic_id, topic))
    for index, below, is_array in level.steps:
        value = values[index]
        if below is None:
            if value:
                errors.append((topic, topic_id, partition, value))
        elif is_array:
            for element in value or ():
                _walk(below, element, topic, topic_id, partition, errors, names)
        elif value is not None:
            _walk(below, value, topic, topic_id, partition, errors, names)


def _topic(level: _Level, values: tuple[Any, ...], around: str | None) -> str | None:
    """Return the topic that a struct names, or the one around it.

    A field that the version does not have is empty, and stands for none: some structs have their
    topic in old versions and stand below it in others.
    """
    if level.topic >= 0 and (around is None or values[level.topic]):
        named: str | None = values[level.topic]
        return named
    return around


def _topic_id(level: _Level, values: tuple[Any, ...], around: bytes) -> bytes:
    """Return the id of the topic that a struct names, as :func:`_topic`."""
    if level.topic_id >= 0 and (around == _NO_ID or values[level.topic_id] != _NO_ID):
        named: bytes = values[level.topic_id]
        return named
    return around


def _collect(
    level: _Level,
    values: tuple[Any, ...],
    topic: str | None,
    topic_id: bytes,
    found: list[Part],
) -> None:
    topic, topic_id = _topic(level, values, topic), _topic_id(level, values, topic_id)
    is_known = bool(topic) or topic_id != _NO_ID
    before = _collect_own(level, values, topic, topic_id, is_known, found)
    for index, below, is_array in level.steps:
        if below is None or not below.has_partitions:
            continue
        value = values[index]
        if value is None:
            continue
        if is_array:
            for element in value:
                _collect(below, element, topic, topic_id, found)
        else:
            _collect(below, value, topic, topic_id, found)
    if is_known and level.opens_topic:
        code = _code(level, values)
        if code or len(found) == before:
            whole = new_part(topic, topic_id, None)
            whole.error_code = code
            found.insert(before, whole)


def _collect_own(
    level: _Level,
    values: tuple[Any, ...],
    topic: str | None,
    topic_id: bytes,
    is_known: bool,
    found: list[Part],
) -> int:
    """Add what a struct names itself; return where its topic as a whole would stand."""
    for place in level.topics:
        for name in values[place] or ():
            if name:
                found.append(new_part(name, _NO_ID, None))  # noqa: PERF401 - compiled
    if is_known and level.partition >= 0:
        found.append(_partition(level, values, topic, topic_id))
    before = len(found)
    if is_known:
        for place in level.partitions:
            for one in values[place] or ():
                found.append(new_part(topic, topic_id, one))  # noqa: PERF401 - as above
    return before


def _partition(level: _Level, values: tuple[Any, ...], topic: str | None, topic_id: bytes) -> Part:
    """Return what a struct says of its partition; a code is the first that is not 0."""
    part = new_part(topic, topic_id, values[level.partition])
    part.error_code = _code(level, values)
    if level.high_watermark >= 0:
        part.high_watermark = known_offset(values[level.high_watermark])
    records = values[level.records] if level.records >= 0 else None
    if records is None:
        if level.offset >= 0:
            part.base_offset = known_offset(values[level.offset])
        return part
    part.record_count = records.record_count
    part.record_bytes = records.record_bytes
    part.base_offset = records.base_offset
    part.codec = records.codec
    part.last_offset = records.last_offset
    return part


def _code(level: _Level, values: tuple[Any, ...]) -> int | None:
    """Return the first error code of a struct that is not 0; None where it has none."""
    found: int | None = None
    for index, below, _ in level.steps:
        if below is None:
            if values[index]:
                code: int = values[index]
                return code
            found = 0
    return found
