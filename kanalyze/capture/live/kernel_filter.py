"""Filters that the kernel applies to packets before it hands them out.

In: an expression in tcpdump's language, or ports and hosts. Out: a program for the kernel. Must
not know: sockets.

libpcap compiles the language; scapy has the bindings to it. Of scapy, its bindings alone are
loaded (a twentieth of a second): its own ``compile_filter`` comes with all of scapy (half a
second), cuts packets at 65,535 bytes, and knows nothing of tags that the kernel took out of a
packet.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import struct
from typing import TYPE_CHECKING, Any, Final

from kanalyze.capture.live.interfaces import COOKED, ETHERNET, RAW_IP
from kanalyze.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Instruction",
    "assembled",
    "compile_filter",
    "port_filter",
    "program_for",
    "why_not_compiled",
]

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant: ``struct sock_filter`` (linux/filter.h)."""

_LOAD_BYTE: Final = 0x30
_LOAD_WORD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_LOAD_CLASSES: Final = (0x00, 0x01)
_ABSOLUTE, _INDIRECT, _HEADER_LENGTH = 0x20, 0x40, 0xA0
_CLASS_MASK: Final = 0x07
_MODE_MASK: Final = 0xE0
_BESIDE: Final = 0xFFFFF000
"""Loads from here on are not of the packet but of what the kernel says of it (SKF_AD_OFF)."""
_PROTOCOL: Final = _BESIDE + 0
_PACKET_TYPE: Final = _BESIDE + 4
_HARDWARE: Final = _BESIDE + 28
_OUTGOING: Final = 4
_LOOPBACK: Final = 772

_DROP_COPIES: Final[tuple[Instruction, ...]] = (
    (_LOAD_BYTE, 0, 0, _PACKET_TYPE),
    (_JUMP_IF_EQUAL, 0, 3, _OUTGOING),
    (_LOAD_WORD, 0, 0, _HARDWARE),
    (_JUMP_IF_EQUAL, 0, 1, _LOOPBACK),
    (_RETURN, 0, 0, 0),
)
"""What goes out on loopback comes in on it too: it is taken once, when it comes in."""
EVERYTHING: Final[tuple[Instruction, ...]] = ((_RETURN, 0, 0, 0xFFFFFFFF),)
NOTHING: Final[tuple[Instruction, ...]] = ((_RETURN, 0, 0, 0),)

_COOKED_V1: Final = 113
_COOKED_V1_HEADER_BYTES: Final = 16
_COOKED_V1_FIELDS: Final = {0: _PACKET_TYPE, 14: _PROTOCOL}
_DLT_RAW: Final = 12
_DLT: Final = {COOKED: _COOKED_V1, RAW_IP: _DLT_RAW}
"""What libpcap calls a link type while capturing, where that is not the LINKTYPE_ value. Linux
cooked is compiled as its first version: its few fields are told beside a packet too."""
_MAX_INSTRUCTIONS: Final = 4096
"""BPF_MAXINSNS: the kernel takes no longer program."""
_MAX_PACKET_BYTES: Final = 262_144
"""For libpcap; what is kept of a packet is decided afterwards."""
_ERROR_BYTES: Final = 256
_UNKNOWN_NETMASK: Final = -1


def why_not_compiled() -> str | None:
    """Return why filters cannot be compiled here, for people; None where they can."""
    try:
        _bindings()
    except CaptureError as error:
        return str(error)
    return None


def port_filter(ports: Iterable[int], hosts: Iterable[str], link_type: int = ETHERNET) -> str:
    """Return the expression for TCP of any of ``ports`` and any of ``hosts`` (none: of all).

    Hosts are addresses or networks (``10.0.0.0/8``), IPv4 or IPv6. Packets with VLAN tags match as
    those without, and so do those with two. Of a datagram that came in fragments only the first
    matches, which has the ports in it: the kernel does not put fragments together.

    Raises :class:`UsageError` for what is no port or no address.
    """
    ports = list(ports)
    wrong = next((port for port in ports if not 0 < port < 1 << 16), None)
    if wrong is not None:
        raise UsageError(f"not a port: {wrong}")
    conditions = ["tcp"]
    if ports:
        conditions.append(_any_of(f"port {port}" for port in ports))
    networks = [_host_condition(host) for host in hosts]
    if networks:
        conditions.append(_any_of(networks))
    expression = " and ".join(conditions)
    if link_type != ETHERNET:
        return expression
    # `vlan` moves all that follows it behind a tag: the last part is behind two.
    return f"({expression}) or (vlan and (({expression}) or (vlan and {expression})))"


