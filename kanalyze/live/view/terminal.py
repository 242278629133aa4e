"""A terminal that is drawn on as a whole, and read key by key.

In: what to show. Out: keys. This module must not know what is shown, nor what keys mean.

Everything is as it was when a :class:`Terminal` is left, whatever the reason: the screen before it,
the cursor, and how the terminal treats what is typed.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import termios
import tty
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Self

from kanalyze.live.view.keys import KeyReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from rich.console import Console, RenderableType
    from rich.live import Live

__all__ = ["HANGUP", "Terminal", "can_draw"]

HANGUP = "ctrl-c"
"""The key that a terminal which is no longer there has pressed."""

_AT_ONCE = 128
"""Bytes of keys that are taken in a turn, so that no turn takes long; more wait for the next."""
_LOCAL_MODES = 3
"""Where they stand in what tcgetattr() returns."""
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""DECAWM: no line that is wider than the terminal thinks goes on in the next one."""


def can_draw(console: Console) -> bool:
    """Return whether a console is a terminal that can be drawn on.

    A pipe is none, whatever FORCE_COLOR makes of it.
    """
    return console.is_terminal and not console.is_dumb_terminal and console.file.isatty()


class Terminal:
    """Draws on a console and reads keys, while it is entered as a context."""

    def __init__(self, console: Console) -> None:
        """Take a console for which :func:`can_draw`.

        Keys are read from standard input, or where that is no terminal (a capture may come that
        way) from the terminal of the process. Without either there are no keys.
        """
        self._console = console
        self._stack = ExitStack()
        self._live: Live | None = None
        self._keys_fd: int | None = None
        self._is_gone = False
        self._reader = KeyReader()

    def __enter__(self) -> Self:
        """Begin. Raises OSError and termios.error where the terminal does not obey."""
        from rich.live import Live

        with ExitStack() as stack:
            self._keys_fd = stack.enter_context(_keys())
            stack.callback(self._write, _WRAP)
            self._write(_NO_WRAP)
            self._live = stack.enter_context(
                Live(
                    console=self._console,
                    screen=True,
                    auto_refresh=False,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was."""
        self._live = self._keys_fd = None
        # One that cannot be written to is gone, and needs nothing any more.
        with suppress(OSError):
            self._stack.close()

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now, whatever COLUMNS and LINES say of before."""
        from rich.console import ConsoleDimensions

        # What the console writes to may have no descriptor.
        with suppress(OSError, ValueError):
            now = os.get_terminal_size(self._console.file.fileno())
            if now.columns and now.lines:
                self._console.size = ConsoleDimensions(now.columns, now.lines)
        size = self._console.size
        return size.width, size.height

    def show(self, renderable: RenderableType) -> None:
        """Draw over what is there, as long as the terminal is. Raises OSError for all else."""
        # On what is no terminal any more rich draws nothing, without a word.
        self._is_gone = self._is_gone or not self._console.is_terminal
        if self._live is None or self._is_gone:
            return
        try:
            self._live.update(renderable, refresh=True)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self._is_gone = True

    def keys(self) -> list[str]:
        """Return the keys pressed since last time, without waiting; does not raise.

        A terminal that is gone gives :data:`HANGUP`.
        """
        if self._is_gone:
            return [HANGUP]
        if self._keys_fd is None:
            return []
        _take_back(self._keys_fd)
        try:
            if not select.select([self._keys_fd], [], [], 0)[0]:
                return self._reader.flush()
            data = os.read(self._keys_fd, _AT_ONCE)
        except OSError:
            data = b""
        if not data:
            self._is_gone = True
            return [HANGUP]
        return self._reader.feed(data)


@contextmanager
def _keys() -> Iterator[int | None]:
    """Give a descriptor that gives each key at once; None where there is no terminal."""
    with ExitStack() as stack:
        fd = _standard_input()
        if fd is None:
            try:
                fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            except OSError:
                yield None
                return
            stack.callback(os.close, fd)
        before = termios.tcgetattr(fd)
        stack.callback(_restore, fd, before)
        _take(fd)
        yield fd


def _standard_input() -> int | None:
    # It may be closed, or be no file at all.
    with suppress(AttributeError, OSError, ValueError):
        fd = sys.stdin.fileno()
        return fd if os.isatty(fd) else None
    return None


def _take(fd: int) -> None:
    """Let a terminal give each key at once.

    No key stops or kills the process while the screen is not as it was; ctrl-c interrupts.
    """
    tty.setcbreak(fd)
    attributes = termios.tcgetattr(fd)
    off = os.fpathconf(fd, "PC_VDISABLE")
    for key in (termios.VSUSP, termios.VQUIT):
        attributes[6][key] = bytes([off])
    termios.tcsetattr(fd, termios.TCSANOW, attributes)


def _take_back(fd: int) -> None:
    """Take a terminal again that a shell has set for itself: while the process was stopped."""
    with suppress(termios.error):  # it is gone
        if termios.tcgetattr(fd)[_LOCAL_MODES] & termios.ICANON:
            _take(fd)


def _restore(fd: int, attributes: list[int | list[bytes | int]]) -> None:
    # A terminal that is gone needs nothing any more.
    with suppress(termios.error, OSError):
        # What was typed and not read is not for the shell.
        termios.tcsetattr(fd, termios.TCSAFLUSH, attributes)
