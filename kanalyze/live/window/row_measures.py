"""What is summed up and chosen by: arrays with an entry for each row, partition or error.

In: columns of rows. Out: :class:`RowMeasures`, the items of their lists; for each row whether it
belongs to a line of a table, or matches a pattern of the user (:class:`RowChoice`).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kanalyze.common.texts import bounded_text
from kanalyze.live.window.sums import GroupedRows, key_of
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

    from kanalyze.tables.columns.block import ColumnValues, RowBlock

_PRODUCE_APIS = frozenset({"Produce", "MultiProduce"})
_FETCH_APIS = frozenset({"Fetch", "MultiFetch", "ShareFetch"})
_JOIN_APIS = frozenset({"JoinGroup"})


def held_back_on_purpose(columns: Mapping[str, ColumnValues]) -> NDArray[np.bool_]:
    """Return for each row whether the response was held back on purpose; false if unknown."""
    waited: NDArray[np.bool_] = ints_of(columns["waited"]).values != 0
    return waited


class NamedItems:
    """Arrays of one length, by name."""

    def __getitem__(self, name: str) -> Any:
        """Return an array."""
        return getattr(self, name)


class RowMeasures(NamedItems):
    """Measures of rows, each an array with an entry for each row."""

    client_app: WordArray
    client_zone: WordArray
    """By the names of addresses; set where there are some."""

    def __init__(self, columns: Mapping[str, ColumnValues]) -> None:
        """Measure rows; ``columns`` need not contain columns that are not used."""
        self._columns = columns
        status, api_name = self.words("status"), self.words("api_name")
        self.is_orphan = status.is_one_of({"orphan_response"})
        self.is_request = ~self.is_orphan
        self.is_error = status.is_one_of({"error"})
        is_malformed = status.is_one_of({"malformed"})
        self.is_unread = is_malformed & self.known("response_start_ns") & ~self.known("error_code")
        """True if there is a response whose error codes were not read."""
        self.is_join = api_name.is_one_of(_JOIN_APIS)
        self.is_produce = api_name.is_one_of(_PRODUCE_APIS)
        self.is_fetch = api_name.is_one_of(_FETCH_APIS)
        self.has_no_records = self.is_fetch & status.is_one_of({"unanswered"})
        """True if the row has no records although their sum is null: a fetch without a response, or
        a Produce request without partitions that is not malformed."""
        has_no_partitions = np.diff(self.lists("partitions").offsets) == 0
        self.has_no_records |= self.is_produce & has_no_partitions & ~is_malformed
        self.is_held_back = held_back_on_purpose(columns)
        self.is_not_held_back = ~self.is_held_back

    def __len__(self) -> int:
        return len(self.is_orphan)

    def __getitem__(self, name: str) -> Any:
        """Return a column of rows, or an array that was made of columns."""
        column = self._columns.get(name)
        if column is None:
            return getattr(self, name)
        return ints_of(column) if isinstance(column, Ints) else words_of(column)

    def ints(self, name: str) -> IntArray:
        """Return a column of numbers."""
        return ints_of(self._columns[name])

    def words(self, name: str) -> WordArray:
        """Return a column of texts."""
        return words_of(self._columns[name])

    def lists(self, name: str) -> ListArray:
        """Return a column of lists."""
        return lists_of(self._columns[name])

    def known(self, name: str) -> NDArray[np.bool_]:
        """Return for each row whether a number is not null."""
        valid = self.ints(name).valid
        return np.ones(len(self), dtype=np.bool_) if valid is None else valid

    def times_ns(self, unknown: int) -> NDArray[np.int64]:
        """Return the start of each response, or of the request if there is no response."""
        sent = np.where(
            self.known("request_start_ns"), self.ints("request_start_ns").values, unknown
        )
        return np.where(
            self.known("response_start_ns"), self.ints("response_start_ns").values, sent
        )

    @cached_property
    def broker(self) -> WordArray:
        """The address and port of each broker; null if not known."""
        brokers = endpoints_of(self.words("broker_ip"), self.ints("broker_port"))
        codes = np.where(brokers.is_one_of({""}), -1, brokers.codes).astype(np.int32)
        return WordArray(codes, brokers.words)

    @property
    def throttle_ms(self) -> NDArray[np.int64]:
        """Throttle times, 0 if there is none."""
        return np.maximum(self.ints("throttle_time_ms").values, 0)

    @property
    def is_throttled(self) -> NDArray[np.bool_]:
        """True if there is a throttle time."""
        return self.throttle_ms > 0

    @cached_property
    def partitions(self) -> PartitionMeasures | None:
        """Partitions of rows that produce or fetch; None if there are none."""
        lists = self.lists("partitions")
        rows = rows_of_items(lists)
        has_data = (self.is_produce | self.is_fetch)[rows]
        if not has_data.any():
            return None
        return PartitionMeasures(lists, np.flatnonzero(has_data), rows[has_data], self)

    @cached_property
    def errors(self) -> ErrorItems | None:
        """The error codes of all rows; None if there are none."""
        lists = self.lists("errors")
        return ErrorItems(lists, rows_of_items(lists), self) if lists.offsets[-1] else None


class PartitionMeasures(NamedItems):
    """Measures of partitions that were produced to or fetched from, each an array."""

    def __init__(
        self,
        lists: ListArray,
        items: NDArray[np.int64],
        row: NDArray[np.int64],
        rows: RowMeasures,
    ) -> None:
        """Measure the partitions at indices ``items``, which belong to ``row``, ascending."""
        clients = rows.words("client_id")
        self.client_id = WordArray(clients.codes[row], clients.words)
        self.topic = _words_at(lists, "topic", items)
        topic_id = _words_at(lists, "topic_id", items)
        is_named = self.topic.codes >= 0
        self.id_without_name = topic_id._replace(codes=np.where(is_named, -1, topic_id.codes))
        count, size = _ints_at(lists, "record_count", items), _ints_at(lists, "record_bytes", items)
        self.has_data = _ints_at(lists, "error_code", items).values == 0
        """False if the response has an error: nothing was produced or fetched."""
        is_produce = rows.is_produce[row]
        self.produced_records, self.fetched_records = self._divided(count.values, is_produce)
        """0 if unknown, like bytes."""
        self.produced_bytes, self.fetched_bytes = self._divided(size.values, is_produce)
        # A request counts once for each of its topics, whatever its partitions.
        is_first = np.zeros(len(row), dtype=np.bool_)
        is_first[GroupedRows(row, key_of(self.topic), key_of(self.id_without_name)).firsts] = True
        self.is_first_produced, self.is_first_fetched = (
            is_first & is_produce,
            is_first & ~is_produce,
        )
        is_null = np.zeros(len(items), dtype=np.bool_) if count.valid is None else ~count.valid
        # If the row has a sum, its response leaves this partition out.
        is_uncounted = is_null & ~rows.known("record_count")[row] & ~rows.has_no_records[row]
        self.is_unknown = is_uncounted & self.has_data
        """True if there are records, but their number is not known."""
        self.direction = WordArray(is_produce.astype(np.int32), ["fetched", "produced"])
        # Counts in headers may be wrong, and negative.
        self.counted_records = np.maximum(self.produced_records + self.fetched_records, 0)
        self.counted_bytes = np.maximum(self.produced_bytes + self.fetched_bytes, 0)

    @property
    def topic_or_id(self) -> WordArray:
        """Names, or ids without a name; null where nothing was produced or fetched."""
        ids, shift = self.id_without_name, len(self.topic.words)
        codes = np.where(ids.codes >= 0, ids.codes + shift, self.topic.codes)
        codes = np.where(self.has_data, codes, -1).astype(np.int32)
        return WordArray(codes, [*self.topic.words, *ids.words])

    def _divided(
        self, amounts: NDArray[np.int64], is_produce: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what was produced, and what was fetched."""
        amounts = np.where(self.has_data, amounts, 0)
        return np.where(is_produce, amounts, 0), np.where(is_produce, 0, amounts)


