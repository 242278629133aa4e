"""Captures the packets of an interface.

In: the name of an interface. Out: :class:`kanalyze.model.PacketBatch`.

On Linux, packets come through a packet socket: from a ring that the kernel shares, or in messages
if it shares none. On macOS they come through the Berkeley packet filter: scapy opens the device,
sets the filter and reads the counters; packets are read here, many at once, as scapy would read
them one by one, recursively. Times are in microseconds there: the system has no finer ones.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from kanalyze.capture.formats.packet_scan import ColumnMaker, KernelScan
from kanalyze.capture.formats.parser import STANDARD_SNAP_BYTES
from kanalyze.capture.live.kernel_filter import compile_filter
from kanalyze.capture.live.packet_socket import InterfaceState
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.common.int_columns import rising
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, UsageError, reason_of

if TYPE_CHECKING:
    from kanalyze.capture.live.packet_socket import MessageFeed, PacketSocket, RingFeed
    from kanalyze.model.packets import PacketBatch


class BpfSocket:
    """scapy's listening socket; raises :class:`CaptureError` if it cannot be opened."""

    def __init__(self, interface: str, filter_text: str | None, *, promiscuous: bool) -> None:
        try:
            from scapy.arch.bpf.consts import BIOCGDLT
            from scapy.arch.bpf.supersocket import L2bpfListenSocket
            from scapy.error import Scapy_Exception
        except (ImportError, OSError) as error:
            raise CaptureError(
                f"{interface}: capturing needs scapy here: pip install 'kanalyze[live]'"
            ) from error
        try:
            listening: Any = L2bpfListenSocket  # abstract, says its type, which it is not
            self._socket = listening(iface=interface, filter=filter_text, promisc=promiscuous)
            self.link_type = _link_type(self._socket.fileno(), BIOCGDLT)
        except (Scapy_Exception, OSError) as error:
            reason = " ".join(str(error).split())
            raise CaptureError(
                f"{interface}: {reason} (capturing takes root, or the right to read /dev/bpf*)"
            ) from error
        self.is_promiscuous = promiscuous
        self.buffer_bytes: int = self._socket.get_blen()
        """The device has to be read with a buffer of exactly this size."""
        self.is_removed = False
        self._counts = 0, 0

    @property
    def state(self) -> InterfaceState:
        """UP or REMOVED; whether the interface is down is not known here."""
        return InterfaceState.REMOVED if self.is_removed else InterfaceState.UP

    @property
    def counts(self) -> tuple[int, int]:
        """Packets that reached the filter so far, and how many were dropped."""
        if self._socket.fileno() >= 0:
            received, dropped = self._socket.get_stats()
            self._counts = received or 0, dropped or 0
        return self._counts

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return int(self._socket.fileno())

    def clear_error(self) -> None:
        """Do nothing: the device keeps no error."""

    def close(self) -> None:
        """End the capture."""
        _ = self.counts
        self._socket.close()


class BpfFeed:
    """Takes the packets from a :class:`BpfSocket`."""

    description = "through /dev/bpf, times in microseconds"
    is_filling = False

    def __init__(self, source: BpfSocket, snap_bytes: int) -> None:
        self._source = source
        self._snap_bytes = snap_bytes
        self._buffer = memoryview(bytearray(source.buffer_bytes))
        os.set_blocking(source.fileno(), False)

    def take(self) -> PacketBatch | None:
        """Return the packets that have come; None for none. They are valid until the next call."""
        try:
            end = os.readv(self._source.fileno(), [self._buffer])
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.ENXIO, errno.ENETDOWN):
                raise CaptureError(f"capturing: {reason_of(error).lower()}") from error
            self._source.is_removed = error.errno == errno.ENXIO
            return None
        return bpf_packets(self._buffer[:end], self._source.link_type, self._snap_bytes)

    def give_back(self) -> None:
        """Release the packets of the last batch."""

    def close(self) -> None:
        """Do nothing: there is only memory to free."""


def bpf_packets(buffer: memoryview, link_type: int, snap_bytes: int) -> PacketBatch | None:
    """Return the packets of one read from the device; None for none."""
    maker = ColumnMaker()
    KernelScan(link_type, snap_bytes).bpf(buffer, len(buffer), maker)
    return maker.take(buffer)


def _link_type(descriptor: int, request: int) -> int:
    import fcntl  # not on Windows

    return int.from_bytes(fcntl.ioctl(descriptor, request, bytes(4)), "little")


DEFAULT_BUFFER_BYTES: Final = 128 << 20
"""Holds 0.4 s of traffic at 200,000 packets of 1,500 bytes a second."""
DEFAULT_GATHER_S: Final = 0.5
"""Large batches take less time per packet: at 5,000 packets a second half as much as batches of
0.1 s."""
_LOOK_EVERY_S: Final = 0.01


class _Opened(NamedTuple):
    source: PacketSocket | BpfSocket
    feed: RingFeed | MessageFeed | BpfFeed


