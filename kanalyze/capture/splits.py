"""Parts of one large capture file, which several tasks read at the same time.

In: a capture. Out: its parts (:class:`Split`), a reader of the packets of each, and a check of the
results.

Only plain pcap files have several splits. Compressed data cannot be read from its middle, and a
pcapng packet depends on blocks anywhere before it.

A split owns the records that begin in its range of bytes. The beginning of the first one is a guess
(see :mod:`kanalyze.capture.formats.pcap`), and a forged packet may mislead it. So the
packets of a split are not valid before :func:`check_splits` has compared the end of each split with
the beginning of the next::

    done = [read(split) for split in plan_splits(capture, stores, split_bytes)]
    while (check := check_splits(done)).again is not None:
        done[check.again.split_index] = read(check.again)
    # Valid are the packets of check.kept, in this order; those of check.dropped are not.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from kanalyze.capture.formats.parser import MAX_PACKETS, PCAP_MAGICS, Parsed
from kanalyze.capture.formats.pcap import CHAIN_BYTES, PcapParser, find_boundary
from kanalyze.capture.inputs import can_be_read_twice
from kanalyze.capture.io.source import open_source
from kanalyze.capture.reader import DEFAULT_BUFFER_BYTES, CaptureReader
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.capture.formats.parser import CaptureParser
    from kanalyze.capture.inputs import FoundCapture
    from kanalyze.capture.io.source import ByteSource, FileSource
    from kanalyze.capture.io.stores import Stores

MIN_SPLIT_BYTES: Final = CHAIN_BYTES
"""To find the beginning of a smaller split, most of it would be read."""
_BEYOND_BYTES: Final = 64 << 10
"""Bytes read at once outside of the split: the file's header, the end of the last record."""
_MAGIC_BYTES: Final = 4


class Split(NamedTuple):
    """A part of a capture file: the records that begin in a range of its bytes."""

    path: str
    """For :func:`kanalyze.capture.reader.open_capture`; a URL may hold credentials."""
    split_index: int
    """Among the splits of the file, from 0."""
    split_count: int
    """Splits of the file."""
    start: int
    """Offset in the file at which the range begins; the file's header is skipped."""
    end: int | None
    """Offset after the range; None for the end of the file."""
    is_exact: bool
    """Whether a record, or the file, is known to begin at ``start``."""

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole file, which may be a capture of any format."""
        return self.split_count == 1


class SplitEnds(NamedTuple):
    """The results of reading a split that :func:`check_splits` compares."""

    split: Split
    first_offset: int | None
    """Offset in the file of the first record read; None when none was."""
    end_offset: int | None
    """Offset after the last record read; the offset where one would begin if none was read; None if
    no beginning of a record was found."""
    packets: int
    """Number of packets read."""
    is_broken: bool
    """The file is cut or corrupt at ``end_offset``: nothing after it can be read."""


class SplitCheck(NamedTuple):
    """Which splits of a file are valid."""

    kept: list[SplitEnds]
    """The valid splits, in the file's order. If a split has to be read again, only those before it.
    To number a split's packets, count those of all splits before it in this list."""
    dropped: list[Split]
    """Splits that own no packet: their packets and anomalies are not valid."""
    again: Split | None
    """The split to read again, from the offset that is known now; None if all are checked."""


