"""The rows of the tables of the data source, without Spark."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kanalyze
from kanalyze.batch.run_plan import options_of
from kanalyze.batch.table_options import (
    TABLES,
    TablePartition,
    captures_of,
    make_plan,
    parse_options,
    partitions_of,
    plan_of,
    read_partition,
)
from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.io.stores import Stores
from kanalyze.errors import CaptureError, KanalyzeError, UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.records import columns_of_records
from kanalyze.tables.records.rows import RecordReader, has_records
from kanalyze.tables.requests.topic_names import topic_id_text
from tests.support import topic_ids as t
from tests.support.captures import path
from tests.support.definitions import vendor_folder
from tests.support.exchange_batches import exchange_batches
from tests.support.packets import pcap_file, segment, timed
from tests.support.record_rows import record_batches
from tests.support.spark_tables import as_on_spark


def parse(**options: str):
    return parse_options(options)


def test_the_default_is_all_columns_of_requests():
    options = parse()
    assert options.table == "requests"
    assert (options.paths, options.columns, options.partitions) == ((), None, None)
    assert options.filters == {}
    assert not options.leave_out_unreadable
    assert not options.values


def test_option_names_ignore_case():
    options = parse(MAXMEMORY="256M", Api="Fetch", nUmPaRtItIoNs="3", table="Requests")
    assert options.max_memory_bytes == 256 << 20
    assert options.filters == {"api": ("Fetch",)}
    assert options.partitions == 3


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("a.pcap", ("a.pcap",)),
        ("a.pcap, b.pcap", ("a.pcap", "b.pcap")),
        ('["a,1.pcap"]', ("a,1.pcap",)),
        ('["a.pcap", "b.pcap"]', ("a.pcap", "b.pcap")),
        ("[ab]*.pcap", ("[ab]*.pcap",)),
        ("[12].pcap", ("[12].pcap",)),
        ("[12]", ("[12]",)),
        ("s3://bucket/2026/*/x.pcap.gz", ("s3://bucket/2026/*/x.pcap.gz",)),
    ],
)
def test_one_or_several_paths_are_parsed(text, paths):
    assert parse(path=text).paths == paths
    assert parse(paths=text).paths == paths


def test_conditions_become_arguments_of_the_filter():
    options = parse(api="Produce,1", errors="TRUE", since="2026-01-31", port="9092,9093")
    assert options.filters == {
        "api": ("Produce", "1"),
        "errors": True,
        "since": "2026-01-31",
    }
    assert options.ports == (9092, 9093)


def test_mode_quarantine_leaves_out_unreadable_captures():
    assert not parse(mode="failfast").leave_out_unreadable
    assert parse(mode="Quarantine").leave_out_unreadable


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"slow": "1s"}, "unknown option: 'slow'; there are anomaly, api, broker, clientId,"),
        ({"table": "rows"}, "unknown table 'rows'; there are requests, records"),
        ({"table": "packets", "api": "Fetch"}, "option api: table=packets has no such option"),
        ({"errors": "maybe"}, "option errors: true or false, not 'maybe'"),
        ({"mode": "lenient"}, "option mode: failfast or quarantine, not 'lenient'"),
        ({"maxMemory": "much"}, "option maxMemory: not a size: 'much'"),
        ({"port": "9092,x"}, "option port: not a number from 1 to 65535: 'x'"),
        ({"port": "65536"}, "option port: not a number from 1 to 65535: '65536'"),
        ({"numPartitions": "0"}, "option numPartitions: not a number from 1 to 256: '0'"),
        ({"columns": "status,,"}, "option columns: texts separated by commas"),
        ({"path": "[]"}, "option path: texts separated by commas"),
        ({"path": " "}, "option path: texts separated by commas"),
        ({"since": " "}, "option since: is empty"),
    ],
)
def test_a_bad_option_is_reported_in_one_line(given, text):
    with pytest.raises(UsageError) as raised:
        parse(**given)
    assert str(raised.value).startswith(text)
    assert "\n" not in str(raised.value)


def test_max_records_is_parsed_for_the_table_that_has_it():
    assert parse(table="records").max_records is None
    assert parse(table="records", maxrecords="5").max_records == 5
    for text in ("0", "x", str(2**31), "9" * 5000):
        with pytest.raises(UsageError, match="option maxRecords: not a number from 1 to"):
            parse(table="records", maxRecords=text)


def test_checkpoints_name_filters_as_they_always_did():
    filters = {"api": "Fetch", "clientId": "a", "status": "ok", "error": "6", "errors": "true"}
    assert options_of(make_plan({**filters, "slowerThan": "1ms"}))["filters"] == {
        "apis": ["Fetch"],
        "client_ids": ["a"],
        "statuses": ["ok"],
        "error_codes": ["6"],
        "errors_only": True,
        "slower_than": "1ms",
    }


def seconds(time_ns: int) -> str:
    return f"{time_ns // 1_000_000_000}.{time_ns % 1_000_000_000:09d}"


def rows(*captures: str, **options: str) -> list[dict[str, Any]]:
    """The rows of all parts; plan and part are pickled, as for a task."""
    read = parse_options({"paths": json.dumps(captures), **options})
    plan = plan_of(read)
    parts = partitions_of(read, *captures_of(read, Stores()))
    found = []
    for part in parts:
        loaded_plan, loaded_part = pickle.loads(pickle.dumps((plan, part)))
        for batch in read_partition(loaded_plan, loaded_part):
            found += batch.to_pylist()
    return found


def counted(found) -> Counter[str]:
    return Counter(map(repr, found))


def of_library(read, *captures: str, **filters) -> list[dict[str, Any]]:
    return as_on_spark(read(*captures, **filters).to_arrow()).to_pylist()


@pytest.mark.parametrize("partitions", ["1", "3"])
@pytest.mark.parametrize("table", ["requests", "connections", "anomalies"])
def test_the_rows_of_a_table_match_the_library(table, partitions):
    captures = [str(path(name)) for name in ("errors", "mock")]
    found = rows(*captures, table=table, numPartitions=partitions)
    expected = of_library(getattr(kanalyze, table), *captures)
    assert expected
    assert counted(found) == counted(expected)


@pytest.mark.parametrize("table", ["groups", "metadata", "changes"])
def test_lines_of_requests_match_the_library(table):
    capture = str(path("next-groups" if table != "changes" else "admin"))
    expected = of_library(getattr(kanalyze, table), capture)
    assert expected
    assert counted(rows(capture, table=table)) == counted(expected)
    # Parts number their requests separately, and no two requests get the same number.
    found = rows(capture, table=table, numPartitions="3")
    assert counted(map(without_request_id, found)) == counted(map(without_request_id, expected))
    assert len(requests_of(found)) == len({line["request_id"] for line in found})
    assert requests_of(found) == requests_of(expected)


def without_request_id(line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "request_id": None}


def requests_of(lines: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """The columns that identify the requests of lines."""
    names = ("connection", "connection_number", "correlation_id", "request_packet")
    return {tuple(line[name] for name in names) for line in lines}


@pytest.mark.parametrize("values", [False, True])
def test_records_match_the_command(values):
    capture = str(path("codecs"))
    catalog = Catalog()
    reader = RecordReader(catalog, Decoders(catalog), values_as="base64" if values else None)
    run = Analysis([capture], keep=has_records)
    expected = [
        row
        for pairs in exchange_batches(run)
        for batch in record_batches(reader, pairs)
        for row in batch
    ]
    columns = columns_of_records(values=values, is_table=True)
    found = rows(capture, table="records", numPartitions="2", values=str(values))
    assert found
    assert [list(row) for row in found[:1]] == [[column.name for column in columns]]
    assert counted(found) == counted(BatchMaker(columns).of_rows(expected).to_pylist())


@pytest.mark.parametrize(
    ("options", "filters"),
    [
        ({"api": "Produce,Fetch"}, {"api": ("Produce", "Fetch")}),
        ({"errors": "true"}, {"errors": True}),
        ({"slowerThan": "1ms", "topic": "*"}, {"slower_than": "1ms", "topic": "*"}),
        ({"status": "ok,error", "error": "79,NONE"}, {"status": ("ok", "error"), "error": (79, 0)}),
        ({"partition": "0,g*-1", "topic": "g*"}, {"partition": (0, "g*-1"), "topic": "g*"}),
        ({"clientId": "*-client*,rd*"}, {"client_id": ("*-client*", "rd*")}),
        ({"group": "*", "clientIp": "0.0.0.0/0"}, {"group": "*", "client_ip": "0.0.0.0/0"}),
        ({"port": "9092", "since": "2026-11-01"}, {"port": (9092,), "since": "2026-11-01"}),
        ({"until": "2026-11-01"}, {"until": "2026-11-01"}),
    ],
)
def test_options_filter_like_the_arguments_of_the_library(options, filters):
    capture = str(path("groups"))
    found = rows(capture, **options)
    assert counted(found) == counted(of_library(kanalyze.requests, capture, **filters))


def test_conditions_on_clients_and_brokers_filter_connections_too():
    capture = str(path("mock"))
    every = rows(capture, table="connections")
    broker = f"{every[0]['broker_ip']}:{every[0]['broker_port']}"
    found = rows(capture, table="connections", broker=broker)
    expected = of_library(kanalyze.connections, capture, broker=broker)
    assert counted(found) == counted(expected)
    assert 0 < len(found) <= len(every)


def test_columns_come_in_the_requested_order():
    capture = str(path("mock"))
    found = rows(capture, columns="status,partitions,api_name")
    assert list(found[0]) == ["status", "partitions", "api_name"]
    expected = of_library(kanalyze.requests, capture)
    assert found == [{name: row[name] for name in found[0]} for row in expected]


def test_packets_are_filtered_by_time():
    capture = str(path("mock"))
    every = rows(capture, table="packets")
    times = sorted(row["time_ns"] for row in every)
    since, until = times[10], times[-10]
    found = rows(capture, table="packets", since=seconds(since), until=seconds(until))
    assert found == [row for row in every if since <= row["time_ns"] < until]
    assert found


def test_a_task_needs_no_file_but_the_captures(tmp_path):
    capture = tmp_path / "x.pcap"
    request = segment(seq=1, ack=1, payload=t.produce(1))
    response = segment(to_broker=False, seq=1, ack=1, payload=t.produce_answer(1))
    capture.write_bytes(pcap_file(timed([request, response])))
    names = tmp_path / "names.txt"
    names.write_text(f"{topic_id_text(t.TOPIC_ID)} orders\n")
    folder = vendor_folder(tmp_path / "own")
    options = {"path": str(capture), "topicIds": str(names), "definitions": str(folder)}
    read = parse_options({**options, "api": "VendorThing,Produce"})
    packed = pickle.dumps(plan_of(read))
    names.unlink()
    shutil.rmtree(folder)
    plan = pickle.loads(packed)
    (part,) = partitions_of(read, *captures_of(read, Stores()))
    (row,) = [row for batch in read_partition(plan, part) for row in batch.to_pylist()]
    assert [item["topic"] for item in row["partitions"]] == ["orders"]
    assert plan.catalog.api(1000).name == "VendorThing"


# -- parts ----------------------------------------------------------------------------------------


def parts(*sizes: int | None, **options: str) -> list[TablePartition]:
    captures = [
        FoundCapture(f"{index}.pcap", True, index, size) for index, size in enumerate(sizes)
    ]
    return partitions_of(parse_options({"path": "x", **options}), captures, [])


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ([10], 1),
        ([256 << 20], 1),
        ([256 << 20, 1], 2),
        ([700 << 20], 3),
        ([1 << 40, 1 << 40], 4),
        ([1 << 40, None], 1),
    ],
)
def test_larger_captures_make_more_parts_up_to_four(sizes, count):
    found = parts(*sizes)
    assert len(found) == count
    assert [(part.shard.index, part.shard.count) for part in found] == [
        (index, count) for index in range(count)
    ]
    assert all(len(part.captures) == len(sizes) for part in found)


def test_the_number_of_parts_is_an_option():
    assert len(parts(10, numPartitions="7")) == 7


def test_packets_are_divided_by_capture():
    def paths(**options: str) -> list[list[str]]:
        found = parts(1, 2, 3, 4, 5, table="packets", **options)
        return [[capture.path for capture in part.captures] for part in found]

    assert paths() == [[f"{index}.pcap"] for index in range(5)]
    assert paths(numPartitions="2") == [["0.pcap", "2.pcap", "4.pcap"], ["1.pcap", "3.pcap"]]
    assert len(paths(numPartitions="9")) == 5


@pytest.mark.parametrize("table", TABLES)
def test_a_part_without_captures_has_no_rows(table):
    read = parse_options({"path": "x", "table": table})
    plan = plan_of(read)
    (part,) = partitions_of(read, [], [])
    assert sum(map(len, read_partition(plan, part))) == 0


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"api": "Fetsch"}, "unknown API: 'Fetsch'; did you mean Fetch"),
        ({"since": "yesterday"}, "not a time: 'yesterday'"),
        ({"since": "22:46"}, "an archive may have many days: give '22:46' with a date"),
        ({"slowerThan": "10"}, "not a duration: '10'"),
        ({"clientIp": "here"}, "not an IP address or network: 'here'"),
        ({"broker": "here"}, "not a broker address: 'here'"),
        ({"maxMemory": "1M"}, "too little memory: 1048576 bytes"),
        ({"columns": "status,when"}, "unknown column: 'when'; there are capture,"),
        ({"columns": "status,status"}, "columns: name at least one column"),
        ({"table": "records", "columns": "key"}, "column 'key' has users' data: use values=true"),
        ({"topicIds": "nowhere.txt"}, "nowhere.txt: No such file or directory"),
        ({"definitions": "nowhere"}, "nowhere: "),
        ({"table": "anomalies", "topic": "x"}, "option topic: table=anomalies has no such option"),
    ],
)
def test_bad_options_are_reported_before_captures_are_read(given, text):
    with pytest.raises(KanalyzeError) as raised:
        make_plan({"path": "nowhere.pcap", **given})
    assert str(raised.value).startswith(text)
    assert "\n" not in str(raised.value)


def found_by(**given: str):
    return captures_of(parse_options(given), Stores())


def test_a_path_must_be_given():
    with pytest.raises(UsageError, match="no capture given"):
        found_by()


@pytest.mark.parametrize("mode", ["failfast", "quarantine"])
def test_inputs_that_can_be_read_only_once_are_refused(tmp_path, mode):
    with pytest.raises(CaptureError, match="standard input: cannot be read by several tasks"):
        found_by(path="-", mode=mode)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CaptureError, match="pipe: can be read only once"):
        found_by(path=str(tmp_path / "pipe"), mode=mode)


@pytest.mark.parametrize("count", [1, 2])
def test_a_file_that_is_missing_or_no_capture_is_an_error(tmp_path, count):
    good = [str(path("mock"))] * (count - 1)
    with pytest.raises(CaptureError, match=r"nowhere\.pcap: no such file"):
        found_by(path=",".join([*good, str(tmp_path / "nowhere.pcap")]))
    bad = tmp_path / "bad.pcap"
    bad.write_text("no capture")
    with pytest.raises(CaptureError, match=r"bad\.pcap: is not a pcap or pcapng file"):
        found_by(path=",".join([*good, str(bad)]))


def test_a_file_in_a_folder_that_is_no_capture_is_an_error_too(tmp_path):
    shutil.copy(path("mock"), tmp_path)
    (tmp_path / "README.md").write_text("has not the name of a capture")
    found, left_out = found_by(path=str(tmp_path))
    assert ([Path(capture.path).name for capture in found], left_out) == (["mock.pcap"], [])
    (tmp_path / "bad.pcap").write_text("no capture")
    with pytest.raises(CaptureError, match=r"bad\.pcap: is not a pcap or pcapng file"):
        found_by(path=str(tmp_path))
    found, left_out = found_by(path=str(tmp_path), mode="quarantine")
    assert (len(found), len(left_out)) == (1, 1)


def test_in_quarantine_an_unreadable_file_is_an_anomaly(tmp_path):
    good, bad = str(path("mock")), tmp_path / "bad.pcap"
    bad.write_text("no capture")
    options = {"path": f"{good},{bad},{tmp_path}/nowhere*.pcap", "mode": "quarantine"}
    found, left_out = found_by(**options)
    assert [capture.path for capture in found] == [good]
    no_capture = f"{bad}: is not a pcap or pcapng file (it begins with 6e 6f 20 63)"
    assert {anomaly.detail for anomaly in left_out} == {
        no_capture,
        f"{tmp_path}/nowhere*.pcap: no file has such a name",
    }
    anomalies = rows(good, str(bad), table="anomalies", mode="quarantine", numPartitions="3")
    unreadable = [row for row in anomalies if row["kind"] == "capture_unreadable"]
    assert [(row["stage"], row["detail"]) for row in unreadable] == [("capture", no_capture)]
    assert counted(rows(good, str(bad), mode="quarantine")) == counted(rows(good))
    assert rows(str(bad), mode="quarantine") == []
    assert len(rows(str(bad), mode="quarantine", table="anomalies")) == 1


def test_folders_and_globs_are_expanded():
    folder = path("mock").parent
    assert len(found_by(path=str(folder))[0]) == len(list(folder.glob("*.truth.json")))
    found, _ = found_by(path=f"{folder}/m*.pcap, {folder}/[eb]*.pcap*")
    assert {Path(capture.path).name[0] for capture in found} == set("mbe")
    assert all(capture.looked_at and capture.total_bytes for capture in found)
    assert [capture.first_time_ns for capture in found] == sorted(
        capture.first_time_ns for capture in found
    )


def test_max_records_limits_the_records_of_a_batch():
    found = rows(str(path("codecs")), table="records", maxRecords="1")
    assert {row["problem"] for row in found} == {None, "too_many_records"}
