"""Caches whose keys come from the wire, and are therefore bounded.

In: a key and its value. Out: the value.
"""

from __future__ import annotations

from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


def remember(cache: dict[_K, _V], key: _K, value: _V, most: int) -> _V:
    """Keep a value, and return it; a cache that has ``most`` values is emptied first.

    A hostile capture can have more keys than fit into memory. Real ones hardly ever fill a cache.
    """
    if len(cache) >= most:
        cache.clear()
    cache[key] = value
    return value
