"""The view on a pseudo-terminal, with keys that tests press."""

from __future__ import annotations

import errno
import io
import os
import pty
import sys
import termios
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kanalyze.live.view.terminal import HANGUP, KeyReader, Terminal, can_draw
from tests.support.cases import for_each
from tests.support.pseudo_terminal import ALTERNATE, BACK, PseudoTerminal


@for_each(
    "case",
    [
        (b"q", ["q"]),
        (b"a\tb", ["a", "tab", "b"]),
        (b"\r\n", ["enter", "enter"]),
        (b"\x7f\x08", ["backspace", "backspace"]),
        (b"\x03\x15", ["ctrl-c", "ctrl-u"]),
        (b"\x1b[A\x1b[B\x1bOC\x1bOD", ["up", "down", "right", "left"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F", ["pageup", "pagedown", "home", "end"]),
        (b"\x1b[Z", ["shift-tab"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        ("\u00e9\u6f22".encode(), ["\u00e9", "\u6f22"]),
        (b"\x00\x01\xc2\x9b", []),
        (b"\x1b[15;5~q", ["q"]),
        (b"\x1bxq", ["escape", "x", "q"]),
        (b"\x1b\r\x1b\x00", ["escape", "enter", "escape"]),
        (b"\xffq", ["\ufffd", "q"]),
    ],
)
def test_bytes_are_read_as_keys(case):
    data, keys = case
    assert KeyReader().feed(data) == keys


def test_an_escape_byte_alone_is_a_key_after_a_flush():
    reader = KeyReader()
    assert reader.feed(b"\x1b") == []
    assert reader.flush() == ["escape"]
    assert reader.flush() == []
    assert reader.feed(b"\x1b[1") == reader.flush() == []
    assert reader.feed(b"q") == ["q"]


def test_an_endless_sequence_is_given_up():
    assert KeyReader().feed(b"\x1b[" + b"1" * 13 + b"q")[-1:] == []
    assert KeyReader().feed(b"\x1b[" + b"1" * 1000 + b"q")[-1] == "q"


@given(st.binary(max_size=40), st.integers(0, 40))
def test_keys_do_not_depend_on_how_bytes_are_split(data, cut):
    reader, other = KeyReader(), KeyReader()
    assert reader.feed(data[:cut]) + reader.feed(data[cut:]) == other.feed(data)


@given(st.binary(max_size=60))
def test_every_key_is_a_printable_character_or_a_name(data):
    for key in KeyReader().feed(data):
        assert key.isprintable()
        assert len(key) == 1 or key.isascii()


BROKEN_RUN = """
from rich.console import Console
from kanalyze.live.view.terminal import Terminal
from kanalyze.live.view.view import render, view_of
from kanalyze.live.view.view_state import ViewState
from tests.live.snapshots import hostile
with Terminal(Console(highlight=False)) as terminal:
    terminal.show(render(view_of(hostile(), ViewState(), *terminal.size).lines))
    raise RuntimeError("the feed broke")
"""


def test_the_terminal_is_restored_after_an_exception(monkeypatch):
    monkeypatch.setenv("PYTHON_COLORS", "0")  # Python 3.13 and later colour the traceback
    with PseudoTerminal("-c", BROKEN_RUN) as session:
        assert session.end() == 1
        assert session.is_as_before()
        assert ALTERNATE in session.output
        # The text comes after the end of the full-screen mode: it can be read.
        assert b"RuntimeError: the feed broke" in session.output[session.output.rindex(BACK) :]
        # Control characters of names do not reach the terminal.
        assert b"red[bold]x[/]" in session.output
        assert b"\x1b[31mred" not in session.output
        assert "\u202e".encode() not in session.output


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


def test_keys_work_after_a_shell_used_the_terminal(monkeypatch):
    master, slave = pty.openpty()
    shell_attributes = termios.tcgetattr(slave)
    with ExitStack() as stack:
        stack.callback(os.close, slave)
        stack.callback(os.close, master)
        monkeypatch.setattr(sys, "stdin", stack.enter_context(open(slave, closefd=False)))
        terminal = stack.enter_context(Terminal(Console(file=io.StringIO(), force_terminal=True)))
        termios.tcsetattr(slave, termios.TCSANOW, shell_attributes)
        assert terminal.keys() == []
        # Ctrl-Z does not stop the process.
        os.write(master, b"q\x1a")
        assert terminal.keys() == ["q"]


@pytest.mark.parametrize("is_forced", [True, False])
def test_a_write_error_of_a_closed_terminal_is_a_hangup(is_forced, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    stream = FailingStream()
    with Terminal(Console(file=stream, force_terminal=True if is_forced else None)) as terminal:
        terminal.show("something")
        assert terminal.keys() == []
        assert "something" in stream.getvalue()
        # Rich asks the stream whether it is a terminal, unless an argument forces it.
        stream.problem = OSError(errno.EIO, "Input/output error")
        stream.is_terminal = False
        terminal.show("something else")
        assert terminal.keys() == [HANGUP]
        terminal.show("something else")
    assert "else" not in stream.getvalue()


def test_another_write_error_is_raised(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    stream = FailingStream()
    with Terminal(Console(file=stream, force_terminal=True)) as terminal:
        terminal.show("something")
        stream.problem = OSError(errno.ENOSPC, "no space")
        with pytest.raises(OSError, match="no space"):
            terminal.show("something else")
        assert terminal.keys() == []


class FailingStream(io.StringIO):
    """A stream to a terminal on which writing can be made to fail."""

    problem: OSError | None = None
    is_terminal = True

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        if self.problem is not None:
            raise self.problem
        return super().write(text)


def test_the_view_cannot_be_drawn_on_a_dumb_terminal_or_a_file(monkeypatch, tmp_path):
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
