"""Tells a request that waited on purpose from one that took long to answer: the one rule for it.

In: requests, in the order of their responses, with what they asked for and got. Out: whether the
broker held the answer back. This module must not know how messages are read.

What is held back for the members of a group
--------------------------------------------

A JoinGroup is answered when all members have come, a SyncGroup when the leader has sent the
assignments; that of the leader itself waits for nobody, but for the coordinator to write them down.
Some errors end such a wait. All others come at once.

What is held back for data
--------------------------

A broker answers a fetch at once when it has ``min_bytes``, when something is wrong, when
``max_wait_ms`` or ``min_bytes`` is 0, or when the fetch asks for nothing but the end of its
session. Otherwise it holds the answer until the data is there or ``max_wait_ms`` is over (KIP-541
and kafka.server.DelayedFetch describe it). So:

- fewer bytes than ``min_bytes``, after at least ``max_wait_ms``: it waited to the end;
- enough bytes, but all of them appended since the log end that an earlier response of the same
  connection told: it waited for them, unless they may as well have come before the request. The
  data came at some time after that earlier response; where most of that time lies before the
  request, no wait is claimed.

What other connections told would say more of the first fetches of one. It is not used: a row would
depend on what else was captured, and on where.

A broker works on one request of a connection at a time: a fetch that is sent while another waits is
held back with it, and is marked like it.

Where bytes of the connection were lost, an earlier answer may be among them: then nothing is said
of a fetch that does not prove by itself that it waited.

What is held back for anything to tell
--------------------------------------

A ShareFetch is held back as a Fetch is, but no response tells where logs end. An answer that left
room took all there was: what comes next on that connection was made available since then, and where
most of the time since lies within the request, the request waited for it. A heartbeat of the newer
groups is taken to be held back only where it brings an assignment, and by the same rule: no broker
is known to hold back one that brings none, and one that is slow is not to be excused.

Compiled by Cython, with the types in ``long_polls.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.plain_values import fields, items

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.tables.requests.summaries import (
        BASE_OFFSET,
        ERROR_CODE,
        HIGH_WATERMARK,
        LAST_OFFSET,
        PARTITION,
        RECORD_BYTES,
    )

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from kanalyze.common.plain_values import State
    from kanalyze.tables.requests.summaries import Delivery, ExchangeSummary

__all__ = [
    "HELD_BACK_APIS",
    "MEMBER_APIS",
    "LongPollDetector",
    "longest_wait_ms",
    "may_be_held_back",
    "waited_for_members",
]

_FETCH, _JOIN_GROUP, _SYNC_GROUP, _SHARE_FETCH = 1, 11, 14, 78
MEMBER_APIS: Final = frozenset({_JOIN_GROUP, _SYNC_GROUP})
"""Their answers wait for other members of the group."""
HELD_BACK_APIS: Final = MEMBER_APIS | {_FETCH, _SHARE_FETCH}
"""Keys of the APIs whose requests a broker may hold back before there is an answer."""

_ENDS_A_WAIT: Final = frozenset(
    {
        0,
        15,  # COORDINATOR_NOT_AVAILABLE: the group could not be written down
        16,  # NOT_COORDINATOR: it moved to another broker
        25,  # UNKNOWN_MEMBER_ID: the member was given up
        27,  # REBALANCE_IN_PROGRESS: one more member came before the assignments did
        82,  # FENCED_INSTANCE_ID: another took the place of the member
    }
)
"""Error codes with which a coordinator answers members that wait for others."""

_FINAL_EPOCH = -1
"""Of a fetch that ends its session (KIP-227, KIP-932)."""
_NS_PER_MS = 1_000_000
_TIMER_NS = _NS_PER_MS
"""Kafka's timer ticks in milliseconds."""
_KEPT = 4
_MOST_PARTITIONS = 200_000
_MOST_CONNECTIONS = 100_000
_NO_FETCH = (0, -1)


def waited_for_members(error_code: int, *, has_assignments: bool | None) -> bool:
    """Tell of a request of :data:`MEMBER_APIS` whether it waited for others.

    Args:
        error_code: of the response.
        has_assignments: whether it brings the assignments itself; None for a JoinGroup.
    """
    return not has_assignments and error_code in _ENDS_A_WAIT


def longest_wait_ms(summary: ExchangeSummary) -> int | None:
    """Return for how long a fetch of either kind asks to be held back; None: it does not say.

    0 for one that asks for no wait, or for no bytes, or for nothing but the end of its session.
    """
    if summary.max_wait_ms is None or summary.min_bytes is None:
        return None
    session = summary.session
    ends = session is not None and session.epoch == _FINAL_EPOCH and not session.asked
    if ends or summary.share_epoch == _FINAL_EPOCH or summary.min_bytes <= 0:
        return 0
    return max(summary.max_wait_ms, 0)


