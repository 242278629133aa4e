"""A broker that becomes slow, in captures made for it, and what only looks like it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import kafka as k
from tests.support.timeline import Timeline
from tests.support.traffic import Part, answers, asks, body, produce, produce_answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEARTBEAT = 12
BROKER = ("10.0.0.2", 9092)


def served(
    *kinds: str,
    slow: Callable[[float], float],
    acks: int = 1,
    seconds: float = 40,
    size: Callable[[float], int] = lambda at_s: 200,
    broker: tuple[str, int] = BROKER,
    timeline: Timeline | None = None,
) -> Timeline:
    """A client of each kind sends 3 requests in a second; ``slow``: the latency by time, in s."""
    timeline = Timeline() if timeline is None else timeline
    for place, kind in enumerate(kinds):
        at_s, number = place / 100, 0
        port = 40000 + place
        line = timeline.at(at_s).line(port, "10.0.1.1", broker).open()
        while at_s < seconds:
            number += 1
            timeline.at(at_s)
            if kind == "produce":
                parts = [Part(records=k.record_batch(1, size(at_s)))]
                line.client(produce(number, 9, parts, acks=acks))
                answer = produce_answer(number, 9, parts)
            else:
                values = {"groupId": "g", "memberId": "m", "generationId": 1}
                line.client(asks(HEARTBEAT, 4, number, body(HEARTBEAT, "request", 4, **values)))
                answer = answers(HEARTBEAT, 4, number, body(HEARTBEAT, "response", 4))
            timeline.at(at_s + slow(at_s))
            line.broker(answer)
            at_s += 1 / 3 + slow(at_s)
    return timeline


def between(begin_s: float, end_s: float, slow_s: float) -> Callable[[float], float]:
    return lambda at_s: slow_s if begin_s <= at_s < end_s else 0.003


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            served("produce", "heartbeat", slow=between(20, 34, 0.15)),
            (
                "29 of 107 requests took 100.0 ms or more, 150.0 ms at the median of 14 s; in its "
                "fastest seconds 3.0 ms; so did Produce"
            ),
        ),
        (
            served("heartbeat", slow=lambda at_s: 0.3, seconds=24),
            (
                "38 of 38 requests took 250.0 ms or more, 300.0 ms at the median of 24 s; it was "
                "never faster in this capture (300.0 ms)"
            ),
        ),
        (
            served("produce", slow=between(20, 34, 0.15), acks=-1),
            (
                "29 of 107 requests took 100.0 ms or more, 150.0 ms at the median of 14 s; in its "
                "fastest seconds 3.0 ms; only writes with acks=all are slow, so a follower may be "
                "the reason"
            ),
        ),
    ],
)
def test_a_broker_is_compared_with_its_own_past_and_with_norms(
    timeline: Timeline, words: str, tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "broker_slowed")
    assert finding.what == words
    assert finding.concerns["broker"] == "10.0.0.2:9092"


def test_brokers_that_are_slow_together_are_told_of_each_other(tmp_path: Path) -> None:
    timeline = served("produce", slow=between(20, 34, 0.15))
    served("produce", slow=between(22, 36, 0.2), broker=("10.0.0.3", 9092), timeline=timeline)
    found = timeline.findings(tmp_path, "broker_slowed")
    assert {finding.concerns["broker"] for finding in found} == {"10.0.0.2:9092", "10.0.0.3:9092"}
    for finding in found:
        assert finding.what.endswith("; 1 other broker slowed at that time")


@pytest.mark.parametrize(
    "timeline",
    [
        served("produce", "heartbeat", slow=lambda at_s: 0.003),
        served("produce", "heartbeat", slow=lambda at_s: 0.2),
        served("produce", slow=between(20, 26, 0.15)),
        served("produce", slow=between(20, 34, 0.09)),
        # A batch job sends larger requests.
        served(
            "produce",
            slow=between(20, 34, 0.15),
            size=lambda at_s: 1200 if 20 <= at_s < 34 else 200,
        ),
    ],
)
def test_a_broker_as_usual_is_no_finding(timeline: Timeline, tmp_path: Path) -> None:
    assert timeline.findings(tmp_path, "broker_slowed") == []
