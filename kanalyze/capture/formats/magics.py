"""How pcap and pcapng files begin: at the start of a file, or behind another capture.

In: bytes. Out: which format and variant begins there.

The magic numbers of pcap are those of :mod:`.pcap`'s description.
"""

from __future__ import annotations

import struct
from typing import Final, Literal

from kanalyze.common.named_tuples import NamedTuple

__all__ = [
    "BEGIN_BYTES",
    "PCAPNG_BYTE_ORDERS",
    "PCAPNG_MAGIC",
    "PCAP_MAGICS",
    "PcapVariant",
    "begins_capture",
    "is_capture_magic",
]


class PcapVariant(NamedTuple):
    """A layout of pcap files."""

    order: str
    """Byte order, as :mod:`struct` writes it."""
    ns_per_unit: int
    """Nanoseconds in a unit of the second time field."""
    file_header_bytes: int = 24
    record_header_bytes: int = 16


_BYTE_ORDERS: Final[tuple[tuple[Literal["big", "little"], str], ...]] = (
    ("big", ">"),
    ("little", "<"),
)
PCAP_MAGICS: Final = {
    magic.to_bytes(4, byteorder): PcapVariant(order, *layout)
    for magic, layout in {
        0xA1B2C3D4: (1000,),
        0xA1B23C4D: (1,),
        0xA1B2CD34: (1000, 24, 24),
        0x1C0001AB: (1000, 28),
        0x1C0001AC: (1, 28),
    }.items()
    for byteorder, order in _BYTE_ORDERS
}
"""The variants, by the first four bytes of the file."""
PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
PCAPNG_BYTE_ORDERS: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
"""Byte orders by bytes 8 to 11 of a section."""

BEGIN_BYTES: Final = 16
"""Bytes that :func:`begins_capture` needs: as many as the header of a record has."""
_MAJOR: Final = 2
_MINORS: Final = range(5)


def is_capture_magic(begin: bytes) -> bool:
    """Return true if a file whose first four bytes these are is a capture."""
    return begin in PCAP_MAGICS or begin == PCAPNG_MAGIC


def begins_capture(begin: bytes) -> bool:
    """Return true if another capture begins with these bytes, where a record or block was expected.

    As a record, such a header would have a length on the wire (the field ``sigfigs``) of 0, but
    bytes that were captured; or none, in the year 1984 or after 2054.
    """
    magic = begin[:4]
    if magic == PCAPNG_MAGIC:
        return begin[8:12] in PCAPNG_BYTE_ORDERS
    variant = PCAP_MAGICS.get(magic)
    if variant is None or len(begin) < BEGIN_BYTES:
        return False
    major, minor, _zone, figures = struct.unpack_from(f"{variant.order}HHiI", begin, 4)
    return major == _MAJOR and minor in _MINORS and figures == 0
