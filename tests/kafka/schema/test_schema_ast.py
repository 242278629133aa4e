"""Ranges of versions, fields, and the layout of a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.schema.schema_ast import (
    MAX_VERSION,
    NONE,
    Field,
    Layout,
    Struct,
    VersionRange,
)
from tests.support.messages import Writer, every_message

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import Field, Struct


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("0", 0, 0), ("0-12", 0, 12), ("3+", 3, MAX_VERSION), ("7-7", 7, 7)],
)
def test_a_range_is_read_from_its_text(text: str, low: int, high: int) -> None:
    assert VersionRange.parse(text) == (low, high)


@pytest.mark.parametrize("text", ["none", "0-12", "3+", "4"])
def test_a_range_writes_the_text_it_was_read_from(text: str) -> None:
    assert str(VersionRange.parse(text)) == text


@pytest.mark.parametrize("text", ["", "x", "-1", "3-1", "1-2-3", "+", "1++", "40000", "٣", " 1"])
def test_a_text_that_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="version"):
        VersionRange.parse(text)


def test_both_ends_belong_to_a_range() -> None:
    versions = VersionRange(2, 4)
    assert [version for version in range(7) if versions.contains(version)] == [2, 3, 4]
    assert list(versions.each()) == [2, 3, 4]


def test_the_empty_range_contains_nothing_and_is_covered_by_all() -> None:
    assert NONE.is_empty
    assert not any(NONE.contains(version) for version in range(-2, 3))
    assert VersionRange(5, 5).covers(NONE)
    assert not NONE.covers(VersionRange(0, 0))


def test_ranges_that_do_not_touch_intersect_in_the_empty_range() -> None:
    assert VersionRange(0, 3).intersect(VersionRange(4, 9)) == NONE
    assert VersionRange(0, 5).intersect(VersionRange(4, 9)) == (4, 5)


def test_a_range_covers_its_parts_only() -> None:
    assert VersionRange(1, 5).covers(VersionRange(1, 5))
    assert not VersionRange(1, 5).covers(VersionRange(0, 2))
    assert not VersionRange(1, 5).covers(VersionRange(4, 6))


def test_only_a_range_without_an_upper_end_is_open() -> None:
    assert VersionRange.parse("3+").is_open
    assert not VersionRange.parse("3-4").is_open


def test_no_message_has_an_array_whose_elements_take_no_bytes(catalog: Catalog) -> None:
    def arrays(layout: Layout, struct: Struct) -> list[Field]:
        found = []
        for inner in layout.untagged(struct):
            if inner.struct is not None:
                found += arrays(layout, inner.struct)
                found += [inner] if inner.is_array else []
        return found

    count = 0
    for sample, version in every_message(catalog):
        layout = Layout(sample, version)
        for array in arrays(layout, sample.struct):
            assert array.struct is not None
            assert layout.min_struct_size(array.struct) > 0, (sample.name, version, array.name)
            count += 1
    assert count > 500


def test_the_fewest_bytes_of_every_message_are_those_of_its_emptiest_values(
    catalog: Catalog,
) -> None:
    for sample, version in every_message(catalog):
        written = Writer(sample, version).write(emptiest(sample.struct, version))
        assert Layout(sample, version).min_struct_size(sample.struct) == len(written)


def emptiest(struct: Struct, version: int) -> dict[str, object]:
    empty: dict[str, object] = {"string": "", "bytes": b"", "records": b"", "uuid": bytes(16)}
    values: dict[str, object] = {}
    for inner in struct.fields:
        if inner.is_present(version) and not inner.is_tagged(version):
            if inner.is_array:
                values[inner.json_name] = []
            elif inner.struct is None:
                values[inner.json_name] = empty.get(inner.type, 0)
            elif inner.is_nullable(version):
                values[inner.json_name] = None
            else:
                values[inner.json_name] = emptiest(inner.struct, version)
    return values
