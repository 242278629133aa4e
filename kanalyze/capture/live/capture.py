"""The packets of an interface, while they come.

In: the name of an interface. Out: :class:`kanalyze.model.PacketBatch`. Must not know: what is
inside a packet, nor who reads.

On Linux they come through a packet socket: out of a ring that the kernel shares, or in messages
where it shares none. On macOS they come through scapy's socket.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING, Final, Protocol, Self

from kanalyze.capture.formats.parser import STANDARD_SNAP_BYTES
from kanalyze.capture.live.kernel_filter import compile_filter
from kanalyze.capture.live.packet_socket import InterfaceState
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from kanalyze.capture.formats.parser import Columns
    from kanalyze.model.packets import PacketBatch

__all__ = ["DEFAULT_BUFFER_BYTES", "DEFAULT_GATHER_S", "InterfaceState", "LiveCapture"]

DEFAULT_BUFFER_BYTES: Final = 128 << 20
"""Enough for two fifths of a second of 200,000 packets of 1,500 bytes a second."""
DEFAULT_GATHER_S: Final = 0.5
"""Large batches take less time per packet: at 5,000 a second half as much as batches of 0.1 s."""
_LOOK_EVERY_S: Final = 0.01


class _Source(Protocol):
    """What listens on the interface."""

    link_type: int
    is_promiscuous: bool

    @property
    def state(self) -> InterfaceState: ...

    @property
    def counts(self) -> tuple[int, int]: ...

    def fileno(self) -> int: ...

    def clear_error(self) -> None: ...

    def close(self) -> None: ...


class _Feed(Protocol):
    """How packets get from there to here."""

    description: str

    @property
    def is_filling(self) -> bool: ...

    def take(self) -> tuple[memoryview, Columns] | None: ...

    def give_back(self) -> None: ...

    def close(self) -> None: ...


class _Opened(NamedTuple):
    source: _Source
    feed: _Feed


class LiveCapture:
    """An interface that is listened on; a context manager that ends that.

    ``interface`` is a name, on Linux also ``any``. ``filter_text`` is an expression in tcpdump's
    language that the kernel applies (see :mod:`kanalyze.capture.live.kernel_filter`; None for
    none). ``promiscuous`` asks for packets that are not for this machine too. ``buffer_bytes`` is
    held by the kernel until it is read; ``snap_bytes`` (at most 262,144) is kept of each packet.
    Batches are ``gather_s`` apart, so that they are not many small ones, or less where the buffer
    would fill.

    Packets of the loopback interface are given once, as they come in; those of others as they come
    in and go out. What the kernel puts together for speed (GRO, TSO) is one packet here, larger
    than the interface's MTU.

    Raises :class:`CaptureError` when there is no such interface, no right to capture, or nothing to
    compile a filter with, :class:`UsageError` for a wrong filter.
    """

    def __init__(
        self,
        interface: str,
        *,
        filter_text: str | None = None,
        promiscuous: bool = True,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        snap_bytes: int = STANDARD_SNAP_BYTES,
        gather_s: float = DEFAULT_GATHER_S,
    ) -> None:
        if not 0 < snap_bytes <= STANDARD_SNAP_BYTES:
            raise UsageError(f"not a snap length: {snap_bytes} (1 to {STANDARD_SNAP_BYTES})")
        self.name = interface
        self.packets = 0
        """Packets handed out so far."""
        self._filter_text = filter_text
        self._promiscuous = promiscuous
        self._buffer_bytes = buffer_bytes
        self._snap_bytes = snap_bytes
        self._gather_s = gather_s
        self._gathered_s = 0.0
        """When the next batch may be handed out, however small it is."""
        self._received_before = 0
        self._dropped_before = 0
        self._use(self._open())

    @property
    def link_type(self) -> int:
        """LINKTYPE_ value of the packets: 1 Ethernet, 101 raw IP, 276 Linux cooked, ..."""
        return self._source.link_type

    @property
    def is_promiscuous(self) -> bool:
        """True if packets for other machines are captured too."""
        return self._source.is_promiscuous

    @property
    def state(self) -> InterfaceState:
        """How the interface is at this moment; asks the system."""
        return self._source.state

    @property
    def received_packets(self) -> int:
        """Packets that the filter took so far, by the kernel's count; those dropped among them."""
        return self._received_before + self._source.counts[0]

    @property
    def dropped_packets(self) -> int:
        """Packets that the filter took and that found no room in the buffer, so far."""
        return self._dropped_before + self._source.counts[1]

    @property
    def description(self) -> str:
        """How packets are captured, for people."""
        parts = [self._feed.description]
        if self.is_promiscuous:
            parts.insert(0, "promiscuous")
        if self._filter_text is not None:
            parts.append("filtered by the kernel")
        return f"{self.name}: {', '.join(parts)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def read(self, timeout_s: float) -> PacketBatch | None:
        """Return the packets since the last call, or None if none are due in ``timeout_s``.

        A packet may be on its way for a twentieth of a second, and for what is gathered on top. The
        batch's buffer is valid until the next call. An interface that is down gives nothing until
        it is up again; one that was removed gives nothing until :meth:`reopen`.
        """
        if self._source.fileno() < 0:
            return None  # closed
        self._feed.give_back()
        until_s = time.monotonic() + timeout_s
        while True:
            now_s = time.monotonic()
            is_gathered = now_s >= self._gathered_s or self._feed.is_filling
            gathered = self._feed.take() if is_gathered else None
            if gathered is not None and len(gathered[1]):
                self._gathered_s = now_s + self._gather_s
                return self._numbered(*gathered)
            self._feed.give_back()  # the caller wants packets, not blocks
            if now_s >= until_s:
                return None
            if is_gathered:
                self._wait(until_s - now_s)
            else:
                time.sleep(min(self._gathered_s - now_s, until_s - now_s, _LOOK_EVERY_S))

    def reopen(self) -> bool:
        """Listen on the interface of that name that there is now; whether there is one.

        Counts and numbers continue. The unread packets of the old one are lost, and its last batch;
        read before. Raises :class:`CaptureError` when there is one that cannot be listened on.
        """
        if not self._is_there():
            return False
        try:
            opened = self._open()
        except CaptureError:
            # One that comes and goes may have gone again.
            if self._is_there():
                raise
            return False
        self.close()
        self._received_before, self._dropped_before = self.received_packets, self.dropped_packets
        self._use(opened)
        return True

    def close(self) -> None:
        """End the capture. What the last batch is over goes with it: it can be read no longer."""
        self._feed.give_back()
        self._source.close()
        self._feed.close()

    def _is_there(self) -> bool:
        try:
            socket.if_nametoindex(self.name)
        except OSError:
            return False
        return True

    def _open(self) -> _Opened:
        if hasattr(socket, "AF_PACKET"):
            return _open_linux(
                self.name,
                self._filter_text,
                self._buffer_bytes,
                self._snap_bytes,
                promiscuous=self._promiscuous,
            )
        from kanalyze.capture.live.bpf_device import BpfFeed, BpfSocket

        source = BpfSocket(self.name, self._filter_text, promiscuous=self._promiscuous)
        return _Opened(source, BpfFeed(source, self._snap_bytes))

    def _use(self, opened: _Opened) -> None:
        self._source, self._feed = opened
        self._poll = select.poll()
        self._poll.register(self._source.fileno(), select.POLLIN)

    def _numbered(self, buffer: memoryview, columns: Columns) -> PacketBatch:
        first_number = self.packets + 1
        self.packets += len(columns)
        return columns.batch(buffer, first_number)

    def _wait(self, timeout_s: float) -> None:
        if any(event & select.POLLERR for _, event in self._poll.poll(timeout_s * 1000)):
            self._source.clear_error()


def _open_linux(
    name: str, filter_text: str | None, buffer_bytes: int, snap_bytes: int, *, promiscuous: bool
) -> _Opened:
    """Listen on an interface: nothing comes before the filter is there."""
    from kanalyze.capture.live.interfaces import link_type_of
    from kanalyze.capture.live.packet_socket import PacketSocket
    from kanalyze.capture.live.ring import open_ring
    from kanalyze.capture.live.socket_messages import MessageFeed

    filtering = None
    if filter_text is not None:
        filtering = compile_filter(filter_text, link_type_of(name), name)
    source = PacketSocket(name, filtering, snap_bytes)
    try:
        feed: _Feed | None = open_ring(source, buffer_bytes, snap_bytes)
        if feed is None:
            feed = MessageFeed(source, buffer_bytes, snap_bytes)
        source.start(promiscuous=promiscuous)
    except BaseException:
        source.close()
        raise
    return _Opened(source, feed)
