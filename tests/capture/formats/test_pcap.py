from __future__ import annotations

import io

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.capture.file_metadata import CaptureInterface
from kanalyze.capture.reader import open_capture
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.tcp.reassembly import Reassembler
from tests.support.packets import (
    START_NS,
    SYN,
    Packet,
    StreamCollector,
    lcap_file,
    modified_pcap_file,
    packets_in,
    pcap_file,
    segment,
    timed,
    variant_pcap_file,
)

pytestmark = pytest.mark.usefixtures("scan")

STEADY = settings(deadline=None)
PACKETS = [Packet(bytes([i]) * (14 + i % 50), START_NS + i * 1_000_001, 100 + i) for i in range(40)]


def read(data: bytes, buffer_bytes: int = 4096):
    """All packets as (number, time, bytes, wire bytes, link type), and the reader."""
    with open_capture(io.BytesIO(data), name="x.pcap", buffer_bytes=buffer_bytes) as reader:
        packets = enumerate(packets_in(reader), 1)
        rows = [(n, p.time_ns, p.data, p.wire_bytes, p.link_type) for n, p in packets]
    return rows, reader


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("buffer_bytes", [64, 100, 1000, 1 << 20])
def test_packets_are_read_in_any_byte_order_and_with_any_buffer(order, buffer_bytes):
    rows, reader = read(pcap_file(PACKETS, order=order), buffer_bytes)
    assert rows == [(i + 1, p.time_ns, p.data, p.wire_bytes, 1) for i, p in enumerate(PACKETS)]
    assert reader.packets == len(PACKETS)
    assert reader.anomalies == []
    assert reader.dropped_packets is None


def test_times_in_microseconds_become_exact_nanoseconds():
    rows, _ = read(pcap_file([Packet(b"x", 1_699_999_999_999_999_000)], nanoseconds=False))
    assert rows[0][1] == 1_699_999_999_999_999_000


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_packets_are_those_that_dpkt_reads(order, nanoseconds):
    data = pcap_file(PACKETS, order=order, nanoseconds=nanoseconds)
    rows, _ = read(data)
    expected = list(dpkt.pcap.UniversalReader(io.BytesIO(data)))
    assert [row[2] for row in rows] == [packet for _, packet in expected]
    assert [float(row[1]) / 1e9 for row in rows] == pytest.approx(
        [float(time) for time, _ in expected], abs=1e-6
    )


def test_the_link_type_is_read_without_the_check_sequence_length_above_it():
    rows, _ = read(pcap_file(PACKETS[:1], link_type=0x2400_0000 | 276))
    assert rows[0][4] == 276


def test_a_packet_is_never_shorter_on_the_wire_than_in_the_capture():
    rows, _ = read(pcap_file([Packet(b"abcdef", wire_bytes=2)]))
    assert rows[0][3] == 6


def test_a_packet_larger_than_the_buffer_makes_the_buffer_grow():
    packets = [Packet(b"small"), Packet(bytes(range(256)) * 500), Packet(b"after")]
    rows, _ = read(pcap_file(packets), 64)
    assert [row[2] for row in rows] == [packet.data for packet in packets]


@pytest.mark.parametrize("buffer_bytes", [64, 4096])
def test_a_length_beyond_the_snap_length_ends_the_reading_and_keeps_earlier_packets(
    buffer_bytes,
):
    data = bytearray(pcap_file(PACKETS))
    third = 24 + sum(16 + len(p.data) for p in PACKETS[:2])
    data[third + 8 : third + 12] = (300_000).to_bytes(4, "little")
    rows, reader = read(bytes(data), buffer_bytes)
    assert [row[2] for row in rows] == [p.data for p in PACKETS[:2]]
    assert [a.kind for a in reader.anomalies] == [AnomalyKind.CAPTURE_CORRUPT]
    assert "300000 bytes" in reader.anomalies[0].detail


