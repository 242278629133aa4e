"""What the capture shows about fetched records besides their bytes.

In: rows of Produce requests, ranges of offsets, the aborted transactions that a Fetch response
lists. Out: when a record was produced, how often it was delivered, and whether its transaction was
aborted.

A consumer with the isolation level ``read_committed`` gets a list of aborted transactions: producer
id and first offset. Each ends at the producer's next marker (KIP-98). Other consumers get no list;
but if the response has the next marker of a producer, that shows how the transaction ended.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.kafka.records.types import control_type
from kanalyze.spec.columns import columns_named, columns_of
from kanalyze.spec.rows.requests import COLUMNS, PartitionItem
from kanalyze.tables.columns.block import Lists, RowBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kanalyze.kafka.records.batches import RecordBatch

LAST_OFFSET = (1 << 63) - 1
_MAX_RANGES = 1 << 20
_UNKNOWN = -1

_Key: TypeAlias = "tuple[Any, ...]"


class OffsetRanges:
    """Ranges of offsets that do not overlap, each with a number that is not negative."""

    __slots__ = ("_ends", "_firsts", "_numbers")

    def __init__(self, ranges: Iterable[tuple[int, int, int]] = ()) -> None:
        """Add ``ranges``; see :meth:`add`."""
        self._firsts, self._ends, self._numbers = array("q"), array("q"), array("q")
        for first, end, number in ranges:
            self.add(first, end, number)

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, first: int, end: int, number: int) -> None:
        """Add the offsets from ``first`` up to, but not including, ``end``.

        If it overlaps other ranges, their numbers become unknown and the new range is left out,
        because it is not known which range an offset belongs to.
        """
        if not 0 <= first < end <= LAST_OFFSET:
            return
        at = bisect_right(self._firsts, first)
        begin = at - 1 if at > 0 and self._ends[at - 1] > first else at
        while at < len(self._firsts) and self._firsts[at] < end:
            at += 1
        if begin < at:
            for index in range(begin, at):
                self._numbers[index] = _UNKNOWN
            return
        self._firsts.insert(at, first)
        self._ends.insert(at, end)
        self._numbers.insert(at, number)

    def around(self, offset: int) -> tuple[int, int, int]:
        """Return the first offset of the range with ``offset``, its end, and its number.

        If no range has the offset, return the bounds of the gap around it, and -1.
        """
        at = bisect_right(self._firsts, offset)
        if at > 0 and offset < self._ends[at - 1]:
            return self._firsts[at - 1], self._ends[at - 1], self._numbers[at - 1]
        first = self._ends[at - 1] if at > 0 else -LAST_OFFSET
        end = self._firsts[at] if at < len(self._firsts) else LAST_OFFSET
        return first, end, _UNKNOWN

    def forget_half(self) -> int:
        """Remove the lower half of the ranges, at least one; return how many were removed."""
        count = (len(self._firsts) + 1) // 2
        for column in (self._firsts, self._ends, self._numbers):
            del column[:count]
        return count


_ROW_COLUMNS = ("broker_ip", "wire", "api_name", "request_start_ns")
_ITEM_COLUMNS = ("topic", "topic_id", "partition", "record_count", "base_offset", "error_code")
_OF_ROWS = columns_named(COLUMNS, *_ROW_COLUMNS)
_OF_ITEMS = columns_named(columns_of(PartitionItem), *_ITEM_COLUMNS)


class ProducedOffsets:
    """When records were produced, by topic, partition and offset.

    A topic is identified by its id. If producer and consumer do not both have the id, the topic is
    identified by its name and the broker's IP address, because other clusters may have a topic with
    the same name.
    """

    def __init__(self, most_ranges: int = _MAX_RANGES) -> None:
        """Keep at most ``most_ranges`` ranges; then drop the lower half of each partition's."""
        self._most = most_ranges
        self._count = 0
        self._by_key: dict[_Key, OffsetRanges] = {}

    def note(self, block: RowBlock) -> None:
        """Keep the offsets that the Produce requests in a block of requests appended."""
        lists = block.columns["partitions"]
        assert isinstance(lists, Lists)
        rows = dict(zip(_ROW_COLUMNS, block.values(_OF_ROWS), strict=True))
        produce_rows = [
            at
            for at, name in enumerate(rows["api_name"])
            if name == "Produce" and rows["wire"][at] == "kafka"
        ]
        if not produce_rows:
            return
        items = RowBlock(lists.offsets[-1], dict(lists.fields)).values(_OF_ITEMS)
        columns = dict(zip(_ITEM_COLUMNS, items, strict=True))
        for at in produce_rows:
            sent_ns = rows["request_start_ns"][at]
            if sent_ns is None:
                continue
            for n in range(lists.offsets[at], lists.offsets[at + 1]):
                first, count = columns["base_offset"][n], columns["record_count"][n]
                if first is None or count is None or columns["error_code"][n]:
                    continue
                partition = (columns["topic_id"][n], columns["topic"][n], columns["partition"][n])
                for key in _keys_to_write(rows["broker_ip"][at], *partition):
                    self._add(key, first, first + count, sent_ns)

    def find(
        self, broker_ip: str, topic_id: str | None, topic: str | None, partition: int | None
    ) -> list[OffsetRanges]:
        """Return the ranges of a partition; of several with an offset, the first counts."""
        keys = _keys_to_read(broker_ip, topic_id, topic, partition)
        return [ranges for key in keys if (ranges := self._by_key.get(key)) is not None]

    def _add(self, key: _Key, first: int, end: int, sent_ns: int) -> None:
        ranges = self._by_key.get(key)
        if ranges is None:
            ranges = self._by_key[key] = OffsetRanges()
        self._count -= len(ranges)
        ranges.add(first, end, sent_ns)
        self._count += len(ranges)
        if self._count > self._most:
            self._forget()

    def _forget(self) -> None:
        for ranges in self._by_key.values():
            self._count -= ranges.forget_half()
        self._by_key = {key: ranges for key, ranges in self._by_key.items() if len(ranges)}


