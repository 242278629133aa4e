"""What the parsers of the capture formats share, and how captures of each format begin.

In: the bytes of a capture file, in portions of any size. Out: :class:`Parsed`, packets as columns
over these bytes; which format and variant begins at the start of a file, or behind another capture.

The magic numbers of pcap are those of :mod:`.pcap`'s description.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Literal, Protocol

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.anomalies import Anomaly, AnomalyKind

if TYPE_CHECKING:
    from kanalyze.model.packets import PacketBatch


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


MAX_RECORD_BYTES = 256 << 20
"""A record or block with a larger size in its header is corrupt."""
STANDARD_SNAP_BYTES = 262_144
"""The largest packet that tcpdump and Wireshark write, whatever the snap length says."""
MAX_PACKETS = 32_768
"""Most packets of a batch. Each may be a connection of its own, and all results of a batch are in
memory at once."""


class Parsed(NamedTuple):
    """The result of parsing the bytes between ``start`` and ``end``."""

    batch: PacketBatch | None
    """The complete packets, numbered from 1; None without one."""
    position: int
    """Index of the first unused byte: the start of an incomplete record, or ``end``."""
    record_bytes: int = 0
    """Size of the record at ``position``, if known; 0 if its header is incomplete."""
    anomaly: Anomaly | None = None
    """Set if the record at ``position`` is corrupt: nothing after it can be read."""
    is_last: bool = False
    """Whether nothing after these packets is to be read."""
    begins_capture: bool = False
    """Whether the header of another capture is at ``position``, as after ``cat a.pcap b.pcap``."""


class CaptureParser(Protocol):
    """A parser of one capture format; it keeps the values of the file's header."""

    @property
    def dropped_packets(self) -> int | None:
        """Packets that the capturing machine dropped; None if the file does not say it."""

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the file's header from ``buffer[:end]``; None if there are not enough bytes.

        Raises :class:`kanalyze.errors.CaptureError` if the header is of an unknown kind.
        """

    def parse(self, buffer: memoryview, start: int, end: int, most: int = MAX_PACKETS) -> Parsed:
        """Read the records in ``buffer[start:end]``; a record has to begin at ``start``.

        It uses at least one record if one is complete. It may stop before the last complete one
        (after ``most`` packets), so the caller repeats the call until it uses no more bytes.
        """


def corrupt(detail: str) -> Anomaly:
    """Make the anomaly of a record that contradicts itself."""
    return Anomaly(AnomalyKind.CAPTURE_CORRUPT, detail=detail)
