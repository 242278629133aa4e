"""An archive on a cluster gives the rows of one process, survives lost workers, saves memory."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import kanalyze
from tests.spark.drivers.archive import EVENTS, DriverSettings, hashed
from tests.spark.drivers.marking import GO_ON, READING, REBUILDING, marks_in
from tests.support import kafka as k
from tests.support.archives import WAYS, cut
from tests.support.cut_captures import CutPacket, write_pcap
from tests.support.packets import START_NS
from tests.support.spark_cluster import WORKERS
from tests.support.traffic import Line
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.spark.drivers.marking import Mark
    from tests.support.archives import Sent
    from tests.support.spark_cluster import Driver, StandaloneCluster

pytestmark = pytest.mark.long
ARCHIVE = "tests.spark.drivers.archive"
CAPTURES = ("cluster", "codecs", "errors", "groups", "transactions")
PARTITIONS = 8
HELD_FROM = 4
EACH_WAY = pytest.mark.parametrize("sent", WAYS)
MIB = 1 << 20


def cut_captures(count: int, folder: Path) -> list[str]:
    """Several captures, each cut into ``count`` files."""
    files = []
    for name in CAPTURES:
        (folder / f"{name}-{count}").mkdir()
        files += cut(name, count, folder / f"{name}-{count}").files
    return files


@EACH_WAY
@pytest.mark.parametrize("count", [7, 50])
def test_rows_match_one_process(
    cluster: StandaloneCluster, count: int, sent: Sent, tmp_path: Path
) -> None:
    files = cut_captures(count, tmp_path)

    found = cluster.run(ARCHIVE, DriverSettings(sorted(files), sent=sent).text())

    assert found["rows"] == hashed(kanalyze.requests(*files))


# -- a worker is lost -----------------------------------------------------------------------------


class EndedAttempt(NamedTuple):
    """How an attempt of a task ended, from Spark's event log."""

    task: int
    stage: int
    partition: int
    reason: str
    time_ms: int


def ended_tasks(folder: Path) -> dict[int, EndedAttempt]:
    """Return all ended attempts by their number."""
    (log,) = (folder / EVENTS).iterdir()
    ended = {}
    for line in log.read_text().splitlines():
        event: dict[str, Any] = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            task = event["Task Info"]
            ended[task["Task ID"]] = EndedAttempt(
                task["Task ID"],
                event["Stage ID"],
                task["Partition ID"],
                event["Task End Reason"]["Reason"],
                task["Finish Time"],
            )
    return ended


def waiting_tasks(driver: Driver, phase: str) -> list[Mark]:
    """The waiting tasks of a phase, once each worker has one; else none."""
    waiting = [mark for mark in marks_in(driver.folder, phase) if mark.partition >= HELD_FROM]
    return waiting if len(waiting) == WORKERS else []


@EACH_WAY
@pytest.mark.parametrize("phase", [READING, REBUILDING])
def test_rows_are_the_same_when_a_worker_is_lost(
    cluster: StandaloneCluster, phase: str, sent: Sent, tmp_path: Path
) -> None:
    files = cut_captures(7, tmp_path)
    driver_settings = DriverSettings(
        sorted(files),
        PARTITIONS,
        PARTITIONS,
        sent=sent,
        held_phase=phase,
        held_from=HELD_FROM,
    )
    with cluster.driver(ARCHIVE, driver_settings.text()) as driver:
        wait_until(lambda: waiting_tasks(driver, phase), "both workers have a waiting task")
        before = marks_in(driver.folder, phase)
        killed_ms = int(time.time() * 1000)
        cluster.kill_worker(0)
        (driver.folder / GO_ON).touch()
        found = driver.result()

    assert found["rows"] == hashed(kanalyze.requests(*files))
    ended = ended_tasks(driver.folder)
    attempts = [ended[mark.task] for mark in before]
    done = [
        attempt
        for attempt in attempts
        if attempt.reason == "Success" and attempt.time_ms <= killed_ms
    ]
    assert 0 < len(done) <= HELD_FROM
    # One of the two waiting tasks was on the lost worker.
    (lost,) = [attempt for attempt in attempts if attempt.reason == "ExecutorLostFailure"]
    assert lost.partition >= HELD_FROM
    repeated = [
        attempt
        for attempt in ended.values()
        if attempt.stage == lost.stage
        and attempt.partition == lost.partition
        and attempt.task != lost.task
    ]
    assert "Success" in {attempt.reason for attempt in repeated}


# -- one enormous connection ----------------------------------------------------------------------

REQUESTS = 300
REQUEST_BYTES = MIB
SEGMENT_BYTES = 1448
MAX_MIB = 350
"""Half of it is Python with its packages; buffering the connection would need 450."""


def large_requests() -> list[bytes]:
    """A connection whose client sends one large Produce request after another."""
    records = k.record_batch(size=REQUEST_BYTES)
    packets: list[bytes] = []
    line = Line(packets).open()
    line.client(k.heartbeat(0)).broker(k.heartbeat_answer(0))
    for number in range(1, REQUESTS):
        line.client(*segments_of(k.produce(number, 1, records=records)))
        line.broker(k.produce_answer(number))
    return packets


def segments_of(data: bytes) -> Iterator[bytes]:
    for first in range(0, len(data), SEGMENT_BYTES):
        yield data[first : first + SEGMENT_BYTES]


@pytest.fixture(scope="module")
def enormous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A capture of 300 MiB, removed after the tests."""
    file = tmp_path_factory.mktemp("enormous") / "one connection.pcap"
    write_pcap(
        file,
        [
            CutPacket(START_NS + index * 1000, data, len(data), link_type=1)
            for index, data in enumerate(large_requests())
        ],
    )
    yield file
    file.unlink()


@pytest.mark.parametrize(
    ("prunes_payload", "sent"),
    [
        *((True, sent) for sent in WAYS),
        *((False, sent) for sent in WAYS if sent != "read again"),
    ],
)
def test_an_enormous_connection_needs_little_memory(
    cluster: StandaloneCluster, enormous: Path, prunes_payload: bool, sent: Sent
) -> None:
    driver_settings = DriverSettings(
        [str(enormous)], buckets=2, prunes_payload=prunes_payload, sent=sent
    )

    found = cluster.run(ARCHIVE, driver_settings.text())

    assert found["rows"] == hashed(kanalyze.requests(str(enormous)))
    assert len(found["rows"]) == REQUESTS
    for phase in (READING, REBUILDING):
        assert 0 < found["peak_kib"][phase] < MAX_MIB << 10
