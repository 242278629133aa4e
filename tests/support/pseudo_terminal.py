"""A command on a terminal of its own, whose keys a test presses and whose screen it reads."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.cells import cell_len

from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

ALTERNATE, BACK = b"\x1b[?1049h", b"\x1b[?1049l"
HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"
NO_WRAP, WRAP = b"\x1b[?7l", b"\x1b[?7h"

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HOME = b"\x1b[H"
_MOST_SCREENS = 120
"""A view draws two a second: what is not on so many never comes."""

# The terminal that a session leader opens first is the one that ctrl-c comes from. The process that
# runs the tests may ignore signals, as nohup does and shells for background jobs; children inherit
# that.
_LEADER = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
os.close(os.open(os.ttyname(1), os.O_RDWR))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class PseudoTerminal:
    """Python with some arguments on a pseudo-terminal; a context, at the end of which it is killed.

    ``stdin``: None for the terminal itself, or as for :class:`subprocess.Popen`.
    """

    def __init__(
        self,
        *argv: str,
        stdin: int | None = None,
        width: int = 80,
        height: int = 24,
        **environment: str,
    ) -> None:
        self.fd, self._slave = pty.openpty()
        self.resize(width, height)
        self._before = termios.tcgetattr(self._slave)
        self.output = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LEADER, *argv],
            stdin=self._slave if stdin is None else stdin,
            stdout=self._slave,
            stderr=self._slave,
            env={
                **os.environ,
                "TERM": "xterm-256color",
                "COLUMNS": "",
                "LINES": "",
                "NO_COLOR": "",
                **environment,
            },
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal, as when a line breaks; nothing can be seen after that."""
        for fd in (self.fd, self._slave):
            if fd >= 0:
                os.close(fd)
        self.fd = self._slave = -1

    def resize(self, width: int, height: int) -> None:
        """Change the size; the command gets a SIGWINCH."""
        self._size = width, height
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys: bytes) -> None:
        """Press keys, and forget earlier output."""
        self.output = b""
        os.write(self.fd, keys)

    def see(self, text: str) -> None:
        """Wait until a text is written; raise AssertionError if it is not."""
        self.wait_until(lambda: text.encode() in self.output, text)

    def see_screen(self, is_wanted: Callable[[list[str]], bool]) -> list[str]:
        """Wait for a whole screen that fulfils a condition; return its lines without styles."""
        self.wait_until(lambda: any(map(is_wanted, self._screens())), "such a screen")
        return next(filter(is_wanted, self._screens()))

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Read output until a condition holds.

        It never will once the command has ended, or has drawn many screens, however slowly.
        """
        end = time.monotonic() + LONG_S
        while not is_so():
            has_ended = self.process.poll() is not None
            is_over = not self._read(0.1) and has_ended
            is_over |= self.output.count(_HOME) > _MOST_SCREENS or time.monotonic() >= end
            assert not is_over or is_so(), f"no {what!r} in {self.output[-5000:]!r}"

    def interrupt(self) -> None:
        """Interrupt the command, and return when it reacts: an earlier second interrupt is lost."""
        self.process.send_signal(signal.SIGINT)
        self.wait_until_it_sleeps()

    def wait_until_it_sleeps(self) -> None:
        """Return when the command waits for something, such as a key.

        Python's readline notices a signal that comes just before only with the next key.
        """
        if sys.platform == "linux":
            wait_until(self._sleeps, "the command sleeps")
        else:
            time.sleep(1)

    def _sleeps(self) -> bool:
        """Whether the command sleeps with no signal pending, or has ended."""
        if self.process.poll() is not None:
            return True
        pid = self.process.pid
        lines = Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        is_pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
        return fields["State"].split()[0] == "S" and not is_pending

    def hold_output(self) -> None:
        """Block all output of the command until :meth:`release_output`."""
        termios.tcflow(self._slave, termios.TCOOFF)

    def release_output(self) -> None:
        """Let the command write again."""
        termios.tcflow(self._slave, termios.TCOON)

    def end(self) -> int:
        """Wait for the end, read the rest of the output, and return the exit status."""
        self.wait_until(lambda: self.process.poll() is not None, "end")
        while self._read(0.1):
            pass
        return int(self.process.returncode)

    def is_as_before(self) -> bool:
        """Whether terminal and screen are as they were before the command."""
        if termios.tcgetattr(self._slave) != self._before:
            return False
        ends = ((ALTERNATE, BACK), (HIDDEN, SHOWN), (NO_WRAP, WRAP))
        return all(self.output.rfind(begin) < self.output.rfind(end) for begin, end in ends)

    def text_behind(self) -> str:
        """The text on the screen that was there before, without styles."""
        return _SEQUENCE.sub("", self.output[self.output.rindex(BACK) :].decode())

    def _screens(self) -> list[list[str]]:
        """Return the complete screens: every line is as wide as the screen."""
        texts = [part.decode(errors="replace") for part in self.output.split(_HOME)[1:]]
        lines = [_SEQUENCE.sub("", text).replace("\r", "").split("\n") for text in texts]
        width, height = self._size
        return [
            screen for screen in lines if len(screen) == height and cell_len(screen[-1]) == width
        ]

    def _read(self, seconds: float) -> bool:
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        self.output += os.read(self.fd, 65536)
        return True
