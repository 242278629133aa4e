"""A long line between the clients' namespace and the broker's: it takes its time and loses packets.

Both ends are interfaces without a link layer, and what goes in at one comes out at the other when
a thread of this process has carried it there. So a capture at the clients' end sees what real
distance and loss look like: its own packets before they are lost, the broker's only if they came.
"""

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lab.namespace import Namespace
from lab.processes import run

INTERFACE = "way0"
CLIENTS_IP, BROKER_IP = "10.77.0.2", "10.77.0.1"
_CLONE_NEWNET = 0x40000000
_SET_TUNNEL = 0x400454CA
_PLAIN_PACKETS = 0x1001
_MAX_BYTES = 65536


@dataclass(frozen=True)
class Line:
    """What the way is like, in each direction."""

    delay_ms: float = 0.0
    loss: float = 0.0
    """Share of the packets."""


class Way:
    """Made on entering, removed on leaving."""

    def __init__(self, line: Line, clients: Namespace, broker: Namespace) -> None:
        self._line = line
        self._known: set[bytes] = set()
        """Connections seen so far, by addresses and ports of either direction."""
        self._forgotten: frozenset[bytes] = frozenset()
        self._places = ((clients, CLIENTS_IP), (broker, BROKER_IP))
        self._ends: list[int] = []
        self._over = threading.Event()
        self._carrier = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Self:
        self._ends = [tunnel(*place) for place in self._places]
        self._carrier.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._carrier.join(5)
        for end in self._ends:
            os.close(end)

    def forget(self) -> None:
        """Lose all packets of the connections seen so far, as a firewall that forgets them."""
        self._forgotten = frozenset(self._known)

    def _carry(self) -> None:
        one, other = self._ends
        beyond = {one: other, other: one}
        # Always the same packets of a run are lost; which those are depends on what is sent.
        chance = random.Random(17)
        order = itertools.count()
        waiting: list[tuple[float, int, int, bytes]] = []
        while not self._over.is_set():
            patience = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.1
            for end in select.select(self._ends, [], [], patience)[0]:
                packet = os.read(end, _MAX_BYTES)
                connection = _connection(packet)
                self._known.add(connection)
                if connection in self._forgotten or chance.random() < self._line.loss:
                    continue
                due = time.monotonic() + self._line.delay_ms / 1000
                heapq.heappush(waiting, (due, next(order), beyond[end], packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, end, packet = heapq.heappop(waiting)
                os.write(end, packet)


def _connection(packet: bytes) -> bytes:
    """Return the addresses and the ports of an IPv4 packet, as they stand there."""
    header_bytes = (packet[0] & 0xF) * 4
    return packet[12:20] + packet[header_bytes : header_bytes + 4]


def tunnel(namespace: Namespace, ip: str) -> int:
    """Make an interface that is up; what is written to the descriptor arrives at it."""
    with inside(namespace):
        descriptor = os.open("/dev/net/tun", os.O_RDWR)
        name = struct.pack("16sH22x", INTERFACE.encode(), _PLAIN_PACKETS)
        fcntl.ioctl(descriptor, _SET_TUNNEL, name)
    quiet = f"/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6"
    for words in (
        ["sh", "-c", f"test ! -e {quiet} || echo 1 > {quiet}"],
        ["ip", "address", "add", f"{ip}/24", "dev", INTERFACE],
        ["ip", "link", "set", INTERFACE, "up"],
    ):
        run(namespace.command(words), timeout=10)
    return descriptor


@contextmanager
def inside(namespace: Namespace) -> Iterator[None]:
    """Let this thread be in a namespace."""
    with Path("/proc/thread-self/ns/net").open("rb") as outside:
        with Path(f"/run/netns/{namespace.name}").open("rb") as wanted:
            _enter(wanted.fileno())
        try:
            yield
        finally:
            _enter(outside.fileno())


def _enter(descriptor: int) -> None:
    # os.setns() comes with Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
