"""The loops over packets: compiled, and as plain Python."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.capture import file_metadata
from kanalyze.capture.formats import packet_scan
from kanalyze.capture.formats.packet_scan import ColumnMaker, Stop
from kanalyze.capture.formats.pcap import PcapParser
from kanalyze.capture.formats.pcapng import PcapngParser
from tests.support.packets import (
    START_NS,
    Blocks,
    Packet,
    enhanced_with_options,
    pcap_file,
    pcapng_file,
)
from tests.support.uncompiled import compiled_modules, uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

COLUMNS = ("number", "time_ns", "offset", "captured_bytes", "wire_bytes", "link_type")
NOTHING = memoryview(b"")

OPTIONS = st.lists(
    st.tuples(st.sampled_from([1, 1, 2, 4, 2988]), st.binary(max_size=9)), max_size=5
)
PACKETS = [Packet(bytes([i]) * (14 + i % 50), START_NS + i * 1_000_001, 100 + i) for i in range(40)]


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def of_kind(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    if request.param == "compiled":
        assert not (packet_scan.__file__ or "").endswith(".py")
        yield packet_scan
        return
    with uncompiled() as modules:
        pass
    yield modules["kanalyze.capture.formats.packet_scan"]


def test_both_are_compiled_modules():
    assert {"kanalyze.capture.formats.packet_scan", "kanalyze.common.int_columns"} <= set(
        compiled_modules()
    )


def test_columns_grow_with_packets_and_begin_anew(of_kind):
    maker = of_kind.ColumnMaker()
    assert maker.take(NOTHING) is None
    for count in (3, 1000):
        for number in range(count):
            maker.add(START_NS + number, number, 60 + number, 50, 1)
        columns = maker.take(NOTHING)
        assert maker.count == 0
        assert columns.time_ns.tolist() == [START_NS + number for number in range(count)]
        assert columns.captured_bytes == columns.wire_bytes
        assert columns.link_type.tolist() == [1] * count
    assert columns.link_type.typecode == "i"


@pytest.mark.parametrize("size", [0, 3, 11, 14, 27, 60])
def test_no_byte_beyond_the_end_is_read(of_kind, size):
    data = memoryview(bytes(size))
    found = of_kind.PcapRecords(False, 16, 8, 12, 1, 1, 1000)
    assert found.scan(data, 0, size, of_kind.ColumnMaker(), 99) == size // 16 * 16
    blocks = of_kind.PcapngBlocks(None)
    assert blocks.scan(data, 0, size, of_kind.ColumnMaker(), 99) == 0
    assert blocks.stop == (Stop.END if size < 8 else Stop.SHORT)


def test_an_offset_beyond_the_buffer_is_an_error_and_not_read(of_kind):
    found = of_kind.PcapRecords(True, 16, 8, 12, 1, 1, 1000)
    with pytest.raises(IndexError):
        found.scan(memoryview(bytes(20)), 0, 100, of_kind.ColumnMaker(), 99)


@pytest.mark.parametrize("most", [1, 7, 40, 100])
def test_no_more_packets_are_returned_than_requested(most):
    for reading, data in (
        (PcapParser("x"), pcap_file(PACKETS)),
        (PcapngParser("x"), pcapng_file(PACKETS)),
    ):
        begun = reading.start(memoryview(data), len(data))
        assert begun is not None
        at, sizes = begun.position, []
        while at < len(data):
            parsed = reading.parse(memoryview(data), at, len(data), most)
            assert parsed.batch is not None
            sizes.append(len(parsed.batch))
            at = parsed.position
        assert sizes == [most] * (40 // most) + [40 % most] * bool(40 % most)


class Recorded:
    """Collects comments and drop counts of packets."""

    def __init__(self) -> None:
        self.comments: list[tuple[int, bytes]] = []
        self.drops: list[tuple[int, int]] = []

    def note_packet_comment(self, number: int, text: memoryview) -> None:
        self.comments.append((number, bytes(text)))

    def count_drops(self, interface: int, drops: int) -> None:
        self.drops.append((interface, drops))


@given(st.lists(OPTIONS, max_size=6), st.sampled_from("<>"), st.booleans())
def test_comments_and_drop_counts_of_packets_are_read_from_any_options(
    of_kind, of_packets, order, end_mark
):
    blocks, data, comments, drops = Blocks(order), b"", [], []
    for number, options in enumerate(of_packets, start=1):
        drop_count = None
        for index, (code, value) in enumerate(options):
            # A last option without a value is ignored, and so is what would follow an end mark.
            if not value and index + 1 == len(options) and not end_mark:
                continue
            if code == 1:
                comments.append((number, value))
            elif code == 4 and len(value) == 8:
                count = struct.unpack(f"{order}Q", value)[0]
                drop_count = count if count <= 1 << 32 else drop_count
        drops += [(0, drop_count)] * (drop_count is not None)
        body = b"".join(blocks.option(code, value) for code, value in options) + bytes(4 * end_mark)
        data += enhanced_with_options(blocks, Packet(b"12345"), 7, body)
    recorded = Recorded()
    found = of_kind.PcapngBlocks(recorded)
    found.begin_section(order == ">", [file_metadata.Clock(1, 0)])
    found.add_interfaces()
    assert found.scan(memoryview(data), 0, len(data), of_kind.ColumnMaker(), 99) == len(data)
    assert (recorded.comments, recorded.drops) == (comments, drops)


def test_the_number_of_options_read_of_a_packet_is_bounded(of_kind):
    recorded, blocks = Recorded(), Blocks()
    data = enhanced_with_options(blocks, Packet(b"1234"), 7, blocks.option(1, b"once") * 100)
    found = of_kind.PcapngBlocks(recorded)
    found.begin_section(False, [file_metadata.Clock(1, 0)])
    found.add_interfaces()
    found.scan(memoryview(data), 0, len(data), of_kind.ColumnMaker(), 99)
    assert len(recorded.comments) == 64


@given(
    st.integers(0, 255),
    st.one_of(st.integers(-(1 << 70), 1 << 70), st.sampled_from([0, 1 << 62, -1 << 62])),
    st.one_of(st.integers(0, (1 << 64) - 1), st.integers(0, 1 << 40)),
)
def test_times_are_exact_whatever_the_clock(of_kind, resolution, offset_ns, ticks):
    clock = file_metadata.Clock(1, 0, resolution, offset_ns)
    found = of_kind.PcapngBlocks(Recorded())
    found.begin_section(False, [clock])
    found.add_interfaces()
    data, maker = Blocks().enhanced(Packet(b"x"), ticks), of_kind.ColumnMaker()
    found.scan(memoryview(data), 0, len(data), maker, 1)
    per_s = 1 << (resolution & 127) if resolution & 128 else 10**resolution
    exact = ticks * 10**9 // per_s + offset_ns
    assert maker.take(NOTHING).time_ns.tolist() == [min(max(exact, 0), (1 << 63) - 1)]


def test_columns_of_the_maker_are_its_own():
    maker = ColumnMaker()
    maker.add(1, 2, 3, 4, 5)
    first = maker.take(NOTHING)
    maker.add(6, 7, 8, 9, 10)
    assert first is not None
    assert [getattr(first, name)[0] for name in COLUMNS] == [1, 1, 2, 3, 4, 5]
