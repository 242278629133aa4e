"""Requests that expect no response, until it is clear that none comes.

In: exchanges as their requests are read, and responses. Out: the exchanges that are complete
without a response.

Kafka sends no response to a Produce with acks=0; some other brokers do (librdkafka's mock cluster).
Responses come in the order of their requests. So if a later request gets its response first, or no
response comes for long, the broker counts as one that sends none, and later requests do not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.session.early_responses import answers
from kanalyze.kafka.session.pending_requests import PendingRequests
from kanalyze.model.packets import NO_TIME

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.message_checks import MessageChecks

__all__ = ["OneWayRequests"]

_MAX_WAITING = 1000
_LONGEST_WAIT_NS = 5_000_000_000


class OneWayRequests:
    """The requests of one connection that expect no response and may still get one."""

    _SAVED = Saved("_sends_responses:bool? _requests:here")

    def __init__(self) -> None:
        self._requests = PendingRequests(2 * _MAX_WAITING)
        self._sends_responses: bool | None = None
        """True if the broker sends responses to such requests; None while that is unknown."""

    def __len__(self) -> int:
        return len(self._requests)

    def has_any(self) -> bool:
        """Return true if any request waits."""
        return self._requests.size > 0

    def add(self, exchange: Exchange) -> list[Exchange]:
        """Add a request; return those that are complete without a response, in their order."""
        if self._sends_responses is False:
            return [exchange]
        self._requests.add(exchange)
        return self.expire(_start_ns(exchange))

    def expire(self, now_ns: int) -> list[Exchange]:
        """Remove and return the requests that have waited for too long, or are too many."""
        expired = []
        while len(self._requests):
            oldest = next(iter(self._requests))
            began_ns = _start_ns(oldest)
            has_waited = began_ns != NO_TIME and now_ns - began_ns > _LONGEST_WAIT_NS
            if len(self._requests) <= _MAX_WAITING and not has_waited:
                break
            self._requests.remove(oldest)
            expired.append(oldest)
        return expired + self._expect_none() if expired else []

    def match(self, frame: Frame, correlation_id: int, checks: MessageChecks) -> Exchange | None:
        """Remove and return the request that a response belongs to; None if it fits none."""
        exchange = self._requests.oldest(correlation_id)
        if exchange is None or not answers(frame, exchange, checks):
            return None
        self._requests.remove(exchange)
        self._sends_responses = True
        return exchange

    def drop_before(self, packet: int, unsure_before: int) -> list[Exchange]:
        """Remove and return the requests before one that got its response, in their order.

        Args:
            packet: the packet in which that request began.
            unsure_before: a packet; the response to a request that began before it may be lost.
        """
        dropped = [exchange for exchange in self._requests if _start_packet(exchange) < packet]
        for exchange in dropped:
            self._requests.remove(exchange)
        dropped.sort(key=_start_packet)
        if dropped and _start_packet(dropped[-1]) >= unsure_before:
            dropped += self._expect_none()
        return dropped

    def drop_all(self) -> list[Exchange]:
        """Remove and return all, in their order."""
        return self._requests.pop_all()

    def _expect_none(self) -> list[Exchange]:
        """Note that a request got no response; return those that will get none either."""
        if self._sends_responses:
            return []
        self._sends_responses = False
        return self._requests.pop_all()


def _start_packet(exchange: Exchange) -> int:
    return exchange.request.start_packet if exchange.request is not None else 0


def _start_ns(exchange: Exchange) -> int:
    return exchange.request.start_ns if exchange.request is not None else 0
