from __future__ import annotations

import io
import struct

import dpkt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.capture.file_metadata import Clock
from kanalyze.capture.reader import open_capture
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.packets import NO_TIME
from tests.support.packets import (
    START_NS,
    Blocks,
    Packet,
    enhanced_with_options,
    packets_in,
    pcapng_file,
)
from tests.support.work import calls_of

pytestmark = pytest.mark.usefixtures("scan")

STEADY = settings(deadline=None)
PACKETS = [Packet(bytes([i]) * (14 + i % 50), START_NS + i * 1_000_001, 100 + i) for i in range(40)]
NANOSECONDS = b"\x09"
ORDERS = pytest.mark.parametrize("order", ["<", ">"])


def read(data: bytes, buffer_bytes: int = 4096):
    """All packets as (number, time, bytes, wire bytes, link type), and the reader."""
    with open_capture(io.BytesIO(data), name="x.pcapng", buffer_bytes=buffer_bytes) as reader:
        packets = enumerate(packets_in(reader), 1)
        rows = [(n, p.time_ns, p.data, p.wire_bytes, p.link_type) for n, p in packets]
    return rows, reader


def times(options: bytes, ticks: int) -> int:
    """The time of one packet with ``ticks`` on an interface with ``options``."""
    b = Blocks()
    data = b.section() + b.interface(options=options) + b.enhanced(Packet(b"x"), ticks)
    return int(read(data)[0][0][1])


@ORDERS
@pytest.mark.parametrize("buffer_bytes", [64, 100, 1000, 1 << 20])
def test_packets_are_read_in_any_byte_order_and_with_any_buffer(order, buffer_bytes):
    rows, reader = read(pcapng_file(PACKETS, order), buffer_bytes)
    assert rows == [(i + 1, p.time_ns, p.data, p.wire_bytes, 1) for i, p in enumerate(PACKETS)]
    assert reader.packets == len(PACKETS)
    assert reader.anomalies == []
    assert reader.dropped_packets is None


@ORDERS
def test_packets_are_those_that_dpkt_reads(order):
    data = pcapng_file(PACKETS, order)
    rows, _ = read(data)
    expected = list(dpkt.pcapng.Reader(io.BytesIO(data)))
    assert [row[2] for row in rows] == [packet for _, packet in expected]
    assert [float(row[1]) / 1e9 for row in rows] == pytest.approx(
        [float(time) for time, _ in expected], abs=1e-6
    )


