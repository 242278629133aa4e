"""Network namespaces of our own: interfaces that nothing else sends on.

Needs Linux, root, and ``ip``. A thread inside a namespace sees only its interfaces; sockets stay in
the namespace in which they were made.

Some steps of the kernel take time: an interface that is up passes no packet before its carrier is
noticed, and a packet that was sent arrives later. This module waits for both, so that no test has
to guess how long they take.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

_CLONE_NEWNET = 0x40000000
_SOL_PACKET = 263
_STATISTICS = 6
_ALL_PROTOCOLS = 3
_ATTACH_FILTER = 26
_SET_TUNNEL = 0x400454CA
_INCOMING = ((0x20, 0, 0, 0xFFFFF004), (0x15, 0, 1, 4), (0x06, 0, 0, 0), (0x06, 0, 0, 1))
"""A filter that keeps no outgoing packet (packet type 4), and one byte of all others."""
_AT_ONCE = 200
"""As many packets as the kernel surely queues while it is busy (its default is a thousand)."""
_numbers = itertools.count()


@functools.cache
def can_be_made() -> bool:
    """Try whether namespaces can be made here, with interfaces that can be listened on.

    Root in a container often has no right to do so.
    """
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        with Namespace() as namespace:
            namespace.add_pair()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@functools.cache
def can_have_tunnels() -> bool:
    """Try whether such namespaces can have interfaces without a link layer."""
    try:
        with Namespace() as namespace, namespace.tunnel("tun7"):
            return True
    except OSError:
        return False


class Arrivals:
    """Counts packets that came in at an interface and were given to all its listeners.

    The kernel gives a packet first to the latest listener. So this socket has to be opened before
    the others; then it counts a packet when they have it.
    """

    inodes: ClassVar[set[int]] = set()
    """The inodes of all open objects of this class."""

    def __init__(self, namespace: Namespace, interface: str) -> None:
        self._count = 0
        with namespace.inside():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        code = b"".join(struct.pack("@HBBI", *one) for one in _INCOMING)
        buffer = ctypes.create_string_buffer(code)
        described = struct.pack("@HP", len(_INCOMING), ctypes.addressof(buffer))
        self._socket.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, described)
        # The buffer fills at once; after that a packet costs almost no time.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        self._socket.bind((interface, _ALL_PROTOCOLS))
        self._inode = os.fstat(self._socket.fileno()).st_ino
        self.inodes.add(self._inode)

    def close(self) -> None:
        """Stop counting."""
        self._socket.close()
        self.inodes.discard(self._inode)

    def count(self) -> int:
        """Return the number of packets so far, including those that did not fit the buffer."""
        # Reading the statistics resets the kernel's count to 0.
        statistics = self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 8)
        self._count += int(struct.unpack("@2I", statistics)[0])
        return self._count


class Namespace:
    """A network namespace with its loopback up; it is removed with its content at the end."""

    def __init__(self) -> None:
        self.name = f"kanalyze-{os.getpid()}-{next(_numbers)}"
        self._arrivals: dict[str, Arrivals] = {}
        """Arrivals by the interface that sends them."""

    def __enter__(self) -> Self:
        run("ip", "netns", "add", self.name)
        self.ip("link", "set", "lo", "up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for arrivals in self._arrivals.values():
            arrivals.close()
        run("ip", "netns", "del", self.name)

    def ip(self, *arguments: str) -> str:
        """Run ``ip`` in the namespace."""
        return run("ip", "-netns", self.name, *arguments)

    def command(self, *words: str) -> list[str]:
        """The words that run a command in the namespace."""
        return ["ip", "netns", "exec", self.name, *words]

    def add_pair(
        self, one: str = "one", other: str = "other", far: Namespace | None = None
    ) -> None:
        """Add two interfaces, each of which receives what the other one sends; both are up.

        ``other`` is in the namespace ``far`` if that is given. IPv6 is off on both, because it
        would send packets of its own. The MTU is 1500.
        """
        far = self if far is None else far
        self.ip("link", "add", one, "type", "veth", "peer", "name", other, "netns", far.name)
        ends = ((one, self), (other, far))
        for name, where in ends:
            setting = f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6"
            run(*where.command("sh", "-c", f"test ! -e {setting} || echo 1 > {setting}"))
            where.ip("link", "set", name, "mtu", "1500", "up")
        for name, where in ends:
            where.wait_for_carrier(name)
        self._count_arrivals(one, Arrivals(far, other))
        far._count_arrivals(other, Arrivals(self, one))

    def set_up(self, *names: str) -> None:
        """Set interfaces up again, and return when they pass packets; their peers must be up."""
        for name in names:
            self.ip("link", "set", name, "up")
        for name in names:
            self.wait_for_carrier(name)

    def wait_for_carrier(self, name: str) -> None:
        """Return when an interface passes packets, which is when the kernel reports its carrier."""
        wait_until(lambda: self._link(name)["operstate"] == "UP", f"carrier of {name}")

    def send(self, packets: Iterable[bytes], interface: str = "one") -> None:
        """Send packets, and return when all listeners at the other end have them.

        No more packets are on their way than the kernel queues, so that it loses none.
        """
        arrivals = self._arrivals[interface]
        waiting = iter(packets)
        with self.inside():
            sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        with sender:
            with self.inside():
                sender.bind((interface, 0))
            while some := list(itertools.islice(waiting, _AT_ONCE)):
                due = arrivals.count() + len(some)
                for packet in some:
                    sender.send(packet)
                wait_until(lambda due=due: arrivals.count() >= due, "arrival of packets")

    def count_arrived(self, interface: str = "one") -> int:
        """How many packets that were sent on an interface have arrived at its other end."""
        return self._arrivals[interface].count()

    def count_all_arrived(self, interface: str = "one") -> int:
        """The same number, once nothing is sent any more and no packet is on its way."""
        # A packet that the kernel queues for the other end counts as sent; a lost one does not.
        (statistics,) = json.loads(self.ip("-json", "-statistics", "link", "show", interface))
        sent = statistics["stats64"]["tx"]["packets"]
        wait_until(lambda: self.count_arrived(interface) >= sent, "arrival of packets")
        return self.count_arrived(interface)

    def count_listeners(self) -> int:
        """How many sockets are bound to an interface and receive packets, apart from ours."""
        lines = run(*self.command("cat", "/proc/net/packet")).splitlines()[1:]
        # sk RefCnt Type Proto Iface R Rmem User Inode
        columns = [line.split() for line in lines]
        return sum(
            int(one[3], 16) != 0 and int(one[4]) > 0 and int(one[8]) not in Arrivals.inodes
            for one in columns
        )

    def _count_arrivals(self, interface: str, arrivals: Arrivals) -> None:
        # An earlier interface may have had that name.
        if interface in self._arrivals:
            self._arrivals[interface].close()
        self._arrivals[interface] = arrivals

    def _link(self, name: str) -> dict[str, object]:
        (link,) = json.loads(self.ip("-json", "link", "show", name))
        return dict(link)

    @contextlib.contextmanager
    def tunnel(self, name: str) -> Iterator[int]:
        """Add an interface without a link layer; packets written to the descriptor arrive there."""
        import fcntl

        with self.inside():
            descriptor = os.open("/dev/net/tun", os.O_RDWR)
        try:
            with self.inside():
                fcntl.ioctl(descriptor, _SET_TUNNEL, struct.pack("16sH22x", name.encode(), 0x1001))
            self.ip("link", "set", name, "up")
            self._count_arrivals(name, Arrivals(self, name))
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Let this thread be in the namespace."""
        with Path("/proc/thread-self/ns/net").open("rb") as outside:
            with Path(f"/run/netns/{self.name}").open("rb") as namespace:
                _enter(namespace.fileno())
            try:
                yield
            finally:
                _enter(outside.fileno())


def run(*command: str) -> str:
    """Run a program to its end; return its output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _enter(descriptor: int) -> None:
    # os.setns() comes with Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
