"""Data between tasks and the driver: what tasks tell, and files of blocks.

In: blocks, reports and rows. Out: rows for the driver, Arrow batches, files of blocks, and back.

A task writes a file. Its blocks are in groups; each group is sorted by bucket, so that a task reads
those of its bucket at once. Only the groups that the report of a successful task names are read, as
Spark may run a task twice. Two attempts never write a file of the same name.
"""

from __future__ import annotations

import heapq
import pickle
import struct
import uuid
import zlib
from array import array
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kanalyze.batch.archive.packed_segments import BlockError
from kanalyze.batch.archive.segment_readers import StoredBlock
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.arrow import arrays_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kanalyze.batch.archive.partitioner import SegmentBlock, UnmatchedFragment
    from kanalyze.batch.key_sources import KeyedCapture
    from kanalyze.capture.splits import SplitEnds
    from kanalyze.tables.quality import CaptureQuality

TOLD_SCHEMA: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("capture", pa.string(), nullable=False),
    ]
)
"""The columns of :class:`Told`."""


class Told(NamedTuple):
    """What a task tells the driver."""

    kind: str
    """What ``data`` is. Of captures: ``report`` (:class:`CaptureReport`), ``anomalies`` (rows, of
    packets), ``groups`` (each :class:`BlockGroup` of the task). Of buckets:
    ``report`` (:class:`BucketReport`), ``state``, ``files`` (each that the task wrote) or, where it
    does not write them, the name of a table, and rows as an Arrow stream."""
    data: bytes
    number: int = -1
    """Of a bucket, or of a part of a capture. These are numbered in the order in which they are
    read; a part that is read again has a new number. A capture in a table of packets has one part,
    numbered by its name."""
    capture: str = ""


def told_batch(told: Told) -> pa.RecordBatch:
    """Return what a task tells as a row."""
    columns = arrays_of(([value] for value in told), TOLD_SCHEMA)
    return pa.RecordBatch.from_arrays(columns, schema=TOLD_SCHEMA)


class SentBlock(NamedTuple):
    """A block of segments on its way to its bucket. All fields but ``data`` are the sort key."""

    bucket: int
    first_key_ns: int
    file_time_ns: int
    capture: str
    part: int
    first_packet: int
    data: bytes | memoryview


class CaptureReport(NamedTuple):
    """The result of reading a capture, or a part of one, besides segments."""

    part: int
    """See :class:`Told`."""
    capture: str
    file_time_ns: int
    """Unix time of its first packet in ns; 0 if it has none."""
    quality: CaptureQuality
    fragments: Sequence[UnmatchedFragment]
    ends: SplitEnds | None
    """The ends of this part of a file; None for a whole capture."""
    unreadable: str | None
    """Why the capture is left out; None if it is not."""
    is_foreign: bool = False
    """True if it is not a capture; false if reading failed, which may succeed later."""
    keyed: KeyedCapture | None = None
    """Where it has secrets of TLS, but not the secrets; None if it has none."""
    topic_names: Mapping[bytes, str] | None = None
    """Names of topics, by id, that the task had found up to the end of this part; None if the part
    was not read."""
    packets_in_time: int | None = None
    """How many of its packets the job takes; None for all. Those after them are later than the job
    goes, and the next one takes them."""
    connections: bytes | None = None
    """Its connections, compressed (see :mod:`kanalyze.batch.history`), if the job notes them."""


class BlockGroup(NamedTuple):
    """Where blocks are in a file; sorted by bucket, then by time and capture."""

    first_key_ns: int
    """The lowest key of a block in the group."""
    file: str
    """Name of the file in the folder."""
    starts: array[int]
    """Index of the first byte of each bucket in the file; at the end the index after the last."""


class BucketReport(NamedTuple):
    """The result of rebuilding a bucket, besides rows."""

    bucket: int
    quality: CaptureQuality
    open_quality: CaptureQuality
    """The counts that would be added if all open connections were closed now."""
    topic_names: dict[bytes, str]
    """Topic names by topic id."""
    unresolved_ids: frozenset[bytes]
    """Topic ids in rows whose name is unknown."""
    closed: str | None = None
    """Why the connections of the bucket's saved state were closed; None if they were continued."""


