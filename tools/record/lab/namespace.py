"""A network namespace with only a loopback in it, whose frames are like a real network's."""

import os
from collections.abc import Sequence
from typing import Self

from lab.processes import need, run

OFFLOADS = ("tso", "gso", "gro", "lro", "tx", "sg")


class Namespace:
    """Made on entering, deleted on leaving.

    A plain loopback has an MTU of 65536 and hands segments of up to 64 KiB around, so a capture of
    it shows nearly one packet a request. With an MTU of 1500 and segmentation offload off, frames
    span packets as they do between machines.
    """

    def __init__(self, name: str, *, mtu: int, offload: bool) -> None:
        self.name = f"kanalyze-{name}-{os.getpid()}"
        self.mtu = mtu
        self.offload = offload

    def __enter__(self) -> Self:
        need("ip")
        if not self.offload:
            need("ethtool")
        run(["ip", "netns", "add", self.name], timeout=10)
        try:
            link = ["ip", "link", "set", "lo", "up", "mtu", str(self.mtu)]
            run(self.command(link), timeout=10)
            if not self.offload:
                self._offload_off()
        except BaseException:
            self._delete()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._delete()

    def command(self, words: Sequence[str]) -> list[str]:
        """The same command, run inside."""
        return ["ip", "netns", "exec", self.name, *words]

    def _offload_off(self) -> None:
        # One at a time: a loopback has some of them fixed, and ethtool then refuses the whole line.
        for feature in OFFLOADS:
            switch = ["ethtool", "-K", "lo", feature, "off"]
            run(self.command(switch), timeout=10, check=False)

    def _delete(self) -> None:
        run(["ip", "netns", "del", self.name], timeout=10, check=False)
