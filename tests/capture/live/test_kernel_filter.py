"""Filters, applied by the kernel to packets that never leave this process.

What filters select on an interface is tested in test_capture.py, beside tcpdump.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from kanalyze.capture.live.kernel_filter import (
    EVERYTHING,
    NOTHING,
    assembled,
    compile_filter,
    port_filter,
    program_for,
)
from kanalyze.errors import UsageError
from tests.support.packets import ethernet, ipv4, ipv6, segment, tcp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.capture.live.kernel_filter import Instruction

ATTACH_FILTER = 26


def kept_bytes(program: Sequence[Instruction], packet: bytes) -> int:
    """Let the kernel apply a program to a packet; return how many bytes it keeps."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sender, receiver:
        code = ctypes.create_string_buffer(assembled(program))
        described = struct.pack("@HP", len(program), ctypes.addressof(code))
        receiver.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, described)
        sender.send(packet)
        receiver.setblocking(False)
        try:
            return len(receiver.recv(1 << 16))
        except BlockingIOError:
            return 0


def matches(expression: str, packet: bytes, link_type: int = 1) -> bool:
    return kept_bytes(compile_filter(expression, link_type), packet) > 0


def test_a_filter_keeps_packets_up_to_the_snap_length() -> None:
    packet = segment(payload=bytes(1000))
    assert kept_bytes(program_for(EVERYTHING, 500), packet) == 500
    assert kept_bytes(program_for(EVERYTHING, 5000), packet) == len(packet)
    assert kept_bytes(program_for(compile_filter("tcp", 1), 500), packet) == 500
    assert kept_bytes(program_for(compile_filter("udp", 1), 500), packet) == 0
    assert kept_bytes(NOTHING, packet) == 0


def both_ways(client: tuple[str, int], broker: tuple[str, int]) -> list[bytes]:
    return [segment(to_broker=way, client=client, broker=broker) for way in (True, False)]


def test_packets_are_selected_by_port_and_host() -> None:
    four = both_ways(("10.0.0.1", 50000), ("10.0.0.2", 9092))
    six = both_ways(("fd00::1", 50000), ("fd00::2", 9093))
    for expression, expected in (
        (port_filter([9092], []), [True, False]),
        (port_filter([9093], []), [False, True]),
        (port_filter([9092, 9093], []), [True, True]),
        (port_filter([], ["10.0.0.2"]), [True, False]),
        (port_filter([], ["10.0.0.0/8", "fd00::1"]), [True, True]),
        (port_filter([], ["10.0.0.77/8"]), [True, False]),
        (port_filter([9093], ["10.0.0.2"]), [False, False]),
        (port_filter([9093], ["fd00::/16"]), [False, True]),
        (port_filter([], []), [True, True]),
    ):
        for packets, is_selected in zip((four, six), expected, strict=True):
            assert [matches(expression, packet) for packet in packets] == [is_selected] * 2, (
                expression
            )


def test_vlan_tags_and_fragments_are_selected_by_port() -> None:
    expression = port_filter([9092], ["10.0.0.2"])
    inside = ipv4(tcp(50000, 9092))
    assert matches(expression, ethernet(inside))
    assert matches(expression, ethernet(inside, tags=[0x8100]))
    assert matches(expression, ethernet(inside, tags=[0x88A8, 0x8100]))
    assert not matches(expression, ethernet(ipv4(tcp(1, 2)), tags=[0x8100]))
    assert matches(expression, ethernet(ipv4(tcp(50000, 9092), fragment=0x2000)))
    assert not matches(expression, ethernet(ipv4(tcp(50000, 9092), fragment=0x2001)))


def test_packets_without_ethernet_are_selected_by_port() -> None:
    expression = port_filter([9092], [], 101)
    assert "vlan" not in expression
    assert matches(expression, ipv4(tcp(50000, 9092)), 101)
    assert matches(expression, ipv6(tcp(50000, 9092), "fd00::1", "fd00::2"), 101)
    assert not matches(expression, ipv4(tcp(50000, 9091)), 101)


def test_cooked_packets_begin_with_the_network_layer() -> None:
    """The kernel passes the fields of their header as metadata (see linux/filter.h)."""
    protocol, packet_type = 0xFFFFF000, 0xFFFFF004
    assert (0x28, 0, 0, protocol) in compile_filter("ip6", 276)
    assert packet_type in {one[3] for one in compile_filter("outbound", 276)}
    plain, cooked = compile_filter("tcp port 9092", 101), compile_filter("tcp port 9092", 276)
    # The offsets in IPv4 of the protocol, of the fragment offset and of the header's length.
    for load in ((0x30, 9), (0x28, 6), (0xB1, 0)):
        for program in (plain, cooked):
            assert load in {(code, at) for code, _, _, at in program}
    with pytest.raises(UsageError, match="reads a header field that these packets do not have"):
        compile_filter("link[6] = 1", 276)


def test_wrong_ports_and_hosts_are_refused() -> None:
    for port in (0, -1, 65536):
        with pytest.raises(UsageError, match=f"^not a port: {port}$"):
            port_filter([9092, port], [])
    for host in ("broker", "10.0.0.256", "", "10.0.0.1/33", "1 or tcp"):
        with pytest.raises(UsageError, match=r"^not an address or a network: "):
            port_filter([9092], [host])


def test_a_program_too_long_for_the_kernel_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^the filter is too long for the kernel: 5005 instr"):
        program_for([EVERYTHING[0]] * 5000, 500)


def test_instructions_have_eight_bytes() -> None:
    assert len(assembled(program_for(EVERYTHING, 500))) == 8 * 6
    assert assembled([(0x06, 1, 2, 0xFFFFFFFF)])[2:] == b"\1\2\xff\xff\xff\xff"
