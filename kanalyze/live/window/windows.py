"""Sums over a sliding window of the last seconds.

In: rows, the state of a capture, and the time of the packets. Out:
:class:`~kanalyze.live.window.snapshot.Snapshot`.

Time is divided into steps, each with its own sums; the window is the sum of the last steps, and
older ones are dropped. A row belongs to the step in which its response began, or its request if
there is no response. A row older than the window is late and belongs to the oldest step; one from
the future belongs to the newest.

Memory is limited by the number of steps and of keys per step (further keys share one sum). If the
clock jumps ahead, all steps are dropped. If it is set back by less than the window, the time of the
window stays the same until the clock reaches it again. If it is set back further, the window is
cleared.
"""

from __future__ import annotations

from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import bounded_text
from kanalyze.live.window.row_measures import RowMeasures
from kanalyze.live.window.snapshot import Amounts, Snapshot
from kanalyze.live.window.sums import LatencySketch
from kanalyze.live.window.tables import RECENT_TABLES, WINDOW_TABLES
from kanalyze.tables.columns.block import Ints, Lists, RowBlock, words_in_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.live.window.tables import WindowTable
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import ColumnValues

MAX_ROWS = 100_000
MAX_BYTES = 64 << 20

_EARLIEST_NS = -(2**63)


class RecentBlock(NamedTuple):
    """Rows of one step of time."""

    step: int
    block: RowBlock
    size_bytes: int


class RecentRows:
    """The latest rows, the oldest first."""

    def __init__(self, steps: int) -> None:
        """Keep the rows of ``steps`` steps."""
        self._steps = steps
        self.blocks: deque[RecentBlock] = deque()
        """The rows, the oldest first."""
        self._rows = self._bytes = self._newest = 0
        self.first_step = 0
        """The first step without dropped rows."""

    def add(self, step: int, block: RowBlock) -> None:
        """Add the rows of a step."""
        self._newest = max(step, self._newest)
        self.blocks.append(RecentBlock(step, block, _bytes_of(block)))
        self._rows += len(block)
        self._bytes += self.blocks[-1].size_bytes
        while self._is_too_much():
            old = self.blocks.popleft()
            self.first_step = max(self.first_step, old.step + 1)
            self._rows -= len(old.block)
            self._bytes -= old.size_bytes

    def begin(self) -> None:
        """Drop all rows; steps may be earlier ones."""
        self.blocks.clear()
        self._rows = self._bytes = self._newest = self.first_step = 0

    def find(
        self,
        chosen: Callable[[RowBlock], NDArray[np.bool_]],
        *,
        since_ns: int,
        most: int,
        slowest: bool,
    ) -> tuple[list[Row], int]:
        """Return up to ``most`` selected rows, and the number of all selected rows.

        Rows are selected by ``chosen``, and if their time is at or after ``since_ns``. They are
        sorted by latency, the slowest first, or by time, the latest first.
        """
        best_rows: list[tuple[int, int, int, RowBlock]] = []
        count = 0
        for number, stored in enumerate(self.blocks):
            times, latencies = _times_and_latencies(stored.block)
            indices = np.flatnonzero(chosen(stored.block) & (times >= since_ns))
            count += len(indices)
            keys, tie_breakers = (latencies, times) if slowest else (times, latencies)
            best = indices[np.lexsort((-tie_breakers[indices], -keys[indices]))[:most]]
            best_rows += [
                (int(keys[index]), -number, index, stored.block) for index in best.tolist()
            ]
        best_rows.sort(key=lambda item: item[:2], reverse=True)
        return [block.take([index]).rows()[0] for _, _, index, block in best_rows[:most]], count

    def _is_too_much(self) -> bool:
        blocks = self.blocks
        if len(blocks) < 2:  # the latest block is never dropped
            return False
        is_old = blocks[0].step <= self._newest - self._steps
        return is_old or self._rows > MAX_ROWS or self._bytes > MAX_BYTES


