"""Captures made to take long: all of them are read, and work grows as their bytes do."""

from __future__ import annotations

import io

import pytest

from benchmarks.hostile_inputs import KINDS, make
from kanalyze.runtime.pipeline import Analysis
from tests.support.work import calls_of


def read(data: bytes) -> Analysis:
    analysis = Analysis([io.BytesIO(data)])
    for _ in analysis.batches():
        pass
    return analysis


@pytest.mark.few(12)
@pytest.mark.parametrize("kind", KINDS)
def test_four_times_the_bytes_take_about_four_times_the_calls(kind: str) -> None:
    small, large = make(kind, 60_000), make(kind, 240_000)
    assert len(large) > 3 * len(small) > 3 * 40_000
    read(small)  # modules are imported, and tables are made, with the first capture
    assert calls_of(lambda: read(large)) < 6 * calls_of(lambda: read(small)) + 5_000
