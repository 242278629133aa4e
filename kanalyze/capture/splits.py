"""Parts of one large capture file, which several tasks read at the same time.

In: a capture that was found. Out: its parts (:class:`Split`), a reader of the packets of each, and
a check of what was read. Must not know: who reads which split, nor what is inside a packet.

Only plain pcap files have several splits. Compressed data cannot be read from its middle, and a
pcapng packet depends on blocks anywhere before it.

A split owns the records that begin in its range of bytes. Where the first of these begins is a
guess (see :mod:`kanalyze.capture.formats.pcap_boundary`), and a packet may be made to mislead it.
So no split's packets count before :func:`check_splits` has compared the end of each split with the
beginning of the next::

    done = [read(split) for split in plan_splits(found, stores, split_bytes)]
    while (check := check_splits(done)).again is not None:
        done[check.again.split_index] = read(check.again)
    # What counts is that of check.kept, in this order; what check.dropped gave does not.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from kanalyze.capture.formats.parser import MOST_PACKETS, Parsed
from kanalyze.capture.formats.pcap import PCAP_MAGICS, PcapParser
from kanalyze.capture.formats.pcap_boundary import CHAIN_BYTES, find_boundary
from kanalyze.capture.io.source import open_source
from kanalyze.capture.listing import can_be_read_twice
from kanalyze.capture.reader import DEFAULT_BUFFER_BYTES, CaptureReader
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.capture.formats.parser import CaptureParser
    from kanalyze.capture.io.source import ByteSource, FileSource
    from kanalyze.capture.io.stores import Stores
    from kanalyze.capture.listing import FoundCapture

__all__ = [
    "MIN_SPLIT_BYTES",
    "Split",
    "SplitCheck",
    "SplitEnds",
    "SplitReader",
    "check_splits",
    "open_split",
    "plan_splits",
]

MIN_SPLIT_BYTES: Final = CHAIN_BYTES
"""Of a smaller split most would be read to find its beginning."""
_BEYOND_BYTES: Final = 64 << 10
"""Read at once of what belongs to another split: the file's header, the rest of a last record."""
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
    """Offset at which it ends, itself not in it; None for the end of the file."""
    is_exact: bool
    """A record is known to begin at ``start``, or the file does."""

    @property
    def is_whole(self) -> bool:
        """It is all of the file, which may be a capture of any kind."""
        return self.split_count == 1


class SplitEnds(NamedTuple):
    """What a reader of a split says at its end, for :func:`check_splits`."""

    split: Split
    first_offset: int | None
    """Offset in the file of the first record read; None when none was."""
    end_offset: int | None
    """Offset after the last record read, or where one would have begun; None when no beginning of
    a record was found."""
    packets: int
    """Read, from ``first_offset`` on."""
    is_broken: bool
    """The file is cut or makes no sense at ``end_offset``: nothing after it can be read."""


class SplitCheck(NamedTuple):
    """What counts of the splits of one file."""

    kept: list[SplitEnds]
    """Those whose packets are the file's, in the file's order; as far as it is known, where one
    is to be read again. The packets before one are those of all before it in this list."""
    dropped: list[Split]
    """Those that own no packet: whatever was read of them does not count, anomalies neither."""
    again: Split | None
    """To be read again, from the place that is now known; None when everything is settled."""


