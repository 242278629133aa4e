from __future__ import annotations

import pytest

from kanalyze.tables.requests.latency_parts import capture_point

MS = 1_000_000


@pytest.mark.parametrize(
    ("client_ns", "broker_ns", "expected"),
    [
        (20_000, 25 * MS, "client"),
        (25 * MS, 20_000, "broker"),
        (5 * MS, 20 * MS, "between"),
        (1 * MS, 80 * MS, "between"),
        (300_000, 900_000, None),
        (900_000, 900_000, None),
        (0, 0, None),
        (-1, 25 * MS, None),
        (25 * MS, -1, None),
    ],
)
def test_the_nearer_end_is_where_the_capture_was_taken(client_ns, broker_ns, expected):
    assert capture_point(client_ns, broker_ns) == expected
