"""Reads packets from memory that the kernel shares: a ring of blocks, each with many packets.

In: a packet socket. Out: :class:`~kanalyze.capture.formats.parser.Columns` over the ring itself: no
packet is copied.

The layout is that of TPACKET_V3 (linux/if_packet.h; Documentation/networking/packet_mmap.rst): the
kernel fills block after block, passes each to the program when it is full or some time has passed,
and drops packets if the program has not given back the next one.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import struct
from typing import TYPE_CHECKING, Final

from kanalyze.capture.formats.packet_scan import ColumnMaker
from kanalyze.capture.live.kernel_packets import KernelScan
from kanalyze.capture.live.packet_socket import HEADROOM_BYTES, SOL_PACKET
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kanalyze.capture.formats.parser import Columns
    from kanalyze.capture.live.packet_socket import PacketSocket

__all__ = ["BlockRing", "RingFeed", "RingLayout", "open_ring"]

_RX_RING: Final = 5
_VERSION: Final = 10
_RESERVE: Final = 12
_VERSION_3: Final = 2

_MIN_BLOCK_BYTES: Final = 256 << 10
_MIN_BLOCKS: Final = 4
_FRAME_BYTES: Final = 2048
"""Not used in this version, but the kernel checks it."""
RETIRE_MS: Final = 50
"""The kernel passes on a block that is not full after this time."""
_PACKET_OVERHEAD_BYTES: Final = 4096
"""More than the headers of a block and of a packet in it."""

_BLOCK_STATUS_AT: Final = 8
_OF_KERNEL: Final = 0
_OF_USER: Final = 1

_MAX_TAKEN_BYTES: Final = 16 << 20


class RingLayout(NamedTuple):
    """Sizes of a ring."""

    block_bytes: int
    block_count: int

    @classmethod
    def of(cls, buffer_bytes: int, snap_bytes: int) -> RingLayout:
        """Return a ring of at most ``buffer_bytes`` whose blocks can hold the largest packet.

        It is larger if four such blocks, the least number, need more.
        """
        block_bytes = _MIN_BLOCK_BYTES
        while block_bytes < snap_bytes + _PACKET_OVERHEAD_BYTES:
            block_bytes *= 2
        return cls(block_bytes, max(buffer_bytes // block_bytes, _MIN_BLOCKS))

    @property
    def total_bytes(self) -> int:
        """Size of the ring."""
        return self.block_bytes * self.block_count


class BlockRing:
    """Reads blocks in shared memory; it makes no system calls."""

    def __init__(
        self, memory: memoryview, layout: RingLayout, link_type: int, snap_bytes: int
    ) -> None:
        self._memory = memory
        self._layout = layout
        self._scan = KernelScan(link_type, snap_bytes)
        self._maker = ColumnMaker()
        self._words = memory.cast("I")
        self._first = 0
        """The next block to be read."""
        self._taken_blocks = 0
        """Number of blocks before it that were read and not given back."""
        # While these blocks are read, the kernel fills the others: three quarters, or more in a
        # large ring, because the columns of a batch take as much memory again.
        most = min(layout.block_count // 4, _MAX_TAKEN_BYTES // layout.block_bytes)
        self._most_blocks = max(most, 1)

    @property
    def is_filling(self) -> bool:
        """Whether :meth:`take` would return as much as it ever does."""
        return self._count_ready() == self._most_ready()

    def take(self) -> tuple[memoryview, Columns] | None:
        """Return the packets of the blocks that the kernel has passed on; None if there are none.

        Up to 16 MiB, and at most a quarter of the ring. They are valid until :meth:`give_back`. A
        block is never read twice, and blocks are read in their order.
        """
        ready = self._count_ready()
        if not ready:
            return None
        start = self._first * self._layout.block_bytes
        view = self._memory[start : start + ready * self._layout.block_bytes]
        self._first = (self._first + ready) % self._layout.block_count
        self._taken_blocks += ready
        self._scan.blocks(view, self._layout.block_bytes, ready, self._maker)
        return view, self._maker.take_all()

    def give_back(self) -> None:
        """Give the blocks that were read back to the kernel."""
        for block in range(self._first - self._taken_blocks, self._first):
            self._words[self._word(block % self._layout.block_count, _BLOCK_STATUS_AT)] = _OF_KERNEL
        self._taken_blocks = 0

    def _count_ready(self) -> int:
        """Return how many blocks from the next one on can be read, up to the end of the ring.

        The kernel writes a block before its status. No memory barrier is needed to read them in
        that order: the interpreter executes far more in between than a processor reads ahead.
        """
        most = self._most_ready()
        status = self._word(self._first, _BLOCK_STATUS_AT)
        step = self._layout.block_bytes // self._words.itemsize
        for ready in range(most):
            if not self._words[status + ready * step] & _OF_USER:
                return ready
        return most

    def _most_ready(self) -> int:
        return min(self._most_blocks - self._taken_blocks, self._layout.block_count - self._first)

    def _word(self, block: int, at: int) -> int:
        return (block * self._layout.block_bytes + at) // self._words.itemsize


class RingFeed:
    """The packets of a socket, through a ring that it shares."""

    def __init__(self, packet_socket: PacketSocket, layout: RingLayout, snap_bytes: int) -> None:
        self._memory = mmap.mmap(packet_socket.socket.fileno(), layout.total_bytes)
        self._ring: BlockRing | None = BlockRing(
            memoryview(self._memory), layout, packet_socket.link_type, snap_bytes
        )
        self._taken: memoryview | None = None
        """The memory of the last batch."""
        self.description = f"a ring of {layout.total_bytes >> 20} MiB shared with the kernel"

    @property
    def is_filling(self) -> bool:
        """Whether there are enough packets to return them without waiting for more."""
        return self._ring is not None and self._ring.is_filling

    def take(self) -> tuple[memoryview, Columns] | None:
        """Return the packets since :meth:`give_back`; None for none."""
        block = self._ring.take() if self._ring is not None else None
        if block is not None:
            self._taken = block[0]
        return block

    def give_back(self) -> None:
        """Release the packets of the last batch."""
        if self._ring is not None:
            self._ring.give_back()

    def close(self) -> None:
        """Free the ring: batches cannot be read any more.

        Memory that another view still uses is freed with that view.
        """
        self._ring = None
        with contextlib.suppress(BufferError):
            if self._taken is not None:
                # The last batch still refers to this memory.
                self._taken.release()
            self._memory.close()


def open_ring(packet_socket: PacketSocket, buffer_bytes: int, snap_bytes: int) -> RingFeed | None:
    """Make the ring of a socket that was not started; None if the kernel has no such rings.

    It is smaller than ``buffer_bytes`` if the kernel cannot allocate as much.
    """
    layout = RingLayout.of(buffer_bytes, snap_bytes)
    options = packet_socket.socket
    try:
        options.setsockopt(SOL_PACKET, _VERSION, _VERSION_3)
        options.setsockopt(SOL_PACKET, _RESERVE, HEADROOM_BYTES)
    except OSError:
        return None
    while True:
        try:
            options.setsockopt(SOL_PACKET, _RX_RING, _request(layout))
            return RingFeed(packet_socket, layout, snap_bytes)
        except OSError as error:
            if error.errno != errno.ENOMEM or layout.block_count < 2 * _MIN_BLOCKS:
                return None
            layout = layout._replace(block_count=layout.block_count // 2)


def _request(layout: RingLayout) -> bytes:
    """``struct tpacket_req3``."""
    frames = layout.total_bytes // _FRAME_BYTES
    return struct.pack(
        "@7I", layout.block_bytes, layout.block_count, _FRAME_BYTES, frames, RETIRE_MS, 0, 0
    )
