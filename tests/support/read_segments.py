"""Segments as header readers return them, in a form to compare, and the outcome of each packet."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, NamedTuple

from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.packets import Packet, make_batch

if TYPE_CHECKING:
    from kanalyze.net.segment_columns import SegmentColumns


class ReadSegment(NamedTuple):
    packet: int
    time_ns: int
    source: tuple[str, int]
    destination: tuple[str, int]
    sequence: int
    acknowledgment: int
    flags: int
    window: int
    checksum: int
    identification: int
    length: int
    data: bytes


def read(
    *packets: Packet | bytes, first_number: int = 1, link_type: int = 1
) -> tuple[list[ReadSegment], LayerStats]:
    """Read the headers of packets, in one batch."""
    stats = LayerStats()
    made = [one if isinstance(one, Packet) else Packet(one, link_type=link_type) for one in packets]
    return segments_of(read_headers(make_batch(made, first_number), stats)), stats


def segments_of(columns: SegmentColumns) -> list[ReadSegment]:
    """Return the rows of columns."""
    found = []
    for row in range(len(columns)):
        kind = IPv6Address if columns.is_ipv6[row] else IPv4Address
        source = int(columns.source_high[row]) << 64 | int(columns.source_low[row])
        destination = int(columns.destination_high[row]) << 64 | int(columns.destination_low[row])
        start, captured = int(columns.payload_start[row]), int(columns.captured_bytes[row])
        numbers = ("sequence", "acknowledgment", "flags", "window", "checksum", "identification")
        found.append(
            ReadSegment(
                int(columns.number[row]),
                int(columns.time_ns[row]),
                (str(kind(source)), int(columns.source_port[row])),
                (str(kind(destination)), int(columns.destination_port[row])),
                *(int(getattr(columns, name)[row]) for name in numbers),
                int(columns.payload_bytes[row]),
                bytes(columns.buffer[start : start + captured]),
            )
        )
    return found


def accounted(stats: LayerStats) -> int:
    """Packets by outcome; every packet is in exactly one of these counters."""
    counters = stats.counters
    return (
        counters.tcp_segments
        + counters.not_ip
        + counters.not_tcp
        + counters.cut_headers
        + counters.bad_ip_headers
        + counters.bad_tcp_headers
        + counters.ip_fragments
        - counters.reassembled_datagrams
        + sum(counters.unknown_link_type.values())
    )
