"""Which files and folders this process has begun, so that a signal that ends it can remove them.

In: paths, before they are made and when they are complete or gone. Out: nothing left behind.

An exception would reach the code that removes them only sometimes: it can be raised in a destructor
or a callback, where Python ignores it, or DuckDB makes an error of its own of it. So there is one
list for the process, as there is one handler of signals.
"""

from __future__ import annotations

import os
from contextlib import suppress

from kanalyze.common import paths

_begun: dict[str, int] = {}
"""The processes that began files and folders, by path. A forked process inherits the list."""
_MAX_TRIES = 100


def begin(path: str | os.PathLike[str]) -> None:
    """Note a file or a folder; to be called before it is made."""
    _begun[os.fspath(path)] = os.getpid()


def end(path: str | os.PathLike[str]) -> None:
    """Forget a file or a folder that is complete, or that is gone."""
    _begun.pop(os.fspath(path), None)


def remove_all() -> None:
    """Remove what this process has begun and not finished; raises nothing."""
    own = os.getpid()
    for path in [path for path, process in _begun.items() if process == own]:
        with suppress(OSError):
            if paths.is_folder(path):
                _remove_folder(path)
            else:
                os.unlink(path)  # noqa: PTH108 - it may be pathlib that is being imported


def _remove_folder(path: str) -> None:
    """Remove a folder in which other threads of this process may still make files."""
    import shutil  # needed only if the process is ended

    for _ in range(_MAX_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not paths.exists(path):
            return
