"""Keys and values are shown as text if they are text, else encoded so that no byte is lost."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.errors import UsageError
from kanalyze.kafka.records.types import Header, Record
from kanalyze.spec.rows.records import RECORD_COLUMNS, RecordRow
from kanalyze.tables.records.columns import RecordColumns
from kanalyze.tables.records.values import ShownValues, ValuesAs, parse_search, search_of


def shown(value: bytes | None, values_as: ValuesAs = "base64", longest: int | None = None) -> Any:
    """Return the text of a value, and its encoding."""
    columns = RecordColumns(RECORD_COLUMNS, (), ShownValues(values_as, longest))
    columns.add(0, Record(0, None, value, value, (Header(b"h", value),)), None)
    (row,) = columns.drain().rows(RecordRow, RECORD_COLUMNS)
    ((_, *header),) = row.headers
    assert (row.key, row.key_encoding) == (row.value, row.value_encoding) == tuple(header)
    return tuple(header)


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


@given(
    st.binary(max_size=6) | st.text(max_size=6).map(lambda text: text.encode("utf-8", "replace"))
)
def test_bytes_are_text_if_they_are_printable_utf_8_but_for_line_ends_and_tabs(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    is_text = text.encode() == data and all(char.isprintable() or char in "\t\n\r" for char in text)
    assert (shown(data)[1] == "text") == is_text
    assert (shown(data) == (text, "text")) == is_text


@given(st.text(st.characters(categories=("L", "N")), max_size=12), st.integers(0, 30))
def test_a_cut_leaves_no_part_of_a_character(text: str, longest: int) -> None:
    data = text.encode()
    cut, form = shown(data, longest=longest)
    assert form == "text"
    assert text.startswith(cut)
    assert min(longest, len(data)) - 4 < len(cut.encode()) <= longest


# -- searches --------------------------------------------------------------------------------------

RECORD = Record(0, None, b"order-1", b"\0\0\xffan order", (Header(b"h", b"my order"),))


def test_the_places_are_the_first_in_each_part():
    assert parse_search("order").places(RECORD) == "key@0, value@6, header h@3"
    assert parse_search("order").places(RECORD, with_value=False) == "key@0, header h@3"
    assert parse_search("hex:00 ff").places(RECORD) == "value@1"
    assert parse_search(b"hex:").places(RECORD) is None


def test_null_has_no_bytes():
    assert parse_search("x").places(Record(0, None, None, None, (Header(b"x", None),))) is None


def test_names_of_many_headers_are_not_all_listed():
    record = RECORD._replace(headers=(Header(b"h", b"my order"),) * 1000)
    places = parse_search("order").places(record)
    assert places is not None
    assert places.count("header") == 18


@pytest.mark.parametrize("text", ["", "hex:", "hex:0", "hex:xy", "hex:é"])
def test_a_search_without_bytes_is_refused(text):
    with pytest.raises(UsageError):
        parse_search(text)


def test_arguments_of_python_are_checked():
    assert search_of("search", None) is None
    with pytest.raises(UsageError, match=r"^search: not a text or bytes: 5$"):
        search_of("search", 5)
    with pytest.raises(UsageError, match=r"^search: nothing to search"):
        search_of("search", b"")
