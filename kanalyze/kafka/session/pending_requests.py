"""The requests of one connection that wait for their response.

In: exchanges as their requests are read. Out: the one that a response belongs to.

Correlation ids belong to one connection; they may be 0, negative, repeated, or fall. A response
belongs to the oldest pending request with its id.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kanalyze.common.plain_values import items
from kanalyze.kafka.session.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.session.exchange import ExchangeOwner

__all__ = ["PendingRequests"]


class PendingRequests:
    """Exchanges without a response by correlation id, at most ``most`` of them.

    Most clients have one request in flight: a single one is not put into the table. ``most`` is 1
    or more.
    """

    _NOT_SAVED = ("_by_id", "_most", "_only", "size")
    """The state has the exchanges, one by one."""

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
        """Move a single request into the table."""
        if self._only is not None:
            self._by_id[self._only.correlation] = self._only
            self._only = None

    def state(self, context: ExchangeOwner) -> State:
        """Return what :meth:`load_state` takes."""
        return tuple([exchange.state(context) for exchange in self])

    def load_state(self, state: object, context: ExchangeOwner) -> None:
        """Continue from a state; raises ValueError for any other value."""
        exchange_states = items(state, "t")
        if len(exchange_states) > self._most:
            raise ValueError("more requests than may be pending")
        for exchange_state in exchange_states:
            self.add(Exchange.from_state(exchange_state, context))

    def add(self, exchange: Exchange) -> Exchange | None:
        """Add an exchange; return the oldest one if there are too many."""
        if self.size == 0:
            self._only = exchange
            self.size = 1
            return None
        self._put_in_table()
        waiting = self._by_id.setdefault(exchange.correlation, exchange)
        if isinstance(waiting, deque):
            waiting.append(exchange)
        elif waiting is not exchange:
            # A queue is made only for an id that is in use twice, which is rare.
            self._by_id[exchange.correlation] = deque((waiting, exchange))
        self.size += 1
        if self.size <= self._most:
            return None
        return self.pop(next(iter(self._by_id)))

    def oldest(self, correlation_id: int) -> Exchange | None:
        """Return the oldest exchange with this id."""
        self._put_in_table()
        waiting = self._by_id.get(correlation_id)
        return waiting[0] if isinstance(waiting, deque) else waiting

    def first(self) -> Exchange | None:
        """Return the exchange that was added first; the first of any id, if ids are used twice."""
        if self._only is not None:
            return self._only
        for waiting in self._by_id.values():
            return waiting[0] if isinstance(waiting, deque) else waiting
        return None

    def count(self, correlation_id: int) -> int:
        """Return how many exchanges have this id."""
        self._put_in_table()
        waiting = self._by_id.get(correlation_id)
        if waiting is None:
            return 0
        return len(waiting) if isinstance(waiting, deque) else 1

    def pop(self, correlation_id: int) -> Exchange | None:
        """Remove and return the oldest exchange with this id; None if there is none."""
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
            oldest = waiting.popleft()
            if waiting:
                return oldest
            waiting = oldest
        del self._by_id[correlation_id]
        return waiting

    def remove(self, exchange: Exchange) -> None:
        """Remove an exchange."""
        self._put_in_table()
        waiting = self._by_id[exchange.correlation]
        self.size -= 1
        if isinstance(waiting, deque):
            waiting.remove(exchange)
            if waiting:
                return
        del self._by_id[exchange.correlation]

    def apis(self) -> dict[int, set[tuple[int, int]]]:
        """Return the (api_key, api_version) of the exchanges of each correlation id."""
        apis_by_id: dict[int, set[tuple[int, int]]] = {}
        for exchange in self:
            key, version = exchange.api_key, exchange.api_version
            if key is not None and version is not None:
                apis_by_id.setdefault(exchange.correlation, set()).add((key, version))
        return apis_by_id

    def pop_all(self) -> list[Exchange]:
        """Remove and return all, in the order of their requests."""
        if self.size == 0:
            return []
        requests = list(self)
        self._by_id.clear()
        self.size = 0
        requests.sort(key=lambda exchange: exchange.request.start_packet if exchange.request else 0)
        return requests
