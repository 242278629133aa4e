"""The pcap file format: a file header, then records of a header and a packet.

In: bytes, in any portions. Out: packets as columns. Must not know: where the bytes come from.

The format is that of the Internet-Draft draft-ietf-opsawg-pcap: all numbers in the byte order of
the machine that wrote them, which the magic number tells, together with the unit of time. Variants
have longer headers, whose additions say nothing that is needed (facts from Wireshark's
``wiretap/libpcap.h`` and ``libpcap.c``): the one of Alexey Kuznetsov's patches, which routers still
write, has 8 bytes more in each record; Ixia's ``lcap`` files have the size of all records at the
end of the file header, a count of microseconds where software and of nanoseconds where hardware
captured. Before version 2.3 the two lengths of a record stood the other way round. AIX writes
version 2.2, nanoseconds, and instead of a link type the kind of interface of RFC 1573.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from kanalyze.capture.description import CaptureInterface, Description
from kanalyze.capture.records import (
    MAX_RECORD_BYTES,
    STANDARD_SNAP_BYTES,
    Columns,
    Parsed,
    corrupt,
)
from kanalyze.errors import CaptureError
from kanalyze.gathers import gather, overlapping

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PCAP_MAGICS", "PcapParser"]


class _Variant(NamedTuple):
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
    magic.to_bytes(4, byteorder): _Variant(order, *layout)
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

_LINK_TYPE_MASK: Final = 0xFFFF
"""Above the link type stand the length of the frame check sequence and flags. Packets may end with
such a sequence: it lies behind the length that the IP header tells, and nobody reads on to it."""
_AIX_LINK_TYPES: Final = {6: 1, 9: 6, 15: 10, 24: 0}
"""By kind of interface: Ethernet, token ring, FDDI, loopback."""
_AIX_VERSION: Final = (2, 2)
_FIELDS: Final = ("seconds", "fraction", "captured", "wire")
_FIELDS_BEFORE_2_3: Final = ("seconds", "fraction", "wire", "captured")
_NS_PER_SECOND: Final = 1_000_000_000
_LIKELY_BEFORE_S: Final = 86_400
_LIKELY_AFTER_S: Final = 366 * 86_400
"""How far from a file's first packet the others are expected, where that is a hint."""


