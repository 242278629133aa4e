"""What Python's users give: it works as it reads, or one line says what is wrong with it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pandas
import pytest

import kanalyze
from kanalyze.errors import CaptureError, UsageError
from tests.support.captures import path

BASICS = path("basics")
NAMES = str(BASICS)
AT = datetime(2026, 11, 20, 22, 46, 15, tzinfo=UTC)


def requests(**given) -> list[kanalyze.Row]:
    return list(kanalyze.requests(NAMES, **given))


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ({"since": AT}, {"since": "2026-11-20T22:46:15Z"}),
        ({"until": AT.replace(tzinfo=None)}, {"until": "2026-11-20T22:46:15Z"}),
        (
            {"since": AT.astimezone(timezone(timedelta(hours=5, minutes=30)))},
            {"since": "2026-11-20T22:46:15Z"},
        ),
        ({"since": AT.replace(microsecond=448_001)}, {"since": "2026-11-20T22:46:15.448001Z"}),
        ({"since": date(2026, 11, 20)}, {"since": "2026-11-20"}),
        ({"since": time(22, 46, 15)}, {"since": "22:46:15"}),
        ({"since": 1_795_214_775}, {"since": "1795214775"}),
        ({"since": 1_795_214_775.5}, {"since": "1795214775.5"}),
        ({"since": Decimal("1795214775.000000001")}, {"since": "1795214775.000000001"}),
        ({"slower_than": timedelta(milliseconds=50)}, {"slower_than": "50ms"}),
        ({"topic": None, "api": None, "client_id": None, "group": None}, {}),
        ({"client_ip": None, "broker": None, "port": None}, {}),
        ({"port": "9092"}, {"port": [9092]}),
        ({"port": 9092}, {"port": [9092]}),
        ({"port": ["9092", 9093]}, {"port": (9092, 9093)}),
        ({"api": 0}, {"api": "Produce"}),
        ({"api": [0, "Fetch"]}, {"api": ["Produce", "Fetch"]}),
        ({"api": {"Produce"}}, {"api": "Produce"}),
    ],
)
def test_what_reads_as_a_condition_is_one(given, texts):
    rows = requests(**given)
    assert rows == requests(**texts)
    assert rows


def test_times_of_pandas_are_exact_to_the_nanosecond():
    first = requests(api="Fetch")[0]
    at = pandas.Timestamp(first.request_start_ns, unit="ns", tz="UTC")
    assert first in requests(since=at)
    assert first not in requests(since=at + pandas.Timedelta(1, "ns"))
    slow = max(requests(), key=lambda row: 0 if row.waited else row.latency_ns or 0)
    assert requests(slower_than=pandas.Timedelta(slow.latency_ns - 1, "ns")) == [slow]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"slower_than": 50}, r"slower_than: 50 has no unit \(give '50ms', or a timedelta\)"),
        ({"slower_than": 0.5}, "slower_than: 0.5 has no unit"),
        ({"slower_than": timedelta(-1)}, "slower_than: not a duration: datetime.timedelta"),
        ({"slower_than": "50"}, "not a duration: '50'"),
        ({"slower_than": ["50ms"]}, "slower_than: not a duration: "),
        ({"since": [1]}, r"since: not a time: \[1\]"),
        ({"until": b"0"}, "until: not a time: b'0'"),
        ({"since": True}, "since: not a time: True"),
        ({"since": float("nan")}, "since: not a time: nan"),
        ({"since": -1}, "since: not a time: -1"),
        ({"topic": 5}, "topic: not a text: 5"),
        ({"topic": ["orders", None]}, "topic: not a text: None"),
        ({"group": b"billing"}, "group: not a text: b'billing'"),
        ({"client_id": object}, "client_id: not a text: "),
        ({"api": -1}, "api: not the key of an API: -1"),
        ({"api": True}, "api: not a text: True"),
        ({"api": 1.5}, "api: not a text: 1.5"),
        ({"port": 0}, "not a TCP port: 0"),
        ({"port": "kafka"}, "not a TCP port: 'kafka'"),
        ({"port": 9092.5}, "not a TCP port: 9092.5"),
        ({"port": True}, "not a TCP port: True"),
        ({"port": "9092,9093"}, "not a TCP port: '9092,9093'"),
        ({"errors": "yes"}, "errors: not True or False: 'yes'"),
        ({"jobs": "2"}, "not a number of jobs: '2'"),
        ({"jobs": 0}, "not a number of jobs: 0"),
        ({"jobs": None}, "not a number of jobs: None"),
        ({"max_memory_bytes": "1X"}, "not a size: '1X'"),
        ({"max_memory_bytes": 1.5}, "max_memory_bytes: not a number of bytes: 1.5"),
        ({"topic_ids": 5}, "topic_ids: not a path: 5"),
        ({"definitions": 5}, "definitions: not a path: 5"),
    ],
)
def test_what_makes_no_sense_is_one_line(given, words):
    with pytest.raises(UsageError, match=f"^{words}") as caught:
        requests(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "given"),
    [
        (kanalyze.connections, {"client_id": None, "port": "9092", "since": AT, "broker": None}),
        (kanalyze.anomalies, {"client_ip": None, "port": 9092, "until": AT, "broker": None}),
    ],
)
def test_other_tables_take_the_same(table, given):
    texts = {name: value for name, value in given.items() if value is not None}
    texts = {name: str(value).replace("+00:00", "Z") for name, value in texts.items()}
    texts["port"] = [9092]
    assert list(table(NAMES, **given)) == list(table(NAMES, **texts))


def test_memory_may_be_said_as_on_the_command_line():
    assert requests(max_memory_bytes="1G") == requests()


def test_captures_are_paths_too(tmp_path):
    (tmp_path / "a.pcap").write_bytes(BASICS.read_bytes())
    rows = list(kanalyze.requests(tmp_path))
    assert rows
    assert rows == list(kanalyze.requests(str(tmp_path)))
    assert list(kanalyze.requests(Path(tmp_path / "*.pcap"))) == rows
    assert kanalyze.report(tmp_path / "a.pcap")["totals"]["rows"] == len(rows)


@pytest.mark.parametrize(
    ("captures", "words"),
    [
        ([None], "not a capture: None"),
        ([5], "not a capture: 5"),
        ([[NAMES]], r"not a capture: \["),
        ([b"a.pcap"], "not a capture: b'a.pcap'"),
    ],
)
def test_what_is_no_capture_is_one_line(captures, words):
    with pytest.raises((UsageError, CaptureError), match=f"^{words}") as caught:
        list(kanalyze.requests(*captures))
    assert "\n" not in str(caught.value)


def test_a_report_says_it_as_well():
    with pytest.raises(UsageError, match=r"^slower_than: 50 has no unit"):
        kanalyze.report(NAMES, slower_than=50)
