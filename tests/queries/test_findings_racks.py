"""Consumers that read from other zones, and those that say none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from tests.queries.test_findings import MS, S, request
from tests.queries.test_findings_network import findings, made_line, texts
from tests.support import rows as made
from tests.support.captures import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.queries.test_findings_network import Tables

ZONES = ("a", "b", "c")
KINDS = ("reads_across_zones", "sends_no_rack")
DAY_S, GB = 86_400, 1_000_000_000
SHARE = GB // DAY_S * 10
"""Bytes in 10 s of 1 GB a day."""


def metadata(
    zones: Iterable[str | None] = ZONES, replicas: int = 3, *, by_name: bool = False
) -> list[Any]:
    brokers = [
        made_line(
            "metadata",
            kind="broker",
            node_id=number,
            host=f"kafka-{number}.local" if by_name else f"10.0.0.{number}",
            port=9092,
            rack=zone,
        )
        for number, zone in enumerate(zones, 1)
    ]
    partitions = [
        made_line(
            "metadata",
            kind="partition",
            topic="orders",
            partition=number,
            leader_id=number,
            replica_count=replicas,
        )
        for number in (1, 2, 3)
    ]
    return [*brokers, *partitions]


def traffic(at_ns: int, api_name: str, broker: int, size: int, **changes: Any) -> Any:
    item = made.partition(index=broker, record_bytes=size)
    given = {"api_name": api_name, "client_id": "reader", "client_ip": "10.0.1.1", **changes}
    return request(
        at_ns,
        **given,
        api_key={"Produce": 0, "Fetch": 1}[api_name],
        api_version=13,
        broker_ip=f"10.0.0.{broker}",
        broker_port=9092,
        partitions=[item],
        record_bytes=size,
        status="ok",
    )


def reading(*sizes: int, rack_id: str | None = "a", **changes: Any) -> list[Any]:
    """Reads of so much from each of the brokers, and nothing more for 10 s."""
    reads = [
        traffic(broker * MS, "Fetch", broker, size, rack_id=rack_id, **changes)
        for broker, size in enumerate(sizes, 1)
        if size
    ]
    return [*reads, request(10 * S - MS, api_name="Heartbeat", api_key=12)]


def writing() -> list[Any]:
    """A write to a partition of each broker, which shows what it leads."""
    return [traffic(n * MS, "Produce", n, 100, client_id="writer") for n in (1, 2, 3)]


def found(tables: Tables, **thresholds: float) -> dict[str, list[str]]:
    own = {name: {key: thresholds[key] for key in thresholds} for name in KINDS}
    own["sends_no_rack"].pop("least_share", None)
    return {name: texts(findings(name, tables, **own[name])) for name in KINDS}


def test_a_consumer_that_says_its_rack_and_reads_elsewhere() -> None:
    tables: Tables = {"requests": reading(SHARE, SHARE, 2 * SHARE), "metadata": metadata()}
    text = "3.0 GB of records a day from b, c although a replica should be in a,"
    assert found(tables) == {
        "reads_across_zones": [
            f"{text} its own: 75 % of what it reads; no leader had named a replica there"
        ],
        "sends_no_rack": [],
    }
    (finding,) = findings("reads_across_zones", tables)
    assert finding.concerns == {"client_id": "reader", "topic": "orders", "api_name": "Fetch"}


@pytest.mark.parametrize("rack_id", ["", None])
def test_a_consumer_that_says_no_rack(rack_id: str | None) -> None:
    tables: Tables = {
        "requests": reading(SHARE, SHARE, 2 * SHARE, rack_id=rack_id),
        "metadata": metadata(),
    }
    text = "4.0 GB of records a day from a, b, c without a rack of its own: at least 50 % crosses "
    assert found(tables) == {
        "reads_across_zones": [],
        "sends_no_rack": [f"{text}zones, wherever it is"],
    }


def naming(at_ns: int, broker: int, replica: int | None, **changes: Any) -> Any:
    """A response of a leader without records, which names a replica."""
    told = traffic(at_ns, "Fetch", broker, 0, rack_id="a", **changes)
    return told._replace(
        partitions=[told.partitions[0]._replace(preferred_read_replica=replica, record_count=0)]
    )


@pytest.mark.parametrize(
    ("told", "text"),
    [
        # Node 1 is in the consumer's zone. Before it was named, nothing was to be followed.
        ([naming(0, 2, 1)], "leaders had named a replica there before 100 % of that"),
        ([naming(5 * S, 2, 1)], "no leader had named a replica there"),
        # Node 3 is in another; of node 9 nobody knows where it is; node 1 was named to another.
        ([naming(0, 2, 3)], "no leader had named a replica there"),
        ([naming(0, 2, 9)], "no leader had named a replica there"),
        ([naming(0, 2, 1, client_id="other")], "no leader had named a replica there"),
    ],
)
def test_a_consumer_goes_where_the_leader_says_or_not(told: list[Any], text: str) -> None:
    tables: Tables = {"requests": [*told, *reading(0, SHARE)], "metadata": metadata()}
    [what] = found(tables)["reads_across_zones"]
    assert what.endswith(f" its own: 100 % of what it reads; {text}")
    # With fewer replicas than zones, a replica is known only where a leader names it.
    tables["metadata"] = metadata(replicas=2)
    has_named = told[0].client_id == "reader" and told[0].partitions[0].preferred_read_replica == 1
    assert len(found(tables)["reads_across_zones"]) == has_named


def test_a_part_of_what_is_read_across_zones_is_so_although_a_replica_was_named() -> None:
    reads = [traffic(n * S, "Fetch", 2, SHARE, rack_id="a") for n in (1, 2, 3, 4)]
    requests = [*reads, naming(S + S // 2, 2, 1), request(10 * S)]
    [what] = found({"requests": requests, "metadata": metadata()})["reads_across_zones"]
    assert what.endswith("; leaders had named a replica there before 75 % of that")


def test_a_real_leader_names_a_replica_and_a_real_consumer_goes_there() -> None:
    """The leader of `near` selects replicas by rack, that of `far` does not (`lab/trio.py`)."""
    rows = list(kanalyze.requests(str(FOLDER / "cluster" / "rack-far.pcap"), api="Fetch"))
    items = [(row.broker_ip, item) for row in rows for item in row.partitions]
    told = [
        (broker, item.topic, item.preferred_read_replica, item.record_bytes)
        for broker, item in items
        if item.preferred_read_replica is not None
    ]
    assert told == [("10.88.0.12", "near", 1, 0)]
    read = {(broker, item.topic) for broker, item in items if item.record_bytes}
    assert read == {("10.88.0.11", "near"), ("10.88.0.13", "far")}


def test_brokers_that_advertise_names_are_known_by_what_they_lead() -> None:
    reads = reading(0, SHARE)
    named = metadata(by_name=True)
    assert found({"requests": reads, "metadata": named})["reads_across_zones"] == []
    (told,) = found({"requests": [*writing(), *reads], "metadata": named})["reads_across_zones"]
    assert told.startswith("1.0 GB of records a day from b although a replica should be in a, ")


@pytest.mark.parametrize(
    "tables",
    [
        {"requests": reading(SHARE), "metadata": metadata()},
        {"requests": reading(0, SHARE, rack_id="elsewhere"), "metadata": metadata()},
        {"requests": reading(0, SHARE // 200), "metadata": metadata()},
        {"requests": reading(100 * SHARE, SHARE), "metadata": metadata()},
        *(
            {"requests": reading(0, SHARE, rack_id=rack_id), "metadata": lines}
            for rack_id in ("a", "")
            for lines in (
                metadata(replicas=2),
                metadata((None, None, None)),
                metadata(("a", "a", "a")),
                [],
            )
        ),
        {
            "requests": reading(0, SHARE, rack_id="", client_id="broker-1-fetcher-0"),
            "metadata": metadata(),
        },
    ],
)
def test_where_nothing_is_to_be_said(tables: Tables) -> None:
    assert found(tables) == {name: [] for name in KINDS}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rack-far", {"far-reader": "zone-a", "near-reader": "zone-a"}),
        ("rack-none", {"lost-reader": "", "near-reader": "zone-a"}),
    ],
)
def test_the_rack_that_a_consumer_was_given_is_in_its_requests(
    name: str, expected: dict[str, str]
) -> None:
    capture = str(FOLDER / "cluster" / f"{name}.pcap")
    fetches = kanalyze.requests(capture, api="Fetch", client_id="*-reader")
    assert {(row.client_id, row.rack_id) for row in fetches} == set(expected.items())
    joins = kanalyze.sql(capture, "SELECT client_id, rack_id FROM groups WHERE event = 'join'")
    told = {(line["client_id"], line["rack_id"] or "") for line in joins.to_pylist()}
    assert told == set(expected.items())
