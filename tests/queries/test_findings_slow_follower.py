"""A follower with a slow disk, in captures made for it, and followers that have nothing to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support import kafka as k
from tests.support.timeline import Timeline
from tests.support.traffic import Part, fetch, fetch_answer, produce, produce_answer

if TYPE_CHECKING:
    from pathlib import Path

LEADER = ("10.0.0.2", 9092)
EMPTY = [Part(records=None)]


class Follower(NamedTuple):
    number: int
    thinks_s: float
    """From a response with records to its next Fetch."""
    has_records: bool = True
    rounds: int = 40


def copying(*followers: Follower, writes_s: tuple[tuple[int, float], ...] = ()) -> Timeline:
    """Followers that copy from one leader; ``writes_s``: acks and latency of its producers."""
    timeline = Timeline()
    for follower in followers:
        client_ip = f"10.0.0.{follower.number + 1}"
        at_s = follower.number / 100
        line = timeline.at(at_s).line(40000 + follower.number, client_ip, LEADER).open()
        for number in range(follower.rounds):
            name = f"broker-{follower.number}-fetcher-0"
            asked = fetch(number, 12, EMPTY, client_id=name, replica_id=follower.number)
            timeline.at(at_s)
            line.client(asked)
            parts = [Part(records=k.record_batch(2, 200))] if follower.has_records else EMPTY
            at_s += 0.005 if follower.has_records else 0.5
            timeline.at(at_s)
            line.broker(fetch_answer(number, 12, parts))
            at_s += follower.thinks_s
    for index, (acks, latency_s) in enumerate(writes_s):
        line = timeline.at(0).line(50000 + index, "10.0.1.9", LEADER).open()
        for number in range(10):
            timeline.at(0.1 + number * 0.2)
            line.client(produce(number, 9, acks=acks))
            timeline.at(0.1 + number * 0.2 + latency_s)
            line.broker(produce_answer(number, 9))
    return timeline


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            copying(Follower(2, 0.001), Follower(3, 0.061), writes_s=((-1, 0.066), (1, 0.002))),
            (
                "39 of 39 times broker 3 took more than 10.0 ms from a response with "
                "records to its next Fetch, 61.0 ms at the median; 1 other follower at best 1.0 "
                "ms; writes with "
                "acks=all to the brokers that it copies from take 66.0 ms at the median, with "
                "acks=1 2.0 ms"
            ),
        ),
        (
            copying(Follower(3, 0.3, rounds=22)),
            (
                "21 of 21 times broker 3 took more than 50.0 ms from a response with "
                "records to its next Fetch, 300.0 ms at the median; there is no other follower to "
                "compare "
                "with; no write with acks=all in this capture waits for it"
            ),
        ),
    ],
)
def test_a_follower_that_asks_late_for_more_is_found(
    timeline: Timeline, words: str, tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "slow_follower")
    assert finding.what == words
    assert finding.concerns == {"client_ip": "10.0.0.4", "api_name": "Fetch"}


@pytest.mark.parametrize(
    "timeline",
    [
        copying(Follower(2, 0.001), Follower(3, 0.004)),
        copying(Follower(2, 0.020), Follower(3, 0.030)),
        copying(Follower(2, 0.001), Follower(3, 0.061, rounds=20)),
        # After an empty response there is nothing to write.
        copying(Follower(2, 0.001), Follower(3, 0.061, has_records=False)),
        copying(Follower(3, 0.040)),
    ],
)
def test_followers_that_are_alike_or_idle_are_no_finding(
    timeline: Timeline, tmp_path: Path
) -> None:
    assert timeline.findings(tmp_path, "slow_follower") == []
