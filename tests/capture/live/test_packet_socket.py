"""A packet socket without the kernel: its errors, blocks of a ring, messages."""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kanalyze.capture.live import packet_socket
from kanalyze.capture.live.kernel_filter import EVERYTHING, NOTHING
from kanalyze.capture.live.packet_socket import (
    BlockRing,
    InterfaceState,
    MessageFeed,
    PacketSocket,
    RingLayout,
    open_ring,
)
from kanalyze.errors import CaptureError
from tests.support.packets import segment

if TYPE_CHECKING:
    from kanalyze.model.packets import PacketBatch
    from tests.support.netns import Namespace


def test_counts_rise_and_stay_after_the_socket_is_closed(namespace: Namespace) -> None:
    namespace.add_pair()
    with namespace.inside():
        source = PacketSocket("other", None, 100)
        namespace.send([segment()] * 2)  # before it is started
        source.start(promiscuous=False)
        assert source.counts == (0, 0)
        namespace.send([segment()] * 3)
        assert source.counts == (3, 0)
        assert source.counts == (3, 0)
        namespace.send([segment()] * 4)
        source.close()
        source.close()
    assert source.counts == (7, 0)
    assert source.fileno() == -1


def test_a_filter_applies_from_the_start(namespace: Namespace) -> None:
    namespace.add_pair()
    with namespace.inside():
        for filtering, expected in ((EVERYTHING, 5), (NOTHING, 0), (None, 5)):
            source = PacketSocket("other", filtering, 100)
            source.start(promiscuous=True)
            namespace.send([segment()] * 5)
            assert source.counts == (expected, 0)
            source.close()


def test_the_state_follows_the_interface(namespace: Namespace) -> None:
    namespace.add_pair()
    with namespace.inside():
        source, everywhere = PacketSocket("other", None, 100), PacketSocket("any", None, 100)
        for one in (source, everywhere):
            one.start(promiscuous=True)
    assert source.is_promiscuous
    assert not everywhere.is_promiscuous
    assert source.state is InterfaceState.UP
    namespace.ip("link", "set", "other", "down")
    assert source.state is InterfaceState.DOWN
    namespace.ip("link", "set", "other", "name", "renamed", "up")
    assert source.state is InterfaceState.UP
    namespace.ip("link", "del", "one")
    assert source.state is InterfaceState.REMOVED
    assert everywhere.state is InterfaceState.UP
    for one in (source, everywhere):
        one.close()


def test_an_interface_removed_before_the_start_is_an_error(namespace: Namespace) -> None:
    namespace.add_pair()
    with namespace.inside():
        source = PacketSocket("other", None, 100)
        namespace.ip("link", "del", "one")
        with pytest.raises(CaptureError, match=r"^other: no such interface$"):
            source.start(promiscuous=True)
        source.close()


LAYOUT = RingLayout(4096, 8)
LINK_AT = 106
START_S = 1_700_000_000


class Kernel:
    """Fills blocks in order, as long as the next one has been given back."""

    def __init__(self, layout: RingLayout = LAYOUT) -> None:
        self.memory = bytearray(layout.total_bytes)
        self.block = 0
        self.layout = layout

    def hand_over(self, *packets: bytes) -> bool:
        start = self.block * self.layout.block_bytes
        if struct.unpack_from("=I", self.memory, start + 8)[0]:
            return False
        at = start + 48
        for number, packet in enumerate(packets):
            size = LINK_AT + len(packet)
            size += -size % 8
            is_last = number == len(packets) - 1
            header = (0 if is_last else size, START_S, number, len(packet), len(packet) + 1, 1)
            struct.pack_into("=IIIIIIHH", self.memory, at, *header, LINK_AT, LINK_AT + 14)
            self.memory[at + LINK_AT : at + LINK_AT + len(packet)] = packet
            at += size
        struct.pack_into("=III", self.memory, start + 8, 1, len(packets), 48)
        self.block = (self.block + 1) % self.layout.block_count
        return True


def ring_of(kernel: Kernel) -> BlockRing:
    return BlockRing(memoryview(kernel.memory), kernel.layout, 1, 65536)


def data(taken: PacketBatch | None) -> list[bytes]:
    assert taken is not None
    pairs = zip(taken.offset, taken.captured_bytes, strict=True)
    return [bytes(taken.buffer[offset : offset + size]) for offset, size in pairs]


def test_all_packets_of_a_block_are_read() -> None:
    kernel = Kernel()
    ring = ring_of(kernel)
    assert ring.take() is None
    packets = [b"a" * 60, b"b", b"", b"d" * 700]
    kernel.hand_over(*packets)
    taken = ring.take()
    assert data(taken) == packets
    assert taken is not None
    assert taken.time_ns.tolist() == [START_S * 10**9 + number for number in range(4)]
    assert taken.wire_bytes.tolist() == [61, 2, 1, 701]
    assert taken.link_type.tolist() == [1] * 4
    assert ring.take() is None


