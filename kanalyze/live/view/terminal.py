"""A terminal in full-screen mode, which is read key by key.

In: renderables of rich; the bytes that a terminal sends. Out: names of keys: the character itself,
or ``tab``, ``enter``, ``up`` and so on.

When the context of a :class:`Terminal` ends, for any reason, the screen, the cursor and the
terminal's modes are restored.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import select
import sys
import termios
import tty
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType
    from rich.live import Live

_ESCAPE = "\x1b"
_NAMES = {
    _ESCAPE: "escape",
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "ctrl-c",
    "\x15": "ctrl-u",
}
_SEQUENCES = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "[H": "home",
    "[F": "end",
    "[Z": "shift-tab",
    "[1~": "home",
    "[4~": "end",
    "[5~": "pageup",
    "[6~": "pagedown",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "OH": "home",
    "OF": "end",
}
"""Keys by what follows the escape character (ECMA-48 and xterm)."""

_KEY = re.compile(r"\x1b[\[O][^@-~\x1b]{0,14}[@-~]?|\x1b|[^\x1b]", re.DOTALL)
"""A key: an escape sequence, which may be cut short by another one, the escape key, a character."""
_BEGUN = re.compile(r"\x1b(?:[\[O][^@-~\x1b]{0,13})?$", re.DOTALL)
"""A sequence that may continue in the next bytes."""


class KeyReader:
    """Decodes keys from pieces of bytes, which may end within a key."""

    __slots__ = ("_begun", "_decoder")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""
        """The beginning of an incomplete sequence, with its escape character."""

    def feed(self, data: bytes) -> list[str]:
        """Return the complete keys; unknown ones are left out."""
        text = self._begun + self._decoder.decode(data)
        begun = _BEGUN.search(text)
        self._begun = "" if begun is None else begun[0]
        texts = _KEY.findall(text[: len(text) - len(self._begun)])
        return [key for key in map(_key_of, texts) if key is not None]

    def flush(self) -> list[str]:
        """Return the escape key if its byte came alone; call this when no more bytes come."""
        is_escape_key, self._begun = self._begun == _ESCAPE, ""
        return ["escape"] if is_escape_key else []


def _key_of(text: str) -> str | None:
    """Return the name of a key, or its character; None for a key that is not known."""
    if len(text) > 1:
        return _SEQUENCES.get(text[1:])
    return _NAMES.get(text) or (text if text.isprintable() else None)


HANGUP = "ctrl-c"
"""A pseudo-key: the terminal was closed."""

_MAX_KEY_BYTES = 128
"""Maximum number of bytes to read per tick, so that no tick takes long."""
_LOCAL_MODES = 3
"""The index of local modes in the result of tcgetattr()."""
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""Control sequences that switch line wrap off and on (DECAWM)."""


def can_draw(console: Console) -> bool:
    """Return true if a console is a terminal with a screen.

    A pipe is not, even with FORCE_COLOR.
    """
    return console.is_terminal and not console.is_dumb_terminal and console.file.isatty()


class Terminal:
    """A context manager that draws on a console and reads keys."""

    def __init__(self, console: Console) -> None:
        """Draw on a console for which :func:`can_draw` is true.

        Keys are read from standard input. If that is not a terminal (but a capture), they are read
        from the controlling terminal of the process; without one there are no keys.
        """
        self._console = console
        self._stack = ExitStack()
        self._live: Live | None = None
        self._keys_fd: int | None = None
        self._is_closed = False
        self._reader = KeyReader()

    def __enter__(self) -> Self:
        """Switch to full-screen mode; raises OSError and termios.error."""
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

    def __exit__(self, *_: object) -> None:
        """Restore the terminal."""
        self._live = self._keys_fd = None
        # A closed terminal need not be restored.
        with suppress(OSError):
            self._stack.close()

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()

    @property
    def size(self) -> tuple[int, int]:
        """The current columns and lines, whatever COLUMNS and LINES say."""
        from rich.console import ConsoleDimensions

        # The console's file may have no descriptor.
        with suppress(OSError, ValueError):
            now = os.get_terminal_size(self._console.file.fileno())
            if now.columns and now.lines:
                self._console.size = ConsoleDimensions(now.columns, now.lines)
        size = self._console.size
        return size.width, size.height

    def show(self, renderable: RenderableType) -> None:
        """Draw, unless the terminal was closed. Raises OSError for other failures."""
        # On a closed terminal, rich draws nothing and raises no error.
        self._is_closed = self._is_closed or not self._console.is_terminal
        if self._live is None or self._is_closed:
            return
        try:
            self._live.update(renderable, refresh=True)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self._is_closed = True

    def keys(self) -> list[str]:
        """Return the keys pressed since the last call, without waiting; does not raise.

        The result is :data:`HANGUP` if the terminal was closed.
        """
        if self._is_closed:
            return [HANGUP]
        if self._keys_fd is None:
            return []
        _set_mode_again(self._keys_fd)
        try:
            if not select.select([self._keys_fd], [], [], 0)[0]:
                return self._reader.flush()
            data = os.read(self._keys_fd, _MAX_KEY_BYTES)
        except OSError:
            data = b""
        if not data:
            self._is_closed = True
            return [HANGUP]
        return self._reader.feed(data)


@contextmanager
def _keys() -> Iterator[int | None]:
    """Yield a descriptor that returns each key at once; None without a terminal."""
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
        _set_mode(fd)
        yield fd


def _standard_input() -> int | None:
    # Standard input may be closed, or not be a file.
    with suppress(AttributeError, OSError, ValueError):
        fd = sys.stdin.fileno()
        return fd if os.isatty(fd) else None
    return None


def _set_mode(fd: int) -> None:
    """Switch a terminal to return each key at once.

    The keys that suspend or kill the process are disabled, because the screen would not be
    restored. Ctrl-c interrupts the process.
    """
    tty.setcbreak(fd)
    attributes = termios.tcgetattr(fd)
    off = os.fpathconf(fd, "PC_VDISABLE")
    for key in (termios.VSUSP, termios.VQUIT):
        attributes[6][key] = bytes([off])
    termios.tcsetattr(fd, termios.TCSANOW, attributes)


def _set_mode_again(fd: int) -> None:
    """Set the mode again if a shell changed it while the process was stopped."""
    with suppress(termios.error):  # the terminal was closed
        if termios.tcgetattr(fd)[_LOCAL_MODES] & termios.ICANON:
            _set_mode(fd)


def _restore(fd: int, attributes: list[int | list[bytes | int]]) -> None:
    # A closed terminal need not be restored.
    with suppress(termios.error, OSError):
        # Unread keys are discarded, not passed to the shell.
        termios.tcsetattr(fd, termios.TCSAFLUSH, attributes)
