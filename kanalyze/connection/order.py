"""Exchanges in the order in which they ended, of a step: objects and columns together.

In: exchanges, connection by connection. Out: :class:`Sorted`. This module must not know how they
were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from kanalyze.connection.columns import ExchangeColumns
    from kanalyze.connection.exchange import Exchange

__all__ = ["Ended", "Sorted"]

_NONE = np.zeros(0, np.int64)


class Ended:
    """Exchanges in the order in which their connections ended them, then by packets."""

    def __init__(self) -> None:
        self._latest: list[NDArray[np.int64]] = []
        self._count = 0
        self._objects: list[tuple[int, Exchange]] = []
        self._columns: list[tuple[NDArray[np.int64], ExchangeColumns]] = []

    def add(self, exchanges: Iterable[Exchange], latest: int = 0) -> int:
        """Add what one connection ended; return the last packet that any of it ended in.

        Of one connection the order is that of its streams, whatever the packets': none counts as
        ended before the one before it, nor before the packet ``latest``.
        """
        found = []
        for exchange in exchanges:
            latest = max(latest, _ended(exchange))
            found.append(latest)
            self._objects.append((self._count, exchange))
            self._count += 1
        if found:
            self._latest.append(np.array(found, np.int64))
        return latest

    def add_run(self, latest: NDArray[np.int64]) -> int:
        """Make places for a run of exchanges; return the first."""
        first = self._count
        self._latest.append(latest)
        self._count += len(latest)
        return first

    def fill(self, place: int, exchange: Exchange) -> None:
        """Put an exchange in a place that was made."""
        self._objects.append((place, exchange))

    def fill_columns(self, places: NDArray[np.int64], columns: ExchangeColumns) -> None:
        """Put exchanges in places that were made; their ``turn`` is set by :meth:`sort`."""
        self._columns.append((places, columns))

    def sort(self) -> Sorted:
        """Return all of them in order."""
        if not self._count:
            return Sorted([], _NONE, [], _NONE)
        latest = np.concatenate(self._latest)
        # Ties are of one packet, and so of one connection: they stay as they stand.
        order = np.argsort(latest, kind="stable")
        turns = np.empty(self._count, np.int64)
        turns[order] = np.arange(self._count)
        places = turns[[place for place, _ in self._objects]] if self._objects else _NONE
        by_turn = np.argsort(places)
        objects = [self._objects[index][1] for index in by_turn.tolist()]
        for own, columns in self._columns:
            columns.turn[:] = turns[own]
        every = [columns for _, columns in self._columns]
        return Sorted(objects, places[by_turn], every, latest[order])


class Sorted(NamedTuple):
    """Exchanges in order."""

    exchanges: list[Exchange]
    """Those that are objects."""
    turns: NDArray[np.int64]
    """Place of each of them among all."""
    columns: list[ExchangeColumns]
    """The others, which say their turns themselves."""
    latest: NDArray[np.int64]
    """By turn: the packet by which an exchange counts as ended. Rises."""


def _ended(exchange: Exchange) -> int:
    if exchange.settled_packet is not None:
        return exchange.settled_packet
    message = exchange.response or exchange.request
    if message is None:
        return 0
    return message.start_packet if message.end_packet is None else message.end_packet
