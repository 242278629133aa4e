"""A cluster of three combined KRaft nodes, each on a machine of its own, which can be disturbed."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from lab.bridge import CpuShare, LossyLine, Machine, Switch
from lab.broker import JVM, PORTS, Broker
from lab.cache import Tools, slow_disk_library
from lab.cluster import Cluster, Node
from lab.processes import run

NODES = 3
LISTENERS = ("PLAINTEXT", "CONTROLLER", "INTERNAL")
OUTSIDE = 9095
"""The port of a listener whose advertised address is right only on the broker's own machine."""


class Stand(Node):
    """A node on its machine."""

    def __init__(
        self, tools: Tools, machine: Machine, folder: Path, number: int, slow_disk: Path
    ) -> None:
        super().__init__(tools, machine, folder, number, NODES)
        self.machine = machine
        self._slow_disk = slow_disk

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{self.machine.ip}:{PORTS['PLAINTEXT']}"

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stop the process and let it go on."""
        os.killpg(self._pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, without a goodbye."""
        self.stop_by(signal.SIGKILL)

    def stop_by(self, sign: signal.Signals) -> None:
        """End it by a signal."""
        child, self.child = self.child, None
        if child is not None:
            os.killpg(child.pid, sign)
            child.wait(60)

    def starved(self, share: float) -> CpuShare:
        """Return what leaves it a share of a processor."""
        return CpuShare(self._pid, share)

    def losing(self, switch: Switch, share: float) -> LossyLine:
        """Return what loses a share of the frames from and to it."""
        return LossyLine(self.machine, switch, share)

    @contextlib.contextmanager
    def slow_disk(self, ms: int, word: str) -> Iterator[None]:
        """Let each write to a file whose path has a word in it take longer."""
        self._slowness.write_text(f"{ms} {word}\n")
        try:
            yield
        finally:
            self._slowness.unlink()

    def forget(self, ip: str) -> None:
        """Forget all connections with an address, of which the address hears nothing.

        The next packet of such a connection is answered by a reset, as by a load balancer that has
        dropped it.
        """
        for words in (
            ["ip", "route", "add", "blackhole", ip],
            ["ss", "-K", "dst", ip],
            ["ip", "route", "del", "blackhole", ip],
        ):
            run(self.machine.command(words), timeout=10)

    @property
    def _slowness(self) -> Path:
        return self.folder / "slow-disk"

    @property
    def _pid(self) -> int:
        if self.child is None:
            raise ValueError(f"node {self.number} does not run")
        return self.child.pid

    def _java(self, main_class: str, *words: str, options: tuple[str, ...] = JVM) -> list[str]:
        disk = [f"LD_PRELOAD={self._slow_disk}", f"SLOW_DISK={self._slowness}"]
        return ["env", *disk, *super()._java(main_class, *words, options=options)]

    def _watched(self) -> tuple[str, ...]:
        # Nobody reads its request log, and three heaps are on this machine.
        return ("-Dlab.requests=OFF", "-Xmx320m")

    def _properties(self) -> dict[str, str]:
        where = {name: f"{name}://{self.machine.ip}:{PORTS[name]}" for name in LISTENERS}
        outside = f"OUTSIDE://{self.machine.ip}:{OUTSIDE}"
        login = f"SASL://{self.machine.ip}:{PORTS['SASL']}"
        of_one = Broker._properties(self)  # with the settings of logins, which a node leaves out
        net = self.machine.ip.rpartition(".")[0]
        voters = (f"{one}@{net}.{10 + one}:{PORTS['CONTROLLER']}" for one in range(1, NODES + 1))
        told = [where["PLAINTEXT"], where["INTERNAL"], login, f"OUTSIDE://localhost:{OUTSIDE}"]
        return {
            **super()._properties(),
            "controller.quorum.voters": ",".join(voters),
            "listeners": ",".join([*where.values(), outside, login]),
            "advertised.listeners": ",".join(told),
            "listener.security.protocol.map": ",".join(
                ["SASL:SASL_PLAINTEXT"] + [f"{name}:PLAINTEXT" for name in (*LISTENERS, "OUTSIDE")]
            ),
            **{
                key: value for key, value in of_one.items() if key.startswith("listener.name.sasl.")
            },
            # Brokers and clients without a login may do everything, others what no rule forbids.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "transaction.state.log.replication.factor": str(NODES),
            "transaction.state.log.min.isr": "2",
            "share.coordinator.state.topic.replication.factor": str(NODES),
            "share.coordinator.state.topic.min.isr": "2",
            "offsets.topic.num.partitions": "3",
            "default.replication.factor": str(NODES),
            "min.insync.replicas": "2",
        }


class Trio(Cluster):
    """Three machines and their nodes; started on entering, stopped on leaving."""

    def __init__(self, tools: Tools, machines: list[Machine], folder: Path) -> None:
        slow_disk = slow_disk_library()
        self.stands = [
            Stand(tools, machine, folder / f"node-{number}", number, slow_disk)
            for number, machine in enumerate(machines, 1)
        ]
        self.nodes = self.stands

    @property
    def bootstrap(self) -> str:
        """All addresses for clients."""
        return ",".join(stand.address for stand in self.stands)

    def start_missing(self) -> None:
        """Start the nodes that do not run, and let replicas come back."""
        gone = [stand for stand in self.stands if stand.child is None]
        for stand in gone:
            stand.start()
        if gone:
            time.sleep(5)
