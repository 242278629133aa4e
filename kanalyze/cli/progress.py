"""The progress of a long command, on standard error; the same for all commands.

In: phases, and amounts done so far. Out: on a terminal one line, which is drawn again and again and
erased at the end; elsewhere, such as in a log, a line every ten seconds.

A run that ends before the first line is due shows no progress.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import contextmanager, redirect_stderr, suppress
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeAlias, cast

from kanalyze.cli.console import print_message, terminal_width
from kanalyze.export.files import STANDARD_OUTPUT

if TYPE_CHECKING:
    import argparse
    import threading
    from collections.abc import Callable, Iterator

    from kanalyze.render.progress import ProgressState, RateMeter

_FIRST_LINE_S = 1.0
"""How long a run must last to show progress on a terminal."""
_DRAW_S = 0.2
_LOG_S = 10.0
_LOG_CHECK_S = 1.0
_PREFIX = "kanalyze: "
_WIPE = "\r\x1b[K"

_Amounts: TypeAlias = "Callable[[], tuple[int, int | None] | None]"
"""Returns the amount done and the total, which is None if unknown; None if nothing runs."""


class HasProgress(Protocol):
    """A source that counts the bytes it has read, such as an analysis."""

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all; the latter is None if unknown."""
        ...


class SystemClock:
    """The time of this machine."""

    def seconds(self) -> float:
        """Return the seconds of a monotonic clock."""
        return time.monotonic()

    def ends_within(self, ended: threading.Event, seconds: float) -> bool:
        """Wait up to ``seconds`` for an event; return whether it was set."""
        return ended.wait(seconds)


class Progress:
    """The current phase of a command; shown inside the ``with`` block of :meth:`shown`.

    A thread draws it, because a command may work for long before it has a row.
    """

    def __init__(self, *, is_wanted: bool = True, clock: SystemClock | None = None) -> None:
        """Set up. If not ``is_wanted``, nothing is ever shown."""
        self.is_wanted = is_wanted
        """False if nothing is ever shown."""
        self._clock = SystemClock() if clock is None else clock
        self._phase = _Phase("", self._clock.seconds())
        self._output: _TerminalLine | _LogLines | None = None

    def begin(self, phase: str) -> None:
        """Begin a phase whose amounts are unknown."""
        self._phase = _Phase(phase, self._clock.seconds())

    def count(self, phase: str, amounts: _Amounts, unit: str | None = None) -> None:
        """Begin a phase with amounts, of bytes without a ``unit``.

        Another thread calls the function that returns them.
        """
        self._phase = _Phase(phase, self._clock.seconds(), amounts, unit)

    @contextmanager
    def reading(self, source: HasProgress, phase: str = "reading") -> Iterator[None]:
        """Show the bytes of a source while the block runs."""
        self.count(phase, lambda: source.progress)
        yield

    def _update(self) -> None:
        """Show the phase, if a line is due."""
        if self._output is not None:
            now_s = self._clock.seconds()
            self._output.show(self._phase.state(now_s), now_s)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the progress while the block runs."""
        if not self.is_wanted:
            yield
            return
        import threading  # imported late: it is slow, and a short command needs none

        stream = sys.stderr
        line = _TerminalLine(stream, threading.RLock()) if _can_draw(stream) else None
        self._output = line or _LogLines()
        self._output.start(self._clock.seconds())
        self._phase.sample(self._clock.seconds())
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(ended,), daemon=True)
        thread.start()
        messages = stream if line is None else cast("TextIO", _MessageStream(stream, line))
        try:
            with redirect_stderr(messages):
                yield
        finally:
            ended.set()
            thread.join()
            self._output = None
            if line is not None:
                line.wipe()

    def _run(self, ended: threading.Event) -> None:
        every_s = _DRAW_S if isinstance(self._output, _TerminalLine) else _LOG_CHECK_S
        while not self._clock.ends_within(ended, every_s):
            self._update()


class _Phase:
    """A phase of a command, and its rate."""

    def __init__(
        self, name: str, begin_s: float, amounts: _Amounts | None = None, unit: str | None = None
    ) -> None:
        self._name = name
        self._begin_s = begin_s
        self._amounts = amounts
        self._unit = unit
        self._first: tuple[float, int, int | None] | None = None
        """The first sample of the rate."""
        self._rate: RateMeter | None = None

    def sample(self, now_s: float) -> None:
        """Take the first sample of the rate."""
        amounts = None if self._amounts is None else self._amounts()
        self._first = None if amounts is None else (now_s, *amounts)

    def state(self, now_s: float) -> ProgressState:
        """Return the current state."""
        # Imported late: a short command has no line.
        from kanalyze.render.progress import BYTES, ProgressState, RateMeter

        if self._rate is None:
            self._rate = RateMeter()
            if self._first is not None:
                self._rate.add(*self._first)
        state = ProgressState(self._name, now_s - self._begin_s, unit=self._unit or BYTES)
        amounts = None if self._amounts is None else self._amounts()
        if amounts is None:
            return state
        done, total = amounts
        rate = self._rate.add(now_s, done, total)
        return state._replace(done=done, total=total, per_second=rate)


class _TerminalLine:
    """One line of a terminal; it is erased before a message and before the shell's prompt."""

    def __init__(self, stream: TextIO, lock: threading.RLock) -> None:
        self._stream = stream
        self._due_s = 0.0
        self._is_drawn = False
        self.lock = lock
        """Held while something is written."""

    def start(self, now_s: float) -> None:
        """Note the time at which the first line is due."""
        self._due_s = now_s + _FIRST_LINE_S

    def show(self, state: ProgressState, now_s: float) -> None:
        """Draw the line again, unless the command runs in the background of its shell."""
        if now_s < self._due_s or not _is_in_foreground(self._stream):
            return
        from kanalyze.render.progress import progress_line

        # One column less: some terminals begin a new line if the last column is used.
        line = progress_line(state, _width(self._stream) - len(_PREFIX) - 1)
        with self.lock:
            self._is_drawn = True
            self._write(f"{_WIPE}{_PREFIX}{line}")

    def wipe(self) -> None:
        """Erase the line."""
        with self.lock:
            if self._is_drawn:
                self._is_drawn = False
                self._write(_WIPE)

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal was closed
            self._stream.write(text)
            self._stream.flush()


