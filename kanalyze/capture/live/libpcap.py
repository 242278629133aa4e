"""libpcap, which compiles tcpdump's filter language, through ctypes.

In: a filter expression. Out: its program in classic BPF.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kanalyze.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BpfProgram",
    "Instruction",
    "PacketHeader",
    "compile_expression",
    "has_libpcap",
    "load_libpcap",
    "program_of",
]

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
