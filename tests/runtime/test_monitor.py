"""What can be said of a run while it goes on."""

from __future__ import annotations

import pytest

from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import path


@pytest.mark.parametrize("name", ["next-groups", "transactions", "old-2-8-2"])
def test_open_connections_have_the_rows_that_they_have_if_the_capture_ends(name):
    analysis = Analysis([str(path(name))])
    before, after = [], []
    for rows in analysis.table_rows():
        before = analysis.open_connections(1000) or before
        after += [row for row in rows.connections if row.end == "open"]
    assert before != []
    assert sorted(before, key=repr) == sorted(after, key=repr)
    assert analysis.open_connections(1000) == []
