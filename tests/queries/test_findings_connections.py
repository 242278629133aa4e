"""Findings about connections that nobody can use, in captures made for them.

Each fault is provoked in two ways that differ, with a healthy workload beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.timeline import Timeline
from tests.support.traffic import produce, produce_answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BROKER = ("10.0.1.1", 9092)


# --- connections that a load balancer forgot ---


def idle_then_reset(
    silences_s: Sequence[float], *, acks: int = -1, survived_s: Sequence[float] = ()
) -> Timeline:
    """Connections whose first request after a silence is reset, and others that are answered."""
    timeline = Timeline()
    for number, silence_s in enumerate([*silences_s, *survived_s]):
        line = timeline.at(number).line(50000 + number, broker=BROKER).open()
        line.client(produce(1, 9)).broker(produce_answer(1, 9))
        timeline.at(number + silence_s)
        line.client(produce(2, 9, acks=acks))
        if number < len(silences_s):
            line.reset()
        else:
            line.broker(produce_answer(2, 9))
    return timeline


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            idle_then_reset([400, 400, 371.5]),
            (
                "3 connections reset by the other end at the next request (Produce) after "
                "371.5 to 400.0 s of silence"
            ),
        ),
        # Another limit, a producer that wants no answer, and a silence that was short enough.
        (
            idle_then_reset([910], acks=0, survived_s=[898]),
            (
                "1 connection reset by the other end at the next request (Produce) after "
                "910.0 s of silence; the longest silence before an answer was 898.0 s"
            ),
        ),
    ],
)
def test_a_reset_of_the_first_request_after_a_silence_is_an_idle_cut(
    timeline: Timeline, words: str, tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "idle_cut")
    assert finding.what == words
    assert finding.concerns["broker"] == "10.0.1.1:9092"
    assert finding.concerns["client_ip"] == "10.0.0.1"


@pytest.mark.parametrize(
    "timeline",
    [
        idle_then_reset([], survived_s=[400, 400]),
        # Other connections survive as long a silence: it is not the silence.
        idle_then_reset([400], survived_s=[400.2]),
        # One reset after a silence that is no known limit, and resets in the midst of work.
        idle_then_reset([100]),
        idle_then_reset([2, 2, 2, 2]),
    ],
)
def test_a_reset_for_another_reason_is_no_idle_cut(timeline: Timeline, tmp_path: Path) -> None:
    assert timeline.findings(tmp_path, "idle_cut") == []
