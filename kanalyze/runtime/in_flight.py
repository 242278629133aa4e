"""Requests in flight: those that wait for their response at one moment.

In: exchanges without a response. Out: :class:`InFlight`.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from kanalyze.common.bounded_text import bounded_text
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.model.tcp import Endpoint

__all__ = ["InFlight", "InFlightRequest", "in_flight"]


class InFlightRequest(NamedTuple):
    """A request that has no response yet."""

    start_ns: int
    """Unix time of its first byte in ns."""
    api_key: int | None
    api_name: str | None
    """Name of the API; None if it is unknown."""
    client_id: str | None
    """The client id; a long one is shortened, as in reports."""
    client: Endpoint
    broker: Endpoint


class InFlight(NamedTuple):
    """All requests that have no response yet."""

    requests: int
    oldest: tuple[InFlightRequest, ...]
    """A few of the oldest, the oldest first, without those that the broker may hold back on
    purpose."""

    def age_ns(self, now_ns: int) -> int:
        """Return how long the oldest request has waited in ns; 0 if there is none."""
        return max(now_ns - self.oldest[0].start_ns, 0) if self.oldest else 0


def in_flight(
    exchanges: Iterable[Exchange],
    api_name_of: Callable[[int], str | None],
    may_be_held_back: Callable[[Exchange], bool],
    most: int = 5,
) -> InFlight:
    """Sum up requests without a response.

    Args:
        exchanges: the requests.
        api_name_of: returns the name of an API key.
        may_be_held_back: returns whether the broker may still hold back the response to a request
            on purpose; such requests are counted, but not listed among the oldest.
        most: number of the oldest requests to list.
    """
    count = 0
    waiting = []
    for exchange in exchanges:
        request = exchange.request
        if request is None:
            continue
        count += 1
        key = exchange.api_key
        name = None if key is None else api_name_of(key)
        if not may_be_held_back(exchange):
            waiting.append((request.start_ns, count, name, exchange))
    return InFlight(count, tuple(_request_of(*entry) for entry in nsmallest(most, waiting)))


def _request_of(start_ns: int, _: int, name: str | None, exchange: Exchange) -> InFlightRequest:
    peers, client_id = exchange.peers, exchange.client_id
    client_id = None if client_id is None else bounded_text(client_id)
    return InFlightRequest(start_ns, exchange.api_key, name, client_id, peers.client, peers.broker)
