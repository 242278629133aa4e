"""A function that is called in a thread of its own."""

from __future__ import annotations

import threading

import pytest

from kanalyze.common.behind import _MOST_WAITING, called_behind
from tests.support.waiting import LONG_S


@pytest.mark.parametrize("in_thread", [False, True])
def test_all_calls_are_done_in_order_at_the_end(in_thread):
    done = []
    with called_behind(done.append, in_thread=in_thread) as call:
        for number in range(100):
            call(number)
    assert done == list(range(100))


def test_calls_are_made_in_another_thread():
    threads = set()
    with called_behind(lambda _: threads.add(threading.get_ident()), in_thread=True) as call:
        call(None)
        call(None)
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_few_calls_wait():
    may_go_on, begun = threading.Semaphore(0), []

    def wait(number: int) -> None:
        begun.append(number)
        assert may_go_on.acquire(timeout=LONG_S)

    with called_behind(wait, in_thread=True) as call:
        for number in range(_MOST_WAITING):
            call(number)
        for number in range(_MOST_WAITING, 10):
            may_go_on.release()
            call(number)
            assert len(begun) > number - _MOST_WAITING
        may_go_on.release(_MOST_WAITING)
    assert begun == list(range(10))


def fail_at(failing: int, *, in_thread: bool) -> list[int]:
    """Call a function for ten numbers, of which it fails at one; return those before."""
    done: list[int] = []

    def fail(number: int) -> None:
        if number == failing:
            raise OSError(number)
        done.append(number)

    with called_behind(fail, in_thread=in_thread) as call:
        for number in range(10):
            call(number)
    return done


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("failing", [0, 3, 9])
def test_an_error_is_raised_by_a_later_call_or_at_the_end(failing, in_thread):
    with pytest.raises(OSError, match=f"^{failing}$"):
        fail_at(failing, in_thread=in_thread)


def give_and_fail(call):
    call(1)
    call(2)
    raise ZeroDivisionError


def test_calls_before_an_error_of_the_caller_are_done():
    done = []

    def all_calls() -> None:
        with called_behind(done.append, in_thread=True) as call:
            give_and_fail(call)

    with pytest.raises(ZeroDivisionError):
        all_calls()
    assert done == [1, 2]
