"""Runs a generator in a process of its own.

In: a function that returns an iterator. Out: what it yields, pickled; its errors are raised here.

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
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from typing import Self

_T = TypeVar("_T")
_PIPE_BYTES: Final = 1 << 20
"""Size of a pipe's buffer: a process continues while what it sent is not read."""
_MIN_BYTES: Final = 16 << 20
"""Of captures: for smaller ones, processes take longer than they save."""
_ENDED: Final = None
"""What is sent last, so no item may be None."""
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

    def __init__(
        self, produce: Callable[[], Iterator[_T]], unneeded: Sequence[Connection] = ()
    ) -> None:
        """Start the process.

        Args:
            produce: is called in the process.
            unneeded: pipes that are closed there. Those to other processes have to be among them:
                the end of a pipe is seen only when nobody has its other end open.

        Raises:
            OSError: the system cannot start a process.
        """
        from multiprocessing import get_context  # imported late: only needed for processes

        context = get_context("fork")
        self.pipe, other_end = context.Pipe(duplex=False)
        """Where the items come from."""
        _enlarge(other_end.fileno())
        # Garbage collection in the process would copy every page of objects that it visits.
        was_frozen = gc.get_freeze_count() > 0
        gc.freeze()
        try:
            self._process = context.Process(
                target=_work, args=(produce, other_end, [self.pipe, *unneeded]), daemon=True
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
            message: Any = pickle.loads(self.pipe.recv_bytes())  # noqa: S301 - our own wrote it
        except EOFError as error:
            raise KanalyzeError("a worker process died; try --jobs 1") from error
        if message is _ENDED:
            self.close()
            raise StopIteration
        if isinstance(message, _ERRORS):
            raise message
        item: _T = message
        return item

    def close(self) -> None:
        """End the process, even if it is not finished."""
        self.pipe.close()
        self._process.terminate()
        self._process.join()


def _enlarge(descriptor: int) -> None:
    """Enlarge the buffer of a pipe, if the system can."""
    try:
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        return  # the small buffer works too, but more slowly


def _work(
    produce: Callable[[], Iterator[object]], pipe: Connection, unneeded: Sequence[Connection]
) -> None:
    """Send what an iterator yields, from inside the process."""
    import signal  # imported late: only needed for processes

    # The parent process handles an interrupt, and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other_pipe in unneeded:
        other_pipe.close()
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