def test_a_block_may_have_no_packets() -> None:
    kernel = Kernel()
    ring = ring_of(kernel)
    kernel.hand_over()
    assert ring.take() is None
    ring.give_back()
    kernel.hand_over(b"next")
    assert data(ring.take()) == [b"next"]


def test_blocks_are_given_back_in_order_around_the_ring() -> None:
    kernel = Kernel()
    ring = ring_of(kernel)
    expected = 0
    sent = 0
    for turn in range(50):
        for _ in range(turn % 3):
            sent += kernel.hand_over(b"%06d" % sent)
        while (taken := ring.take()) is not None:
            for packet in data(taken):
                assert packet == b"%06d" % expected
                expected += 1
            ring.give_back()
    assert expected == sent > 40


def test_taken_blocks_are_not_filled_before_they_are_given_back() -> None:
    kernel = Kernel()
    ring = ring_of(kernel)
    handed_over = 0
    while kernel.hand_over(b"%06d" % handed_over):
        handed_over += 1
    assert handed_over == LAYOUT.block_count
    assert ring.is_filling
    taken = ring.take()
    first = data(taken)
    assert len(first) == LAYOUT.block_count // 4
    assert not kernel.hand_over(b"no room")
    assert ring.take() is None  # no more blocks are taken at a time
    assert data(taken) == first
    ring.give_back()
    assert kernel.hand_over(b"more")
    assert kernel.hand_over(b"more")
    assert not kernel.hand_over(b"no room")
    assert data(ring.take()) == [b"000002", b"000003"]


def test_a_batch_does_not_cross_the_end_of_the_ring() -> None:
    kernel = Kernel()
    ring = ring_of(kernel)
    for number in range(7):
        kernel.hand_over(b"%06d" % number)
        assert data(ring.take()) == [b"%06d" % number]
        ring.give_back()
    assert not ring.is_filling
    kernel.hand_over(b"last")
    assert ring.is_filling  # no block comes after it
    kernel.hand_over(b"first")
    assert data(ring.take()) == [b"last"]
    ring.give_back()
    assert data(ring.take()) == [b"first"]


@pytest.mark.parametrize(
    ("buffer_bytes", "snap_bytes", "expected"),
    [
        (64 << 20, 262_144, RingLayout(512 << 10, 128)),
        (64 << 20, 1500, RingLayout(256 << 10, 256)),
        (1, 1500, RingLayout(256 << 10, 4)),
        (1, 1 << 20, RingLayout(2 << 20, 4)),
    ],
)
def test_a_block_holds_the_largest_packet(
    buffer_bytes: int, snap_bytes: int, expected: RingLayout
) -> None:
    layout = RingLayout.of(buffer_bytes, snap_bytes)
    assert layout == expected
    assert layout.total_bytes <= max(buffer_bytes, 4 * layout.block_bytes)


class Refusing:
    """A socket that refuses some options."""

    link_type = 1

    def __init__(self, option: int, number: int, more_than_blocks: int = 0) -> None:
        self.socket = self
        self.requested_blocks: list[int] = []
        self._option, self._number, self._more_than = option, number, more_than_blocks

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        assert level == 263
        if isinstance(value, bytes):
            self.requested_blocks.append(struct.unpack_from("@7I", value)[1])
        if option == self._option and (
            not self.requested_blocks or self.requested_blocks[-1] > self._more_than
        ):
            raise OSError(self._number, "refused")

    def fileno(self) -> int:
        return -1  # memory of no file


@pytest.mark.parametrize(
    "option", [packet_socket._VERSION, packet_socket._RESERVE, packet_socket._RX_RING]
)
def test_there_is_no_ring_where_the_kernel_refuses_one(option: int) -> None:
    assert open_ring(Refusing(option, errno.EINVAL), 64 << 20, 65536) is None  # type: ignore[arg-type]


def test_a_ring_is_smaller_where_memory_is_short() -> None:
    source = Refusing(packet_socket._RX_RING, errno.ENOMEM, more_than_blocks=40)
    feed = open_ring(source, 32 << 20, 65536)  # type: ignore[arg-type]
    assert feed is not None
    assert source.requested_blocks == [128, 64, 32]
    assert feed.description == "a ring of 8 MiB shared with the kernel"
    assert feed.take() is None
    feed.close()
    assert feed.take() is None
    source = Refusing(packet_socket._RX_RING, errno.ENOMEM)
    assert open_ring(source, 32 << 20, 65536) is None  # type: ignore[arg-type]
    assert source.requested_blocks == [128, 64, 32, 16, 8, 4]


def test_the_request_has_the_size_of_the_kernels_struct() -> None:
    assert struct.calcsize("=7I") == len(packet_socket._request(LAYOUT))


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
