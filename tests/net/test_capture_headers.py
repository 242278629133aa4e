"""802.11 with what may stand in front of it (scapy builds the frames), and netfilter's log."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.dot11 import Dot11, Dot11QoS, RadioTap

from kanalyze.net.header_cursor import HeaderCursor
from kanalyze.net.header_kinds import LLC_FRAME
from kanalyze.net.headers import read_link
from kanalyze.net.layer_stats import LayerStats
from tests.support.cases import examples, for_each
from tests.support.packets import Packet, ethernet, ipv4, make_batch, tcp
from tests.support.read_segments import read
from tests.support.work import calls_of
from tests.support.wrapped import wrapped

NAMES = [name for name, one in wrapped().items() if one.link_type in {105, 119, 127, 163, 192}]
SNAP = b"\xaa\xaa\x03\0\0\0\x08\0"


def found(data: bytes, link_type: int = 105) -> tuple[int, int] | str:
    """Where the content begins and its kind, or the name that the packet is counted by."""
    stats = LayerStats()
    batch = make_batch([Packet(data, link_type=link_type)])
    cursor = HeaderCursor(batch, stats)
    kind = read_link(cursor, cursor.begin(0))
    if kind >= 0:
        return cursor.at - int(batch.offset[0]), kind
    assert stats.counters.not_ip == 1
    assert stats.drain_anomalies() == []
    (name,) = stats.counters.other_packets
    return name


def dot11(control: int, flags: int = 0, *, sequence: int = 0, rest: bytes = bytes(20)) -> bytes:
    return bytes([control, flags, 0, 0]) + bytes(18) + sequence.to_bytes(2, "little") + rest


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (dot11(0x08), (24, LLC_FRAME)),
        (dot11(0x88, rest=b"\x05\0" + bytes(9)), (26, LLC_FRAME)),
        (dot11(0x88, 0x80, rest=b"\x05\0" + bytes(9)), (30, LLC_FRAME)),
        (dot11(0x08, 0x80), (24, LLC_FRAME)),
        (dot11(0x08, 3), (30, LLC_FRAME)),
        (dot11(0x88, 3, rest=bytes(6) + b"\x05\0" + bytes(9)), (32, LLC_FRAME)),
        (dot11(0x80), "802.11 management"),
        (dot11(0xD4), "802.11 control"),
        (dot11(0xD4)[:10], "802.11 control"),
        (dot11(0x0C), "802.11 extension"),
        (dot11(0x09), "802.11 version 1"),
        (dot11(0x48), "802.11 without data"),
        (dot11(0x48)[:24], "802.11 without data"),
        (dot11(0x08, 0x40), "802.11 encrypted"),
        (dot11(0x88, 0x40), "802.11 encrypted"),
        (dot11(0x08, 0x04), "802.11 fragment"),
        (dot11(0x08, sequence=1), "802.11 fragment"),
        (dot11(0x08, sequence=0x10), (24, LLC_FRAME)),
        (dot11(0x88, rest=b"\x80\0" + bytes(9)), "802.11 aggregate"),
        (dot11(0x08)[:20], "802.11 cut short"),
        (dot11(0x08)[:24], "802.11 cut short"),
        (b"\x08", "802.11 cut short"),
        (b"", "802.11 cut short"),
    ],
)
def test_frames_of_802_11_are_read_or_named(data, expected):
    assert found(data) == expected


def radiotap(present: list[int], fields: bytes) -> bytes:
    size = 4 + 4 * len(present) + len(fields)
    return struct.pack(f"<BBH{len(present)}I", 0, 0, size, *present) + fields


MORE = 1 << 31


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (radiotap([0], b""), (8 + 26, LLC_FRAME)),
        (radiotap([2], b"\0"), (9 + 26, LLC_FRAME)),
        (radiotap([2], b"\x20"), (9 + 28, LLC_FRAME)),
        (radiotap([2], b"\x10"), (9 + 26, LLC_FRAME)),
        (radiotap([2], b"\x40"), "802.11 with a wrong checksum"),
        # The time before the flags is aligned to 8 bytes, from the beginning of the header.
        (radiotap([3], bytes(8) + b"\x20"), (17 + 28, LLC_FRAME)),
        (radiotap([3 | MORE, 0], bytes(12) + b"\x20"), (25 + 28, LLC_FRAME)),
        (radiotap([2 | MORE, MORE, 2], b"\x20" + bytes(3)), (20 + 28, LLC_FRAME)),
        # Flags of another name space are not those of the frame.
        (radiotap([MORE, 2], b"\x20"), (13 + 26, LLC_FRAME)),
        (radiotap([2], b""), "802.11 cut short"),
        (radiotap([MORE], b""), "802.11 cut short"),
        (radiotap([3 | MORE, MORE], bytes(12)), "802.11 cut short"),
        (b"\0\0\x07\0" + bytes(4), "802.11 cut short"),
        (b"\0\0\xff\xff" + bytes(4), "802.11 cut short"),
    ],
)
def test_radiotap_is_stepped_over_and_says_whether_the_frame_is_padded(head, expected):
    frame = dot11(0x88, rest=b"\x05\0" + bytes(30))
    assert found(head + frame, 127) == expected


@settings(max_examples=examples(300), deadline=None)
@given(
    present=st.sets(
        st.sampled_from(["TSFT", "Flags", "Rate", "Channel", "dBm_AntSignal", "Antenna", "MCS"])
    ),
    flags=st.sampled_from([0, 0x02, 0x10, 0x20, 0x30]),
    control=st.integers(0, 255),
    has_qos=st.booleans(),
    sequence=st.integers(0, 65_535),
)
def test_scapy_finds_the_content_of_a_data_frame_at_the_same_place(
    present, flags, control, has_qos, sequence
):
    addresses = {f"addr{number}": f"02:00:00:00:00:0{number}" for number in range(1, 5)}
    frame = Dot11(type=2, subtype=8 * has_qos, FCfield=control, SC=sequence, **addresses)
    head = RadioTap(present="+".join(sorted(present)), Flags=flags)
    data = bytes(head / frame / Dot11QoS()) if has_qos else bytes(head / frame)
    if has_qos and control & 0x80:
        data += bytes(4)  # the HT control field, which scapy does not know
    radiotap_bytes = int.from_bytes(data[2:4], "little")
    is_padded = "Flags" in present and flags & 0x20
    data += bytes(-(len(data) - radiotap_bytes) % 4 if is_padded else 0)
    content = SNAP + ipv4(tcp())
    if control & 0x40:
        assert found(data + content, 127) == "802.11 encrypted"
    elif control & 0x04 or sequence & 0xF:
        assert found(data + content, 127) == "802.11 fragment"
    else:
        assert found(data + content, 127) == (len(data), LLC_FRAME)


@pytest.mark.parametrize(
    ("link_type", "head"),
    [
        (119, struct.pack("<II", 0x45, 144).ljust(144, b"\0")),
        (119, struct.pack("<II", 0x44, 23).ljust(144, b"\0")),
        (119, struct.pack("<II", 0x44, 1 << 31).ljust(144, b"\0")),
        (163, struct.pack(">II", 0x80211001, 11).ljust(64, b"\0")),
        (163, struct.pack(">II", 0x80212001, 64).ljust(64, b"\0")),
        (163, struct.pack(">II", 0x80211001, 0xFFFF_FFFF).ljust(64, b"\0")),
        (163, b"\x80\x21"),
    ],
)
def test_an_impossible_header_of_a_driver_is_counted(link_type, head):
    assert found(head + dot11(0x08), link_type) == "802.11 cut short"


def test_an_impossible_ppi_header_is_counted_and_affects_no_other_packet():
    def ppi(size: int, link: int) -> Packet:
        frame = ethernet(ipv4(tcp()))
        return Packet(struct.pack("<BBHI", 0, 0, size, link) + frame, link_type=192)

    segments, stats = read(ppi(7, 1), ppi(60_000, 1), ppi(8, 192), ppi(8, 258), ppi(8, 1))
    assert [segment.packet for segment in segments] == [5]
    assert stats.counters.cut_headers == 2
    assert stats.counters.other_packets == {"PPI (link type 192)": 2}


@for_each("name", NAMES)
def test_a_packet_takes_a_few_steps_whatever_is_in_front_of_it(name):
    one = wrapped()[name]
    packets = [Packet(one.data, link_type=one.link_type)] * 500
    assert calls_of(lambda: read(*packets)) < 150 * len(packets)


@pytest.mark.parametrize(
    "frame", [dot11(0xD4)[:10], dot11(0x80), dot11(0x88, 0x40), b"", dot11(0x88)[:25]]
)
def test_a_frame_that_is_not_read_takes_a_few_steps(frame):
    words = radiotap([0xFFFF_FFFF] * 20 + [0x7FFF_FFFF], bytes(300))
    packets = [Packet(words + frame, link_type=127)] * 500
    assert calls_of(lambda: read(*packets)) < 150 * len(packets)


LOGGED = ipv4(tcp(payload=b"logged"))


def value(kind: int, data: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("before", [0, 1, 2, 20])
def test_the_packet_is_found_behind_other_values(before, order):
    values = b"".join(value(10 + i, b"x" * i, order) for i in range(before))
    ((segment,), stats) = read(b"\x02\0\0\0" + values + value(9, LOGGED, order), link_type=239)
    assert segment.data == b"logged"
    assert stats.counters.anomalies == {}


def test_a_record_without_an_ip_packet_is_counted():
    nothing = b"\x02\0\0\0" + value(10, b"no packet")
    bridge = b"\x07\0\0\0" + value(9, LOGGED)
    whole = b"\x02\0\0\0" + value(9, LOGGED)
    segments, stats = read(nothing, bridge, whole, link_type=239)
    assert [segment.packet for segment in segments] == [3]
    assert stats.counters.cut_headers == 1
    assert stats.counters.other_packets == {"address family 7": 1}


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_value_shorter_than_its_own_header_ends_the_search(length):
    data = b"\x02\0\0\0" + struct.pack("<HH", length, 10) + value(9, LOGGED)
    segments, stats = read(data, link_type=239)
    assert segments == []
    assert stats.counters.other_packets == {"address family 2": 1}


def test_values_without_end_are_read_to_a_bound():
    data = b"\x02\0\0\0" + value(10, b"") * 1000 + value(9, LOGGED)
    segments, stats = read(data, link_type=239)
    assert segments == []
    assert stats.counters.not_ip == 1