def test_a_large_snap_length_allows_large_packets():
    packets = [Packet(bytes(300_000)), Packet(b"after")]
    rows, reader = read(pcap_file(packets, snap_bytes=400_000))
    assert [len(row[2]) for row in rows] == [300_000, 5]
    assert reader.anomalies == []


def test_no_snap_length_allows_a_packet_of_more_than_256_mib():
    data = bytearray(pcap_file([Packet(b"abc")], snap_bytes=0xFFFFFFFF))
    data[32:36] = (0x10000001).to_bytes(4, "little")
    rows, reader = read(bytes(data))
    assert rows == []
    assert [a.kind for a in reader.anomalies] == [AnomalyKind.CAPTURE_CORRUPT]


def test_an_unknown_version_is_an_error_that_names_the_file():
    with pytest.raises(CaptureError, match=r"^x\.pcap: pcap version 3 is not known"):
        read(pcap_file([], version=3))


@STEADY
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from("<>"))
def test_any_two_time_fields_are_added_without_overflow(seconds, fraction, order):
    data = bytearray(pcap_file([Packet(b"x")], order=order))
    byteorder = "little" if order == "<" else "big"
    data[24:28] = seconds.to_bytes(4, byteorder)
    data[28:32] = fraction.to_bytes(4, byteorder)
    rows, _ = read(bytes(data))
    assert rows[0][1] == seconds * 1_000_000_000 + fraction


VARIANTS = {
    "modified": (modified_pcap_file, 1000),
    "lcap of hardware": (lcap_file, 1),
    "lcap of software": (lambda packets, order: lcap_file(packets, order, nanoseconds=False), 1000),
}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("buffer_bytes", [64, 100, 1 << 20])
def test_variants_with_longer_headers_are_read_with_any_buffer(order, variant, buffer_bytes):
    build, unit_ns = VARIANTS[variant]
    rows, reader = read(build(PACKETS, order), buffer_bytes)
    assert rows == [
        (i + 1, p.time_ns // unit_ns * unit_ns, p.data, p.wire_bytes, 1)
        for i, p in enumerate(PACKETS)
    ]
    assert reader.anomalies == []


def test_before_version_2_3_the_two_lengths_are_swapped():
    for buffer_bytes in (64, 4096):
        data = variant_pcap_file(PACKETS, 0xA1B2C3D4, version=(2, 2), lengths_swapped=True)
        rows, reader = read(data, buffer_bytes)
        assert [(row[2], row[3]) for row in rows] == [(p.data, p.wire_bytes) for p in PACKETS]
        assert reader.anomalies == []


def test_a_file_of_aix_has_nanoseconds_and_kinds_of_interface():
    for kind, link_type in ((6, 1), (9, 6), (15, 10), (24, 0)):
        data = variant_pcap_file(
            PACKETS,
            0xA1B2C3D4,
            order=">",
            version=(2, 2),
            link_type=kind,
            nanoseconds=True,
            lengths_swapped=True,
        )
        rows, _ = read(data)
        assert [(row[1], row[4]) for row in rows] == [(p.time_ns, link_type) for p in PACKETS]


@pytest.mark.parametrize("bits", [0x2400_0000, 0x4400_0000, 0x0400_0000])
def test_a_check_sequence_after_each_packet_is_no_payload(bits):
    packets = timed(
        [
            segment(seq=99, flags=SYN),
            segment(seq=100, payload=b"hello "),
            segment(seq=106, payload=b"kafka"),
        ]
    )
    with_sequence = [Packet(p.data + b"\xfc\x5c\xfc\x5c", p.time_ns) for p in packets]
    reassembler, collector = Reassembler(), StreamCollector()
    data = pcap_file(with_sequence, link_type=bits | 1)
    with open_capture(io.BytesIO(data)) as reader:
        for batch in reader.batches():
            collector.take(reassembler.feed(batch).updates)
    (streams,) = collector.streams.values()
    assert streams[0].data == b"hello kafka"
    assert reader.description.interfaces == [CaptureInterface("<stream>", 1, 262144)]
