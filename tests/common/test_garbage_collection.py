from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from kanalyze.common.garbage_collection import collect_rarely, collecting_rarely, no_collection

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    gc.enable()


def test_cycles_are_searched_for_rarely_inside_a_block() -> None:
    with collecting_rarely():
        assert gc.get_threshold() == (100_000, 50, 100)
    assert gc.get_threshold() == (700, 10, 10)


def test_the_thresholds_come_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), collecting_rarely():
        1 / 0  # noqa: B018
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("objects", [0, 100_000, 500_000])
def test_a_user_who_wants_it_more_rarely_gets_that(objects: int) -> None:
    gc.set_threshold(objects, 10, 10)
    with collecting_rarely():
        assert gc.get_threshold() == (objects, 10, 10)
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
