"""Selects the packets of TCP connections by port and by address.

In: a packet batch. Out: the indices of the packets selected.

The headers are those that the analysis reads, by the same code: behind VLAN tags and inside
tunnels.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kanalyze.net.header_cursor import HeaderCursor
from kanalyze.net.layer_stats import LayerStats

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.header_kinds import DROPPED
    from kanalyze.net.layers import find_tcp

    PORTS_BYTES = 4
    NETWORK_NUMBERS = 5

if TYPE_CHECKING:
    from collections.abc import Collection
    from ipaddress import IPv4Network, IPv6Network

    from kanalyze.model.packets import PacketBatch

__all__ = ["EndpointFilter"]

_PORTS = 1 << 16
_LOW_64_BITS = (1 << 64) - 1


class EndpointFilter:
    """Selects TCP packets by the port and by the address of either end.

    Packets whose ports are not known are selected too: fragments, and packets that the capture cut
    within the TCP header.
    """

    def __init__(
        self, ports: Collection[int], networks: Collection[IPv4Network | IPv6Network]
    ) -> None:
        """Select by ``ports`` and ``networks``; an empty collection matches everything."""
        flags = bytearray(_PORTS) if ports else bytearray(b"\1") * _PORTS
        for port in ports:
            flags[port] = 1
        self._ports = memoryview(bytes(flags))
        numbers = array("Q")
        for network in networks:
            mask, base = int(network.netmask), int(network.network_address)
            numbers.extend((network.version == 6, mask >> 64, mask & _LOW_64_BITS))
            numbers.extend((base >> 64, base & _LOW_64_BITS))
        self._networks = memoryview(numbers)
        self._network_count = len(networks)
        self._is_fragment = False

    def selected(self, packets: PacketBatch) -> array[int]:
        """Return the indices of the packets that match."""
        rows = array("q", bytes(8 * len(packets)))
        count = self._fill(HeaderCursor(packets, LayerStats()), memoryview(rows), len(packets))
        return rows[:count]

    def _fill(self, cursor: HeaderCursor, rows: memoryview, packets: int) -> int:
        used = 0
        leave = self._leave_fragment
        for row in range(packets):
            self._is_fragment = False
            link = cursor.begin(row)
            if find_tcp(cursor, link, leave):
                is_selected = self._has_port(cursor) and self._has_network(cursor)
            else:
                is_selected = self._is_fragment
            if is_selected:
                rows[used] = row
                used += 1
        return used

    def _leave_fragment(self, _cursor: HeaderCursor) -> int:
        """Note that the packet is a fragment, and stop reading it."""
        self._is_fragment = True
        return DROPPED

    def _has_port(self, cursor: HeaderCursor) -> bool:
        if cursor.at + PORTS_BYTES > cursor.limit:
            return True
        source, destination = cursor.u16(cursor.at), cursor.u16(cursor.at + 2)
        return self._ports[source] != 0 or self._ports[destination] != 0

    def _has_network(self, cursor: HeaderCursor) -> bool:
        if not self._network_count:
            return True
        for index in range(self._network_count):
            at = NETWORK_NUMBERS * index
            if (self._networks[at] != 0) == cursor.is_ipv6 and (
                self._is_in(at, cursor.source_high, cursor.source_low)
                or self._is_in(at, cursor.destination_high, cursor.destination_low)
            ):
                return True
        return False

    def _is_in(self, at: int, high: int, low: int) -> bool:
        return (
            high & self._networks[at + 1] == self._networks[at + 3]
            and low & self._networks[at + 2] == self._networks[at + 4]
        )
