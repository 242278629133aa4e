"""The pcapng file format: sections of blocks, packets among them.

In: bytes, in portions of any size. Out: packets as columns.

The format is that of the Internet-Draft draft-ietf-opsawg-pcapng. Blocks with packets are read by
:mod:`kanalyze.capture.formats.packet_scan`; all others (a handful in a file) are read here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from kanalyze.capture.file_metadata import INTERFACE, FileMetadata, SectionMetadata
from kanalyze.capture.formats.packet_scan import ColumnMaker, PcapngBlocks, Stop
from kanalyze.capture.formats.parser import (
    BEGIN_BYTES,
    MAX_PACKETS,
    MAX_RECORD_BYTES,
    PCAPNG_BYTE_ORDERS,
    Parsed,
    begins_capture,
    corrupt,
)
from kanalyze.errors import CaptureError

if TYPE_CHECKING:
    from kanalyze.model.anomalies import Anomaly

_MIN_BLOCK_BYTES: Final = 12
_MIN_SECTION_BYTES: Final = 28


class PcapngParser:
    """Reads a pcapng file. ``name`` is only for messages and descriptions."""

    def __init__(self, name: str, description: FileMetadata | None = None) -> None:
        self._name = name
        self._metadata = SectionMetadata(
            name, FileMetadata() if description is None else description
        )
        self._maker = ColumnMaker()
        self._blocks = PcapngBlocks(self._metadata)

    @property
    def dropped_packets(self) -> int | None:
        """Dropped packets of all interfaces so far; None if the file does not say it."""
        return self._metadata.dropped_packets

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the first section header: see :class:`.parser.CaptureParser`."""
        if end < _MIN_SECTION_BYTES:
            return None
        parsed = self._section(buffer, 0, end)
        if parsed.anomaly is not None:
            raise CaptureError(f"{self._name}: {parsed.anomaly.detail}")
        return None if parsed.record_bytes else parsed

    def parse(self, buffer: memoryview, start: int, end: int, most: int = MAX_PACKETS) -> Parsed:
        """Read blocks: see :class:`.parser.CaptureParser`.

        Several sections may be read in one call, because a batch for each small section would cost
        more than its packets.
        """
        parsed = Parsed(None, start)
        while not parsed.record_bytes and parsed.anomaly is None:
            at = self._blocks.scan(buffer, parsed.position, end, self._maker, most)
            if self._blocks.stop == Stop.SECTION:
                parsed = self._section(buffer, at, end)
            elif self._blocks.stop == Stop.BLOCK:
                parsed = self._block(buffer, at)
            elif begins_capture(bytes(buffer[at : min(at + BEGIN_BYTES, end)])):
                parsed = Parsed(None, at, begins_capture=True)
                break
            else:
                parsed = Parsed(None, at, *self._next_block())
                break
        return parsed._replace(batch=self._maker.take(buffer))

    def _next_block(self) -> tuple[int, Anomaly | None]:
        """Return the size of the next block, if known, and what is wrong with it."""
        size = self._blocks.size
        match self._blocks.stop:
            case Stop.WRONG:
                return 0, corrupt("a block that contradicts itself")
            case Stop.SHORT if not _MIN_BLOCK_BYTES <= size <= MAX_RECORD_BYTES:
                return 0, corrupt(f"a block of {size or 1} bytes")
            case Stop.SHORT:
                return size, None
        return 0, None

    def _section(self, buffer: memoryview, start: int, end: int) -> Parsed:
        """Begin a section: it has its own byte order, and its interfaces follow."""
        if end - start < _MIN_SECTION_BYTES:
            return Parsed(None, start, _MIN_SECTION_BYTES)
        order = PCAPNG_BYTE_ORDERS.get(bytes(buffer[start + 8 : start + 12]))
        if order is None:
            return Parsed(None, start, 0, corrupt("a section with an unknown byte order"))
        size, _magic, major = struct.unpack_from(f"{order}IIH", buffer, start + 4)
        if not _MIN_SECTION_BYTES <= size <= MAX_RECORD_BYTES:
            return Parsed(None, start, 0, corrupt(f"a section header of {size} bytes"))
        if major != 1:
            return Parsed(None, start, 0, corrupt(f"pcapng version {major} is not known (1 is)"))
        if start + size > end:
            return Parsed(None, start, size)
        self._metadata.begin_section(order, buffer[start + 8 : start + size - 4])
        self._blocks.begin_section(order == ">", self._metadata.clocks)
        return Parsed(None, start + size)

    def _block(self, buffer: memoryview, at: int) -> Parsed:
        """Read a block that is no packet."""
        kind, end = self._blocks.kind, at + self._blocks.size
        if not self._metadata.note(kind, buffer[at + 8 : end - 4]):
            return Parsed(None, at, 0, corrupt("a block that contradicts itself"))
        if kind == INTERFACE:
            self._blocks.add_interfaces()
        return Parsed(None, end)
