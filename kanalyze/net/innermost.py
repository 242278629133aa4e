"""The innermost headers of packets, whatever they carry, for packet filters.

In: a packet batch. Out: :class:`Innermost`. Must not know: filters.

The same code reads these headers for the analysis: behind VLAN tags and inside of tunnels.
Fragments are not reassembled here.

Compiled by Cython, with the types in ``innermost.pxd``; uncompiled it does the same, slowly.
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
    from kanalyze.net.header_kinds import DROPPED, IP_PROTOCOL, IPV4, IPV6
    from kanalyze.net.ip.ip_headers import read_ipv4, read_ipv6
    from kanalyze.net.layers import find_tcp

    TCP_PROTOCOL, UDP_PROTOCOL = 6, 17
    NONE = -1

if TYPE_CHECKING:
    from kanalyze.model.packets import PacketBatch

__all__ = ["Innermost"]


class Innermost:
    """Columns with an entry for each packet of a batch; valid as long as its buffer.

    Attributes:
        kind: of the innermost header (see :mod:`kanalyze.net.header_kinds`); that of IP around a
            tunnel that is not read. -1 where it is not known.
        at: index in the buffer of that header.
        protocol: what IP carries; -1 where that is not known, or there is no IP.
        transport_at: index in the buffer of a TCP or UDP header; -1 where there is none, as in
            fragments but the first.
        limit: index of the end of the packet, as far as it was captured.
        is_known: 1 where the header could be read; 0 where it was cut or is wrong, and for a
            fragment that may be of a tunnel.
        fragments: for each packet with a part of a TCP segment its index, the key of its datagram,
            and whether it is the first part.
    """

    __slots__ = (
        *("at", "fragments", "is_known", "kind", "limit", "protocol", "transport_at"),
        *("_ats", "_is_part", "_kinds", "_known", "_limits", "_protocols", "_transports"),
    )

    def __init__(self, batch: PacketBatch) -> None:
        rows = len(batch)
        none = array("q", [NONE]) * rows
        self.kind, self.protocol, self.transport_at = none[:], none[:], none[:]
        zeros = bytes(8 * rows)
        self.at, self.limit, self.is_known = (array("q", zeros) for _column in range(3))
        self.fragments: list[tuple[int, tuple[int, ...], bool]] = []
        self._kinds = memoryview(self.kind)
        self._ats = memoryview(self.at)
        self._protocols = memoryview(self.protocol)
        self._transports = memoryview(self.transport_at)
        self._limits = memoryview(self.limit)
        self._known = memoryview(self.is_known)
        self._is_part = False
        self._read(HeaderCursor(batch, LayerStats()), rows)

    def _read(self, cursor: HeaderCursor, rows: int) -> None:
        leave = self._leave
        for row in range(rows):
            self._is_part = False
            link = cursor.begin(row)
            if find_tcp(cursor, link, leave):
                self._take(cursor, TCP_PROTOCOL)
            elif self._is_part:
                self._take_part(cursor)
            elif cursor.kind >= 0:
                self._read_other(cursor)

    def _leave(self, _cursor: HeaderCursor) -> int:
        """Stop at a fragment."""
        self._is_part = True
        return DROPPED

    def _take(self, cursor: HeaderCursor, protocol: int) -> None:
        """Note what a cursor that stands at what IP carries has read."""
        self._note(cursor)
        self._protocols[cursor.row] = protocol
        self._limits[cursor.row] = cursor.limit
        if protocol in (TCP_PROTOCOL, UDP_PROTOCOL):
            self._transports[cursor.row] = cursor.at

    def _take_part(self, cursor: HeaderCursor) -> None:
        """Note a fragment of TCP."""
        if cursor.part_protocol != TCP_PROTOCOL:
            return
        is_first = cursor.part_offset == 0
        self._take(cursor, TCP_PROTOCOL)
        self.fragments.append((cursor.row, cursor.part_key, is_first))
        if not is_first:
            self._transports[cursor.row] = NONE

    def _note(self, cursor: HeaderCursor) -> None:
        """Note the last header that a cursor was at."""
        self._known[cursor.row] = True
        self._kinds[cursor.row] = cursor.kind
        self._ats[cursor.row] = cursor.kind_at

    def _read_other(self, cursor: HeaderCursor) -> None:
        """Read once more the last IP header of a packet that is no TCP, for what it carries."""
        if cursor.kind not in (IPV4, IPV6):
            # Something else than IP, such as ARP.
            self._note(cursor)
            return
        cursor.at = cursor.kind_at
        cursor.limit = cursor.kind_limit
        kind = read_ipv4(cursor) if cursor.kind == IPV4 else read_ipv6(cursor)
        if kind >= 0:
            self._take(cursor, kind - IP_PROTOCOL)
