"""Counts the rebalances of groups: consumer groups of both protocols, share and streams groups.

In: columns of rows. Out: :class:`RebalanceTotals` by group, with ``merge``.

Rows have neither generations nor member epochs. So rebalances are counted by the assignments that
a member gets: in the response to its SyncGroup or, in the newer protocols, to its heartbeat. A
heartbeat response without an assignment has only one field of variable length, the member id, so
its size shows whether there is an assignment. Heartbeat responses of streams groups have more
fields of variable length, so their assignments are not known.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from kanalyze.common.known import of_known
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.window.grouped_rows import GroupedRows, key_of, value_at
from kanalyze.live.window.row_measures import rows_with_items
from kanalyze.tables.columns.numpy_arrays import WordArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kanalyze.live.window.keyed_sums import KeyedSums
    from kanalyze.live.window.row_measures import RowMeasures

__all__ = ["MEMBER_LIMIT", "RebalanceTotals", "add_groups", "are_assignments"]

MEMBER_LIMIT = 32
"""Maximum number of members to count in a group. Their order does not decide which are counted."""

_PROTOCOLS = {
    "JoinGroup": "classic",
    "SyncGroup": "classic",
    "Heartbeat": "classic",
    "LeaveGroup": "classic",
    "ConsumerGroupHeartbeat": "consumer",
    "ShareGroupHeartbeat": "share",
    "StreamsGroupHeartbeat": "streams",
}
"""The protocol of a group, by its APIs."""

_REBALANCE = "REBALANCE_IN_PROGRESS"
_NO_FAILURES = frozenset({_REBALANCE, "MEMBER_ID_REQUIRED"})
"""Errors that belong to a normal rebalance."""
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
"""Errors of a member in any API, for example OffsetCommit."""

_ASSIGNING = frozenset({"ConsumerGroupHeartbeat", "ShareGroupHeartbeat"})
_ASSIGNING_VERSIONS = 1
"""The highest version whose layout is known."""
# Size, correlation id, header's tags, ThrottleTimeMs, ErrorCode, ErrorMessage, MemberEpoch,
# HeartbeatIntervalMs, Assignment, tags: the message and the assignment are null.
_BARE_BYTES = 4 + 4 + 1 + 4 + 2 + 1 + 4 + 4 + 1 + 1


class _GroupCounts(NamedTuple):
    """Counts of events in a group."""

    joins: int = 0
    """JoinGroup requests."""
    syncs: int = 0
    """SyncGroup requests."""
    leaves: int = 0
    """LeaveGroup requests."""
    rejoins: int = 0
    """Responses with REBALANCE_IN_PROGRESS: the member must rejoin."""
    failures: int = 0
    """Failed requests of members, without errors that belong to a normal rebalance."""


class RebalanceTotals:
    """The rebalances of a group."""

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
        counts: _GroupCounts = _GroupCounts(),  # noqa: B008 - a tuple
        *,
        protocol: str | None = None,
        longest_join_ns: int | None = None,
        longest_sync_ns: int | None = None,
        last_time_ns: int | None = None,
        failed: tuple[int, str] | None = None,
        assignments: Mapping[int, int] | None = None,
    ) -> None:
        """Start with some sums; ``failed`` is the time and the error of the last failure."""
        self.counts = counts
        self.protocol = protocol
        """``classic``, ``consumer``, ``share`` or ``streams``; None if not known. If a group
        changes its protocol, the one that comes last in this list."""
        self.longest_join_ns = longest_join_ns
        """The highest latency of JoinGroup, whose response waits for all members to join."""
        self.longest_sync_ns = longest_sync_ns
        """The same for SyncGroup, whose response waits for the leader's assignments."""
        self.last_time_ns = last_time_ns
        self._failed = failed
        self._assignments = dict(assignments or {})
        self._has_more_members = False
        self._drop_members()

    @property
    def members(self) -> int:
        """The members seen, up to :data:`MEMBER_LIMIT`."""
        return len(self._assignments)

    @property
    def members_known(self) -> bool:
        """False if there were more members than :attr:`members` says."""
        return not self._has_more_members

    @property
    def rebalances(self) -> int | None:
        """The lowest possible number of rebalances; None if not known.

        It is the number of assignments to the member that got most of them, because a rebalance
        gives each member one assignment.
        """
        if self.protocol not in ("classic", "consumer", "share"):
            return None
        return max(self._assignments.values(), default=None)

    @property
    def last_failure(self) -> str | None:
        """The name of the last error of a member; None if there is none."""
        return None if self._failed is None else self._failed[1]

    def merge(self, other: RebalanceTotals) -> None:
        """Add the counts of ``other``, which are of the same group."""
        self.counts = _GroupCounts(*map(int.__add__, self.counts, other.counts))
        self.protocol = max(self.protocol or "", other.protocol or "") or None
        self.longest_join_ns = of_known(max, self.longest_join_ns, other.longest_join_ns)
        self.longest_sync_ns = of_known(max, self.longest_sync_ns, other.longest_sync_ns)
        self.last_time_ns = of_known(max, self.last_time_ns, other.last_time_ns)
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


