"""Selects the fields of messages that a row needs, and gives each of them a role.

In: the catalog of messages. Out: a :class:`~kanalyze.kafka.codec.compiler.Projection` for each
API and kind, and a :class:`FieldRoles`: the role of every selected field.

Some APIs (Produce, Fetch, ...) have a list of fields in :mod:`kanalyze.tables.requests.extract`.
For all others the definitions decide. Fields that columns are declared to have
(:func:`~kanalyze.spec.columns.from_field`) are selected in all of them. Selected by rules are:
every topic, by name or by id; its partitions, with offset, high watermark and records; every
``...ErrorCode``, which belongs to the topic and partition around it; and every struct that has both
the name and the id of a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.codec.compiler import Projection, select
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kanalyze.kafka.codec.compiler import Selection
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec

_PARTITION_NAMES = frozenset({"Partition", "PartitionIndex", "PartitionId", "Index"})
_PARTITION_LIST_NAMES = frozenset({"Partitions", "PartitionIndexes"})
_SKIPPED_STRUCTS = frozenset({"ForgottenTopicsData"})
"""The field with the partitions that a fetch removes from its session."""
_OFFSET_NAMES = frozenset({"Offset", "CommittedOffset", "StartOffset", "EndOffset"})
_COLUMNS = {column.name: column.field for column in COLUMNS if column.field is not None}
_ROLE_OF_ENTITY = {field.entity: name for name, field in _COLUMNS.items() if field.entity}
_COLUMN_OF_NAME = {
    path.removeprefix("*."): name
    for name, field in _COLUMNS.items()
    for path in field.paths
    if path.startswith("*.")
}
_ROLE_OF_NAME = {
    **_COLUMN_OF_NAME,
    # Of a ShareFetch: the limits up to which its response may be held back.
    "MaxBytes": "max_bytes",
    "MaxRecords": "max_records",
    "ShareSessionEpoch": "share_epoch",
    # Of a JoinGroup: how long its response may be held back.
    "RebalanceTimeoutMs": "rebalance_timeout_ms",
    "SessionTimeoutMs": "session_timeout_ms",
}


def role_of(definition: Field) -> str | None:
    """Return the role of a field in a row: ``error``, ``topic``, ``partition``, an id; or None."""
    name, kind, entity = definition.name, definition.type, definition.entity_type
    # An array of codes has type "[]int16" and is not a code.
    if kind == "int16" and name.endswith("ErrorCode"):
        return "error"
    if entity == "topicName":
        return {"string": "topic", "[]string": "topics"}.get(kind)
    if kind == "string" and entity in _ROLE_OF_ENTITY:
        return _ROLE_OF_ENTITY[entity]
    role = _ROLE_OF_TYPE_AND_NAME.get((kind, name))
    return _ROLE_OF_NAME.get(name) if role is None else role


_ROLE_OF_TYPE_AND_NAME = {
    ("uuid", "TopicId"): "topic_id",
    **{("int32", name): "partition" for name in _PARTITION_NAMES},
    **{("[]int32", name): "partitions" for name in _PARTITION_LIST_NAMES},
    **{("int64", name): "offset" for name in _OFFSET_NAMES},
    ("int64", "HighWatermark"): "high_watermark",
    ("int32", "PreferredReadReplica"): "preferred_replica",
    ("records", "Records"): "records",
}
_TOPIC_ROLES = frozenset({"topic", "topic_id"})
_ID_ROLES = frozenset({*_ROLE_OF_ENTITY.values(), *_ROLE_OF_NAME.values()})
_PARTITION_ROLES = frozenset({"partition", "partitions"})
_DETAIL_ROLES = frozenset({"offset", "high_watermark", "preferred_replica", "records"})


class FieldRoles:
    """The roles of the selected fields of one struct.

    Attributes:
        fields: for each selected field, in the order of the definition: its role, and the roles of
            the fields of its struct. The role is None if a row does not use the field itself.
        has_names: whether the struct has both a topic's name and its id.
        opens_topic: whether it names a topic, but no partition.
        has_partitions: whether it or a nested struct names a topic or a partition.
    """

    __slots__ = ("fields", "has_names", "has_partitions", "opens_topic")

    def __init__(
        self,
        fields: list[tuple[str | None, FieldRoles | None]],
        *,
        has_names: bool,
        opens_topic: bool,
        in_topic: bool,
    ) -> None:
        self.fields = fields
        self.has_names = has_names
        self.opens_topic = opens_topic
        roles = {role for role, _ in fields}
        nested = [level for _, level in fields if level is not None]
        self.has_partitions: bool = (
            "topics" in roles
            or not roles.isdisjoint(_TOPIC_ROLES)
            or (in_topic and not roles.isdisjoint(_PARTITION_ROLES))
            or any(level.has_partitions for level in nested)
        )

    @property
    def finds_names(self) -> bool:
        """True if this struct or a nested one has both the name and the id of a topic."""
        return self.has_names or any(
            level is not None and level.finds_names for _, level in self.fields
        )


def _is_selected(definition: Field, *, in_topic: bool) -> bool:
    """Return true if a row needs this field: an error code, a topic, a partition or its values."""
    if definition.name in _SKIPPED_STRUCTS:
        return False
    inner = _inner(definition)
    roles = {role_of(field) for field in inner}
    if "error" in roles or "topics" in roles or _has_names(inner):
        return True
    if _is_cursor(definition):
        return False
    in_topic = in_topic or _names_topic(inner)
    if _names_topic(inner) or (in_topic and roles & _PARTITION_ROLES):
        return True
    return any(
        _is_selected(field, in_topic=in_topic) for field in inner if field.struct is not None
    )


def _names_topic(fields: Iterable[Field]) -> bool:
    return any(role_of(field) in ("topic", "topic_id") for field in fields)


def _is_cursor(definition: Field) -> bool:
    """Return true if a struct is a cursor: the position where the next response continues.

    A message has the topics that it is about in arrays. A single topic with a partition is a
    cursor.
    """
    roles = {role_of(field) for field in _inner(definition)}
    return not definition.is_array and {"topic", "partition"} <= roles


def _has_names(fields: Iterable[Field]) -> bool:
    """Return true if some version has both the name and the id of a topic."""
    by_role = {role_of(definition): definition for definition in fields}
    topic, topic_id = by_role.get("topic"), by_role.get("topic_id")
    if topic is None or topic_id is None:
        return False
    return max(topic.versions.lowest, topic_id.versions.lowest) <= min(
        topic.versions.highest, topic_id.versions.highest
    )


def _inner(definition: Field) -> tuple[Field, ...]:
    return definition.struct.fields if definition.struct is not None else ()


def _selected_fields(fields: tuple[Field, ...], *, top: bool, in_topic: bool) -> Iterator[Field]:
    """Yield the fields of one struct that a row needs, in the order of the definition."""
    roles = [role_of(definition) for definition in fields]
    is_partition = in_topic and "partition" in roles
    for definition, role in zip(fields, roles, strict=True):
        if definition.struct is not None:
            if _is_selected(definition, in_topic=in_topic):
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


def projection_of(message: MessageSpec, by_hand: tuple[str, ...] | None = None) -> Projection:
    """Return the fields that a row needs of a message.

    ``by_hand`` are paths of fields in place of those that are selected by rules. Fields that
    columns are declared to have are selected either way.
    """
    paths = by_hand
    if paths is None:
        paths = tuple(_paths(message.struct.fields, "", top=True, in_topic=False))
    for_columns = [field.name for field in message.struct.fields if field.name in _COLUMN_OF_NAME]
    return Projection.of(*paths, *for_columns, *_declared(message))


def _declared(message: MessageSpec) -> dict[str, str]:
    """Return the paths that columns name in this very message, with the columns."""
    prefix = message.name + "."
    return {
        path.removeprefix(prefix): name
        for name, field in _COLUMNS.items()
        for path in field.paths
        if path.startswith(prefix)
    }


def newer_columns(message: MessageSpec) -> frozenset[str]:
    """Return the paths that are selected for columns newer than the last format of states."""
    return frozenset(path for path, name in _declared(message).items() if _COLUMNS[name].is_newer)


def _paths(fields: tuple[Field, ...], prefix: str, *, top: bool, in_topic: bool) -> Iterator[str]:
    in_topic = in_topic or _names_topic(fields)
    for definition in _selected_fields(fields, top=top, in_topic=in_topic):
        path = prefix + definition.name
        if definition.struct is not None:
            yield from _paths(definition.struct.fields, path + ".", top=False, in_topic=in_topic)
        else:
            yield path


def field_roles(
    message: MessageSpec,
    projection: Projection,
    by_hand: Mapping[str, str] | None = None,
    read: Projection | None = None,
) -> FieldRoles:
    """Return the roles of the selected fields of a message.

    Args:
        message: the definition.
        projection: the selected fields.
        by_hand: roles by path, for fields whose role does not follow from the definition.
        read: all fields that are decoded; those that are not selected have no role. None if only
            selected fields are decoded.
    """
    selected = select(message, projection)
    decoded = selected if read is None else select(message, read)
    roles = {**_declared(message), **(by_hand or {})}
    return _level(message.struct.fields, selected, decoded, "", roles, in_topic=False)


def _level(
    fields: tuple[Field, ...],
    selection: Selection,
    read: Selection,
    prefix: str,
    by_hand: Mapping[str, str],
    *,
    in_topic: bool,
) -> FieldRoles:
    in_topic = in_topic or _names_topic(fields)
    fields_and_levels: list[tuple[str | None, FieldRoles | None]] = []
    roles_seen: set[str] = set()
    for definition in fields:
        name = definition.name
        if name not in read:
            continue
        if name not in selection:
            fields_and_levels.append((None, None))
            continue
        path = prefix + name
        role = by_hand.get(path) or role_of(definition)
        nested = None
        if definition.struct is not None:
            nested = _level(
                definition.struct.fields,
                selection[name],
                read[name],
                path + ".",
                by_hand,
                in_topic=in_topic,
            )
        # If two fields have the same role, only the first counts; error codes and lists all count.
        elif role in roles_seen and role not in _REPEATABLE:
            role = None
        elif role is not None:
            roles_seen.add(role)
        fields_and_levels.append((role, nested))
    return FieldRoles(
        fields_and_levels,
        has_names=_has_names(fields),
        opens_topic=_names_topic(fields) and "partition" not in roles_seen,
        in_topic=in_topic,
    )


_REPEATABLE = frozenset({"error", "topics", "partitions"})
