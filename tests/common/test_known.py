"""Numbers that may be unknown."""

from __future__ import annotations

from kanalyze.common.known import of_known


def test_two_numbers_are_combined() -> None:
    assert (of_known(max, 1, 2), of_known(min, 1, 2)) == (2, 1)


def test_an_unknown_number_gives_the_other() -> None:
    assert (of_known(max, 0, None), of_known(min, None, 1)) == (0, 1)
    assert of_known(max, None, None) is None