class _RebalanceRows:
    """Masks of the rows that are events of a rebalance, by kind of event."""

    def __init__(self, rows: RowMeasures) -> None:
        names = rows.words("api_name")
        is_of_group = (rows.words("group_id").codes >= 0) & rows.is_request
        is_membership = names.is_one_of(_PROTOCOLS)
        self.is_join = rows.is_join
        self.is_sync = names.is_one_of({"SyncGroup"})
        self.is_leave = names.is_one_of({"LeaveGroup"})
        self.is_rejoin = _has_error(rows, _REBALANCE)
        self.is_assigned = are_assignments(rows)
        failures = rows.words("error_name")
        self.is_failed = rows.is_error & (
            (is_membership & ~failures.is_one_of(_NO_FAILURES))
            | failures.is_one_of(_MEMBER_FAILURES)
        )
        is_event = self.is_join | self.is_sync | self.is_leave | self.is_rejoin
        is_event |= self.is_assigned | self.is_failed
        self.indices = np.flatnonzero(is_of_group & is_event)


def are_assignments(rows: RowMeasures) -> NDArray[np.bool_]:
    """Return for each row whether its response gave a member an assignment."""
    names = rows.words("api_name")
    is_sync = names.is_one_of({"SyncGroup"}) & rows.words("status").is_one_of({"ok"})
    return is_sync | _has_assignment(rows, names)


def add_groups(groups: KeyedSums[RebalanceTotals], rows: RowMeasures) -> None:
    """Add the events of rebalances in rows to the sums by ``(group_id,)``."""
    rebalance_rows = _RebalanceRows(rows)
    indices = rebalance_rows.indices
    if not len(indices):
        return
    group_ids, names = rows.words("group_id"), rows.words("api_name")
    by_group = GroupedRows(key_of(group_ids)[indices])
    masks = (
        rebalance_rows.is_join,
        rebalance_rows.is_sync,
        rebalance_rows.is_leave,
        rebalance_rows.is_rejoin,
        rebalance_rows.is_failed,
    )
    counts = by_group.sums(*(mask[indices].astype(np.int64) for mask in masks))
    latencies = rows.ints("latency_ns").values[indices]
    is_timed = rows.known("latency_ns")
    joins = by_group.values(latencies, (is_timed & rebalance_rows.is_join)[indices])
    syncs = by_group.values(latencies, (is_timed & rebalance_rows.is_sync)[indices])
    is_answered = rows.known("response_start_ns")[indices]
    ends = by_group.values(rows.ints("response_start_ns").values[indices], is_answered)
    for first, of_group, join, sync, end in zip(
        by_group.firsts, counts, joins, syncs, ends, strict=True
    ):
        groups.of((value_at(group_ids, indices[first]),)).merge(
            RebalanceTotals(
                _GroupCounts(*of_group),
                longest_join_ns=join.max if join.items else None,
                longest_sync_ns=sync.max if sync.items else None,
                last_time_ns=end.max if end.items else None,
            )
        )
    _add_protocols(groups, group_ids, names, indices)
    _add_assignments(groups, rows, rebalance_rows)
    _add_failures(groups, rows, indices[rebalance_rows.is_failed[indices]])


