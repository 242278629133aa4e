"""A packet socket of Linux: opens, filters and starts it, reads its state (packet(7)), its packets.

In: the name of an interface, a program for the kernel. Out: :class:`PacketSocket`, and
:class:`~kanalyze.capture.formats.parser.Columns` over memory of the kernel, or over one buffer.

scapy has such a socket too. It is not used: it imports all of scapy (half a second), listens before
it is filtered, queues packets one by one, and takes one more system call for each packet's address.
Without these, only the few calls below are left.

:class:`RingFeed` reads packets from memory that the kernel shares, and copies none: a ring of
blocks, each with many packets. The layout is that of TPACKET_V3 (linux/if_packet.h;
Documentation/networking/packet_mmap.rst): the kernel fills block after block, passes each to the
program when it is full or some time has passed, and drops packets if the program has not given back
the next one.

:class:`MessageFeed` is for kernels without shared rings: gVisor and other systems that behave like
Linux have no faster way. It reads packets as messages, many per call; each packet is copied, and
the socket queues packets one by one.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import errno
import mmap
import os
import shlex
import socket
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.capture.formats.packet_scan import ColumnMaker, KernelScan
from kanalyze.capture.live.interfaces import ANY, COOKED, link_type_of
from kanalyze.capture.live.kernel_filter import EVERYTHING, NOTHING, assembled, program_for
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, reason_of
from kanalyze.model.packet_arrays import gather, to_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.capture.live.kernel_filter import Instruction
    from kanalyze.model.packets import PacketBatch

SOL_PACKET: Final = 263
HEADROOM_BYTES: Final = 24
"""Free bytes before each packet, for a header that the kernel removed."""
ADDRESS_BYTES: Final = 20
"""Size of ``struct sockaddr_ll`` (packet(7))."""
_ADD_MEMBERSHIP: Final = 1
_DROP_MEMBERSHIP: Final = 2
_STATISTICS: Final = 6
_PROMISCUOUS: Final = 1
_ALL_PROTOCOLS: Final = 3
_ATTACH_FILTER: Final = 26
_TIMESTAMPS_NS: Final = 35
_GET_FLAGS: Final = 0x8913
_GET_NUMBER: Final = 0x8933
_REQUEST: Final = struct.Struct("@16s24x")
"""``struct ifreq`` (netdevice(7)): a name, after which the kernel writes the result."""
_NAME_BYTES: Final = 16
_ADDRESS: Final = struct.Struct("@HHi12x")
"""``struct sockaddr_ll``: its family, a protocol, the number of an interface."""
_UP_FLAG: Final = 0x1
_LOOPBACK_FLAG: Final = 0x8
_COUNTS: Final = struct.Struct("@2I")
"""``struct tpacket_stats``: received packets, and how many of these were dropped."""


class InterfaceState(enum.Enum):
    """State of the interface that packets are captured on."""

    UP = "up"
    DOWN = "down"
    """No packets come until it is up again."""
    REMOVED = "removed"
    """No packets come from this socket any more, even if a new interface has the same name."""


class PacketSocket:
    """A socket that gets the packets of an interface, once it is started.

    The filter is set before it is started, so that every packet passes it. Raises
    :class:`CaptureError` if there is no such interface, or no right to capture.
    """

    def __init__(
        self, interface: str, filtering: Sequence[Instruction] | None, snap_bytes: int
    ) -> None:
        self.interface = interface
        self.link_type = link_type_of(interface)
        """LINKTYPE_ value of the packets."""
        self.is_promiscuous = False
        """Whether packets for other machines come too."""
        self._received_packets = 0
        self._dropped_packets = 0
        kind = socket.SOCK_DGRAM if self.link_type == COOKED else socket.SOCK_RAW
        try:
            # Without a protocol nothing comes before start().
            self.socket = socket.socket(socket.AF_PACKET, kind, 0)
        except PermissionError as error:
            raise CaptureError(_who_may(interface)) from error
        except OSError as error:
            raise CaptureError(f"{interface}: {_reason(error)}") from error
        try:
            # Packets get their time when they arrive, not when they are read.
            self.socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS_NS, 1)
            self._attach(program_for(filtering or EVERYTHING, snap_bytes))
        except OSError as error:
            self.socket.close()
            raise CaptureError(f"{interface}: {_reason(error)}") from error
        except BaseException:
            self.socket.close()
            raise

    def start(self, *, promiscuous: bool) -> None:
        """Start to receive packets; raises :class:`CaptureError` if the interface was removed."""
        try:
            if self.interface == ANY:
                self._bind_to_all()
                return
            self.socket.bind((self.interface, _ALL_PROTOCOLS))
            if promiscuous and not self._flags(self.interface) & _LOOPBACK_FLAG:
                self._set_membership(_ADD_MEMBERSHIP)
                self.is_promiscuous = True
        except OSError as error:
            raise CaptureError(f"{self.interface}: {_reason(error)}") from error

    @property
    def state(self) -> InterfaceState:
        """The current state of the interface. ``any`` is always up."""
        if self.interface == ANY:
            return InterfaceState.UP
        name = self._name()
        if not name:
            return InterfaceState.REMOVED
        try:
            is_up = self._flags(name) & _UP_FLAG
        except OSError:
            return InterfaceState.REMOVED
        return InterfaceState.UP if is_up else InterfaceState.DOWN

    @property
    def counts(self) -> tuple[int, int]:
        """Packets that passed the filter so far, and how many of these were dropped."""
        if self.socket.fileno() >= 0:
            # The kernel resets its counts each time they are read.
            counts = self.socket.getsockopt(SOL_PACKET, _STATISTICS, _COUNTS.size)
            received, dropped = _COUNTS.unpack(counts)
            self._received_packets += received
            self._dropped_packets += dropped
        return self._received_packets, self._dropped_packets

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self.socket.fileno()

    def clear_error(self) -> None:
        """Clear the error of an interface that went down; else poll() would always report it."""
        self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def close(self) -> None:
        """End the capture, even if memory shared with the kernel is still in use."""
        if self.socket.fileno() < 0:
            return
        _ = self.counts
        self._attach(NOTHING)
        if self.is_promiscuous:
            with contextlib.suppress(OSError):  # it was removed
                self._set_membership(_DROP_MEMBERSHIP)
        self.socket.close()

    def _bind_to_all(self) -> None:
        # Python's bind() needs the name of an interface.
        address = _ADDRESS.pack(socket.AF_PACKET, socket.htons(_ALL_PROTOCOLS), 0)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.bind(self.socket.fileno(), address, len(address)):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def _attach(self, program: Sequence[Instruction]) -> None:
        code = ctypes.create_string_buffer(assembled(program))
        described = struct.pack("@HP", len(program), ctypes.addressof(code))
        self.socket.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, described)

    def _set_membership(self, request: int) -> None:
        number = struct.unpack_from("@i", self._ask(_GET_NUMBER, self._name()), _NAME_BYTES)[0]
        membership = struct.pack("@iHH8x", number, _PROMISCUOUS, 0)
        self.socket.setsockopt(SOL_PACKET, request, membership)

    def _name(self) -> str:
        """Return the current name of the interface bound to; empty if it was removed."""
        name: str = self.socket.getsockname()[0]
        return name

    def _flags(self, name: str) -> int:
        flags: int = struct.unpack_from("@H", self._ask(_GET_FLAGS, name), _NAME_BYTES)[0]
        return flags

    def _ask(self, request: int, name: str) -> bytes:
        import fcntl  # not on Windows

        return fcntl.ioctl(self.socket, request, _REQUEST.pack(name.encode()))


def _who_may(interface: str) -> str:
    # Not suggested: to grant the right to the interpreter. Every Python program could capture then.
    tcpdump = f"sudo tcpdump -i {shlex.quote(interface)} -U -s 0 -w -"
    return (
        f"{interface}: no right to capture: run as root, or let tcpdump do it"
        f" ({tcpdump} | kanalyze live -)"
    )


def _reason(error: OSError) -> str:
    if error.errno == errno.ENODEV:
        return "no such interface"
    return reason_of(error).lower()


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

    def take(self) -> PacketBatch | None:
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
        return self._maker.take(view)

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

    def take(self) -> PacketBatch | None:
        """Return the packets since :meth:`give_back`; None for none."""
        batch = self._ring.take() if self._ring is not None else None
        if batch is not None:
            self._taken = batch.buffer
        return batch

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


_AUXILIARY: Final = 8
_RECEIVE_BUFFER: Final = 8
_RECEIVE_BUFFER_FORCED: Final = 33
_MAX_PACKETS: Final = 512
"""Most packets per call."""
_LARGEST_PACKET_BYTES: Final = 66 << 10
"""The largest packet that is not cut here: the largest of IP, and the headers before it."""
_MAX_QUEUE_BYTES: Final = (1 << 31) - 1


class _MessageHeader(ctypes.Structure):
    """``struct mmsghdr``; pointers are numbers, so that NumPy sets and reads them by columns.

    ``flags`` are an int with the padding of ``struct msghdr`` after it.
    """

    _fields_ = (
        ("name", ctypes.c_size_t),
        ("name_bytes", ctypes.c_uint32),
        ("vectors", ctypes.c_size_t),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_size_t),
        ("control_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_size_t),
        ("wire", ctypes.c_uint),
    )


_IO_VECTOR: Final = np.dtype([("base", np.uintp), ("length", np.uintp)])
_CONTROL: Final = np.dtype(
    [
        *(("time_length", np.uintp), ("time_level", "=i4"), ("time_type", "=i4")),
        *(("seconds", np.dtype("l")), ("nanoseconds", np.dtype("l"))),
        *(("length", np.uintp), ("level", "=i4"), ("type", "=i4")),
        *(("status", "=u4"), ("wire", "=u4"), ("captured", "=u4")),
        *(("link_at", "=u2"), ("network_at", "=u2")),
        *(("tag_control", "=u2"), ("tag_protocol", "=u2"), ("padding", "V4")),
    ]
)
"""The control data of each packet, in this order: its time, then ``struct tpacket_auxdata``."""
_NS_PER_SECOND: Final = 1_000_000_000


class _Slots:
    """The memory for the packets of one call: for each an address, control data, and its bytes."""

    def __init__(self, count: int, packet_bytes: int) -> None:
        self.control_at = ADDRESS_BYTES + -ADDRESS_BYTES % 8
        self.packet_at = self.control_at + _CONTROL.itemsize + HEADROOM_BYTES
        stride = self.packet_at + packet_bytes + -(self.packet_at + packet_bytes) % 8
        self.packet_bytes = packet_bytes
        self.buffer = np.zeros(count * stride, np.uint8)
        self.starts = np.arange(count, dtype=np.int64) * stride
        base = self.buffer.ctypes.data + self.starts.astype(np.uintp)
        self._vectors = np.empty(count, _IO_VECTOR)
        self._vectors["base"] = base + np.uintp(self.packet_at)
        self._vectors["length"] = packet_bytes
        self.messages = np.zeros(count, np.dtype(_MessageHeader))
        self.messages["name"] = base
        self.messages["control"] = base + np.uintp(self.control_at)
        vectors_at = np.arange(count, dtype=np.uintp) * np.uintp(_IO_VECTOR.itemsize)
        self.messages["vectors"] = self._vectors.ctypes.data + vectors_at
        self.messages["vector_count"] = 1

    def ready(self) -> Any:
        """Reset the lengths; return the address that ``recvmmsg`` takes."""
        self.messages["name_bytes"] = ADDRESS_BYTES
        self.messages["control_bytes"] = _CONTROL.itemsize
        return self.messages.ctypes.data


class MessageFeed:
    """The packets of a socket that was not started yet, in messages."""

    def __init__(self, packet_socket: PacketSocket, buffer_bytes: int, snap_bytes: int) -> None:
        self._socket = packet_socket.socket
        self._scan = KernelScan(packet_socket.link_type, snap_bytes)
        self._maker = ColumnMaker()
        self._socket.setsockopt(SOL_PACKET, _AUXILIARY, 1)
        queue_bytes = _enlarge_queue(self._socket, min(buffer_bytes, _MAX_QUEUE_BYTES))
        packet_bytes = min(snap_bytes, _LARGEST_PACKET_BYTES)
        count = min(max(buffer_bytes // 2 // packet_bytes, 1), _MAX_PACKETS)
        self._slots = _Slots(count, packet_bytes)
        self._last_count = 0
        self._receive = ctypes.CDLL(None, use_errno=True).recvmmsg
        self.description = (
            f"in messages, as the kernel shares no ring, out of a queue of {queue_bytes >> 20} MiB"
        )

    @property
    def is_filling(self) -> bool:
        """Whether the last call was full, so that more packets are likely to wait."""
        return self._last_count == len(self._slots.messages)

    def take(self) -> PacketBatch | None:
        """Return the packets that have come; None for none. They are valid until the next call."""
        count = self._last_count = self._receive_all()
        if not count:
            return None
        slots = self._slots
        view = slots.buffer.data
        starts = slots.starts[:count]
        control = gather(view, _CONTROL, starts + slots.control_at)
        has_no_time = (control["time_level"] != socket.SOL_SOCKET).any()
        if has_no_time or (control["level"] != SOL_PACKET).any():
            raise CaptureError("the kernel does not tell when packets came")
        time_ns = control["seconds"].astype(np.int64) * _NS_PER_SECOND + control["nanoseconds"]
        captured = np.minimum(slots.messages["wire"][:count], slots.packet_bytes)
        numbers = (time_ns, starts + slots.packet_at, captured, control["wire"], control["status"])
        tags = (control["tag_control"], control["tag_protocol"])
        columns = [to_column(column.astype(np.int64)) for column in (*numbers, *tags, starts)]
        self._scan.scan_columns(view, columns, self._maker)
        return self._maker.take(view)

    def give_back(self) -> None:
        """Do nothing: the memory is used again in any case."""

    def close(self) -> None:
        """Do nothing: only memory is in use."""

    def _receive_all(self) -> int:
        messages = self._slots.ready()
        count = self._receive(
            self._socket.fileno(),
            ctypes.c_void_p(messages),
            len(self._slots.messages),
            socket.MSG_DONTWAIT | socket.MSG_TRUNC,
            None,
        )
        if count >= 0:
            return int(count)
        number = ctypes.get_errno()
        if number in (errno.EAGAIN, errno.EINTR, errno.ENETDOWN):
            return 0
        raise CaptureError(f"capturing: {os.strerror(number).lower()}")


def _enlarge_queue(queue: socket.socket, queue_bytes: int) -> int:
    """Make the socket's queue as large as may be; return how large it is."""
    for option in (_RECEIVE_BUFFER_FORCED, _RECEIVE_BUFFER):
        try:
            queue.setsockopt(socket.SOL_SOCKET, option, queue_bytes)
            break
        except PermissionError:
            continue  # sizes above the system's limit need CAP_NET_ADMIN
    size: int = queue.getsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER)
    return size
