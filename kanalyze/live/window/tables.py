"""The tables of a snapshot: by which columns rows are grouped, and what is summed up.

In: columns of rows. Out: declarations, which :mod:`~kanalyze.live.window.sums` carries out. The
queries in ``kanalyze/queries/sql/report/`` define each figure; a test compares the two.

Groups are consumer groups of both protocols, share and streams groups. Rows have neither
generations nor member epochs. So rebalances are counted by the assignments that a member gets: in
the response to its SyncGroup or, in the newer protocols, to its heartbeat. A heartbeat response
without an assignment has only one field of variable length, the member id, so its size shows
whether there is an assignment. Heartbeat responses of streams groups have more fields of variable
length, so their assignments are not known.
"""

from __future__ import annotations

import zlib
from collections import Counter, namedtuple
from operator import attrgetter, not_
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.window.row_measures import NamedItems, rows_with_items
from kanalyze.live.window.sums import (
    ExactSum,
    GroupedRows,
    KeyedSums,
    Max,
    Quantiles,
    SumSource,
    key_of,
    values_at,
)
from kanalyze.tables.columns.numpy_arrays import WordArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from kanalyze.live.window.row_measures import RowMeasures

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
_PROTOCOL_NAMES = (None, *sorted(set(_PROTOCOLS.values())))

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


class GroupRows(NamedItems):
    """Rows with a group, as events of a rebalance."""

    def __init__(self, rows: RowMeasures) -> None:
        """Tell which rows are which events."""
        names, failures = rows.words("api_name"), rows.words("error_name")
        self.group_id = rows.words("group_id")
        self.member_id = rows.words("member_id")
        self.latency_ns = rows.ints("latency_ns")
        self.time_ns = rows.ints("response_start_ns")
        self.failure = failures
        self.is_join = rows.is_join
        self.is_sync = names.is_one_of({"SyncGroup"})
        self.is_leave = names.is_one_of({"LeaveGroup"})
        self.is_rejoin = _has_error(rows, _REBALANCE)
        self.is_assigned = _are_assignments(rows)
        self.is_failed = rows.is_error & (
            (names.is_one_of(_PROTOCOLS) & ~failures.is_one_of(_NO_FAILURES))
            | failures.is_one_of(_MEMBER_FAILURES)
        )
        protocols = [_PROTOCOL_NAMES.index(_PROTOCOLS.get(name)) for name in names.words]
        self.protocol = np.array([*protocols, 0], dtype=np.int64)[names.codes]
        is_event = self.is_join | self.is_sync | self.is_leave | self.is_rejoin
        is_event |= self.is_assigned | self.is_failed
        self.is_event = is_event & (self.group_id.codes >= 0) & rows.is_request


class _Membership(NamedTuple):
    """The members of a group."""

    protocol: int = 0
    """Index in :data:`_PROTOCOL_NAMES`."""
    assignments: Mapping[int, int] = {}
    """Number of assignments by hash of the member id, for some members."""
    has_more: bool = False
    """True if there were more members."""

    def limited(self) -> _Membership:
        """Return it with at most :data:`MEMBER_LIMIT` members."""
        if len(self.assignments) <= MEMBER_LIMIT:
            return self
        kept = {hashed: self.assignments[hashed] for hashed in sorted(self.assignments)}
        for hashed in list(kept)[MEMBER_LIMIT:]:
            del kept[hashed]
        return self._replace(assignments=kept, has_more=True)


class _Members:
    """The protocol of a group, its members, and its rebalances.

    A rebalance gives each member one assignment. So there were at least as many rebalances as
    assignments to the member that got most of them. If a group changes its protocol, the one that
    comes last in the alphabet counts.
    """

    def start(self) -> _Membership:
        """Return no members."""
        return _Membership()

    def values(self, groups: GroupedRows, items: GroupRows) -> list[_Membership]:
        """Return the members of each group."""
        assignments: list[dict[int, int]] = [{} for _ in groups.firsts]
        members, numbers = items.member_id, groups.numbers(len(items.is_event))
        pairs = GroupedRows(
            numbers + 1, key_of(members), where=(numbers >= 0) & (members.codes >= 0)
        )
        for first, member_id, count in zip(
            pairs.firsts,
            values_at(members, pairs.firsts),
            pairs.sums(items.is_assigned),
            strict=True,
        ):
            if member_id:
                assignments[numbers[first]][_member_hash(str(member_id))] = count
        protocols = groups.highest(items.protocol)
        return [
            _Membership(protocol or 0, of_group).limited()
            for protocol, of_group in zip(protocols, assignments, strict=True)
        ]

    @staticmethod
    def merged(value: _Membership, more: _Membership) -> _Membership:
        """Add the assignments of both."""
        assignments = Counter(value.assignments)
        assignments.update(more.assignments)
        protocol = max(value.protocol, more.protocol)
        return _Membership(protocol, assignments, value.has_more or more.has_more).limited()

    def figures(self, value: _Membership) -> dict[str, object]:
        """Return the protocol, the number of members, and that of rebalances."""
        protocol = _PROTOCOL_NAMES[value.protocol]
        has_assignments = protocol in ("classic", "consumer", "share")
        return {
            "protocol": protocol,
            "members": len(value.assignments),
            "members_known": not value.has_more,
            "rebalances": max(value.assignments.values(), default=None)
            if has_assignments
            else None,
        }


