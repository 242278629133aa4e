"""Ends the process at SIGINT and SIGTERM: at once, without output that is half done.

In: signals. Out: the exit status 130 or 143, as shells have it; no unfinished file, no process.

By default Python raises KeyboardInterrupt wherever the process is: in an import, in a destructor,
in a query. Some of that ends in a traceback, or in a file that is left behind. So the handler ends
the process itself. Only a batch is ended by an exception, as its engine has to stop its tasks.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes as long to import as all other modules before the first handler
    from types import FrameType
    from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STATUS = 128
"""Added to the number of a signal."""
INTERRUPTED = _STATUS + signal.SIGINT
"""The exit status after SIGINT."""


class Interrupted(KeyboardInterrupt):
    """A signal that ends the process."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.status = _STATUS + number
        """The exit status."""


def end_at_signals() -> None:
    """Let signals end the process from now on; one that the parent process ignores stays so."""
    process = os.getpid()
    _handle(lambda number, _: _end(number, process))


def raise_at_signals() -> None:
    """Let the first signal raise :class:`Interrupted`; those after it are ignored."""
    _handle(_raise)


def ignore_signals() -> None:
    """Ignore signals from now on: the work is done, and its status is known."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _handle(handler: signal._HANDLER) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _raise(number: int, _: FrameType | None) -> None:
    ignore_signals()
    raise Interrupted(number)


def _end(number: int, process: int) -> NoReturn:
    """End this process; of a process that was forked from it, nothing but the process itself."""
    if os.getpid() != process:
        os._exit(_STATUS + number)
    ignore_signals()
    _end_children()
    # Not imported here: it could be what is being imported.
    unfinished = sys.modules.get("kanalyze.common.unfinished")
    remove_all = getattr(unfinished, "remove_all", None)
    if remove_all is not None:
        remove_all()
    _erase_progress()
    os._exit(_STATUS + number)


def _end_children() -> None:
    """End the processes that this one has forked."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    for child in getattr(multiprocessing, "active_children", list)():
        child.kill()
        child.join()


def _erase_progress() -> None:
    """Erase the line of progress on the terminal, if there is one: a message would do it too."""
    if getattr(sys.stderr, "erases_line", False):
        sys.stderr.write("")
