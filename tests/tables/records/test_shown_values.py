"""Keys and values are shown as text if they are text, else encoded so that no byte is lost."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.records.types import Record
from kanalyze.tables.records.values import ShownValues, ValuesAs


def shown(value: bytes | None, values_as: ValuesAs = "base64", longest: int | None = None) -> Any:
    """Return the text of a value, and its encoding."""
    record = Record(0, None, None, value)
    return ShownValues(values_as, longest)(record)[2:4]


@given(st.binary(max_size=40))
def test_each_form_gives_the_bytes_back(data: bytes) -> None:
    text, form = shown(data)
    assert (text.encode() if form == "text" else b64decode(text)) == data
    text, form = shown(data, "escaped")
    if form == "escaped":
        assert text.encode("ascii").decode("unicode_escape").encode("latin-1") == data


def test_text_may_have_lines_and_tabs_but_no_control_characters() -> None:
    assert shown("größe\t1\r\n".encode()) == ("größe\t1\r\n", "text")
    assert shown(b"\x1b[31m", "escaped") == ("\\x1b[31m", "escaped")
    assert shown(b"\xff", "escaped") == ("\\xff", "escaped")
    assert shown(None) == (None, None)


@given(st.text(st.characters(categories=("L", "N")), max_size=12), st.integers(0, 30))
def test_a_cut_leaves_no_part_of_a_character(text: str, longest: int) -> None:
    data = text.encode()
    cut, form = shown(data, longest=longest)
    assert form == "text"
    assert text.startswith(cut)
    assert min(longest, len(data)) - 4 < len(cut.encode()) <= longest
