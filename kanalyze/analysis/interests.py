"""Which fields of which messages a row needs.

In: the catalog of messages. Out: a :class:`~kanalyze.protocol.projection.Projection` for each API
and kind, and where in the decoded values each kind of thing stands. This module must not know how
rows are laid out.

The APIs whose partitions a row lists (Produce, Fetch, ...) have their fields named by hand in
:mod:`kanalyze.analysis.extract`. For all others, what a row wants is found in the definitions
themselves: every ``...ErrorCode`` with the topic and partition around it, the throttle time, and
the ids that Kafka's definitions mark with an entity type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kanalyze.protocol.projection import Projection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.protocol.language import Field, Message

__all__ = ["ErrorWalk", "ids_in", "projection_of"]

_PARTITION_NAMES = frozenset({"Partition", "PartitionIndex", "PartitionId", "Index"})
_ROLE_OF_ENTITY = {"groupId": "group_id", "transactionalId": "transactional_id"}
_ROLE_OF_NAME = {
    "ThrottleTimeMs": "throttle_time_ms",
    "MemberId": "member_id",
    "GroupId": "group_id",
    "TransactionalId": "transactional_id",
}


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


@dataclass(frozen=True, slots=True)
class _Level:
    """Where things stand in the tuple of one struct."""

    topic: int | None = None
    topic_id: int | None = None
    partition: int | None = None
    steps: tuple[tuple[int, _Level | None, bool], ...] = ()
    """(index, level below or None for an error code, is an array), in wire order."""


@dataclass(slots=True)
class _Wanted:
    paths: list[str] = field(default_factory=list)
    top: dict[str, int] = field(default_factory=dict)


def _has_error(definition: Field) -> bool:
    if role_of(definition) == "error":
        return True
    return any(_has_error(inner) for inner in _inner(definition))


def _inner(definition: Field) -> tuple[Field, ...]:
    return definition.struct.fields if definition.struct is not None else ()


def _wanted_fields(fields: Iterable[Field], top: bool) -> Iterator[Field]:
    """Give the fields of one struct that a row wants, in the order of the definition."""
    for definition in fields:
        role = role_of(definition)
        is_id = role in ("group_id", "transactional_id", "member_id", "throttle_time_ms")
        if definition.struct is not None:
            if _has_error(definition):
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


class ErrorWalk:
    """Collects the error codes in the values of ``projection_of(message)``, in wire order."""

    def __init__(self, message: Message) -> None:
        """Find out where error codes stand in the values of a message."""
        self._level = _level(message.struct.fields, top=True)

    def __call__(self, values: tuple[Any, ...]) -> list[tuple[str | None, bytes, int | None, int]]:
        """Return (topic, topic id, partition, code) of every code that is not 0.

        The topic is None or empty and the id all zeros where the message tells none.
        """
        found: list[tuple[str | None, bytes, int | None, int]] = []
        _walk(self._level, values, (None, b"", None), found)
        return found


def _level(fields: Iterable[Field], *, top: bool) -> _Level:
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
        places.get("topic"), places.get("topic_id"), places.get("partition"), tuple(steps)
    )


def _walk(
    level: _Level,
    values: tuple[Any, ...],
    around: tuple[str | None, bytes, int | None],
    found: list[tuple[str | None, bytes, int | None, int]],
) -> None:
    topic, topic_id, partition = around
    if level.topic is not None:
        topic = values[level.topic]
    if level.topic_id is not None:
        topic_id = values[level.topic_id]
    if level.partition is not None:
        partition = values[level.partition]
    for index, below, is_array in level.steps:
        value = values[index]
        if below is None:
            if value:
                found.append((topic, topic_id, partition, value))
        elif is_array:
            for element in value or ():
                _walk(below, element, (topic, topic_id, partition), found)
        elif value is not None:
            _walk(below, value, (topic, topic_id, partition), found)
