"""What a condition may ask of packets: the innermost IP header of each, and the ports behind it.

In: a packet batch. Out: :class:`PacketHeaders`. Must not know: conditions.

These are the headers that the analysis reads, by the same code: behind VLAN tags and inside of
tunnels. So they are those of rows. Fragments are not put together here.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kanalyze.gathers import overlapping
from kanalyze.net.columns import Headers, Packets, Places
from kanalyze.net.ip import read_ipv4, read_ipv6
from kanalyze.net.kinds import IP_PROTOCOL, IPV4, IPV6
from kanalyze.net.layers import find_tcp
from kanalyze.net.notes import Notes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kanalyze.model import PacketBatch
    from kanalyze.net.ip import FragmentColumns

__all__ = ["TCP", "UDP", "Addresses", "Fragment", "PacketHeaders"]

TCP: Final = 6
UDP: Final = 17
_NONE: Final = -1
_PORTS_BYTES: Final = 4
_ADDRESSES_AT: Final = {IPV4: 12, IPV6: 8}
"""RFC 791, section 3.1; RFC 8200, section 3."""


class Addresses(NamedTuple):
    """One address of each packet. That of IPv4 stands in ``low``."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint64]


class Fragment(NamedTuple):
    """A packet that holds a part of a TCP segment."""

    row: int
    """Index of the packet in the batch."""
    key: tuple[int, ...]
    """The same for all fragments of a datagram, and for no other one at the time."""
    is_first: bool
    """It has the ports."""


class PacketHeaders:
    """Headers of the packets of a batch, as columns with an entry for each.

    Those that nobody asks for are not read. Valid as long as the batch's buffer.
    """

    def __init__(self, batch: PacketBatch) -> None:
        count = len(batch)
        self.wire_bytes = np.frombuffer(batch.wire_bytes, np.int64)
        self._batch = batch
        self._kind = np.full(count, _NONE, np.int64)
        """What the innermost header is; beyond IP, what it is of."""
        self._at = np.zeros(count, np.int64)
        """Index in the buffer of the innermost header."""
        self._limit = np.zeros(count, np.int64)
        self._transport_at = np.full(count, _NONE, np.int64)
        """Index in the buffer of what IP carries."""
        self._fragments: list[FragmentColumns] = []
        self.protocol = np.full(count, _NONE, np.int64)
        """What IP carries; -1 where that is not known, or there is no IP."""
        self.is_known = np.zeros(count, np.bool_)
        """Whether the header could be read. Not where it was cut or is wrong, and not that of a
        fragment that may be of a tunnel: there is no telling then what is inside."""
        self._read()

    @property
    def is_ipv4(self) -> NDArray[np.bool_]:
        """Whether it is an IPv4 header."""
        is_ipv4: NDArray[np.bool_] = self._kind == IPV4
        return is_ipv4

    @property
    def is_ipv6(self) -> NDArray[np.bool_]:
        """Whether it is an IPv6 header."""
        is_ipv6: NDArray[np.bool_] = self._kind == IPV6
        return is_ipv6

    @cached_property
    def source(self) -> Addresses:
        """Where packets come from; 0 where that is not known."""
        return self._addresses(0)

    @cached_property
    def destination(self) -> Addresses:
        """Where packets go to; 0 where that is not known."""
        return self._addresses(1)

    @cached_property
    def has_ports(self) -> NDArray[np.bool_]:
        """Whether ports were captured: TCP and UDP have them, but not every fragment of them."""
        return (self._transport_at >= 0) & (self._transport_at + _PORTS_BYTES <= self._limit)

    @cached_property
    def source_port(self) -> NDArray[np.int64]:
        """-1 where there is none."""
        return self._ports(0)

    @cached_property
    def destination_port(self) -> NDArray[np.int64]:
        """-1 where there is none."""
        return self._ports(2)

    @property
    def fragments(self) -> Iterator[Fragment]:
        """The fragments of TCP segments, those that are known for it."""
        for columns in self._fragments:
            rows, firsts = columns.places.row.tolist(), (columns.offset == 0).tolist()
            for row, key, is_first in zip(rows, columns.key, firsts, strict=True):
                if self.is_known[row]:
                    yield Fragment(row, key, is_first)

    # -- reading ----------------------------------------------------------------------------------

    def _read(self) -> None:
        packets = Packets(self._batch, Notes())
        for inside in find_tcp(packets, self._leave, self._notice):
            self._take(inside.places, TCP)
        left = ~self.is_known
        for columns in self._fragments:
            left[columns.places.row] = False
            self._take_fragments(columns)
        if left.any():
            self._read_others(packets, left)

    def _notice(self, headers: Headers) -> None:
        rows = headers.places.row
        self._kind[rows] = headers.kind
        self._at[rows] = headers.places.at
        self._limit[rows] = headers.places.limit

    def _leave(self, packets: Packets, columns: FragmentColumns) -> Headers:  # noqa: ARG002
        """Put nothing together, and go no further."""
        self._fragments.append(columns)
        none = np.empty(0, np.int64)
        return Headers(Places(none, none, none), none)

    def _take(self, places: Places, protocol: int | NDArray[np.int64]) -> None:
        self.is_known[places.row] = True
        self.protocol[places.row] = protocol
        self._transport_at[places.row] = places.at
        self._limit[places.row] = places.limit

    def _take_fragments(self, columns: FragmentColumns) -> None:
        is_tcp = columns.protocol == TCP
        self._take(columns.places.pick(is_tcp), TCP)
        self._transport_at[columns.places.row[columns.offset > 0]] = _NONE
        self._kind[columns.places.row[~is_tcp]] = _NONE

    def _read_others(self, packets: Packets, left: NDArray[np.bool_]) -> None:
        """Read once more the last IP header of packets that are no TCP, for what it carries."""
        for kind, read in ((IPV4, read_ipv4), (IPV6, read_ipv6)):
            rows = np.flatnonzero(left & (self._kind == kind))
            if not len(rows):
                continue
            other = read(packets, Places(rows, self._at[rows], self._limit[rows])).other
            if other is not None:
                protocol = other.kind - IP_PROTOCOL
                self._take(other.places, protocol)
                has_none = ~np.isin(protocol, (TCP, UDP))
                self._transport_at[other.places.row[has_none]] = _NONE
            self._kind[rows[~self.is_known[rows]]] = _NONE
        # What still has a kind is something else than IP, such as ARP.
        self.is_known |= self._kind != _NONE

    # -- columns ----------------------------------------------------------------------------------

    def _addresses(self, which: int) -> Addresses:
        high, low = (np.zeros(len(self._at), np.uint64) for _ in range(2))
        for kind, column in ((IPV4, ">u4"), (IPV6, ">u8")):
            is_kind = self._kind == kind
            if not is_kind.any():
                continue
            rows = slice(None) if is_kind.all() else np.flatnonzero(is_kind)
            words = overlapping(self._batch.buffer, column)
            at = self._at[rows] + _ADDRESSES_AT[kind]
            if kind == IPV4:
                low[rows] = words[at + 4 * which]
            else:
                high[rows] = words[at + 16 * which]
                low[rows] = words[at + 16 * which + 8]
        return Addresses(high, low)

    def _ports(self, skip: int) -> NDArray[np.int64]:
        words = overlapping(self._batch.buffer, ">u2")
        if self.has_ports.all():
            return words[self._transport_at + skip].astype(np.int64)
        ports = np.full(len(self._at), _NONE, np.int64)
        ports[self.has_ports] = words[self._transport_at[self.has_ports] + skip]
        return ports
