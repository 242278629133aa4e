"""The pcap file format: a file header, then records of a header and a packet.

In: bytes, in portions of any size. Out: packets as columns.

The format is that of the Internet-Draft draft-ietf-opsawg-pcap: all numbers are in the byte order
of the machine that wrote them. The magic number gives the byte order and the unit of time. Variants
have longer headers, whose additional fields are not needed (facts from Wireshark's
``wiretap/libpcap.h`` and ``libpcap.c``). The one of Alexey Kuznetsov's patches, which routers still
write, has 8 bytes more in each record. Ixia's ``lcap`` files have the size of all records at the
end of the file header; their unit is microseconds for software captures, nanoseconds for hardware
ones. Before version 2.3, the two lengths of a record were in the opposite order. AIX writes version
2.2, nanoseconds, and the interface type of RFC 1573 in place of a link type.

A pcap file has no mark between its records; each record's header gives the offset of the next one.
To begin in the middle of a file (:func:`find_boundary`), an offset counts as a boundary if
plausible headers follow each other from it on, over more bytes than a record of the usual size has,
or exactly up to the end of the file. That is no proof: a packet may contain a capture whose last
record ends where the packet does.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from kanalyze.capture.file_metadata import CaptureInterface, FileMetadata
from kanalyze.capture.formats.packet_scan import ColumnMaker, PcapRecords
from kanalyze.capture.formats.parser import (
    BEGIN_BYTES,
    MAX_PACKETS,
    MAX_RECORD_BYTES,
    PCAP_MAGICS,
    STANDARD_SNAP_BYTES,
    Parsed,
    begins_capture,
    corrupt,
)
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError

if TYPE_CHECKING:
    from array import array

_LINK_TYPE_MASK: Final = 0xFFFF
"""The bits above the link type are the length of the frame check sequence and flags. Packets may
end with such a sequence: it is after the end that the IP header gives, and is not read."""
_AIX_LINK_TYPES: Final = {6: 1, 9: 6, 15: 10, 24: 0}
"""LINKTYPE_ values by interface type: Ethernet, token ring, FDDI, loopback."""
_AIX_VERSION: Final = (2, 2)
_LENGTHS_AT: Final = (8, 12)
"""Indices in a record's header of the captured length and of the length on the wire."""
_LENGTHS_BEFORE_2_3_AT: Final = (12, 8)
_NS_PER_SECOND: Final = 1_000_000_000


