"""Answers whose facts and lines are kept give the lines that reading each of them gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.cluster import METADATA_COLUMNS
from kanalyze.tables.cluster import brokers, reader
from tests.support.captures import path

if TYPE_CHECKING:
    from collections.abc import Sequence


def lines(name: str) -> Sequence[list[Any]]:
    blocks = Analysis([str(path(name))]).line_blocks("metadata")
    return [block.values(METADATA_COLUMNS) for block in blocks]


@pytest.mark.parametrize("name", ["cluster", "groups", "basics"])
def test_kept_answers_change_no_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [lines(name), lines(name)]
    assert kept[0]
    monkeypatch.setattr(reader, "_LARGEST_KEPT_CELLS", -1)
    monkeypatch.setattr(brokers, "_MOST_KEPT_BYTES", -1)
    brokers._first_lines.cache_clear()
    assert kept == [lines(name)] * 2