class _LastFailure:
    """The name of the last error of a member; None if there is none."""

    def start(self) -> None:
        """Return no failure."""

    def values(self, groups: GroupedRows, items: GroupRows) -> list[tuple[int, str] | None]:
        """Return the time and the name of the last failure of each group."""
        codes, words = items.failure
        # Of failures at the same time, the one whose name comes last in the alphabet.
        order_of_words = np.zeros(len(words) + 1, dtype=np.int64)
        order_of_words[sorted(range(len(words)), key=words.__getitem__)] = range(len(words))
        by_time = np.lexsort([order_of_words[codes], items.time_ns.values])
        ranks = np.empty_like(by_time)
        ranks[by_time] = np.arange(len(by_time))
        latest = [
            None if rank is None else int(by_time[rank])
            for rank in groups.highest(ranks, items.is_failed)
        ]
        return [
            None if row is None else (int(items.time_ns.values[row]), words[codes[row]])
            for row in latest
        ]

    @staticmethod
    def merged(
        value: tuple[int, str] | None, more: tuple[int, str] | None
    ) -> tuple[int, str] | None:
        """Return the later one."""
        return max(filter(None, (value, more)), default=None)

    def figures(self, value: tuple[int, str] | None) -> dict[str, str | None]:
        """Return the name."""
        return {"last_error_name": None if value is None else value[1]}


GROUPS: Final = SumSource(
    GroupRows,
    ("group_id",),
    _Members(),
    ExactSum("joins", "is_join"),
    ExactSum("syncs", "is_sync"),
    ExactSum("leaves", "is_leave"),
    ExactSum("told", "is_rejoin"),
    ExactSum("errors", "is_failed"),
    _LastFailure(),
    Max("longest_join_ns", "latency_ns", where="is_join"),
    Max("longest_sync_ns", "latency_ns", where="is_sync"),
    Max("last_time_ns", "time_ns"),
    where="is_event",
)
"""What is summed up of each group."""


class GroupEvents(NamedItems):
    """Events of groups: one item for each event of a row."""

    def __init__(self, rows: RowMeasures) -> None:
        """Tell the events of rows."""
        groups = GroupRows(rows)
        events = {
            "join": groups.is_join,
            "sync": groups.is_sync,
            "leave": groups.is_leave,
            "rebalance_in_progress": groups.failure.is_one_of({_REBALANCE}),
            "assign": groups.is_assigned,
        }
        has_group = groups.group_id.codes >= 0
        found = [np.flatnonzero(is_event & has_group) for is_event in events.values()]
        codes = np.repeat(np.arange(len(found), dtype=np.int32), [*map(len, found)])
        self.event = WordArray(codes, list(events))
        self.group = WordArray(groups.group_id.codes[np.concatenate(found)], groups.group_id.words)
        self.one = np.ones(len(codes), dtype=np.bool_)


def _are_assignments(rows: RowMeasures) -> NDArray[np.bool_]:
    """Return for each row whether its response gave a member an assignment."""
    names = rows.words("api_name")
    is_sync = names.is_one_of({"SyncGroup"}) & rows.words("status").is_one_of({"ok"})
    return is_sync | _has_assignment(rows, names)


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


_API_LIMIT: Final = 128
"""APIs with sums of their own: Kafka has fewer, but keys on the wire may be wrong."""


def _entry_type(fields: Sequence[str]) -> Any:
    return namedtuple("Entry", fields)


