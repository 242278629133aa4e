"""A packet socket of Linux: opens, filters and starts it, and reads its state (see packet(7)).

In: the name of an interface, a program for the kernel. Out: :class:`PacketSocket`.

scapy has such a socket too. It is not used: it imports all of scapy (half a second), listens before
it is filtered, queues packets one by one, and takes one more system call for each packet's address.
Without these, only the few calls below are left.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import errno
import os
import shlex
import socket
import struct
from typing import TYPE_CHECKING, Final

from kanalyze.capture.live.interfaces import ANY, COOKED, link_type_of
from kanalyze.capture.live.kernel_filter import EVERYTHING, NOTHING, assembled, program_for
from kanalyze.errors import CaptureError, reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.capture.live.libpcap import Instruction

__all__ = ["ADDRESS_BYTES", "HEADROOM_BYTES", "SOL_PACKET", "InterfaceState", "PacketSocket"]

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
