"""The view on a terminal of its own, with keys pressed."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import ExitStack, closing

import pytest
from rich.console import Console

from kanalyze.live.terminal import HANGUP, Terminal, can_draw

LIMIT_S = 30
ALTERNATE, BACK = b"\x1b[?1049h", b"\x1b[?1049l"
HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"


# What a leader of a session opens first is the terminal that ctrl-c comes from.
_LEADER = """
import os, sys
os.close(os.open(os.ttyname(1), os.O_RDWR))
os.execv(sys.executable, [sys.executable, "-m", "tests.live.drive", *sys.argv[1:]])
"""


class Session:
    """``tests.live.drive`` on a pseudo-terminal."""

    def __init__(self, *options: str, width: int = 80, height: int = 24, piped: bool = False):
        self.fd, self._slave = pty.openpty()
        self.resize(width, height)
        self.before = termios.tcgetattr(self._slave)
        self.output = b""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LEADER, "--seconds", str(LIMIT_S), *options],
            stdin=subprocess.DEVNULL if piped else self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
            start_new_session=True,
        )

    def close(self) -> None:
        """End the process, if it has not ended."""
        self._process.kill()
        self._process.wait()
        os.close(self.fd)
        os.close(self._slave)

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys: bytes) -> None:
        """Press keys, and forget what was shown before."""
        self.output = b""
        os.write(self.fd, keys)

    def see(self, text: str) -> None:
        """Wait until something is shown; raises AssertionError when it is not."""
        end = time.monotonic() + LIMIT_S
        while text.encode() not in self.output:
            assert time.monotonic() < end, f"{text!r} is not in {self.output[-5000:]!r}"
            self._read(0.1)

    def end(self) -> int:
        """Wait for the end, read what is left, and return the exit status."""
        end = time.monotonic() + LIMIT_S
        while self._process.poll() is None:
            assert time.monotonic() < end, "it does not end"
            self._read(0.05)
        while self._read(0.1):
            pass
        return self._process.returncode

    def is_restored(self) -> bool:
        """Whether terminal and screen are as they were."""
        kept = termios.tcgetattr(self._slave) == self.before
        return kept and BACK in self.output and self.output.rindex(SHOWN) > self.output.find(HIDDEN)

    def _read(self, seconds: float) -> bool:
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        self.output += os.read(self.fd, 65536)
        return True


def test_keys_are_heeded_and_the_terminal_is_restored():
    with closing(Session()) as made:
        made.see("JoinGroup")
        assert ALTERNATE in made.output
        assert termios.tcgetattr(made._slave) != made.before
        made.press(b"2")
        made.see("from")
        made.press(b"/web-1")
        made.see("/web-1")
        made.press(b"\r")
        made.see("only web-1")
        made.press(b"p")
        made.see("PAUSED")
        made.press(b"?")
        made.see("counting goes on")
        made.press(b"q")
        assert made.end() == 0
        assert made.is_restored()
        assert b"left with 'web-1'" in made.output


def test_it_takes_the_size_the_terminal_has():
    with closing(Session(width=60, height=15)) as made:
        made.see("JoinGroup")
        assert b"6 errors" not in made.output
        made.output = b""
        made.resize(120, 40)
        made.see("6 errors")
        made.press(b"q")
        assert made.end() == 0


def test_nothing_from_the_wire_reaches_the_terminal_as_it_is():
    with closing(Session()) as made:
        made.see("bad[bold]")
        made.press(b"q")
        made.end()
        # Nor is the screen ever cleared while it is drawn on, for that would flicker.
        assert b"\x1b[2J" not in made.output
        assert "\u202e".encode() not in made.output


def test_the_terminal_is_restored_after_an_exception():
    with closing(Session("--fail")) as made:
        assert made.end() == 1
        assert made.is_restored()
        # Behind the screen that was left, where it can be read.
        assert b"RuntimeError: the feed broke" in made.output[made.output.rindex(BACK) :]


def test_the_terminal_is_restored_after_ctrl_c():
    with closing(Session()) as made:
        made.see("JoinGroup")
        made.press(b"\x1a\x03")
        assert made.end() != 0
        assert made.is_restored()
        assert b"KeyboardInterrupt" in made.output


def test_keys_come_from_the_terminal_when_standard_input_is_a_capture():
    with closing(Session(piped=True)) as made:
        made.see("JoinGroup")
        made.press(b"q")
        assert made.end() == 0
        assert made.is_restored()


def test_a_terminal_that_is_gone_is_a_hangup(monkeypatch):
    master, slave = pty.openpty()
    with ExitStack() as stack:
        stack.callback(os.close, slave)
        monkeypatch.setattr(sys, "stdin", stack.enter_context(open(slave, closefd=False)))
        terminal = stack.enter_context(Terminal(Console(file=io.StringIO(), force_terminal=True)))
        assert terminal.keys() == []
        os.write(master, b"a\x1b[A")
        assert terminal.keys() == ["a", "up"]
        os.close(master)
        assert terminal.keys() == [HANGUP]
        assert terminal.keys() == []


def test_leaving_a_terminal_that_is_gone_raises_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    gone = Gone()
    with Terminal(Console(file=gone, force_terminal=True)) as terminal:
        terminal.show("something")
        gone.is_gone = True
        with pytest.raises(OSError, match="gone"):
            terminal.show("something else")


class Gone(io.StringIO):
    """A stream to a terminal that is gone at some time."""

    is_gone = False

    def write(self, text: str) -> int:
        if self.is_gone:
            raise OSError("gone")
        return super().write(text)


def test_a_dumb_terminal_and_a_file_are_not_drawn_on(monkeypatch, tmp_path):
    with (tmp_path / "out.txt").open("w") as file:
        assert not can_draw(Console(file=file))
        monkeypatch.setenv("TERM", "dumb")
        assert not can_draw(Console(file=file, force_terminal=True))
        monkeypatch.setenv("TERM", "xterm")
        assert can_draw(Console(file=file, force_terminal=True))