class PcapParser:
    """Reads a pcap file. ``name`` is only for messages and descriptions."""

    dropped_packets: int | None = None

    def __init__(self, name: str, description: FileMetadata | None = None) -> None:
        self._name = name
        self._description = FileMetadata() if description is None else description
        self._maker = ColumnMaker()
        self._records = PcapRecords(False, 16, *_LENGTHS_AT, 1, 0, 0)
        """Replaced when the file's header was read."""
        self._max_captured_bytes = STANDARD_SNAP_BYTES

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the file header: see :class:`kanalyze.capture.formats.parser.CaptureParser`."""
        variant = PCAP_MAGICS[bytes(buffer[:4])]
        if end < variant.file_header_bytes:
            return None
        major, minor, _zone, _sigfigs, snap_bytes, link_type = struct.unpack_from(
            f"{variant.order}HHiIII", buffer, 4
        )
        if major != 2:
            raise CaptureError(f"{self._name}: pcap version {major} is not known (2 is)")
        ns_per_unit = variant.ns_per_unit
        if (major, minor) == _AIX_VERSION and link_type in _AIX_LINK_TYPES:
            link_type = _AIX_LINK_TYPES[link_type]
            ns_per_unit = 1
        link_type &= _LINK_TYPE_MASK
        self._max_captured_bytes = min(max(snap_bytes, STANDARD_SNAP_BYTES), MAX_RECORD_BYTES)
        self._records = PcapRecords(
            variant.order == ">",
            variant.record_header_bytes,
            *(_LENGTHS_BEFORE_2_3_AT if minor < 3 else _LENGTHS_AT),
            ns_per_unit,
            link_type,
            self._max_captured_bytes,
        )
        self._description.add_interface(CaptureInterface(self._name, link_type, snap_bytes))
        return Parsed(None, variant.file_header_bytes)

    def parse(self, buffer: memoryview, start: int, end: int, most: int = MAX_PACKETS) -> Parsed:
        """Read records: see :class:`kanalyze.capture.formats.parser.CaptureParser`."""
        position = self._records.scan(buffer, start, end, self._maker, most)
        batch = self._maker.take(buffer)
        if end - position < self.header_bytes:
            return Parsed(batch, position)
        if begins_capture(bytes(buffer[position : position + BEGIN_BYTES])):
            return Parsed(batch, position, begins_capture=True)
        captured = self._records.captured_bytes(buffer, position)
        if captured > self._max_captured_bytes:
            anomaly = corrupt(
                f"a packet of {captured} bytes, where {self._max_captured_bytes} is the most"
            )
            return Parsed(batch, position, 0, anomaly)
        return Parsed(batch, position, self.header_bytes + captured)

    @property
    def header_bytes(self) -> int:
        """Size of a record's header; valid when the file's header was read."""
        return self._records.header_bytes

    def time_ns(self, buffer: memoryview, start: int, end: int) -> int | None:
        """Return the Unix time in ns of the record at ``start``; None if its header is cut."""
        return self._records.time_ns(buffer, start) if end - start >= self.header_bytes else None

    def likely_records(
        self, buffer: memoryview, start: int, end: int, near_ns: int | None
    ) -> tuple[array[int], array[int]]:
        """Return indices in ``buffer[start:end]`` where records may begin, and their ends.

        The bytes there could be a complete header as capturing programs write it: a fraction below
        a second, a captured length above 0 and not above the length on the wire, and a time that is
        likely for a file whose first packet has the Unix time ``near_ns`` (None: any time). This is
        only a hint: packets may contain such bytes too, and unusual files have other headers.
        """
        near_s = -1 if near_ns is None else near_ns // _NS_PER_SECOND
        return self._records.likely(buffer, start, end, near_s)


CHAIN_BYTES: Final = 1 << 20
"""Bytes over which records have to follow each other: at least four of the largest usual ones."""
_WINDOW_BYTES: Final = 2 * CHAIN_BYTES
"""Searched at once: room for a whole chain from any offset in the first half."""


class Boundary(NamedTuple):
    """The result of a search in a range of bytes."""

    offset: int
    """Index in the buffer; no record seems to begin before it."""
    is_found: bool
    """Whether a record begins there. If not, continue the search there, with more bytes."""


def find_boundary(
    parser: PcapParser,
    buffer: memoryview,
    start: int,
    end: int,
    *,
    is_end: bool,
    near_ns: int | None,
) -> Boundary:
    """Search ``buffer[start:end]`` for the first record.

    Args:
        parser: a parser that has read the file's header.
        buffer: a part of the file.
        start: index where the search begins.
        end: index after the last byte.
        is_end: whether the file ends there too.
        near_ns: Unix time in ns of the file's first packet; None if it is not known.
    """
    if end - start > _WINDOW_BYTES:
        end, is_end = start + _WINDOW_BYTES, False
    begins, ends = parser.likely_records(buffer, start, end, near_ns)
    following = list(zip(begins.tolist(), ends.tolist(), strict=True))
    reach: dict[int, int] = {}
    for begin, record_end in reversed(following):
        reach[begin] = reach.get(record_end, record_end)
    unseen = end - parser.header_bytes + 1
    """The first offset whose header is not complete."""
    for begin, _ in following:
        if reach[begin] - begin >= CHAIN_BYTES or (is_end and reach[begin] == end):
            return Boundary(begin, is_found=True)
        if reach[begin] >= unseen and not is_end:
            return Boundary(begin, is_found=False)
    return Boundary(end if is_end else max(start, unseen), is_found=False)
