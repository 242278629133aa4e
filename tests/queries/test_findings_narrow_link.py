"""Clients and brokers whose link is narrow, in captures made for it, and what only looks so."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support import kafka as k
from tests.support.timeline import Timeline
from tests.support.traffic import (
    TO_BROKER,
    TO_CLIENT,
    Part,
    fetch,
    fetch_answer,
    produce,
    produce_answer,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.traffic import Line

BROKERS = [(f"10.0.0.{number}", 9092) for number in (2, 3)]
SEGMENT_BYTES = 1448


class Sender(NamedTuple):
    """A client whose requests take long to be sent, or a broker whose responses do."""

    client: str
    broker: tuple[str, int] = BROKERS[0]
    kb_per_s: float = 1e6
    first_wait_s: float = 0.0
    """Between the first packet of a message and the second."""
    messages: int = 20
    sizes: tuple[int, ...] = (4000, 9000, 14000)
    is_broker: bool = False
    from_number: int = 0
    """The messages before are sent at once."""
    burst: int = 0
    """How many bytes of each message pass at once."""


def sending(*senders: Sender) -> Timeline:
    timeline = Timeline()
    for index, sender in enumerate(senders):
        line = timeline.at(index / 100).line(40000 + index, sender.client, sender.broker).open()
        for number in range(sender.messages):
            size = sender.sizes[number % len(sender.sizes)]
            parts = [Part(records=k.record_batch(1, size))]
            at_s = index / 100 + number
            if sender.is_broker:
                empty = [Part(records=None)]
                messages = [fetch(number, 12, empty), fetch_answer(number, 12, parts)]
            else:
                messages = [produce(number, 9, parts), produce_answer(number, 9, parts)]
            for side, message in zip((TO_BROKER, TO_CLIENT), messages, strict=True):
                at_s = _send(timeline, line, side, message, at_s, sender, number) + 0.002
    return timeline


def _send(
    timeline: Timeline,
    line: Line,
    side: int,
    message: bytes,
    at_s: float,
    sender: Sender,
    number: int,
) -> float:
    """Send a message segment by segment; return when the last was sent."""
    is_slow = number >= sender.from_number and (side == TO_CLIENT) == sender.is_broker
    for place in range(0, len(message), SEGMENT_BYTES):
        if is_slow and place > sender.burst:
            at_s += SEGMENT_BYTES / 1000 / sender.kb_per_s
            at_s += sender.first_wait_s if place == SEGMENT_BYTES else 0
        timeline.at(at_s)
        line.says(side, message[place : place + SEGMENT_BYTES])
    return at_s


QUICK = Sender("10.0.1.2")


@pytest.mark.parametrize(
    ("timeline", "words", "concerns"),
    [
        (
            sending(QUICK, Sender("10.0.1.3", kb_per_s=30), Sender("10.0.1.3", BROKERS[1], 30)),
            (
                "40 of 40 requests of 1000 B or more took 289.6 ms to send at the median (9100 B): "
                "32.0 kB/s, half of them 31.0 to 42.0 kB/s; others send 1081952.0 kB/s; to 2 of 2 "
                "brokers"
            ),
            {"client_id": "test", "client_ip": "10.0.1.3"},
        ),
        (
            # One way of two, from the sixth message on.
            sending(
                QUICK,
                Sender("10.0.1.3", kb_per_s=200, from_number=5),
                Sender("10.0.1.3", BROKERS[1]),
            ),
            (
                "15 of 15 requests of 1000 B or more took 43.4 ms to send at the median (9100 B): "
                "216.0 kB/s, half of them 209.0 to 283.0 kB/s; others send 1081952.0 kB/s; to 1 of "
                "2 brokers; 5 before or afterwards were sent more quickly"
            ),
            {"client_id": "test", "client_ip": "10.0.1.3", "broker": "10.0.0.2:9092"},
        ),
        (
            sending(
                Sender("10.0.1.2", is_broker=True, kb_per_s=40),
                Sender("10.0.1.3", is_broker=True, kb_per_s=40),
                Sender("10.0.1.3", ("10.0.0.2", 9096), is_broker=True, kb_per_s=40, messages=5),
                Sender("10.0.1.2", BROKERS[1], is_broker=True),
            ),
            "45 of 45 responses of 1000 B or more took ",
            {"broker": "10.0.0.2:9092"},
        ),
        (
            # Two of three pass at once.
            sending(QUICK, Sender("10.0.1.3", kb_per_s=80, burst=9200, messages=40)),
            "13 of 37 requests of 1000 B or more took ",
            {"client_id": "test", "client_ip": "10.0.1.3"},
        ),
        (
            # Nobody else sends as much.
            sending(Sender("10.0.1.3", kb_per_s=60)),
            "20 of 20 requests of 1000 B or more took ",
            {"client_id": "test", "client_ip": "10.0.1.3"},
        ),
    ],
)
def test_a_sender_whose_link_is_narrow_is_found(
    timeline: Timeline, words: str, concerns: dict[str, str], tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "narrow_link")
    assert finding.what.startswith(words)
    assert finding.concerns == concerns


@pytest.mark.parametrize(
    "timeline",
    [
        sending(QUICK, Sender("10.0.1.3")),
        # Messages of any size take 40 ms: a delayed acknowledgment.
        sending(QUICK, Sender("10.0.1.3", first_wait_s=0.04)),
        # Those of one size take longer now and then.
        sending(QUICK, Sender("10.0.1.3", kb_per_s=30, from_number=14)),
        sending(QUICK, Sender("10.0.1.3", kb_per_s=30, messages=9)),
        # Each is a packet.
        sending(QUICK, Sender("10.0.1.3", kb_per_s=30, sizes=(900,))),
        # Alone, and not that slow.
        sending(Sender("10.0.1.3", kb_per_s=400)),
    ],
)
def test_senders_that_are_quick_or_wait_for_something_else_are_no_finding(
    timeline: Timeline, tmp_path: Path
) -> None:
    assert timeline.findings(tmp_path, "narrow_link") == []
