"""Assertions of all targets about a stage, and the size of its results.

A broken invariant is a :class:`Broken`: the stage returned a result that contradicts itself or is
out of proportion to its input. Anything else that a target raises is a crash of the stage.
"""

from __future__ import annotations

import sys
from typing import Any

_SMALL = range(-5, 257)
"""Numbers of which Python has only one object."""


class Broken(AssertionError):
    """A stage broke the invariant: a typed result, in bounded time and memory."""


def holds(condition: object, text: str) -> None:
    """Raise Broken with ``text`` unless the condition holds."""
    if not condition:
        raise Broken(text)


def sizes_of(value: Any) -> tuple[int, int]:
    """Return how many objects a value is made of, and how many bytes those take.

    Shared objects (None, small numbers, empty texts) take no bytes; all others count as often as
    they are referred to. Goes into lists, tuples and dicts, without recursion.
    """
    objects, size = 0, 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if item is None or item is True or item is False:
            continue
        objects += 1
        if isinstance(item, int) and item in _SMALL:
            continue
        if isinstance(item, str | bytes | tuple) and not item:
            continue
        size += sys.getsizeof(item)
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
    return objects, size
