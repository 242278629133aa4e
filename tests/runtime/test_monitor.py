"""The open connections of a run can be listed while it is running."""

from __future__ import annotations

import pytest

from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import path


@pytest.mark.parametrize("name", ["next-groups", "transactions", "old-2-8-2"])
def test_open_connections_have_the_same_rows_as_at_the_end_of_the_capture(name):
    analysis = Analysis([str(path(name))])
    before, after = [], []
    for rows in analysis.table_rows():
        before = analysis.open_connections(1000) or before
        after += [row for row in rows.connections if row.end == "open"]
    assert before != []
    assert sorted(before, key=repr) == sorted(after, key=repr)
    assert analysis.open_connections(1000) == []
