"""Machines on one switch: a network namespace each, joined by a bridge in a namespace of its own.

A capture on the bridge sees every frame once, those between brokers too. A machine's line can be
made slow by the kernel (tbf), or lossy: its frames then go through a thread of this process.
"""

import fcntl
import os
import random
import select
import struct
import threading
from pathlib import Path
from typing import Self

from lab.namespace import OFFLOADS, Namespace
from lab.processes import run
from lab.way import inside

BRIDGE = "br0"
NETWORK = "10.88.0"
BEYOND = "br1"
_SET_TUNNEL = 0x400454CA
_TAP, _NO_PREFIX = 0x0002, 0x1000
_FRAME_BYTES = 65536


class Machine(Namespace):
    """A machine with one address."""

    def __init__(self, name: str, host: int, switch: "Switch") -> None:
        super().__init__(name, mtu=65536, offload=True)
        self.ip = f"{NETWORK}.{host}"
        self.port = f"port{host}"
        self._switch = switch

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._join()
        except BaseException:
            self._delete()
            raise
        return self

    def _join(self) -> None:
        switch = self._switch
        names = ["eth0", "netns", self.name, "type", "veth", "peer", "name", self.port]
        switch.run("ip", "link", "add", *names)
        switch.run("ip", "link", "set", self.port, "master", BRIDGE, "up")
        for feature in OFFLOADS:
            for inside_of, interface in ((self, "eth0"), (switch.namespace, self.port)):
                words = ["ethtool", "-K", interface, feature, "off"]
                run(inside_of.command(words), timeout=10, check=False)
        for words in (
            ["ip", "address", "add", f"{self.ip}/24", "dev", "eth0"],
            ["ip", "link", "set", "eth0", "up"],
        ):
            run(self.command(words), timeout=10)

    def shape(self, kbit_per_s: int) -> None:
        """Let no more than this leave the machine."""
        queue = ["root", "tbf", "rate", f"{kbit_per_s}kbit", "burst", "4k", "latency", "2s"]
        run(self.command(["tc", "qdisc", "replace", "dev", "eth0", *queue]), timeout=10)

    def unshape(self) -> None:
        """Let everything leave at once again."""
        run(self.command(["tc", "qdisc", "del", "dev", "eth0", "root"]), timeout=10, check=False)


class Switch:
    """The bridge, made on entering and removed on leaving."""

    def __init__(self, name: str) -> None:
        self.namespace = Namespace(f"{name}-switch", mtu=65536, offload=True)

    def __enter__(self) -> Self:
        self.namespace.__enter__()
        self.run("ip", "link", "add", BRIDGE, "type", "bridge")
        self.run("ip", "link", "set", BRIDGE, "up")
        return self

    def __exit__(self, *error: object) -> None:
        self.namespace.__exit__(*error)

    def run(self, *words: str) -> None:
        """Run a command where the bridge is."""
        run(self.namespace.command(words), timeout=10)


class LossyLine:
    """While it is entered, a share of a machine's frames is lost, in both directions.

    The machine's port moves to a second bridge. A thread carries frames between the two, and a
    capture on the first sees what it sees on a switch: what the machine sent, if it came, and all
    that was sent to it.
    """

    def __init__(self, machine: Machine, switch: Switch, share: float) -> None:
        self._machine, self._switch, self._share = machine, switch, share
        self._ends: list[int] = []
        self._over = threading.Event()
        self._carrier = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Self:
        switch = self._switch
        switch.run("ip", "link", "add", BEYOND, "type", "bridge")
        switch.run("ip", "link", "set", BEYOND, "up")
        for name, bridge in (("tap0", BRIDGE), ("tap1", BEYOND)):
            self._ends.append(_tap(switch.namespace, name))
            switch.run("ip", "link", "set", name, "master", bridge, "up")
        self._carrier.start()
        switch.run("ip", "link", "set", self._machine.port, "master", BEYOND)
        return self

    def __exit__(self, *error: object) -> None:
        self._switch.run("ip", "link", "set", self._machine.port, "master", BRIDGE)
        self._over.set()
        self._carrier.join(5)
        for end in self._ends:
            os.close(end)
        self._switch.run("ip", "link", "del", BEYOND)

    def _carry(self) -> None:
        one, other = self._ends
        beyond = {one: other, other: one}
        # Always the same frames of a run are lost; which those are depends on what is sent.
        chance = random.Random(40)
        while not self._over.is_set():
            for end in select.select(self._ends, [], [], 0.1)[0]:
                frame = os.read(end, _FRAME_BYTES)
                if chance.random() >= self._share:
                    os.write(beyond[end], frame)


def _tap(namespace: Namespace, name: str) -> int:
    """Make an interface whose frames are read from and written to a descriptor."""
    with inside(namespace):
        descriptor = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(
            descriptor, _SET_TUNNEL, struct.pack("16sH22x", name.encode(), _TAP | _NO_PREFIX)
        )
    quiet = f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6"
    words = ["sh", "-c", f"test ! -e {quiet} || echo 1 > {quiet}"]
    run(namespace.command(words), timeout=10)
    return descriptor


class CpuShare:
    """While it is entered, a process has only a share of one processor (cgroup v1)."""

    def __init__(self, pid: int, share: float) -> None:
        self._pid, self._share = pid, share
        self._folder = Path(f"/sys/fs/cgroup/cpu/kanalyze-{pid}")

    def __enter__(self) -> Self:
        self._folder.mkdir()
        (self._folder / "cpu.cfs_period_us").write_text("100000")
        (self._folder / "cpu.cfs_quota_us").write_text(str(int(100_000 * self._share)))
        (self._folder / "cgroup.procs").write_text(str(self._pid))
        return self

    def __exit__(self, *error: object) -> None:
        above = self._folder.parent / "cgroup.procs"
        for pid in (self._folder / "cgroup.procs").read_text().split():
            above.write_text(pid)
        self._folder.rmdir()
