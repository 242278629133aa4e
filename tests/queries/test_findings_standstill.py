"""A broker that stands still, in captures made for it: in two ways, and what only looks like it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from kanalyze.runtime.pipeline import Analysis
from tests.support.packets import START_NS
from tests.support.timeline import Timeline
from tests.support.traffic import (
    Part,
    answers,
    asks,
    body,
    fetch,
    fetch_answer,
    produce,
    produce_answer,
)

if TYPE_CHECKING:
    from pathlib import Path

HEARTBEAT = 12
EMPTY = [Part(records=None)]


class Worker(NamedTuple):
    """A client that sends a request again and again, each after the answer to the last."""

    kind: str = "fetch"
    client_id: str = "reader"
    every_s: float = 0.5
    broker: tuple[str, int] = ("10.0.0.2", 9092)

    def frames(self, number: int) -> tuple[bytes, bytes]:
        if self.kind == "fetch":
            asked = fetch(number, 12, EMPTY, max_wait_ms=500, client_id=self.client_id)
            return asked, fetch_answer(number, 12, EMPTY)
        if self.kind == "produce":
            return produce(number, 9, client_id=self.client_id), produce_answer(number, 9)
        values = {"groupId": "g", "memberId": "m", "generationId": 1}
        asked = asks(HEARTBEAT, 4, number, body(HEARTBEAT, "request", 4, **values), self.client_id)
        return asked, answers(HEARTBEAT, 4, number, body(HEARTBEAT, "response", 4))


def working(
    *workers: Worker,
    still_s: tuple[float, float] = (0, 0),
    seconds: float = 20,
    slow: str | None = None,
    brokers: tuple[str, ...] = ("10.0.0.2",),
    late_s: float = 0,
    again_s: tuple[tuple[float, float], ...] = (),
) -> Timeline:
    """Clients at work, whose brokers answer nothing from one time to another.

    ``slow``: only requests of that kind wait. ``late_s``: how much later everything is answered
    at all times; a Fetch is answered 0.1 s before it has to be.
    """
    timeline = Timeline()
    for index, worker in enumerate(workers):
        at_s = index / 100
        line = timeline.at(at_s).line(40000 + index, f"10.0.1.{index}", worker.broker).open()
        number = 0
        while at_s < seconds:
            number += 1
            asked, answered = worker.frames(number)
            timeline.at(at_s)
            line.client(asked)
            at_s += (0.4 if worker.kind == "fetch" else 0.002) + late_s
            waits = worker.broker[0] in brokers and slow in (None, worker.kind)
            for begin_s, end_s in (still_s, *again_s):
                if waits and begin_s <= at_s < end_s:
                    at_s = end_s + index / 1000
            timeline.at(at_s)
            line.broker(answered)
            at_s += worker.every_s
    return timeline


TEAM = (
    Worker(),
    Worker(client_id="auditor"),
    Worker("produce", "shop", 0.05),
    Worker("heartbeat", "reader", 1),
)
ELSEWHERE = Worker("produce", "shop", 0.1, ("10.0.0.3", 9092))


@pytest.mark.parametrize(
    ("timeline", "until_s", "words"),
    [
        (
            working(*TEAM, ELSEWHERE, still_s=(5, 11)),
            11,
            (
                "no response for 6.0 s; 4 requests on 4 connections of 4 of its 4 clients "
                "(auditor, reader, shop) waited, 4 answered within 1 s then; 0 retransmissions "
                "meanwhile"
            ),
        ),
        (
            working(Worker("heartbeat", "lonely", 0.2), still_s=(2, 5.5)),
            5.5,
            (
                "no response for 3.7 s; 1 request on 1 connection of 1 of its 1 client (lonely) "
                "waited, 1 answered within 1 s then; 0 retransmissions meanwhile"
            ),
        ),
    ],
)
def test_a_broker_that_answers_nobody_for_a_while_stood_still(
    timeline: Timeline, until_s: float, words: str, tmp_path: Path
) -> None:
    found = timeline.findings(tmp_path, "broker_stood_still", "unanswered", "slow_broker")
    assert (found[0].name, found[0].what) == ("broker_stood_still", words)
    assert found[0].concerns == {"broker": "10.0.0.2:9092"}
    assert found[0].last_time_ns == START_NS + until_s * 1e9


@pytest.mark.parametrize("late_s", [0.02, 0.04])
def test_a_broker_that_is_a_little_late_at_other_times_stood_still(
    late_s: float, tmp_path: Path
) -> None:
    timeline = working(*TEAM, still_s=(5, 7.5), late_s=late_s)
    assert timeline.findings(tmp_path, "broker_stood_still")


def test_stops_one_after_the_other_do_not_make_a_broker_slow(tmp_path: Path) -> None:
    timeline = working(*TEAM, still_s=(5, 7), again_s=((8, 10), (11, 13)))
    [finding] = timeline.findings(tmp_path, "broker_stood_still")
    assert ", the longest of 3 times; " in finding.what


def test_ports_of_one_broker_are_one_story(tmp_path: Path) -> None:
    inside = tuple(worker._replace(broker=("10.0.0.2", 9096)) for worker in TEAM[:2])
    timeline = working(*inside, *TEAM, still_s=(5, 8))
    [finding] = timeline.findings(tmp_path, "broker_stood_still")
    assert finding.concerns["broker"] == "10.0.0.2:9092"
    assert finding.what.endswith("; port 9096 of that address too")


def test_brokers_that_stand_still_together_are_told_of_each_other(tmp_path: Path) -> None:
    both = tuple(worker._replace(broker=ELSEWHERE.broker) for worker in TEAM)
    timeline = working(*TEAM, *both, still_s=(5, 8), brokers=("10.0.0.2", "10.0.0.3"))
    found = timeline.findings(tmp_path, "broker_stood_still")
    assert {finding.concerns["broker"] for finding in found} == {"10.0.0.2:9092", "10.0.0.3:9092"}
    for finding in found:
        assert finding.what.endswith(
            "; 1 other broker stood still at that time, as if all of them, or the capture, did"
        )


@pytest.mark.parametrize(
    "timeline",
    [
        working(*TEAM),
        working(*TEAM, still_s=(5, 5.9)),
        # Followers are slow: only writes wait. An idle broker: only long polls wait.
        working(*TEAM, still_s=(5, 11), slow="produce"),
        working(Worker("produce", "shop"), Worker("produce", "till"), still_s=(5, 11)),
        working(Worker(every_s=4), Worker(every_s=4)),
        # A broker without a processor answers late at other times too.
        working(*TEAM, still_s=(5, 7.5), late_s=0.16),
        # One client is slow with one connection.
        working(Worker(), still_s=(5, 7)),
    ],
)
def test_what_waits_for_another_reason_is_no_standstill(timeline: Timeline, tmp_path: Path) -> None:
    assert timeline.findings(tmp_path, "broker_stood_still") == []


def test_a_fetch_that_is_held_for_longer_than_its_wait_is_work(tmp_path: Path) -> None:
    file = tmp_path / "held.pcap"
    file.write_bytes(working(*TEAM, still_s=(5, 11)).capture())
    rows = [row for batch in Analysis([str(file)]).row_batches() for row in batch]
    fetches = [row for row in rows if row.api_name == "Fetch"]
    late = [row for row in fetches if row.latency_ns is not None and row.latency_ns > 1e9]
    assert [(row.waited, row.waited_ns) for row in late] == 2 * [(False, 500_000_000)]