def compile_filter(text: str, link_type: int, interface: str | None = None) -> list[Instruction]:
    """Compile an expression in tcpdump's language for packets of ``link_type``.

    ``interface`` is where they will come from: with the right to capture on it, ``vlan`` finds
    tags that the kernel took out of the packets too.

    Raises :class:`UsageError` when the expression is wrong, :class:`CaptureError` when there is
    nothing to compile it with.
    """
    if "\0" in text:
        raise UsageError(f"filter {text!a}: holds a null byte")
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"filter {text!a}: is not UTF-8") from error
    pcap = _bindings()
    dlt = _DLT.get(link_type, link_type)
    handle = _handle(pcap, dlt, interface)
    try:
        program = pcap.bpf_program()
        if pcap.pcap_compile(handle, ctypes.byref(program), encoded, 1, _UNKNOWN_NETMASK):
            reason = pcap.pcap_geterr(handle).decode(errors="backslashreplace")
            raise UsageError(f"filter {text!a}: {reason}")
        instructions = [
            (one.code, one.jt, one.jf, one.k & 0xFFFFFFFF)
            for one in program.bf_insns[: program.bf_len]
        ]
        pcap.pcap_freecode(ctypes.byref(program))
    finally:
        pcap.pcap_close(handle)
    if link_type == COOKED:
        instructions = [_without_header(one, text) for one in instructions]
    return instructions


def program_for(instructions: Sequence[Instruction], snap_bytes: int) -> list[Instruction]:
    """Return the program that takes each packet that ``instructions`` take, once.

    Of a packet ``snap_bytes`` are kept. Raises :class:`UsageError` where it gets too long.
    """
    program = [*_DROP_COPIES, *(_keeping(one, snap_bytes) for one in instructions)]
    if len(program) > _MAX_INSTRUCTIONS:
        raise UsageError(f"the filter is too long for the kernel: {len(program)} instructions")
    return program


def assembled(program: Sequence[Instruction]) -> bytes:
    """Return a program as the kernel takes it."""
    return b"".join(struct.pack("=HBBI", *one) for one in program)


def _bindings() -> ModuleType:
    """Return scapy's bindings of libpcap; raises :class:`CaptureError` where there are none."""
    try:
        from scapy.libs import winpcapy
    except ImportError as error:
        raise CaptureError(
            "a filter in the kernel needs scapy: pip install 'kanalyze[live]'"
        ) from error
    except OSError as error:
        raise CaptureError("a filter in the kernel needs libpcap, which is not found") from error
    return winpcapy


def _handle(pcap: ModuleType, dlt: int, interface: str | None) -> Any:
    """Return what libpcap compiles with: best one that could capture, which knows the kernel."""
    if interface is not None:
        message = ctypes.create_string_buffer(_ERROR_BYTES)
        live = pcap.pcap_open_live(os.fsencode(interface), _MAX_PACKET_BYTES, 0, 1, message)
        if live and pcap.pcap_datalink(live) == dlt:
            return live
        if live:
            pcap.pcap_close(live)
    return pcap.pcap_open_dead(dlt, _MAX_PACKET_BYTES)


def _without_header(one: Instruction, text: str) -> Instruction:
    """Let an instruction read where there is no cooked header, as libpcap does."""
    code, if_true, if_false, at = one
    loads = code & _CLASS_MASK in _LOAD_CLASSES
    if not loads or code & _MODE_MASK not in (_ABSOLUTE, _INDIRECT, _HEADER_LENGTH):
        return one
    if at >= _BESIDE:
        return one
    if at >= _COOKED_V1_HEADER_BYTES:
        return code, if_true, if_false, at - _COOKED_V1_HEADER_BYTES
    if at not in _COOKED_V1_FIELDS:
        raise UsageError(f"filter {text!a}: reads a part of the header that this kind has not")
    return code, if_true, if_false, _COOKED_V1_FIELDS[at]


def _keeping(one: Instruction, snap_bytes: int) -> Instruction:
    code, if_true, if_false, constant = one
    return (code, if_true, if_false, snap_bytes) if code == _RETURN and constant else one


def _host_condition(host: str) -> str:
    try:
        network = ipaddress.ip_network(host, strict=False)
    except ValueError as error:
        raise UsageError(f"not an address or a network: {host!a}") from error
    if network.prefixlen == network.max_prefixlen:
        return f"host {network.network_address}"
    return f"net {network}"


def _any_of(conditions: Iterable[str]) -> str:
    return f"({' or '.join(conditions)})"
