"""tcpdump, listening on an interface of our namespace at the same time as we do."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING, NamedTuple, Self

import dpkt

from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from tests.support.netns import Namespace

_NS_PER_SECOND = 1_000_000_000


class Seen(NamedTuple):
    """A packet that was captured."""

    time_ns: int
    data: bytes


class Tcpdump:
    """Listens from the beginning of the block on; after it, ``packets`` has all packets."""

    def __init__(self, namespace: Namespace, interface: str, path: Path, *options: str) -> None:
        words = [
            "tcpdump",
            "-i",
            interface,
            "-w",
            str(path),
            "-U",
            "--immediate-mode",
            "-Z",
            "root",
        ]
        words += ["--time-stamp-precision=nano", "-y", "EN10MB", "-B", "65536", *options]
        if interface == "any":
            words[words.index("EN10MB")] = "LINUX_SLL2"
        self.packets: list[Seen] = []
        self._path = path
        self._process = subprocess.Popen(namespace.command(*words), stderr=subprocess.PIPE)

    def __enter__(self) -> Self:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if b"listening on" in line:
                return self
        raise AssertionError("tcpdump ended")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.send_signal(signal.SIGINT)
        messages = self._process.communicate(timeout=LONG_S)[1]
        assert kind is not None or b"\n0 packets dropped by kernel" in messages
        self.packets = read_capture(self._path)

    def wait_for(self, count: int) -> None:
        """Wait until it has written ``count`` packets: those in its buffer are lost at its end."""
        wait_until(lambda: self._count_written() >= count, f"{count} packets of tcpdump")

    def _count_written(self) -> int:
        try:
            return len(read_capture(self._path))
        except dpkt.NeedData:
            return 0  # it is writing


def read_capture(path: Path) -> list[Seen]:
    """The packets of a pcap file, by dpkt."""
    with path.open("rb") as file:
        # dpkt's times are Decimals of nanosecond files.
        return [Seen(int(time * _NS_PER_SECOND), data) for time, data in dpkt.pcap.Reader(file)]
