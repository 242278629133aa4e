"""What the last seconds were like.

In: rows, the state of a capture, and the time, which is that of the packets. Out:
:class:`~kanalyze.live.window.snapshot.Snapshot`. This module must not know any clock, nor who
looks.

Time is cut into steps, and each step has sums of its own; a window is the last few steps added up,
and a step too old is dropped. A row belongs to the step in which its response began, or its
request where there is no response. One that is older than the window is late, and belongs to the
oldest step; one ahead of the time handed in belongs to the newest.

Memory is bounded for ever: so many steps, so many keys in each (what comes beyond is counted
together). A clock that jumps ahead drops all steps at once. One set back by less than the window
stands still until it is where it was; set back further, everything begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kanalyze.errors import UsageError
from kanalyze.live.window.snapshot import (
    ApiEntry,
    ClientEntry,
    ErrorEntry,
    GroupEntry,
    Snapshot,
    TopicEntry,
)
from kanalyze.live.window.step_sums import Amounts, Recent, Step, Traffic
from kanalyze.live.window.time_ring import Ring
from kanalyze.statistics.aggregation_inputs import AggregationInputs
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.statistics.bounded_counters import BoundedCounters, Key, Mergeable

T = TypeVar("T", bound="Mergeable")
_E = TypeVar("_E", ApiEntry, ClientEntry, TopicEntry, ErrorEntry, GroupEntry)

__all__ = ["HISTORY_STEPS", "KEY_LIMIT", "RECENT_S", "Windows"]

KEY_LIMIT = 500
HISTORY_STEPS = 240
RECENT_S = 60
"""What the slowest requests and the rebalancing groups are looked for in, when the window is not
longer."""

_RECENT_STEPS = 12
_HELD_ROWS = 2048
"""Rows are held back until there are so many, or time goes on: a sum of few takes as long."""
_MANY_ROWS = 512
"""So many take longer to be put together with others than to be summed up."""
_SECOND_NS = 1_000_000_000


class Windows:
    """Sums over the rows of the last seconds. All times are Unix times in ns."""

    def __init__(
        self, span_s: float = 10, step_s: float = 1, *, key_limit: int = KEY_LIMIT
    ) -> None:
        """Begin; the window is ``span_s`` long, to the next whole step.

        ``key_limit`` bounds the clients, topics, errors and groups that are counted apart in a
        step. Raises UsageError for a step that is shorter than a millisecond or longer than the
        span.
        """
        self._step_ns = round(step_s * _SECOND_NS)
        if not 1_000_000 <= self._step_ns <= span_s * _SECOND_NS:
            raise UsageError(f"a window of {span_s} s cannot be made of steps of {step_s} s")
        steps = -(-round(span_s * _SECOND_NS) // self._step_ns)
        self._key_limit = key_limit
        # Of the recent steps so many go together that there are a dozen of them.
        recent = -(-RECENT_S * _SECOND_NS // self._step_ns)
        self._together = -(-max(recent, steps) // _RECENT_STEPS)
        self._window: Ring[Step] = Ring(lambda: Step(key_limit), steps)
        self._recent: Ring[Recent] = Ring(lambda: Recent(key_limit), _RECENT_STEPS)
        self._history: Ring[Traffic] = Ring(Traffic, max(HISTORY_STEPS, steps))
        self._now_ns: int | None = None
        self._since_ns = self._packets_ns = 0
        self._rows = self._late_rows = 0
        self._capture: CaptureState | None = None
        self._drop_held()

    def add(self, block: RowBlock, now_ns: int) -> None:
        """Add the rows of a block."""
        self.tick(now_ns)
        if len(block):
            self._held_blocks.append(block)
        self._held_rows += len(block)
        if self._held_rows >= _HELD_ROWS:
            self._add_held()

    def add_capture(self, state: CaptureState, now_ns: int) -> None:
        """Take note of how the capture stands; what it took in since last time counts now.

        Counters lower than last time are those of a capture that began anew.
        """
        self.tick(now_ns)
        before, self._capture = self._capture, state
        captured = self._window.of(self._window.newest).captured
        packets = _more(state.packets, before and before.packets)
        if packets and self._now_ns is not None:
            self._packets_ns = self._now_ns
        captured.packets += packets
        captured.wire_bytes += _more(state.wire_bytes, before and before.wire_bytes)
        captured.dropped_packets += _more(
            state.dropped_packets or 0, before and before.dropped_packets
        )

    def tick(self, now_ns: int) -> None:
        """Let time pass: what is too old is dropped."""
        number = now_ns // self._step_ns
        if self._now_ns is None or number < self._window.oldest:
            self._begin(now_ns)
            return
        self._now_ns = max(now_ns, self._now_ns)
        if number <= self._window.newest:
            return
        # Which step a row belongs to goes by the time that it came.
        self._add_held()
        self._history.advance(number)
        self._recent.advance(number // self._together)
        for old, step in self._window.advance(number):
            # What is left of it for the chart.
            if (past := self._history.at(old)) is not None:
                past.p99_ns = step.p99_ns

    def clear(self) -> None:
        """Forget all rows; how the capture stands is still known."""
        self._drop_held()
        self._rows = self._late_rows = 0
        if self._now_ns is not None:
            self._begin(self._now_ns)

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return what the last seconds were like."""
        self.tick(now_ns)
        self._add_held()
        window, recent = self._merged()
        captured = window.captured
        now = self._now_ns or 0
        shown = range(
            max(self._since_ns // self._step_ns, self._history.oldest), self._history.newest + 1
        )
        latency = window.latency()
        begin_ns = max(self._window.oldest * self._step_ns, self._since_ns)
        return Snapshot(
            time_ns=now,  # what was told of a later time is among the figures
            window_ns=max(now - begin_ns, self._step_ns),
            recent_ns=_RECENT_STEPS * self._together * self._step_ns,
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
            history=tuple(self._amounts(number) for number in shown),
            p99_history=tuple(self._p99_ns(number) for number in shown),
            apis=_apis(window),
            clients=_clients(window),
            topics=_topics(window),
            slowest=tuple(recent.slowest.to_list()),
            groups=_groups(recent),
            errors=_errors(window),
        )

    def _begin(self, now_ns: int) -> None:
        self._rows += self._held_rows
        self._drop_held()
        self._now_ns = self._since_ns = self._packets_ns = now_ns
        number = now_ns // self._step_ns
        self._window.begin(number)
        self._history.begin(number)
        self._recent.begin(number // self._together)

    def _drop_held(self) -> None:
        self._held_blocks: list[RowBlock] = []
        self._held_rows = 0

    def _add_held(self) -> None:
        blocks = self._held_blocks
        self._drop_held()
        few = [block for block in blocks if len(block) < _MANY_ROWS]
        if few:
            self._add(RowBlock.joined(few))
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
        rows = AggregationInputs(block.columns)
        amounts = self._window.of(number).add(rows)
        self._history.of(number).add(amounts)
        self._recent.of(number // self._together).add(rows, block)
        self._rows += len(block)

    def _numbers(self, block: RowBlock) -> NDArray[np.int64]:
        """Return the number of each row's step, that of one that is kept; count those late."""
        newest, oldest = self._window.newest, self._window.oldest
        rows = AggregationInputs(block.columns)
        answered, asked = rows.ints("response_start_ns"), rows.ints("request_start_ns")
        times = np.where(rows.known("response_start_ns"), answered.values, asked.values)
        is_known = rows.known("response_start_ns") | rows.known("request_start_ns")
        numbers = np.where(is_known, times // self._step_ns, newest)
        is_late = numbers < oldest
        self._late_rows += int(np.count_nonzero(is_late))
        in_time = numbers[~is_late]
        if len(in_time):
            # Rows may be older than the first time handed in: what is shown goes back to them.
            self._since_ns = min(self._since_ns, int(in_time.min()) * self._step_ns)
        clipped: NDArray[np.int64] = np.clip(numbers, oldest, newest)
        return clipped

    def _merged(self) -> tuple[Step, Recent]:
        # Steps may have kept different keys apart.
        window = Step(2 * self._key_limit)
        for step in self._window.items():
            window.merge(step)
        recent = Recent(2 * self._key_limit)
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


def _more(now: int, before: int | None) -> int:
    return now - before if before is not None and now >= before else now


def _all(sums: BoundedCounters[T], names: int) -> Iterator[tuple[Key, bool, T]]:
    """Give the key of each sum, whether it is that of the others, and the sum."""
    for key, item in sums:
        yield key, False, item
    if sums.others is not None:
        yield (None,) * names, True, sums.others


def _apis(window: Step) -> tuple[ApiEntry, ...]:
    made = []
    for (wire, api_key, api_name, waited), other, api in _all(window.apis, 4):
        made.append(
            ApiEntry(
                wire=_text(wire),
                api_key=_number(api_key),
                api_name=_text(api_name),
                waited=bool(waited),
                other=other,
                requests=api.requests,
                errors=api.errors,
                request_bytes=api.request_bytes,
                response_bytes=api.response_bytes,
                p50_ns=api.latency.quantile(0.5),
                p99_ns=api.latency.quantile(0.99),
            )
        )
    return _ranked(made, 4, lambda api: api.requests)


def _clients(window: Step) -> tuple[ClientEntry, ...]:
    made = [
        ClientEntry(_text(client_id), _text(client_ip), other, *client.amounts)
        for (client_id, client_ip), other, client in _all(window.clients, 2)
    ]
    return _ranked(made, 2, lambda client: client.requests)


def _topics(window: Step) -> tuple[TopicEntry, ...]:
    made = [
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
    return _ranked(made, 2, lambda topic: topic.produced_bytes + topic.fetched_bytes)


def _groups(recent: Recent) -> tuple[GroupEntry, ...]:
    made = [
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
            told=group.counts.told,
            errors=group.counts.failures,
            last_error_name=group.last_failure,
            longest_join_ns=group.longest_join_ns,
            longest_sync_ns=group.longest_sync_ns,
            last_time_ns=group.last_time_ns,
        )
        for (group_id,), other, group in _all(recent.groups, 1)
    ]
    return _ranked(made, 1, lambda group: group.last_time_ns or 0)


def _errors(window: Step) -> tuple[ErrorEntry, ...]:
    made = [
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
    return _ranked(made, 4, lambda error: error.occurrences)


def _ranked(entries: list[_E], names: int, rank: Callable[[_E], int]) -> tuple[_E, ...]:
    """Return entries, the highest rank first; that of all others last.

    Equals are in the order of what they are called, the first ``names`` fields: no order is chance.
    """
    # One text for each: thousands of lists as keys would keep the garbage collector busy.
    entries.sort(key=lambda entry: str(entry[:names]))
    entries.sort(key=lambda entry: (entry.other, -rank(entry)))
    return tuple(entries)


def _text(part: str | int | None) -> str | None:
    return None if part is None else str(part)


def _number(part: str | int | None) -> int | None:
    return None if part is None else int(part)
