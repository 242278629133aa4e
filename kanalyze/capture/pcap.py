"""The pcap file format: a file header, then records of a 16-byte header and a packet.

In: bytes, in any portions. Out: packets as columns. Must not know: where the bytes come from.

The format is that of the Internet-Draft draft-ietf-opsawg-pcap: all numbers in the byte order of
the machine that wrote them, which the magic number tells, together with the unit of time.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from kanalyze.capture.records import (
    MAX_RECORD_BYTES,
    STANDARD_SNAP_BYTES,
    Columns,
    Parsed,
    corrupt,
)
from kanalyze.errors import CaptureError
from kanalyze.gathers import gather, overlapping

__all__ = ["PCAP_MAGICS", "PcapParser"]

PCAP_MAGICS: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
"""First four bytes: byte order, nanoseconds in a unit of the second time field."""

FILE_HEADER_BYTES: Final = 24
RECORD_HEADER_BYTES: Final = 16
_LENGTH_AT: Final = 8
_LINK_TYPE_MASK: Final = 0xFFFF
"""Above the link type stand the length of the frame check sequence and flags."""


class PcapParser:
    """Reads a pcap file. ``name`` is for messages alone."""

    dropped_packets: int | None = None

    def __init__(self, name: str) -> None:
        self._name = name
        self._order = "<"
        self._ns_per_unit = 1
        self._link_type = 0
        self._max_captured_bytes = STANDARD_SNAP_BYTES

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the file header: see :class:`kanalyze.capture.records.CaptureParser`."""
        if end < FILE_HEADER_BYTES:
            return None
        self._order, self._ns_per_unit = PCAP_MAGICS[bytes(buffer[:4])]
        major, _minor, _zone, _sigfigs, snap_bytes, link_type = struct.unpack_from(
            f"{self._order}HHiIII", buffer, 4
        )
        if major != 2:
            raise CaptureError(f"{self._name}: pcap version {major} is not known (2 is)")
        self._link_type = link_type & _LINK_TYPE_MASK
        self._max_captured_bytes = min(max(snap_bytes, STANDARD_SNAP_BYTES), MAX_RECORD_BYTES)
        return Parsed(None, FILE_HEADER_BYTES)

    def parse(self, buffer: memoryview, start: int, end: int) -> Parsed:
        """Read records: see :class:`kanalyze.capture.records.CaptureParser`."""
        starts, position = self._walk(buffer, start, end)
        record_bytes = 0
        if position > end:
            position = starts.pop() - _LENGTH_AT
            record_bytes = RECORD_HEADER_BYTES + self._length(buffer, position)
        if not starts:
            return self._checked(None, position, record_bytes)
        headers = gather(buffer, self._header(), np.array(starts, np.int64) - _LENGTH_AT)
        captured = headers["captured"].astype(np.int64)
        if int(captured.max()) > self._max_captured_bytes:
            good = int(np.argmax(captured > self._max_captured_bytes))
            headers, captured = headers[:good], captured[:good]
            position = starts[good] - _LENGTH_AT
            record_bytes = RECORD_HEADER_BYTES + self._length(buffer, position)
        offset = np.array(starts[: len(captured)], np.int64) + (RECORD_HEADER_BYTES - _LENGTH_AT)
        time_ns = headers["seconds"].astype(np.int64) * 1_000_000_000
        time_ns += headers["fraction"].astype(np.int64) * self._ns_per_unit
        columns = Columns(
            time_ns=time_ns,
            offset=offset,
            captured_bytes=captured,
            wire_bytes=np.maximum(headers["wire"].astype(np.int64), captured),
            link_type=np.full(len(captured), self._link_type, np.int32),
        )
        return self._checked(columns, position, record_bytes)

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
        at = start + _LENGTH_AT
        last = end - (RECORD_HEADER_BYTES - _LENGTH_AT)
        while at <= last:
            add(at)
            at += RECORD_HEADER_BYTES + length(at)
        return places, at - _LENGTH_AT

    def _header(self) -> np.dtype[np.void]:
        unit = f"{self._order}u4"
        return np.dtype([("seconds", unit), ("fraction", unit), ("captured", unit), ("wire", unit)])

    def _length(self, buffer: memoryview, position: int) -> int:
        length: int = struct.unpack_from(f"{self._order}I", buffer, position + _LENGTH_AT)[0]
        return length

    def _checked(self, columns: Columns | None, position: int, record_bytes: int) -> Parsed:
        captured = record_bytes - RECORD_HEADER_BYTES
        if captured > self._max_captured_bytes:
            anomaly = corrupt(
                f"a packet of {captured} bytes, where {self._max_captured_bytes} is the most"
            )
            return Parsed(columns, position, 0, anomaly)
        return Parsed(columns, position, record_bytes)
