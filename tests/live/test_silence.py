"""A broker that stops answering is an alert within three seconds, in the view and in the lines."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kanalyze.live.rate_jsonl import RatesWriter
from kanalyze.live.silence import BrokerResponses, SilentBroker
from kanalyze.live.view.alerts import alerts
from kanalyze.live.window.windows import Windows
from kanalyze.model.tcp import Endpoint
from kanalyze.runtime.monitor import BrokerWaits, InFlight
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.columns.block import RowBlock
from tests.live.test_run import Clock, Feed, live_run
from tests.queries.test_findings_standstill import ELSEWHERE, TEAM, Worker, working
from tests.support.packets import START_NS, Packet, make_batch
from tests.support.rows import row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.model.packets import PacketBatch
    from tests.support.timeline import Timeline

SECOND_NS = 1_000_000_000
TICK_NS = SECOND_NS // 10
BROKER = Endpoint("10.0.0.2", 9092)


class Looks(RatesWriter):
    """Notes the alerts at each tick, as the view would show them then."""

    def __init__(self, windows: Windows, stream: io.BytesIO) -> None:
        super().__init__(windows, stream, interval_ns=SECOND_NS)
        self.windows = windows
        self.seen: list[tuple[float, str, str]] = []

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        for alert in alerts(self.windows.snapshot(now_ns)):
            if "answered nobody" in alert.text:
                self.seen.append(((now_ns - START_NS) / SECOND_NS, alert.text, alert.style))
        return super().tick(state, now_ns, clock_ns)


def ticks(packets: list[Packet], seconds: float) -> Iterator[PacketBatch | None]:
    """The packets of each tick of a tenth of a second."""
    for tick in range(1, int(seconds * SECOND_NS // TICK_NS)):
        until_ns, number = START_NS + tick * TICK_NS, 0
        while number < len(packets) and packets[number].time_ns < until_ns:
            number += 1
        now, packets = packets[:number], packets[number:]
        yield make_batch(now) if now else None


class Watched(NamedTuple):
    seen: list[tuple[float, str, str]]
    lines: list[dict[str, Any]]


def watched(timeline: Timeline, seconds: float = 20) -> Watched:
    timeline.capture()  # gives the packets their times
    packets = list(map(Packet, timeline._packets, timeline._times_ns))
    clock, stream = Clock(), io.BytesIO()
    looks = Looks(Windows(), stream)
    feed = Feed(ticks(sorted(packets, key=lambda packet: packet.time_ns), seconds), clock, TICK_NS)
    run = live_run(feed, [looks], clock)
    run.run(Analysis((), source=run.source))
    return Watched(looks.seen, [json.loads(line) for line in stream.getvalue().splitlines()])


@pytest.mark.parametrize(
    ("timeline", "stop_s", "end_s"),
    [
        (working(*TEAM, ELSEWHERE, still_s=(5, 11)), 5, 11),
        (working(Worker("produce", "a", 0.7), Worker("heartbeat", "b", 1), still_s=(8, 14)), 8, 14),
    ],
)
def test_a_broker_that_stops_is_red_within_three_seconds(
    timeline: Timeline, stop_s: float, end_s: float
) -> None:
    seen, lines = watched(timeline)
    times = [time for time, _, _ in seen]
    assert stop_s < times[0] <= stop_s + 3
    assert end_s - 0.3 < times[-1] <= end_s + 1.3
    assert {style for _, _, style in seen} == {"bold white on red"}
    assert seen[0][1].startswith("broker 10.0.0.2:9092 has answered nobody for ")
    told = [line for line in lines if line["capture"]["silent_brokers"]]
    assert (told[0]["time_ns"] - START_NS) / SECOND_NS <= stop_s + 3
    [silent] = told[0]["capture"]["silent_brokers"]
    assert silent["broker"] == "10.0.0.2:9092"
    assert silent["connections"] >= 2


@pytest.mark.parametrize(
    "timeline",
    [
        working(*TEAM),
        # Only writes wait, for followers; fetches are answered.
        working(*TEAM, still_s=(5, 11), slow="produce"),
        # A single client waits.
        working(Worker("produce", "a", 0.7), still_s=(5, 11)),
        # Nobody asks.
        working(Worker(every_s=6), Worker(every_s=6)),
    ],
)
def test_a_broker_that_answers_someone_is_not_silent(timeline: Timeline) -> None:
    seen, lines = watched(timeline)
    assert seen == []
    assert not any(line["capture"]["silent_brokers"] for line in lines)


def test_a_broker_is_silent_if_its_last_response_is_older_than_what_waits() -> None:
    responses = BrokerResponses()
    times = (7, 3, None, 5)
    rows = [row(broker_ip="10.0.0.2", broker_port=9092, response_start_ns=time) for time in times]
    other = row(broker_ip="10.0.0.2", broker_port=9093, response_start_ns=9)
    responses.add(RowBlock.of_rows([*rows, other]))
    responses.add(RowBlock.of_rows(rows[1:]))

    def silent(*waits: BrokerWaits, before_ns: int = 8) -> tuple[SilentBroker, ...]:
        return responses.silent(InFlight(3, (), waits), before_ns)

    assert silent(BrokerWaits(BROKER, 3, 2)) == (SilentBroker(BROKER, 3, 2, 7),)
    assert silent(BrokerWaits(BROKER, 3, 2), before_ns=7) == ()
    assert silent(BrokerWaits(BROKER, 3, 1)) == ()
    # It was never seen to answer: perhaps only requests are captured.
    assert silent(BrokerWaits(Endpoint("10.0.0.3", 9092), 3, 2)) == ()
    assert silent(BrokerWaits(Endpoint("10.0.0.2", 9093), 3, 2)) == ()


def test_the_number_of_brokers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kanalyze.live.silence._MAX_BROKERS", 4)
    responses = BrokerResponses()
    for port in range(20):
        responses.add(
            RowBlock.of_rows(
                [row(broker_ip="10.0.0.2", broker_port=port, response_start_ns=port + 1)]
            )
        )
        assert len(responses._last_ns) <= 4
    assert Endpoint("10.0.0.2", 19) in responses._last_ns
