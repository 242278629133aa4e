"""Arguments from Python: they mean what they look like, or are refused in one line."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from pathlib import Path

import numpy
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


@pytest.mark.few(8)
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
        ({"since": datetime.min.replace(tzinfo=UTC)}, {}),
        ({"until": datetime.max.replace(tzinfo=UTC)}, {}),
        ({"since": datetime.min.replace(tzinfo=timezone(timedelta(hours=-1)))}, {}),
        ({"since": 1_795_214_775}, {"since": "1795214775"}),
        ({"since": numpy.int64(1_795_214_775)}, {"since": "1795214775"}),
        ({"since": numpy.float64(1_795_214_775.5)}, {"since": "1795214775.5"}),
        ({"since": 1_795_214_775.5}, {"since": "1795214775.5"}),
        ({"since": Decimal("1795214775.000000001")}, {"since": "1795214775.000000001"}),
        ({"slower_than": timedelta(milliseconds=50)}, {"slower_than": "50ms"}),
        ({"topic": None, "api": None, "client_id": None, "group": None}, {}),
        ({"slower_than": None, "since": None, "until": None}, {}),
        ({"topic_ids": None, "definitions": None, "max_memory_bytes": None}, {}),
        ({"client_ip": None, "broker": None, "port": None}, {}),
        ({"client_ip": IPv4Address("127.0.0.1")}, {"client_ip": "127.0.0.1"}),
        ({"client_ip": IPv4Network("127.0.0.0/8")}, {"client_ip": "127.0.0.0/8"}),
        ({"client_ip": [IPv6Network("::1/128"), "127.0.0.1"]}, {"client_ip": "127.0.0.1"}),
        ({"broker": IPv4Address("127.0.0.1")}, {"broker": "127.0.0.1"}),
        ({"broker": iter(["127.0.0.1:9092"])}, {"port": 9092}),
        ({"port": numpy.int64(9092)}, {"port": 9092}),
        ({"port": range(9092, 9094)}, {"port": [9092, 9093]}),
        ({"api": numpy.int16(1)}, {"api": "Fetch"}),
        ({"api": "1"}, {"api": 1}),
        ({"api": "fetch"}, {"api": 1}),
        ({"port": "9092"}, {"port": [9092]}),
        ({"port": 9092}, {"port": [9092]}),
        ({"port": ["9092", 9093]}, {"port": (9092, 9093)}),
        ({"api": 0}, {"api": "Produce"}),
        ({"error": numpy.int16(0)}, {"error": "NONE"}),
        ({"partition": {0}}, {"partition": "0"}),
        ({"status": iter(["ok"])}, {"status": "OK"}),
        ({"status": None, "error": None, "partition": None}, {}),
        ({"api": [0, "Fetch"]}, {"api": ["Produce", "Fetch"]}),
        ({"api": {"Produce"}}, {"api": "Produce"}),
    ],
)
def test_python_values_are_the_same_conditions_as_texts(given, texts):
    rows = requests(**given)
    assert rows == requests(**texts)
    assert rows


def test_slower_than_takes_the_longest_and_the_shortest_duration():
    assert requests(slower_than=timedelta(days=30)) == []
    assert requests(slower_than=timedelta.max) == []
    assert requests(slower_than=timedelta(0)) == requests(slower_than="0s")


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
        ({"slower_than": "50"}, "slower_than: not a duration: '50'"),
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
        ({"api": 2**63}, "api: not the key of an API: 9223372036854775808"),
        ({"api": "9" * 5000}, "api: unknown API: '999"),
        ({"api": True}, "api: not a text: True"),
        ({"api": 1.5}, "api: not a text: 1.5"),
        ({"status": "fine"}, "status: unknown status: 'fine'; there are ok, "),
        ({"status": 5}, "status: not a text: 5"),
        ({"error": "NOT_LEADER"}, "error: unknown error: 'NOT_LEADER'; did you mean "),
        ({"error": 1 << 15}, "error: unknown error: '32768'"),
        ({"error": 1 << 63}, "error: not a number of Kafka's: 0x8000000000000000"),
        ({"error": True}, "error: not a text: True"),
        ({"partition": -1}, "partition: not a partition: '-1'"),
        ({"partition": 1.5}, "partition: not a text: 1.5"),
        ({"partition": ["orders"]}, "partition: not a partition: 'orders'"),
        ({"port": 0}, "port: not a TCP port: 0"),
        ({"port": "kafka"}, "port: not a TCP port: 'kafka'"),
        ({"port": 9092.5}, "port: not a TCP port: 9092.5"),
        ({"port": True}, "port: not a TCP port: True"),
        ({"port": "9092,9093"}, "port: not a TCP port: '9092,9093'"),
        ({"errors": "yes"}, "errors: not True or False: 'yes'"),
        ({"port": [9092, None]}, "port: not a TCP port: None"),
        ({"port": -1}, "port: not a TCP port: -1"),
        ({"port": 65536}, "port: not a TCP port: 65536"),
        ({"api": "Fetsch"}, r"api: unknown API: 'Fetsch'; did you mean Fetch"),
        ({"api": ["Fetch", None]}, "api: not a text: None"),
        ({"client_ip": "here"}, r"client_ip: not an IP address or network: 'here' \("),
        ({"client_ip": 127}, "client_ip: not a text: 127"),
        ({"broker": "localhost:9092"}, r"broker: not a broker address: 'localhost:9092' \("),
        ({"broker": "127.0.0.1:99999"}, "broker: not a TCP port: '99999' in "),
        ({"broker": ("127.0.0.1", 9092)}, "broker: not a text: 9092"),
        ({"since": "soon"}, r"since: not a time: 'soon' \("),
        ({"until": "25:00"}, r"until: not a time: '25:00' \("),
        ({"until": time(22, 46, tzinfo=UTC)}, "until: not a time: datetime.time"),
        ({"since": pandas.NaT}, "since: not a time: NaT"),
        ({"since": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}, "since: not a time"),
        ({"slower_than": pandas.NaT}, "slower_than: not a duration: NaT"),
        ({"errors": None}, "errors: not True or False: None"),
        ({"errors": 1}, "errors: not True or False: 1"),
        ({"jobs": "2"}, "jobs: not a number from 1 to 256: '2'"),
        ({"jobs": 0}, "jobs: not a number from 1 to 256: 0"),
        ({"jobs": 257}, "jobs: not a number from 1 to 256: 257"),
        ({"jobs": True}, "jobs: not a number from 1 to 256: True"),
        ({"jobs": None}, "jobs: not a number from 1 to 256: None"),
        ({"max_memory_bytes": "1X"}, "max_memory_bytes: not a size: '1X'"),
        ({"max_memory_bytes": 1}, "max_memory_bytes: too little memory: 1 bytes"),
        ({"max_memory_bytes": True}, "max_memory_bytes: not a number of bytes: True"),
        ({"topic_ids": "nowhere.txt"}, "topic_ids: nowhere.txt: No such file"),
        ({"max_memory_bytes": 1.5}, "max_memory_bytes: not a number of bytes: 1.5"),
        ({"topic_ids": 5}, "topic_ids: not a path: 5"),
        ({"definitions": 5}, "definitions: not a path: 5"),
    ],
)
def test_a_bad_argument_is_refused_in_one_line(given, words):
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
def test_other_tables_take_the_same_arguments(table, given):
    texts = {name: value for name, value in given.items() if value is not None}
    texts = {name: str(value).replace("+00:00", "Z") for name, value in texts.items()}
    texts["port"] = [9092]
    assert list(table(NAMES, **given)) == list(table(NAMES, **texts))


def test_memory_may_be_given_as_on_the_command_line():
    assert requests(max_memory_bytes="1G") == requests()


def test_captures_may_be_path_objects(tmp_path):
    (tmp_path / "a.pcap").write_bytes(BASICS.read_bytes())
    rows = list(kanalyze.requests(tmp_path))
    assert rows
    assert rows == list(kanalyze.requests(str(tmp_path)))
    assert list(kanalyze.requests(Path(tmp_path / "*.pcap"))) == rows
    assert kanalyze.report(tmp_path / "a.pcap")["totals"]["rows"] == len(rows)


def test_captures_may_come_in_lists(tmp_path):
    (tmp_path / "a.pcap").write_bytes(BASICS.read_bytes())
    (tmp_path / "b.pcap").write_bytes(path("groups").read_bytes())
    both = [tmp_path / "a.pcap", str(tmp_path / "b.pcap")]
    rows = list(kanalyze.requests(*both))
    assert len({row.capture for row in rows}) == 2
    assert list(kanalyze.requests(both)) == rows
    found = kanalyze.requests(tmp_path.glob("*.pcap"))
    assert list(found) == list(found) == rows
    assert list(kanalyze.requests(both[:1], {both[1]})) == rows
    with BASICS.open("rb") as file:
        assert len(list(kanalyze.requests([file]))) == len(requests())


@pytest.mark.parametrize(
    ("captures", "words"),
    [
        ([None], "not a capture: None"),
        ([5], "not a capture: 5"),
        ([[[NAMES]]], r"not a capture: \["),
        ([{5: NAMES}], "not a capture: 5"),
        ([], "no capture given"),
        ([[]], "no capture given"),
        ([b"a.pcap"], "not a capture: b'a.pcap'"),
    ],
)
def test_a_bad_capture_argument_is_refused_in_one_line(captures, words):
    with pytest.raises((UsageError, CaptureError), match=f"^{words}") as caught:
        list(kanalyze.requests(*captures))
    assert "\n" not in str(caught.value)


def test_a_report_refuses_a_bad_argument_too():
    with pytest.raises(UsageError, match=r"^slower_than: 50 has no unit"):
        kanalyze.report(NAMES, slower_than=50)


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        (kanalyze.records, {"values": "yes"}, "values: not True or False: 'yes'"),
        (kanalyze.records, {"max_records": 0}, "max_records: not a number from 1 to 2147483647: 0"),
        (kanalyze.records, {"max_records": "5"}, "max_records: not a number from 1 to 2147483647"),
        (kanalyze.records, {"topic": 5}, "topic: not a text: 5"),
        (kanalyze.decode, {"api": "Fetsch"}, "api: unknown API: 'Fetsch'"),
        (kanalyze.decode, {"since": "soon"}, "since: not a time: 'soon'"),
        (kanalyze.connections, {"client_id": 5}, "client_id: not a text: 5"),
        (kanalyze.connections, {"port": 0}, "port: not a TCP port: 0"),
        (kanalyze.anomalies, {"kind": "odd"}, "kind: unknown kind of anomaly: 'odd'; there are "),
        (kanalyze.anomalies, {"kind": 5}, "kind: not a text: 5"),
        (kanalyze.report, {"jobs": 0}, "jobs: not a number from 1 to 256: 0"),
    ],
)
def test_other_functions_refuse_bad_arguments_before_they_read(function, given, words):
    with pytest.raises(UsageError, match=f"^{words}") as caught:
        function("nowhere.pcap", **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "name", "words"),
    [
        (kanalyze.requests, "tpoic", "'tpoic'; did you mean 'topic'?"),
        (kanalyze.report, "values", "'values'"),
        (kanalyze.records, "jobs", "'jobs'"),
        (kanalyze.decode, "jobs", "'jobs'"),
        (kanalyze.connections, "topic", "'topic'"),
        (kanalyze.anomalies, "kinds", "'kinds'; did you mean 'kind'?"),
    ],
)
def test_an_unknown_argument_is_a_type_error(function, name, words):
    begin = f"{function.__name__}() got an unexpected keyword argument "
    with pytest.raises(TypeError) as caught:
        function(NAMES, **{name: None})
    assert str(caught.value).removeprefix(begin) == words


def test_a_missing_folder_of_definitions_is_refused_in_one_line(tmp_path):
    with pytest.raises(kanalyze.DefinitionError) as caught:
        kanalyze.decode(NAMES, definitions=tmp_path / "nowhere")
    assert "nowhere" in str(caught.value)
    assert "\n" not in str(caught.value)