class _LogLines:
    """Lines of a log, ten seconds apart."""

    def __init__(self) -> None:
        self._due_s = 0.0

    def start(self, now_s: float) -> None:
        """Note the time at which the first line is due."""
        self._due_s = now_s + _LOG_S

    def show(self, state: ProgressState, now_s: float) -> None:
        """Write a line if one is due."""
        if now_s >= self._due_s:
            from kanalyze.render.progress import progress_text

            self._due_s = now_s + _LOG_S
            print_message(progress_text(state))


class _MessageStream:
    """Standard error while the line is drawn: it erases the line before it writes a message.

    The line is drawn again below the message. Forked workers draw no line, and do not use the lock,
    which may have been held at the fork.
    """

    erases_line = True

    def __init__(self, stream: TextIO, line: _TerminalLine) -> None:
        self._stream = stream
        self._line = line
        self._process = os.getpid()

    def write(self, text: str) -> int:
        """Erase the line and write text in its place."""
        if os.getpid() != self._process:
            return self._stream.write(text)
        with self._line.lock:
            self._line.wipe()
            return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self._stream, name)


def progress_of(
    arguments: argparse.Namespace, destination: str | None = None, *, is_streamed: bool = False
) -> Progress:
    """Return the progress of a command.

    Args:
        arguments: of the command, with ``--no-progress``.
        destination: where the command writes: a file, or ``-``; None if it writes only files.
        is_streamed: whether it writes while it runs, not only at the end.
    """
    is_wanted = not arguments.no_progress
    if destination == STANDARD_OUTPUT:
        is_wanted = is_wanted and not _would_mix(is_streamed=is_streamed)
    return Progress(is_wanted=is_wanted)


def _would_mix(*, is_streamed: bool) -> bool:
    """Return true if progress would appear between lines of standard output."""
    output = _status(sys.stdout)
    if not sys.stderr.isatty():
        # Both may be the same log or pipe, for example by 2>&1.
        errors = _status(sys.stderr)
        same = output is not None and errors is not None and os.path.samestat(output, errors)
        return same and not sys.stdout.isatty()
    if not is_streamed:
        return False
    # What reads a pipe, such as a pager, mostly writes to the same terminal.
    return sys.stdout.isatty() or (output is not None and stat.S_ISFIFO(output.st_mode))


def _status(stream: TextIO) -> os.stat_result | None:
    try:
        return os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or only in memory
        return None


def _can_draw(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _width(stream: TextIO) -> int:
    try:
        return terminal_width(stream.fileno())
    except (OSError, ValueError):
        return terminal_width()


def _is_in_foreground(stream: TextIO) -> bool:
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):  # not the controlling terminal of this process: unknown
        return True
