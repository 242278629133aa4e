"""The ends of connections that other connections go to: these are brokers.

In: connections whose client is known. Out: which end of another one is the client. A connection of
which only the end was captured does not show it itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.model.tcp import Endpoint

if TYPE_CHECKING:
    from kanalyze.model.tcp import TcpConnection

__all__ = ["KnownServers"]

_MAX_SERVERS = 4096


class KnownServers:
    """The servers of all connections so far; bounded, the first ones are kept."""

    _SAVED = Saved("_ends:dict[Endpoint]", Endpoint, bare=True)

    def __init__(self) -> None:
        self._ends: dict[Endpoint, None] = {}

    def _after_load(self) -> None:
        if len(self._ends) > _MAX_SERVERS:
            raise ValueError("more servers than are remembered")

    def note(self, tcp: TcpConnection, client_index: int | None) -> None:
        """Note the server of a connection, if it is known which end that is."""
        index = tcp.opened_by if client_index is None else client_index
        if index is not None and len(self._ends) < _MAX_SERVERS:
            self._ends[tcp.endpoints[1 - index]] = None

    def client_of(self, tcp: TcpConnection) -> int | None:
        """Return which end is the client, since the other one is a server; None if unknown."""
        first, second = (end in self._ends for end in tcp.endpoints)
        return int(first) if first != second else None
