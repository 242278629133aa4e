"""Calls a function in a thread of its own, while the caller goes on.

In: a function, and its arguments, one after another. Out: what the function does. It saves time
where the function lets go of the interpreter's lock for long, as pyarrow and DuckDB do.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

_T = TypeVar("_T")
_MOST_WAITING: Final = 2
"""Calls that are not done, with their arguments in memory, when another one has to wait."""


@contextmanager
def called_behind(
    function: Callable[[_T], object], *, in_thread: bool
) -> Iterator[Callable[[_T], object]]:
    """Provide a function that has ``function`` called, in the order of its own calls.

    All calls are done at the end of the ``with`` block, also if that raises. What a call raises is
    raised by a later one, or there. Without ``in_thread``, ``function`` itself is provided.
    """
    if not in_thread:
        yield function
        return
    from concurrent.futures import ThreadPoolExecutor  # imported late: few commands have threads

    calls: deque[Future[object]] = deque()
    with ThreadPoolExecutor(1) as thread:

        def call(argument: _T) -> None:
            if len(calls) == _MOST_WAITING:
                calls.popleft().result()
            calls.append(thread.submit(function, argument))

        yield call
    for done in calls:
        done.result()
