"""Imports pyarrow without NumPy, for commands that make no NumPy arrays of Arrow's.

In: the arguments of a command. Out: pyarrow, loaded.

pyarrow (from 18 on, the oldest that is allowed) does without NumPy where it is not installed; where
it is, it imports all of it, for conversions between the two. That takes longer than pyarrow itself:
50 of 80 ms, of a command that may take 150.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def import_pyarrow(arguments: argparse.Namespace, name: str = "pyarrow") -> None:
    """Import pyarrow, or a module of it, without NumPy, if the process runs only this command.

    In any other process, such as a user's notebook, pyarrow has to be what others expect. NumPy
    itself can be imported afterwards.
    """
    if not arguments.owns_process or "numpy" in sys.modules or name in sys.modules:
        return
    sys.modules["numpy"] = None  # type: ignore[assignment]  # it cannot be imported, says Python
    try:
        import_module(name)
    finally:
        del sys.modules["numpy"]
