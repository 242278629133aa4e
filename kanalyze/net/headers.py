"""Packets to TCP segments: all headers of a batch, read as columns.

In: a packet batch. Out: :class:`SegmentColumns`. Must not know: connections.

Nothing here raises for what a packet holds: what is no whole TCP segment in a known wrapping is
counted by its reason, with a few anomalies as examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.gathers import gather
from kanalyze.model import AnomalyKind
from kanalyze.net.columns import Places
from kanalyze.net.ip import TcpInIp, read_ipv4, read_ipv6
from kanalyze.net.link import find_ip_headers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.model import PacketBatch
    from kanalyze.net.notes import Notes

__all__ = ["ACK", "FIN", "RST", "SYN", "SegmentColumns", "read_headers"]

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


@dataclass(frozen=True, slots=True)
class SegmentColumns:
    """TCP segments as columns over the buffer of their batch, in the order of the capture.

    IPv4 addresses stand in ``low``, with ``high`` 0.
    """

    buffer: memoryview
    number: NDArray[np.int64]
    """Packet number."""
    time_ns: NDArray[np.int64]
    is_ipv6: NDArray[np.bool_]
    source_high: NDArray[np.uint64]
    source_low: NDArray[np.uint64]
    destination_high: NDArray[np.uint64]
    destination_low: NDArray[np.uint64]
    source_port: NDArray[np.int64]
    destination_port: NDArray[np.int64]
    sequence: NDArray[np.int64]
    """0 to 2^32 - 1."""
    acknowledgment: NDArray[np.int64]
    """0 to 2^32 - 1; means something where :data:`ACK` is set."""
    flags: NDArray[np.int64]
    window: NDArray[np.uint16]
    """As written in the header, not scaled."""
    checksum: NDArray[np.uint16]
    """As written in the header; not verified, for network cards fill it in after the capture."""
    identification: NDArray[np.int32]
    """Of the IPv4 header, 0 to 65,535; -1 for IPv6."""
    payload_start: NDArray[np.int64]
    """Index in the buffer; past the packet's end where even the header was cut."""
    payload_bytes: NDArray[np.int64]
    """On the wire, by the IP header; 0 and above."""
    captured_bytes: NDArray[np.int64]
    """Payload in the buffer; at most ``payload_bytes``."""

    def __len__(self) -> int:
        return len(self.number)


def read_headers(batch: PacketBatch, notes: Notes) -> SegmentColumns:
    """Read the link, IP and TCP headers of a batch; count in ``notes`` what is no segment."""
    notes.counters.packets += len(batch)
    ipv4_at, ipv6_at = find_ip_headers(batch, notes)
    if not len(ipv6_at):
        found = read_ipv4(batch, ipv4_at, notes)
    elif not len(ipv4_at):
        found = read_ipv6(batch, ipv6_at, notes)
    else:
        found = _in_order(read_ipv4(batch, ipv4_at, notes), read_ipv6(batch, ipv6_at, notes))
    return _read_tcp(batch, found, notes)


def _read_tcp(batch: PacketBatch, found: TcpInIp, notes: Notes) -> SegmentColumns:
    fits = found.places.at + _TCP_HEADER.itemsize <= found.places.limit
    if not fits.all():
        cut = found.places.row[~fits]
        notes.counters.cut_headers += len(cut)
        notes.add_packets(AnomalyKind.BAD_TCP_HEADER, batch, cut, "cut within the TCP header")
        found = _pick(found, fits)
    header = gather(batch.buffer, _TCP_HEADER, found.places.at)
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
    return SegmentColumns(
        buffer=batch.buffer,
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


def _in_order(ipv4: TcpInIp, ipv6: TcpInIp) -> TcpInIp:
    """Put both into the order of the packets."""
    both = TcpInIp(
        Places(
            np.concatenate([ipv4.places.row, ipv6.places.row]),
            np.concatenate([ipv4.places.at, ipv6.places.at]),
            np.concatenate([ipv4.places.limit, ipv6.places.limit]),
        ),
        np.concatenate([ipv4.end, ipv6.end]),
        np.concatenate([ipv4.source_high, ipv6.source_high]),
        np.concatenate([ipv4.source_low, ipv6.source_low]),
        np.concatenate([ipv4.destination_high, ipv6.destination_high]),
        np.concatenate([ipv4.destination_low, ipv6.destination_low]),
        np.concatenate([ipv4.is_ipv6, ipv6.is_ipv6]),
        np.concatenate([ipv4.identification, ipv6.identification]),
    )
    return _pick(both, np.argsort(both.places.row))
