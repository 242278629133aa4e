from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kanalyze.capture.live.capture import LiveCapture
from kanalyze.capture.live.packet_socket import InterfaceState
from kanalyze.errors import CaptureError
from kanalyze.live.feed import InterfaceFeed
from kanalyze.live.kept_rows import FindingSearch, KeptRows
from kanalyze.live.run import LiveRun
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import path
from tests.support.cut_captures import packets_of
from tests.support.few_findings import FEW_FINDINGS
from tests.support.findings import kinds_of
from tests.support.packets import START_NS, Packet, make_batch, segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.model.packets import PacketBatch
    from kanalyze.tables.columns.block import RowBlock
    from tests.support.netns import Namespace

MS = 1_000_000
TICK_NS = 200 * MS


class Clock:
    ns = 0

    def __call__(self) -> int:
        return self.ns


class Capture:
    """A fake capture whose interface the test removes and restores; each read takes a tick."""

    def __init__(self, clock: Clock) -> None:
        self.state = InterfaceState.UP
        self.dropped_packets = 3
        self.batches = []
        self.opened_at_ns: list[int] = []
        self.is_back = False
        self._clock = clock

    def read(self, timeout_s: float):
        self._clock.ns += TICK_NS
        return self.batches.pop(0) if self.batches else None

    def reopen(self) -> bool:
        self.opened_at_ns.append(self._clock.ns)
        if self.is_back:
            self.state = InterfaceState.UP
        return self.is_back


@pytest.fixture
def feed_and_capture() -> tuple[InterfaceFeed, Capture]:
    clock = Clock()
    capture = Capture(clock)
    return InterfaceFeed(capture, clock), capture


def test_packets_and_drops_are_those_of_the_interface(feed_and_capture):
    feed, capture = feed_and_capture
    batch = make_batch([Packet(segment(), START_NS)])
    capture.batches = [batch]
    assert feed.read(0.2) is batch
    assert feed.read(0.2) is None
    assert feed.dropped_packets == 3
    assert not feed.is_at_end
    assert not feed.anomalies


@pytest.mark.parametrize("state", [InterfaceState.UP, InterfaceState.DOWN])
def test_a_present_interface_is_not_reopened(feed_and_capture, state):
    feed, capture = feed_and_capture
    capture.state = state
    assert [feed.read(0.2) for _ in range(50)] == [None] * 50
    assert capture.opened_at_ns == []


def test_a_removed_interface_is_reopened_within_a_second_of_its_return(feed_and_capture):
    feed, capture = feed_and_capture
    capture.state = InterfaceState.REMOVED
    for _ in range(11):
        feed.read(0.2)
    assert capture.opened_at_ns == [200 * MS, 1200 * MS, 2200 * MS]
    capture.is_back = True
    for _ in range(10):
        feed.read(0.2)
    assert capture.opened_at_ns[3:] == [3200 * MS]


def test_buffered_packets_of_a_removed_interface_are_read_first(feed_and_capture):
    feed, capture = feed_and_capture
    capture.state = InterfaceState.REMOVED
    batch = make_batch([Packet(segment(), START_NS)])
    capture.batches = [batch] * 20
    assert [feed.read(0.2) for _ in range(20)] == [batch] * 20
    assert capture.opened_at_ns == []
    assert feed.read(0.2) is None
    assert len(capture.opened_at_ns) == 1


def test_a_returned_interface_without_the_right_to_capture_is_an_error(
    feed_and_capture, monkeypatch
):
    feed, capture = feed_and_capture

    def refuse() -> bool:
        raise CaptureError("eth0: no right to capture")

    capture.state = InterfaceState.REMOVED
    monkeypatch.setattr(capture, "reopen", refuse)
    with pytest.raises(CaptureError, match="no right"):
        feed.read(0.2)


class Script:
    """A sink that runs steps, each as soon as its condition holds, and then ends the run."""

    def __init__(self, *steps: tuple[Callable[[], bool], Callable[[], object]]) -> None:
        self._steps = list(steps)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        if not self._steps:
            return False
        is_due, do = self._steps[0]
        if is_due():
            do()
            del self._steps[0]
        return bool(self._steps)

    def add_packets(self, packets: PacketBatch) -> None:
        """Do nothing."""

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Do nothing."""

    def roll(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def rings() -> int:
    """Return the number of packet rings that this process shares with the kernel."""
    return Path("/proc/self/maps").read_text().count("socket:[")


def test_a_recreated_interface_keeps_only_one_ring(namespace: Namespace) -> None:
    """No packets come meanwhile, and other objects still hold the last batch."""
    packets = [packet.data for packet in packets_of(path("ipv6"))]
    ring_counts: list[int] = []

    def recreate() -> None:
        namespace.ip("link", "del", "one")
        add_pair()

    def add_pair() -> None:
        namespace.add_pair()
        for name in ("one", "other"):
            namespace.ip("link", "set", name, "mtu", "65000")

    before = rings()
    add_pair()
    with namespace.inside(), LiveCapture("other", buffer_bytes=4 << 20) as capture:
        script = Script(
            (lambda: True, lambda: namespace.send(packets)),
            (lambda: capture.packets == len(packets), recreate),
            (
                lambda: capture.state is InterfaceState.UP,
                lambda: ring_counts.append(rings() - before),
            ),
            (lambda: True, lambda: namespace.send(packets)),
            (lambda: capture.packets == 2 * len(packets), lambda: None),
        )
        run = LiveRun(
            InterfaceFeed(capture, time.monotonic_ns),
            "live:other",
            [script],
            clock_ns=time.monotonic_ns,
            is_over=lambda: False,
            should_roll=lambda: False,
            now_ns=time.time_ns(),
            kept=KeptRows(FindingSearch(kinds_of(*FEW_FINDINGS), pytest.fail)),
        )
        report = run.run(Analysis((), source=run.source))
    assert ring_counts == [1]
    assert rings() == before
    assert report["capture"]["packets"] == 2 * len(packets)
