"""Every figure of the report matches plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.queries.database import Database
from kanalyze.queries.report import report_of
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import NAMES, often, path
from tests.support.filled import report_tables
from tests.support.plain_report import plain_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.spec.rows.requests import Row

OFTEN = ("basics", "errors", "groups", "old-0-8-2-2", "tls", "transactions")
TABLES = (
    *("totals", "apis", "errors", "clients", "topics", "groups", "brokers"),
    *("inventory", "client_apis", "client_errors", "topic_latency", "partitions", "codecs"),
    *("latency_parts", "throughput", "latency", "slowest"),
)


def report(rows: Sequence[Row]) -> dict[str, Any]:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        maker = report_tables(database, "requests")["requests"]
        for first in range(0, len(rows), 100):
            database.insert("requests", maker.of_rows(rows[first : first + 100]))
        return report_of(database, CaptureQuality())


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(NAMES, OFTEN))
def test_every_figure_matches_plain_python(name: str) -> None:
    rows = list(kanalyze.requests(path(name)))
    found, expected = report(rows), plain_report(rows)
    for table in TABLES:
        assert found[table] == expected[table], table


def test_the_report_without_rows_matches_plain_python() -> None:
    found = report([])
    assert {name: found[name] for name in TABLES} == plain_report([])