def sent_block(block: SegmentBlock, file_time_ns: int, capture: str, part: int) -> SentBlock:
    """Return a block of a capture, with its sort key."""
    sort_key = (block.bucket, block.first_key_ns, file_time_ns, capture, part, block.first_packet)
    return SentBlock(*sort_key, block.data)


def to_arrow_stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return batches of one schema, at least one, as an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    rows = pa.Table.from_batches(batches).combine_chunks()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def from_arrow_stream(data: bytes | memoryview) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow stream."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        yield from reader


def pack_state(packet_index: str, connections: bytes) -> bytes:
    """Return the saved state of a bucket: its packet index, and its open connections."""
    text = packet_index.encode()
    return len(text).to_bytes(4) + text + connections


def unpack_state(data: bytes) -> tuple[str, bytes]:
    """Undo :func:`pack_state`. Raises BlockError for other bytes."""
    length = int.from_bytes(data[:4])
    try:
        return data[4 : 4 + length].decode(), data[4 + length :]
    except UnicodeDecodeError as error:
        raise BlockError(f"the state of a bucket is damaged: {error}") from error


def dump_report(report: object) -> bytes:
    """Serialize what a task reports for the driver of the same job."""
    return zlib.compress(pickle.dumps(report, pickle.HIGHEST_PROTOCOL), 1)


def load_report(data: bytes | memoryview) -> Any:
    """Undo :func:`dump_report`. The bytes must come from a task of this job."""
    return pickle.loads(zlib.decompress(data))  # noqa: S301 - see above


_GROUP_BYTES: Final = 64 << 20
"""How many bytes of blocks a task buffers. A group takes 8 bytes for each bucket in the driver."""
_READ_BYTES: Final = 16 << 20
"""How many bytes are read from a file at once, if no other group has blocks of the same time. A
store takes some 30 ms for each read."""
_MIN_READ_BYTES: Final = 256 << 10
"""How many at least: captures of a hundred brokers may be of the same time."""
_HEADER: Final = struct.Struct("<qqqI")
"""Before each block: number of the part of a capture, key, first packet, length in bytes."""


class CapturePart(NamedTuple):
    """A part of a capture that was read."""

    capture: str
    file_time_ns: int
    """When its first packet was captured."""
    packets_before: int
    """Packets in earlier parts of the capture."""
    first_packet: int = 1
    last_packet: int | None = None
    """The numbers of the first and last packets in the capture that the job takes; None for all."""


class BlockFile:
    """The file that one attempt of a task writes; there is none if it has no blocks."""

    def __init__(self, location: str, buckets: int) -> None:
        """``location`` is the folder, as a path or a URL; nothing is written yet."""
        self._folder = SharedFolder(location)
        self._buckets = buckets
        self._name = f"{uuid.uuid4().hex}.blocks"
        self._stream: Any = None
        self._written_bytes = 0
        self._buffered: list[SentBlock] = []
        self._buffered_bytes = 0
        self._groups: list[BlockGroup] = []

    def __enter__(self) -> BlockFile:
        """Write the file in a ``with`` block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the file after a failure; it is not to be read."""
        if kind is not None and self._stream is not None:
            with suppress(OSError):  # the failure before is the one to report
                self._stream.close()

    def add(self, block: SentBlock) -> None:
        """Add a block, and write a group if enough are buffered; raises UsageError if it fails."""
        self._buffered.append(block)
        self._buffered_bytes += len(block.data)
        if self._buffered_bytes >= _GROUP_BYTES:
            self._write_group()

    def finish(self) -> list[BlockGroup]:
        """Complete the file, and return its groups; raises UsageError if that fails."""
        self._write_group()
        if self._stream is not None:
            with self._folder.errors():
                self._stream.close()
        return self._groups

    def _write_group(self) -> None:
        blocks, self._buffered, self._buffered_bytes = self._buffered, [], 0
        if not blocks:
            return
        if self._stream is None:
            self._stream = self._folder.new_file(self._name)
        blocks.sort(key=_order_in_group)
        starts = array("Q")
        with self._folder.errors():
            for block in blocks:
                self._begin_buckets(starts, block.bucket)
                header = (block.part, block.first_key_ns, block.first_packet, len(block.data))
                self._stream.write(_HEADER.pack(*header))
                self._stream.write(block.data)
                self._written_bytes += _HEADER.size + len(block.data)
        self._begin_buckets(starts, self._buckets)
        first_key_ns = min(block.first_key_ns for block in blocks)
        self._groups.append(BlockGroup(first_key_ns, self._name, starts))

    def _begin_buckets(self, starts: array[int], bucket: int) -> None:
        """Have all buckets up to ``bucket`` that have not begun yet begin here."""
        starts.extend([self._written_bytes] * (bucket + 1 - len(starts)))


