"""Runs a generator in a process of its own.

In: a function that returns an iterator. Out: what it yields.

The process is forked: it begins with all modules loaded, with what this one knows, and with the
files that are open here. A system without fork has no such processes (:func:`usable_processes`).
"""

from __future__ import annotations

import gc
import os
import warnings
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from kanalyze.errors import KanalyzeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from typing import Self

__all__ = ["Forked", "usable_processes"]

_T = TypeVar("_T")
_MIN_BYTES: Final = 8 << 20
"""Of captures: for smaller ones, processes take longer than they save."""
_ENDED: Final = None
_ERRORS: Final = (KanalyzeError, OSError, MemoryError, ModuleNotFoundError)


def usable_processes(requested: int, total_bytes: int | None) -> int:
    """Return how many processes to use for captures of a size; 1 means this one alone.

    ``total_bytes`` is None if the size is unknown.
    """
    if total_bytes is None or total_bytes < _MIN_BYTES or not hasattr(os, "fork"):
        return 1
    return max(requested, 1)


class Forked(Generic[_T]):
    """Yields what an iterator yields in another process. Close it, or read it to its end."""

    def __init__(self, produce: Callable[[], Iterator[_T]]) -> None:
        """Start the process; it calls ``produce``. Raises OSError if the system cannot."""
        from multiprocessing import get_context  # imported late: only needed for processes

        context = get_context("fork")
        self._pipe, other_end = context.Pipe(duplex=False)
        # Garbage collection in the process would copy every page of objects that it visits.
        was_frozen = gc.get_freeze_count() > 0
        gc.freeze()
        try:
            self._process = context.Process(
                target=_work, args=(produce, other_end, self._pipe), daemon=True
            )
            with warnings.catch_warnings():
                # The fork is safe: the threads that there are (NumPy's, a progress bar) hold no
                # lock that the process needs.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
        finally:
            if not was_frozen:
                gc.unfreeze()
        other_end.close()

    def __iter__(self) -> Self:
        """Return this iterator."""
        return self

    def __next__(self) -> _T:
        """Wait for the next item.

        Raises:
            KanalyzeError: an error in the process, as OSError and MemoryError; or it died.
        """
        import pickle  # imported late: only needed for processes

        try:
            message: Any = pickle.loads(self._pipe.recv_bytes())  # noqa: S301 - our own wrote it
        except EOFError as error:
            raise KanalyzeError("a process died; try --jobs 1") from error
        if message is _ENDED:
            self.close()
            raise StopIteration
        if isinstance(message, _ERRORS):
            raise message
        item: _T = message
        return item

    def close(self) -> None:
        """End the process, even if it is not finished."""
        self._pipe.close()
        self._process.terminate()
        self._process.join()


def _work(produce: Callable[[], Iterator[object]], pipe: Connection, other_end: Connection) -> None:
    """Send what an iterator yields, from inside the process."""
    import signal  # imported late: only needed for processes

    # The parent process handles an interrupt, and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    other_end.close()
    try:
        for item in produce():
            _send(pipe, item)
        _send(pipe, _ENDED)
    except BrokenPipeError:
        return  # the parent process has ended
    except _ERRORS as error:
        _send(pipe, error)


def _send(pipe: Connection, value: object) -> None:
    import pickle  # imported late: only needed for processes

    pipe.send_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
