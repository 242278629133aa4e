"""Lists of partitions that many requests repeat are taken apart once, not for each request.

A fetch session names its partitions once, and each of its fetches, of a few bytes, lists them all.
"""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.queries.database import Database
from kanalyze.queries.files import built_in
from kanalyze.queries.report import report_of
from kanalyze.tables.quality import CaptureQuality
from tests.support.filled import filled, report_tables
from tests.support.plain_report import plain_report
from tests.support.rows import START_NS, failed, fetch, partition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kanalyze.spec.rows.requests import PartitionItem, Row

PARTITIONS = 30
INHERITED: dict[str, Any] = {
    "record_count": None,
    "record_bytes": None,
    "base_offset": None,
    "codec": None,
    "error_code": None,
}


def session(first: int, **changes: Any) -> list[PartitionItem]:
    return [
        partition(f"t{(first + number) % 7}", number, **INHERITED)._replace(**changes)
        for number in range(PARTITIONS)
    ]


def fetches(count: int, lists: int = 1) -> list[Row]:
    """Return empty fetches, which take one of a few lists in turn."""
    parts = [session(number) for number in range(lists)]
    return [
        fetch(
            record_count=0,
            record_bytes=0,
            partitions=parts[number % lists],
            request_start_ns=START_NS + number * 1_000_000,
            request_packet=number + 1,
        )
        for number in range(count)
    ]


def unnested(table: str, rows: list[Row]) -> int:
    """Return how many items DuckDB takes out of lists for a table of ``sql/tables/``."""
    with filled({"requests": rows}) as database:
        explain = f"EXPLAIN (ANALYZE, FORMAT json) {built_in('tables')[table].sql}"
        (plan,) = database.ask(explain)["explain_value"].to_pylist()
    return sum(
        operator["intermediate_rows"]
        for root in json.loads(plan)["operator"]
        for operator in operators(root)
        if operator["type"] == "UNNEST"
    )


def operators(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("children", []):
        yield from operators(child)


@pytest.mark.parametrize("table", ["partition_requests", "topic_requests", "quantiles"])
def test_requests_with_the_same_list_are_unnested_once(table: str) -> None:
    once = unnested(table, fetches(1))
    assert once > 0
    assert unnested(table, fetches(300)) == once
    assert once < unnested(table, fetches(300, lists=3)) <= 3 * once


def test_figures_of_repeated_lists_match_plain_python() -> None:
    with_records = session(0, record_count=3, record_bytes=70, high_watermark=9, error_code=0)
    twice = [*session(0), *session(1)]
    rows = [
        *fetches(40, lists=3),
        *(fetch(partitions=with_records, client_id="other") for _ in range(4)),
        *(fetch(partitions=twice, record_count=None) for _ in range(3)),
        fetch(partitions=session(0, record_count=5, error_code=3), record_count=0),
        fetch(partitions=session(0, topic=None, topic_id="id", high_watermark=4)),
        fetch(partitions=session(2), status="unanswered", record_count=None),
        failed("t1", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        maker = report_tables(database, "requests")["requests"]
        database.insert("requests", maker.of_rows(rows))
        found = report_of(database, CaptureQuality())
    expected = plain_report(rows)
    for table in ("topics", "partitions", "topic_latency", "codecs", "apis"):
        assert found[table] == expected[table], table


def test_rows_are_not_written_to_a_log_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A log would be read and written again for each few rows with long lists."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        maker = report_tables(database, "requests")["requests"]
        database.insert("requests", maker.of_rows(fetches(50)))
        assert database.ask("SELECT count(*) AS n FROM requests")["n"].to_pylist() == [50]
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        assert files
        assert [file.name for file in files if file.suffix == ".wal"] == []
