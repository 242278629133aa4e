"""Packets lost on the way to one end, in captures made for it, and what only looks like it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support import kafka as k
from tests.support.packets import ACK
from tests.support.timeline import Timeline
from tests.support.traffic import TO_BROKER, TO_CLIENT, Part, produce, produce_answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BROKERS = [(f"10.0.0.{number}", 9092) for number in (2, 3, 4)]
CLIENTS = [f"10.0.1.{number}" for number in (1, 2, 3, 4)]


class Way(NamedTuple):
    client: str
    broker: tuple[str, int]
    number: int
    """Of the request on its connection, from 0."""


def talking(
    is_lost: Callable[[Way], bool],
    *,
    is_acknowledged: bool = False,
    requests: int = 60,
    brokers: int = 3,
) -> Timeline:
    """Every client writes to every broker; lost requests are sent again after 210 ms.

    ``is_acknowledged``: they were not lost, and TCP sent them again for nothing.
    """
    timeline = Timeline()
    for at, client in enumerate(CLIENTS):
        for place, broker in enumerate(BROKERS[:brokers]):
            at_s = (10 * at + place) / 100
            line = timeline.at(at_s).line(40000 + 10 * at + place, client, broker).open()
            for number in range(requests):
                at_s += 0.3
                parts = [Part(records=k.record_batch(1, 300 + number))]
                asked = produce(number, 9, parts, client_id=f"app-{at}")
                timeline.at(at_s)
                line.client(asked)
                if is_lost(Way(client, broker, number)):
                    if is_acknowledged:
                        line._send(TO_CLIENT, ACK)
                    at_s += 0.21
                    timeline.at(at_s)
                    line.loses(TO_BROKER, -len(asked)).client(asked)
                at_s += 0.003
                timeline.at(at_s)
                line.broker(produce_answer(number, 9, parts))
    return timeline


@pytest.mark.parametrize(
    ("is_lost", "words", "concerns"),
    [
        (
            lambda way: way.broker == BROKERS[1] and way.number % 20 == 7,
            (
                "12 of 240 answered requests waited for retransmissions (5.0 %), of 4 of 4 client "
                "addresses; of all other requests 0.0 %"
            ),
            {"broker": "10.0.0.3:9092"},
        ),
        (
            lambda way: way.client == CLIENTS[2] and way.number % 12 == way.broker[0].count("2"),
            (
                "15 of 180 answered requests waited for retransmissions (8.3 %), to 3 of 3 "
                "brokers; of all other requests 0.0 %"
            ),
            {"client_ip": "10.0.1.3"},
        ),
        (
            lambda way: (
                (way.client, way.broker) == (CLIENTS[0], BROKERS[2]) and way.number % 6 == 1
            ),
            (
                "10 of 60 answered requests waited for retransmissions (16.7 %); of all other "
                "requests 0.0 %"
            ),
            {"client_ip": "10.0.1.1", "broker": "10.0.0.4:9092"},
        ),
    ],
)
def test_the_end_whose_packets_are_lost_is_blamed(
    is_lost: Callable[[Way], bool], words: str, concerns: dict[str, str], tmp_path: Path
) -> None:
    [finding] = talking(is_lost).findings(tmp_path, "packets_lost")
    assert (finding.what, finding.concerns) == (words, concerns)


@pytest.mark.parametrize(
    "timeline",
    [
        talking(lambda way: False),
        talking(lambda way: way.number % 20 == 7, is_acknowledged=True),
        # All in one second, as when a link was down for a moment.
        talking(lambda way: way.number == 30 and way.broker == BROKERS[0], requests=40),
    ],
)
def test_nothing_is_found_where_nothing_is_lost_for_long(
    timeline: Timeline, tmp_path: Path
) -> None:
    assert timeline.findings(tmp_path, "packets_lost") == []
