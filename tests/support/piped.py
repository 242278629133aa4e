"""A command in this process whose standard input is a pipe."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from kanalyze.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


class Done(NamedTuple):
    """The output of a command, and its status."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run_piped(
    *argv: str,
    data: bytes,
    monkeypatch: pytest.MonkeyPatch,
    captured: pytest.CaptureFixture[bytes],
) -> Done:
    """Run a command to its end; ``captured`` is the fixture ``capfdbinary``."""
    captured.readouterr()
    with piped(data), open(0, closefd=False) as given, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", given)
        status = main(list(argv))
    return Done(status, *captured.readouterr())


@contextlib.contextmanager
def piped(data: bytes) -> Iterator[None]:
    """Let standard input be a pipe with this data; afterwards it is as before."""
    before = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    writer = threading.Thread(target=write, args=(writing, data))
    writer.start()
    try:
        yield
    finally:
        os.dup2(before, 0)  # the rest stays unread
        os.close(before)
        writer.join()


def write(descriptor: int, data: bytes) -> None:
    """Write all data, until the reader closes the pipe."""
    with contextlib.suppress(BrokenPipeError), os.fdopen(descriptor, "wb", buffering=0) as pipe:
        left = memoryview(data)
        while left:
            left = left[pipe.write(left) :]
