"""The options of a stream."""

from __future__ import annotations

import pytest

from kanalyze.errors import UsageError
from kanalyze.spark.source.stream_options import (
    STREAM_OPTIONS,
    StreamOptions,
    parse_stream_options,
    table_options,
)


def test_options_of_a_stream_are_told_from_those_of_the_table() -> None:
    given = {
        "STATElocation": " /s ",
        "settleSeconds": "0.5",
        "maxfilespertrigger": "7",
        "a": "",
    }
    assert parse_stream_options(given) == StreamOptions("/s", 0.5, 7)
    assert table_options(given) == {"a": ""}
    assert table_options(dict.fromkeys(STREAM_OPTIONS, "")) == {}


def test_what_is_not_said_has_a_default() -> None:
    assert parse_stream_options({"stateLocation": "s"}) == StreamOptions("s", 60.0, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("stateLocation", " "),
        ("settleSeconds", "-1"),
        ("settleSeconds", "nan"),
        ("settleSeconds", "soon"),
        ("settleSeconds", "86401"),
        ("maxFilesPerTrigger", "0"),
        ("maxFilesPerTrigger", "-3"),
        ("maxFilesPerTrigger", "1.5"),
        ("maxFilesPerTrigger", "\u0661"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"option {name}"):
        parse_stream_options({"stateLocation": "s", name: text})