class PcapParser:
    """Reads a pcap file. ``name`` is for messages and descriptions alone."""

    dropped_packets: int | None = None

    def __init__(self, name: str, description: Description | None = None) -> None:
        self._name = name
        self._description = Description() if description is None else description
        self._order = "<"
        self._ns_per_unit = 1
        self._header_bytes = 16
        self._fields = _FIELDS
        self._link_type = 0
        self._max_captured_bytes = STANDARD_SNAP_BYTES

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the file header: see :class:`kanalyze.capture.records.CaptureParser`."""
        variant = PCAP_MAGICS[bytes(buffer[:4])]
        if end < variant.file_header_bytes:
            return None
        self._order, self._ns_per_unit = variant.order, variant.ns_per_unit
        self._header_bytes = variant.record_header_bytes
        major, minor, _zone, _sigfigs, snap_bytes, link_type = struct.unpack_from(
            f"{self._order}HHiIII", buffer, 4
        )
        if major != 2:
            raise CaptureError(f"{self._name}: pcap version {major} is not known (2 is)")
        self._fields = _FIELDS_BEFORE_2_3 if minor < 3 else _FIELDS
        if (major, minor) == _AIX_VERSION and link_type in _AIX_LINK_TYPES:
            link_type = _AIX_LINK_TYPES[link_type]
            self._ns_per_unit = 1
        self._link_type = link_type & _LINK_TYPE_MASK
        self._max_captured_bytes = min(max(snap_bytes, STANDARD_SNAP_BYTES), MAX_RECORD_BYTES)
        self._description.add_interface(CaptureInterface(self._name, self._link_type, snap_bytes))
        return Parsed(None, variant.file_header_bytes)

    def parse(self, buffer: memoryview, start: int, end: int) -> Parsed:
        """Read records: see :class:`kanalyze.capture.records.CaptureParser`."""
        starts, position = self._walk(buffer, start, end)
        length_at = self._length_at
        record_bytes = 0
        if position > end:
            position = starts.pop() - length_at
            record_bytes = self._header_bytes + self._length(buffer, position)
        if not starts:
            return self._checked(None, position, record_bytes)
        at = np.array(starts, np.int64) - length_at
        headers = gather(buffer, self._header(), at)
        captured = headers["captured"].astype(np.int64)
        if int(captured.max()) > self._max_captured_bytes:
            good = int(np.argmax(captured > self._max_captured_bytes))
            position = int(at[good])
            headers, captured, at = headers[:good], captured[:good], at[:good]
            record_bytes = self._header_bytes + self._length(buffer, position)
        columns = Columns(
            time_ns=self._times_ns(headers),
            offset=at + self._header_bytes,
            captured_bytes=captured,
            wire_bytes=np.maximum(headers["wire"].astype(np.int64), captured),
            link_type=np.full(len(captured), self._link_type, np.int32),
        )
        return self._checked(columns, position, record_bytes)

    @property
    def header_bytes(self) -> int:
        """Size of a record's header; known when the file's header was read."""
        return self._header_bytes

    def time_ns(self, buffer: memoryview, start: int, end: int) -> int | None:
        """Return the Unix time in ns of the record at ``start``; None where its header is cut."""
        if end - start < self._header_bytes:
            return None
        headers = gather(buffer, self._header(), np.array([start], np.int64))
        return int(self._times_ns(headers)[0])

    def likely_records(
        self, buffer: memoryview, start: int, end: int, near_ns: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where in ``buffer[start:end]`` records may begin, and where these would end.

        What stands there could be a whole header as capturing programs write it: a fraction of a
        second, a packet that was captured at all, and not more of it than there was, at a time
        that is likely for a file whose first packet has the Unix time ``near_ns`` (None: any).
        A hint: packets may hold such bytes too, and odd files hold other headers.
        """
        count = end - self._header_bytes + 1 - start
        if count <= 0:
            nowhere = np.empty(0, np.int64)
            return nowhere, nowhere
        unit = np.dtype(f"{self._order}u4")
        first = start + self._length_at
        lengths = overlapping(buffer[first : first + count - 1 + unit.itemsize], unit)
        # 0 less 1 is the largest number there is: one comparison for both bounds.
        places = start + np.flatnonzero(lengths - np.uint32(1) < STANDARD_SNAP_BYTES)
        headers = gather(buffer, self._header(), places)
        captured = headers["captured"].astype(np.int64)
        likely = (captured <= headers["wire"]) & (headers["wire"] <= MAX_RECORD_BYTES)
        likely &= headers["fraction"] < _NS_PER_SECOND // self._ns_per_unit
        if near_ns is not None:
            after_s = headers["seconds"].astype(np.int64) - near_ns // _NS_PER_SECOND
            likely &= (after_s >= -_LIKELY_BEFORE_S) & (after_s <= _LIKELY_AFTER_S)
        places = places[likely]
        return places, places + self._header_bytes + captured[likely]

    def _walk(self, buffer: memoryview, start: int, end: int) -> tuple[list[int], int]:
        """Find the records: places of their length fields, and where the last one ends.

        The last one may end after ``end``. Lengths are not judged here: each step is at least
        a record header, so that the loop ends, and wrong ones are found afterwards for all
        records at once.
        """
        places: list[int] = []
        add = places.append
        # One bound method call a packet: an item of the overlapping view costs less than half
        # of struct.unpack_from or int.from_bytes.
        length = overlapping(buffer, f"{self._order}u4").item
        length_at, header_bytes = self._length_at, self._header_bytes
        at = start + length_at
        last = end - (header_bytes - length_at)
        while at <= last:
            add(at)
            at += header_bytes + length(at)
        return places, at - length_at

    def _times_ns(self, headers: NDArray[np.void]) -> NDArray[np.int64]:
        time_ns = headers["seconds"].astype(np.int64) * _NS_PER_SECOND
        time_ns += headers["fraction"].astype(np.int64) * self._ns_per_unit
        return time_ns

    @property
    def _length_at(self) -> int:
        """Where in a record's header the length of what was captured stands."""
        return 4 * self._fields.index("captured")

    def _header(self) -> np.dtype[np.void]:
        unit = f"{self._order}u4"
        return np.dtype([(name, unit) for name in self._fields])

    def _length(self, buffer: memoryview, position: int) -> int:
        place = position + self._length_at
        length: int = struct.unpack_from(f"{self._order}I", buffer, place)[0]
        return length

    def _checked(self, columns: Columns | None, position: int, record_bytes: int) -> Parsed:
        captured = record_bytes - self._header_bytes
        if captured > self._max_captured_bytes:
            anomaly = corrupt(
                f"a packet of {captured} bytes, where {self._max_captured_bytes} is the most"
            )
            return Parsed(columns, position, 0, anomaly)
        return Parsed(columns, position, record_bytes)
