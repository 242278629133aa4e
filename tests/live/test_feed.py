"""Interfaces that go and come back; packets selected by expressions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kanalyze.capture.live.capture import LiveCapture
from kanalyze.capture.live.packet_socket import InterfaceState
from kanalyze.errors import CaptureError, UsageError
from kanalyze.live.feed import ExpressionFilter, InterfaceFeed
from kanalyze.live.kept_rows import FindingSearch, KeptRows
from kanalyze.live.run import LiveRun, Sink
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import path
from tests.support.cut_captures import packets_of
from tests.support.few_findings import FEW_FINDINGS
from tests.support.findings import kinds_of
from tests.support.packets import START_NS, Packet, ethernet, ipv4, ipv6, make_batch, segment, tcp

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.live.window.snapshot import CaptureState
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
    for capture.state in (InterfaceState.UP, InterfaceState.DOWN):
        assert [feed.read(0.2) for _ in range(50)] == [None] * 50
    assert capture.opened_at_ns == []
    assert feed.read(0.2) is None
    assert feed.dropped_packets == 3
    assert not feed.is_at_end
    assert not feed.anomalies


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


class Script(Sink):
    """A sink that runs steps, each as soon as its condition holds, and then ends the run."""

    def __init__(self, *steps: tuple[Callable[[], bool], Callable[[], object]]) -> None:
        self._steps = list(steps)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        if self._steps and self._steps[0][0]():
            self._steps.pop(0)[1]()
        return bool(self._steps)


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


def selected(text: str, *packets: Packet) -> list[int]:
    return ExpressionFilter(text).selected(make_batch(list(packets))).tolist()


def test_packets_are_parsed_by_their_link_type():
    ip_packet = ipv4(tcp(50000, 9092))
    packets = [
        Packet(segment()),
        Packet(ip_packet, link_type=101),
        Packet(ip_packet, link_type=228),
        Packet(bytes([2, 0, 0, 0]) + ip_packet, link_type=0),
        Packet(b"\x08\0" + bytes(18) + ip_packet, link_type=276),
        Packet(bytes(14) + b"\x08\0" + ip_packet, link_type=113),
        Packet(ipv4(tcp(1, 2)), link_type=101),
        Packet(segment(client=("fd00::1", 50000), broker=("fd00::2", 9092))),
    ]
    assert selected("tcp port 9092", *packets) == [0, 1, 2, 3, 4, 5, 7]
    assert selected("ip6", *packets) == [7]


def test_lengths_are_those_on_the_wire():
    cut = Packet(segment(payload=bytes(900))[:60], wire_bytes=954)
    assert selected("greater 900", cut, Packet(segment())) == [0]
    # The filter cannot read bytes that were cut off.
    assert selected("tcp[50] = 0 or ether[100] = 0", cut) == []


def test_expressions_may_use_vlans_tunnels_and_flags():
    tagged = Packet(ethernet(ipv4(tcp(50000, 9092)), tags=[0x8100]))
    tunnel = Packet(ethernet(ipv4(ipv4(tcp(50000, 9092)), protocol=4)))
    packets = [Packet(segment(flags=0x02)), tagged, tunnel]
    assert selected("port 9092", *packets) == [0]
    assert selected("tcp") == selected("port 1", *packets) == []
    assert selected("vlan and port 9092", *packets) == [1]
    assert selected("ip proto 4", *packets) == [2]
    assert selected("tcp[tcpflags] & tcp-syn != 0", *packets) == [0]


@pytest.mark.parametrize("text", ["porte 22", "tcp) or (udp", "host no.such.host.invalid"])
def test_an_invalid_expression_is_refused_before_any_packet(text):
    with pytest.raises(UsageError, match=r"^filter '.*': \S"):
        ExpressionFilter(text)


def test_an_expression_is_refused_at_a_link_type_that_it_does_not_fit():
    expression = ExpressionFilter("ether host 02:00:00:00:00:01")
    expression.selected(make_batch([Packet(segment())]))
    with pytest.raises(UsageError, match=r"^filter 'ether host 02:00:00:00:00:01': "):
        expression.selected(make_batch([Packet(ipv6(tcp(), "fd00::1", "fd00::2"), link_type=101)]))
    # Cooked packets have a direction; Ethernet packets have none.
    assert selected("inbound", Packet(bytes(14) + b"\x08\0" + ipv4(tcp()), link_type=113)) == [0]
