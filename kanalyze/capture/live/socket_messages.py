"""Reads packets from a socket as messages, many per call: for kernels without shared rings.

In: a packet socket. Out: :class:`~kanalyze.capture.formats.parser.Columns` over one buffer.

Each packet is copied, and the socket queues packets one by one. gVisor and other systems that
behave like Linux have no faster way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.capture.formats.packet_scan import ColumnMaker
from kanalyze.capture.live.kernel_packets import KernelScan
from kanalyze.capture.live.packet_socket import ADDRESS_BYTES, HEADROOM_BYTES, SOL_PACKET
from kanalyze.errors import CaptureError
from kanalyze.model.packet_arrays import gather, to_column

if TYPE_CHECKING:
    from kanalyze.capture.formats.parser import Columns
    from kanalyze.capture.live.packet_socket import PacketSocket

__all__ = ["MessageFeed"]

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

    def take(self) -> tuple[memoryview, Columns] | None:
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
        return view, self._maker.take_all()

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
