"""Answers to SQL queries as tables: what does not fit is not cut to where it says nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kanalyze.render.answers import answer_columns
from kanalyze.render.layout import fitted, natural_widths

NAMES = ("client_id", "direction_of_traffic", "requests", "as_of", "where")
ROW = ("broker-1-fetcher-0", "fetch", 12, datetime(2026, 1, 31, 9, 30, 0, 5, UTC), "a-b." * 40)


@pytest.mark.parametrize("width", [20, 80, 120])
def test_titles_numbers_times_and_short_names_are_never_cut(width: int) -> None:
    are_numbers = [isinstance(value, int) for value in ROW]
    are_times = [isinstance(value, datetime) for value in ROW]
    columns = answer_columns(NAMES, are_numbers, are_times)
    cells = [column.cell(ROW) for column in columns]
    layout = [column.column for column in columns]
    widths = fitted(layout, natural_widths(layout, [cells]), width)
    *whole, long = zip(cells, NAMES, widths, strict=True)
    assert all(given == max(len(cell), len(name)) for cell, name, given in whole)
    assert long[2] == (20 if width < 120 else 120 - sum(given + 2 for _, _, given in whole))
