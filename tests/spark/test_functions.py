"""The functions for notebooks give the same tables as the library."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
import kanalyze.spark
from kanalyze.batch.archive.table_files import ARCHIVE_TABLES
from kanalyze.batch.table_options import option_texts
from kanalyze.cli.main import main
from kanalyze.errors import CaptureError, UsageError
from kanalyze.spec.rows.cluster import GROUP_COLUMNS
from tests.support.archives import cut
from tests.support.captures import path
from tests.support.quality import UNCHECKED_BATCHES
from tests.support.spark_tables import as_on_spark

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

GROUP_NAMES = [column.name for column in GROUP_COLUMNS]
CAPTURE = str(path("waits"))


def counted(table: pa.Table, names: list[str] | None = None) -> Counter[str]:
    chosen = table if names is None else table.select(names)
    return Counter(map(repr, chosen.to_pylist()))


def report_of_one_process(folder: Path, *arguments: str) -> dict[str, Any]:
    """The report of one process."""
    assert main(["report", *arguments, "--json", str(folder / "report.json")]) == 0
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    del found["kanalyze_version"]
    found["quality"].update(UNCHECKED_BATCHES)
    return found


def assert_same_rows(found: DataFrame, expected: Any) -> None:
    table = as_on_spark(expected.to_arrow())
    assert found.columns == table.column_names
    assert counted(found.toArrow()) == counted(table)


def test_an_archive_is_read_once_for_all_tables(spark: SparkSession, tmp_path: Path) -> None:
    files = cut("waits", 3, tmp_path).files
    with kanalyze.spark.open_archive(spark, *files, payload=True, buckets=2) as archive:
        assert_same_rows(
            archive.requests(api="Fetch", slower_than="5ms"),
            kanalyze.requests(*files, api="Fetch", slower_than="5ms"),
        )
        assert_same_rows(archive.connections(), kanalyze.connections(*files))
        assert_same_rows(archive.anomalies(), kanalyze.anomalies(*files))
        assert archive.report(errors=True) == report_of_one_process(tmp_path, *files, "--errors")
        tables = archive.tables(api="Metadata")
        lines = tables["metadata"].select("request_id").join(tables["requests"], "request_id")
        names = [row.api_name for row in lines.select("api_name").collect()]
        assert names == ["Metadata"] * tables["metadata"].count() != []
        assert sorted(tables) == sorted(ARCHIVE_TABLES)
        assert_same_rows(archive.records(), kanalyze.records(*files))
        assert archive.unreadable == {}


def test_only_the_selected_columns_are_returned(spark: SparkSession) -> None:
    rows = kanalyze.spark.requests(spark, CAPTURE, columns=["partitions", "api_name"], buckets=1)
    assert rows.columns == ["partitions", "api_name"]
    names = ["partitions", "api_name"]
    assert counted(rows.toArrow()) == counted(kanalyze.requests(CAPTURE).to_arrow(), names)


def test_groups_and_metadata_match_the_library(spark: SparkSession) -> None:
    capture = str(path("next-groups"))
    names = [name for name in GROUP_NAMES if name != "request_id"]
    with kanalyze.spark.open_archive(spark, capture, buckets=2) as archive:
        rows = archive.groups(columns=names, api="ConsumerGroupHeartbeat")
        expected = kanalyze.groups(capture, api="ConsumerGroupHeartbeat").to_arrow()
        assert rows.columns == names
        assert counted(rows.toArrow()) == counted(expected, names)
        found = archive.metadata().toArrow()
        names = [name for name in found.column_names if name != "request_id"]
        assert counted(found, names) == counted(kanalyze.metadata(capture).to_arrow(), names)


def test_relative_paths_start_at_the_folder_of_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in cut("waits", 2, tmp_path).files:
        assert file.startswith(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert_same_rows(kanalyze.spark.requests(spark, *names, buckets=1), kanalyze.requests(*names))


def test_a_table_of_packets_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    files = cut("waits", 3, tmp_path).files
    session = spark.newSession()
    kanalyze.spark.register(session)
    packets = session.read.format("kanalyze").option("table", "packets").load(files)
    scratch, packets = tmp_path / "scratch", packets.repartition(4)
    with kanalyze.spark.open_packets(packets, scratch=str(scratch), buckets=2) as archive:
        assert_same_rows(archive.requests(), kanalyze.requests(*files))
        assert list(scratch.rglob("*.blocks"))
    assert not list(scratch.iterdir())


def test_many_buckets_need_a_folder_that_workers_can_write(
    spark: SparkSession, tmp_path: Path
) -> None:
    message = "5 buckets: name a folder that all workers can write, scratch=..., or use at most 4"
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        kanalyze.spark.requests(spark, CAPTURE, buckets=5)
    with kanalyze.spark.open_archive(spark, CAPTURE, buckets=5, scratch=str(tmp_path)) as archive:
        assert_same_rows(archive.requests(), kanalyze.requests(CAPTURE))
        assert list(tmp_path.rglob("*.blocks"))
    assert not list(tmp_path.iterdir())


def test_a_packet_table_without_a_needed_column_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="packets: column 'packet' is missing"):
        kanalyze.spark.open_packets(spark.sql("select 'a' as capture, 1L as time_ns"), scratch="s")


def test_records_need_the_payload(spark: SparkSession) -> None:
    with (
        kanalyze.spark.open_archive(spark, CAPTURE, buckets=1) as archive,
        pytest.raises(UsageError, match="records: open the archive with payload=True"),
    ):
        archive.records()


def test_arguments_of_the_library_become_option_texts() -> None:
    at = datetime(2026, 11, 20, 22, 46, tzinfo=UTC)
    arguments = {
        "since": at,
        "slower_than": timedelta(milliseconds=50),
        "topic": None,
        "group": [],
        "api": [0, "Fetch"],
        "port": 9092,
        "error": [-1, "NOT_COORDINATOR"],
        "partition": 3,
        "definitions": PurePosixPath("/some/where"),
        "errors": True,
    }
    assert option_texts(arguments) == {
        "since": "2026-11-20T22:46:00.000000000Z",
        "slowerthan": "50000000ns",
        "api": '["0", "Fetch"]',
        "port": "9092",
        "error": '["-1", "NOT_COORDINATOR"]',
        "partition": "3",
        "definitions": "/some/where",
        "errors": "true",
    }
    with pytest.raises(UsageError, match=r"^slower_than: 50 has no unit"):
        option_texts({"slower_than": 50})
    with pytest.raises(UsageError, match=r"^topic: not a text: None"):
        option_texts({"topic": [None]})


def test_bad_arguments_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a number of buckets: 0"):
        kanalyze.spark.requests(spark, CAPTURE, buckets=0)
    with pytest.raises(UsageError, match="unknown option: 'colour'"):
        kanalyze.spark.requests(spark, CAPTURE, colour="red")
    with pytest.raises(CaptureError, match="no such file"):
        kanalyze.spark.requests(spark, str(tmp_path / "none.pcap"))


def test_a_file_that_is_no_capture_is_an_error_or_quarantined(
    spark: SparkSession, tmp_path: Path
) -> None:
    foreign = tmp_path / "notes.pcap"
    foreign.write_text("nothing to see")
    with pytest.raises(CaptureError, match="is not a pcap or pcapng file"):
        kanalyze.spark.requests(spark, CAPTURE, str(foreign), buckets=1)
    opened = kanalyze.spark.open_archive(spark, CAPTURE, str(foreign), buckets=1, mode="quarantine")
    with opened as archive:
        assert list(archive.unreadable) == [str(foreign)]
        left_out = archive.anomalies().where("kind = 'capture_unreadable'").collect()
        assert [row.capture for row in left_out] == [str(foreign)]
