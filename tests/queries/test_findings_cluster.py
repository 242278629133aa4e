"""Findings in captures from a cluster of three are those that were provoked, of whom and when."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kanalyze.api.tables import fill
from kanalyze.queries.database import Database
from kanalyze.queries.findings import findings_of
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import FOLDER
from tests.support.findings import kinds_of

if TYPE_CHECKING:
    from pathlib import Path

TRUTHS = sorted((FOLDER / "cluster").glob("*.truth.json"))
TOLERANCE_S = 5
"""How much later a client may meet a fault, or leave it."""


@pytest.mark.parametrize("file", TRUTHS, ids=lambda file: file.name.partition(".")[0])
def test_what_was_provoked_is_found_first(file: Path) -> None:
    truth = json.loads(file.read_text(encoding="utf-8"))
    kinds = kinds_of()
    tables = {table for kind in kinds for table in kind.tables}
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([str(file.parent / truth["capture"])]), tables)
        found = findings_of(database, kinds)
    assert found[0].name == truth["fault"]
    told = f"{found[0].concerns} {found[0].what}"
    assert [value for value in truth["concerns"].values() if value not in told] == []
    # What happens at once has its time in the capture alone.
    if truth["fault_ns"] is not None:
        times_ns = (found[0].first_time_ns, found[0].last_time_ns)
        for told_ns, provoked_ns in zip(times_ns, truth["fault_ns"], strict=True):
            assert told_ns is not None
            assert abs(told_ns - provoked_ns) / 1e9 <= TOLERANCE_S
    # What else is found is of the same kind, or it is said to be an effect.
    for other in found[1:]:
        assert other.name == found[0].name or other.cause is not None, other