def plan_splits(capture: FoundCapture, stores: Stores, split_bytes: int) -> list[Split]:
    """Divide a capture into splits of about ``split_bytes``, and not less.

    Only a plain pcap file that can be read from any offset, of a known size of at least twice
    ``split_bytes``, is divided; any other is one split. At most its first bytes are read, and these
    only if the size in ``capture`` is unknown or large enough.

    Raises:
        UsageError: ``split_bytes`` is below ``MIN_SPLIT_BYTES``.
        CaptureError: the file cannot be opened.
    """
    if split_bytes < MIN_SPLIT_BYTES:
        raise UsageError(f"splits of {split_bytes} bytes: {MIN_SPLIT_BYTES} is the least")
    total_bytes = capture.total_bytes
    if total_bytes is None or total_bytes >= 2 * split_bytes:
        total_bytes = _divisible_bytes(capture.path, stores)
    count = max(total_bytes // split_bytes, 1)
    starts = [total_bytes * index // count for index in range(count)]
    ends = [*starts[1:], None]
    return [
        Split(capture.path, index, count, start, end, index == 0)
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def open_split(
    split: Split, *, stores: Stores | None = None, buffer_bytes: int = DEFAULT_BUFFER_BYTES
) -> SplitReader:
    """Open a capture to read a split of it; ``stores`` are connected file systems.

    Raises :class:`CaptureError` if it cannot be opened, is no capture, or cannot be divided and the
    split is not the whole.
    """
    source = open_source(split.path, stores=stores)
    try:
        return SplitReader(source, split, buffer_bytes)
    except BaseException:
        source.close()
        raise


def check_splits(done: Sequence[SplitEnds]) -> SplitCheck:
    """Tell which splits of one file are valid, and which of them has to be read again.

    ``done`` has the latest result of every split of the file, in any order. The first split begins
    where the file does, so it is valid. The first record of the next one has to begin at its end:

    - A split that begins there is valid too, and the next one is compared with its end.
    - A split whose range ends before that offset owns nothing: one record covers all of it.
    - Any other split began at a wrong offset, or found no beginning. It has to be read again from
      the right offset; the splits after it are checked later. It is valid then, so no split is read
      more than twice.
    - If the file is cut or corrupt, reading it as a whole would stop there: later splits own
      nothing.
    """
    first, *later = sorted(done, key=lambda ends: ends.split.split_index)
    consistent, dropped = [first], []
    for ends in later:
        split, before = ends.split, consistent[-1]
        expected = before.end_offset
        assert expected is not None, "the first split, and what follows it, was read to an end"
        if before.is_broken or (split.end is not None and split.end <= expected):
            dropped.append(split)
        elif expected == (ends.end_offset if ends.first_offset is None else ends.first_offset):
            consistent.append(ends)
        else:
            return SplitCheck(consistent, dropped, split._replace(start=expected, is_exact=True))
    return SplitCheck(consistent, dropped, None)


class SplitReader(CaptureReader):
    """A split being read; a context manager that closes its file.

    It is a :class:`CaptureReader` of the packets that the split owns. The first one is number 1.
    ``bytes_read`` counts the bytes read for this split. ``description`` is the metadata of the file
    (for a part, of its header). The packets and anomalies are valid only if :func:`check_splits`
    keeps the split.
    """

    def __init__(
        self, source: FileSource, split: Split, buffer_bytes: int = DEFAULT_BUFFER_BYTES
    ) -> None:
        self.split = split
        self._split_parser: _SplitParser | None = None
        super().__init__(source, buffer_bytes)

    @property
    def first_offset(self) -> int | None:
        """Offset in the file of the first record read; None without one, or for a whole file."""
        return None if self._split_parser is None else self._split_parser.first_offset

    @property
    def end_offset(self) -> int | None:
        """Offset after the last record read so far; see :class:`SplitEnds`."""
        return None if self._split_parser is None else self._split_parser.end_offset

    @property
    def ends(self) -> SplitEnds:
        """The result for :func:`check_splits`; valid after the last batch."""
        return SplitEnds(
            self.split, self.first_offset, self.end_offset, self.packets, bool(self.anomalies)
        )

    def _begin(self) -> CaptureParser:
        """Read the file's header, and seek to the beginning of the split."""
        split = self.split
        if split.is_whole:
            return super()._begin()
        self._source = head = _Portions(self._file, 0)
        parser = super()._begin()
        if not isinstance(parser, PcapParser) or self._source is not head:
            raise CaptureError(f"{self.name}: is not a plain pcap file, which alone has parts")
        header_end = self._start
        self._fill(header_end + parser.header_bytes)
        near_ns = parser.time_ns(self._buffer, header_end, self._end)
        offset = max(split.start, header_end)
        self._file.seek(offset)
        self._source = _Portions(self._file, None if split.end is None else split.end - offset)
        self._start = self._end = 0
        self._buffer_offset = offset
        self._at_end = False
        self._split_parser = _SplitParser(parser, split, offset, self._file.total_bytes, near_ns)
        return self._split_parser


class _SplitParser:
    """Reads the records of a pcap file that begin in a range of it: a :class:`CaptureParser`.

    It gets the bytes of the file from an offset on, and tracks that offset.
    """

    dropped_packets: int | None = None

    def __init__(
        self,
        parser: PcapParser,
        split: Split,
        offset: int,
        file_bytes: int | None,
        near_ns: int | None,
    ) -> None:
        """Set up for the bytes from ``offset`` on; ``near_ns`` as in :func:`find_boundary`."""
        self.first_offset: int | None = None
        self._parser = parser
        self._offset = offset
        """Offset in the file of the next byte to be parsed."""
        self._limit = split.end
        self._is_at_record = split.is_exact
        self._file_bytes = file_bytes
        self._near_ns = near_ns

    @property
    def end_offset(self) -> int | None:
        """Offset in the file after the last record read; None before the first was found."""
        return self._offset if self._is_at_record else None

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the file's header."""
        return self._parser.start(buffer, end)

    def parse(self, buffer: memoryview, start: int, end: int, most: int = MAX_PACKETS) -> Parsed:
        """Read records: see :class:`kanalyze.capture.formats.parser.CaptureParser`."""
        if self._is_at_limit():
            return Parsed(None, start, is_last=True)
        if self._is_at_record:
            return self._records(buffer, start, end, most)
        is_end = self._offset + (end - start) == self._file_bytes
        boundary, is_found = find_boundary(
            self._parser, buffer, start, end, is_end=is_end, near_ns=self._near_ns
        )
        self._offset += boundary - start
        if is_found and not self._is_at_limit():
            self._is_at_record = True
            return self._records(buffer, boundary, end, most)
        return Parsed(None, boundary, CHAIN_BYTES + self._parser.header_bytes)

    def _records(self, buffer: memoryview, start: int, end: int, most: int) -> Parsed:
        """Read the records of the range, the first of them at ``start``."""
        parsed = self._parser.parse(buffer, start, end, most)
        batch, position = parsed.batch, parsed.position
        if batch is not None:
            if self.first_offset is None:
                self.first_offset = self._offset
            if self._limit is not None:
                # The first one begins within the range.
                limit = start + (self._limit - self._offset) + self._parser.header_bytes
                count = bisect_left(batch.offset, limit)
                if count < len(batch):
                    batch = batch.part(slice(count))
                    position = batch.offset[-1] + batch.captured_bytes[-1]
        self._offset += position - start
        # An anomaly beyond the range is reported by another split.
        return Parsed(batch, position) if self._is_at_limit() else parsed

    def _is_at_limit(self) -> bool:
        return self._limit is not None and self._offset >= self._limit


class _Portions:
    """Reads the bytes of the range in large portions, and those after it in small ones."""

    def __init__(self, source: ByteSource, range_bytes: int | None) -> None:
        """``range_bytes`` is None for a range up to the end of the file."""
        self._source = source
        self._range_bytes = range_bytes

    def readinto(self, target: memoryview) -> int:
        """Fill the start of ``target``: see :class:`kanalyze.capture.io.source.ByteSource`."""
        if self._range_bytes is None:
            return self._source.readinto(target)
        count = self._source.readinto(target[: max(self._range_bytes, _BEYOND_BYTES)])
        self._range_bytes -= count
        return count


def _divisible_bytes(path: str, stores: Stores) -> int:
    """Return the size of a plain pcap file that can be read from any offset; 0 for others."""
    if not can_be_read_twice(path):
        return 0
    source = open_source(path, stores=stores)
    try:
        if not source.can_seek or source.total_bytes is None:
            return 0
        magic = bytearray(_MAGIC_BYTES)
        source.readinto(memoryview(magic))
        return source.total_bytes if bytes(magic) in PCAP_MAGICS else 0
    finally:
        source.close()
