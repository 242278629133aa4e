from __future__ import annotations

import pytest

from kanalyze.batch.run_plan import options_of
from kanalyze.errors import UsageError
from kanalyze.spark.source.readers import make_plan, parse_options

TABLES = {"requests": ("api", "port", "errors", "maxMemory", "since"), "packets": ("since",)}


def parse(**options: str):
    return parse_options(options, TABLES)


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
        ({"slow": "1s"}, "unknown option: 'slow'; there are api, broker, clientId,"),
        ({"table": "rows"}, "unknown table 'rows'; there are requests, packets"),
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
    assert parse_options({"table": "records"}, {"records": ()}).max_records is None
    tables = {"records": ("maxRecords",)}
    assert parse_options({"table": "records", "maxrecords": "5"}, tables).max_records == 5
    for text in ("0", "x", str(2**31), "9" * 5000):
        with pytest.raises(UsageError, match="option maxRecords: not a number from 1 to"):
            parse_options({"table": "records", "maxRecords": text}, tables)


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