def may_be_held_back(api_key: int, summary: ExchangeSummary, *, start_ns: int, now_ns: int) -> bool:
    """Tell of a request without an answer whether the broker may hold that back at a time.

    Args:
        api_key: of any API.
        summary: of the request.
        start_ns: when it was sent.
        now_ns: the time.
    """
    if api_key in MEMBER_APIS:
        return not summary.has_assignments
    if api_key not in HELD_BACK_APIS:
        return False
    return start_ns + (longest_wait_ms(summary) or 0) * _NS_PER_MS >= now_ns


class LongPollDetector:
    """The ends of logs, as fetch responses told them, and when."""

    __slots__ = ("_emptied", "_ends", "_fetches")

    def __init__(self) -> None:
        self._emptied: dict[Hashable, int] = {}
        """By connection and API: when an answer brought all there was, -1 when one did not."""
        self._ends: dict[Hashable, list[tuple[int, int]]] = {}
        self._fetches: dict[Hashable, tuple[int, int]] = {}
        """By connection: until when an answer was held back, and when the last one came."""

    def state(self, connections: Collection[int]) -> State:
        """Return what :meth:`from_state` takes.

        It is what some connections told, by their serials: nobody will ask for the others. A
        partition is a connection, a topic, its id, and a number.
        """
        ends: dict[Any, Any] = self._ends
        emptied: dict[Any, Any] = self._emptied
        return (
            tuple([(log, tuple(told)) for log, told in ends.items() if log[0] in connections]),
            tuple([item for item in self._fetches.items() if item[0] in connections]),
            tuple([item for item in emptied.items() if item[0][0] in connections]),
        )

    @classmethod
    def from_state(cls, state: object) -> LongPollDetector:
        """Make them from a state; raises ValueError where that is none."""
        ends, fetches, emptied = fields(state, "ttt")
        made = cls()
        for each in items(ends, "t"):
            log, told = fields(each, "tt")
            known = [fields(end, "ii") for end in items(told, "t")]
            if len(known) > _KEPT:
                raise ValueError("more ends of a log than are kept")
            made._ends[fields(log, "nSYi")] = known
        for each in items(fetches, "t"):
            connection, fetch = fields(each, "nt")
            made._fetches[connection] = fields(fetch, "ii")
        for each in items(emptied, "t"):
            stream, emptied_ns = fields(each, "ti")
            made._emptied[fields(stream, "nI")] = emptied_ns
        return made

    def learn(self, partition: Hashable, high_watermark: int, time_ns: int) -> None:
        """Take in that at ``time_ns`` a partition's log ended at ``high_watermark``."""
        ends = self._ends.get(partition)
        if ends is None:
            if len(self._ends) >= _MOST_PARTITIONS:
                self._ends.clear()
            ends = self._ends[partition] = []
        ends.append((time_ns, high_watermark))
        if len(ends) > _KEPT:
            del ends[0]

    def fetch_waited(
        self,
        summary: ExchangeSummary,
        connection: int,
        request_ns: int,
        response_ns: int,
        lost_ns: int | None,
    ) -> bool | None:
        """Return true if the response to a fetch was held back, and learn the log ends in it.

        Args:
            summary: of the fetch.
            connection: and those below, as in :meth:`waited`.
            request_ns: time of the request's last byte.
            response_ns: time of the response's first byte.
            lost_ns: time of the last loss on the connection.
        """
        wait_ms, min_bytes = longest_wait_ms(summary), summary.min_bytes
        if wait_ms is None or min_bytes is None:
            return None
        record_bytes = 0
        got: list[tuple[Hashable, int]] = []
        log_ends: list[tuple[Hashable, int]] = []
        parts = summary.parts
        for index in range(parts.count):
            if not parts.knows(index, ERROR_CODE):
                continue
            if parts.knows(index, RECORD_BYTES):
                record_bytes += parts.number(index, RECORD_BYTES)
            # A log ends before a batch or after it, never within.
            column = BASE_OFFSET if parts.knows(index, BASE_OFFSET) else LAST_OFFSET
            has_offset = parts.knows(index, column)
            has_end = parts.knows(index, HIGH_WATERMARK)
            if not (has_offset or has_end):
                continue
            topic, topic_id = parts.topics[index], parts.topic_ids[index]
            log = (connection, topic, topic_id, parts.get(index, PARTITION))
            if has_offset:
                got.append((log, parts.number(index, column)))
            if has_end:
                log_ends.append((log, parts.number(index, HIGH_WATERMARK)))
        waited = self.waited(
            connection,
            request_ns,
            response_ns,
            wait_ms,
            min_bytes,
            record_bytes,
            bool(summary.errors),
            got,
            lost_ns,
        )
        for each, high_watermark in log_ends:
            self.learn(each, high_watermark, response_ns)
        return waited

    def waited(
        self,
        connection: Hashable,
        request_ns: int,
        response_ns: int,
        max_wait_ms: int,
        min_bytes: int,
        record_bytes: int,
        failed: bool,
        got: list[tuple[Hashable, int]],
        lost_ns: int | None = None,
    ) -> bool | None:
        """Tell whether a fetch's answer was held back; None when that cannot be told.

        Args:
            connection: which one; its fetches are asked about in the order of their responses.
            request_ns: when the request's last byte was seen.
            response_ns: when the response's first byte was seen.
            max_wait_ms: as :func:`longest_wait_ms` gives it.
            min_bytes: as asked for.
            record_bytes: bytes of records in the response.
            failed: whether the response has an error code.
            got: partition and base offset of all record data in the response.
            lost_ns: when bytes of the connection were last lost; None for never.
        """
        before = self._fetches.get(connection, _NO_FETCH)
        held_until, last_ns = before
        waited: bool = True
        told_ns: int | None = None
        if request_ns >= held_until:
            waited, told_ns = self._waited_itself(
                request_ns, response_ns, max_wait_ms, min_bytes, record_bytes, failed, got
            )
            if waited:
                held_until = response_ns
        if len(self._fetches) >= _MOST_CONNECTIONS:
            self._fetches.clear()
        self._fetches[connection] = (held_until, response_ns)
        if waited or lost_ns is None:
            return waited
        known_ns = last_ns if told_ns is None else min(last_ns, told_ns)
        return None if lost_ns > known_ns else False

    def waited_for_updates(
        self,
        stream: Hashable,
        request_ns: int,
        response_ns: int,
        delivery: Delivery,
        lost_ns: int | None = None,
    ) -> bool | None:
        """Tell whether a request was held back that no log end is told to.

        Args:
            stream: which connection and API; asked about in the order of the responses.
            request_ns: when the request's last byte was seen.
            response_ns: when the response's first byte was seen.
            delivery: what it brought.
            lost_ns: when bytes of the connection were last lost; None for never.
        """
        max_wait_ms, latency_ns = delivery.max_wait_ms, response_ns - request_ns
        emptied_ns = self._emptied.get(stream, -1)
        if not delivery.failed:
            # An error says nothing of what there is.
            if len(self._emptied) >= _MOST_CONNECTIONS:
                self._emptied.clear()
            self._emptied[stream] = response_ns if delivery.is_all else -1
        if delivery.failed or (max_wait_ms is not None and max_wait_ms <= 0):
            return False
        if not delivery.is_enough:
            return max_wait_ms is not None and latency_ns + _TIMER_NS >= max_wait_ms * _NS_PER_MS
        if emptied_ns >= 0 and latency_ns > request_ns - emptied_ns:
            return True
        return None if lost_ns is not None and lost_ns > emptied_ns else False

    def _waited_itself(
        self,
        request_ns: int,
        response_ns: int,
        max_wait_ms: int,
        min_bytes: int,
        record_bytes: int,
        failed: bool,
        got: list[tuple[Hashable, int]],
    ) -> tuple[bool, int | None]:
        """Tell as :meth:`waited`, and when what that rests on was told (-1: it never was)."""
        if max_wait_ms <= 0 or min_bytes <= 0 or failed:
            return False, None
        latency_ns = response_ns - request_ns
        if record_bytes < min_bytes:
            return latency_ns + _TIMER_NS >= max_wait_ms * _NS_PER_MS, None
        newest_ns = -1
        for partition, base_offset in got:
            told = self._before(partition, request_ns)
            if told is None:
                return False, -1
            if base_offset < told[1]:
                return False, None
            newest_ns = max(newest_ns, told[0])
        return newest_ns >= 0 and latency_ns > request_ns - newest_ns, newest_ns

    def _before(self, partition: Hashable, time_ns: int) -> tuple[int, int] | None:
        ends = self._ends.get(partition)
        if ends is None:
            return None
        for index in range(len(ends) - 1, -1, -1):
            told = ends[index]
            if told[0] <= time_ns:
                return told
        return None
