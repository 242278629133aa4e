"""Requests that want no response, until it is plain that none comes.

In: exchanges as their requests are read, and which responses came. Out: the exchanges that end
without a response. This module must not know how messages are read.

Kafka answers no Produce with acks=0; some others do (librdkafka's mock cluster). Responses come in
the order of their requests: where a later request was answered first, or none is for long, the
broker is taken for one that does not, and nothing waits any more.

Compiled by Cython, with the types in ``one_way.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields
from kanalyze.kafka.session.pending_requests import Pending

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.session.exchange import Bodies, Exchange, Peers

__all__ = ["OneWayRequests"]

_MOST_WAITING = 1000
_PATIENCE_NS = 5_000_000_000


class OneWayRequests:
    """The requests of one connection that want no response and may have one all the same."""

    __slots__ = ("_is_answered", "_waiting")

    def __init__(self) -> None:
        self._waiting = Pending(2 * _MOST_WAITING)
        self._is_answered: bool | None = None
        """Whether the broker answers such requests; None while that is not known."""

    def __len__(self) -> int:
        return len(self._waiting)

    def is_waiting(self) -> bool:
        """Tell whether there are any."""
        return self._waiting.size > 0

    def state(self, bodies: Bodies) -> State:
        """Return what :meth:`load_state` takes."""
        return self._is_answered, self._waiting.state(bodies)

    def load_state(self, state: object, peers: Peers, bodies: Bodies) -> None:
        """Go on from a state; raises ValueError where that is none."""
        is_answered, waiting = fields(state, "Bt")
        self._is_answered = is_answered
        self._waiting.load_state(waiting, peers, bodies)

    def add(self, exchange: Exchange) -> list[Exchange]:
        """Let a request wait; return those that end without a response, in their order."""
        if self._is_answered is False:
            return [exchange]
        self._waiting.add(exchange)
        return self.overdue(_began_ns(exchange))

    def overdue(self, now_ns: int) -> list[Exchange]:
        """Take out the requests that have waited for too long, or are too many."""
        found = []
        while len(self._waiting):
            oldest = next(iter(self._waiting))
            if len(self._waiting) <= _MOST_WAITING and now_ns - _began_ns(oldest) <= _PATIENCE_NS:
                break
            self._waiting.remove(oldest)
            found.append(oldest)
        return found + self._none_comes() if found else []

    def oldest(self, correlation_id: int) -> Exchange | None:
        """Return the oldest request with an id."""
        return self._waiting.oldest(correlation_id)

    def answer(self, exchange: Exchange) -> None:
        """Take out a request that was answered."""
        self._waiting.remove(exchange)
        self._is_answered = True

    def pass_over(self, packet: int, unsure_before: int) -> list[Exchange]:
        """Take out what is not answered any more, in its order: a later request was.

        Args:
            packet: in which that one began.
            unsure_before: a packet; what began before it may have been answered unseen.
        """
        found = [exchange for exchange in self._waiting if _began(exchange) < packet]
        for exchange in found:
            self._waiting.remove(exchange)
        found.sort(key=_began)
        if found and _began(found[-1]) >= unsure_before:
            found += self._none_comes()
        return found

    def take_all(self) -> list[Exchange]:
        """Take out all that wait, in their order."""
        return self._waiting.take_all()

    def _none_comes(self) -> list[Exchange]:
        """Note that a request was passed over; return those that are, then, too."""
        if self._is_answered:
            return []
        self._is_answered = False
        return self._waiting.take_all()


def _began(exchange: Exchange) -> int:
    return exchange.request.start_packet if exchange.request is not None else 0


def _began_ns(exchange: Exchange) -> int:
    return exchange.request.start_ns if exchange.request is not None else 0