class LiveCapture(ClosedAtEnd):
    """A capture of an interface; a context manager that ends it.

    ``interface`` is a name, on Linux also ``any``. ``filter_text`` is an expression in tcpdump's
    language that the kernel applies (see :mod:`kanalyze.capture.live.kernel_filter`), or None.
    ``promiscuous`` requests packets for other machines too. ``buffer_bytes`` is the size of the
    kernel's buffer for unread packets. ``snap_bytes`` (at most 262,144) are kept of each packet.
    A batch is returned every ``gather_s`` seconds, so that there are not many small ones, or sooner
    if the buffer fills.

    Each packet on the loopback interface is returned once, as an incoming one; other interfaces
    have incoming and outgoing packets. Packets that the kernel joins for speed (GRO, TSO) are one
    packet here, larger than the interface's MTU.

    Raises :class:`CaptureError` if there is no such interface, no right to capture, or no libpcap
    to compile a filter; :class:`UsageError` for a wrong filter.
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
        """Packets returned so far."""
        self._filter_text = filter_text
        self._promiscuous = promiscuous
        self._buffer_bytes = buffer_bytes
        self._snap_bytes = snap_bytes
        self._gather_s = gather_s
        self._gathered_s = 0.0
        """Time (monotonic clock) from which the next batch may be returned, however small."""
        self._received_before = 0
        self._dropped_before = 0
        self._use(self._open())

    @property
    def is_promiscuous(self) -> bool:
        """True if packets for other machines are captured too."""
        return self._source.is_promiscuous

    @property
    def state(self) -> InterfaceState:
        """The current state of the interface, from the system."""
        return self._source.state

    @property
    def received_packets(self) -> int:
        """Packets that passed the filter so far, by the kernel's count, with dropped ones."""
        return self._received_before + self._source.counts[0]

    @property
    def dropped_packets(self) -> int:
        """Packets that passed the filter and were dropped because the buffer was full, so far."""
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

    def read(self, timeout_s: float) -> PacketBatch | None:
        """Return the packets since the last call, or None if none are due in ``timeout_s``.

        A packet may be delayed by 0.05 s, and by the time that batches are gathered. The batch's
        buffer is valid until the next call. An interface that is down has no packets until it is up
        again; one that was removed has none until :meth:`reopen`.
        """
        if self._source.fileno() < 0:
            return None  # closed
        self._feed.give_back()
        until_s = time.monotonic() + timeout_s
        while True:
            now_s = time.monotonic()
            is_gathered = now_s >= self._gathered_s or self._feed.is_filling
            batch = self._feed.take() if is_gathered else None
            if batch is not None:
                self._gathered_s = now_s + self._gather_s
                batch.number = rising(self.packets + 1, len(batch))
                self.packets += len(batch)
                return batch
            self._feed.give_back()  # blocks without packets
            if now_s >= until_s:
                return None
            if is_gathered:
                self._wait(until_s - now_s)
            else:
                time.sleep(min(self._gathered_s - now_s, until_s - now_s, _LOOK_EVERY_S))

    def reopen(self) -> bool:
        """Listen on a new interface of the same name; return whether there is one.

        Counts and numbers continue. The unread packets of the old one are lost, and its last batch
        becomes invalid. Raises :class:`CaptureError` if the interface cannot be listened on.
        """
        if not self._is_there():
            return False
        try:
            opened = self._open()
        except CaptureError:
            # The interface may have been removed again meanwhile.
            if self._is_there():
                raise
            return False
        self.close()
        self._received_before, self._dropped_before = self.received_packets, self.dropped_packets
        self._use(opened)
        return True

    def close(self) -> None:
        """End the capture. The last batch cannot be read any more: its buffer is freed."""
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
        source = BpfSocket(self.name, self._filter_text, promiscuous=self._promiscuous)
        return _Opened(source, BpfFeed(source, self._snap_bytes))

    def _use(self, opened: _Opened) -> None:
        self._source, self._feed = opened
        self._poll = select.poll()
        self._poll.register(self._source.fileno(), select.POLLIN)

    def _wait(self, timeout_s: float) -> None:
        if any(event & select.POLLERR for _, event in self._poll.poll(timeout_s * 1000)):
            self._source.clear_error()


def _open_linux(
    name: str, filter_text: str | None, buffer_bytes: int, snap_bytes: int, *, promiscuous: bool
) -> _Opened:
    """Listen on an interface: no packet comes before the filter is set."""
    from kanalyze.capture.live.interfaces import link_type_of
    from kanalyze.capture.live.packet_socket import MessageFeed, PacketSocket, open_ring

    filtering = None
    if filter_text is not None:
        filtering = compile_filter(filter_text, link_type_of(name), name)
    source = PacketSocket(name, filtering, snap_bytes)
    try:
        feed: RingFeed | MessageFeed | None = open_ring(source, buffer_bytes, snap_bytes)
        if feed is None:
            feed = MessageFeed(source, buffer_bytes, snap_bytes)
        source.start(promiscuous=promiscuous)
    except BaseException:
        source.close()
        raise
    return _Opened(source, feed)
