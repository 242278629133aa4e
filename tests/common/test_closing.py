"""What is closed at the end of a ``with`` block."""

from __future__ import annotations

import pytest

from kanalyze.common.closing import ClosedAtEnd


class Closed(ClosedAtEnd):
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_it_is_closed_once_at_the_end() -> None:
    with Closed() as item:
        assert item.closed == 0
    assert item.closed == 1


def test_it_is_closed_after_an_error_which_goes_on() -> None:
    with pytest.raises(ValueError, match="an error"), Closed() as item:
        raise ValueError("an error")
    assert item.closed == 1
