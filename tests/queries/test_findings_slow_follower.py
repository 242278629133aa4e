"""A follower with a slow disk, in captures made for it, and followers that have nothing to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support import kafka as k
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
LEADER = ("10.0.0.2", 9092)
EMPTY = [Part(records=None)]


class Follower(NamedTuple):
    number: int
    thinks_s: float
    """From a response with records to its next Fetch."""
    has_records: bool = True
    rounds: int = 40
    slow_rounds: range = range(10_000)
    """In the others it asks at once."""


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
            at_s += 0.1 if follower.has_records else 0.5
            timeline.at(at_s)
            line.broker(fetch_answer(number, 12, parts))
            at_s += follower.thinks_s if number in follower.slow_rounds else 0.001
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
            copying(
                Follower(2, 0.001, rounds=100),
                Follower(3, 0.061, rounds=100),
                writes_s=((-1, 0.066), (1, 0.002)),
            ),
            (
                "62 of 62 times broker 3 took more than 20.0 ms from a response with "
                "records to its next Fetch, 61.0 ms or more for a third of them; another follower "
                "1.0 ms at that time; writes with acks=all to the brokers that it copies from took "
                "66.0 ms at the median, with acks=1 2.0 ms"
            ),
        ),
        (
            # Most of its fetches are of the time before.
            copying(
                Follower(2, 0.001, rounds=400),
                Follower(3, 0.061, rounds=300, slow_rounds=range(200, 290)),
            ),
            (
                "86 of 88 times broker 3 took more than 20.0 ms from a response with records to "
                "its next Fetch, 61.0 ms or more for a third of them; another follower 1.0 ms at "
                "that time; no write with acks=all in this capture waited for it"
            ),
        ),
        (
            copying(Follower(3, 0.3, rounds=40)),
            (
                "39 of 39 times broker 3 took more than 50.0 ms from a response with "
                "records to its next Fetch, 300.0 ms or more for a third of them; there is no "
                "other follower to compare with; no write with acks=all in this capture waited for "
                "it"
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
        copying(Follower(2, 0.001, rounds=100), Follower(3, 0.004, rounds=200)),
        copying(Follower(2, 0.020, rounds=200), Follower(3, 0.030, rounds=400)),
        # Not for long.
        copying(Follower(2, 0.001, rounds=100), Follower(3, 0.061, rounds=40)),
        # All are slow at a time, and quick otherwise.
        copying(*(Follower(n, 0.061, rounds=300, slow_rounds=range(100, 200)) for n in (2, 3, 4))),
        # After an empty response there is nothing to write.
        copying(Follower(2, 0.001, rounds=100), Follower(3, 0.061, has_records=False)),
        copying(Follower(3, 0.040, rounds=400)),
    ],
)
def test_followers_that_are_alike_or_idle_are_no_finding(
    timeline: Timeline, tmp_path: Path
) -> None:
    assert timeline.findings(tmp_path, "slow_follower") == []


@pytest.mark.parametrize(
    ("from_memory_s", "is_told"),
    [
        ({"10.0.0.4": 0.08, "10.0.0.3": 0.002}, False),
        # Its disk is slow, or all are: then it is as quick as the others.
        ({"10.0.0.4": 0.003, "10.0.0.3": 0.002}, True),
        ({"10.0.0.4": 0.08, "10.0.0.3": 0.07}, True),
        ({"10.0.0.3": 0.002}, True),
        ({"10.0.0.4": 0.08}, True),
    ],
)
def test_a_broker_that_answers_slowly_from_memory_too_is_no_slow_follower(
    from_memory_s: dict[str, float], is_told: bool, tmp_path: Path
) -> None:
    timeline = copying(Follower(2, 0.001, rounds=100), Follower(3, 0.061, rounds=100))
    values = {"groupId": "g", "memberId": "m", "generationId": 1}
    asked = asks(HEARTBEAT, 4, 1, body(HEARTBEAT, "request", 4, **values), "reader")
    answered = answers(HEARTBEAT, 4, 1, body(HEARTBEAT, "response", 4))
    for place, (broker_ip, latency_s) in enumerate(from_memory_s.items()):
        line = timeline.at(0).line(51000 + place, "10.0.1.8", (broker_ip, 9092)).open()
        for number in range(10):
            timeline.at(2 + number)
            line.client(asked)
            timeline.at(2 + number + latency_s)
            line.broker(answered)
    assert bool(timeline.findings(tmp_path, "slow_follower")) is is_told
