from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kanalyze.render.layout import TableColumn
from kanalyze.render.lines import Line, fitted_table
from tests.support.cases import for_each


def fitted(line: Line, width: int) -> list[str]:
    return [part.plain for part in line.fitted(width)]


def columns(*texts: str) -> Line:
    line = Line()
    for text in texts:
        line.append(text)
    return line


def test_a_line_is_its_parts():
    line = Line("one ", "bold")
    line.append("two")
    assert line.plain == "one two"
    assert line.parts == [("one ", "bold"), ("two", "")]
    assert Line().plain == ""


def test_trailing_spaces_are_removed_from_every_part():
    line = columns("one ", "  ", "")
    line.rstrip()
    assert line.parts == [("one", "")]
    empty = columns("  ", "")
    empty.rstrip()
    assert empty.parts == []


BROKEN = (
    ("one two three", 7, ["one two", "three"]),
    ("one two three", 6, ["one", "two", "three"]),
    ("one abcdefgh two", 4, ["one", "abcd", "efgh", "two"]),
    ("abcdefghi two", 4, ["abcd", "efgh", "i", "two"]),
    ("\u6f22\u5b57\u6f22 a", 5, ["\u6f22\u5b57", "\u6f22 a"]),
    ("  one two three", 9, ["  one", "    two", "    three"]),
)


@for_each("case", BROKEN)
def test_prose_is_broken_between_words_and_within_long_words(case):
    text, width, expected = case
    assert fitted(Line(text), width) == expected
    assert {part.parts[0][1] for part in Line(text, "bold").fitted(width)} == {"bold"}


def test_columns_are_cut_to_the_width():
    line = columns("one", " ", "two")
    assert list(line.fitted(7)) == [line]
    assert fitted(columns("one", "  ", "twothree", "four"), 9) == ["one  tw\u2026e"]


WORDS = st.lists(st.text("ab\u6f22\u0301", min_size=1, max_size=12), min_size=1, max_size=8)


@given(WORDS, st.integers(2, 20))
def test_every_line_fits_and_no_character_is_lost(parts, width):
    lines = fitted(Line(" ".join(parts)), width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(parts)


@pytest.mark.parametrize("width", [34, 40, 60, 100])
def test_a_shell_reads_a_broken_command_as_one(width):
    words = ["kanalyze", "requests", "a b.pcap", "--client-id", "it's me", "--topic", "orders"]
    lines = fitted(Line(f"    {shlex.join(words)}", is_command=True), width)
    # A shell removes a backslash at the end of a line together with the line feed.
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == words
    assert "\\\n" in "\n".join(lines) or width == 100
    assert max(map(len, lines)) <= width
    assert all(line.startswith("    ") for line in lines)


def test_a_word_of_a_command_that_is_too_long_is_broken_like_prose():
    lines = fitted(Line(f"  kanalyze report {'a' * 40}", is_command=True), 20)
    assert max(map(len, lines)) <= 20
    assert not any(line.endswith("\\") for line in lines)


def test_a_table_has_its_titles_in_bold_and_is_narrowed_to_the_width():
    columns = (TableColumn("name", least=4), TableColumn("size", right=True))
    rows = [[("a long name", "red"), ("7", "")], [("b", ""), ("1234", "dim")]]
    lines = list(fitted_table(columns, rows, 14))
    assert [line.plain for line in lines] == [
        "name      size",
        "a lo\u2026ame     7",
        "b         1234",
    ]
    assert lines[0].parts[0] == ("name    ", "bold")
    assert lines[1].parts[0] == ("a lo\u2026ame", "red")