def plan_splits(capture: FoundCapture, stores: Stores, split_bytes: int) -> list[Split]:
    """Divide a capture into splits of about ``split_bytes``, and of no less.

    There is one, the whole, unless it is a plain pcap file of known size, of at least two times
    ``split_bytes``, where it can be read from any place. No more than its first bytes are read,
    and that only when its size (as far as ``capture`` tells it) does not decide already.

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
    """Open a capture to read a split of it; ``stores`` are file systems connected to before.

    Raises :class:`CaptureError` when it cannot be opened, is no capture, or none that can be
    divided though the split is a part.
    """
    source = open_source(split.path, stores=stores)
    try:
        return SplitReader(source, split, buffer_bytes)
    except BaseException:
        source.close()
        raise


def check_splits(done: Sequence[SplitEnds]) -> SplitCheck:
    """Tell what counts of the splits of one file, and which of them has to be read again.

    ``done`` is what was last said of every split of the file, in any order. The first split begins
    where the file does, so that it is right. Where it ends, the first record of what follows must
    begin:

    - A split that begins there is right too, and the next one is judged by its end.
    - One whose range ends before that place owns nothing: a record spans the rest of it.
    - Any other split was led astray, or found no beginning. It has to be read again from that
      place; what follows is judged when that was done. As it is right then, no split is read more
      than twice.
    - Where the file is cut or makes no sense, reading it as a whole would stop: later splits own
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
    """A split being read; a context manager that closes what was opened for it.

    It is a :class:`CaptureReader` of the packets that the split owns: the first is number 1, and
    ``bytes_read`` are those taken from the file for this split. ``description`` is that of the file
    (of a part: of its header), the same for each of its splits. The anomalies of a split are the
    file's only if :func:`check_splits` keeps it.
    """

    def __init__(
        self, source: FileSource, split: Split, buffer_bytes: int = DEFAULT_BUFFER_BYTES
    ) -> None:
        self.split = split
        self._split_parser: _SplitParser | None = None
        super().__init__(source, buffer_bytes)

    @property
    def first_offset(self) -> int | None:
        """Offset in the file of the first record read; None: none yet, or a whole file."""
        return None if self._split_parser is None else self._split_parser.first_offset

    @property
    def end_offset(self) -> int | None:
        """Offset after the last record read so far; see :class:`SplitEnds`."""
        return None if self._split_parser is None else self._split_parser.end_offset

    @property
    def ends(self) -> SplitEnds:
        """What is to be checked; to be asked for after the last batch."""
        return SplitEnds(
            self.split, self.first_offset, self.end_offset, self.packets, bool(self.anomalies)
        )

    def _begin(self) -> CaptureParser:
        """Read the file's header, and go to where the split begins."""
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
        self._at_end = False
        self._split_parser = _SplitParser(parser, split, offset, self._file.total_bytes, near_ns)
        return self._split_parser


class _SplitParser:
    """Reads the records of a pcap file that begin in a range of it: a :class:`CaptureParser`.

    It is handed the file from an offset on, and keeps count of where it is.
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
        """Set up, for what comes from ``offset`` on; ``near_ns`` as in :func:`find_boundary`."""
        self.first_offset: int | None = None
        self._parser = parser
        self._offset = offset
        """In the file, of what is to be parsed next."""
        self._limit = split.end
        self._is_at_record = split.is_exact
        self._file_bytes = file_bytes
        self._near_ns = near_ns

    @property
    def end_offset(self) -> int | None:
        """Offset in the file after the last record read; None before the first was found."""
        return self._offset if self._is_at_record else None

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the file's header, which was not skipped then."""
        return self._parser.start(buffer, end)

    def parse(self, buffer: memoryview, start: int, end: int, most: int = MOST_PACKETS) -> Parsed:
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
        columns, position = parsed.columns, parsed.position
        if columns is not None and len(columns):
            if self.first_offset is None:
                self.first_offset = self._offset
            if self._limit is not None:
                # The first one begins within the range.
                limit = start + (self._limit - self._offset) + self._parser.header_bytes
                count = bisect_left(columns.offset, limit)
                if count < len(columns):
                    columns = columns.first(count)
                    position = columns.offset[-1] + columns.captured_bytes[-1]
        self._offset += position - start
        # Another split reports what is wrong beyond the range.
        return Parsed(columns, position) if self._is_at_limit() else parsed

    def _is_at_limit(self) -> bool:
        return self._limit is not None and self._offset >= self._limit


class _Portions:
    """Reads the bytes of the range, and what lies behind them in small portions."""

    def __init__(self, source: ByteSource, range_bytes: int | None) -> None:
        """``range_bytes`` is None for all there are."""
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
    """Return the size of a plain pcap file that can be read from any place on; 0 of all else."""
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
