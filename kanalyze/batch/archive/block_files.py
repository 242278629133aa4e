"""Files of blocks: segments on their way from the tasks that read captures to those of buckets.

In: blocks of segments, as they are made. Out: files in a shared folder; and the blocks of a bucket
from all files, sorted.

A task writes a file. Its blocks are in groups; each group is sorted by bucket, so that a task reads
those of its bucket at once. Only the groups that the report of a successful task names are read, as
Spark may run a task twice. Two attempts never write a file of the same name.
"""

from __future__ import annotations

import heapq
import struct
import uuid
from array import array
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kanalyze.batch.archive.packed_segments import BlockError
from kanalyze.batch.archive.shuffle_reader import ShuffledBlock
from kanalyze.batch.archive.shuffle_schema import BlockGroup
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kanalyze.batch.archive.shuffle_schema import ShuffleRow

__all__ = ["BlockFile", "CapturePart", "WrittenBlocks"]

_GROUP_BYTES: Final = 64 << 20
"""How many bytes of blocks a task buffers. A group takes 8 bytes for each bucket in the driver."""
_READ_BYTES: Final = 16 << 20
"""How many bytes are read from a file at once, if no other group has blocks of the same time. A
store takes some 30 ms for each read."""
_MIN_READ_BYTES: Final = 256 << 10
"""How many at least: captures of a hundred brokers may be of the same time."""
_HEADER: Final = struct.Struct("<iqqI")
"""Before each block: number of the part of a capture, key, first packet, length in bytes."""


class CapturePart(NamedTuple):
    """A part of a capture that was read."""

    capture: str
    file_time_ns: int
    """When its first packet was captured."""
    packets_before: int
    """Packets in earlier parts of the capture."""


class BlockFile:
    """The file that one attempt of a task writes; there is none if it has no blocks."""

    def __init__(self, location: str, buckets: int) -> None:
        """``location`` is the folder, as a path or a URL; nothing is written yet."""
        self._folder = SharedFolder(location)
        self._buckets = buckets
        self._name = f"{uuid.uuid4().hex}.blocks"
        self._stream: Any = None
        self._written_bytes = 0
        self._buffered: list[ShuffleRow] = []
        self._buffered_bytes = 0
        self._groups: list[BlockGroup] = []

    def add(self, block: ShuffleRow) -> None:
        """Add a block, and write a group if enough are buffered; raises UsageError if it fails."""
        self._buffered.append(block)
        self._buffered_bytes += len(block.data)
        if self._buffered_bytes >= _GROUP_BYTES:
            self._write_group()

    def finish(self) -> list[BlockGroup]:
        """Complete the file, and return its groups.

        Raises UsageError if that fails; then call :meth:`abort`.
        """
        self._write_group()
        if self._stream is not None:
            with self._folder.errors():
                self._stream.close()
        return self._groups

    def abort(self) -> None:
        """Close the file after a failure; it is not to be read."""
        self._buffered.clear()
        if self._stream is not None:
            with suppress(OSError):  # the failure before is the one to report
                self._stream.close()

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


def _order_in_group(block: ShuffleRow) -> tuple[object, ...]:
    return block[:-1]


class WrittenBlocks(NamedTuple):
    """All blocks of an archive, in files; can be pickled."""

    location: str
    """The folder, as a path or a URL."""
    groups: Sequence[BlockGroup]
    """Sorted by their lowest keys."""
    parts: Mapping[int, CapturePart]
    """The valid parts of captures by number; blocks of other parts are ignored."""

    def of_bucket(self, bucket: int) -> Iterator[ShuffledBlock]:
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
    ) -> Iterator[ShuffledBlock]:
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
                        yield ShuffledBlock(
                            *(first_key_ns, part.file_time_ns, part.capture),
                            *(first_packet, part.packets_before, memoryview(data).cast("B")),
                        )


class _UnreadBlocks(NamedTuple):
    """The next block of a group, and the others; sorted as tuples, the next block is first."""

    key: tuple[int, int, str, int, int]
    group: int
    block: ShuffledBlock
    others: Iterator[ShuffledBlock]


def _push(unread: list[_UnreadBlocks], group: int, blocks: Iterator[ShuffledBlock]) -> None:
    """Add the blocks of a group to a heap, if there are any."""
    block = next(blocks, None)
    if block is not None:
        source = (block.first_key_ns, block.file_time_ns, block.capture)
        key = (*source, block.packets_before, block.first_packet)
        heapq.heappush(unread, _UnreadBlocks(key, group, block, blocks))


def _earliest(unread: list[_UnreadBlocks], until_ns: int | None) -> Iterator[ShuffledBlock]:
    """Take the blocks whose keys are below ``until_ns`` from a heap, or all; yield them sorted."""
    while unread and (until_ns is None or unread[0].key[0] < until_ns):
        _, group, block, others = heapq.heappop(unread)
        yield block
        _push(unread, group, others)
