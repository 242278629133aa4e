"""What Spark gives of captures is what the library gives."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.datasource import EqualTo, In
from pyspark.sql.functions import spark_partition_id, udf

import kanalyze
import kanalyze.spark
from kanalyze.spark.source.datasource import FilteringDataSource, KanalyzeDataSource, register
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

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> SparkSession:
    """A session in which Spark applies all filters, as it comes."""
    session = own_session(spark)
    session.conf.set(PUSHDOWN, "false")
    session.dataSource.register(KanalyzeDataSource)
    return session


@pytest.fixture(scope="module")
def pushing(spark: SparkSession) -> SparkSession:
    """A session in which we do."""
    session = spark.newSession()
    session.conf.set(PUSHDOWN, "false")
    register(session)
    return session


def test_registering_again_changes_nothing(pushing: SparkSession) -> None:
    register(pushing)
    later = pushing.newSession()
    register(later)
    assert later.read.format("kanalyze").load(str(path("any"))).count() > 0


def read(spark: SparkSession, *captures: str | Path, **options: Any) -> DataFrame:
    return spark.read.format("kanalyze").options(**options).load([str(each) for each in captures])


def counted(table: pa.SourceTable) -> Counter[str]:
    """Rows in no order."""
    return Counter(map(repr, as_on_spark(table).to_pylist()))


def rows_of(*frames: DataFrame) -> Counter[str]:
    return counted(reduce(DataFrame.unionAll, frames).toArrow())


def of_library(captures: Iterable[str]) -> Counter[str]:
    """The requests in captures, each of which is read by itself."""
    return sum((counted(kanalyze.requests(capture).to_arrow()) for capture in captures), Counter())


EVERY = [str(path(name)) for name in NAMES]


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 3])
def test_the_requests_of_every_capture_are_those_of_the_library(plain, count):
    found = rows_of(*(read(plain, capture, numPartitions=count) for capture in EVERY))
    assert found == of_library(EVERY)


@pytest.mark.long
def test_all_captures_together_are_those_of_the_library(plain):
    expected = kanalyze.requests(str(FOLDER)).to_arrow()
    assert counted(read(plain, FOLDER, numPartitions=3).toArrow()) == counted(expected)


def test_captures_together_in_three_partitions(plain):
    captures = [path(name) for name in ("errors", "groups", "ipv6")]
    frame = read(plain, *captures, numPartitions=3)
    found = frame.withColumn("partition", spark_partition_id()).toArrow()
    assert set(found["partition"].to_pylist()) == {0, 1, 2}
    expected = kanalyze.requests(*map(str, captures)).to_arrow()
    assert counted(found.drop_columns("partition")) == counted(expected)


@pytest.mark.parametrize("table", ["connections", "anomalies"])
def test_other_tables_are_those_of_the_library(plain, table):
    captures = [path(name) for name in ("errors", "foreign", "snaplen")]
    expected = as_on_spark(getattr(kanalyze, table)(*map(str, captures)).to_arrow())
    assert expected.num_rows
    found = read(plain, *captures, table=table, numPartitions=2).toArrow()
    assert found.column_names == expected.column_names
    assert counted(found) == counted(expected)


def test_records_are_as_many_as_the_requests_say(plain):
    capture = path("codecs")
    rows = [row for row in kanalyze.requests(str(capture)) if row.api_name in ("Produce", "Fetch")]
    found = read(plain, capture, table="records", numPartitions=2).where("problem is null")
    assert found.count() == sum(row.record_count or 0 for row in rows)
    assert "value" not in found.columns
    shown = read(plain, capture, table="records", values="true", columns="value,value_bytes")
    assert shown.where("length(value) > 0").count() > 0


def test_packets_are_those_of_the_capture(plain):
    captures = [path("mock"), path("errors")]
    found = read(plain, *captures, table="packets").orderBy("capture", "packet").collect()
    expected = [
        (str(capture), number, packet.time_ns, packet.data)
        for capture in sorted(captures)
        for number, packet in enumerate(read_packets(capture.read_bytes()), start=1)
    ]
    assert [(row.capture, row.packet, row.time_ns, row.data) for row in found] == expected


@pytest.mark.parametrize("seed", range(2))
def test_a_connection_that_goes_on_in_another_file_is_one(plain, tmp_path, seed):
    packets = [
        Packet(each.data, each.time_ns, each.wire_bytes, each.link_type)
        for each in read_packets(path("groups").read_bytes())
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


# -- filters --------------------------------------------------------------------------------------

PREDICATES = {
    "latency_ns > 200000 and client_id like 'aiokafka%'": [
        "GreaterThan(latency_ns,200000)",
        "StringStartsWith(client_id,aiokafka)",
    ],
    "waited or broker_port = 9092": [],
    "not waited and size(partitions) = 1": ["Not(EqualTo(waited,true))"],
}
MORE_PREDICATES = {
    "api_name = 'Produce' and status <> 'ok'": ["EqualTo(api_name,Produce)", "Not(EqualTo(status"],
    "api_key in (0, 1, 18) and error_code <> 0": ["In(api_key, [0,1,18])"],
    "group_id is null and request_packet between 20 and 400": ["IsNull(group_id)"],
}


def explained(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    frame.explain("formatted")
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "predicates",
    [PREDICATES, pytest.param(MORE_PREDICATES, marks=pytest.mark.long)],
    ids=["some", "more"],
)
def test_pushed_filters_give_the_rows_that_spark_gives(plain, pushing, capsys, predicates):
    captures = [path("errors"), path("groups")]
    every = read(plain, *captures)
    assert "PushedFilters" not in explained(every.where("api_key = 1"), capsys)
    every = plain.createDataFrame(every.toArrow())
    found, expected = [], []
    for predicate, pushed in predicates.items():
        frame = read(pushing, *captures).where(predicate)
        shown = explained(frame, capsys)
        assert all(each in shown for each in pushed), shown
        found.append(counted(frame.toArrow()))
        expected.append(counted(every.where(predicate).toArrow()))
    assert found == expected
    assert all(found)


def test_packets_of_captures_that_a_filter_leaves_out_are_not_read(pushing):
    captures = [path("mock"), path("errors"), path("basics")]
    packets = read(pushing, *captures, table="packets")
    some = packets.where(f"capture = '{captures[1]}' and captured_bytes > 100")
    expected = [p for p in read_packets(captures[1].read_bytes()) if len(p.data) > 100]
    assert some.count() == len(expected) > 0
    assert packets.where("capture = 'elsewhere'").count() == 0

    source = FilteringDataSource({"paths": json.dumps(EVERY), "table": "packets"})
    reader = source.reader(packets.schema)
    own = In(("capture",), (EVERY[3], "elsewhere"))
    left = EqualTo(("data",), b"")
    assert list(reader.pushFilters([own, left])) == [left]
    (partition,) = reader.partitions()
    assert [found.path for found in partition.value.captures] == [EVERY[3]]


def test_no_capture_is_left_out_where_rows_need_the_packets_of_others(pushing):
    source = FilteringDataSource({"paths": json.dumps(EVERY)})
    reader = source.reader(read(pushing, *EVERY).schema)
    assert list(reader.pushFilters([EqualTo(("capture",), EVERY[3])])) == []
    (partition,) = reader.partitions()
    assert len(partition.value.captures) == len(EVERY)


def test_what_the_package_gives_is_this():
    assert kanalyze.spark.register is register
    assert kanalyze.spark.KanalyzeDataSource is KanalyzeDataSource


def test_without_filters_the_setting_need_not_be_on(plain, pushing):
    assert plain.conf.get(PUSHDOWN) == "false"
    assert pushing.conf.get(PUSHDOWN) == "true"


# -- what may be asked for ------------------------------------------------------------------------


def test_the_schema_says_what_the_columns_mean(plain):
    schema = read(plain, "nowhere.pcap").schema
    assert schema["latency_ns"].dataType.simpleString() == "bigint"
    assert schema["latency_ns"].metadata == {
        "comment": "response_start_ns - request_end_ns (ns)",
    }
    assert schema["partitions"].dataType.elementType["codec"].dataType.simpleString() == "string"


def test_columns_are_left_out_by_option_or_by_schema(plain):
    expected = [(row.status, row.latency_ns) for row in kanalyze.requests(str(path("mock")))]
    by_option = read(plain, path("mock"), columns="status, latency_ns")
    assert by_option.columns == ["status", "latency_ns"]
    assert by_option.collect() == expected
    asked = plain.read.format("kanalyze").schema("status string, latency_ns bigint")
    assert asked.load(str(path("mock"))).collect() == expected


def test_a_view_in_sql(plain):
    plain.sql(
        "create or replace temporary view errors using kanalyze "
        f"options (path '{path('errors')}', errors 'true')"
    )
    expected = Counter(
        row.error_name for row in kanalyze.requests(str(path("errors")), errors=True)
    )
    found = plain.sql("select error_name, count(*) from errors group by all").collect()
    assert dict(map(tuple, found)) == expected


def test_bad_captures_are_left_out_in_quarantine(plain, tmp_path):
    bad = tmp_path / "bad.pcap"
    bad.write_text("no capture")
    captures = [path("mock"), bad, tmp_path / "nowhere.pcap"]
    requests = read(plain, *captures, mode="quarantine", columns="status")
    assert requests.count() == len(list(kanalyze.requests(str(path("mock")))))
    told = read(plain, *captures, mode="quarantine", table="anomalies")
    found = told.where("kind = 'capture_unreadable'").select("detail").collect()
    assert sorted(row.detail.removeprefix(f"{tmp_path}/")[:20] for row in found) == [
        "bad.pcap: is not a p",
        "nowhere.pcap: no suc",
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "kanalyze.errors.CaptureError: nowhere.pcap: no such file"),
        ({"slower": "1s"}, "kanalyze.errors.UsageError: unknown option: 'slower'; there are api,"),
        ({"table": "rows"}, "kanalyze.errors.UsageError: unknown table 'rows'; there"),
    ],
)
def test_what_is_wrong_is_one_line_of_what_spark_says(plain, options, text):
    with pytest.raises(PySparkException) as raised:
        read(plain, "nowhere.pcap", **options).collect()
    said = str(raised.value)
    assert text in said
    assert "Traceback" not in said
    # Spark ends with its own SQLSTATE.
    assert len([line for line in said.splitlines() if line.strip()]) <= 2


def test_a_stack_is_still_shown_of_what_others_raise(plain):
    """Who reads in the same session, and fails, sees where."""
    with pytest.raises(PySparkException):
        read(plain, "nowhere.pcap").collect()

    def fail(_):
        raise ValueError("of the user's own")

    frame = plain.createDataFrame([("a",)], "a string")
    with pytest.raises(PySparkException, match=r"(?s)Traceback.*in fail.*of the user's own"):
        frame.select(udf(fail)("a")).collect()


def test_a_column_of_another_type_is_refused(plain):
    asked = plain.read.format("kanalyze").schema("status string, latency_ns int")
    with pytest.raises(PySparkException, match="column 'latency_ns' is bigint, not int"):
        asked.load(str(path("mock"))).collect()
