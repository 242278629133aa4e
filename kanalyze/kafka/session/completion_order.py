"""The exchanges of a step in the order in which they ended.

In: exchanges, connection by connection. Out: the same in order. This module must not know how they
were read.

Compiled by Cython, with the types in ``order.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.framing.frame import NO_PACKET

if TYPE_CHECKING:
    from kanalyze.kafka.session.exchange import Exchange

__all__ = ["Ended"]


class Ended:
    """Exchanges in the order in which their connections ended them, then by packets."""

    __slots__ = ("_exchanges", "_latest")

    def __init__(self) -> None:
        self._latest: list[int] = []
        self._exchanges: list[Exchange] = []

    def add(self, exchanges: list[Exchange]) -> None:
        """Add what one connection ended in a step.

        Of one connection the order is that of its streams, whatever the packets': none counts as
        ended before the one before it.
        """
        latest = 0
        for exchange in exchanges:
            ended = _ended(exchange)
            if ended > latest:  # as max(), which makes objects
                latest = ended
            self._latest.append(latest)
        self._exchanges += exchanges

    def sort(self) -> tuple[list[Exchange], list[int]]:
        """Return all of them in order, and of each the packet by which it counts as ended."""
        latest, exchanges = self._latest, self._exchanges
        # Ties are of one packet, and so of one connection: they stay as they stand.
        order = sorted(range(len(latest)), key=latest.__getitem__)
        return [exchanges[index] for index in order], [latest[index] for index in order]


def _ended(exchange: Exchange) -> int:
    if exchange.settled != NO_PACKET:
        return exchange.settled
    message = exchange.request if exchange.response is None else exchange.response
    if message is None:
        return 0
    return message.start_packet if message.last_packet == NO_PACKET else message.last_packet
