"""Reassembly of IP fragments, across batches.

In: fragments, with the times of their packets. Out: complete datagrams, as packets with an IP
header, which follow the bytes of the batch.

The first copy of a byte counts (RFC 815 leaves it open). A fragment that the capture cut covers its
whole range, although some of its bytes are missing.

IPv4: RFC 791, 815. IPv6: RFC 8200 (section 4.5), RFC 5722.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right, insort
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packets import NO_TIME
from kanalyze.net.header_kinds import DROPPED, IPV4, IPV6
from kanalyze.net.tunnels import UDP_TUNNEL_PORTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kanalyze.net.header_cursor import HeaderCursor
    from kanalyze.net.layer_stats import LayerStats

PIECE_BYTES: Final = 256
"""Approximate memory of a range, without its bytes."""
_MAX_IP_BYTES: Final = 65_535
_IPV4_BYTES: Final = 20
"""Without options."""
_IPV6_BYTES: Final = 40
_UDP: Final = 17


@Saved("start:count stop:count data:bytes")
class _FragmentRange(NamedTuple):
    start: int
    stop: int
    data: bytes
    """The captured part of it."""

    def differs(self, start: int, data: bytes) -> bool:
        """Return true if ``data``, from ``start`` on, differs from what was captured there."""
        mine = self.data[start - self.start : start - self.start + len(data)]
        return mine != data[: len(mine)]


class Datagram:
    """The pieces seen of one datagram; none of them overlap."""

    _NOT_SAVED = ("buffered_bytes",)
    _SAVED = Saved(
        "time_ns:int packet:count packets:list[count] header:bytes? protocol:count? total:count? "
        "contradicts:bool is_false:bool covered:count _fragments:set[(count,count,count)] "
        "_pieces:list[_FragmentRange]",
        _FragmentRange,
        arguments=2,
    )

    def __init__(self, time_ns: int, packet: int) -> None:
        self.time_ns = time_ns
        """Of the packet with its first fragment."""
        self.packet = packet
        """Number of that packet."""
        self.packets: list[int] = []
        """Numbers of the packets with its fragments."""
        self.header: bytes | None = None
        """IP header of the fragment at offset 0, without options."""
        self.protocol: int | None = None
        """Protocol, from the fragment at offset 0."""
        self.total: int | None = None
        """Bytes of data; known once the last fragment came."""
        self.covered = 0
        """Bytes of data that the fragments cover."""
        self.buffered_bytes = 0
        self.contradicts = False
        """Two fragments have different bytes at the same offset."""
        self.is_false = False
        """It was dropped because its fragments are invalid; later fragments are dropped, too."""
        self._fragments: set[tuple[int, int, int]] = set()
        """Fragments: begin, end, checksum of the captured bytes."""
        self._pieces: list[_FragmentRange] = []
        """Sorted by their start."""

    def _after_load(self) -> None:
        at = 0
        for piece in self._pieces:
            if not at <= piece.start < piece.stop or len(piece.data) > piece.stop - piece.start:
                raise ValueError("pieces of a datagram that overlap")
            at = piece.stop
        if at > _MAX_IP_BYTES or (self.header is not None and len(self.header) < _IPV4_BYTES):
            raise ValueError("a datagram longer than there are, or with no header")
        self.buffered_bytes = PIECE_BYTES * (len(self._fragments) + len(self._pieces)) + sum(
            [len(piece.data) for piece in self._pieces]
        )

    @property
    def is_complete(self) -> bool:
        """True if every byte was in a fragment."""
        return self.header is not None and self.covered == self.total

    @property
    def stop(self) -> int:
        """Where the furthest piece ends."""
        return self._pieces[-1].stop if self._pieces else 0

    @property
    def fragments(self) -> int:
        """Number of different fragments."""
        return len(self._fragments)

    def has(self, start: int, stop: int, data: bytes) -> bool:
        """Return true if a fragment of the same range and bytes came before."""
        return (start, stop, zlib.crc32(data)) in self._fragments

    def add(self, start: int, stop: int, data: bytes) -> bool:
        """Add a fragment; return whether it overlaps others and is no copy of one of them.

        ``data`` may be shorter than ``stop - start``.
        """
        if self.has(start, stop, data):
            return False
        self._fragments.add((start, stop, zlib.crc32(data)))
        self.buffered_bytes += PIECE_BYTES
        index = max(bisect_right(self._pieces, start, key=_start) - 1, 0)
        if self._extends(index, start, stop, data):
            return False
        overlaps = False
        at = start
        fresh: list[_FragmentRange] = []
        while at < stop:
            piece = self._pieces[index] if index < len(self._pieces) else None
            if piece is None or piece.start > at:
                upto = stop if piece is None else min(stop, piece.start)
                fresh.append(_FragmentRange(at, upto, data[at - start : upto - start]))
                at = upto
                continue
            if piece.stop > at:
                upto = min(stop, piece.stop)
                overlaps = True
                self.contradicts |= piece.differs(at, data[at - start : upto - start])
                at = upto
            index += 1
        for part in fresh:
            insort(self._pieces, part, key=_start)
            self.covered += part.stop - part.start
            self.buffered_bytes += len(part.data) + PIECE_BYTES
        return overlaps

    def _extends(self, index: int, start: int, stop: int, data: bytes) -> bool:
        """Keep the longer of two captures of the same fragment; false if there is no such piece."""
        if index >= len(self._pieces):
            return False
        piece = self._pieces[index]
        if (piece.start, piece.stop) != (start, stop) or piece.differs(start, data):
            return False
        if len(data) > len(piece.data):
            self._pieces[index] = _FragmentRange(start, stop, data)
            self.buffered_bytes += len(data) - len(piece.data)
        return True

    def data(self) -> bytes:
        """Return the bytes from the first up to the first that is missing."""
        parts = []
        at = 0
        for piece in self._pieces:
            if piece.start != at:
                break
            parts.append(piece.data)
            at = piece.stop
            if len(piece.data) < piece.stop - piece.start:
                break
        return b"".join(parts)

    def let_go(self) -> None:
        """Drop the bytes, but remember which fragments came."""
        self._pieces.clear()
        self.header = None
        self.buffered_bytes = len(self._fragments) * PIECE_BYTES


def _start(piece: _FragmentRange) -> int:
    return piece.start


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


class FragmentReassembler:
    """Buffers the datagrams of which fragments are missing."""

    _NOT_SAVED = ("_done_bytes", "_buffered_bytes", "_limits", "_lose", "_stats")
    _SAVED = Saved(
        "_open:ordered[tuple[wide],Datagram] _done:ordered[tuple[wide],Datagram]", Datagram
    )

    def __init__(
        self,
        limits: FragmentLimits,
        stats: LayerStats,
        lose: Callable[[Datagram, str], None] | None = None,
    ) -> None:
        """Make one.

        Args:
            limits: bounds of memory and time.
            stats: where to count.
            lose: takes a datagram that may contain TCP and is given up because fragments are
                missing, and why; None to count it as lost.
        """
        self._limits = limits
        self._stats = stats
        self._lose = lose or self._count_lost
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

    def finish(self) -> None:
        """End the capture: give up all incomplete datagrams."""
        for key in list(self._open):
            self._give_up(key, "fragments are missing")
        self._done.clear()

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
        if _may_contain_tcp(datagram):
            self._lose(datagram, reason)

    def _count_lost(self, datagram: Datagram, reason: str) -> None:
        count_lost(datagram, reason, self._stats)

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


def count_lost(datagram: Datagram, reason: str, stats: LayerStats) -> None:
    """Count a datagram as lost, and report it as an anomaly."""
    stats.counters.lost_datagrams += 1
    stats.add(
        Anomaly(
            AnomalyKind.IP_FRAGMENT,
            time_ns=datagram.time_ns,
            packet=datagram.packet,
            length=datagram.covered,
            detail=reason,
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
