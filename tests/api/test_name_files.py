"""Files with names of addresses, and the columns that tables get from them."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import kanalyze
from kanalyze.api.name_files import read_names
from kanalyze.cli.main import main
from kanalyze.common.times import parse_time_ns
from kanalyze.errors import UsageError
from kanalyze.queries.name_tables import with_names
from kanalyze.spec.rows.names import NAME_COLUMNS, NAMED_ROWS, NAMED_TABLES
from kanalyze.tables.names import (
    ALWAYS_NS,
    AddressNames,
    BrokerFact,
    NamedAddress,
)
from tests.support.captures import path
from tests.support.packets import Blocks, names_block
from tests.support.piped import run_piped

if TYPE_CHECKING:
    from pathlib import Path

CAPTURE = str(path("groups"))
COLUMNS = [column.name for column in NAME_COLUMNS]


def written(folder: Path, text: str, name: str = "names") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def known(names: AddressNames, address: str) -> list[tuple[Any, ...]]:
    """Name, app and zone, of an address that has them always."""
    assert all(each[:2] == ALWAYS_NS for each in names.at(address))
    return [each[2:] for each in names.at(address)]


def test_a_hosts_file(tmp_path: Path) -> None:
    text = "# mine\n10.0.0.1 one uno # first\n\n::1\tsix\nfe80::1%eth0 link\n"
    names = read_names([written(tmp_path, text)])
    assert known(names, "10.0.0.1") == [("one", None, None)]
    assert known(names, "::1") == [("six", None, None)]
    assert known(names, "fe80::1") == [("link", None, None)]
    assert known(names, "10.0.0.2") == []


def test_csv_with_networks_and_times(tmp_path: Path) -> None:
    text = (
        "Address,app,zone,since,until\n10.0.0.0/8,,east,,\n10.1.0.0/16,shop,,,\n"
        "10.1.0.5,billing,west,2026-01-01,2026-01-02T00:00:00Z\n,,,,\n2001:db8::/32,six,,,\n"
    )
    names = read_names([written(tmp_path, text)])
    assert known(names, "10.9.9.9") == [(None, None, "east")]
    assert known(names, "10.1.0.4") == [(None, "shop", "east")]
    assert known(names, "2001:db8::7") == [(None, "six", None)]
    first, last = parse_time_ns("2026-01-01"), parse_time_ns("2026-01-02")
    assert names.at("10.1.0.5") == [
        (ALWAYS_NS[0], first, None, "shop", "east"),
        (first, last, None, "billing", "west"),
        (last, ALWAYS_NS[1], None, "shop", "east"),
    ]


def pod(name: str, ip: str, **more: Any) -> dict[str, Any]:
    status = {"podIP": ip, "podIPs": [{"ip": ip}], "startTime": "2026-01-01T00:00:00Z"}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", **more.pop("metadata", {})},
        "spec": {"nodeName": "n1", **more.pop("spec", {})},
        "status": status | more.pop("status", {}),
    }


KUBECTL: dict[str, Any] = {
    "kind": "List",
    "items": [
        pod("web-1", "10.0.0.1", metadata={"labels": {"app": "web", "k8s-app": "no"}}),
        pod(
            "job-1",
            "10.0.0.2",
            metadata={"ownerReferences": [{"kind": "Job", "name": "job"}]},
            status={
                "phase": "Succeeded",
                "containerStatuses": [
                    {"state": {"terminated": {"finishedAt": "2026-01-01T01:00:00Z"}}},
                    {"state": {"terminated": {"finishedAt": "2026-01-01T00:30:00Z"}}},
                ],
            },
        ),
        # The address of the job again.
        pod("web-2", "10.0.0.2", status={"startTime": "2026-01-01T02:00:00Z"}),
        pod("host", "192.168.0.1", spec={"hostNetwork": True}),
        pod("starting", "", status={"podIPs": []}),
        {
            "kind": "Service",
            "metadata": {"name": "kafka", "namespace": "data"},
            "spec": {"clusterIPs": ["10.96.0.7", "None"]},
        },
        {"kind": "Service", "metadata": {"name": "headless"}, "spec": {"clusterIP": "None"}},
        {
            "kind": "Node",
            "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "east"}},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": "192.168.0.1"},
                    {"type": "Hostname", "address": "n1"},
                ]
            },
        },
        {"kind": "ConfigMap"},
        7,
    ],
}


def test_the_output_of_kubectl(tmp_path: Path) -> None:
    names = read_names([written(tmp_path, json.dumps(KUBECTL))])
    day, never = parse_time_ns("2026-01-01"), ALWAYS_NS[1]
    hour = 3_600_000_000_000
    assert names.at("10.0.0.1") == [(day, never, "shop/web-1", "web", "east")]
    assert names.at("10.0.0.2") == [
        (day, day + hour, "shop/job-1", "job", "east"),
        (day + 2 * hour, never, "shop/web-2", "web-2", "east"),
    ]
    assert known(names, "10.96.0.7") == [("data/kafka", "kafka", None)]
    assert known(names, "192.168.0.1") == [("n1", None, "east")]


@pytest.mark.parametrize("seed", range(40))
def test_what_kubectl_never_writes_is_an_error_of_one_line_or_no_name(
    seed: int, tmp_path: Path
) -> None:
    """Any value may be missing, or of any type."""
    dice = random.Random(seed)

    def odd(value: Any) -> Any:
        if dice.random() < 0.1:
            return dice.choice([None, 7, "x", [], {}, [None], True, ""])
        if isinstance(value, dict):
            return {key: odd(part) for key, part in value.items()}
        return list(map(odd, value)) if isinstance(value, list) else value

    text = json.dumps({"kind": "List", "items": [odd(item) for item in KUBECTL["items"]]})
    try:
        read_names([written(tmp_path, text)])
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either is right


def test_a_pcapng_file_has_names(tmp_path: Path) -> None:
    blocks = Blocks("<")
    listed = [("10.0.0.2", ["broker-1", "kafka"]), ("2001:DB8::1", ["six"])]
    (tmp_path / "named.pcapng").write_bytes(blocks.section() + names_block(blocks, listed))
    names = read_names([str(tmp_path / "named.pcapng")])
    assert known(names, "10.0.0.2") == [("broker-1", None, None)]
    assert known(names, "2001:db8::1") == [("six", None, None)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10.0.0.1\n", "line 1: not an address and a name: '10.0.0.1'"),
        ("one 10.0.0.1\n", "'one' does not appear to be an IPv4 or IPv6 network"),
        ("address,nmae\n", "unknown column 'nmae'; there are address, name, "),
        ("address,since\n10.0.0.1,soon\n", "not a time: 'soon'"),
        ("address,name\n10.0.0.1/8,x\n", "10.0.0.1/8 has host bits set"),
        ('address,name\n10.0.0.1,"x\n', "unexpected end of data"),
        ("{", "not JSON"),
        ("{" * 100_000, "not JSON"),
        ('{"items": []}', "has no pods, services or nodes"),
        ('{"items": {}}', "has no pods, services or nodes"),
    ],
)
def test_an_invalid_file_is_an_error_that_names_it(text: str, problem: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_names([file])
    assert str(caught.value).startswith(f"{file}: ")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


# -- how names are chosen --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_names_are_those_of_plain_python(seed: int) -> None:
    dice = random.Random(seed)
    entries = []
    for number in range(12):
        since = dice.choice([ALWAYS_NS[0], dice.randint(0, 50)])
        until = dice.choice([ALWAYS_NS[1], dice.randint(0, 60)])
        network = dice.choice(["10.0.0.1", "10.0.0.0/30", "10.0.0.0/8", "10.9.0.0/16"])
        values = [dice.choice([None, f"{part}{number}"]) for part in "nax"]
        if since < until:
            entries.append(NamedAddress(network, *values, since, until))
    names = AddressNames(entries)
    rank = {"10.0.0.1": 0, "10.0.0.0/30": 1, "10.0.0.0/8": 2}
    for moment in range(-1, 62):
        valid = [
            each
            for each in entries
            if each.network in rank and each.since_ns <= moment < each.until_ns
        ]
        valid.sort(key=lambda each: (rank[each.network], -each.since_ns))
        expected = [
            next((each[part] for each in valid if each[part] is not None), None)
            for part in (1, 2, 3)
        ]
        found = [each for each in names.at("10.0.0.1") if each[0] <= moment < each[1]]
        assert len(found) == bool(valid)
        assert not valid or list(found[0][2:]) == expected


def test_a_broker_has_the_id_and_the_rack_that_responses_give_it() -> None:
    names = AddressNames([NamedAddress("10.0.0.1", "kafka-1.local"), NamedAddress("10.0.0.3", "x")])
    brokers = [("10.0.0.1", 9092), ("10.0.0.2", 9092), ("10.0.0.2", 9093), ("10.0.0.3", 9092)]
    facts = [
        BrokerFact(1, "kafka-1.local", 9092, "east"),
        BrokerFact(2, "10.0.0.2", 9092, None),
        # Two clusters, seen through one address.
        BrokerFact(3, "10.0.0.3", 9092, "a"),
        BrokerFact(4, "10.0.0.3", 9092, "b"),
    ]
    assert names.broker_rows(brokers, facts) == [
        ("10.0.0.1", *ALWAYS_NS, "kafka-1.local", 9092, 1, "east"),
        ("10.0.0.2", *ALWAYS_NS, None, 9092, 2, None),
        ("10.0.0.3", *ALWAYS_NS, "x", 9092, None, None),
    ]


# -- in queries ------------------------------------------------------------------------------------


def test_every_table_has_the_columns(tmp_path: Path) -> None:
    file = written(tmp_path, "address,name,app,zone\n127.0.0.1,here,shop,east\n")
    for table in NAMED_TABLES:
        query = f"SELECT {', '.join(COLUMNS)} FROM {table}"
        for line in kanalyze.sql(CAPTURE, query, names=file).to_pylist():
            assert list(line.values()) == ["here", "shop", "east", "here", 1, "east"], table


def test_an_address_has_the_name_of_its_time(tmp_path: Path) -> None:
    moment = "2026-11-20T22:46:50"
    text = f"address,app,until\n127.0.0.1,old,{moment}\n"
    more = f"address,app,since\n127.0.0.1,new,{moment}\n"
    files = [written(tmp_path, text), written(tmp_path, more, "more")]
    query = "SELECT client_app, request_start_ns AS at_ns FROM requests"
    lines = kanalyze.sql(CAPTURE, query, names=files).to_pylist()
    assert {line["client_app"] for line in lines} == {"old", "new"}
    for line in lines:
        assert line["client_app"] == ("old" if line["at_ns"] < parse_time_ns(moment) else "new")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT client_name FROM requests LIMIT 1",
        "-- with a comment\nFROM requests SELECT client_name LIMIT 1;",
        "WITH requests_too AS (FROM requests) SELECT client_name FROM requests_too LIMIT 1",
        "/* x */ SELECT DISTINCT p.client_name FROM partitions AS p JOIN flows USING (client_name)",
        "-- with\nwith recursive n AS (SELECT 1 AS i) SELECT client_name FROM n, requests LIMIT 1",
    ],
)
def test_a_query_of_any_form_has_them(query: str, tmp_path: Path) -> None:
    file = written(tmp_path, "127.0.0.1 here\n")
    assert kanalyze.sql(CAPTURE, query, names=file).to_pylist() == [{"client_name": "here"}]


def test_a_query_that_reads_no_such_table_stays() -> None:
    for query in ("SELECT 1", "DESCRIBE requests", "FROM capture_quality"):
        assert with_names(query) == query


ROWS = ("requests", "connections", "anomalies", "records")
NAMES = "address,name,app,zone,until\n127.0.0.1,old,shop,east,2026-11-20T22:46:50\n"


@pytest.mark.parametrize("command", ROWS)
def test_rows_of_every_command_have_the_columns(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """CSV, a table and Python alike; of requests also those of a saved file."""
    file = written(tmp_path, "address,name,app,zone\n127.0.0.1,here,shop,east\n")
    chosen = ["--columns", ",".join(COLUMNS), "--names", file]
    assert main([command, CAPTURE, *chosen, "--format", "csv"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == ",".join(COLUMNS)
    assert {line.replace(",1,", ",,") for line in lines} <= {"here,shop,east,here,,east"}
    assert bool(lines) == (command != "anomalies")
    assert main([command, CAPTURE, "--names", file]) == 0
    assert "client name" in capsys.readouterr().out.splitlines()[0]
    table = getattr(kanalyze, command)(CAPTURE, names=file).to_arrow()
    assert table.schema.names[-len(COLUMNS) :] == COLUMNS
    assert table["client_zone"].to_pylist() == ["east"] * len(lines)
    plain = getattr(kanalyze, command)(CAPTURE).to_arrow()
    assert table.select(plain.schema.names).equals(plain)


def test_requests_of_a_saved_file_have_the_same_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, file = str(tmp_path / "saved.duckdb"), written(tmp_path, NAMES)
    kanalyze.save(CAPTURE, output=saved)
    outputs = []
    for given in (CAPTURE, saved):
        assert main(["requests", given, "--names", file, "--format", "csv"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert ",old,shop,east,old,1,east\r\n" in outputs[0]


@pytest.mark.parametrize("given", [{"client_app": "sh*"}, {"zone": ["west", "east"]}])
@pytest.mark.parametrize("command", ["requests", "connections"])
def test_rows_are_selected_by_the_names_of_their_time(
    command: str, given: dict[str, Any], tmp_path: Path
) -> None:
    file, until_ns = written(tmp_path, NAMES), parse_time_ns("2026-11-20T22:46:50")
    read = getattr(kanalyze, command)
    time = NAMED_ROWS[command]
    expected = [row for row in read(CAPTURE) if getattr(row, time) < until_ns]
    assert 0 < len(expected) < len(list(read(CAPTURE)))
    assert list(read(CAPTURE, names=file, **given)) == expected
    assert list(read(CAPTURE, names=file, zone="none")) == []


def test_a_report_says_that_it_is_filtered_by_names(tmp_path: Path) -> None:
    file = written(tmp_path, NAMES)
    report = kanalyze.report(CAPTURE, names=file, client_app="shop", zone="e*")
    assert report["filter"] == {"client_app": ["shop"], "zone": ["e*"]}
    assert report["totals"]["requests"] == len(
        list(kanalyze.requests(CAPTURE, until="2026-11-20T22:46:50"))
    )


def test_filters_by_names_need_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["requests", CAPTURE, "--client-app", "x"]) == 2
    assert (
        "a filter by client-app needs names of addresses: --names FILE" in capsys.readouterr().err
    )
    with pytest.raises(UsageError, match="a filter by zone needs names"):
        kanalyze.requests(CAPTURE, zone="x")


def test_a_live_run_has_names_in_rows_files_and_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    names, rows = written(tmp_path, NAMES), tmp_path / "rows"
    report = tmp_path / "report.json"
    words = ["live", "-", "--names", names, "--zone", "east", "--format", "rows"]
    words += ["--write", str(rows), "--json", str(report)]
    data = path("groups").read_bytes()
    done = run_piped(*words, data=data, monkeypatch=monkeypatch, captured=capfdbinary)
    lines = list(map(json.loads, done.stdout.splitlines()))
    assert {line["client_app"] for line in lines} == {"shop"}
    (file,) = rows.iterdir()
    assert pq.read_table(file)["client_zone"].to_pylist() == ["east"] * len(lines)
    made = json.loads(report.read_text())
    assert (made["filter"], made["totals"]["rows"]) == ({"zone": ["east"]}, len(lines))
    assert made["names"]["127.0.0.1"]["name"] == "old"


def test_a_batch_selects_by_names_and_its_report_has_them(tmp_path: Path) -> None:
    names, out, report = written(tmp_path, NAMES), tmp_path / "out", tmp_path / "report.json"
    words = ["batch", CAPTURE, "--out", str(out), "--engine", "process", "--jobs", "1"]
    page = tmp_path / "page.html"
    words += ["--names", names, "--client-app", "sh*", "--html", str(page), "--json", str(report)]
    assert main([*words, "--format", "text"]) == 0
    made = json.loads(report.read_text())
    assert made["filter"] == {"client_app": ["sh*"]}
    assert made["names"]["127.0.0.1"] == {"name": "old", "app": "shop", "zone": "east"}
    expected = kanalyze.requests(CAPTURE, until="2026-11-20T22:46:50")
    assert made["totals"]["requests"] == len(list(expected))
    assert "old (127.0.0.1)" in page.read_text()


def test_what_has_no_rows_selects_by_names_too(tmp_path: Path) -> None:
    given = {"names": written(tmp_path, NAMES), "zone": "east"}
    expected = len(list(kanalyze.requests(CAPTURE, until="2026-11-20T22:46:50")))
    assert len(list(kanalyze.decode(CAPTURE, **given))) == expected
    extracted = kanalyze.extract(CAPTURE, output=tmp_path / "x.pcapng", **given)
    assert extracted.requests == expected
    saved = tmp_path / "x.duckdb"
    kanalyze.save(CAPTURE, output=saved, **given)
    assert len(list(kanalyze.requests(saved))) == expected


def test_without_names_there_are_no_such_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", CAPTURE, "SELECT client_app FROM requests"]) == 2
    assert main(["flows", "--by", "client_app", CAPTURE]) == 2
    assert "client_app: add --names FILE" in capsys.readouterr().err


def test_flows_by_application_of_a_saved_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "saved.duckdb")
    file = written(tmp_path, "address,app\n127.0.0.0/8,shop\n")
    kanalyze.save(CAPTURE, output=saved)
    expected = None
    for given in (CAPTURE, saved):
        words = ["--by", "client_app,topic,broker_id", "--names", file, "--format", "csv"]
        assert main(["flows", *words, given]) == 0
        out = capsys.readouterr().out
        assert out.splitlines()[1].startswith("shop,")
        assert expected in (None, out)
        expected = out
