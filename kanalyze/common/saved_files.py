"""Tells saved files from captures by their first bytes, without anything that is slow to import.

In: the inputs of a command or a call. Out: the saved files among them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kanalyze.common import paths
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MAGIC_BYTES", "is_database", "saved_files"]

MAGIC_BYTES = 12
_MAGIC_AT, _MAGIC = 8, b"DUCK"


def is_database(beginning: bytes) -> bool:
    """Return true if a file with this beginning is a DuckDB database, which a saved file is."""
    return beginning[_MAGIC_AT:MAGIC_BYTES] == _MAGIC


def saved_files(inputs: Sequence[object]) -> list[str]:
    """Return the saved files among the inputs, each once; empty if all are captures.

    Raises:
        UsageError: there are saved files and captures.
    """
    files = [file for file in inputs if isinstance(file, str | os.PathLike) and _is_saved(file)]
    if not files:
        return []
    if len(files) < len(inputs):
        other = next(file for file in inputs if file not in files)
        raise UsageError(
            f"{os.fspath(files[0])}: is a saved file, which is not read together with a capture "
            f"({other}): save that too"
        )
    name_of_path: dict[str, str] = {}
    for file in files:
        name_of_path.setdefault(os.path.realpath(file), os.fspath(file))
    return list(name_of_path.values())


def _is_saved(path: str | os.PathLike[str]) -> bool:
    if paths.regular_bytes(path) is None:
        return False
    try:
        with paths.opened(path) as file:
            return is_database(file.read(MAGIC_BYTES))
    except OSError:
        return False  # the reader of captures opens it again and reports why it cannot
