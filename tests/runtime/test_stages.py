"""Memory is divided among stages and workers, and never exceeds the limit."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.errors import UsageError
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.stages import MIN_MEMORY_BYTES, MemoryBounds, Stages
from tests.support.captures import path


@given(st.integers(MIN_MEMORY_BYTES, 1 << 50), st.integers(1, 512))
def test_the_parts_do_not_exceed_the_total(total, workers):
    bounds = MemoryBounds.of(total)
    assert total - 3 <= sum(bounds) <= total
    assert sum(bounds.of_shard(workers)) * workers <= sum(bounds)


def test_too_little_memory_is_refused():
    with pytest.raises(UsageError, match="at least 32 MiB"):
        MemoryBounds.of(MIN_MEMORY_BYTES - 1)


def test_cycles_are_not_searched_for_among_the_objects_of_a_batch(monkeypatch):
    """Those of a hundred thousand tiny connections are many, and none is in a cycle."""
    seen = []
    for name in ("feed", "finish"):
        method = getattr(Stages, name)

        def checked(*arguments, method=method):
            seen.append(gc.isenabled())
            return method(*arguments)

        monkeypatch.setattr(Stages, name, checked)
    list(Analysis([path("basics")]).batches())
    assert len(seen) >= 2
    assert not any(seen)
    assert gc.isenabled()
