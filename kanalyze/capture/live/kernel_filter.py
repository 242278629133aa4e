"""Filters that the kernel applies to packets before the program gets them.

In: an expression in tcpdump's language, or ports and hosts. Out: a program for the kernel, in
classic BPF. libpcap compiles the language, through ctypes.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kanalyze.capture.live.interfaces import COOKED, ETHERNET, RAW_IP
from kanalyze.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from ipaddress import IPv4Network, IPv6Network

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant: ``struct bpf_insn`` (pcap/bpf.h)."""

_FILES: Final = ("libpcap.so.1", "libpcap.so.0.8", "libpcap.so", "/usr/lib/libpcap.A.dylib")
"""Names of the library: most of Linux, Debian, BSD, macOS."""
_MAX_PACKET_BYTES: Final = 262_144
_ERROR_BYTES: Final = 256
_UNKNOWN_NETMASK: Final = 0xFFFFFFFF


class _BpfInstruction(ctypes.Structure):
    """``struct bpf_insn``."""

    _fields_ = (
        ("code", ctypes.c_ushort),
        ("if_true", ctypes.c_ubyte),
        ("if_false", ctypes.c_ubyte),
        ("constant", ctypes.c_uint32),
    )


class BpfProgram(ctypes.Structure):
    """``struct bpf_program``."""

    _fields_ = (
        ("length", ctypes.c_uint),
        ("instructions", ctypes.POINTER(_BpfInstruction)),
    )


class PacketHeader(ctypes.Structure):
    """``struct pcap_pkthdr``; a ``struct timeval`` is as long as two of C's ``long``."""

    _fields_ = (
        ("seconds", ctypes.c_long),
        ("microseconds", ctypes.c_long),
        ("captured_bytes", ctypes.c_uint32),
        ("wire_bytes", ctypes.c_uint32),
    )


def has_libpcap() -> bool:
    """Return true if libpcap is installed."""
    try:
        load_libpcap()
    except CaptureError:
        return False
    return True


def compile_expression(text: str, dlt: int, interface: str | None = None) -> list[Instruction]:
    """Compile an expression for packets of the link type that libpcap calls ``dlt``.

    ``interface`` is the source of the packets, if known: with the right to capture there, ``vlan``
    also matches tags that the kernel removed from packets.

    Raises :class:`UsageError` for a wrong expression, :class:`CaptureError` without libpcap.
    """
    if "\0" in text:
        raise UsageError(f"filter {text!a}: contains a null byte")
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"filter {text!a}: is not UTF-8") from error
    pcap, program = load_libpcap(), BpfProgram()
    handle = _open(pcap, dlt, interface)
    try:
        if pcap.pcap_compile(handle, ctypes.byref(program), encoded, 1, _UNKNOWN_NETMASK):
            reason = pcap.pcap_geterr(handle).decode(errors="backslashreplace")
            raise UsageError(f"filter {text!a}: {reason}")
        instructions = [
            (one.code, one.if_true, one.if_false, one.constant)
            for one in program.instructions[: program.length]
        ]
        pcap.pcap_freecode(ctypes.byref(program))
    finally:
        pcap.pcap_close(handle)
    return instructions


def program_of(instructions: Sequence[Instruction]) -> BpfProgram:
    """Return a program in libpcap's structure, which owns its memory."""
    array = (_BpfInstruction * len(instructions))()
    for index, one in enumerate(instructions):
        array[index] = _BpfInstruction(*one)
    return BpfProgram(len(array), array)


@cache
def load_libpcap() -> ctypes.CDLL:
    """Load libpcap; raises :class:`CaptureError` if it is not installed."""
    for name in _FILES:
        try:
            pcap = ctypes.CDLL(name)
        except OSError:
            continue
        return _with_types(pcap)
    raise CaptureError("a filter needs libpcap, which is not installed")


