"""The requests of one connection that wait for their response.

In: exchanges as their requests are read. Out: the one that a correlation id answers. This module
must not know how messages are read.

Correlation ids belong to one connection; they may be 0, negative, repeated, or fall. The oldest
unanswered request with an id is the one that a response with that id answers.

Compiled by Cython, with the types in ``pending.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kanalyze.common.plain_values import items
from kanalyze.kafka.session.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.session.exchange import Bodies, Peers

__all__ = ["Pending"]


class Pending:
    """Unanswered exchanges by correlation id, at most ``most`` of them, at least one.

    Most clients have one request at a time: while it is the only one it is not in the table.
    """

    __slots__ = ("_by_id", "_most", "_only", "size")
    _LEFT_OUT = ("_by_id", "_most", "_only", "size")
    """It writes the exchanges one by one."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._only: Exchange | None = None
        self._by_id: dict[int, Exchange | deque[Exchange]] = {}
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Exchange]:
        self._put_in_table()
        for waiting in self._by_id.values():
            if isinstance(waiting, deque):
                yield from waiting
            else:
                yield waiting

    def _put_in_table(self) -> None:
        """Let the only one be as those of many."""
        if self._only is not None:
            self._by_id[self._only.correlation] = self._only
            self._only = None

    def state(self, bodies: Bodies) -> State:
        """Return what :meth:`load_state` takes."""
        return tuple([exchange.state(bodies) for exchange in self])

    def load_state(self, state: object, peers: Peers, bodies: Bodies) -> None:
        """Go on from a state; raises ValueError where that is none."""
        waiting = items(state, "t")
        if len(waiting) > self._most:
            raise ValueError("more requests than wait at once")
        for each in waiting:
            self.add(Exchange.from_state(each, peers, bodies))

    def add(self, exchange: Exchange) -> Exchange | None:
        """Add an unanswered exchange; return the oldest one when there are too many."""
        if self.size == 0:
            self._only = exchange
            self.size = 1
            return None
        self._put_in_table()
        waiting = self._by_id.setdefault(exchange.correlation, exchange)
        if isinstance(waiting, deque):
            waiting.append(exchange)
        elif waiting is not exchange:
            # Rare enough that a queue is made only for an id that is in use twice.
            self._by_id[exchange.correlation] = deque((waiting, exchange))
        self.size += 1
        if self.size <= self._most:
            return None
        return self.answer(next(iter(self._by_id)))

    def oldest(self, correlation_id: int) -> Exchange | None:
        """Return the exchange that this id answers, and leave it here."""
        self._put_in_table()
        waiting = self._by_id.get(correlation_id)
        return waiting[0] if isinstance(waiting, deque) else waiting

    def count(self, correlation_id: int) -> int:
        """Return how many exchanges with this id are here."""
        self._put_in_table()
        waiting = self._by_id.get(correlation_id)
        if waiting is None:
            return 0
        return len(waiting) if isinstance(waiting, deque) else 1

    def answer(self, correlation_id: int) -> Exchange | None:
        """Take out the exchange that this id answers; None when none waits."""
        only = self._only
        if only is not None:
            if only.correlation != correlation_id:
                return None
            self._only = None
            self.size = 0
            return only
        waiting = self._by_id.get(correlation_id)
        if waiting is None:
            return None
        self.size -= 1
        if isinstance(waiting, deque):
            found = waiting.popleft()
            if waiting:
                return found
            waiting = found
        del self._by_id[correlation_id]
        return waiting

    def remove(self, exchange: Exchange) -> None:
        """Take out an exchange that is here."""
        self._put_in_table()
        waiting = self._by_id[exchange.correlation]
        self.size -= 1
        if isinstance(waiting, deque):
            waiting.remove(exchange)
            if waiting:
                return
        del self._by_id[exchange.correlation]

    def keys(self) -> dict[int, set[tuple[int, int]]]:
        """Return the (api_key, api_version) of the exchanges of each correlation id."""
        found: dict[int, set[tuple[int, int]]] = {}
        for exchange in self:
            key, version = exchange.api_key, exchange.api_version
            if key is not None and version is not None:
                found.setdefault(exchange.correlation, set()).add((key, version))
        return found

    def take_all(self) -> list[Exchange]:
        """Take out all that wait, in the order of their requests."""
        if self.size == 0:
            return []
        left = list(self)
        self._by_id.clear()
        self.size = 0
        left.sort(key=lambda exchange: exchange.request.start_packet if exchange.request else 0)
        return left
