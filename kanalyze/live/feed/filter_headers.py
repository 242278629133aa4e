"""What a condition may ask of packets: the innermost IP header of each, and the ports behind it.

In: a packet batch. Out: :class:`PacketHeaders`. Must not know: conditions.

These are the headers that the analysis reads, by the same code: behind VLAN tags and inside of
tunnels. So they are those of rows. Fragments are not put together here.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.packet_arrays import overlapping
from kanalyze.net.header_kinds import IPV4, IPV6
from kanalyze.net.innermost import Innermost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.model.packets import PacketBatch

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
        self.wire_bytes = np.frombuffer(batch.wire_bytes, np.int64)
        self._batch = batch
        found = Innermost(batch)
        self._kind: NDArray[np.int64] = np.asarray(found.kind)
        """What the innermost header is; beyond IP, what it is of."""
        self._at: NDArray[np.int64] = np.asarray(found.at)
        """Index in the buffer of the innermost header."""
        self._limit: NDArray[np.int64] = np.asarray(found.limit)
        self._transport_at: NDArray[np.int64] = np.asarray(found.transport_at)
        """Index in the buffer of what IP carries."""
        self.fragments = [Fragment(*each) for each in found.fragments]
        """The fragments of TCP segments, those that are known for it."""
        self.protocol: NDArray[np.int64] = np.asarray(found.protocol)
        """What IP carries; -1 where that is not known, or there is no IP."""
        self.is_known = np.asarray(found.is_known) != 0
        """Whether the header could be read. Not where it was cut or is wrong, and not that of a
        fragment that may be of a tunnel: there is no telling then what is inside."""

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
