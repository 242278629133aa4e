"""Packets to TCP segments: all headers of a batch, read as columns.

In: a packet batch. Out: :class:`SegmentColumns`. Must not know: connections.

Nothing here raises for what a packet holds: what is no whole TCP segment in a known wrapping is
counted by its reason, with a few anomalies as examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.gathers import gather
from kanalyze.model import AnomalyKind
from kanalyze.net.columns import Packets, Places
from kanalyze.net.ip import TcpInIp
from kanalyze.net.layers import find_tcp
from kanalyze.net.names import TUNNELS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.model import PacketBatch
    from kanalyze.net.columns import Headers
    from kanalyze.net.fragments import FragmentLimits, Fragments, PassOn
    from kanalyze.net.ip import FragmentColumns
    from kanalyze.net.notes import Notes

__all__ = ["ACK", "FIN", "RST", "SYN", "HeaderReader", "SegmentColumns", "read_headers"]

FIN: Final = 0x01
SYN: Final = 0x02
RST: Final = 0x04
ACK: Final = 0x10

_TCP_HEADER: Final = np.dtype(
    [
        ("source_port", ">u2"),
        ("destination_port", ">u2"),
        ("sequence", ">u4"),
        ("acknowledgment", ">u4"),
        ("header_words", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
        ("checksum", ">u2"),
        ("urgent", ">u2"),
    ]
)
"""RFC 9293, section 3.1."""


class SegmentColumns:
    """TCP segments as columns over one buffer, in the order of the capture.

    The buffer is that of the batch, or a copy of it with datagrams that came in fragments behind.
    IPv4 addresses stand in ``low``, with ``high`` 0.
    """

    __slots__ = (
        "acknowledgment",
        "buffer",
        "captured_bytes",
        "checksum",
        "destination_high",
        "destination_low",
        "destination_port",
        "flags",
        "identification",
        "is_ipv6",
        "number",
        "payload_bytes",
        "payload_start",
        "sequence",
        "source_high",
        "source_low",
        "source_port",
        "time_ns",
        "window",
    )

    def __init__(
        self,
        buffer: memoryview,
        number: NDArray[np.int64],
        time_ns: NDArray[np.int64],
        is_ipv6: NDArray[np.bool_],
        source_high: NDArray[np.uint64],
        source_low: NDArray[np.uint64],
        destination_high: NDArray[np.uint64],
        destination_low: NDArray[np.uint64],
        source_port: NDArray[np.int64],
        destination_port: NDArray[np.int64],
        sequence: NDArray[np.int64],
        acknowledgment: NDArray[np.int64],
        flags: NDArray[np.int64],
        window: NDArray[np.uint16],
        checksum: NDArray[np.uint16],
        identification: NDArray[np.int32],
        payload_start: NDArray[np.int64],
        payload_bytes: NDArray[np.int64],
        captured_bytes: NDArray[np.int64],
    ) -> None:
        self.buffer = buffer
        self.number = number
        """Packet number."""
        self.time_ns = time_ns
        self.is_ipv6 = is_ipv6
        self.source_high = source_high
        self.source_low = source_low
        self.destination_high = destination_high
        self.destination_low = destination_low
        self.source_port = source_port
        self.destination_port = destination_port
        self.sequence = sequence
        """0 to 2^32 - 1."""
        self.acknowledgment = acknowledgment
        """0 to 2^32 - 1; means something where :data:`ACK` is set."""
        self.flags = flags
        self.window = window
        """As written in the header, not scaled."""
        self.checksum = checksum
        """As written in the header; not verified, for network cards fill it in after the
        capture."""
        self.identification = identification
        """Of the IPv4 header, 0 to 65,535; -1 for IPv6."""
        self.payload_start = payload_start
        """Index in the buffer; past the packet's end where even the header was cut."""
        self.payload_bytes = payload_bytes
        """On the wire, by the IP header; 0 and above."""
        self.captured_bytes = captured_bytes
        """Payload in the buffer; at most ``payload_bytes``."""

    def __len__(self) -> int:
        return len(self.number)

    def taken(self, rows: NDArray[np.int64]) -> SegmentColumns:
        """Return some of them, in the order of ``rows``."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return SegmentColumns(self.buffer, **columns)


_COLUMNS = tuple(name for name in SegmentColumns.__slots__ if name != "buffer")


class HeaderReader:
    """Reads the headers of a capture, batch after batch, and puts IP fragments together.

    In the columns that it returns a datagram that came in fragments is one segment, with the
    number and the time of the packet that completed it.
    """

    def __init__(
        self,
        notes: Notes,
        limits: FragmentLimits | None = None,
        pass_on: PassOn | None = None,
    ) -> None:
        """Make one.

        Args:
            notes: where to count.
            limits: bounds for fragments; None for the defaults.
            pass_on: is offered the datagrams of which fragments are missing, before they are
                counted as lost; see :class:`kanalyze.net.fragments.Fragments`.
        """
        self._notes = notes
        self._limits = limits
        self._pass_on = pass_on
        self._fragments: Fragments | None = None
        """None before the first one."""

    def read(self, batch: PacketBatch) -> SegmentColumns:
        """Read the link, IP and TCP headers of a batch, and those of tunnels.

        What is no segment is counted in the notes. The columns' buffer is the batch's, or, where
        datagrams were put together, a copy with them behind.
        """
        self._notes.counters.packets += len(batch)
        packets = Packets(batch, self._notes)
        found = find_tcp(packets, self._put_together)
        if self._fragments is not None and len(batch):
            self._fragments.expire(int(packets.batch.time_ns.max()))
        return _read_tcp(packets, _in_order(found))

    @property
    def open_fragments(self) -> list[int]:
        """Numbers of the packets with fragments of datagrams that may yet become whole."""
        return [] if self._fragments is None else list(self._fragments.open_packets)

    def finish(self) -> None:
        """End the capture: count the datagrams that never became whole."""
        if self._fragments is not None:
            self._fragments.finish()

    def _put_together(self, packets: Packets, columns: FragmentColumns) -> Headers:
        if self._fragments is None:
            # Most captures have none.
            from kanalyze.net.fragments import FragmentLimits, Fragments

            limits = self._limits or FragmentLimits()
            self._fragments = Fragments(limits, self._notes, self._pass_on)
        return self._fragments.add(packets, columns)


def read_headers(batch: PacketBatch, notes: Notes) -> SegmentColumns:
    """Read the headers of a batch that is a capture of its own (see :class:`HeaderReader`)."""
    reader = HeaderReader(notes)
    segments = reader.read(batch)
    reader.finish()
    return segments


def _read_tcp(packets: Packets, found: TcpInIp) -> SegmentColumns:
    batch, notes = packets.batch, packets.notes
    fits = found.places.at + _TCP_HEADER.itemsize <= found.places.limit
    if not fits.all():
        cut = found.places.row[~fits]
        notes.counters.cut_headers += len(cut)
        notes.add_packets(AnomalyKind.BAD_TCP_HEADER, batch, cut, "cut within the TCP header")
        found = _pick(found, fits)
    header = gather(packets.buffer, _TCP_HEADER, found.places.at)
    header_bytes = (header["header_words"] >> 4).astype(np.int64) * 4
    payload_start = found.places.at + header_bytes
    payload_bytes = found.end - payload_start
    good = (header_bytes >= _TCP_HEADER.itemsize) & (payload_bytes >= 0)
    if not good.all():
        rows = found.places.row[~good]
        notes.counters.bad_tcp_headers += len(rows)
        notes.add_packets(AnomalyKind.BAD_TCP_HEADER, batch, rows, "wrong header length")
        found, header = _pick(found, good), header[good]
        payload_start, payload_bytes = payload_start[good], payload_bytes[good]
    captured = np.minimum(np.maximum(found.places.limit - payload_start, 0), payload_bytes)
    row = found.places.row
    whole = len(row) == len(batch)
    notes.counters.tcp_segments += len(row)
    notes.counters.payload_bytes += int(payload_bytes.sum())
    if packets.has_tunnels:
        _count_tunnels(packets, row)
    return SegmentColumns(
        buffer=packets.buffer,
        number=batch.number if whole else batch.number[row],
        time_ns=batch.time_ns if whole else batch.time_ns[row],
        is_ipv6=found.is_ipv6,
        source_high=found.source_high,
        source_low=found.source_low,
        destination_high=found.destination_high,
        destination_low=found.destination_low,
        source_port=header["source_port"].astype(np.int64),
        destination_port=header["destination_port"].astype(np.int64),
        sequence=header["sequence"].astype(np.int64),
        acknowledgment=header["acknowledgment"].astype(np.int64),
        flags=header["flags"].astype(np.int64),
        window=header["window"],
        checksum=header["checksum"],
        identification=found.identification,
        payload_start=payload_start,
        payload_bytes=payload_bytes,
        captured_bytes=captured,
    )


def _count_tunnels(packets: Packets, rows: NDArray[np.int64]) -> None:
    """Count the segments that came through each kind of tunnel."""
    through = packets.tunnels[rows]
    counts = packets.notes.counters.tunnels
    for bit, name in enumerate(TUNNELS):
        count = int((through >> bit & 1).sum())
        if count:
            counts[name] = counts.get(name, 0) + count


def _pick(found: TcpInIp, wanted: NDArray[Any]) -> TcpInIp:
    """Keep some, by flags or by indices."""
    places = found.places
    return TcpInIp(
        Places(places.row[wanted], places.at[wanted], places.limit[wanted]),
        found.end[wanted],
        found.source_high[wanted],
        found.source_low[wanted],
        found.destination_high[wanted],
        found.destination_low[wanted],
        found.is_ipv6[wanted],
        found.identification[wanted],
    )


def _in_order(parts: list[TcpInIp]) -> TcpInIp:
    """Put parts together, in the order of the packets."""
    parts = [part for part in parts if len(part.places)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    places = [part.places for part in parts]
    both = TcpInIp(
        Places(
            _joined([each.row for each in places], np.int64),
            _joined([each.at for each in places], np.int64),
            _joined([each.limit for each in places], np.int64),
        ),
        _joined([part.end for part in parts], np.int64),
        _joined([part.source_high for part in parts], np.uint64),
        _joined([part.source_low for part in parts], np.uint64),
        _joined([part.destination_high for part in parts], np.uint64),
        _joined([part.destination_low for part in parts], np.uint64),
        _joined([part.is_ipv6 for part in parts], np.bool_),
        _joined([part.identification for part in parts], np.int32),
    )
    return _pick(both, np.argsort(both.places.row))


def _joined(columns: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *columns])
