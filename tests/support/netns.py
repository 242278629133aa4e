"""Network namespaces of our own: interfaces that nothing else sends on.

Needs Linux, root, and ``ip``. A thread that is inside one sees its interfaces alone; sockets stay
in the one they were made in.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_CLONE_NEWNET = 0x40000000
_numbers = itertools.count()


def can_be_made() -> bool:
    """Whether namespaces can be made here, as far as can be told without trying."""
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("ip") is not None


class Namespace:
    """A network namespace with its loopback up; removed with all that is in it at the end."""

    def __init__(self) -> None:
        self.name = f"kanalyze-{os.getpid()}-{next(_numbers)}"

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
        run("ip", "netns", "del", self.name)

    def ip(self, *arguments: str) -> str:
        """Run ``ip`` in it."""
        return run("ip", "-netns", self.name, *arguments)

    def command(self, *words: str) -> list[str]:
        """The command that runs another one in it."""
        return ["ip", "netns", "exec", self.name, *words]

    def add_pair(
        self, one: str = "one", other: str = "other", far: Namespace | None = None
    ) -> None:
        """Add two interfaces, each of which gets what the other one sends; both are up.

        ``other`` is in the namespace ``far``, where that is another one. IPv6 is off on them, which
        otherwise sends packets of its own. The MTU is 1500.
        """
        far = self if far is None else far
        self.ip("link", "add", one, "type", "veth", "peer", "name", other, "netns", far.name)
        for name, where in ((one, self), (other, far)):
            setting = f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6"
            run(*where.command("sh", "-c", f"test ! -e {setting} || echo 1 > {setting}"))
            where.ip("link", "set", name, "mtu", "1500", "up")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Let this thread be in it."""
        with Path("/proc/thread-self/ns/net").open("rb") as outside:
            with Path(f"/run/netns/{self.name}").open("rb") as namespace:
                _enter(namespace.fileno())
            try:
                yield
            finally:
                _enter(outside.fileno())


def run(*command: str) -> str:
    """Run a program to its end; return what it wrote."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _enter(descriptor: int) -> None:
    # os.setns() comes with Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
