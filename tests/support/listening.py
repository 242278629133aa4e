"""``kanalyze live`` in a namespace of ours, with metrics that show how much it has read."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Self

from tests.support.scraping import count_read, served_at
from tests.support.waiting import LONG_S, next_line, wait_until

if TYPE_CHECKING:
    from tests.support.netns import Namespace

COMMAND = "from kanalyze.cli.main import run; run()"
WITHOUT_LIBPCAP = """\
import ctypes
def refuse(name, *_, **__):
    raise OSError(name)
ctypes.CDLL = refuse
"""
"""Code to run before the command, so that no C library can be loaded."""


class Asked:
    """``kanalyze live`` in a namespace, with the number of packets read; a context that kills it.

    ``words`` begin the command, ``--metrics`` ends it.
    """

    def __init__(self, namespace: Namespace, words: list[str], stdin: int | None = None) -> None:
        self._namespace = namespace
        # A pipe would fill up, and the command would wait until it is read.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the block
        self._process = subprocess.Popen(
            namespace.command(*words, "--metrics", "0"),
            stdin=stdin,
            stdout=self._output,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._messages = ""
        try:
            self._url = self._served_at()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        if self._process.stdin is not None:
            self.give_no_more()
        self._process.communicate()
        self._output.close()

    def give(self, data: bytes) -> None:
        """Write to its standard input, where that is a pipe."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)

    def give_no_more(self) -> None:
        """Close its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.stdin = None  # communicate() must not use it

    def wait_for(self, packets: int) -> None:
        """Wait until it has read ``packets`` packets: unread ones are lost when it ends."""
        wait_until(lambda: self._count_read() >= packets, f"{packets} packets read")

    def end(self, number: signal.Signals | None = signal.SIGINT) -> tuple[list[bytes], str]:
        """Signal it to end, unless it ends by itself; return its output and its messages."""
        if number is not None:
            self._process.send_signal(number)
        self._messages += self._process.communicate(timeout=LONG_S)[1].decode()
        assert self._process.returncode == 0, self._messages
        self._output.seek(0)
        return self._output.readlines(), self._messages

    def _served_at(self) -> str:
        """Return the address of its metrics, which it prints after it begins to listen."""
        assert self._process.stderr is not None
        while True:
            line = next_line(self._process.stderr).decode()
            assert line, self._messages
            if (url := served_at(line)) is not None:
                return url
            self._messages += line

    def _count_read(self) -> int:
        with self._namespace.inside():
            return count_read(self._url)


class Listening(Asked):
    """The command, from the moment when it listens on `other`.

    ``before``: lines of Python that run before it in its process.
    """

    def __init__(self, namespace: Namespace, *argv: str, before: str = "") -> None:
        words = [sys.executable, "-c", before + COMMAND, "live", "-i", "other", *argv]
        super().__init__(namespace, words)
