"""Tells a fetch that waited for data from one that took long to answer.

In: fetches, in the order of their responses, with what they asked for and got. Out: whether the
broker held the answer back. This module must not know how messages are read.

A broker answers a fetch at once when it has ``min_bytes``, when something is wrong, or when
``max_wait_ms`` or ``min_bytes`` is 0. Otherwise it holds the answer until the data is there or
``max_wait_ms`` is over (KIP-541 and kafka.server.DelayedFetch describe it). So:

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
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

__all__ = ["LogEnds"]

_NS_PER_MS = 1_000_000
_TIMER_NS = _NS_PER_MS
"""Kafka's timer ticks in milliseconds."""
_KEPT = 4
_MOST_PARTITIONS = 200_000
_MOST_CONNECTIONS = 100_000


class LogEnds:
    """The ends of logs, as fetch responses told them, and when."""

    def __init__(self) -> None:
        self._ends: dict[Hashable, list[tuple[int, int]]] = {}
        self._fetches: dict[Hashable, tuple[int, int]] = {}
        """By connection: until when an answer was held back, and when the last one came."""

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

    def waited(
        self,
        connection: Hashable,
        *,
        asked_ns: int,
        answered_ns: int,
        max_wait_ms: int,
        min_bytes: int,
        record_bytes: int,
        failed: bool,
        got: Iterable[tuple[Hashable, int]],
        lost_ns: int | None = None,
    ) -> bool | None:
        """Tell whether a fetch's answer was held back; None when that cannot be told.

        Args:
            connection: which one; its fetches are asked about in the order of their responses.
            asked_ns: when the request's last byte was seen.
            answered_ns: when the response's first byte was seen.
            max_wait_ms: as asked for.
            min_bytes: as asked for.
            record_bytes: bytes of records in the response.
            failed: whether the response has an error code.
            got: partition and base offset of all record data in the response.
            lost_ns: when bytes of the connection were last lost; None for never.
        """
        held_until, last_ns = self._fetches.get(connection, (0, -1))
        if asked_ns < held_until:
            waited, told_ns = True, None
        else:
            waited, told_ns = self._waited_itself(
                asked_ns, answered_ns, max_wait_ms, min_bytes, record_bytes, failed, got
            )
            if waited:
                held_until = answered_ns
        if len(self._fetches) >= _MOST_CONNECTIONS:
            self._fetches.clear()
        self._fetches[connection] = (held_until, answered_ns)
        if waited or lost_ns is None:
            return waited
        known_ns = last_ns if told_ns is None else min(last_ns, told_ns)
        return None if lost_ns > known_ns else False

    def _waited_itself(
        self,
        asked_ns: int,
        answered_ns: int,
        max_wait_ms: int,
        min_bytes: int,
        record_bytes: int,
        failed: bool,
        got: Iterable[tuple[Hashable, int]],
    ) -> tuple[bool, int | None]:
        """Tell as :meth:`waited`, and when what that rests on was told (-1: it never was)."""
        if max_wait_ms <= 0 or min_bytes <= 0 or failed:
            return False, None
        latency_ns = answered_ns - asked_ns
        if record_bytes < min_bytes:
            return latency_ns + _TIMER_NS >= max_wait_ms * _NS_PER_MS, None
        newest_ns = -1
        for partition, base_offset in got:
            told = self._before(partition, asked_ns)
            if told is None:
                return False, -1
            if base_offset < told[1]:
                return False, None
            newest_ns = max(newest_ns, told[0])
        return newest_ns >= 0 and latency_ns > asked_ns - newest_ns, newest_ns

    def _before(self, partition: Hashable, time_ns: int) -> tuple[int, int] | None:
        for told in reversed(self._ends.get(partition, ())):
            if told[0] <= time_ns:
                return told
        return None
