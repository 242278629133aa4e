"""Memory is divided among stages and workers, and never exceeds the limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.errors import UsageError
from kanalyze.runtime.stages import LEAST_MEMORY_BYTES, MemoryBounds


@given(st.integers(LEAST_MEMORY_BYTES, 1 << 50), st.integers(1, 512))
def test_the_parts_do_not_exceed_the_total(total, workers):
    bounds = MemoryBounds.of(total)
    assert total - 3 <= sum(bounds) <= total
    assert sum(bounds.of_shard(workers)) * workers <= sum(bounds)


def test_too_little_memory_is_refused():
    with pytest.raises(UsageError, match="at least 32 MiB"):
        MemoryBounds.of(LEAST_MEMORY_BYTES - 1)
