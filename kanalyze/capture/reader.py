"""Reads a capture from its beginning to its end, batch by batch, through one buffer.

In: a path or a binary file. Out: :class:`kanalyze.model.PacketBatch`.

The content decides the format: pcap or pcapng, either of them may be compressed (once). Where
captures follow each other in one file, as ``cat`` writes them, all are read: their packets are in
the order of the file and numbered on, and an anomaly says where another one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.capture.file_metadata import FileMetadata
from kanalyze.capture.formats.parser import (
    MAX_PACKETS,
    PCAP_MAGICS,
    PCAPNG_MAGIC,
    corrupt,
    is_capture_magic,
)
from kanalyze.capture.formats.pcap import PcapParser
from kanalyze.capture.io.source import DamagedDataError, FileSource, open_source
from kanalyze.common import paths
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.common.int_columns import rising
from kanalyze.common.paths import MAGIC_BYTES, is_database
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import Anomaly, AnomalyKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kanalyze.capture.formats.parser import CaptureParser, Parsed
    from kanalyze.capture.io.source import BinaryFile, ByteSource, PathLike
    from kanalyze.capture.io.stores import Stores
    from kanalyze.model.packets import PacketBatch

DEFAULT_BUFFER_BYTES: Final = 8 << 20
MIN_BUFFER_BYTES: Final = 64
"""Least size of a buffer: the headers at the beginning of a file fit."""
_LOOK_BYTES: Final = 4 << 10
_MAGIC_BYTES: Final = 4
_MAX_NAMED: Final = 10
"""Captures in one file whose beginning is named."""


class NotACaptureError(CaptureError):
    """A file that does not begin as a capture."""


class DamagedCaptureError(NotACaptureError):
    """A compressed file that is damaged at its beginning, so that its format is unknown."""


NewBuffer: TypeAlias = "Callable[[int], memoryview]"
"""Returns a buffer of a size in bytes. With one, each reading fills another buffer, and batches are
valid as long as who gives the buffers says."""


def own_buffer(size: int) -> memoryview:
    """Return a buffer of this process alone."""
    return memoryview(bytearray(size))


def open_capture(
    path: PathLike | BinaryFile,
    *,
    name: str | None = None,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    description: FileMetadata | None = None,
    stores: Stores | None = None,
    new_buffer: NewBuffer | None = None,
) -> CaptureReader:
    """Open a capture and read its header.

    ``path`` is a path, ``-`` for standard input, a URL, or a binary file (which is not closed).
    ``name`` is for messages. ``buffer_bytes`` are read at once; the buffer only grows if a single
    packet needs it. ``description`` collects the metadata of several captures; ``stores`` are
    connected file systems. For ``new_buffer`` see :data:`NewBuffer`.

    Raises :class:`CaptureError` if it cannot be opened or is no capture.
    """
    source = open_source(path, name, stores)
    try:
        return CaptureReader(source, buffer_bytes, description, new_buffer)
    except BaseException:
        source.close()
        raise


def is_capture(path: PathLike) -> bool:
    """Return true if a file begins like a capture, compressed or not, complete or not.

    Raises OSError if it cannot be opened.
    """
    with paths.opened(path) as file:
        if not _may_be_capture(file.read(_MAGIC_BYTES)):
            return False
        file.seek(0)
        try:
            CaptureReader(FileSource(file, str(path), owned=False), _LOOK_BYTES)
        except NotACaptureError:
            return False
        except CaptureError:
            pass  # it begins like a capture, but is cut short
    return True


def _may_be_capture(magic: bytes) -> bool:
    """Return false if a file with this beginning is no capture, compressed or not."""
    if is_capture_magic(magic):
        return True
    from kanalyze.capture.io.decompression import compression_name  # rarely needed

    return compression_name(magic) is not None


class CaptureReader(ClosedAtEnd):
    """A capture being read; a context manager that closes its file."""

    def __init__(
        self,
        source: FileSource,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        description: FileMetadata | None = None,
        new_buffer: NewBuffer | None = None,
    ) -> None:
        self.description = FileMetadata() if description is None else description
        """Metadata of the capture, as far as it has been read."""
        self.name = source.name
        self.packets = 0
        """Packets delivered so far."""
        self.anomalies: list[Anomaly] = []
        """What is wrong with the file: a few at most, complete after the last batch."""
        self._file = source
        self._source: ByteSource = source
        self._buffer_bytes = max(buffer_bytes, MIN_BUFFER_BYTES)
        self._is_buffer_kept = new_buffer is None
        self._new_buffer = own_buffer if new_buffer is None else new_buffer
        # A smaller buffer for a small file: allocating a whole one takes some milliseconds.
        needed = self._buffer_bytes if source.total_bytes is None else source.total_bytes
        self._buffer = self._new_buffer(max(min(needed, self._buffer_bytes), MIN_BUFFER_BYTES))
        self._start = 0
        self._end = 0
        self._buffer_offset = 0
        """Offset in the capture, once decompressed, of the first byte of the buffer."""
        self._at_end = False
        self._more_captures = 0
        """Captures in the file after the first."""
        self._dropped_before: int | None = None
        """Packets that were dropped according to the captures before the present one."""
        self._parser = self._begin()

    @property
    def bytes_read(self) -> int:
        """Bytes read from the file so far; of a compressed file, compressed ones."""
        return self._file.bytes_read

    @property
    def total_bytes(self) -> int | None:
        """Size of the file, to be compared with ``bytes_read``; None for a pipe."""
        return self._file.total_bytes

    @property
    def dropped_packets(self) -> int | None:
        """Packets that the capturing machine dropped so far; None where the file does not say."""
        known = (self._dropped_before, self._parser.dropped_packets)
        drops = [count for count in known if count is not None]
        return sum(drops) if drops else None

    def close(self) -> None:
        """Close the file, if it was opened for this reader."""
        self._file.close()

    def batches(self, first_number: int = 1) -> Iterator[PacketBatch]:
        """Yield the packets, the first of them numbered ``first_number``; never an empty batch.

        A batch's buffer is valid until the next batch is read. Raises :class:`CaptureError` if the
        system cannot read; a file that is cut or corrupt ends the iteration, and adds an anomaly.
        """
        while True:
            before = self._start
            parsed = self._parser.parse(self._buffer, before, self._end, MAX_PACKETS)
            self._start = parsed.position
            batch = parsed.batch
            if batch is not None:
                batch.number = rising(first_number + self.packets, len(batch))
                self.packets += len(batch)
                yield batch
            if parsed.anomaly is not None:
                self.anomalies.append(parsed.anomaly)
                return
            if parsed.is_last or (parsed.begins_capture and not self._begin_another()):
                return
            if parsed.begins_capture:
                continue
            if parsed.position == before and not self._more(parsed):
                self._note_rest()
                return

    def _begin(self) -> CaptureParser:
        """Detect the format and read the header; return the parser."""
        self._fill(_MAGIC_BYTES)
        magic = self._magic()
        if not is_capture_magic(magic):
            magic = self._decompressed(magic)
        parser = self._choose(magic)
        self._start_parser(parser)
        return parser

    def _start_parser(self, parser: CaptureParser) -> None:
        """Let a parser read the header at the present position."""
        while True:
            unread = self._end - self._start
            parsed = parser.start(self._buffer[self._start : self._end], unread)
            if parsed is not None:
                self._start += parsed.position
                return
            self._make_room()
            if not self._read():
                raise CaptureError(f"{self.name}: the file's header is cut short")

    def _begin_another(self) -> bool:
        """Read the header of the capture that begins here; false if it cannot be read."""
        self._more_captures += 1
        detail = (
            f"another capture begins at byte {self._buffer_offset + self._start}: it is read on"
        )
        if self._more_captures <= _MAX_NAMED:
            self.anomalies.append(Anomaly(AnomalyKind.ANOTHER_CAPTURE, detail=detail))
        else:
            self._note_unnamed()
        parser = self._choose(bytes(self._buffer[self._start : self._start + _MAGIC_BYTES]))
        try:
            self._start_parser(parser)
        except CaptureError as error:
            self.anomalies.append(corrupt(str(error).removeprefix(f"{self.name}: ")))
            return False
        self._dropped_before = self.dropped_packets
        self._parser = parser
        return True

    def _note_unnamed(self) -> None:
        """Say how many more captures begin in the file than are named."""
        kind = AnomalyKind.ANOTHER_CAPTURE
        at = next(at for at, found in enumerate(self.anomalies) if found.kind == kind)
        at += _MAX_NAMED - 1
        detail = self.anomalies[at].detail.partition(";")[0]
        more = self._more_captures - _MAX_NAMED
        self.anomalies[at] = Anomaly(kind, detail=f"{detail}; {more} more begin after it")

    def _magic(self) -> bytes:
        return bytes(self._buffer[: min(self._end, _MAGIC_BYTES)])

    def _decompressed(self, magic: bytes) -> bytes:
        """Decompress the source from now on, if it is compressed; return its first bytes."""
        from kanalyze.capture.io.decompression import DecompressedSource, compression_name

        outer = compression_name(magic)
        if outer is None:
            return magic
        self._source = DecompressedSource(_Rest(bytes(self._buffer[: self._end]), self._source))
        self._buffer = self._new_buffer(self._buffer_bytes)
        self._end = 0
        self._at_end = False
        self._fill(_MAGIC_BYTES)
        inner = compression_name(self._magic())
        if inner is not None:
            raise NotACaptureError(
                f"{self.name}: is compressed twice ({inner} data in {outer} data);"
                " decompress it once before"
            )
        return self._magic()

    def _choose(self, magic: bytes) -> CaptureParser:
        if magic in PCAP_MAGICS:
            return PcapParser(self.name, self.description)
        if magic == PCAPNG_MAGIC:
            from kanalyze.capture.formats.pcapng import PcapngParser  # not for most captures

            return PcapngParser(self.name, self.description)
        if self.anomalies:
            raise DamagedCaptureError(f"{self.name}: {self.anomalies[0].detail}")
        self._fill(MAGIC_BYTES)
        if is_database(bytes(self._buffer[: min(self._end, MAGIC_BYTES)])):
            raise NotACaptureError(
                f"{self.name}: is a database, as kanalyze save writes it: it has rows, not "
                "packets, and is read by requests, connections, anomalies, report and sql alone"
            )
        if not magic:
            raise NotACaptureError(f"{self.name}: is empty")
        raise NotACaptureError(
            f"{self.name}: is not a pcap or pcapng file{self._what_it_is(magic)}"
        )

    def _what_it_is(self, magic: bytes) -> str:
        """Return the end of a message about a file that is no capture."""
        from kanalyze.capture.formats.foreign import LOOK_BYTES, foreign_format  # rarely needed

        if self.total_bytes is not None:  # a pipe may be silent for long: what came is enough
            self._fill(min(LOOK_BYTES, len(self._buffer)))
        known = foreign_format(bytes(self._buffer[: min(self._end, LOOK_BYTES)]))
        if known is None:
            return f" (it begins with {magic.hex(' ')})"
        return f" but {known.name}: {known.advice}"

    def _fill(self, least: int) -> None:
        """Read until ``least`` bytes are buffered or the source ends."""
        while self._end < least and self._read():
            pass

    def _more(self, parsed: Parsed) -> bool:
        """Make room and read more bytes; false at the end of the source."""
        if self._at_end:
            return False
        unread = self._end - self._start
        assert unread < len(self._buffer) or parsed.record_bytes > unread, (
            "a parser that uses nothing of a whole record"
        )
        self._make_room()
        return self._read()

    def _make_room(self) -> None:
        """Move the unread bytes to the beginning of a buffer, and let it grow if it is full."""
        unread = self._end - self._start
        if self._start:
            size = len(self._buffer)
            buffer = self._buffer if self._is_buffer_kept else self._new_buffer(size)
            buffer[:unread] = self._buffer[self._start : self._end]
            self._buffer = buffer
            self._buffer_offset += self._start
            self._start, self._end = 0, unread
        if unread == len(self._buffer):
            self._grow()

    def _grow(self) -> None:
        """Double the buffer: memory is allocated for bytes that came, not for lengths in a file."""
        larger = self._new_buffer(2 * len(self._buffer))
        larger[: self._end] = self._buffer[: self._end]
        self._buffer = larger

    def _read(self) -> bool:
        if self._at_end:
            return False
        try:
            count = self._source.readinto(self._buffer[self._end :])
        except DamagedDataError as error:
            kind = AnomalyKind.CAPTURE_TRUNCATED if error.cut else AnomalyKind.CAPTURE_CORRUPT
            self.anomalies.append(Anomaly(kind, detail=str(error)))
            count = 0
        self._end += count
        self._at_end = count == 0
        return count > 0

    def _note_rest(self) -> None:
        unread = self._end - self._start
        if unread:
            detail = f"the file ends within a packet or block: {unread} bytes are left over"
            self.anomalies.append(
                Anomaly(AnomalyKind.CAPTURE_TRUNCATED, length=unread, detail=detail)
            )


class _Rest:
    """A source of bytes that were read ahead, then of the rest of their source."""

    def __init__(self, ahead: bytes, source: ByteSource) -> None:
        self._ahead = ahead
        self._source = source

    def readinto(self, target: memoryview) -> int:
        if not self._ahead:
            return self._source.readinto(target)
        count = min(len(self._ahead), len(target))
        target[:count] = self._ahead[:count]
        self._ahead = self._ahead[count:]
        return count
