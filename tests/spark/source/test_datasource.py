"""The data source gives the same rows as the library."""

from __future__ import annotations

import random
from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.functions import spark_partition_id, udf

import kanalyze
import kanalyze.spark
from kanalyze.spark.source.datasource import KanalyzeDataSource, register
from tests.support.captures import FOLDER, NAMES, path
from tests.support.disorder.capture_files import read_packets
from tests.support.packets import Packet, pcap_file
from tests.support.spark import own_session
from tests.support.spark_tables import as_on_spark

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> SparkSession:
    """A session that knows the data source."""
    session = own_session(spark)
    session.dataSource.register(KanalyzeDataSource)
    return session


def read(spark: SparkSession, *captures: str | Path, **options: Any) -> DataFrame:
    return (
        spark.read.format("kanalyze")
        .options(**options)
        .load([str(capture) for capture in captures])
    )


def counted(table: pa.SourceTable) -> Counter[str]:
    """Count rows, whatever their order."""
    return Counter(map(repr, as_on_spark(table).to_pylist()))


def rows_of(*frames: DataFrame) -> Counter[str]:
    return counted(reduce(DataFrame.unionAll, frames).toArrow())


def of_library(captures: Iterable[str]) -> Counter[str]:
    """The requests of captures, each of which is read separately."""
    return sum((counted(kanalyze.requests(capture).to_arrow()) for capture in captures), Counter())


EVERY = [str(path(name)) for name in NAMES]


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 3])
def test_requests_of_every_capture_match_the_library(plain, count):
    found = rows_of(*(read(plain, capture, numPartitions=count) for capture in EVERY))
    assert found == of_library(EVERY)


@pytest.mark.long
def test_requests_of_all_captures_together_match_the_library(plain):
    expected = kanalyze.requests(str(FOLDER)).to_arrow()
    assert counted(read(plain, FOLDER, numPartitions=3).toArrow()) == counted(expected)


def test_captures_are_read_in_three_partitions(plain):
    captures = [path(name) for name in ("errors", "groups", "ipv6")]
    frame = read(plain, *captures, numPartitions=3)
    found = frame.withColumn("partition", spark_partition_id()).toArrow()
    assert set(found["partition"].to_pylist()) == {0, 1, 2}
    expected = kanalyze.requests(*map(str, captures)).to_arrow()
    assert counted(found.drop_columns("partition")) == counted(expected)


@pytest.mark.parametrize("table", ["connections", "anomalies"])
def test_other_tables_match_the_library(plain, table):
    captures = [path(name) for name in ("errors", "foreign", "snaplen")]
    expected = as_on_spark(getattr(kanalyze, table)(*map(str, captures)).to_arrow())
    assert expected.num_rows
    found = read(plain, *captures, table=table, numPartitions=2).toArrow()
    assert found.column_names == expected.column_names
    assert counted(found) == counted(expected)


def test_the_number_of_records_matches_the_requests(plain):
    capture = path("codecs")
    rows = [row for row in kanalyze.requests(str(capture)) if row.api_name in ("Produce", "Fetch")]
    found = read(plain, capture, table="records", numPartitions=2).where("problem is null")
    assert found.count() == sum(row.record_count or 0 for row in rows)
    assert "value" not in found.columns
    with_values = read(plain, capture, table="records", values="true", columns="value,value_bytes")
    assert with_values.where("length(value) > 0").count() > 0


def test_packets_match_the_capture(plain):
    captures = [path("mock"), path("errors")]
    found = read(plain, *captures, table="packets").orderBy("capture", "packet").collect()
    expected = [
        (str(capture), number, packet.time_ns, packet.data)
        for capture in sorted(captures)
        for number, packet in enumerate(read_packets(capture.read_bytes()), start=1)
    ]
    assert [(row.capture, row.packet, row.time_ns, row.data) for row in found] == expected


