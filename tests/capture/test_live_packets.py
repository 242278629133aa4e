from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kanalyze.capture.live_packets import ADDRESS, HEADROOM_BYTES, KernelPackets, as_on_wire

if TYPE_CHECKING:
    from collections.abc import Sequence

ETHERNET_HEADER = bytes(range(12)) + b"\x08\x00"
VALID, PROTOCOL_VALID = 0x10, 0x40


def laid_out(
    packets: list[bytes],
    tags: list[tuple[int, int, int]],
    addresses: Sequence[tuple[object, ...]] = (),
) -> tuple[memoryview, KernelPackets]:
    """Packets one after another, each with just the room before it that is promised."""
    data = bytearray()
    offsets = []
    for packet in packets:
        data += b"\xee" * HEADROOM_BYTES
        offsets.append(len(data))
        data += packet
    status, control, protocol = (np.array(column) for column in zip(*tags, strict=True))
    sizes = np.array([len(packet) for packet in packets], np.int64)
    return memoryview(data), KernelPackets(
        time_ns=np.arange(len(packets), dtype=np.int64),
        offset=np.array(offsets, np.int64),
        captured_bytes=sizes,
        wire_bytes=sizes + 10,
        status=status.astype(np.uint32),
        tag_control=control.astype(np.uint32),
        tag_protocol=protocol.astype(np.uint16),
        address=np.array(list(addresses), ADDRESS),
    )


def test_tags_are_put_back_behind_the_addresses() -> None:
    packets = [ETHERNET_HEADER + b"payload %d" % number for number in range(6)]
    tags = [
        (VALID | PROTOCOL_VALID, 100, 0x88A8),
        (0, 0, 0),
        (VALID, 0, 0),
        (0, 7, 0),
        (PROTOCOL_VALID, 0, 0x8100),
        (VALID | PROTOCOL_VALID, 0xFFFF, 0x9100),
    ]
    buffer, told = laid_out(packets, tags)
    columns = as_on_wire(told, buffer, 1, 65536)
    expected = [b"\x88\xa8\x00\x64", b"", b"\x81\0\0\0", b"\x81\0\0\x07", b"", b"\x91\0\xff\xff"]
    for index, tag in enumerate(expected):
        offset, size = int(columns.offset[index]), int(columns.captured_bytes[index])
        packet = packets[index]
        assert bytes(buffer[offset : offset + size]) == packet[:12] + tag + packet[12:]
        assert columns.wire_bytes[index] == len(packet) + 10 + len(tag)


def test_a_packet_cut_within_its_addresses_gets_no_tag() -> None:
    buffer, told = laid_out([b"short", ETHERNET_HEADER], [(VALID, 5, 0)] * 2)
    before = bytes(buffer)
    columns = as_on_wire(told, buffer, 1, 65536)
    assert columns.captured_bytes.tolist() == [5, 18]
    assert columns.wire_bytes.tolist() == [15, 28]
    assert bytes(buffer[: HEADROOM_BYTES + 5]) == before[: HEADROOM_BYTES + 5]


def test_a_tag_makes_no_packet_longer_than_is_kept() -> None:
    buffer, told = laid_out([ETHERNET_HEADER], [(VALID, 5, 0)])
    columns = as_on_wire(told, buffer, 1, 14)
    assert (columns.captured_bytes.tolist(), columns.wire_bytes.tolist()) == ([14], [28])


def test_a_cooked_packet_begins_with_what_is_said_of_it() -> None:
    address = (17, b"\x86\xdd", 3, 772, 4, 6, b"\1\2\3\4\5\6\0\0")
    buffer, told = laid_out([b"datagram"], [(VALID, 5, 0)], [address])
    columns = as_on_wire(told, buffer, 276, 65536)
    offset, size = int(columns.offset[0]), int(columns.captured_bytes[0])
    assert bytes(buffer[offset : offset + size]) == (
        b"\x86\xdd\0\0\0\0\0\x03\x03\x04\x04\x06\1\2\3\4\5\6\0\0datagram"
    )
    assert columns.wire_bytes.tolist() == [20 + 8 + 10]
    assert columns.link_type.tolist() == [276]


@pytest.mark.parametrize("link_type", [101, 127])
def test_others_are_left_as_they_are(link_type: int) -> None:
    buffer, told = laid_out([b"\x45 and so on"], [(VALID, 5, 0)])
    before = bytes(buffer)
    columns = as_on_wire(told, buffer, link_type, 65536)
    assert columns.offset.tolist() == [HEADROOM_BYTES]
    assert bytes(buffer) == before
    assert columns.link_type.tolist() == [link_type]


def test_no_packets() -> None:
    buffer, told = laid_out([b"x"], [(VALID, 5, 0)])
    none = KernelPackets(*(column[:0] for column in told))
    for link_type in (1, 101, 276):
        assert len(as_on_wire(none, buffer, link_type, 65536)) == 0
