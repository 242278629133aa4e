"""Cases that test_capture.py cannot produce; it runs all of its tests both ways."""

from __future__ import annotations

import ctypes
import errno
import socket

import numpy as np
import pytest

from kanalyze.capture.live import packet_socket
from kanalyze.capture.live.packet_socket import MessageFeed
from kanalyze.errors import CaptureError


class Source:
    """A socket without metadata of packets, in place of a packet socket."""

    link_type = 1

    def __init__(self, receiver: socket.socket, *, forced: bool = True) -> None:
        self.socket = self
        self.queue_bytes: list[int] = []
        self._receiver = receiver
        self._forced = forced

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if level == socket.SOL_SOCKET:
            self.queue_bytes.append(value)
            if option == packet_socket._RECEIVE_BUFFER_FORCED and not self._forced:
                raise PermissionError(errno.EPERM, "not permitted")

    def getsockopt(self, level: int, option: int) -> int:
        return self.queue_bytes[-1] // len(self.queue_bytes)

    def fileno(self) -> int:
        return self._receiver.fileno()


def test_the_queue_is_as_large_as_the_system_allows() -> None:
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sender, receiver:
        feed = MessageFeed(Source(receiver), 64 << 20, 1500)  # type: ignore[arg-type]
        assert feed.description.endswith("out of a queue of 64 MiB")
        source = Source(receiver, forced=False)
        feed = MessageFeed(source, 64 << 20, 1500)  # type: ignore[arg-type]
        assert source.queue_bytes == [64 << 20, 64 << 20]
        assert feed.description.endswith("out of a queue of 32 MiB")
        feed = MessageFeed(Source(receiver), 1 << 40, 1500)  # type: ignore[arg-type]
        assert feed.description.endswith("out of a queue of 2047 MiB")


def test_packets_without_a_time_are_an_error() -> None:
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sender, receiver:
        feed = MessageFeed(Source(receiver), 1 << 20, 1500)  # type: ignore[arg-type]
        assert feed.take() is None
        sender.send(b"x")
        with pytest.raises(CaptureError, match=r"^the kernel does not tell when packets came$"):
            feed.take()


def test_other_errors_are_reported() -> None:
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.close()
    feed = MessageFeed(Source(receiver), 1 << 20, 1500)  # type: ignore[arg-type]
    receiver.close()
    with pytest.raises(CaptureError, match=r"^capturing: bad file descriptor$"):
        feed.take()


def test_structs_have_the_layout_of_the_system() -> None:
    pointer = ctypes.sizeof(ctypes.c_void_p)
    assert ctypes.sizeof(packet_socket._MessageHeader) == 8 * pointer
    assert packet_socket._CONTROL.itemsize == 4 * pointer + 40
    assert np.dtype(packet_socket._MessageHeader).fields["wire"][1] == 7 * pointer
