"""Columns become lines, by the compiled and by the uncompiled module."""

from __future__ import annotations

import csv
import io
import json
from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.export import text as compiled_text
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = [0, 7, -7, 10, 99, 100, 999, 1000, 2**63 - 1, -(2**63), -(10**18), -(10**18) - 1, 10**18]


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def text(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return the module, compiled and then uncompiled."""
    if request.param == "compiled":
        yield compiled_text
        return
    with uncompiled() as modules:
        pass
    yield modules["kanalyze.export.text"]


def lines(writer: Any, rows: int, cells: list[Any]) -> bytes:
    file = io.BytesIO()
    writer.write(file, rows, cells)
    return file.getvalue()


@given(numbers=st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_of_any_size_are_written(text, numbers):
    all_numbers = [*NUMBERS, *numbers]
    cells = text.NumberCells(array("q", all_numbers), None, b"null")
    writer = text.LineWriter([b"<"], b">\n")
    assert lines(writer, len(all_numbers), [cells]) == b"".join(b"<%d>\n" % n for n in all_numbers)
    assert writer.each(1, [cells]) == ["<0>\n"]


def test_null_is_written_as_its_text(text):
    valid = bytearray([1, 0])
    numbers = text.NumberCells(array("q", [5, 0]), valid, b"null")
    truths = text.NumberCells(array("q", [1, 0]), valid, b"null", are_bools=True)
    words = text.WordCells(array("i", [1, -1]), [b"a", b"b"], b"null")
    writer = text.LineWriter([b"", b",", b","], b"\n")
    assert lines(writer, 2, [numbers, truths, words]) == b"5,true,b\nnull,null,null\n"
    cells = text.NumberCells(array("q", [0, 1]), None, b"", are_bools=True)
    assert lines(text.LineWriter([b""], b""), 2, [cells]) == b"falsetrue"


def test_lists_are_written_as_json(text):
    items = text.NumberCells(array("q", [1, 2, 3]), None, b"null")
    item = text.LineWriter([b'{"n":'], b"}")
    lists = text.ListCells(array("q", [0, 2, 2, 3]), item, [items])
    assert lines(text.LineWriter([b""], b"\n"), 3, [lists]) == (
        b'[{"n":1},{"n":2}]\n[]\n[{"n":3}]\n'
    )


@given(values=st.lists(st.lists(st.none() | st.text(), max_size=3), max_size=5))
def test_lists_in_csv_are_quoted_as_others_quote_them(text, values):
    """The csv module reads the cells as JSON, and writes them again with the same quotes."""
    items = [item for each in values for item in each]
    offsets = array("q", [0])
    for each in values:
        offsets.append(offsets[-1] + len(each))
    words = [json.dumps(item or "").replace('"', '""').encode() for item in items]
    codes = array("i", [-1 if item is None else code for code, item in enumerate(items)])
    cells = text.WordCells(codes, words, b"null")
    lists = text.QuotedListCells(offsets, text.LineWriter([b""], b""), [cells])
    data = lines(text.LineWriter([b""], b"\r\n"), len(values), [lists]).decode("ascii")
    read = list(csv.reader(io.StringIO(data, newline="")))
    assert [json.loads(cell) for (cell,) in read] == values
    again = io.StringIO(newline="")
    csv.writer(again).writerows(read)
    assert again.getvalue() == data


def test_structs_in_csv_are_quoted(text):
    items = text.NumberCells(array("q", [1, 2]), None, b"null")
    item = text.LineWriter([b'{""n"":'], b"}")
    lists = text.QuotedListCells(array("q", [0, 1, 1, 2]), item, [items])
    assert lines(text.LineWriter([b""], b"\n"), 3, [lists]) == (
        b'"[{""n"":1}]"\n[]\n"[{""n"":2}]"\n'
    )


def test_lines_may_be_longer_than_the_buffer_and_come_in_pieces(text):
    long = b"x" * 100_000
    writer = text.LineWriter([b""], b"\n")
    words = text.WordCells(array("i", [0, 1, 2] * 5), [long, b"", b"y"], b"")
    pieces: list[bytes] = []

    class File:
        def write(self, data: memoryview) -> None:
            pieces.append(bytes(data))

    writer.write(File(), 15, [words])
    assert b"".join(pieces) == (long + b"\n\ny\n") * 5
    assert len(pieces) > 1
    assert max(map(len, pieces)) < 3 * len(long)


def test_a_file_that_is_full_gets_no_line_twice(text):
    writer = text.LineWriter([b""], b"\n")
    words = text.WordCells(array("i", [0]), [b"a"], b"")

    class Full:
        def write(self, data: memoryview) -> None:
            raise OSError(28, "full")

    with pytest.raises(OSError, match="full"):
        writer.write(Full(), 1, [words])
    assert lines(writer, 1, [words]) == b"a\n"


def test_a_missing_row_is_an_error(text):
    cells = text.NumberCells(array("q", [1]), None, b"")
    with pytest.raises(IndexError):
        lines(text.LineWriter([b""], b""), 2, [cells])


@given(
    words=st.lists(st.binary(), min_size=1, max_size=4),
    codes=st.lists(st.integers(-1, 3), max_size=20),
)
def test_texts_of_codes_follow_each_other(text, words, codes):
    known = array("i", [code for code in codes if code < len(words)])
    ends, data = text.texts_of_codes(known, words)
    assert [data[begin:end] for begin, end in pairwise(ends)] == [
        b"" if code < 0 else words[code] for code in known
    ]
    assert (ends[0], ends[-1], ends.typecode) == (0, len(data), "i")


def test_a_code_without_a_word_is_an_error(text):
    with pytest.raises(IndexError):
        text.texts_of_codes(array("i", [0, 1]), [b"a"])
