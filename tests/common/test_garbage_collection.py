from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from kanalyze.common.garbage_collection import collect_rarely, collecting_rarely, no_collection
from tests.support.cases import for_each

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    gc.enable()


@for_each("case", [(700, (100_000, 50, 100)), *((n, (n, 10, 10)) for n in (0, 100_000, 500_000))])
def test_cycles_are_searched_for_as_rarely_as_we_or_the_user_want(
    case: tuple[int, tuple[int, ...]],
) -> None:
    objects, inside = case
    gc.set_threshold(objects, 10, 10)
    with collecting_rarely():
        assert gc.get_threshold() == inside
    assert gc.get_threshold() == (objects, 10, 10)
    with pytest.raises(ZeroDivisionError), collecting_rarely():
        1 / 0  # noqa: B018
    assert gc.get_threshold() == (objects, 10, 10)


def test_a_process_of_ours_stays_so() -> None:
    collect_rarely()
    assert gc.get_threshold() == (100_000, 50, 100)


def test_collection_is_off_inside_a_block_and_then_as_it_was() -> None:
    with no_collection():
        assert not gc.isenabled()
        with no_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    with no_collection():
        pass
    assert not gc.isenabled()
