from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.render.wireshark import comment_of
from tests.support import rows as sample_rows

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            sample_rows.failed("t", 6, "X", client_id="a\x1b[1m"),
            "Produce v9; correlation id 7; client a\\u001b[1m; error; X; latency 2 ms",
        ),
        (sample_rows.unanswered(client_id=None), "Fetch v12; correlation id 7; unanswered"),
        (sample_rows.orphan(), "?; correlation id 7; orphan response"),
        (
            sample_rows.row(api_name=None, api_key=99, latency_ns=None),
            "API 99 v9; correlation id 7; client app; ok",
        ),
    ],
)
def test_comments_describe_the_request(row: Row, text: str) -> None:
    assert comment_of(row) == text


def test_comments_are_bounded() -> None:
    row = sample_rows.failed("t", 6, "X", client_id="\n" * 40_000)
    assert len(comment_of(row._replace(errors=row.errors * 10_000))) < 2000