@pytest.mark.parametrize(
    ("resolution", "ticks", "time_ns"),
    [
        (None, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (0, 1_700_000_000, 1_700_000_000_000_000_000),
        (3, 1_700_000_000_123, 1_700_000_000_123_000_000),
        (9, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (10, 17_000_000_001_234_567_899, 1_700_000_000_123_456_789),
        (12, 18_446_744_073_709_551_615, 18_446_744_073_709_551),
        (0x80 | 1, 3_400_000_001, 1_700_000_000_500_000_000),
        (0x80 | 33, (1_700_000_000 << 33) + 1, 1_700_000_000_000_000_000),
        (0x80 | 33, (1_700_000_000 << 33) + (1 << 32), 1_700_000_000_500_000_000),
        (0x80 | 63, 1 << 62, 500_000_000),
        (0x7F, 2**64 - 1, 0),
        (0, 2**64 - 1, 2**63 - 1),
    ],
)
def test_times_are_exact_with_any_resolution_of_the_interface(resolution, ticks, time_ns):
    options = b"" if resolution is None else Blocks().option(9, bytes([resolution]))
    assert times(options, ticks) == time_ns


def test_options_give_the_offset_of_the_interface_up_to_the_end_mark_or_a_cut_one():
    b = Blocks()
    nanoseconds = b.option(9, NANOSECONDS)
    for options, ticks, time_ns in (
        (nanoseconds + b.option(14, struct.pack("<q", 1_699_999_990)), 10**10 + 7, START_NS + 7),
        (
            nanoseconds + b.option(14, b"\2" + bytes(7)) + b.option(19, b"\xfb\xff\xff\xff"),
            10,
            2 * 10**9 + 5,
        ),
        (b.option(0, b"") + nanoseconds, 5, 5000),
        (b.option(2, b"eth0") + b"\x09\x00\x40\x00" + NANOSECONDS, 5, 5000),
    ):
        assert times(options, ticks) == time_ns


@ORDERS
def test_each_interface_has_its_link_type_and_clock(order):
    b = Blocks(order)
    data = b.section() + b.interface(1) + b.interface(113, options=b.option(9, NANOSECONDS))
    data += b.enhanced(PACKETS[0], 1_700_000_000_000_001, 0)
    data += b.enhanced(PACKETS[1], 1_700_000_000_000_000_002, 1)
    data += b.interface(101)
    data += b.enhanced(PACKETS[2], 1_700_000_000_000_003, 2)
    rows, reader = read(data)
    assert [(row[1] - START_NS, row[4]) for row in rows] == [(1000, 1), (2, 113), (3000, 101)]
    assert reader.anomalies == []


@ORDERS
def test_simple_packets_have_no_time_and_the_snap_length_of_the_interface(
    order,
):
    b = Blocks(order)
    data = b.section() + b.interface(snap_bytes=6)
    data += b.simple(Packet(b"first!", wire_bytes=60))
    data += b.enhanced(Packet(b"second"), 1_700_000_000_000_001)
    data += b.simple(Packet(b"abc"))
    data += b.simple(Packet(b"full56", wire_bytes=999))
    for buffer_bytes in (64, 4096):
        rows, reader = read(data, buffer_bytes)
        assert [(row[1], row[2], row[3]) for row in rows] == [
            (NO_TIME, b"first!", 60),
            (START_NS + 1000, b"second", 6),
            (NO_TIME, b"abc", 3),
            (NO_TIME, b"full56", 999),
        ]
        assert reader.anomalies == []


@ORDERS
def test_obsolete_packet_blocks_are_packets(order):
    b = Blocks(order)
    data = b.section() + b.interface(101) + b.interface(113)
    data += b.obsolete(Packet(b"abcde", wire_bytes=50), 1_700_000_000_000_001, 1)
    rows, _ = read(data)
    assert [row[1:] for row in rows] == [(START_NS + 1000, b"abcde", 50, 113)]


@pytest.mark.parametrize("buffer_bytes", [64, 4096])
def test_sections_may_differ_in_byte_order_and_have_interfaces_of_their_own(buffer_bytes):
    data = b""
    for order, link_type in (("<", 1), (">", 101), (">", 113), ("<", 276)):
        b = Blocks(order)
        data += b.section() + b.interface(link_type, options=b.option(9, NANOSECONDS))
        data += b.enhanced(PACKETS[0], 7) + b.enhanced(PACKETS[1], 8)
    rows, reader = read(data, buffer_bytes)
    assert [row[0] for row in rows] == list(range(1, 9))
    assert [row[4] for row in rows] == [1, 1, 101, 101, 113, 113, 276, 276]
    assert reader.anomalies == []


def test_dropped_packets_are_summed_over_interfaces_and_sections_not_over_time():
    b = Blocks()

    def drops(interface: int, by_interface: int, by_system: int = 0) -> bytes:
        options = b.option(5, struct.pack("<Q", by_interface))
        options += b.option(7, struct.pack("<Q", by_system)) if by_system else b""
        return b.statistics(interface, options)

    data = b.section() + b.interface() + b.interface()
    data += drops(0, 3) + drops(0, 5) + drops(1, 10, 20) + b.statistics(1, b"")
    data += b.section() + b.interface() + drops(0, 100) + drops(7, 1000)
    _, reader = read(data)
    assert reader.dropped_packets == 5 + 30 + 100


def dropcount(b: Blocks, count: int) -> bytes:
    return b.option(4, b.pack("Q", count))


@ORDERS
@pytest.mark.parametrize("buffer_bytes", [64, 4096])
def test_drop_counts_of_packets_are_summed_by_interface(order, buffer_bytes):
    b = Blocks(order)
    flags = b.option(2, bytes(4))
    data = b.section() + b.interface() + b.interface() + b.interface()
    data += enhanced_with_options(b, PACKETS[0], 1, flags + dropcount(b, 3) + b.option(0, b""))
    data += enhanced_with_options(b, PACKETS[1], 2, dropcount(b, 4))
    data += enhanced_with_options(b, PACKETS[2], 3, flags, 1)
    data += b.obsolete(PACKETS[3], 4, 2)  # 7 by its header
    rows, reader = read(data, buffer_bytes)
    assert len(rows) == 4
    assert reader.dropped_packets == 3 + 4 + 7


def test_drops_counted_by_packets_and_by_statistics_are_not_counted_twice():
    b = Blocks()
    head = b.section() + b.interface()
    packets = enhanced_with_options(b, PACKETS[0], 1, dropcount(b, 3))
    packets += enhanced_with_options(b, PACKETS[1], 2, dropcount(b, 4))
    for stated, total in ((10, 10), (5, 7)):
        data = head + packets + b.statistics(0, b.option(5, struct.pack("<Q", stated)))
        assert read(data)[1].dropped_packets == total


def test_unknown_drop_counts_are_not_reported_as_numbers():
    b = Blocks()
    data = b.section() + b.interface() + b.statistics(0, b.option(5, b"\xff" * 8))
    data += enhanced_with_options(b, PACKETS[0], 1, dropcount(b, 1 << 63))
    data += b.block(2, b.pack("HHIIII", 0, 0xFFFF, 0, 0, 4, 4) + b"data")
    rows, reader = read(data)
    assert len(rows) == 2
    assert reader.dropped_packets is None
    none = enhanced_with_options(b, PACKETS[0], 1, dropcount(b, 0))
    assert read(b.section() + b.interface() + none)[1].dropped_packets == 0


@pytest.mark.parametrize("buffer_bytes", [64, 1 << 16])
def test_comments_to_packets_have_the_number_of_the_packet(buffer_bytes):
    b = Blocks()
    data = b.section() + b.interface()
    for i in range(6):
        options = b.option(1, f"note {i}".encode()) + b.option(1, b"again") if i % 3 == 2 else b""
        data += enhanced_with_options(b, PACKETS[i], i, options)
    _, reader = read(data, buffer_bytes)
    comments = sorted((each.number, each.text) for each in reader.description.comments)
    assert comments == [(3, "again"), (3, "note 2"), (6, "again"), (6, "note 5")]
    assert {(each.about, each.capture) for each in reader.description.comments} == {
        ("packet", "x.pcapng")
    }


def test_drop_counts_that_are_cut_or_after_the_end_mark_are_ignored():
    b = Blocks()
    for options in (
        b.option(0, b"") + dropcount(b, 3),
        b.pack("HH", 4, 8) + b"\1\0\0\0",
        b.pack("HH", 4, 0xFFFF) + bytes(8),
        b.option(4, b"\1\0\0\0"),
    ):
        data = b.section() + b.interface() + enhanced_with_options(b, PACKETS[0], 1, options)
        rows, reader = read(data + b.enhanced(PACKETS[1], 2))
        assert len(rows) == 2
        assert reader.dropped_packets is None
        assert reader.anomalies == []


def spoiled(where: int, value: int) -> bytes:
    """Two good packets, and one with a 32-bit field that is wrong."""
    b = Blocks()
    good = b.section() + b.interface() + b.enhanced(PACKETS[0], 1) + b.enhanced(PACKETS[1], 2)
    bad = bytearray(b.enhanced(Packet(b"12345678"), 3))
    struct.pack_into("<I", bad, where % len(bad), value)
    return good + bytes(bad) + b.enhanced(PACKETS[2], 4)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (4, 0),
        (4, 11),
        (4, 12),
        (4, 28),
        (4, 0x1000_0001),
        (8, 1),
        (20, 9),
        (20, 0xFFFF_FFFF),
        (-4, 44),
    ],
    ids=[
        "no size",
        "size too small for a block",
        "size of a block without a body",
        "size too small for a packet",
        "size beyond 256 MiB",
        "interface not described",
        "captured length beyond the block",
        "captured length huge",
        "size after the block not the one before it",
    ],
)
def test_a_contradictory_block_ends_the_reading_and_keeps_earlier_packets(where, value):
    rows, reader = read(spoiled(where, value))
    assert [row[2] for row in rows] == [PACKETS[0].data, PACKETS[1].data]
    assert [a.kind for a in reader.anomalies] == [AnomalyKind.CAPTURE_CORRUPT]