def _order_in_group(block: SentBlock) -> tuple[object, ...]:
    return block[:-1]


class WrittenBlocks(NamedTuple):
    """All blocks of an archive, in files; can be pickled."""

    location: str
    """The folder, as a path or a URL."""
    groups: Sequence[BlockGroup]
    """Sorted by their lowest keys."""
    parts: Mapping[int, CapturePart]
    """The valid parts of captures by number; blocks of other parts are ignored."""

    def of_bucket(self, bucket: int) -> Iterator[StoredBlock]:
        """Yield the blocks of a bucket, sorted, and read one by one.

        Raises:
            UsageError: a file cannot be read.
            BlockError: a file is damaged.
        """
        folder = SharedFolder(self.location)
        unread: list[_UnreadBlocks] = []
        for index, group in enumerate(self.groups):
            # No block of this group and of those after it is earlier.
            yield from _earliest(unread, group.first_key_ns)
            buffer_bytes = max(_READ_BYTES // (len(unread) + 1), _MIN_READ_BYTES)
            _push(unread, index, self._read(folder, group, bucket, buffer_bytes))
        yield from _earliest(unread, None)

    def _read(
        self, folder: SharedFolder, group: BlockGroup, bucket: int, buffer_bytes: int
    ) -> Iterator[StoredBlock]:
        """Yield the blocks of a bucket in one group; ``buffer_bytes`` are read at once."""
        start, end = group.starts[bucket : bucket + 2]
        if start == end:
            return
        with folder.open_file(group.file) as file, folder.errors():
            ranged = file.get_stream(start, end - start)
            with closing(pa.BufferedInputStream(ranged, min(end - start, buffer_bytes))) as stream:
                while start < end:
                    header = stream.read(_HEADER.size)
                    if len(header) < _HEADER.size:
                        raise BlockError(f"{group.file}: is damaged")
                    number, first_key_ns, first_packet, length = _HEADER.unpack(header)
                    start += _HEADER.size + length
                    data = stream.read_buffer(length) if start <= end else b""
                    if len(data) < length:
                        raise BlockError(f"{group.file}: is damaged")
                    part = self.parts.get(number)
                    if part is not None:
                        yield StoredBlock(
                            *(first_key_ns, part.file_time_ns, part.capture),
                            *(first_packet, part.packets_before, memoryview(data).cast("B")),
                            *(part.first_packet, part.last_packet),
                        )


class _UnreadBlocks(NamedTuple):
    """The next block of a group, and the others; sorted as tuples, the next block is first."""

    key: tuple[int, int, str, int, int]
    group: int
    block: StoredBlock
    others: Iterator[StoredBlock]


def _push(unread: list[_UnreadBlocks], group: int, blocks: Iterator[StoredBlock]) -> None:
    """Add the blocks of a group to a heap, if there are any."""
    block = next(blocks, None)
    if block is not None:
        source = (block.first_key_ns, block.file_time_ns, block.capture)
        key = (*source, block.packets_before, block.first_packet)
        heapq.heappush(unread, _UnreadBlocks(key, group, block, blocks))


def _earliest(unread: list[_UnreadBlocks], until_ns: int | None) -> Iterator[StoredBlock]:
    """Take the blocks whose keys are below ``until_ns`` from a heap, or all; yield them sorted."""
    while unread and (until_ns is None or unread[0].key[0] < until_ns):
        _, group, block, others = heapq.heappop(unread)
        yield block
        _push(unread, group, others)
