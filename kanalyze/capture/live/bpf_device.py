"""Packets through the Berkeley packet filter: macOS, by scapy's socket.

In: the name of an interface. Out: :class:`~kanalyze.capture.formats.parser.Columns`.

scapy opens the device, sets the filter and reads the counters. Packets are read here, many at once;
scapy would read them one by one, recursively. Times are in microseconds: the system has no finer
ones.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from kanalyze.capture.formats.packet_scan import ColumnMaker
from kanalyze.capture.live.kernel_packets import KernelScan
from kanalyze.capture.live.packet_socket import InterfaceState
from kanalyze.errors import CaptureError, reason_of

if TYPE_CHECKING:
    from kanalyze.capture.formats.parser import Columns

__all__ = ["BpfFeed", "BpfSocket", "bpf_columns"]


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

    def take(self) -> tuple[memoryview, Columns] | None:
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
        columns = bpf_columns(self._buffer[:end], self._source.link_type, self._snap_bytes)
        return (self._buffer, columns) if len(columns) else None

    def give_back(self) -> None:
        """Release the packets of the last batch."""

    def close(self) -> None:
        """Do nothing: there is only memory to free."""


def bpf_columns(buffer: memoryview, link_type: int, snap_bytes: int) -> Columns:
    """Return the packets of one read from the device."""
    maker = ColumnMaker()
    KernelScan(link_type, snap_bytes).bpf(buffer, len(buffer), maker)
    return maker.take_all()


def _link_type(descriptor: int, request: int) -> int:
    import fcntl  # not on Windows

    return int.from_bytes(fcntl.ioctl(descriptor, request, bytes(4)), "little")
