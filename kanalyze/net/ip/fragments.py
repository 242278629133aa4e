"""Reassembly of IP fragments, across batches.

In: fragments, with the times of their packets. Out: complete datagrams, as packets with an IP
header, which follow the bytes of the batch.

IPv4: RFC 791, 815. IPv6: RFC 8200 (section 4.5), RFC 5722.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packets import NO_TIME
from kanalyze.net.header_kinds import DROPPED, IPV4, IPV6
from kanalyze.net.ip.datagram import Datagram
from kanalyze.net.ip.udp_tunnels import UDP_TUNNEL_PORTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.net.header_cursor import HeaderCursor
    from kanalyze.net.layer_stats import LayerStats

__all__ = ["FragmentLimits", "FragmentReassembler", "IncompleteDatagram", "count_lost"]

_MAX_IP_BYTES: Final = 65_535
_IPV4_BYTES: Final = 20
"""Without options."""
_IPV6_BYTES: Final = 40
_UDP: Final = 17


class FragmentLimits(NamedTuple):
    """Bounds of the memory for fragments, and how long to wait for missing ones."""

    datagrams: int = 1024
    """Incomplete datagrams, and as many completed ones; beyond, the oldest is given up."""
    buffered_bytes: int = 16 << 20
    """Of all incomplete datagrams; as much again for the records of completed ones."""
    fragments: int = 1400
    """Of one datagram. The largest datagram has fewer, even over links with an MTU of 68 bytes, the
    least that IPv4 allows (RFC 791)."""
    age_ns: int = 30_000_000_000
    """How long after its first fragment a datagram may be completed. RFC 1122 says 60 to 120 s, but
    Linux gives up after 30 s. A fast host soon repeats IPv4's 16 bits of identification (RFC 4963),
    so an old fragment more often belongs to another datagram than it is late."""


class _Fragment(NamedTuple):
    """A fragment, without the bytes that it carries."""

    is_ipv6: bool
    key: tuple[int, ...]
    protocol: int
    start: int
    """Place in the datagram, in bytes."""
    stop: int
    has_more: bool
    time_ns: int
    packet: int


class IncompleteDatagram(NamedTuple):
    """A datagram that was given up because fragments of it are missing."""

    datagram: Datagram
    reason: str


class FragmentReassembler:
    """Buffers the datagrams of which fragments are missing."""

    _NOT_SAVED = ("_done_bytes", "_buffered_bytes", "_incomplete", "_limits", "_stats")
    _SAVED = Saved(
        "_open:ordered[tuple[wide],Datagram] _done:ordered[tuple[wide],Datagram]", Datagram
    )

    def __init__(
        self, limits: FragmentLimits, stats: LayerStats, *, return_incomplete: bool = False
    ) -> None:
        """Make one.

        Args:
            limits: bounds of memory and time.
            stats: where to count.
            return_incomplete: return the incomplete datagrams that may contain TCP, instead of
                counting them as lost.
        """
        self._limits = limits
        self._stats = stats
        self._incomplete: list[IncompleteDatagram] | None = [] if return_incomplete else None
        self._open: OrderedDict[tuple[int, ...], Datagram] = OrderedDict()
        """The oldest first."""
        self._done: OrderedDict[tuple[int, ...], Datagram] = OrderedDict()
        """Datagrams that were reassembled or dropped, without their bytes: a capture that has each
        packet twice has their fragments again."""
        self._buffered_bytes = 0
        self._done_bytes = 0

    def _after_load(self) -> None:
        self._buffered_bytes = sum([datagram.buffered_bytes for datagram in self._open.values()])
        self._done_bytes = sum([datagram.buffered_bytes for datagram in self._done.values()])

    def add(self, cursor: HeaderCursor) -> int:
        """Take the fragment that a cursor is at.

        If it completes a datagram, the cursor moves to that and the kind of the datagram's header
        is returned; otherwise :data:`~kanalyze.net.header_kinds.DROPPED`.
        """
        is_ipv6 = cursor.is_ipv6
        batch, row, at = cursor.batch, cursor.row, cursor.at
        fragment = _Fragment(
            is_ipv6,
            cursor.datagram_key,
            cursor.datagram_protocol,
            cursor.fragment_offset,
            cursor.fragment_offset + cursor.ip_end - at,
            cursor.has_more,
            int(batch.time_ns[row]),
            int(batch.number[row]),
        )
        self._stats.counters.ip_fragments += 1
        data = cursor.rest(max(cursor.ip_end - at, 0))
        cursor.at = cursor.ip_at
        header = cursor.rest(_IPV6_BYTES if is_ipv6 else _IPV4_BYTES)
        datagram = self._take(fragment, header, data)
        if datagram is None:
            return DROPPED
        self._stats.counters.reassembled_datagrams += 1
        cursor.enter_joined(*_as_packet(datagram, is_ipv6=is_ipv6))
        datagram.let_go()
        self._keep_done(fragment.key, datagram)
        return IPV6 if is_ipv6 else IPV4

    @property
    def open_packets(self) -> Iterator[int]:
        """Numbers of the packets whose datagrams may still be completed."""
        return (packet for datagram in self._open.values() for packet in datagram.packets)

    def expire(self, now_ns: int) -> None:
        """Give up the datagrams that are too old at the time ``now_ns``."""
        while self._open:
            key, datagram = next(iter(self._open.items()))
            if not self._is_old(datagram, now_ns):
                break
            self._give_up(key, "fragments are missing")

    def finish(self) -> list[IncompleteDatagram]:
        """End the capture: give up all incomplete datagrams, and :meth:`take_incomplete` them."""
        for key in list(self._open):
            self._give_up(key, "fragments are missing")
        self._done.clear()
        return self.take_incomplete()

    def take_incomplete(self) -> list[IncompleteDatagram]:
        """Return the datagrams given up since the last call; empty without return_incomplete."""
        if not self._incomplete:
            return []
        incomplete, self._incomplete = self._incomplete, []
        return incomplete

    def _take(self, fragment: _Fragment, header: bytes, data: bytes) -> Datagram | None:
        """Add a fragment to its datagram; return it if it is complete now."""
        self.expire(fragment.time_ns)
        reason = _flaw(fragment)
        if reason is not None:
            self._note(fragment, reason)
            return None
        if self._is_late(fragment, data):
            return None
        datagram = self._open.get(fragment.key)
        if datagram is not None and self._is_old(datagram, fragment.time_ns):
            # Where capture times go back, an old datagram may be behind a newer one in the order.
            self._give_up(fragment.key, "fragments are missing")
            datagram = None
        if datagram is None:
            datagram = Datagram(fragment.time_ns, fragment.packet)
            self._open[fragment.key] = datagram
        datagram.packets.append(fragment.packet)
        before = datagram.buffered_bytes
        if fragment.start == 0 and datagram.header is None:
            datagram.header, datagram.protocol = header, fragment.protocol
        reason = self._add(datagram, fragment, data)
        self._buffered_bytes += datagram.buffered_bytes - before
        if reason is not None:
            self._drop(datagram, fragment, reason)
        elif datagram.is_complete:
            self._close(fragment.key)
            return datagram
        self._bound()
        return None

    def _add(self, datagram: Datagram, fragment: _Fragment, data: bytes) -> str | None:
        """Add a fragment; return why its datagram has to be dropped, or None."""
        if not fragment.has_more:
            if datagram.total not in {None, fragment.stop} or datagram.stop > fragment.stop:
                return "fragments say different lengths"
            datagram.total = fragment.stop
        elif datagram.total is not None and fragment.stop > datagram.total:
            return "fragments say different lengths"
        contradicted_before = datagram.contradicts
        overlaps = datagram.add(fragment.start, fragment.stop, data)
        if fragment.is_ipv6 and overlaps:
            return "fragments overlap"
        if datagram.contradicts and not contradicted_before:
            self._note(fragment, "fragments overlap with different bytes")
        return "too many fragments" if datagram.fragments > self._limits.fragments else None

    def _is_old(self, datagram: Datagram, now_ns: int) -> bool:
        return datagram.time_ns != NO_TIME and now_ns - datagram.time_ns > self._limits.age_ns

    def _is_late(self, fragment: _Fragment, data: bytes) -> bool:
        """Return true if a fragment is of a datagram that was completed or dropped before."""
        done = self._done.get(fragment.key)
        if done is None:
            return False
        is_of_done = done.is_false or done.has(fragment.start, fragment.stop, data)
        if is_of_done and not self._is_old(done, fragment.time_ns):
            return True
        self._forget_done(fragment.key)
        return False

    def _close(self, key: tuple[int, ...]) -> Datagram:
        datagram = self._open.pop(key)
        self._buffered_bytes -= datagram.buffered_bytes
        return datagram

    def _drop(self, datagram: Datagram, fragment: _Fragment, reason: str) -> None:
        self._close(fragment.key)
        self._note(fragment, reason)
        self._stats.counters.lost_datagrams += 1
        datagram.is_false = True
        datagram.let_go()
        self._keep_done(fragment.key, datagram)

    def _keep_done(self, key: tuple[int, ...], datagram: Datagram) -> None:
        self._done[key] = datagram
        self._done_bytes += datagram.buffered_bytes
        limits = self._limits
        while len(self._done) > limits.datagrams or self._done_bytes > limits.buffered_bytes:
            self._forget_done(next(iter(self._done)))

    def _forget_done(self, key: tuple[int, ...]) -> None:
        self._done_bytes -= self._done.pop(key).buffered_bytes

    def _bound(self) -> None:
        limits = self._limits
        while len(self._open) > limits.datagrams or self._buffered_bytes > limits.buffered_bytes:
            self._give_up(next(iter(self._open)), "fragments are missing, and too many were held")

    def _give_up(self, key: tuple[int, ...], reason: str) -> None:
        datagram = self._close(key)
        if not _may_contain_tcp(datagram):
            return
        incomplete = IncompleteDatagram(datagram, reason)
        if self._incomplete is None:
            count_lost(incomplete, self._stats)
        else:
            self._incomplete.append(incomplete)

    def _note(self, fragment: _Fragment, reason: str) -> None:
        self._stats.add(
            Anomaly(
                AnomalyKind.IP_FRAGMENT,
                time_ns=fragment.time_ns,
                packet=fragment.packet,
                length=fragment.stop - fragment.start,
                detail=reason,
            )
        )


def count_lost(incomplete: IncompleteDatagram, stats: LayerStats) -> None:
    """Count a datagram as lost, and report it as an anomaly."""
    datagram = incomplete.datagram
    stats.counters.lost_datagrams += 1
    stats.add(
        Anomaly(
            AnomalyKind.IP_FRAGMENT,
            time_ns=datagram.time_ns,
            packet=datagram.packet,
            length=datagram.covered,
            detail=incomplete.reason,
        )
    )


def _flaw(fragment: _Fragment) -> str | None:
    length = fragment.stop - fragment.start
    if length <= 0:
        return "an empty fragment"
    if fragment.has_more and length % 8:
        return "a fragment, not the last one, of a length that is no multiple of 8"
    if fragment.stop + (0 if fragment.is_ipv6 else _IPV4_BYTES) > _MAX_IP_BYTES:
        return "a fragment past the longest packet of IP"
    return None


def _may_contain_tcp(datagram: Datagram) -> bool:
    """Return false for UDP to a port that no tunnel uses: it contains no TCP."""
    start = datagram.data()[:4]
    if datagram.protocol != _UDP or len(start) < 4:
        return True
    return int.from_bytes(start[2:]) in UDP_TUNNEL_PORTS


def _as_packet(datagram: Datagram, *, is_ipv6: bool) -> tuple[bytes, int]:
    """Return a datagram as one packet with its first fragment's header, and its size on the wire.

    The packet ends before the first byte that was not captured.
    """
    header = bytearray(datagram.header or b"")
    total = datagram.total or 0
    if is_ipv6:
        header[4:6] = total.to_bytes(2)
        header[6] = datagram.protocol or 0
    else:
        total += _IPV4_BYTES
        header[0] = 0x45
        header[2:4] = total.to_bytes(2)
        # Keep "Don't fragment"; clear "More fragments" and the offset.
        header[6:8] = bytes([header[6] & 0xC0, 0])
    wire_bytes = total + (_IPV6_BYTES if is_ipv6 else 0)
    return bytes(header) + datagram.data(), wire_bytes
