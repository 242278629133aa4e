"""Flows: who sends how much to whom, and what it costs."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.errors import UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.queries.database import Database
from kanalyze.queries.flows import read_prices
from tests.support.captures import analysis, often, path, truth
from tests.support.rows import failed, fetch, partition, row
from tests.test_truth import WITH_BROKER

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row

OFTEN = ("transactions", "cluster", "next-groups", "errors", "topic-ids")
METADATA_LOG = "__cluster_metadata"


def flows(capture: str, where: str = "true") -> list[dict[str, Any]]:
    return kanalyze.sql(str(path(capture)), f"FROM flows WHERE {where}").to_pylist()


def flows_of(*rows: Row) -> list[dict[str, Any]]:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        maker = BatchMaker()
        database.create("requests", maker.schema)
        database.insert("requests", maker.of_rows(rows))
        return database.ask("FROM flows ORDER BY direction, topic").to_pylist()


@pytest.mark.few(3)
@pytest.mark.parametrize("name", often(WITH_BROKER, OFTEN))
def test_bytes_are_those_that_the_sockets_of_the_broker_counted(name: str) -> None:
    lines = flows(name)
    for listener, counted in truth(name)["broker_listeners"].items():
        here = [line for line in lines if line["broker_port"] == truth(name)["ports"][listener]]
        if "requests" not in counted:
            continue  # a listener that went on while the broker shut down
        for column in ("request_bytes", "response_bytes"):
            # Each line is rounded to whole bytes.
            assert abs(sum(line[column] for line in here) - counted[column]) <= len(here) / 2


@pytest.mark.few(3)
@pytest.mark.parametrize("name", often(WITH_BROKER, OFTEN))
def test_records_are_those_that_the_broker_appended_and_sent(name: str) -> None:
    ours: dict[str, Counter[str]] = defaultdict(Counter)
    for line in flows(name, "direction <> 'other' AND record_count > 0"):
        if line["traffic"] != "controller":
            ours[line["direction"]][line["topic"] or line["topic_id"]] += line["record_count"]
    counted = truth(name)
    produced = {topic: sum(n.values()) for topic, n in counted["produced_records"].items()}
    assert ours["produce"] == {topic: n for topic, n in produced.items() if n}
    fetched = {topic: n for topic, n in counted["fetched_records"].items() if topic != METADATA_LOG}
    shared = {
        part.topic
        for row in analysis(name)[0]
        if row.api_name == "ShareFetch"
        for part in row.partitions
    }
    assert {topic: n for topic, n in ours["fetch"].items() if topic not in shared} == fetched


def test_clients_replicas_and_controllers_are_told_apart_as_by_the_listeners_of_the_cluster() -> (
    None
):
    counted = truth("cluster")
    kinds = {
        port: {"PLAINTEXT": "client", "INTERNAL": "replica", "CONTROLLER": "controller"}[
            name.partition("-")[0]
        ]
        for name, port in counted["ports"].items()
    }
    found = flows("cluster")
    assert {line["traffic"] for line in found} == {"client", "replica", "controller"}
    assert all(line["traffic"] == kinds[line["broker_port"]] for line in found)
    consumed = [
        line for line in found if (line["traffic"], line["direction"]) == ("client", "fetch")
    ]
    assert (
        sum(line["record_count"] for line in consumed)
        == counted["client_listeners"]["fetched_records"]["cluster"]
    )


def test_what_a_consumer_fetches_is_of_its_group() -> None:
    found = flows("groups", "direction = 'fetch' AND topic IS NOT NULL")
    assert {(line["client_id"], line["group_id"]) for line in found} == {
        ("member-1", "groups-classic"),
        ("member-2", "groups-classic"),
        ("member-next", "groups-next"),
    }


def test_a_client_with_several_groups_fetches_for_none() -> None:
    one, other = (row(api_name="Heartbeat", api_key=12, group_id=name) for name in ("a", "b"))
    (found,) = [line for line in flows_of(one, fetch()) if line["direction"] == "fetch"]
    assert found["group_id"] == "a"
    (found,) = [line for line in flows_of(one, other, fetch()) if line["direction"] == "fetch"]
    assert found["group_id"] is None


def test_a_request_is_divided_by_the_records_of_its_topics() -> None:
    parts = [
        partition("a", 0, record_count=1, record_bytes=300, error_code=0),
        partition("a", 1, record_count=2, record_bytes=450, error_code=0),
        partition("b", 0, record_count=5, record_bytes=250, error_code=0),
    ]
    made = fetch(partitions=parts, request_bytes=80, response_bytes=1200)
    first, second = flows_of(made)
    assert [first["topic"], second["topic"]] == ["a", "b"]
    assert [first["requests"], second["requests"]] == [1, 1]
    assert [first["record_count"], second["record_count"]] == [3, 5]
    assert [first["record_bytes"], second["record_bytes"]] == [750, 250]
    assert [first["request_bytes"], second["request_bytes"]] == [60, 20]
    assert [first["response_bytes"], second["response_bytes"]] == [900, 300]


def test_a_request_without_records_is_divided_evenly() -> None:
    parts = [partition(topic, 0, record_count=None, record_bytes=None) for topic in "aab"]
    found = flows_of(fetch(partitions=parts, request_bytes=80, response_bytes=20))
    assert [(line["topic"], line["request_bytes"], line["record_bytes"]) for line in found] == [
        ("a", 40, 0),
        ("b", 40, 0),
    ]


def test_an_error_counts_where_it_is() -> None:
    parts = [partition("a", error_code=0), partition("b", error_code=3)]
    found = flows_of(
        failed("b", 3, "UNKNOWN_TOPIC_OR_PARTITION", partitions=parts),
        failed(None, 35, "UNSUPPORTED_VERSION", partitions=[partition("a", error_code=None)]),
        row(api_name="Metadata", api_key=3, partitions=[], status="error", error_code=41),
    )
    assert [
        (line["direction"], line["topic"], line["requests"], line["errors"]) for line in found
    ] == [
        ("other", None, 1, 1),
        ("produce", "a", 2, 1),
        ("produce", "b", 1, 1),
    ]


def test_what_brokers_ask_each_other_about_transactions_is_no_clients_traffic() -> None:
    inner = {"AddPartitionsManager-client-1", "broker-1-txn-marker-sender"}
    lines = flows("transactions")
    assert {line["client_id"] for line in lines if line["traffic"] == "replica"} == inner
    assert not {line["client_id"] for line in lines if line["traffic"] == "client"} & inner


def test_mirrors_are_known_by_their_client_ids() -> None:
    ids = ("east->west|MirrorSourceConnector-0|replication-consumer", "a->b", "x|a->b", "orders")
    found = {
        line["client_id"]: line["traffic"]
        for line in flows_of(*(fetch(client_id=each) for each in ids))
    }
    assert list(map(found.get, ids)) == ["mirror", "client", "client", "client"]


# -- prices ----------------------------------------------------------------------------------------


def test_a_flow_costs_what_the_first_line_that_matches_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text(
        "direction,client_id,per_gb,per_million_requests\n"
        "fetch,member-*,1e9,0\nfetch,,5,\n,,,1000000\n"
    )
    words = ["--by", "direction,client_id", "--format", "csv", str(path("groups"))]
    assert main(["flows", "--price", str(prices), *words]) == 0
    header, *lines = (line.split(",") for line in capsys.readouterr().out.splitlines())
    assert header[:3] == ["direction", "client_id", "requests"]
    asked = Counter(row.client_id for row in analysis("groups")[0] if row.api_name != "Fetch")
    for line in (dict(zip(header, line, strict=True)) for line in lines):
        wire_bytes = int(line["request_bytes"]) + int(line["response_bytes"])
        if line["direction"] == "fetch":
            assert float(line["cost"]) == wire_bytes
        else:
            assert float(line["cost"]) == pytest.approx(asked[line["client_id"] or None])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no prices"),
        ("topic,per_gb\n", "has no prices"),
        ("topic,price\na,1\n", "line 2: unknown column 'price'; there are traffic, "),
        ("topic,per_gb\na,1,2\n", "line 2: unknown column None; there are traffic, "),
        ("topic,per_gb\na,1\nb,much\n", "line 3: per_gb is not a price: 'much'"),
        ("topic,per_gb\na,-1\n", "line 2: per_gb is not a price: '-1'"),
        ("topic,per_gb\na,nan\n", "line 2: per_gb is not a price: 'nan'"),
        ("topic,per_gb\na,1" + "0" * (1 << 20), "may have at most 1 MiB"),
        ('topic,per_gb\n"a,1\n', "not CSV in UTF-8"),
    ],
)
def test_a_wrong_price_file_is_an_error(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(text)
    with pytest.raises(UsageError, match=problem):
        read_prices(str(tmp_path / "prices.csv"))


def test_an_unknown_column_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flows", "--by", "client_id,port", str(path("groups"))]) == 2
    assert "unknown column 'port'; there are traffic, direction, " in capsys.readouterr().err


def test_a_pattern_is_no_sql(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "prices.csv").write_text("topic,per_gb\n' OR true --,1e9\n")
    words = ["--by", "traffic", "--format", "csv", str(path("groups"))]
    assert main(["flows", "--price", str(tmp_path / "prices.csv"), *words]) == 0
    header, line = (line.split(",") for line in capsys.readouterr().out.splitlines())
    assert float(dict(zip(header, line, strict=True))["cost"]) == 0
