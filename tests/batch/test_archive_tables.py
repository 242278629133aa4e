"""Queries of what a batch wrote have the answers of queries of its captures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.cli.main import main
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path

CAPTURES = (str(path("waits")), str(path("groups")))
QUERIES = (
    ("--query", "latency_by_client"),
    ("--query", "rebalances"),
    ("SELECT topic, count(*) AS many FROM partitions GROUP BY ALL ORDER BY ALL",),
    ("SELECT event, count(*) FROM groups JOIN requests USING (request_id) GROUP BY 1 ORDER BY 1",),
    ("SELECT protocol, count(*) AS many FROM connections GROUP BY ALL ORDER BY ALL",),
    ("SELECT min(request_start_time) AS first FROM requests",),
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("archive")
    arguments = ("--out", str(folder / "out"), "--engine", "process", "--jobs", "1")
    assert main(["batch", *CAPTURES, *arguments, "--json", str(folder / "report.json")]) == 0
    return str(folder / "out")


def answer(query: tuple[str, ...], inputs: tuple[str, ...], folder: Path) -> list[Any]:
    target = folder / "answer.jsonl"
    *options, last = query
    arguments = [*query, *inputs] if "--query" in options else [*options, *inputs, last]
    assert main(["sql", "-o", str(target), *arguments]) == 0
    return [json.loads(line) for line in target.read_text().splitlines()]


def test_answers_are_those_of_the_captures(archive: str, tmp_path: Path) -> None:
    for query in QUERIES:
        found = answer(query, (archive,), tmp_path)
        assert found == answer(query, CAPTURES, tmp_path), query
        assert found


@pytest.mark.parametrize("buckets", [1, 8])
def test_metrics_that_clients_push_are_a_table(buckets: int, tmp_path: Path) -> None:
    """Also where segments are sent without what no row needs."""
    capture, out = str(path("telemetry")), str(tmp_path / "out")
    options = ("--out", out, "--engine", "process", "--jobs", "1", "--buckets", str(buckets))
    assert main(["batch", capture, *options]) == 0
    lines = "SELECT client_metrics.* EXCLUDE request_id, requests.request_packet"
    joined = "FROM client_metrics JOIN requests USING (request_id) ORDER BY ALL"
    found = answer((f"{lines} {joined}",), (out,), tmp_path)
    assert found == answer((f"{lines} {joined}",), (capture,), tmp_path)
    assert len(found) == 89


def test_tables_have_names_of_addresses(archive: str, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 here\n")
    for table in ("requests", "groups"):
        counted = f"SELECT client_name, broker_id, count(*) FROM {table} GROUP BY ALL ORDER BY ALL"
        query = ("--names", str(hosts), counted)
        found = answer(query, (archive,), tmp_path)
        assert found == answer(query, CAPTURES, tmp_path)
        assert {line["client_name"] for line in found} == {"here"}


def test_a_url_may_name_an_archive(archive: str, tmp_path: Path) -> None:
    query = ("SELECT count(*) AS many FROM requests",)
    assert answer(query, (f"file://{archive}/",), tmp_path) == answer(query, (archive,), tmp_path)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--api", "Fetch"], "is what kanalyze batch wrote: filter it by WHERE"),
        (CAPTURES[:1], "is what kanalyze batch wrote: query it alone"),
    ],
)
def test_what_does_not_go_with_an_archive_is_said(
    more: list[str], reason: str, archive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", archive, *more, "FROM requests"]) == 2
    assert capsys.readouterr().err == f"kanalyze: {archive}: {reason}\n"