def _with_types(pcap: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the functions' types: ctypes would pass pointers as 32-bit numbers."""
    handle, text, program = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(BpfProgram)
    number = ctypes.c_int
    declared: dict[str, tuple[Any, list[Any]]] = {
        "pcap_open_dead": (handle, [number, number]),
        "pcap_open_live": (handle, [text, number, number, number, text]),
        "pcap_datalink": (number, [handle]),
        "pcap_compile": (number, [handle, program, text, number, ctypes.c_uint32]),
        "pcap_geterr": (text, [handle]),
        "pcap_freecode": (None, [program]),
        "pcap_close": (None, [handle]),
        "pcap_offline_filter": (number, [ctypes.c_void_p] * 3),
    }
    for name, (result, arguments) in declared.items():
        function = getattr(pcap, name)
        function.restype, function.argtypes = result, arguments
    return pcap


def _open(pcap: ctypes.CDLL, dlt: int, interface: str | None) -> int:
    """Return a handle for the compiler: of the live interface if possible, else a dead one."""
    if interface is not None:
        message = ctypes.create_string_buffer(_ERROR_BYTES)
        live: int | None = pcap.pcap_open_live(
            os.fsencode(interface), _MAX_PACKET_BYTES, 0, 1, message
        )
        if live and pcap.pcap_datalink(live) == dlt:
            return live
        if live:
            pcap.pcap_close(live)
    handle: int = pcap.pcap_open_dead(dlt, _MAX_PACKET_BYTES)
    return handle


_LOAD_BYTE: Final = 0x30
_LOAD_WORD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_LOAD_CLASSES: Final = (0x00, 0x01)
_ABSOLUTE, _INDIRECT, _HEADER_LENGTH = 0x20, 0x40, 0xA0
_CLASS_MASK: Final = 0x07
_MODE_MASK: Final = 0xE0
_METADATA: Final = 0xFFFFF000
"""Loads from this offset on read the kernel's metadata, not the packet (SKF_AD_OFF)."""
_PROTOCOL: Final = _METADATA + 0
_PACKET_TYPE: Final = _METADATA + 4
_HARDWARE: Final = _METADATA + 28
_OUTGOING: Final = 4
_LOOPBACK: Final = 772

_DROP_COPIES: Final[tuple[Instruction, ...]] = (
    (_LOAD_BYTE, 0, 0, _PACKET_TYPE),
    (_JUMP_IF_EQUAL, 0, 3, _OUTGOING),
    (_LOAD_WORD, 0, 0, _HARDWARE),
    (_JUMP_IF_EQUAL, 0, 1, _LOOPBACK),
    (_RETURN, 0, 0, 0),
)
"""Drops outgoing packets on loopback, which are captured again as incoming ones."""
EVERYTHING: Final[tuple[Instruction, ...]] = ((_RETURN, 0, 0, 0xFFFFFFFF),)
NOTHING: Final[tuple[Instruction, ...]] = ((_RETURN, 0, 0, 0),)

_COOKED_V1: Final = 113
_COOKED_V1_HEADER_BYTES: Final = 16
_COOKED_V1_FIELDS: Final = {0: _PACKET_TYPE, 14: _PROTOCOL}
_DLT_RAW: Final = 12
_DLT: Final = {COOKED: _COOKED_V1, RAW_IP: _DLT_RAW}
"""libpcap's DLT_ values, if they differ from the LINKTYPE_ value. Linux cooked is compiled as its
first version, because the kernel's metadata has the few fields of that header."""
_MAX_INSTRUCTIONS: Final = 4096
"""BPF_MAXINSNS: the kernel refuses longer programs."""


def port_filter(ports: Iterable[int], hosts: Iterable[str], link_type: int = ETHERNET) -> str:
    """Return the expression that selects TCP by ``ports`` and ``hosts``; all TCP without any.

    Hosts are addresses or networks (``10.0.0.0/8``), IPv4 or IPv6. Packets match with one VLAN tag,
    with two, and without. Of a fragmented datagram only the first fragment matches, which has the
    ports: the kernel does not reassemble fragments.

    Raises :class:`UsageError` for a wrong port or host.
    """
    ports = list(ports)
    wrong = next((port for port in ports if not 0 < port < 1 << 16), None)
    if wrong is not None:
        raise UsageError(f"not a port: {wrong}")
    conditions = ["tcp"]
    if ports:
        conditions.append(_any_of(f"port {port}" for port in ports))
    networks = [_network_condition(network) for network in parse_networks(hosts)]
    if networks:
        conditions.append(_any_of(networks))
    expression = " and ".join(conditions)
    if link_type != ETHERNET:
        return expression
    # `vlan` applies all that follows it to the bytes after a tag: the last part is after two tags.
    return f"({expression}) or (vlan and (({expression}) or (vlan and {expression})))"


def parse_networks(hosts: Iterable[str]) -> list[IPv4Network | IPv6Network]:
    """Return addresses and networks as networks; raises :class:`UsageError` for a wrong one."""
    return [_network(host) for host in hosts]


def compile_filter(text: str, link_type: int, interface: str | None = None) -> list[Instruction]:
    """Compile an expression for the kernel, for packets of ``link_type`` from ``interface``.

    Raises as :func:`~kanalyze.capture.live.kernel_filter.compile_expression` does.
    """
    instructions = compile_expression(text, _DLT.get(link_type, link_type), interface)
    if link_type == COOKED:
        instructions = [_without_header(one, text) for one in instructions]
    return instructions


def program_for(instructions: Sequence[Instruction], snap_bytes: int) -> list[Instruction]:
    """Return the program that keeps ``snap_bytes`` of each packet that ``instructions`` select.

    Packets on loopback are selected once. Raises :class:`UsageError` if the program is too long.
    """
    program = [*_DROP_COPIES, *(_keeping(one, snap_bytes) for one in instructions)]
    if len(program) > _MAX_INSTRUCTIONS:
        raise UsageError(f"the filter is too long for the kernel: {len(program)} instructions")
    return program


def assembled(program: Sequence[Instruction]) -> bytes:
    """Return a program as the bytes that the kernel reads."""
    return b"".join(struct.pack("=HBBI", *one) for one in program)


def _without_header(instruction: Instruction, text: str) -> Instruction:
    """Change an instruction for packets without the cooked header, as libpcap does."""
    code, if_true, if_false, at = instruction
    loads = code & _CLASS_MASK in _LOAD_CLASSES
    if not loads or code & _MODE_MASK not in (_ABSOLUTE, _INDIRECT, _HEADER_LENGTH):
        return instruction
    if at >= _METADATA:
        return instruction
    if at >= _COOKED_V1_HEADER_BYTES:
        return code, if_true, if_false, at - _COOKED_V1_HEADER_BYTES
    if at not in _COOKED_V1_FIELDS:
        raise UsageError(f"filter {text!a}: reads a header field that these packets do not have")
    return code, if_true, if_false, _COOKED_V1_FIELDS[at]


def _keeping(instruction: Instruction, snap_bytes: int) -> Instruction:
    code, if_true, if_false, constant = instruction
    return (code, if_true, if_false, snap_bytes) if code == _RETURN and constant else instruction


def _network(host: str) -> IPv4Network | IPv6Network:
    try:
        return ipaddress.ip_network(host, strict=False)
    except ValueError as error:
        raise UsageError(f"not an address or a network: {host!a}") from error


def _network_condition(network: IPv4Network | IPv6Network) -> str:
    if network.prefixlen == network.max_prefixlen:
        return f"host {network.network_address}"
    return f"net {network}"


def _any_of(conditions: Iterable[str]) -> str:
    return f"({' or '.join(conditions)})"
