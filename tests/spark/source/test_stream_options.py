"""The options of a stream."""

from __future__ import annotations

import pytest

from kanalyze.errors import UsageError
from kanalyze.spark.source.readers import (
    STREAM_OPTIONS,
    StreamOptions,
    parse_stream_options,
    table_options,
)


def test_stream_options_are_separated_from_table_options() -> None:
    options = {
        "STATElocation": " /s ",
        "settleSeconds": "0.5",
        "maxfilespertrigger": "7",
        "a": "",
    }
    assert parse_stream_options(options) == StreamOptions("/s", 0.5, 7)
    assert table_options(options) == {"a": ""}
    assert table_options(dict.fromkeys(STREAM_OPTIONS, "")) == {}


def test_stream_options_have_defaults() -> None:
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
def test_an_error_names_the_bad_option(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"option {name}"):
        parse_stream_options({"stateLocation": "s", name: text})