@pytest.mark.parametrize("seed", range(2))
def test_a_connection_that_continues_in_another_file_gives_the_same_rows(plain, tmp_path, seed):
    packets = [
        Packet(packet.data, packet.time_ns, packet.wire_bytes, packet.link_type)
        for packet in read_packets(path("groups").read_bytes())
    ]
    cut = random.Random(seed).randrange(1, len(packets))
    files = [tmp_path / name for name in ("a.pcap", "b.pcap")]
    for file, part in zip(files, (packets[:cut], packets[cut:]), strict=True):
        file.write_bytes(pcap_file(part))
    found = read(plain, *files, numPartitions=3).toArrow()
    assert counted(found) == counted(kanalyze.requests(*map(str, files)).to_arrow())
    places = ["capture", "request_packet", "response_packet"]
    whole = kanalyze.requests(str(path("groups"))).to_arrow()
    assert counted(found.drop_columns(places)) == counted(whole.drop_columns(places))


# -- registering ----------------------------------------------------------------------------------


def test_the_package_exports_the_data_source():
    assert kanalyze.spark.register is register
    assert kanalyze.spark.KanalyzeDataSource is KanalyzeDataSource


def test_registering_again_changes_nothing(spark: SparkSession) -> None:
    session = spark.newSession()
    settings = session.conf.getAll
    register(session)
    register(session)
    assert session.conf.getAll == settings
    later = session.newSession()
    register(later)
    assert later.read.format("kanalyze").load(str(path("any"))).count() > 0


# -- options --------------------------------------------------------------------------------------


def test_the_schema_describes_the_columns(plain):
    schema = read(plain, "nowhere.pcap").schema
    assert schema["latency_ns"].dataType.simpleString() == "bigint"
    assert schema["latency_ns"].metadata == {
        "comment": "response_start_ns - request_end_ns (ns)",
    }
    assert schema["partitions"].dataType.elementType["codec"].dataType.simpleString() == "string"


def test_columns_are_selected_by_option_or_by_schema(plain):
    expected = [(row.status, row.latency_ns) for row in kanalyze.requests(str(path("mock")))]
    by_option = read(plain, path("mock"), columns="status, latency_ns")
    assert by_option.columns == ["status", "latency_ns"]
    assert by_option.collect() == expected
    with_schema = plain.read.format("kanalyze").schema("status string, latency_ns bigint")
    assert with_schema.load(str(path("mock"))).collect() == expected


def test_a_view_is_created_in_sql(plain):
    plain.sql(
        "create or replace temporary view errors using kanalyze "
        f"options (path '{path('errors')}', errors 'true')"
    )
    expected = Counter(
        row.error_name for row in kanalyze.requests(str(path("errors")), errors=True)
    )
    found = plain.sql("select error_name, count(*) from errors group by all").collect()
    assert dict(map(tuple, found)) == expected


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "kanalyze.errors.CaptureError: nowhere.pcap: no such file"),
        (
            {"slower": "1s"},
            "kanalyze.errors.UsageError: unknown option: 'slower'; there are anomaly, api,",
        ),
        ({"table": "rows"}, "kanalyze.errors.UsageError: unknown table 'rows'; there"),
    ],
)
def test_an_error_is_one_line_in_the_message_of_spark(plain, options, text):
    with pytest.raises(PySparkException) as raised:
        read(plain, "nowhere.pcap", **options).collect()
    message = str(raised.value)
    assert text in message
    assert "Traceback" not in message
    # Spark appends its own SQLSTATE.
    assert len([line for line in message.splitlines() if line.strip()]) <= 2


def test_stack_traces_of_other_errors_are_still_shown(plain):
    """Other errors in the same session keep their stack trace."""
    with pytest.raises(PySparkException):
        read(plain, "nowhere.pcap").collect()

    def fail(_):
        raise ValueError("of the user's own")

    frame = plain.createDataFrame([("a",)], "a string")
    with pytest.raises(PySparkException, match=r"(?s)Traceback.*in fail.*of the user's own"):
        frame.select(udf(fail)("a")).collect()


def test_a_column_of_another_type_is_refused(plain):
    with_schema = plain.read.format("kanalyze").schema("status string, latency_ns int")
    with pytest.raises(PySparkException, match="column 'latency_ns' is bigint, not int"):
        with_schema.load(str(path("mock"))).collect()