def test_a_block_that_cannot_be_read_ends_the_reading():
    b = Blocks()
    blocks = [
        b.enhanced(PACKETS[0], 1) + b.interface(),  # before its interface
        *(b.block(kind, body) for kind in (1, 5) for body in (b"", b"1234")),
        b.simple(Packet(b"x")),
        b.interface() + b.block(3, b""),
        b.section(2),
    ]
    for data in blocks:
        for buffer_bytes in (64, 4096):
            rows, reader = read(b.section() + data, buffer_bytes)
            assert rows == []
            assert [a.kind for a in reader.anomalies] == [AnomalyKind.CAPTURE_CORRUPT]


def test_an_unknown_version_or_byte_order_is_an_error_that_names_the_file():
    with pytest.raises(CaptureError, match=r"^x\.pcapng: pcapng version 2 is not known"):
        read(Blocks().section(2))
    broken = bytearray(Blocks().section())
    broken[8] ^= 1
    with pytest.raises(CaptureError, match=r"^x\.pcapng: a section with an unknown byte order"):
        read(bytes(broken))


@STEADY
@given(
    st.lists(
        st.tuples(st.sampled_from("<>"), st.lists(st.binary(max_size=40), max_size=5)),
        min_size=1,
        max_size=4,
    ),
    st.integers(64, 300),
)
def test_any_sections_and_packets_are_read_with_any_buffer(sections, buffer_bytes):
    data = b"".join(
        pcapng_file([Packet(raw, i) for i, raw in enumerate(raws)], order)
        for order, raws in sections
    )
    rows, reader = read(data, buffer_bytes)
    assert [row[2] for row in rows] == [raw for _, raws in sections for raw in raws]
    assert reader.anomalies == []