class ErrorItems(NamedItems):
    """The error codes of rows, as columns of the same length."""

    def __init__(self, lists: ListArray, row: NDArray[np.int64], rows: RowMeasures) -> None:
        """Take all items of ``lists``, which belong to ``row``."""
        api_names, topic = rows.words("api_name"), lists.fields["topic"]
        assert isinstance(topic, WordArray)
        self.api_name = WordArray(api_names.codes[row], api_names.words)
        self.code, self.name = lists.fields["code"], lists.fields["name"]
        self.topic, self.has_topic = topic, topic.codes >= 0
        self.no_id = WordArray(np.full_like(topic.codes, -1), [])
        times, is_known = rows.ints("response_start_ns").values, rows.known("response_start_ns")
        self.time_ns = IntArray(times[row], is_known[row])
        self.one = np.ones(len(row), dtype=np.bool_)


def rows_of_items(lists: ListArray) -> NDArray[np.int64]:
    """Return the index of the row of each item of lists."""
    return np.repeat(np.arange(len(lists.offsets) - 1), np.diff(lists.offsets))


def rows_with_items(lists: ListArray, items: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for each row whether its list has one of the selected ``items``."""
    has_item = np.zeros(len(lists.offsets) - 1, dtype=np.bool_)
    has_item[rows_of_items(lists)[items]] = True
    return has_item


def _ints_at(lists: ListArray, name: str, items: NDArray[np.int64]) -> IntArray:
    field = lists.fields[name]
    assert isinstance(field, IntArray)
    return IntArray(field.values[items], None if field.valid is None else field.valid[items])


def _words_at(lists: ListArray, name: str, items: NDArray[np.int64]) -> WordArray:
    field = lists.fields[name]
    assert isinstance(field, WordArray)
    return _in_use(field.codes[items], field.words)


def _in_use(codes: NDArray[np.int32], words: list[str]) -> WordArray:
    """Return texts; if there are more words than texts, without words that do not occur."""
    if len(words) <= len(codes):
        return WordArray(codes, words)
    used = np.unique(codes[codes >= 0])
    new_codes = np.where(codes < 0, -1, np.searchsorted(used, codes)).astype(np.int32)
    return WordArray(new_codes, [words[code] for code in used.tolist()])


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
        names_in: Callable[[str], Iterable[str]] = lambda _: (),
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
            names_in: returns the names of addresses in such a text, which may match as well.
            requests_only: True to select no responses without a request.
        """
        self._columns = dict(columns or {})
        self._topic = topic
        self._error = error
        self._naming = naming
        self._names_in = names_in
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
            is_selected &= _has_text(block, self._is_named)
        return is_selected

    def _is_named(self, text: str) -> bool:
        return text_matches(self._naming, (text, *self._names_in(text)))


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
