from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.view.terminal import KeyReader


@pytest.mark.parametrize(
    ("data", "keys"),
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
def test_bytes_are_read_as_keys(data, keys):
    assert KeyReader().feed(data) == keys


def test_an_escape_byte_alone_is_a_key_after_a_flush():
    reader = KeyReader()
    assert reader.feed(b"\x1b") == []
    assert reader.flush() == ["escape"]
    assert reader.flush() == []


def test_an_unfinished_sequence_is_dropped():
    reader = KeyReader()
    assert reader.feed(b"\x1b[1") == []
    assert reader.flush() == []
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