def sections(count: int, packets: int = 1, orders: str = "<>") -> bytes:
    """``count`` sections with packets in each, their byte orders by turns."""
    parts = []
    for index in range(count):
        b = Blocks(orders[index % len(orders)])
        parts += [b.section(), b.interface()]
        parts += [b.enhanced(Packet(b"%d" % index), 1000 * index + i) for i in range(packets)]
    return b"".join(parts)


def test_the_cost_of_many_sections_is_linear():
    """Reading a section does not read the sections after it."""
    few, many = (sections(count, orders="<") for count in (100, 400))
    assert calls_of(lambda: read(many, 1 << 20)) < 4.5 * calls_of(lambda: read(few, 1 << 20))


@pytest.mark.parametrize("buffer_bytes", [100, 1000, 1 << 20])
def test_packets_of_many_sections_share_batches_of_the_size_of_the_buffer(buffer_bytes):
    """A section does not begin a batch: a batch costs later stages more than its packets do."""
    data = sections(60, packets=2)
    with open_capture(io.BytesIO(data), buffer_bytes=buffer_bytes) as reader:
        batches = list(reader.batches())
    assert sum(map(len, batches)) == 120
    assert len(batches) <= 2 * len(data) // buffer_bytes + 1
    rows, _ = read(data, buffer_bytes)
    assert [row[2] for row in rows] == [b"%d" % (index // 2) for index in range(120)]
    assert [int(row[1]) for row in rows[:4]] == [0, 1_000, 1_000_000, 1_001_000]


def test_a_corrupt_section_keeps_the_packets_of_earlier_sections():
    wrong = Blocks(">")
    data = sections(3) + wrong.section() + wrong.enhanced(Packet(b"no interface"), 1)
    rows, reader = read(data + sections(1), 1 << 20)
    assert [row[2] for row in rows] == [b"0", b"1", b"2"]
    assert [anomaly.kind for anomaly in reader.anomalies] == [AnomalyKind.CAPTURE_CORRUPT]


def test_many_interfaces_are_distinguished():
    """Each packet is of an interface with a clock of its own."""
    clocks = [Clock(1 + number % 3, 0, 9, number) for number in range(500)]
    numbers = np.tile(np.arange(500)[::-1], 4)
    b = Blocks()
    data = b.section()
    for clock in clocks:
        offset = b.option(19, struct.pack("<i", clock.offset_ns))
        data += b.interface(clock.link_type, options=b.option(9, b"\x09") + offset)
    data += b"".join(b.enhanced(Packet(b"x"), 1000, int(number)) for number in numbers)
    rows, _ = read(data, 1 << 20)
    assert [int(row[1]) for row in rows] == [1000 + number for number in numbers.tolist()]
    assert [int(row[4]) for row in rows] == [1 + number % 3 for number in numbers.tolist()]