class WindowTable:
    """A table of a snapshot."""

    def __init__(
        self,
        names: Sequence[str],
        *sources: SumSource,
        rank: Callable[[Any], int],
        limit: int | None = None,
        of_others: Mapping[str, object] | None = None,
    ) -> None:
        """Declare a table. Its entries have the names, ``other``, and the figures of all measures.

        Args:
            names: what the columns of a key are called in an entry.
            sources: what is summed up; all have as many columns of keys as there are names.
            rank: returns the rank of an entry; the highest come first, equal ones by name.
            limit: how many keys have sums of their own in a step; None for that of the windows.
            of_others: fields of the entry for all keys beyond the limit that are not known.
        """
        self._names = names
        self._sources = sources
        self._rank = rank
        self._limit = limit
        self._of_others = of_others or {}
        self._measures = [measure for source in sources for measure in source.measures]
        nothing = [measure.start() for measure in self._measures]
        figures = self.sums(0).figures(nothing)
        self._entry = _entry_type([*names, "other", *figures])
        self.amounts = [
            each.name for each in self._measures if isinstance(each, ExactSum) and each.is_amount
        ]
        """The fields of an entry that are sums."""

    def sums(self, limit: int) -> KeyedSums:
        """Return sums without keys; ``limit`` is that of tables without a limit of their own."""
        return KeyedSums(self._measures, self._limit or limit)

    def add(self, sums: KeyedSums, rows: RowMeasures) -> None:
        """Add rows to sums of this table."""
        first = 0
        for source in self._sources:
            end = first + len(source.measures)
            items = source.items(rows)
            if items is not None:
                keys = [items[name] for name in source.keys]
                where = None if source.where is None else items[source.where]
                sums.add(keys, items, where, slice(first, end))
            first = end

    def entries(self, sums: KeyedSums) -> tuple[Any, ...]:
        """Return the entries, the highest rank first, with that of the others at the end."""
        entries = [self._entry(*key, False, *sums.figures(values).values()) for key, values in sums]
        # Sort keys are texts: thousands of lists would keep the garbage collector busy.
        entries.sort(key=lambda entry: str(entry[: len(self._names)]))
        entries.sort(key=self._rank, reverse=True)
        if sums.others is not None:
            others = {**dict.fromkeys(self._names), **sums.figures(sums.others), **self._of_others}
            entries.append(self._entry(**others, other=True))
        return tuple(entries)


def _rows(rows: RowMeasures) -> RowMeasures:
    return rows


_TRAFFIC: Final = (
    ExactSum("requests", "is_request"),
    ExactSum("errors", "is_error"),
    ExactSum("request_bytes", "request_bytes"),
    ExactSum("response_bytes", "response_bytes"),
    ExactSum("unread", "is_unread"),
)
"""The fields of :class:`~kanalyze.live.window.snapshot.Amounts`."""
_WORK_LATENCY: Final = Quantiles("latency_ns", where="is_not_held_back")

WINDOW_TABLES: Final = {
    "apis": WindowTable(
        ("wire", "api_key", "api_name", "waited"),
        SumSource(
            _rows,
            ("wire", "api_key", "api_name", "is_held_back"),
            *_TRAFFIC,
            Quantiles("latency_ns"),
        ),
        rank=attrgetter("requests"),
        limit=_API_LIMIT,
        of_others={"waited": False},
    ),
    "clients": WindowTable(
        ("client_id", "client_ip"),
        # A response without its request has no client id.
        SumSource(_rows, ("client_id", "client_ip"), *_TRAFFIC, _WORK_LATENCY, where="is_request"),
        rank=attrgetter("requests"),
    ),
    "brokers": WindowTable(
        ("broker",),
        SumSource(_rows, ("broker",), *_TRAFFIC, _WORK_LATENCY),
        rank=attrgetter("requests"),
    ),
    "topics": WindowTable(
        ("topic", "topic_id"),
        SumSource(
            attrgetter("partitions"),
            ("topic", "id_without_name"),
            ExactSum("produce_requests", "is_first_produced"),
            ExactSum("produced_records", "produced_records"),
            ExactSum("produced_bytes", "produced_bytes"),
            ExactSum("fetch_requests", "is_first_fetched"),
            ExactSum("fetched_records", "fetched_records"),
            ExactSum("fetched_bytes", "fetched_bytes"),
            # False: there may be more records.
            ExactSum("records_known", "is_unknown", not_),
        ),
        SumSource(
            attrgetter("errors"), ("topic", "no_id"), ExactSum("errors", "one"), where="has_topic"
        ),
        rank=lambda entry: entry.produced_bytes + entry.fetched_bytes,
    ),
    "errors": WindowTable(
        ("api_name", "error_code", "error_name", "topic"),
        SumSource(
            attrgetter("errors"),
            ("api_name", "code", "name", "topic"),
            ExactSum("occurrences", "one"),
            Max("last_time_ns", "time_ns"),
        ),
        rank=attrgetter("occurrences"),
    ),
}
"""By field of a snapshot: tables over the window. The first has all rows.

APIs: requests that the broker held back on purpose have their own entry (``waited``); the key is
null for responses whose request is not known. Clients and brokers: latencies without such requests.
Topics: the id is null if the name is known. Errors: every code in a response counts.
"""

RECENT_TABLES: Final = {
    "groups": WindowTable(
        ("group_id",),
        GROUPS,
        rank=lambda entry: entry.last_time_ns or 0,
        of_others={"protocol": None, "rebalances": None},
    )
}
"""Tables over the last minute.

Groups whose members joined, left, failed, had to rejoin or got an assignment. Members of the newer
protocols join and leave by heartbeats: for their groups ``joins``, ``syncs``, ``leaves`` and
``told`` are 0.
"""
