"""Packets from Linux's kernel: compiled, and as plain Python."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kanalyze.capture.formats import packet_scan
from kanalyze.capture.formats.packet_scan import ColumnMaker
from kanalyze.capture.live.packet_socket import HEADROOM_BYTES
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.model.packets import PacketBatch

ETHERNET_HEADER = bytes(range(12)) + b"\x08\x00"
VALID, PROTOCOL_VALID = 0x10, 0x40
NO_ADDRESS = bytes(20)


class Kind(NamedTuple):
    """Compiled or uncompiled classes."""

    scan: type[packet_scan.KernelScan]
    maker: type[ColumnMaker]


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    if request.param == "compiled":
        assert not (packet_scan.__file__ or "").endswith(".py")
        yield Kind(packet_scan.KernelScan, ColumnMaker)
        return
    with uncompiled() as modules:
        pass
    plain = modules["kanalyze.capture.formats.packet_scan"]
    yield Kind(plain.KernelScan, plain.ColumnMaker)


def on_wire(
    kind: Kind,
    packets: list[bytes],
    tags: list[tuple[int, int, int]],
    link_type: int,
    snap_bytes: int = 65536,
    addresses: Sequence[bytes] | None = None,
) -> tuple[bytes, memoryview, PacketBatch]:
    """Put packets one after another, each with only the promised free bytes before it."""
    data = bytearray()
    rows = []
    for number, (packet, tag) in enumerate(zip(packets, tags, strict=True)):
        data += b"\xee" * HEADROOM_BYTES
        rows.append([number, len(data), len(packet), len(packet) + 10, *tag])
        data += packet
    for row, address in zip(rows, addresses or [NO_ADDRESS] * len(packets), strict=True):
        row.append(len(data))
        data += address
    before, buffer = bytes(data), memoryview(data)
    columns = [array("q", [row[index] for row in rows]) for index in range(8)]
    maker = kind.maker()
    kind.scan(link_type, snap_bytes).scan_columns(buffer, columns, maker)
    packets = maker.take(buffer)
    assert packets is not None
    return before, buffer, packets


def test_vlan_tags_are_put_back_after_the_addresses(kind: Kind) -> None:
    packets = [ETHERNET_HEADER + b"payload %d" % number for number in range(6)]
    tags = [
        (VALID | PROTOCOL_VALID, 100, 0x88A8),
        (0, 0, 0),
        (VALID, 0, 0),
        (0, 7, 0),
        (PROTOCOL_VALID, 0, 0x8100),
        (VALID | PROTOCOL_VALID, 0xFFFF, 0x9100),
    ]
    _, buffer, columns = on_wire(kind, packets, tags, 1)
    expected = [b"\x88\xa8\x00\x64", b"", b"\x81\0\0\0", b"\x81\0\0\x07", b"", b"\x91\0\xff\xff"]
    for index, tag in enumerate(expected):
        offset, size = int(columns.offset[index]), int(columns.captured_bytes[index])
        packet = packets[index]
        assert bytes(buffer[offset : offset + size]) == packet[:12] + tag + packet[12:]
        assert columns.wire_bytes[index] == len(packet) + 10 + len(tag)


def test_a_packet_cut_within_its_addresses_gets_no_tag(kind: Kind) -> None:
    packets = [b"short", ETHERNET_HEADER]
    before, buffer, columns = on_wire(kind, packets, [(VALID, 5, 0)] * 2, 1)
    assert columns.captured_bytes.tolist() == [5, 18]
    assert columns.wire_bytes.tolist() == [15, 28]
    assert bytes(buffer[: HEADROOM_BYTES + 5]) == before[: HEADROOM_BYTES + 5]


def test_a_packet_with_a_tag_is_cut_at_the_snap_length(kind: Kind) -> None:
    _, _, columns = on_wire(kind, [ETHERNET_HEADER], [(VALID, 5, 0)], 1, 14)
    assert (columns.captured_bytes.tolist(), columns.wire_bytes.tolist()) == ([14], [28])


def test_a_cooked_packet_begins_with_a_header_of_its_metadata(kind: Kind) -> None:
    address = struct.pack("=H2siHBB", 17, b"\x86\xdd", 3, 772, 4, 6) + b"\1\2\3\4\5\6\0\0"
    _, buffer, columns = on_wire(kind, [b"datagram"], [(VALID, 5, 0)], 276, addresses=[address])
    offset, size = int(columns.offset[0]), int(columns.captured_bytes[0])
    assert bytes(buffer[offset : offset + size]) == (
        b"\x86\xdd\0\0\0\0\0\x03\x03\x04\x04\x06\1\2\3\4\5\6\0\0datagram"
    )
    assert columns.wire_bytes.tolist() == [20 + 8 + 10]
    assert columns.link_type.tolist() == [276]


@pytest.mark.parametrize("link_type", [101, 127])
def test_packets_of_other_link_types_are_unchanged(kind: Kind, link_type: int) -> None:
    before, buffer, columns = on_wire(kind, [b"\x45 and so on"], [(VALID, 5, 0)], link_type)
    assert columns.offset.tolist() == [HEADROOM_BYTES]
    assert bytes(buffer) == before
    assert columns.link_type.tolist() == [link_type]


@pytest.mark.parametrize("link_type", [1, 101, 276])
def test_no_packets_give_no_rows(kind: Kind, link_type: int) -> None:
    maker = kind.maker()
    kind.scan(link_type, 65536).scan_columns(memoryview(bytearray()), [array("q")] * 8, maker)
    assert maker.take(memoryview(b"")) is None


def test_a_block_with_an_offset_beyond_its_end_is_an_error_and_not_read(kind: Kind) -> None:
    block = bytearray(64)
    struct.pack_into("=II", block, 12, 1000, 48)
    with pytest.raises(IndexError):
        kind.scan(1, 100).blocks(memoryview(block), 64, 1, kind.maker())