def _keys_to_write(ip: str, topic_id: str | None, topic: str | None, partition: int) -> list[_Key]:
    if topic_id is None:
        return [(ip, topic, partition)]
    return [(topic_id, partition), (ip, topic, partition, "with an id")]


def _keys_to_read(
    ip: str, topic_id: str | None, topic: str | None, partition: int | None
) -> list[_Key]:
    if topic_id is None:
        return [(ip, topic, partition), (ip, topic, partition, "with an id")]
    return [(topic_id, partition), (ip, topic, partition)]


_ABORT, _COMMIT = "abort", "commit"


class Transactions:
    """The transactions of the batches in one records field of a Fetch response."""

    def __init__(
        self, batches: Iterable[RecordBatch], aborted: Sequence[tuple[int, int]] | None
    ) -> None:
        """Begin before the first batch.

        Args:
            batches: the batches, which are iterated from the first one to find markers.
            aborted: producer id and first offset of each aborted transaction; None if the response
                does not list them.
        """
        self._batches = batches
        self._pending: list[tuple[int, int]] | None = None
        """Aborted transactions that have not begun yet, the last one first."""
        if aborted is not None:
            self._pending = sorted(aborted, key=lambda transaction: -transaction[1])
        self._open: set[int] = set()
        """Producer ids of the aborted transactions that have begun and not ended."""
        self._markers: dict[int, list[tuple[int, str]]] | None = None

    def is_aborted(self, batch: RecordBatch) -> bool | None:
        """Return true if a batch is of an aborted transaction; call it for each one, in order.

        None for control batches, and if it is not known.
        """
        producer_id = batch.producer_id
        if batch.is_control:
            if producer_id is not None:
                self._open_until(batch.base_offset)
                self._open.discard(producer_id)
            return None
        if not batch.is_transactional or producer_id is None:
            return False
        if self._pending is not None:
            self._open_until(batch.base_offset)
            return producer_id in self._open
        kind = self._next_marker(producer_id, batch.base_offset)
        return None if kind is None else kind == _ABORT

    def _open_until(self, offset: int) -> None:
        """Open the aborted transactions that begin up to an offset."""
        while self._pending and self._pending[-1][1] <= offset:
            self._open.add(self._pending.pop()[0])

    def _next_marker(self, producer_id: int, offset: int) -> str | None:
        """Return the type of a producer's first marker after an offset; None if there is none."""
        if self._markers is None:
            self._markers = _markers(self._batches)
        for at, kind in self._markers.get(producer_id, ()):
            if at > offset:
                return kind
        return None


def _markers(batches: Iterable[RecordBatch]) -> dict[int, list[tuple[int, str]]]:
    """Return offset and type of the markers that end transactions, by producer id."""
    markers: dict[int, list[tuple[int, str]]] = {}
    for batch in batches:
        if batch.is_control and batch.producer_id is not None:
            for record in batch.records():
                kind = control_type(record.key)
                if kind in (_ABORT, _COMMIT):
                    markers.setdefault(batch.producer_id, []).append((record.offset, kind))
    return markers


class FetchedField:
    """What a response, and the capture before it, show about the records of one field.

    Attributes:
        fetched_ns, produced, acquired: see ``OffsetColumns.match``.
    """

    __slots__ = ("_new_transactions", "_transactions", "acquired", "fetched_ns", "produced")

    def __init__(
        self,
        transactions: Callable[[], Transactions] | None,
        fetched_ns: int,
        produced: list[OffsetRanges],
        acquired: OffsetRanges | None,
    ) -> None:
        """Keep what is known.

        Args:
            transactions: returns which batches are of aborted transactions; it is called with the
                first batch of a transaction, as most have none. None if it is not known.
            fetched_ns: time of the response.
            produced: times at which the records of the partition were produced.
            acquired: delivery counts of acquired records; None if this is not a ShareFetch.
        """
        self._new_transactions = transactions
        self._transactions: Transactions | None = None
        self.fetched_ns = fetched_ns
        self.produced = produced
        self.acquired = acquired

    def is_aborted(self, batch: RecordBatch) -> bool | None:
        """Return what :meth:`Transactions.is_aborted` returns; None if nothing is known.

        Batches that are neither transactional nor control batches may be left out.
        """
        if self._transactions is None:
            if self._new_transactions is None:
                return None
            self._transactions = self._new_transactions()
        return self._transactions.is_aborted(batch)
