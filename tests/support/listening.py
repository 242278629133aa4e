"""``kanalyze live -i other`` in a namespace of ours, asked what it has read by its metrics."""

from __future__ import annotations

import re
import select
import signal
import subprocess
import sys
import tempfile
import urllib.request
from typing import TYPE_CHECKING, Self

from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from tests.support.netns import Namespace

COMMAND = "from kanalyze.cli.main import run; run()"
_SERVED = re.compile(r"kanalyze: metrics: (http:\S+)\n")
_PACKETS = re.compile(r"^kanalyze_capture_packets_total ([0-9.e+]+)$", re.MULTILINE)


class Listening:
    """The command, from the moment on when it listens; a context, at the end of which it is killed.

    ``before``: lines of Python that come before it in its process.
    """

    def __init__(self, namespace: Namespace, *argv: str, before: str = "") -> None:
        self._namespace = namespace
        # A pipe would fill, and the command would wait until somebody reads.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the block
        words = [sys.executable, "-c", before + COMMAND, "live", "-i", "other"]
        self._process = subprocess.Popen(
            namespace.command(*words, "--metrics", "0", *argv),
            stdout=self._output,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._told = ""
        self._url = self._served_at()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._output.close()

    def wait_for(self, packets: int) -> None:
        """Wait until it has read so many packets: those that it has not are lost at its end."""
        wait_until(lambda: self._count_read() >= packets, f"{packets} packets read")

    def end(self, number: signal.Signals | None = signal.SIGINT) -> tuple[list[bytes], str]:
        """Tell it to end, unless it does by itself; return what it wrote, and what it told."""
        if number is not None:
            self._process.send_signal(number)
        self._told += self._process.communicate(timeout=LONG_S)[1].decode()
        assert self._process.returncode == 0, self._told
        self._output.seek(0)
        return self._output.readlines(), self._told

    def _served_at(self) -> str:
        """Return where its metrics are, which it tells after it began to listen."""
        assert self._process.stderr is not None
        while True:
            assert select.select([self._process.stderr], [], [], LONG_S)[0], self._told
            line = self._process.stderr.readline().decode()
            assert line, self._told
            if found := _SERVED.fullmatch(line):
                return found[1]
            self._told += line

    def _count_read(self) -> int:
        with (
            self._namespace.inside(),
            urllib.request.urlopen(self._url, timeout=LONG_S) as answer,
        ):
            text = answer.read().decode()
        found = _PACKETS.search(text)
        return int(float(found[1])) if found else 0  # before the first turn
