"""The bytes that macOS's /dev/bpf returns; other systems do not have the device."""

from __future__ import annotations

import struct

import pytest

from kanalyze.capture.live.capture import BpfSocket, bpf_packets
from kanalyze.errors import CaptureError


def read_buffer(packets: list[tuple[int, int, bytes]]) -> bytes:
    """Records as the device lays them out: aligned to 4 bytes, the last one without padding."""
    data = b""
    for seconds, microseconds, packet in packets:
        data += b"\0" * (-len(data) % 4)
        data += struct.pack("=IIIIH", seconds, microseconds, len(packet), len(packet) + 3, 18)
        data += packet
    return data


def test_all_packets_of_one_read_are_found() -> None:
    packets = [(1_700_000_000, 999_999, b"a" * size) for size in (14, 61, 0, 1500, 3)]
    buffer = memoryview(read_buffer(packets))
    columns = bpf_packets(buffer, 1, 1000)
    assert columns is not None
    assert columns.time_ns.tolist() == [1_700_000_000_999_999_000] * 5
    assert columns.captured_bytes.tolist() == [14, 61, 0, 1000, 3]
    assert columns.wire_bytes.tolist() == [17, 64, 3, 1503, 6]
    assert bytes(buffer[columns.offset[4] :]) == b"aaa"
    assert columns.link_type.tolist() == [1] * 5


def test_more_packets_are_read_than_the_recursion_limit() -> None:
    buffer = memoryview(read_buffer([(1, 2, b"a")] * 5000))
    packets = bpf_packets(buffer, 0, 1000)
    assert packets is not None
    assert len(packets) == 5000


def test_an_empty_read_has_no_packets() -> None:
    assert bpf_packets(memoryview(b""), 1, 1000) is None


def test_a_missing_device_is_an_error_of_one_line() -> None:
    with pytest.raises(CaptureError, match=r"^en0: [^\n]+$"):
        BpfSocket("en0", None, promiscuous=True)