def _times_and_latencies(block: RowBlock) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the time and the latency of each row in ns; the lowest int64 if unknown."""
    rows = RowMeasures(block.columns)
    latencies = np.where(rows.known("latency_ns"), rows.ints("latency_ns").values, _EARLIEST_NS)
    return rows.times_ns(unknown=_EARLIEST_NS), latencies


def _bytes_of(block: RowBlock) -> int:
    return sum(map(_bytes_of_column, block.columns.values()))


def _bytes_of_column(column: ColumnValues) -> int:
    if isinstance(column, Lists):
        return 8 * len(column.offsets) + sum(map(_bytes_of_column, column.fields.values()))
    if isinstance(column, Ints):
        return 8 * len(column.values) + len(column.valid or b"")
    codes, words = words_in_use(column)
    return 4 * len(codes) + sum(map(len, words))


MAX_SLOWEST = 20
_MAX_TOPICS = 3
_COLUMNS = (
    *("capture", "connection", "connection_number", "client_id"),
    *("api_key", "api_name", "api_version", "correlation_id"),
    *("latency_ns", "total_time_ns"),
    *("request_start_ns", "request_end_ns", "response_start_ns", "response_end_ns"),
    *("request_packet", "response_packet", "request_bytes", "response_bytes"),
    *("throttle_time_ms", "status", "error_name"),
)


class SlowestRows:
    """The slowest requests, without those that were held back on purpose.

    Requests of equal latency are sorted by time, then by packet number, so that the order of adding
    does not decide which are kept.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add(self, rows: RowMeasures, block: RowBlock) -> None:
        """Add the rows of a block; ``rows`` are its measures."""
        latencies = rows.ints("latency_ns").values
        may_be_kept = rows.known("latency_ns") & rows.is_not_held_back
        if len(self._entries) == MAX_SLOWEST:
            may_be_kept = may_be_kept & (latencies >= self._entries[-1][1]["latency_ns"])
        indices = np.flatnonzero(may_be_kept)
        if not len(indices):
            return
        later = [
            rows.ints(name).values[indices]
            for name in ("correlation_id", "request_packet", "request_start_ns")
        ]
        slowest_first = np.lexsort([*later, ~latencies[indices]])[:MAX_SLOWEST]
        slowest = block.take(indices[slowest_first].tolist()).rows()
        entries = [(_order(row), _entry(row)) for row in slowest]
        # Requests that are equal in this order are sorted by all their fields.
        self._keep([((*order, repr(entry)), entry) for order, entry in entries])

    def merge(self, other: SlowestRows) -> None:
        """Add the requests of ``other`` if they are among the slowest."""
        self._keep(other._entries)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the requests, slowest first."""
        return [entry for _, entry in self._entries]

    def _keep(self, entries: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
        self._entries = sorted([*self._entries, *entries], key=itemgetter(0))[:MAX_SLOWEST]


def _order(row: Row) -> tuple[Any, ...]:
    return (
        -(row.latency_ns or 0),
        row.request_start_ns or 0,
        row.request_packet or 0,
        row.correlation_id or 0,
        row.connection,
    )


def _entry(row: Row) -> dict[str, Any]:
    entry = {name: getattr(row, name) for name in _COLUMNS}
    if row.client_id is not None:
        entry["client_id"] = bounded_text(row.client_id)
    names = {item.topic or item.topic_id for item in row.partitions}
    topics = sorted({bounded_text(name) for name in names if name is not None})
    entry["topics"] = topics[:_MAX_TOPICS]
    entry["more_topics"] = len(topics) > _MAX_TOPICS
    return entry


T = TypeVar("T")

KEY_LIMIT = 500
HISTORY_STEPS = 240
RECENT_S = 60
"""The time that the slowest requests and rebalances cover, unless the window is longer."""

_RECENT_STEPS = 12
_BUFFERED_ROWS = 2048
"""Rows are buffered up to this number or the next step, because adding few rows takes as long as
adding many."""
_MANY_ROWS = 512
"""Blocks with fewer rows are joined. Joining larger blocks takes longer than adding each."""
_SECOND_NS = 1_000_000_000


class _Totals(NamedTuple):
    """The sums over all rows of a step, or of the window."""

    amounts: Amounts
    p50_ns: int | None
    """Quantiles of latency without requests that were held back on purpose."""
    p99_ns: int | None


class _StepSums:
    """The sums of some tables over a step, and what was captured in it."""

    __slots__ = ("_totals", "captured", "slowest", "sums")

    def __init__(self, tables: Mapping[str, WindowTable], key_limit: int) -> None:
        self.sums = {name: table.sums(key_limit) for name, table in tables.items()}
        self.slowest = SlowestRows()
        self.captured = [0, 0, 0]
        """Packets, their bytes, and dropped packets."""
        self._totals: _Totals | None = None

    def add(self, tables: Mapping[str, WindowTable], rows: RowMeasures) -> None:
        """Add rows, at least one."""
        self._totals = None
        for name, table in tables.items():
            table.add(self.sums[name], rows)

    def merge(self, other: _StepSums) -> None:
        """Add the sums of another step."""
        self._totals = None
        for name, sums in self.sums.items():
            sums.merge(other.sums[name])
        self.slowest.merge(other.slowest)
        self.captured = [*map(int.__add__, self.captured, other.captured)]

    @property
    def totals(self) -> _Totals:
        """The sums over all rows: of all APIs."""
        if self._totals is None:
            apis = self.sums["apis"]
            sums = [values[: len(_NOTHING)] for values in apis.all_values()]
            latency = LatencySketch()
            for (*_, waited), values in apis:
                if not waited:
                    latency.merge(values[-1])
            amounts = Amounts(*map(sum, zip(_NOTHING, *sums, strict=True)))
            self._totals = _Totals(amounts, latency.quantile(0.5), latency.quantile(0.99))
        return self._totals


_OF_ALL_ROWS = (
    *("packets", "wire_bytes", "dropped_packets", "idle_ns", "capture", "findings", "filters"),
    *("zone", "names"),
)
"""What a snapshot of chosen rows has of the snapshot of all."""
_NOTHING = Amounts(0, 0, 0, 0, 0)


class Windows:
    """Sums over the rows of the last seconds. All times are Unix times in ns."""

    def __init__(
        self,
        span_s: float = 10,
        step_s: float = 1,
        *,
        key_limit: int = KEY_LIMIT,
        keeps_rows: bool = False,
    ) -> None:
        """Start empty; the window is ``span_s`` long, rounded up to whole steps.

        ``key_limit`` limits the clients, brokers, topics, errors and groups with their own sums in
        a step. With ``keeps_rows`` the rows are kept too, within bounds.
        """
        self._step_ns = round(step_s * _SECOND_NS)
        steps = -(-round(span_s * _SECOND_NS) // self._step_ns)
        self._key_limit = key_limit
        # The longer time is divided into a dozen longer steps.
        recent = -(-RECENT_S * _SECOND_NS // self._step_ns)
        self._recent_step = -(-max(recent, steps) // _RECENT_STEPS)
        self._window = _TimeRing(lambda: _StepSums(WINDOW_TABLES, key_limit), steps)
        self._recent = _TimeRing(lambda: _StepSums(RECENT_TABLES, key_limit), _RECENT_STEPS)
        # The totals of steps that have left the window, up to the one that left last.
        self._past: deque[tuple[int, _Totals]] = deque(maxlen=max(HISTORY_STEPS - steps, 0))
        self._now_ns: int | None = None
        self._since_ns = self._packets_ns = 0
        self._rows = self._late_rows = 0
        self._capture: CaptureState | None = None
        self.recent_rows: RecentRows | None = None
        """The rows of the last minute, as far as the memory limit allows; None if not kept."""
        if keeps_rows:
            self.recent_rows = RecentRows(_RECENT_STEPS * self._recent_step)
        self._chosen: Callable[[RowBlock], NDArray[np.bool_]] | None = None
        self._filtered: tuple[int, Windows] | None = None
        """The first step, and windows over the rows of this step and later ones that are chosen."""
        self._clear_buffer()

    def add(self, block: RowBlock, now_ns: int) -> None:
        """Add the rows of a block."""
        self.tick(now_ns)
        if len(block):
            self._buffered_blocks.append(block)
        self._buffered_rows += len(block)
        if self._buffered_rows >= _BUFFERED_ROWS:
            self._add_buffered()

    def add_capture(self, state: CaptureState, now_ns: int) -> None:
        """Set the state of the capture; the increase of its counts belongs to the newest step.

        If a count is lower than before, a new capture began.
        """
        self.tick(now_ns)
        before, self._capture = self._capture, state
        increases = [
            _increase(state.packets, before and before.packets),
            _increase(state.wire_bytes, before and before.wire_bytes),
            _increase(state.dropped_packets or 0, before and before.dropped_packets),
        ]
        if increases[0] and self._now_ns is not None:
            self._packets_ns = self._now_ns
        step = self._window.of(self._window.newest)
        step.captured = [*map(int.__add__, step.captured, increases)]

    def tick(self, now_ns: int) -> None:
        """Set the time; drop the steps that are too old."""
        number = now_ns // self._step_ns
        if self._now_ns is None or number < self._window.oldest:
            self._begin(now_ns)
            return
        self._now_ns = max(now_ns, self._now_ns)
        if number <= self._window.newest:
            return
        # Buffered rows must be added while the ring still has the steps to which they belong.
        self._add_buffered()
        self._recent.advance(number // self._recent_step)
        self._past.extend((old, step.totals) for old, step in self._window.advance(number))

    def clear(self) -> None:
        """Forget all rows, but not the state of the capture."""
        self._clear_buffer()
        self._rows = self._late_rows = 0
        if self._now_ns is not None:
            self._begin(self._now_ns)

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return a snapshot of the window."""
        self.tick(now_ns)
        self._add_buffered()
        window, recent = self._merged()
        packets, wire_bytes, dropped_packets = window.captured
        now = self._now_ns or 0
        begin_ns = max(self._window.oldest * self._step_ns, self._since_ns)
        history = list(self._history())
        tables: dict[str, Any] = {
            **{name: table.entries(window.sums[name]) for name, table in WINDOW_TABLES.items()},
            **{name: table.entries(recent.sums[name]) for name, table in RECENT_TABLES.items()},
        }
        return Snapshot(
            time_ns=now,  # amounts include later rows
            window_ns=max(now - begin_ns, self._step_ns),
            recent_ns=_RECENT_STEPS * self._recent_step * self._step_ns,
            rows=self._rows,
            late_rows=self._late_rows,
            traffic=window.totals.amounts,
            p50_ns=window.totals.p50_ns,
            p99_ns=window.totals.p99_ns,
            packets=packets,
            wire_bytes=wire_bytes,
            dropped_packets=dropped_packets,
            idle_ns=now - self._packets_ns,
            capture=self._capture,
            step_ns=self._step_ns,
            history=tuple(totals.amounts for totals in history),
            p99_history=tuple(totals.p99_ns for totals in history),
            slowest=tuple(recent.slowest.to_list()),
            findings=None if self._capture is None else self._capture.findings,
            **tables,
        )

    def filter_by(self, chosen: Callable[[RowBlock], NDArray[np.bool_]] | None) -> None:
        """Also sum up the kept rows that are chosen, and those that come, apart; None: no longer.

        ``chosen`` returns for each row of a block whether it is.
        """
        self._chosen, self._filtered = chosen, None
        rows = self.recent_rows
        if chosen is None or rows is None:
            return
        # If some rows of a step were dropped, its sums would be too low, so it is left out.
        self._filtered = rows.first_step, Windows()
        blocks = [block for block in rows.blocks if block.step >= rows.first_step]
        if blocks:
            self._filtered[1].tick(min(block.step for block in blocks) * self._step_ns)
        for step, block, _ in blocks:
            self._add_filtered(step, block)

    def filtered(self, unfiltered: Snapshot) -> Snapshot:
        """Return a snapshot of the chosen rows; the same one if they are not summed up apart.

        Its time and the state of the capture are those of ``unfiltered``, that of all rows.
        """
        if self._filtered is None:
            return unfiltered
        first_step, windows = self._filtered
        followed_ns = max(unfiltered.time_ns - first_step * self._step_ns, self._step_ns)
        return windows.snapshot(unfiltered.time_ns)._replace(
            window_ns=min(unfiltered.window_ns, followed_ns),
            unfiltered=unfiltered,
            **{name: getattr(unfiltered, name) for name in _OF_ALL_ROWS},
        )

    def _add_filtered(self, step: int, block: RowBlock) -> None:
        if self._filtered is not None and self._chosen is not None and step >= self._filtered[0]:
            chosen = block.take(np.flatnonzero(self._chosen(block)).tolist())
            self._filtered[1].add(chosen, step * self._step_ns)

    def _history(self) -> Iterator[_Totals]:
        """Yield the totals of the last steps, the oldest first."""
        past = dict(self._past)
        nothing = _Totals(_NOTHING, None, None)
        newest = self._window.newest
        oldest = min(newest - HISTORY_STEPS + 1, self._window.oldest)
        for number in range(max(self._since_ns // self._step_ns, oldest), newest + 1):
            step = self._window.at(number)
            yield past.get(number, nothing) if step is None else step.totals

    def _begin(self, now_ns: int) -> None:
        self._rows += self._buffered_rows
        self._clear_buffer()
        self._now_ns = self._since_ns = self._packets_ns = now_ns
        number = now_ns // self._step_ns
        if self.recent_rows is not None:
            self.recent_rows.begin()
        self._window.begin(number)
        self._past.clear()
        self._recent.begin(number // self._recent_step)
        self.filter_by(self._chosen)

    def _clear_buffer(self) -> None:
        self._buffered_blocks: list[RowBlock] = []
        self._buffered_rows = 0

    def _add_buffered(self) -> None:
        blocks = self._buffered_blocks
        self._clear_buffer()
        small_blocks = [block for block in blocks if len(block) < _MANY_ROWS]
        if small_blocks:
            self._add(RowBlock.joined(small_blocks))
        for block in blocks:
            if len(block) >= _MANY_ROWS:
                self._add(block)

    def _add(self, block: RowBlock) -> None:
        numbers = self._numbers(block)
        first, last = int(numbers.min()), int(numbers.max())
        if first == last:
            self._add_to(first, block)
            return
        for number in np.unique(numbers).tolist():
            self._add_to(number, block.take(np.flatnonzero(numbers == number).tolist()))

    def _add_to(self, number: int, block: RowBlock) -> None:
        rows = RowMeasures(block.columns)
        self._window.of(number).add(WINDOW_TABLES, rows)
        recent = self._recent.of(number // self._recent_step)
        recent.add(RECENT_TABLES, rows)
        recent.slowest.add(rows, block)
        if self.recent_rows is not None:
            self.recent_rows.add(number, block)
            self._add_filtered(number, block)
        self._rows += len(block)

    def _numbers(self, block: RowBlock) -> NDArray[np.int64]:
        """Return the step of each row, clipped to the window; count late rows."""
        newest, oldest = self._window.newest, self._window.oldest
        rows = RowMeasures(block.columns)
        numbers = rows.times_ns(unknown=newest * self._step_ns) // self._step_ns
        is_late = numbers < oldest
        self._late_rows += int(np.count_nonzero(is_late))
        in_time = numbers[~is_late]
        if len(in_time):
            # Rows may be older than the first tick.
            self._since_ns = min(self._since_ns, int(in_time.min()) * self._step_ns)
        clipped: NDArray[np.int64] = np.clip(numbers, oldest, newest)
        return clipped

    def _merged(self) -> tuple[_StepSums, _StepSums]:
        # Steps may have different keys, so the merged sums get a higher limit.
        window = _StepSums(WINDOW_TABLES, 2 * self._key_limit)
        for step in self._window.items():
            window.merge(step)
        recent = _StepSums(RECENT_TABLES, 2 * self._key_limit)
        for step in self._recent.items():
            recent.merge(step)
        return window, recent


class _TimeRing(Generic[T]):
    """An item for each of the last ``length`` steps; an item is made at its first use."""

    __slots__ = ("_items", "_length", "_make", "newest")

    def __init__(self, make: Callable[[], T], length: int) -> None:
        self._make = make
        self._length = length
        self.newest = 0
        """The number of the newest step."""
        self._items: dict[int, T] = {}

    @property
    def oldest(self) -> int:
        """The number of the oldest step in the ring."""
        return self.newest - self._length + 1

    def begin(self, number: int) -> None:
        """Clear the ring; the newest step becomes ``number``."""
        self._items.clear()
        self.newest = number

    def advance(self, number: int) -> list[tuple[int, T]]:
        """Make step ``number`` the newest; remove and return the steps that are too old.

        Does nothing for a step that is not newer.
        """
        if number <= self.newest:
            return []
        self.newest = number
        too_old = sorted(step for step in self._items if step < self.oldest)
        return [(old, self._items.pop(old)) for old in too_old]

    def of(self, number: int) -> T:
        """Return the item of a step, or of the nearest step in the ring."""
        number = min(max(number, self.oldest), self.newest)
        item = self._items.get(number)
        if item is None:
            item = self._items[number] = self._make()
        return item

    def items(self) -> Iterator[T]:
        """Yield the items, the oldest first."""
        for number in sorted(self._items):
            yield self._items[number]

    def at(self, number: int) -> T | None:
        """Return the item of a step; None if it has none."""
        return self._items.get(number)


def _increase(now: int, before: int | None) -> int:
    return now - before if before is not None and now >= before else now
