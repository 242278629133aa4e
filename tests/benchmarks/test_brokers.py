from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kanalyze
from benchmarks import brokers, captures
from benchmarks.brokers import Cluster, Inside
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 120


@pytest.fixture
def real_broker(tmp_path: Path) -> Callable[[str, int], list[kanalyze.Row]]:
    """What records the requests of a kind of Java clients, and so many brokers."""

    def record(kind: str, nodes: int) -> list[kanalyze.Row]:
        target = tmp_path / "java.pcap"
        with (
            captures.namespace() as inside,
            brokers.cluster(inside, nodes) as cluster,
            captures.listening(inside, cluster.packet_filter, target),
        ):
            brokers.java_traffic(inside, cluster, RECORDS, brokers.SHAPES[kind])
        return list(kanalyze.requests(str(target)))

    return record


def test_traffic_between_brokers_is_left_out() -> None:
    cluster = Cluster(Path("jars"), "127.0.0.1:9092,127.0.0.1:9102")
    assert cluster.packet_filter == "tcp port 9092 or tcp port 9102"


def test_programs_run_inside_the_namespace() -> None:
    command = Inside(("env", "PLACE=there")).command(["sh", "-c", "echo $PLACE"])
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=True)
    assert done.stdout == "there\n"


def test_programs_end_when_their_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "_LIMIT_S", 0.1)
    done = subprocess.run(Inside(()).command(["sleep", "600"]), timeout=LONG_S, check=False)
    assert done.returncode == 124  # the status of timeout for a program that it ended


@pytest.mark.long
def test_a_fetch_session_has_200_partitions_where_it_shall(
    real_broker: Callable[[str, int], list[kanalyze.Row]],
) -> None:
    rows = real_broker(brokers.OWN_COUNTERS, brokers.BROKERS)
    assert max(len(row.partitions) for row in rows if row.api_name == "Fetch") == 200


@pytest.mark.long
def test_java_clients_produce_fetch_and_commit(
    real_broker: Callable[[str, int], list[kanalyze.Row]],
) -> None:
    rows = real_broker(brokers.JAVA, 2)
    apis = Counter(row.api_name for row in rows)
    assert apis.keys() >= {"Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "JoinGroup"}
    assert {row.group_id for row in rows} >= {"group-classic", "group-consumer"}
    produced = [row for row in rows if row.api_name == "Produce"]
    fetched = [row for row in rows if row.api_name == "Fetch"]
    assert sum(row.record_count or 0 for row in produced) == RECORDS
    assert sum(row.record_count or 0 for row in fetched) >= 2 * RECORDS
    assert {row.acks for row in produced} == {-1, 1}
    # A Fetch in a session names no partition, and its response has only those with records.
    assert any(row.request_bytes < 120 and row.partitions for row in fetched)
    ids: dict[str, list[int]] = {}
    for row in rows:
        if row.client_id == "classic-0":
            ids.setdefault(row.connection, []).append(row.correlation_id)
    # A client has one counter of correlation ids for several connections.
    assert len(ids) > 2
    all_ids = [id_ for connection_ids in ids.values() for id_ in connection_ids]
    assert len(all_ids) == len(set(all_ids))
