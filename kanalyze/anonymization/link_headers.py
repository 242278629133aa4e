"""Anonymizes link layers that have more than addresses: 802.11, what is before it, and logs.

In: a packet and its link type. Out: the bytes of its headers that are needed to read it again.

Only lengths, kinds, flags and sequence numbers stay. Addresses become stand-ins. All else is blank:
how and where a packet was received, and names of interfaces and processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.net.capture_headers import DATA_PAD, prism_bytes, radiotap_flags, value_head

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DOT11", "NETFILTER_LOG", "carrier_header", "dot11_header", "netfilter_log_header"]

DOT11: Final = 105
NETFILTER_LOG: Final = 239
_PRISM, _RADIOTAP, _AVS, _PPI, _PKTAP = 119, 127, 163, 192, 258
_RADIOTAP_BYTES: Final = 8
_HAS_FLAGS: Final = 2
_TYPE_OF_DATA, _TYPE = 0x08, 0x0C
_QOS: Final = 0x80
_QOS_BYTES: Final = 2
_BETWEEN_STATIONS: Final = 0x03
_DOT11_BYTES: Final = 24
_ADDRESSES: Final = (4, 10, 16)
_MAC_BYTES: Final = 6
_LOG_HEADER_BYTES: Final = 4
_VALUE_HEAD_BYTES: Final = 4


def carrier_header(data: bytes, link_type: int) -> tuple[bytes, int] | None:
    """Return the header that is before a packet, anonymized, and the link type of that packet.

    None if the link type has no such header, or if it is not all there.
    """
    if link_type == _RADIOTAP:
        size, following = int.from_bytes(data[2:4], "little"), DOT11
        kept = _radiotap(data[:size]) if size >= _RADIOTAP_BYTES else b""
    elif link_type in (_PRISM, _AVS):
        size, following, kept = prism_bytes(data[:8]), DOT11, data[:8]
    elif link_type == _PPI:
        size, following = int.from_bytes(data[2:4], "little"), int.from_bytes(data[4:8], "little")
        kept = data[:8]
    elif link_type == _PKTAP:
        size, following = int.from_bytes(data[:4], "little"), int.from_bytes(data[8:12], "little")
        kept = data[:12]
    else:
        return None
    if not 0 < len(kept) <= size <= len(data):
        return None
    return kept + bytes(size - len(kept)), following


def _radiotap(header: bytes) -> bytes:
    """Return a radiotap header without fields, but for the flag of padding."""
    flags = (radiotap_flags(header) or 0) & DATA_PAD
    present = (_HAS_FLAGS if flags else 0).to_bytes(4, "little")
    return header[:4] + present + (bytes((flags,)) if flags else b"")


def dot11_header(data: bytes, mac: Callable[[bytes], bytes]) -> bytes:
    """Return the 802.11 header at the beginning of ``data``, without what is after QoS control.

    Of frames that are not data, only the kind and the flags stay. ``mac`` returns the stand-in of
    an address.
    """
    if len(data) < _DOT11_BYTES or data[0] & _TYPE != _TYPE_OF_DATA:
        return data[:2]
    addresses = [mac(data[at : at + _MAC_BYTES]) for at in _ADDRESSES]
    header = data[:4] + b"".join(addresses) + data[_DOT11_BYTES - 2 : _DOT11_BYTES]
    if data[1] & _BETWEEN_STATIONS == _BETWEEN_STATIONS:
        fourth = data[_DOT11_BYTES : _DOT11_BYTES + _MAC_BYTES]
        if len(fourth) < _MAC_BYTES:
            return header
        header += mac(fourth)
    at = len(header)
    return header + data[at : at + _QOS_BYTES] if data[0] & _QOS else header


def netfilter_log_header(data: bytes, end: int) -> bytes:
    """Return kinds and lengths of netfilter's log before the packet in it, which is at ``end``."""
    end = min(end, len(data))
    header = bytearray(end)
    header[:2] = data[:2]
    at = _LOG_HEADER_BYTES
    while at + _VALUE_HEAD_BYTES <= end:
        head = data[at : at + _VALUE_HEAD_BYTES]
        header[at : at + _VALUE_HEAD_BYTES] = head
        size = value_head(head)[1]
        if size < _VALUE_HEAD_BYTES:
            break
        at += (size + 3) & ~3
    return bytes(header[:end])
