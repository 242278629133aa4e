"""Texts that tests compare with files, and a way to write those files again.

With ``KANALYZE_UPDATE_GOLDEN=1`` in the environment the files are written instead of compared;
the diff of the commit then shows what changed.
"""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

UPDATE = "KANALYZE_UPDATE_GOLDEN"


def assert_golden(made: str, path: Path) -> None:
    """Compare a text with a file, line by line; raises AssertionError with both and a diff."""
    if os.environ.get(UPDATE) == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(made, encoding="utf-8", newline="\n")
        return
    expected = path.read_text(encoding="utf-8")
    if made == expected:
        return
    diff = difflib.unified_diff(
        expected.splitlines(), made.splitlines(), path.name, "made now", lineterm="", n=2
    )
    raise AssertionError(
        f"{path.name} differs (set {UPDATE}=1 to write it anew)\n"
        f"--- expected ---\n{expected}\n--- made now ---\n{made}\n--- difference ---\n"
        + "\n".join(diff)
    )
