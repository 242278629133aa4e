"""When a request began: its own time, or that of a response without a request."""

from __future__ import annotations

from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.columns.numpy_arrays import all_began_ns
from tests.support.rows import plain_traffic

ROWS = plain_traffic(4)


def test_a_response_without_a_request_counts_by_its_own_time():
    rows = [
        ROWS[0],
        ROWS[1]._replace(request_start_ns=None, response_start_ns=7),
        ROWS[2]._replace(request_start_ns=5, response_start_ns=None),
        ROWS[3]._replace(request_start_ns=None, response_start_ns=None),
    ]
    assert [row.began_ns for row in rows] == [ROWS[0].request_start_ns, 7, 5, None]
    assert all_began_ns(RowBlock.of_rows(rows)).tolist() == [ROWS[0].request_start_ns, 7, 5, 0]


def test_requests_all_of_which_were_seen_count_by_their_own_times():
    times = [row.request_start_ns for row in ROWS]
    assert all_began_ns(RowBlock.of_rows(ROWS)).tolist() == times
