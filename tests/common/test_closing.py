"""What is closed at the end of a ``with`` block."""

from __future__ import annotations

import pytest

from kanalyze.common.closing import ClosedAtEnd, ClosedOrAborted


class Closed(ClosedAtEnd):
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Unfinished(ClosedOrAborted):
    def __init__(self) -> None:
        self.ends: list[str] = []

    def close(self) -> None:
        self.ends.append("closed")

    def abort(self) -> None:
        self.ends.append("aborted")


def test_it_is_closed_once_at_the_end() -> None:
    with Closed() as item:
        assert item.closed == 0
    assert item.closed == 1


def test_it_is_closed_after_an_error_which_goes_on() -> None:
    with pytest.raises(ValueError, match="an error"), Closed() as item:
        raise ValueError("an error")
    assert item.closed == 1


def test_what_can_be_aborted_is_closed_if_there_is_no_error() -> None:
    with Unfinished() as item:
        assert item.ends == []
    assert item.ends == ["closed"]


def test_what_can_be_aborted_is_aborted_after_an_error_which_goes_on() -> None:
    with pytest.raises(KeyboardInterrupt), Unfinished() as item:
        raise KeyboardInterrupt
    assert item.ends == ["aborted"]
