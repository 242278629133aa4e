"""Groups of segments cut where something is odd, so that what lies between is taken at once.

In: a sorted batch. Out: by group, its odd segments one by one and runs of plain ones between them.
Must not know: what was before the batch.

Odd is what may need a look at the state of its connection: SYN, FIN and RST, a segment without
ACK, a payload that does not begin where its sender's last one ended, and everything after the first
FIN or RST of a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kanalyze.net.headers import ACK, FIN, RST, SYN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from kanalyze.net.output import Segment
    from kanalyze.net.sorted_batch import Group, Side, SortedBatch

__all__ = ["Run", "Step", "Steps", "cut_into_runs"]


_LISTED_AT_ONCE: Final = 64
"""Segments; listing some costs as much as listing one."""


class Run(NamedTuple):
    """Segments of a group that arrived one after another and have nothing odd among them."""

    lower: Side
    higher: Side
    first: int
    """``first`` to ``last``: their places in the group, by arrival."""
    last: int

    @property
    def last_time_ns(self) -> int:
        """Time of the later one of what both ends sent last."""
        lower, higher = self.lower, self.higher
        if not (lower.packets and higher.packets):
            return (lower if lower.packets else higher).told[1]
        return max(lower.told[1], higher.told[1])

    @property
    def is_snapped(self) -> bool:
        """Not all of the payload was captured."""
        return self.lower.is_snapped or self.higher.is_snapped


Step: TypeAlias = "Segment | Run"


class Steps:
    """The steps of a batch's groups, made when first asked for.

    ``marks`` are those of all segments of the batch, None for none. Without ``with_runs`` each
    step is a segment.
    """

    def __init__(
        self, batch: SortedBatch, marks: NDArray[np.uint8] | None, *, with_runs: bool = True
    ) -> None:
        self._batch = batch
        self._marks = marks
        self._with_runs = with_runs
        self._cut: dict[int, list[Step]] | None = None
        self._last: _Arrivals | None = None

    def of(self, group: Group) -> Iterable[Step]:
        """Give the steps of a group by arrival; where nothing is odd, that is one run."""
        if not self._with_runs:
            return self._batch.segments_of(group, self._marks)
        if not (group.has_control or group.has_breaks):
            count = group.lower.packets + group.higher.packets
            return [Run(group.lower, group.higher, 0, count)]
        if self._cut is None:
            self._cut = cut_into_runs(self._batch, self._marks)
        return self._cut[group.number]

    def segments_of(self, group: Group, first: int, last: int) -> list[Segment]:
        """List the segments of a group from one place by arrival to another."""
        return self._arrivals(group).between(first, last)

    def run_of(self, group: Group, first: int, last: int) -> Run:
        """Return a part of a run of a group, as a run."""
        return self._arrivals(group).run(first, last)

    def _arrivals(self, group: Group) -> _Arrivals:
        if self._last is None or self._last.group is not group:
            self._last = _Arrivals(self._batch, group, self._marks)
        return self._last


class _Arrivals:
    """Segments of a group by arrival, listed as far as they are asked for, in rising order.

    Many short parts are listed together, and of a long group no more than needed.
    """

    def __init__(self, batch: SortedBatch, group: Group, marks: NDArray[np.uint8] | None) -> None:
        self.group = group
        self._batch = batch
        self._marks = marks
        self._rows, self._from_higher = batch.arrivals_of(group)
        self._begin = 0
        self._segments: list[Segment] = []

    def between(self, first: int, last: int) -> list[Segment]:
        """List the segments from one place in the group to another."""
        if last > self._begin + len(self._segments):
            here = slice(first, max(last, first + _LISTED_AT_ONCE))
            rows, from_higher = self._rows[here], self._from_higher[here]
            self._begin = first
            self._segments = list(self._batch.segments_at(rows, from_higher, self._marks))
        return self._segments[first - self._begin : last - self._begin]

    def run(self, first: int, last: int) -> Run:
        """Sum up the segments from one place to another, with nothing odd among them."""
        grouping, number = self._batch.grouping, self.group.number
        higher = np.array([np.count_nonzero(self._from_higher[:at]) for at in (first, last)])
        lower = grouping.start[number] + np.array([first, last]) - higher
        higher += grouping.middle[number]
        (of_lower,) = self._batch.sides(lower[:1], lower[1:])
        (of_higher,) = self._batch.sides(higher[:1], higher[1:])
        return Run(of_lower, of_higher, first, last)


class _Cuts(NamedTuple):
    """Odd segments, by group, then arrival. All columns are of one length."""

    place: NDArray[np.int64]
    """In the order of the batch."""
    group: NDArray[np.int64]
    lower: NDArray[np.int64]
    """Place of the first segment of the lower end that did not arrive before; maybe itself."""
    higher: NDArray[np.int64]
    """The same of the higher end."""
    from_higher: NDArray[np.bool_]


def cut_into_runs(
    batch: SortedBatch, marks: NDArray[np.uint8] | None = None
) -> dict[int, list[Step]]:
    """Cut the groups with anything odd; return their steps by ``Group.number``.

    ``marks`` are those of all segments of the batch; None for none.
    """
    cuts = _find_cuts(batch)
    owner, turn, runs = _runs_between(batch, cuts)
    odd = batch.segments_at(batch.grouping.order[cuts.place], cuts.from_higher, marks)
    found: list[Step] = [*odd, *runs]
    owners = np.concatenate([cuts.group, owner]).tolist()
    turns = np.concatenate([3 * np.arange(len(cuts.place)) + 1, turn])
    steps: dict[int, list[Step]] = {number: [] for number in owners}
    for index in np.argsort(turns).tolist():
        steps[owners[index]].append(found[index])
    return steps


def _runs_between(
    batch: SortedBatch, cuts: _Cuts
) -> tuple[NDArray[np.int64], NDArray[np.int64], Iterator[Run]]:
    """Give the runs before each odd segment, then those after the last ones of the groups.

    Of each run its group, and its turn: that of odd segment ``i`` is ``3 * i + 1``.
    """
    grouping = batch.grouping
    is_new = cuts.group[1:] != cuts.group[:-1]
    odd = np.arange(len(cuts.place))
    begins_group, ends_group = np.ones(len(odd), np.bool_), np.ones(len(odd), np.bool_)
    begins_group[1:] = ends_group[:-1] = is_new
    final = np.flatnonzero(ends_group)
    owner = np.concatenate([cuts.group, cuts.group[final]])
    turn = np.concatenate([3 * odd, 3 * final + 2])
    # A run begins behind the odd segment before it, or where its group does.
    before = np.concatenate([odd - 1, final])
    is_behind = np.concatenate([~begins_group, np.ones(len(final), np.bool_)])
    from_higher = cuts.from_higher[before]
    start, middle = grouping.start[owner], grouping.middle[owner]
    lower = np.where(is_behind, cuts.lower[before] + ~from_higher, start)
    higher = np.where(is_behind, cuts.higher[before] + from_higher, middle)
    lower_end = np.concatenate([cuts.lower, middle[len(odd) :]])
    higher_end = np.concatenate([cuts.higher, grouping.end[cuts.group[final]]])
    first = lower - start + higher - middle
    last = lower_end - start + higher_end - middle
    there = np.flatnonzero(first < last)
    runs = map(
        Run,
        batch.sides(lower[there], lower_end[there]),
        batch.sides(higher[there], higher_end[there]),
        first[there].tolist(),
        last[there].tolist(),
    )
    return owner[there], turn[there], runs


def _find_cuts(batch: SortedBatch) -> _Cuts:
    grouping, order = batch.grouping, batch.grouping.order
    count = len(order)
    place = np.arange(count)
    group = np.repeat(np.arange(len(grouping.start)), grouping.end - grouping.start)
    is_higher = place >= grouping.middle[group]
    odd = _is_odd(batch, group, is_higher)
    # Rises over the whole order: by group, by sender, by arrival.
    sender = 2 * group + is_higher
    arrival = sender * count + order
    places = np.flatnonzero(odd)
    places = places[np.argsort(group[places] * count + order[places])]
    other = np.searchsorted(arrival, (sender[places] ^ 1) * count + order[places])
    from_higher = is_higher[places]
    return _Cuts(
        place=places,
        group=group[places],
        lower=np.where(from_higher, other, places),
        higher=np.where(from_higher, places, other),
        from_higher=from_higher,
    )


def _is_odd(
    batch: SortedBatch, group: NDArray[np.int64], is_higher: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Tell of each segment, by its place in the order of the batch, whether it is odd."""
    order = batch.grouping.order
    flags = batch.columns.flags[order]
    # With ACK turned round: what is set then is what a plain packet has not.
    odd: NDArray[np.bool_] = (flags ^ ACK) & (SYN | FIN | RST | ACK) != 0
    ending = np.flatnonzero(flags & (FIN | RST))
    if len(ending):
        first_end = np.full(len(batch.grouping.start), len(order), np.int64)
        np.minimum.at(first_end, group[ending], order[ending])
        odd |= order > first_end[group]
    broken = batch.payload_places[1:][batch.breaks]
    before = batch.payload_places[:-1][batch.breaks]
    same = (group[broken] == group[before]) & (is_higher[broken] == is_higher[before])
    odd[broken[same]] = True
    return odd
