"""Lines of text describe fields: their kind, unit, and what null means."""

from __future__ import annotations

import pytest

from kanalyze.spec.fields import fields_of


def test_a_line_is_a_field_and_deeper_lines_are_the_fields_in_it() -> None:
    whole, last = fields_of(
        """
        latency object? how long; null: unknown
            p50 integer[ns]? the median, \
                by nearest rank; null: none
            kind text(a|b) which
        last? count at the end
        """
    )
    assert (whole.name, whole.kind, whole.nullable) == ("latency", "object", True)
    p50, kind = whole.fields
    assert (p50.kind, p50.unit, p50.nullable) == ("integer", "ns", True)
    assert p50.meaning == "the median, by nearest rank; null: none"
    assert (kind.detail, kind.nullable) == ("a|b", False)
    assert (last.name, last.optional, last.fields) == ("last", True, ())


def test_shared_lines_stand_where_they_are_named() -> None:
    shared = {"sizes": "sent list bytes\n    - count one\nreceived count bytes"}
    [line] = fields_of("line object one\n    ...sizes?", shared)
    assert [(field.name, field.optional) for field in line.fields] == [
        ("sent", True),
        ("received", True),
    ]
    assert [(item.name, item.optional) for item in line.fields[0].fields] == [("-", False)]
    [line] = fields_of("line object one\n    ...sizes", shared)
    assert not any(field.optional for field in line.fields)


def test_a_line_that_is_no_field_is_an_error() -> None:
    with pytest.raises(ValueError, match="no field: just-words"):
        fields_of("just-words")
