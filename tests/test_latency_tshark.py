"""Retransmissions and round trips of each request, compared with tshark's.

tshark knows no duplicates: a capture that holds packets twice is left out. Without tshark this file
is not collected (see conftest.py).
"""

from __future__ import annotations

import functools
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field

import pytest

import kanalyze
from tests.support.captures import FOLDER, NAMES, analysis, often, path

FIELDS = (
    *("frame.time_epoch", "ip.src", "ipv6.src", "tcp.srcport", "ip.dst", "ipv6.dst"),
    *("tcp.dstport", "tcp.len", "tcp.analysis.retransmission", "tcp.analysis.zero_window"),
    *("tcp.analysis.ack_rtt", "tcp.analysis.initial_rtt"),
)


@dataclass
class Stream:
    """Times of packets in ns, and round trips, of a connection as tshark sees it."""

    resent: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    initial_rtts: list[int] = field(default_factory=list)
    rtts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By the end that acknowledged."""


ONCE = [name for name in NAMES if name != "any"]
OFTEN = ("basics", "ipv6", "old-0-8-2-2", "snaplen", "transactions")


def nanoseconds(seconds: str) -> int:
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 10**9 + int(fraction.ljust(9, "0")[:9])


@functools.cache
def streams(file: str) -> dict[frozenset[str], Stream]:
    shown = [part for name in FIELDS for part in ("-e", name)]
    done = subprocess.run(
        ["tshark", "-r", file, "-T", "fields", *shown], capture_output=True, check=True, text=True
    )
    found: dict[frozenset[str], Stream] = defaultdict(Stream)
    for line in done.stdout.splitlines():
        time, ip, ipv6, port, to_ip, to_ipv6, to_port, size, again, closed, rtt, initial = (
            line.split("\t")
        )
        if not port:
            continue
        sender = f"[{ipv6}]:{port}" if ipv6 else f"{ip}:{port}"
        receiver = f"[{to_ipv6}]:{to_port}" if to_ipv6 else f"{to_ip}:{to_port}"
        stream = found[frozenset((sender, receiver))]
        if again and int(size):
            stream.resent.append(nanoseconds(time))
        if closed:
            stream.closed.append(nanoseconds(time))
        if rtt:
            stream.rtts[sender].append(nanoseconds(rtt))
        if initial:
            stream.initial_rtts.append(nanoseconds(initial))
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(ONCE, OFTEN))
def test_retransmissions_within_a_request_are_those_of_tshark(name: str) -> None:
    tshark_streams = streams(str(path(name)))
    for row in analysis(name)[0]:
        if row.retransmitted_packets is None or row.response_end_ns is None:
            continue
        stream = tshark_streams[frozenset(row.connection.split(">"))]
        first, last = row.request_start_ns or 0, row.response_end_ns
        assert row.retransmitted_packets == sum(first <= time <= last for time in stream.resent)
        assert row.zero_windows == sum(first <= time <= last for time in stream.closed)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", often(ONCE, OFTEN))
def test_round_trips_lie_within_those_of_tshark(name: str) -> None:
    tshark_streams = streams(str(path(name)))
    for row in analysis(name)[0]:
        client, broker = row.connection.split(">")
        stream = tshark_streams[frozenset((client, broker))]
        ways = (row.broker_network_ns, broker), (row.client_network_ns, client)
        for way_ns, end in ways:
            # A round trip longer than the latency is cut to it.
            if way_ns is not None and way_ns != row.latency_ns:
                assert way_ns >= min(stream.rtts[end])
        both = row.broker_network_ns, row.client_network_ns
        if stream.initial_rtts and None not in both:
            assert sum(each or 0 for each in both) <= max(stream.initial_rtts)


@pytest.mark.few(1)
@pytest.mark.parametrize("place", ["client", "between", "broker"])
def test_the_handshake_over_a_long_way_is_what_tshark_says(place: str) -> None:
    file = str(FOLDER / "latency" / f"{place}.pcap")
    (stream,) = streams(file).values()
    (connection,) = kanalyze.connections(file)
    assert {connection.handshake_rtt_ns} == set(stream.initial_rtts)
    assert 25_000_000 <= min(stream.initial_rtts) <= 28_000_000
