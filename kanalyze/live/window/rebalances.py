"""What shows that a group rebalances: consumer groups of both protocols, share and streams groups.

In: columns of rows. Out: :class:`GroupTotals` by group, with ``merge``. This module must not know
clocks, nor who looks.

A row does not tell generations or member epochs. So rebalances are counted by what a member gets:
an assignment, in the answer to its SyncGroup, or, in the newer protocols, in that to its heartbeat.
A heartbeat's answer without one has no other field of varying length than the member's id, which
makes it known by its size. In streams groups it has others, and assignments are not known.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.statistics.aggregation_inputs import rows_of_items
from kanalyze.statistics.group_by import SortedGroups, key_of, value_at
from kanalyze.tables.columns.numpy_arrays import WordArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kanalyze.statistics.aggregation_inputs import AggregationInputs
    from kanalyze.statistics.bounded_counters import BoundedCounters

__all__ = ["MEMBER_LIMIT", "GroupTotals", "add_groups", "are_assignments"]

MEMBER_LIMIT = 32
"""Members that are told apart in a group; the same ones whatever comes first."""

_PROTOCOLS = {
    "JoinGroup": "classic",
    "SyncGroup": "classic",
    "Heartbeat": "classic",
    "LeaveGroup": "classic",
    "ConsumerGroupHeartbeat": "consumer",
    "ShareGroupHeartbeat": "share",
    "StreamsGroupHeartbeat": "streams",
}
"""The protocol of a group, by what members are kept with."""

_REBALANCE = "REBALANCE_IN_PROGRESS"
_NO_FAILURES = frozenset({_REBALANCE, "MEMBER_ID_REQUIRED"})
"""Codes by which members are led through a rebalance that goes well."""
_MEMBER_FAILURES = frozenset(
    {
        "FENCED_INSTANCE_ID",
        "FENCED_MEMBER_EPOCH",
        "ILLEGAL_GENERATION",
        "STALE_MEMBER_EPOCH",
        "UNKNOWN_MEMBER_ID",
        "UNRELEASED_INSTANCE_ID",
    }
)
"""Codes that say the same of a member whatever it asked for, such as OffsetCommit."""

_ASSIGNING = frozenset({"ConsumerGroupHeartbeat", "ShareGroupHeartbeat"})
_ASSIGNING_VERSIONS = 1
"""The highest version of them whose layout is known."""
# Size, correlation id, header's tags, ThrottleTimeMs, ErrorCode, ErrorMessage, MemberEpoch,
# HeartbeatIntervalMs, Assignment, tags: of which the message and the assignment are null.
_BARE_BYTES = 4 + 4 + 1 + 4 + 2 + 1 + 4 + 4 + 1 + 1


class _Counts(NamedTuple):
    """How often each of these was seen in a group."""

    joins: int = 0
    """JoinGroup."""
    syncs: int = 0
    """SyncGroup."""
    leaves: int = 0
    """LeaveGroup."""
    told: int = 0
    """Responses that told a member REBALANCE_IN_PROGRESS."""
    failures: int = 0
    """Requests of members that failed, not counting what is part of any rebalance."""


class GroupTotals:
    """What shows that a group is rebalancing."""

    __slots__ = (
        "_assignments",
        "_failed",
        "_has_more_members",
        "counts",
        "last_time_ns",
        "longest_join_ns",
        "longest_sync_ns",
        "protocol",
    )

    def __init__(
        self,
        counts: _Counts = _Counts(),  # noqa: B008 - a tuple
        *,
        protocol: str | None = None,
        longest_join_ns: int | None = None,
        longest_sync_ns: int | None = None,
        last_time_ns: int | None = None,
        failed: tuple[int, str] | None = None,
        assignments: Mapping[int, int] | None = None,
    ) -> None:
        """Take a sum; ``failed`` is when a member failed last, and with what."""
        self.counts = counts
        self.protocol = protocol
        """``classic``, ``consumer``, ``share`` or ``streams``; None while it is not known. Of a
        group that goes over to another one the last in this order."""
        self.longest_join_ns = longest_join_ns
        """The highest latency of a JoinGroup: it is answered when all members have joined."""
        self.longest_sync_ns = longest_sync_ns
        """The same of SyncGroup: it is answered when the leader has sent the assignments."""
        self.last_time_ns = last_time_ns
        self._failed = failed
        self._assignments = dict(assignments or {})
        self._has_more_members = False
        self._drop_members()

    @property
    def members(self) -> int:
        """Members seen, at least; :data:`MEMBER_LIMIT` at most."""
        return len(self._assignments)

    @property
    def members_known(self) -> bool:
        """False: there were more members than :attr:`members`."""
        return not self._has_more_members

    @property
    def rebalances(self) -> int | None:
        """Assignments to the member that got the most; None where they are not known.

        The group rebalanced so often at least: who was there all the time got one each time.
        """
        if self.protocol not in ("classic", "consumer", "share"):
            return None
        return max(self._assignments.values(), default=None)

    @property
    def last_failure(self) -> str | None:
        """The name of the error that a member got last; None for none."""
        return None if self._failed is None else self._failed[1]

    def merge(self, other: GroupTotals) -> None:
        """Add another sum over the same group."""
        self.counts = _Counts(*map(int.__add__, self.counts, other.counts))
        self.protocol = max(self.protocol or "", other.protocol or "") or None
        self.longest_join_ns = _higher(self.longest_join_ns, other.longest_join_ns)
        self.longest_sync_ns = _higher(self.longest_sync_ns, other.longest_sync_ns)
        self.last_time_ns = _higher(self.last_time_ns, other.last_time_ns)
        self._failed = max(filter(None, (self._failed, other._failed)), default=None)
        self._has_more_members |= other._has_more_members
        for member, count in other._assignments.items():
            self._assignments[member] = self._assignments.get(member, 0) + count
        self._drop_members()

    def _drop_members(self) -> None:
        if len(self._assignments) > MEMBER_LIMIT:
            self._has_more_members = True
            for member in sorted(self._assignments)[MEMBER_LIMIT:]:
                del self._assignments[member]


class _Members:
    """The rows that show that a group rebalances: their places, and what each shows."""

    def __init__(self, rows: AggregationInputs) -> None:
        names = rows.words("api_name")
        is_of_group = (rows.words("group_id").codes >= 0) & rows.is_request
        is_kept = _is_one_of(names, _PROTOCOLS)
        self.is_join = rows.is_join
        self.is_sync = _is_one_of(names, {"SyncGroup"})
        self.is_leave = _is_one_of(names, {"LeaveGroup"})
        self.is_told = _tells(rows, _REBALANCE)
        self.is_assigned = are_assignments(rows)
        failures = rows.words("error_name")
        self.is_failed = rows.is_error & (
            (is_kept & ~_is_one_of(failures, _NO_FAILURES)) | _is_one_of(failures, _MEMBER_FAILURES)
        )
        shows = self.is_join | self.is_sync | self.is_leave | self.is_told
        shows |= self.is_assigned | self.is_failed
        self.places = np.flatnonzero(is_of_group & shows)


def are_assignments(rows: AggregationInputs) -> NDArray[np.bool_]:
    """Return of each row whether a member got an assignment with it, as far as rows tell."""
    names = rows.words("api_name")
    is_sync = _is_one_of(names, {"SyncGroup"}) & _is_one_of(rows.words("status"), {"ok"})
    return is_sync | _has_assignment(rows, names)


def add_groups(groups: BoundedCounters[GroupTotals], rows: AggregationInputs) -> None:
    """Add what rows show of groups that rebalance, by ``(group_id,)``."""
    found = _Members(rows)
    places = found.places
    if not len(places):
        return
    group_ids, names = rows.words("group_id"), rows.words("api_name")
    by_group = SortedGroups(key_of(group_ids)[places])
    masks = (found.is_join, found.is_sync, found.is_leave, found.is_told, found.is_failed)
    counts = by_group.sums(*(mask[places].astype(np.int64) for mask in masks))
    latencies = rows.ints("latency_ns").values[places]
    is_timed = rows.known("latency_ns")
    joins = by_group.values(latencies, (is_timed & found.is_join)[places])
    syncs = by_group.values(latencies, (is_timed & found.is_sync)[places])
    is_answered = rows.known("response_start_ns")[places]
    ends = by_group.values(rows.ints("response_start_ns").values[places], is_answered)
    for first, of_group, join, sync, end in zip(
        by_group.firsts, counts, joins, syncs, ends, strict=True
    ):
        groups.of((value_at(group_ids, places[first]),)).merge(
            GroupTotals(
                _Counts(*of_group),
                longest_join_ns=join.max if join.items else None,
                longest_sync_ns=sync.max if sync.items else None,
                last_time_ns=end.max if end.items else None,
            )
        )
    _add_protocols(groups, group_ids, names, places)
    _add_assignments(groups, rows, found)
    _add_failures(groups, rows, places[found.is_failed[places]])


def _add_protocols(
    groups: BoundedCounters[GroupTotals],
    group_ids: WordArray,
    names: WordArray,
    places: NDArray[np.int64],
) -> None:
    pairs = SortedGroups(key_of(group_ids)[places], key_of(names)[places])
    for first in pairs.firsts:
        name = value_at(names, places[first])
        if protocol := _PROTOCOLS.get(str(name)):
            group = groups.of((value_at(group_ids, places[first]),))
            group.merge(GroupTotals(protocol=protocol))


def _add_assignments(
    groups: BoundedCounters[GroupTotals], rows: AggregationInputs, found: _Members
) -> None:
    group_ids, member_ids = rows.words("group_id"), rows.words("member_id")
    places = found.places[member_ids.codes[found.places] >= 0]
    if not len(places):
        return
    pairs = SortedGroups(key_of(group_ids)[places], key_of(member_ids)[places])
    counts = pairs.sums(found.is_assigned[places].astype(np.int64))
    for first, (count,) in zip(pairs.firsts, counts, strict=True):
        if member_id := value_at(member_ids, places[first]):
            group = groups.of((value_at(group_ids, places[first]),))
            group.merge(GroupTotals(assignments={_short(str(member_id)): count}))


def _add_failures(
    groups: BoundedCounters[GroupTotals], rows: AggregationInputs, places: NDArray[np.int64]
) -> None:
    if not len(places):
        return
    group_ids, failures = rows.words("group_id"), rows.words("error_name")
    times_ns = rows.ints("response_start_ns").values[places]
    pairs = SortedGroups(key_of(group_ids)[places], key_of(failures)[places])
    for first, times in zip(pairs.firsts, pairs.values(times_ns), strict=True):
        group = groups.of((value_at(group_ids, places[first]),))
        name = str(value_at(failures, places[first]))
        group.merge(GroupTotals(failed=(times.max, name)))


def _short(member_id: str) -> int:
    """Return a number that stands for a member: ids may be long, and there may be many."""
    return zlib.crc32(member_id.encode("utf-8", "surrogatepass"))


def _has_assignment(rows: AggregationInputs, names: WordArray) -> NDArray[np.bool_]:
    """Return where the answer to a heartbeat has an assignment."""
    versions = rows.ints("api_version")
    is_known = (versions.values >= 0) & (versions.values <= _ASSIGNING_VERSIONS)
    is_plain = _is_one_of(names, _ASSIGNING) & _is_one_of(rows.words("status"), {"ok"}) & is_known
    if not is_plain.any():
        return is_plain
    member_ids = rows.words("member_id")
    # Code -1, null, finds the last one.
    sizes = np.array([*map(_string_bytes, member_ids.words), 1], dtype=np.int64)
    longest = _BARE_BYTES + sizes[member_ids.codes]
    found: NDArray[np.bool_] = is_plain & (rows.ints("response_bytes").values > longest)
    return found


def _string_bytes(text: str) -> int:
    """Return how many bytes a text takes as a string of a flexible version."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return size + -(-(size + 1).bit_length() // 7)


def _is_one_of(
    texts: WordArray, wanted: Mapping[str, str] | frozenset[str] | set[str]
) -> NDArray[np.bool_]:
    # Code -1, null, finds the last one.
    is_wanted = np.array([*(word in wanted for word in texts.words), False], dtype=np.bool_)
    found: NDArray[np.bool_] = is_wanted[texts.codes]
    return found


def _tells(rows: AggregationInputs, error_name: str) -> NDArray[np.bool_]:
    """Return where an error of this name is among the errors of a row."""
    lists = rows.lists("errors")
    names = lists.fields["name"]
    assert isinstance(names, WordArray)
    told = np.zeros(len(rows), dtype=np.bool_)
    told[rows_of_items(lists)[_is_one_of(names, {error_name})]] = True
    return told


def _higher(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)
