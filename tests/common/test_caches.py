"""Caches whose keys come from the wire."""

from __future__ import annotations

from kanalyze.common.caches import remember


def test_a_value_is_kept_and_returned() -> None:
    cache: dict[str, int] = {}
    assert remember(cache, "a", 1, 2) == 1
    assert remember(cache, "b", 2, 2) == 2
    assert cache == {"a": 1, "b": 2}


def test_a_full_cache_is_emptied() -> None:
    cache = {"a": 1, "b": 2}
    remember(cache, "c", 3, 2)
    assert cache == {"c": 3}
