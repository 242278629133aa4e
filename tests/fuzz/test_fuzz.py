"""Every stage on hostile inputs: a typed result, in bounded time and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzz.run import CASES, fuzz
from tests.fuzz.table import TARGETS

if TYPE_CHECKING:
    from pathlib import Path

RUNS_BY_WEIGHT = 5
LONG_RUNS_BY_WEIGHT = 1000
EVERY = {"decode": 17, "pieces": 29, "trace": 37, "rows": 3, "shown": 5, "connection": 3}
"""Takes each n-th seed of targets with many seeds; the long run takes all."""
SEED = 2024
FOUND = sorted(CASES.glob("*/*.bin"))


@pytest.mark.few(14)
@pytest.mark.parametrize("name", TARGETS)
def test_hostile_inputs_break_nothing(name: str) -> None:
    runs = RUNS_BY_WEIGHT * TARGETS[name].weight
    report = fuzz(name, runs=runs, seconds=None, seed=SEED, every=EVERY.get(name, 1))
    assert report.findings == []
    assert report.inputs == runs


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_many_hostile_inputs_break_nothing(name: str) -> None:
    runs = LONG_RUNS_BY_WEIGHT * TARGETS[name].weight
    report = fuzz(name, runs=runs, seconds=None, seed=SEED + 1)
    assert report.findings == []
    assert report.inputs == runs


@pytest.mark.parametrize("case", FOUND, ids=lambda case: f"{case.parent.name}-{case.stem}")
def test_no_saved_case_breaks_its_stage(case: Path) -> None:
    TARGETS[case.parent.name].run(case.read_bytes())


def test_every_case_is_of_a_target() -> None:
    assert FOUND
    assert {case.parent.name for case in FOUND} <= TARGETS.keys()
