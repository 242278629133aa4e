"""A command in this process that reads bytes from its standard input."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, NamedTuple

from kanalyze.cli.main import main

if TYPE_CHECKING:
    import pytest

__all__ = ["Done", "run_piped"]


class Done(NamedTuple):
    """What a command wrote, and its status."""

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
    with io.TextIOWrapper(io.BytesIO(data)) as given, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", given)
        status = main(list(argv))
    return Done(status, *captured.readouterr())
