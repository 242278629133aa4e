from __future__ import annotations

import pytest

from kanalyze.kafka.schema.versions import MAX_VERSION, NONE, VersionRange


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