def _add_protocols(
    groups: KeyedSums[RebalanceTotals],
    group_ids: WordArray,
    names: WordArray,
    indices: NDArray[np.int64],
) -> None:
    pairs = GroupedRows(key_of(group_ids)[indices], key_of(names)[indices])
    for first in pairs.firsts:
        name = value_at(names, indices[first])
        if protocol := _PROTOCOLS.get(str(name)):
            group = groups.of((value_at(group_ids, indices[first]),))
            group.merge(RebalanceTotals(protocol=protocol))


def _add_assignments(
    groups: KeyedSums[RebalanceTotals], rows: RowMeasures, rebalance_rows: _RebalanceRows
) -> None:
    group_ids, member_ids = rows.words("group_id"), rows.words("member_id")
    indices = rebalance_rows.indices[member_ids.codes[rebalance_rows.indices] >= 0]
    if not len(indices):
        return
    pairs = GroupedRows(key_of(group_ids)[indices], key_of(member_ids)[indices])
    counts = pairs.sums(rebalance_rows.is_assigned[indices].astype(np.int64))
    for first, (count,) in zip(pairs.firsts, counts, strict=True):
        if member_id := value_at(member_ids, indices[first]):
            group = groups.of((value_at(group_ids, indices[first]),))
            group.merge(RebalanceTotals(assignments={_member_hash(str(member_id)): count}))


def _add_failures(
    groups: KeyedSums[RebalanceTotals], rows: RowMeasures, indices: NDArray[np.int64]
) -> None:
    if not len(indices):
        return
    group_ids, failures = rows.words("group_id"), rows.words("error_name")
    times_ns = rows.ints("response_start_ns").values[indices]
    pairs = GroupedRows(key_of(group_ids)[indices], key_of(failures)[indices])
    for first, times in zip(pairs.firsts, pairs.values(times_ns), strict=True):
        group = groups.of((value_at(group_ids, indices[first]),))
        name = str(value_at(failures, indices[first]))
        group.merge(RebalanceTotals(failed=(times.max, name)))


def _member_hash(member_id: str) -> int:
    """Hash a member id, which may be long."""
    return zlib.crc32(member_id.encode("utf-8", "surrogatepass"))


def _has_assignment(rows: RowMeasures, names: WordArray) -> NDArray[np.bool_]:
    """Return which heartbeat responses have an assignment."""
    versions = rows.ints("api_version")
    is_known = (versions.values >= 0) & (versions.values <= _ASSIGNING_VERSIONS)
    may_assign = names.is_one_of(_ASSIGNING) & rows.words("status").is_one_of({"ok"}) & is_known
    if not may_assign.any():
        return may_assign
    member_ids = rows.words("member_id")
    # Code -1, null, is the last index.
    sizes = np.array([*map(_string_bytes, member_ids.words), 1], dtype=np.int64)
    bytes_without_assignment = _BARE_BYTES + sizes[member_ids.codes]
    response_bytes = rows.ints("response_bytes").values
    has_assignment: NDArray[np.bool_] = may_assign & (response_bytes > bytes_without_assignment)
    return has_assignment


def _string_bytes(text: str) -> int:
    """Return the size of a text in a message of a flexible version: a compact string."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return size + -(-(size + 1).bit_length() // 7)


def _has_error(rows: RowMeasures, error_name: str) -> NDArray[np.bool_]:
    """Return which rows have an error of this name."""
    lists = rows.lists("errors")
    names = lists.fields["name"]
    assert isinstance(names, WordArray)
    return rows_with_items(lists, names.is_one_of({error_name}))
