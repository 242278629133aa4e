"""Which fields of which messages a row needs.

In: the catalog of messages. Out: a :class:`~kanalyze.protocol.projection.Projection` for each API
and kind, and where in the decoded values each kind of thing stands. This module must not know how
rows are laid out.

The APIs whose partitions a row lists (Produce, Fetch, ...) have their fields named by hand in
:mod:`kanalyze.analysis.extract`. For all others, what a row wants is found in the definitions
themselves: every ``...ErrorCode`` with the topic and partition around it, the throttle time, the
ids that Kafka's definitions mark with an entity type, and every struct that has both the name and
the id of a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kanalyze.protocol.projection import Projection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.protocol.language import Field, Message

__all__ = ["BodyWalk", "ErrorAt", "ids_in", "projection_of"]

_PARTITION_NAMES = frozenset({"Partition", "PartitionIndex", "PartitionId", "Index"})
_ROLE_OF_ENTITY = {"groupId": "group_id", "transactionalId": "transactional_id"}
_ROLE_OF_NAME = {
    "ThrottleTimeMs": "throttle_time_ms",
    "MemberId": "member_id",
    "GroupId": "group_id",
    "TransactionalId": "transactional_id",
}


ErrorAt: TypeAlias = tuple[str | None, bytes, int | None, int]
"""Topic, topic id, partition and error code; the topic is None or empty and the id all zeros or
empty where the message tells none."""


def role_of(definition: Field) -> str | None:
    """Return what a field is to a row, or None: ``error``, ``topic``, ``partition``, an id."""
    name, kind = (
        definition.name,
        definition.type,
    )  # an array of codes is "[]int16": no code of its own
    if kind == "int16" and name.endswith("ErrorCode"):
        return "error"
    if kind == "string" and definition.entity_type == "topicName":
        return "topic"
    if kind == "uuid" and name == "TopicId":
        return "topic_id"
    if kind == "int32" and name in _PARTITION_NAMES:
        return "partition"
    if kind == "string" and definition.entity_type in _ROLE_OF_ENTITY:
        return _ROLE_OF_ENTITY[definition.entity_type]
    return _ROLE_OF_NAME.get(name)


class _Level(NamedTuple):
    """Where things stand in the tuple of one struct."""

    topic: int | None = None
    topic_id: int | None = None
    partition: int | None = None
    steps: tuple[tuple[int, _Level | None, bool], ...] = ()
    """(index, level below or None for an error code, is an array), in wire order."""
    tells_names: bool = False
    """The struct has a topic's name and its id."""


def _is_wanted(definition: Field) -> bool:
    """Tell whether a row wants anything of a struct: an error code, or names of topic ids."""
    inner = _inner(definition)
    if _tells_names(inner) or any(role_of(one) == "error" for one in inner):
        return True
    return any(_is_wanted(one) for one in inner)


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


def _wanted_fields(fields: Iterable[Field], top: bool) -> Iterator[Field]:
    """Give the fields of one struct that a row wants, in the order of the definition."""
    for definition in fields:
        role = role_of(definition)
        is_id = role in ("group_id", "transactional_id", "member_id", "throttle_time_ms")
        if definition.struct is not None:
            if _is_wanted(definition):
                yield definition
        elif role is not None and (top or not is_id):
            yield definition


def projection_of(message: Message) -> Projection:
    """Return the fields that a row wants of any message."""
    return Projection.of(*_paths(message.struct.fields, "", top=True))


def _paths(fields: Iterable[Field], prefix: str, *, top: bool) -> Iterator[str]:
    for definition in _wanted_fields(fields, top):
        path = prefix + definition.name
        if definition.struct is not None:
            yield from _paths(definition.struct.fields, path + ".", top=False)
        else:
            yield path


def ids_in(message: Message) -> dict[str, int]:
    """Return where in the values of ``projection_of(message)`` the ids of the top level stand.

    Keys: ``group_id``, ``member_id``, ``transactional_id``, ``throttle_time_ms``.
    """
    found: dict[str, int] = {}
    for index, definition in enumerate(_wanted_fields(message.struct.fields, top=True)):
        role = role_of(definition)
        if role in ("group_id", "member_id", "transactional_id", "throttle_time_ms"):
            found.setdefault(role, index)
    return found


class BodyWalk:
    """Collects error codes and names of topics in the values of ``projection_of(message)``."""

    def __init__(self, message: Message) -> None:
        """Find out where they stand in the values of a message."""
        self._level = _level(message.struct.fields, top=True)

    @property
    def finds_names(self) -> bool:
        """Whether the message has names and ids of topics side by side."""
        return _any_names(self._level)

    def __call__(
        self, values: tuple[Any, ...], errors: list[ErrorAt], names: list[tuple[bytes, str]]
    ) -> None:
        """Add every code that is not 0 to ``errors``, and to ``names`` what ids are called.

        Both in wire order.
        """
        _walk(self._level, values, (None, b"", None), errors, names)


def _any_names(level: _Level) -> bool:
    return level.tells_names or any(below and _any_names(below) for _, below, _ in level.steps)


def _level(fields: Iterable[Field], *, top: bool) -> _Level:
    fields = tuple(fields)
    places: dict[str, int] = {}
    steps: list[tuple[int, _Level | None, bool]] = []
    for index, definition in enumerate(_wanted_fields(fields, top)):
        if definition.struct is not None:
            below = _level(definition.struct.fields, top=False)
            steps.append((index, below, definition.is_array))
            continue
        role = role_of(definition)
        if role == "error":
            steps.append((index, None, definition.is_array))
        elif role is not None:
            places.setdefault(role, index)
    return _Level(
        places.get("topic"),
        places.get("topic_id"),
        places.get("partition"),
        tuple(steps),
        _tells_names(fields),
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
    topic, topic_id, partition = around
    if level.topic is not None:
        topic = values[level.topic]
    if level.topic_id is not None:
        topic_id = values[level.topic_id]
    if level.partition is not None:
        partition = values[level.partition]
    return topic, topic_id, partition
