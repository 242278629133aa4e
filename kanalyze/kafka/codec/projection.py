"""Which fields of a message are selected.

In: field paths as text. Out: :class:`Projection`, a hashable value; and the tree of selected fields
of a message definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.schema.schema_ast import MessageSpec, Struct

__all__ = ["Projection", "Selection", "select"]

Selection: TypeAlias = dict[str, "Selection"]
"""The selected fields of a struct by name; the value of a field that is no struct is empty."""


class _SelectedPaths(NamedTuple):
    paths: tuple[str, ...]
    """Sorted, each once: ``Acks``, ``TopicData.PartitionData.Index``."""
    everything: bool = False
    """Every field, as dicts; ``paths`` is empty."""
    raw_records: bool = False
    """Records fields give their bytes, not a summary."""
    newer: frozenset[str] = frozenset()
    """Those of the paths that were not selected yet when the last format of states was written."""


class Projection(_SelectedPaths):
    """A set of selected fields that is quick to hash. Made by :meth:`of`, or :data:`ALL`."""

    __slots__ = ()

    ALL: ClassVar[Projection]
    """Every field of the version, as nested dicts, records as bytes."""

    @classmethod
    def of(
        cls, *paths: str, raw_records: bool = False, newer: frozenset[str] = frozenset()
    ) -> Projection:
        """Select the fields that ``paths`` name, from the message down, as in its definition.

        The path of a struct, or of an array of structs, selects all its fields. Without paths no
        field is selected: the decoder skips the whole message and gives ``()``. Whether the paths
        exist is checked when the decoder is made.
        """
        return cls(tuple(sorted(set(paths))), raw_records=raw_records, newer=newer)


Projection.ALL = Projection((), everything=True, raw_records=True)


def select(message: MessageSpec, projection: Projection) -> Selection:
    """Return the tree of fields that the projection selects in the message, of any version.

    Raises UsageError for a path that the message doesn't have.
    """
    if projection.everything:
        return _all_fields(message.struct)
    selection: Selection = {}
    for path in projection.paths:
        _add(selection, message, path)
    return selection


def _add(selection: Selection, message: MessageSpec, path: str) -> None:
    struct: Struct | None = message.struct
    at = selection
    names = path.split(".")
    for depth, name in enumerate(names):
        field = None if struct is None else struct.field(name)
        if field is None:
            field_names = ", ".join(_names(struct)) or "nothing"
            unknown = ".".join(names[: depth + 1])
            raise UsageError(f"{message.name} has no field {unknown!r}; there is: {field_names}")
        struct = field.struct
        at = at.setdefault(name, {})
    if struct is not None:
        at.update(_all_fields(struct))


def _all_fields(struct: Struct) -> Selection:
    return {
        field.name: {} if field.struct is None else _all_fields(field.struct)
        for field in struct.fields
    }


def _names(struct: Struct | None) -> Iterator[str]:
    if struct is not None:
        yield from (field.name for field in struct.fields)
