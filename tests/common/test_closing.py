"""What is closed at the end of a ``with`` block."""

from __future__ import annotations

import pytest

from kanalyze.common.closing import ClosedAtEnd, ClosedOrAborted


class Closed(ClosedAtEnd):
    def __init__(self) -> None:
        self.ends: list[str] = []

    def close(self) -> None:
        self.ends.append("closed")


class Unfinished(Closed, ClosedOrAborted):
    def abort(self) -> None:
        self.ends.append("aborted")


@pytest.mark.parametrize(("kind", "end"), [(Closed, "closed"), (Unfinished, "aborted")])
def test_it_is_closed_once_at_the_end_or_aborted_after_an_error_which_goes_on(
    kind: type[Closed], end: str
) -> None:
    with kind() as item:
        assert item.ends == []
    assert item.ends == ["closed"]
    with pytest.raises(KeyboardInterrupt), kind() as item:
        raise KeyboardInterrupt
    assert item.ends == [end]
