"""The view on a terminal of its own, with keys pressed."""

from __future__ import annotations

import errno
import io
import os
import pty
import subprocess
import sys
import termios
from contextlib import ExitStack

import pytest
from rich.console import Console

from kanalyze.live.view.terminal import HANGUP, Terminal, can_draw
from tests.support.pseudo_terminal import ALTERNATE, BACK, PseudoTerminal
from tests.support.waiting import LONG_S


class Session(PseudoTerminal):
    """``tests.live.drive`` on a pseudo-terminal."""

    def __init__(self, *options: str, stdin: int | None = None, width: int = 80, height: int = 24):
        argv = ("-m", "tests.live.drive", "--seconds", str(LONG_S), *options)
        super().__init__(*argv, stdin=stdin, width=width, height=height)


def test_keys_work_and_the_terminal_is_restored():
    with Session() as made:
        made.see("JoinGroup")
        assert ALTERNATE in made.output
        assert not made.is_as_before()
        made.press(b"2")
        made.see("billing-")
        made.press(b"/web-1")
        made.see("/web-1")
        made.press(b"\r")
        made.see("only web-1")
        made.press(b"p")
        made.see("PAUSED")
        made.press(b"?")
        made.see("counting continues")
        made.press(b"q")
        assert made.end() == 0
        assert made.is_as_before()
        assert b"left with 'web-1'" in made.output


def test_the_view_has_the_size_of_the_terminal():
    with Session(width=60, height=15) as made:
        made.see("JoinGroup")
        assert b"6 errors" not in made.output
        made.output = b""
        made.resize(120, 40)
        made.see("6 errors")
        made.press(b"q")
        assert made.end() == 0


def test_nothing_from_the_wire_reaches_the_terminal_as_it_is():
    with Session() as made:
        made.see("bad[bold]")
        made.press(b"q")
        made.end()
        # The screen is never cleared while it is drawn, because it would flicker.
        assert b"\x1b[2J" not in made.output
        assert "\u202e".encode() not in made.output


def test_the_terminal_is_restored_after_an_exception(monkeypatch):
    monkeypatch.setenv("PYTHON_COLORS", "0")  # of the traceback, from Python 3.13 on
    with Session("--fail") as made:
        assert made.end() == 1
        assert made.is_as_before()
        # The text comes after the full-screen mode, where it can be read.
        assert b"RuntimeError: the feed broke" in made.output[made.output.rindex(BACK) :]


def test_the_terminal_is_restored_after_ctrl_c():
    with Session() as made:
        made.see("JoinGroup")
        made.press(b"\x1a\x03")
        assert made.end() != 0
        assert made.is_as_before()
        assert b"KeyboardInterrupt" in made.output


def test_keys_come_from_the_terminal_when_standard_input_is_a_capture():
    with Session(stdin=subprocess.DEVNULL) as made:
        made.see("JoinGroup")
        made.press(b"q")
        assert made.end() == 0
        assert made.is_as_before()


def test_a_closed_terminal_is_a_hangup(monkeypatch):
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
        # The terminal does not come back.
        assert terminal.keys() == [HANGUP]


def test_keys_come_again_after_a_shell_had_the_terminal(monkeypatch):
    master, slave = pty.openpty()
    as_a_shell_has_it = termios.tcgetattr(slave)
    with ExitStack() as stack:
        stack.callback(os.close, slave)
        stack.callback(os.close, master)
        monkeypatch.setattr(sys, "stdin", stack.enter_context(open(slave, closefd=False)))
        terminal = stack.enter_context(Terminal(Console(file=io.StringIO(), force_terminal=True)))
        termios.tcsetattr(slave, termios.TCSANOW, as_a_shell_has_it)
        assert terminal.keys() == []
        # No key stops the process.
        os.write(master, b"q\x1a")
        assert terminal.keys() == ["q"]


@pytest.mark.parametrize("says_so", [True, False])
def test_a_closed_terminal_without_keys_is_a_hangup_too(says_so, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    fragile = Fragile()
    with Terminal(Console(file=fragile, force_terminal=True if says_so else None)) as terminal:
        terminal.show("something")
        assert terminal.keys() == []
        assert "something" in fragile.getvalue()
        # Rich asks the stream whether it is a terminal, unless an argument says so.
        fragile.problem = OSError(errno.EIO, "Input/output error")
        fragile.is_terminal = False
        terminal.show("something else")
        assert terminal.keys() == [HANGUP]
        terminal.show("something else")
    assert "else" not in fragile.getvalue()


def test_another_write_error_is_raised(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    fragile = Fragile()
    with Terminal(Console(file=fragile, force_terminal=True)) as terminal:
        terminal.show("something")
        fragile.problem = OSError(errno.ENOSPC, "no space")
        with pytest.raises(OSError, match="no space"):
            terminal.show("something else")
        assert terminal.keys() == []


class Fragile(io.StringIO):
    """A stream to a terminal on which writing can be made to fail."""

    problem: OSError | None = None
    is_terminal = True

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        if self.problem is not None:
            raise self.problem
        return super().write(text)


def test_a_dumb_terminal_and_a_file_are_not_drawn_on(monkeypatch, tmp_path):
    with (tmp_path / "out.txt").open("w") as file:
        assert not can_draw(Console(file=file))
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert Console(file=file).is_terminal
        assert not can_draw(Console(file=file))
    monkeypatch.delenv("FORCE_COLOR")
    master, slave = pty.openpty()
    with os.fdopen(master), os.fdopen(slave, "w") as terminal:
        monkeypatch.setenv("TERM", "dumb")
        assert not can_draw(Console(file=terminal))
        monkeypatch.setenv("TERM", "xterm")
        assert can_draw(Console(file=terminal))
