from __future__ import annotations

import pytest

from kanalyze.errors import UsageError
from kanalyze.kafka.records.types import Header, Record
from kanalyze.tables.records.values import parse_search, search_of

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
