"""Queries of what a batch wrote have the answers of queries of its captures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanalyze.api.tables import create_tables
from kanalyze.batch.archive.table_files import ARCHIVE_TABLES, columns_of
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.batch.sums import insert_rows
from kanalyze.cli.main import main
from kanalyze.errors import KanalyzeError
from kanalyze.queries.database import Database
from tests.support.captures import path

if TYPE_CHECKING:
    from collections.abc import Sequence

CAPTURES = tuple(str(path(name)) for name in ("waits", "groups", "telemetry"))
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


@pytest.mark.parametrize(("mark", "tables"), [("", ARCHIVE_TABLES), ("[", ["anomalies"])])
def test_a_column_that_files_lack_is_null(
    mark: str, tables: Sequence[str], archive: str, tmp_path: Path
) -> None:
    """Each column once, in local files, and in files that are read as those of a store are."""
    found_files = ((table, sorted(Path(archive, table).rglob("*.parquet"))) for table in tables)
    for table, files in ((table, files) for table, files in found_files if files):
        columns = columns_of(table)
        whole = (
            pq.ParquetFile(files[0]).read().slice(0, 2).select(column.name for column in columns)
        )
        for column in columns:
            pq.write_table(whole.drop_columns(column.name), tmp_path / f"{mark}{column.name}")
        lacked = [column.name for column in columns if column.nullable]
        found = read(table, [f"{mark}{name}" for name in lacked], tmp_path)
        assert found == [{**line, name: None} for name in lacked for line in whole.to_pylist()]
        never_null = next(column.name for column in columns[3:] if not column.nullable)
        with pytest.raises(KanalyzeError, match=f"constraint failed: .*{never_null}"):
            read(table, [f"{mark}{never_null}"], tmp_path)


def read(table: str, files: list[str], folder: Path) -> list[dict[str, Any]]:
    with Database(max_memory_bytes=64 << 20, threads=1) as database:
        (maker,) = create_tables(database, {table: columns_of(table)}).values()
        insert_rows(database, table, SharedFolder(str(folder)), files, maker.schema)
        batches = list(database.batches(table, maker.schema.names))
    return pa.Table.from_batches(batches).to_pylist()


def test_questions_and_reports_read_an_archive_that_lacks_columns(
    archive: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = str(tmp_path / "old")
    shutil.copytree(archive, old)
    lacks = {"requests": ["client_id", "latency_ns"], "groups": ["reason"], "connections": ["sni"]}
    for table in ARCHIVE_TABLES:
        for file in Path(old, table).rglob("*.parquet"):
            rows = pq.ParquetFile(file).read()
            pq.write_table(
                rows.drop_columns([n for n in lacks.get(table, ()) if n in rows.column_names]), file
            )
    nothing = "SELECT count(client_id), count(latency_ns) FROM requests"
    assert [*answer((nothing,), (old,), tmp_path)[0].values()] == [0, 0]
    untouched = "SELECT api_name, count(*) FROM requests GROUP BY ALL ORDER BY ALL"
    assert answer((untouched,), (old,), tmp_path) == answer((untouched,), CAPTURES, tmp_path)
    assert answer(("--query", "rebalances"), (old,), tmp_path)
    by_client = answer(("--query", "latency_by_client"), (old,), tmp_path)
    assert {line["client_id"] for line in by_client} <= {None}


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
