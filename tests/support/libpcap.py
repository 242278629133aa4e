"""libpcap's own compiler and interpreter of filters, as in ``tcpdump -r FILE EXPRESSION``."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from scapy.libs import winpcapy

if TYPE_CHECKING:
    from kanalyze.model.packets import PacketBatch

SNAP_BYTES = 262_144
# scapy binds this function only on Windows.
matches = winpcapy._lib.pcap_offline_filter
matches.restype = ctypes.c_int
matches.argtypes = [
    ctypes.POINTER(winpcapy.bpf_program),
    ctypes.POINTER(winpcapy.pcap_pkthdr),
    ctypes.c_char_p,
]


class Refused(Exception):
    """libpcap's message about an expression that it does not compile."""


def taken(expression: str, batch: PacketBatch) -> list[bool]:
    """Whether each packet of a batch matches; all are of one link type."""
    (link_type,) = set(batch.link_type.tolist()) or {1}
    # libpcap's number of raw IP is not the one in files.
    handle = winpcapy.pcap_open_dead({101: 12}.get(link_type, link_type), SNAP_BYTES)
    program = winpcapy.bpf_program()
    try:
        if winpcapy.pcap_compile(handle, ctypes.byref(program), expression.encode(), 1, -1):
            raise Refused(winpcapy.pcap_geterr(handle).decode())
        found = [_matches(program, batch, row) for row in range(len(batch))]
        winpcapy.pcap_freecode(ctypes.byref(program))
    finally:
        winpcapy.pcap_close(handle)
    return found


def _matches(program: winpcapy.bpf_program, batch: PacketBatch, row: int) -> bool:
    start, size = int(batch.offset[row]), int(batch.captured_bytes[row])
    header = winpcapy.pcap_pkthdr()
    header.caplen, header.len = size, int(batch.wire_bytes[row])
    data = bytes(batch.buffer[start : start + size])
    return bool(matches(ctypes.byref(program), ctypes.byref(header), data))
