from __future__ import annotations

import pytest

from tests.fuzz.mutate import Mutator
from tests.fuzz.table import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_fit_and_can_be_split(name: str) -> None:
    target = TARGETS[name]
    seeds = target.seeds()
    assert seeds
    # A seed that is cut is no valid input: only few are.
    assert sum(len(seed) > target.most_bytes for seed in seeds) <= len(seeds) // 20 + 3
    assert all(b"".join(target.shape.split(seed)) == seed for seed in seeds)
    assert Mutator(seeds, seed=1, most_bytes=target.most_bytes, shape=target.shape).next() != b""
