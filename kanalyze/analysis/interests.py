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
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kanalyze.protocol.projection import Projection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.protocol.language import Field, Message

__all__ = ["BodyWalk", "ErrorAt", "NamedPartition", "ids_in", "projection_of"]

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


class NamedPartition(NamedTuple):
    """A topic that a message names, or a partition of one, with what the message says of it."""

    topic: str | None
    topic_id: bytes
    """All zeros where the message tells none."""
    partition: int | None
    """None where the topic is named as a whole."""
    error_code: int | None = None
    """The first that is not 0; None where the message tells none at this level."""
    offset: int | None = None
    high_watermark: int | None = None
    records: Any = None
    """What the decoder makes of the records field; None without one."""


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


class _Level(NamedTuple):
    """Where things stand in the tuple of one struct."""

    topic: int | None = None
    topic_id: int | None = None
    partition: int | None = None
    steps: tuple[tuple[int, _Level | None, bool], ...] = ()
    """(index, level below or None for an error code, is an array), in wire order."""
    tells_names: bool = False
    """The struct has a topic's name and its id."""
    topics: tuple[int, ...] = ()
    """Arrays of topic names."""
    partitions: tuple[int, ...] = ()
    """Arrays of partitions of the topic around."""
    details: tuple[int | None, int | None, int | None] = (None, None, None)
    """Offset, high watermark and records."""
    opens_topic: bool = False
    """The struct names a topic, and no partition of it."""
    has_partitions: bool = False
    """A topic or a partition of one is named here or below."""


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
        _walk(self._level, values, (None, _NO_ID, None), errors, names)

    def partitions(self, values: tuple[Any, ...]) -> list[NamedPartition]:
        """Return the topics and partitions that are named, in wire order.

        A topic stands as a whole, before its partitions, where none of them is named or where
        something went wrong with the topic itself.
        """
        found: list[NamedPartition] = []
        if self._level.has_partitions:
            _collect(self._level, values, (None, _NO_ID), found)
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
        places.get("topic"),
        places.get("topic_id"),
        places.get("partition"),
        tuple(steps),
        _tells_names(fields),
        tuple(lists["topics"]),
        tuple(lists["partitions"]),
        (places.get("offset"), places.get("high_watermark"), places.get("records")),
        opens_topic=_names_topic(fields) and "partition" not in places,
        has_partitions=bool(lists["topics"])
        or _names_topic(fields)
        or (in_topic and ("partition" in places or bool(lists["partitions"])))
        or any(below is not None and below.has_partitions for _, below, _ in steps),
    )


def _walk(
    level: _Level,
    values: tuple[Any, ...],
    around: tuple[str | None, bytes, int | None],
    errors: list[ErrorAt],
    names: list[tuple[bytes, str]],
) -> None:
    around = _place(level, values, around)
    if level.tells_names:
        topic, topic_id, _ = around
        if topic and any(topic_id):
            names.append((topic_id, topic))
    for index, below, is_array in level.steps:
        value = values[index]
        if below is None:
            if value:
                errors.append((*around, value))
        elif is_array:
            for element in value or ():
                _walk(below, element, around, errors, names)
        elif value is not None:
            _walk(below, value, around, errors, names)


def _place(
    level: _Level, values: tuple[Any, ...], around: tuple[str | None, bytes, int | None]
) -> tuple[str | None, bytes, int | None]:
    partition = around[2]
    if level.partition is not None:
        partition = values[level.partition]
    return *_topic(level, values, around[0], around[1]), partition


def _topic(
    level: _Level, values: tuple[Any, ...], topic: str | None, topic_id: bytes
) -> tuple[str | None, bytes]:
    """Return the topic that a struct names, or the one around it.

    A field that the version does not have is empty, and stands for none: some structs have their
    topic in old versions and stand below it in others.
    """
    if level.topic is not None and (topic is None or values[level.topic]):
        topic = values[level.topic]
    if level.topic_id is not None and (not any(topic_id) or any(values[level.topic_id])):
        topic_id = values[level.topic_id]
    return topic, topic_id


def _collect(
    level: _Level,
    values: tuple[Any, ...],
    around: tuple[str | None, bytes],
    found: list[NamedPartition],
) -> None:
    topic, topic_id = around = _topic(level, values, *around)
    for index in level.topics:
        found += [NamedPartition(name, _NO_ID, None) for name in values[index] or () if name]
    is_known = bool(topic) or any(topic_id)
    if is_known and level.partition is not None:
        found.append(_partition(level, values, topic, topic_id))
    before = len(found)
    if is_known:
        for index in level.partitions:
            found += [NamedPartition(topic, topic_id, one) for one in values[index] or ()]
    for index, below, is_array in level.steps:
        value = values[index]
        if below is None or not below.has_partitions or value is None:
            continue
        for element in value if is_array else (value,):
            _collect(below, element, around, found)
    if is_known and level.opens_topic:
        code = _code(level, values)
        if code or len(found) == before:
            found.insert(before, NamedPartition(topic, topic_id, None, code))


def _partition(
    level: _Level, values: tuple[Any, ...], topic: str | None, topic_id: bytes
) -> NamedPartition:
    offset, high_watermark, records = (
        None if index is None else values[index] for index in level.details
    )
    assert level.partition is not None
    partition, code = values[level.partition], _code(level, values)
    return NamedPartition(topic, topic_id, partition, code, offset, high_watermark, records)


def _code(level: _Level, values: tuple[Any, ...]) -> int | None:
    """Return the first error code of a struct that is not 0; None where it has none."""
    codes = [values[index] for index, below, _ in level.steps if below is None]
    return next(filter(None, codes), 0) if codes else None
