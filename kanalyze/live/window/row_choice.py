"""Selects the rows that belong to a line of a table, or that match a pattern of the user.

In: blocks of rows. Out: for each row whether it is selected. Texts are compared after they are
shortened, because the keys of sums have shortened texts.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kanalyze.common.texts import bounded_text
from kanalyze.live.window.row_measures import rows_with_items
from kanalyze.tables.columns.block import Ints
from kanalyze.tables.columns.numpy_arrays import (
    IntArray,
    ListArray,
    WordArray,
    endpoints_of,
    ints_of,
    lists_of,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from kanalyze.tables.columns.block import RowBlock

__all__ = ["RowChoice", "text_matches"]

Mask: TypeAlias = "NDArray[np.bool_]"

_NAMES = ("api_name", "client_id", "client_ip", "group_id", "error_name")
"""Columns with the texts that ``naming`` of :class:`RowChoice` searches."""
_NAMES_OF_ITEMS = (
    ("partitions", "topic"),
    ("partitions", "topic_id"),
    ("errors", "topic"),
    ("errors", "name"),
)


def text_matches(pattern: str, texts: Iterable[str | None]) -> bool:
    """Return true if a text contains a pattern, or matches it if it has ``*``, ``?`` or ``[``.

    Case is ignored. An empty pattern matches everything.
    """
    if not pattern:
        return True
    lowered = pattern.lower()
    lowercase = (text.lower() for text in texts if text is not None)
    if any(char in lowered for char in "*?["):
        return any(fnmatchcase(text, lowered) for text in lowercase)
    return any(lowered in text for text in lowercase)


class RowChoice:
    """Selects rows by their columns and by items of their lists; all conditions must be met."""

    def __init__(
        self,
        columns: Mapping[str, str | int | None] | None = None,
        *,
        topic: tuple[str | None, str | None] | None = None,
        error: Mapping[str, str | int | None] | None = None,
        naming: str = "",
        requests_only: bool = False,
    ) -> None:
        """Store the conditions.

        Args:
            columns: values of columns; the value 0 of ``waited`` also selects unknown values.
            topic: name and id of a topic. A partition or an error of the row must have the name;
                if the name is None, a partition must have the id.
            error: values of fields that one item of ``errors`` must have.
            naming: a pattern for :func:`text_matches`, which an API, client, broker, topic, group
                or error of the row must match; empty for no condition.
            requests_only: True to select no responses without a request.
        """
        self._columns = dict(columns or {})
        self._topic = topic
        self._error = error
        self._naming = naming
        self._requests_only = requests_only

    def __call__(self, block: RowBlock) -> Mask:
        """Return for each row whether it is selected."""
        is_selected = np.ones(len(block), dtype=np.bool_)
        for name, value in self._columns.items():
            is_selected &= _equals(_array(block, name), value, null_is_0=name == "waited")
        if self._requests_only:
            is_selected &= ~_equals(_array(block, "status"), "orphan_response")
        if self._topic is not None:
            is_selected &= _has_topic(block, *self._topic)
        if self._error is not None:
            errors = lists_of(block.columns["errors"])
            is_selected &= _has_item(errors, self._error)
        if self._naming:
            is_selected &= _has_text(block, lambda text: text_matches(self._naming, (text,)))
        return is_selected


def _array(block: RowBlock, name: str) -> IntArray | WordArray:
    column = block.columns[name]
    return ints_of(column) if isinstance(column, Ints) else words_of(column)


def _equals(values: IntArray | WordArray, expected: Any, *, null_is_0: bool = False) -> Mask:
    if isinstance(values, WordArray):
        if expected is None:
            return np.asarray(values.codes < 0)
        return values.where(lambda text: bounded_text(text) == expected)
    numbers, valid = values
    has_value = np.ones(len(numbers), dtype=np.bool_) if valid is None else valid
    if expected is None:
        return ~has_value
    return np.asarray((numbers == int(expected)) & (has_value | (null_is_0 and expected == 0)))


def _has_topic(block: RowBlock, name: str | None, topic_id: str | None) -> Mask:
    partitions = lists_of(block.columns["partitions"])
    if name is None:
        return _has_item(partitions, {"topic": None, "topic_id": topic_id})
    errors = lists_of(block.columns["errors"])
    topic = {"topic": name}
    return _has_item(partitions, topic) | _has_item(errors, topic)


def _has_item(lists: ListArray, values: Mapping[str, str | int | None]) -> Mask:
    """Return which rows have an item with these values."""
    items = np.ones(int(lists.offsets[-1]), dtype=np.bool_)
    for name, value in values.items():
        items &= _equals(lists.fields[name], value)
    return rows_with_items(lists, items)


def _has_text(block: RowBlock, selects: Callable[[str], bool]) -> Mask:
    """Return which rows have a text for which ``selects`` returns true."""
    has_text = np.zeros(len(block), dtype=np.bool_)
    for name in _NAMES:
        has_text |= words_of(block.columns[name]).where(selects)
    ips, ports = words_of(block.columns["broker_ip"]), ints_of(block.columns["broker_port"])
    has_text |= endpoints_of(ips, ports).where(selects)
    for list_name, name in _NAMES_OF_ITEMS:
        lists = lists_of(block.columns[list_name])
        texts = lists.fields[name]
        assert isinstance(texts, WordArray)
        has_text |= rows_with_items(lists, texts.where(selects))
    return has_text
