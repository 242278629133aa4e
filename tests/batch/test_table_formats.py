"""Archives as tables of Delta Lake and Iceberg: read by their own libraries, run after run."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

import kanalyze
from kanalyze.batch.table_formats import publish
from kanalyze.cli.main import main
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("last_report")
FIRST, SECOND = "basics", "groups"
ROWS = "SELECT api_name, correlation_id, request_start_ns FROM rows ORDER BY ALL"


def delta_rows(archive: Path, table: str) -> Any:
    return DeltaTable(archive / table).to_pyarrow_table()


def iceberg_rows(archive: Path, table: str) -> Any:
    warehouse = archive / "iceberg"
    catalog = SqlCatalog(
        "kanalyze", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}"
    )
    return catalog.load_table(f"kanalyze.{table}").scan().to_arrow()


READERS = {"delta": delta_rows, "iceberg": iceberg_rows}


def run(archive: Path, captures: Path, table_format: str, *options: str) -> None:
    command = ["batch", str(captures), "--engine", "process", "--jobs", "1", "--out", str(archive)]
    assert main([*command, "--table-format", table_format, *options, "--brief"]) == 0


def requests_of(rows: Any) -> list[tuple[Any, ...]]:
    assert rows is not None
    return duckdb.sql(ROWS).fetchall()


def in_files(archive: Path, table: str) -> list[tuple[Any, ...]]:
    """The rows of all Parquet files of a table."""
    return requests_of(duckdb.sql(f"FROM read_parquet('{archive}/{table}/day=*/**/*.parquet')"))


def expected(*names: str) -> list[tuple[Any, ...]]:
    rows = kanalyze.requests([path(name) for name in names]).to_arrow()
    return requests_of(rows)


@pytest.mark.parametrize("table_format", READERS)
def test_each_run_is_a_version_with_the_rows_of_the_archive(
    tmp_path: Path, table_format: str
) -> None:
    captures, archive = tmp_path / "captures", tmp_path / "archive"
    captures.mkdir()
    shutil.copy(path(FIRST), captures)
    state = ("--checkpoint", str(tmp_path / "state"), "--settle", "0")
    read = READERS[table_format]
    run(archive, captures, table_format, *state)
    first = requests_of(read(archive, "requests"))
    assert first == in_files(archive, "requests") != []
    shutil.copy(path(SECOND), captures)
    run(archive, captures, table_format, *state)
    second = requests_of(read(archive, "requests"))
    assert second == in_files(archive, "requests")
    assert len(second) > len(first)
    # The last run replaces files of connections that were open, and is the archive's own again.
    run(archive, captures, table_format, *state, "--finish")
    finished = requests_of(read(archive, "requests"))
    assert finished == in_files(archive, "requests") == expected(FIRST, SECOND)
    connections = list(kanalyze.connections([path(FIRST), path(SECOND)]))
    assert read(archive, "connections").num_rows == len(connections)


@pytest.mark.parametrize("table_format", READERS)
def test_files_that_a_run_replaces_are_no_longer_in_the_table(
    tmp_path: Path, table_format: str
) -> None:
    archive = tmp_path / "archive"
    run(archive, path(FIRST), table_format)
    run(archive, path(SECOND), table_format, "--replace")
    assert requests_of(READERS[table_format](archive, "requests")) == expected(SECOND)


@pytest.mark.parametrize("table_format", READERS)
def test_columns_of_a_later_version_come_to_a_table(tmp_path: Path, table_format: str) -> None:
    captures, archive = tmp_path / "captures", tmp_path / "archive"
    captures.mkdir()
    shutil.copy(path(FIRST), captures)
    state = ("--checkpoint", str(tmp_path / "state"), "--settle", "0")
    run(archive, captures, "parquet", *state)
    (file,) = archive.glob("requests/day=*/hour=*/*.parquet")
    new = ["min_bytes", "proxied_client_port", "client_id", "latency_ns", "throttle_time_ms"]
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns(new), file)
    publish(str(archive), table_format)
    old = READERS[table_format](archive, "requests")
    assert not {*new} & {*old.column_names}
    shutil.copy(path(SECOND), captures)
    run(archive, captures, table_format, *state, "--finish")
    rows = READERS[table_format](archive, "requests")
    assert {*new} <= {*rows.column_names}
    asked = "SELECT correlation_id, {} FROM rows WHERE capture LIKE '%{}%' ORDER BY ALL"
    for name, columns in ((FIRST, "NULL"), (SECOND, "min_bytes")):
        found = duckdb.sql(asked.format("min_bytes", name)).fetchall()
        made = kanalyze.requests(path(name)).to_arrow()
        assert made.num_rows
        assert found == duckdb.sql(asked.format(columns, name).replace("rows", "made")).fetchall()


def test_what_cannot_be_written_is_said_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["batch", "nothing", "--engine", "process", "--table-format"]
    assert main([*command, "iceberg", "--out", "s3://bucket/archive"]) == 2
    assert "needs a folder on this machine" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert main([*command, "delta", "--out", str(tmp_path)]) == 2
    message = "kanalyze: deltalake is not installed: pip install 'kanalyze[delta]'\n"
    assert capsys.readouterr().err == message
