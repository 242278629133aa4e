"""Columns of wanted fields that are not on the wire.

In: fields of a definition and what is wanted of them. Out: columns of their defaults. Must not know
of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kanalyze.protocol.lockstep_columns import (
    NO_CODEC,
    PLAIN,
    Elements,
    Fields,
    Ids,
    Numbers,
    RecordSets,
    Texts,
    Values,
)

if TYPE_CHECKING:
    from kanalyze.protocol.language import Field, Struct
    from kanalyze.protocol.projection import Selection

__all__ = ["Default", "has_columns"]


class Default(NamedTuple):
    """What a wanted field is where it is not on the wire."""

    field: Field
    selection: Selection
    """What is wanted of the field."""
    raw_records: bool

    def columns(self, count: int) -> Values:
        """Return the columns of ``count`` entries that don't have the field."""
        is_null = self.field.has_null_default
        if self.field.is_array or (self.field.struct is not None and is_null):
            length = -1 if is_null else 0
            return Elements(np.zeros(0, np.int64), np.full(count, length), self.elements(0))
        if self.field.struct is not None:
            return Elements(np.arange(count), np.ones(count, np.int64), self.elements(count))
        return self._plain(count)

    def elements(self, count: int) -> Fields:
        """Return the columns of ``count`` elements, or of structs, that the field is made of."""
        if self.field.struct is None:
            return {PLAIN: self._plain(count)}
        return {
            inner.name: self._replace(field=inner, selection=self.selection[inner.name]).columns(
                count
            )
            for inner in self.field.struct.fields
            if inner.name in self.selection
        }

    def _plain(self, count: int) -> Values:
        zeros = np.zeros(count, np.int64)
        kind = self.field.element_type
        is_null = self.field.has_null_default
        if kind == "uuid":
            return Ids(np.full(count, -1))
        if kind == "records" and not self.raw_records:
            return RecordSets(
                np.full(count, is_null), zeros, zeros, zeros, np.full(count, NO_CODEC)
            )
        if kind in ("string", "bytes", "records"):
            return Texts(zeros, np.full(count, -1 if is_null else 0))
        value = self.field.default
        return Numbers(np.full(count, 0 if value is None else int(value), np.int64))


def has_columns(struct: Struct, selection: Selection) -> bool:
    """Whether all that is wanted can be columns: no floats, no defaults that are texts."""
    return all(
        has_columns(field.struct, selection[field.name])
        if field.struct is not None
        else field.element_type != "float64" and not _has_own_text(field)
        for field in struct.fields
        if field.name in selection
    )


def _has_own_text(field: Field) -> bool:
    return field.type in ("string", "bytes", "records") and bool(field.default)
