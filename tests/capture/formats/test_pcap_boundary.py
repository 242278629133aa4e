from __future__ import annotations

import itertools

import pytest

from kanalyze.capture.formats.pcap import CHAIN_BYTES, Boundary, PcapParser, find_boundary
from tests.support.packets import START_NS, Packet, pcap_file

pytestmark = pytest.mark.usefixtures("scan")

DAY_NS = 86_400 * 10**9
PACKETS = [Packet(b"\xee" * 20, START_NS + i) for i in range(10)]
DATA = pcap_file(PACKETS)
RECORD_BYTES = 36


def find(data: bytes, start: int, end: int | None = None, near_ns: int | None = START_NS, **named):
    parser = PcapParser("x")
    parser.start(memoryview(named.pop("header", DATA)), 24)
    end = len(data) if end is None else end
    return find_boundary(
        parser, memoryview(data), start, end, **{"is_end": True, "near_ns": near_ns, **named}
    )


def record_at(place: int) -> int:
    """The offset of the first record of DATA that begins at a place or after it."""
    return 24 + -(-(place - 24) // RECORD_BYTES) * RECORD_BYTES


def test_records_that_chain_to_the_end_of_the_file_show_a_boundary():
    for start in range(24, len(DATA) - RECORD_BYTES):
        assert find(DATA, start) == Boundary(record_at(start), is_found=True)


def test_a_chain_to_the_end_of_the_data_proves_nothing_where_more_may_follow():
    for start in range(24, len(DATA) - RECORD_BYTES):
        assert find(DATA, start, is_end=False) == Boundary(record_at(start), is_found=False)
    for end in range(24 + 16, len(DATA)):
        assert find(DATA, 24, end, is_end=False) == Boundary(24, is_found=False)


def test_no_chain_leads_to_the_end_of_a_file_that_ends_within_a_record():
    assert find(DATA[:-1], 100) == Boundary(len(DATA) - 1, is_found=False)


@pytest.mark.few(1)
def test_a_chain_of_many_bytes_shows_a_boundary_before_the_end():
    count = CHAIN_BYTES // RECORD_BYTES + 1
    chain = pcap_file([Packet(bytes(20), START_NS)] * count)[24:]
    rest = b"\xff" * 100
    assert find(b"\xff" * 7 + chain + rest, 0) == Boundary(7, is_found=True)
    short = chain[: -2 * RECORD_BYTES]
    assert find(b"\xff" * 7 + short + rest, 0) == Boundary(7 + len(short) + 100, is_found=False)


@pytest.mark.few(1)
def test_bytes_without_records_are_skipped_except_a_possible_part_of_a_header():
    nothing = b"\xff" * (3 * CHAIN_BYTES)
    assert find(nothing, 5) == Boundary(5 + 2 * CHAIN_BYTES - 15, is_found=False)
    assert find(nothing, 5, 1000, is_end=False) == Boundary(985, is_found=False)
    assert find(nothing, 5, 1000) == Boundary(1000, is_found=False)
    assert find(nothing, 5, 10, is_end=False) == Boundary(5, is_found=False)
    assert find(nothing, 5, 5) == Boundary(5, is_found=False)


@pytest.mark.parametrize(
    "odd",
    [
        Packet(b"\xee" * 20, START_NS - 2 * DAY_NS),
        Packet(b"\xee" * 20, START_NS + 367 * DAY_NS),
        Packet(b"\xee" * 20, START_NS, wire_bytes=19),
        Packet(b"\xee" * 20, START_NS, wire_bytes=1 << 30),
        Packet(b"", START_NS),
        Packet(b"\xee" * 262_145, START_NS),
    ],
)
def test_an_unlikely_header_breaks_a_chain(odd):
    packets = [*PACKETS[:3], odd, *PACKETS[3:]]
    starts = list(itertools.accumulate((16 + len(p.data) for p in packets), initial=24))
    assert find(pcap_file(packets), 24) == Boundary(starts[4], is_found=True)


@pytest.mark.parametrize(("nanoseconds", "units"), [(True, 10**9), (False, 10**6)])
def test_a_fraction_of_a_second_is_less_than_a_second(nanoseconds, units):
    data = bytearray(pcap_file(PACKETS, nanoseconds=nanoseconds))
    for fraction, place in ((units - 1, 24), (units, 24 + RECORD_BYTES)):
        data[24 + 4 : 24 + 8] = fraction.to_bytes(4, "little")
        assert find(bytes(data), 24, header=bytes(data)) == Boundary(place, is_found=True)


def test_any_time_is_likely_where_that_of_the_first_packet_is_unknown():
    late_ns = START_NS + 4000 * DAY_NS
    data = pcap_file([Packet(b"x", START_NS), Packet(b"y", late_ns)])
    assert find(data, 24, near_ns=late_ns).offset == 41
    assert find(data, 24, near_ns=None).offset == 24
