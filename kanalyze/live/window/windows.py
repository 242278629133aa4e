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

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kanalyze.errors import UsageError
from kanalyze.live.window.recent_rows import RecentRows
from kanalyze.live.window.row_measures import RowMeasures
from kanalyze.live.window.snapshot import (
    ApiEntry,
    BrokerEntry,
    ClientEntry,
    ErrorEntry,
    GroupEntry,
    Snapshot,
    TopicEntry,
)
from kanalyze.live.window.step_sums import PastStep, RecentSums, StepSums
from kanalyze.live.window.sums import Amounts
from kanalyze.live.window.time_ring import TimeRing
from kanalyze.model.tcp import Endpoint
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from kanalyze.live.window.keyed_sums import Addable, Key, KeyedSums
    from kanalyze.live.window.snapshot import CaptureState

T = TypeVar("T", bound="Addable")
_E = TypeVar("_E", ApiEntry, ClientEntry, BrokerEntry, TopicEntry, ErrorEntry, GroupEntry)

__all__ = ["HISTORY_STEPS", "KEY_LIMIT", "RECENT_S", "Windows"]

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
        a step. With ``keeps_rows`` the rows are kept too, within bounds. Raises UsageError if a
        step is shorter than a millisecond or longer than the span.
        """
        self._step_ns = round(step_s * _SECOND_NS)
        if not 1_000_000 <= self._step_ns <= span_s * _SECOND_NS:
            raise UsageError(f"a window of {span_s} s cannot be made of steps of {step_s} s")
        steps = -(-round(span_s * _SECOND_NS) // self._step_ns)
        self._key_limit = key_limit
        # The longer time is divided into a dozen longer steps.
        recent = -(-RECENT_S * _SECOND_NS // self._step_ns)
        self._recent_step = -(-max(recent, steps) // _RECENT_STEPS)
        self._window: TimeRing[StepSums] = TimeRing(lambda: StepSums(key_limit), steps)
        self._recent: TimeRing[RecentSums] = TimeRing(lambda: RecentSums(key_limit), _RECENT_STEPS)
        self._history: TimeRing[PastStep] = TimeRing(PastStep, max(HISTORY_STEPS, steps))
        self._now_ns: int | None = None
        self._since_ns = self._packets_ns = 0
        self._rows = self._late_rows = 0
        self._capture: CaptureState | None = None
        self.recent_rows: RecentRows | None = None
        """The rows of the last minute, as far as the memory limit allows; None if not kept."""
        if keeps_rows:
            self.recent_rows = RecentRows(_RECENT_STEPS * self._recent_step, self._step_ns)
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
        captured = self._window.of(self._window.newest).captured
        packets = _increase(state.packets, before and before.packets)
        if packets and self._now_ns is not None:
            self._packets_ns = self._now_ns
        captured.packets += packets
        captured.wire_bytes += _increase(state.wire_bytes, before and before.wire_bytes)
        captured.dropped_packets += _increase(
            state.dropped_packets or 0, before and before.dropped_packets
        )

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
        self._history.advance(number)
        self._recent.advance(number // self._recent_step)
        for old, step in self._window.advance(number):
            # The chart still needs the p99 of the step.
            if (past := self._history.at(old)) is not None:
                past.p99_ns = step.p99_ns

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
        captured = window.captured
        now = self._now_ns or 0
        steps = range(
            max(self._since_ns // self._step_ns, self._history.oldest), self._history.newest + 1
        )
        latency = window.latency()
        begin_ns = max(self._window.oldest * self._step_ns, self._since_ns)
        return Snapshot(
            time_ns=now,  # amounts include later rows
            window_ns=max(now - begin_ns, self._step_ns),
            recent_ns=_RECENT_STEPS * self._recent_step * self._step_ns,
            rows=self._rows,
            late_rows=self._late_rows,
            traffic=window.traffic.amounts,
            p50_ns=latency.quantile(0.5),
            p99_ns=latency.quantile(0.99),
            packets=captured.packets,
            wire_bytes=captured.wire_bytes,
            dropped_packets=captured.dropped_packets,
            idle_ns=now - self._packets_ns,
            capture=self._capture,
            step_ns=self._step_ns,
            history=tuple(self._amounts(number) for number in steps),
            p99_history=tuple(self._p99_ns(number) for number in steps),
            apis=_apis(window),
            clients=_clients(window),
            brokers=_brokers(window),
            topics=_topics(window),
            slowest=tuple(recent.slowest.to_list()),
            groups=_groups(recent),
            errors=_errors(window),
        )

    def _begin(self, now_ns: int) -> None:
        self._rows += self._buffered_rows
        self._clear_buffer()
        self._now_ns = self._since_ns = self._packets_ns = now_ns
        number = now_ns // self._step_ns
        if self.recent_rows is not None:
            self.recent_rows.begin()
        self._window.begin(number)
        self._history.begin(number)
        self._recent.begin(number // self._recent_step)

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
        amounts = self._window.of(number).add(rows)
        self._history.of(number).count(amounts)
        self._recent.of(number // self._recent_step).add(rows, block)
        if self.recent_rows is not None:
            self.recent_rows.add(number, block)
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

    def _merged(self) -> tuple[StepSums, RecentSums]:
        # Steps may have different keys, so the merged sums get a higher limit.
        window = StepSums(2 * self._key_limit)
        for step in self._window.items():
            window.merge(step)
        recent = RecentSums(2 * self._key_limit)
        for part in self._recent.items():
            recent.merge(part)
        return window, recent

    def _amounts(self, number: int) -> Amounts:
        step = self._history.at(number)
        return Amounts(0, 0, 0, 0) if step is None else step.amounts

    def _p99_ns(self, number: int) -> int | None:
        step = self._window.at(number)
        if step is not None:
            return step.p99_ns
        past = self._history.at(number)
        return None if past is None else past.p99_ns


def _increase(now: int, before: int | None) -> int:
    return now - before if before is not None and now >= before else now


def _all(sums: KeyedSums[T], names: int) -> Iterator[tuple[Key, bool, T]]:
    """Yield each key, whether it stands for all others, and its sum."""
    for key, item in sums:
        yield key, False, item
    if sums.others is not None:
        yield (None,) * names, True, sums.others


def _apis(window: StepSums) -> tuple[ApiEntry, ...]:
    entries = []
    for (wire, api_key, api_name, waited), other, api in _all(window.apis, 4):
        key = (_text(wire), _number(api_key), _text(api_name), bool(waited))
        entries.append(ApiEntry._make((*key, other, *api.figures)))
    return _ranked(entries, 4, lambda api: api.requests)


def _clients(window: StepSums) -> tuple[ClientEntry, ...]:
    entries = [
        ClientEntry(_text(client_id), _text(client_ip), other, *client.figures)
        for (client_id, client_ip), other, client in _all(window.clients, 2)
    ]
    return _ranked(entries, 2, lambda client: client.requests)


def _brokers(window: StepSums) -> tuple[BrokerEntry, ...]:
    entries = [
        BrokerEntry(_broker(ip, port), other, *broker.figures)
        for (ip, port), other, broker in _all(window.brokers, 2)
    ]
    return _ranked(entries, 1, lambda broker: broker.requests)


def _topics(window: StepSums) -> tuple[TopicEntry, ...]:
    entries = [
        TopicEntry(
            topic=_text(name),
            topic_id=_text(topic_id),
            other=other,
            produce_requests=topic.produce_requests,
            produced_records=topic.produced.count,
            produced_bytes=topic.produced.bytes,
            fetch_requests=topic.fetch_requests,
            fetched_records=topic.fetched.count,
            fetched_bytes=topic.fetched.bytes,
            records_known=not (topic.produced.unknown or topic.fetched.unknown),
            errors=topic.errors,
        )
        for (name, topic_id), other, topic in _all(window.topics, 2)
    ]
    return _ranked(entries, 2, lambda topic: topic.produced_bytes + topic.fetched_bytes)


def _groups(recent: RecentSums) -> tuple[GroupEntry, ...]:
    entries = [
        GroupEntry(
            group_id=_text(group_id),
            other=other,
            protocol=None if other else group.protocol,
            members=group.members,
            members_known=group.members_known,
            rebalances=None if other else group.rebalances,
            joins=group.counts.joins,
            syncs=group.counts.syncs,
            leaves=group.counts.leaves,
            told=group.counts.rejoins,
            errors=group.counts.failures,
            last_error_name=group.last_failure,
            longest_join_ns=group.longest_join_ns,
            longest_sync_ns=group.longest_sync_ns,
            last_time_ns=group.last_time_ns,
        )
        for (group_id,), other, group in _all(recent.groups, 1)
    ]
    return _ranked(entries, 1, lambda group: group.last_time_ns or 0)


def _errors(window: StepSums) -> tuple[ErrorEntry, ...]:
    entries = [
        ErrorEntry(
            api_name=_text(api_name),
            error_code=_number(code),
            error_name=_text(name),
            topic=_text(topic),
            other=other,
            occurrences=error.count,
            last_time_ns=error.last_time_ns,
        )
        for (api_name, code, name, topic), other, error in _all(window.errors, 4)
    ]
    return _ranked(entries, 4, lambda error: error.occurrences)


def _ranked(entries: list[_E], names: int, rank: Callable[[_E], int]) -> tuple[_E, ...]:
    """Sort entries by rank, the highest first, with ``other`` at the end.

    Entries of equal rank are sorted by name: by their first ``names`` fields.
    """
    # Sort keys are texts: thousands of lists would keep the garbage collector busy.
    entries.sort(key=lambda entry: str(entry[:names]))
    entries.sort(key=lambda entry: (entry.other, -rank(entry)))
    return tuple(entries)


def _broker(ip: str | int | None, port: str | int | None) -> str | None:
    return None if ip is None else str(Endpoint(str(ip), int(port or 0)))


def _text(part: str | int | None) -> str | None:
    return None if part is None else str(part)


def _number(part: str | int | None) -> int | None:
    return None if part is None else int(part)
