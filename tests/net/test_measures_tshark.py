"""Figures of connections, compared with tshark's, packet for packet.

Definitions are the same except for these, which are tested as relations:

- tshark times acknowledgments of SYN, FIN and empty segments too, and those that a RST carries;
  here only data is compared, and a RST acknowledges nothing.
- tshark times retransmitted segments (Karn's rule forbids it).
- tshark gives a handshake of a refused connection.
- tshark knows no duplicates: it takes packets captured twice for retransmissions. So duplicates are
  tested with captures in which this file doubles each packet.

Without tshark this file is not collected (see conftest.py).
"""

from __future__ import annotations

import functools
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from kanalyze.capture.reader import open_capture
from kanalyze.common.saved import save
from kanalyze.net.tcp.reassembly import Reassembler
from tests.support.captures import NAMES, often, path
from tests.support.measuring import figures, measured
from tests.support.packets import Packet, pcap_file

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.model.tcp import TcpConnection

CHOSEN = ("any", "basics", "ipv6", "large", "snaplen")
EVERY = [name if name in CHOSEN else pytest.param(name, marks=pytest.mark.long) for name in NAMES]
FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "tcp.stream",
    "ip.src",
    "ipv6.src",
    "tcp.srcport",
    "tcp.len",
    "tcp.seq_raw",
    "tcp.flags.fin",
    "tcp.flags.reset",
    "tcp.analysis.ack_rtt",
    "tcp.analysis.acks_frame",
    "tcp.analysis.initial_rtt",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.zero_window",
    "tcp.analysis.keep_alive",
)


@dataclass
class Stream:
    """tshark's figures of a connection; pairs by sender, the first sender first."""

    handshake_ns: int | None = None
    closed_time_ns: int | None = None
    counts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    samples: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))


def tshark(file: Path) -> list[dict[str, str]]:
    shown = [part for name in FIELDS for part in ("-e", name)]
    command = ["tshark", "-r", str(file), "-T", "fields", *shown]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return [dict(zip(FIELDS, line, strict=True)) for line in lines]


@functools.cache
def streams(file: Path) -> list[Stream]:
    """tshark's connections, in its order, which is that of their first packets."""
    found: dict[int, Stream] = {}
    first: dict[int, tuple[str, ...]] = {}
    frames = {row["frame.number"]: row for row in tshark(file)}
    sent = defaultdict(list)
    for row in frames.values():
        if row["tcp.len"] not in ("", "0"):
            sent[sender_of(row)].append(row)
    for row in (row for row in frames.values() if row["tcp.stream"]):
        number = int(row["tcp.stream"])
        sender = sender_of(row)
        direction = int(sender != first.setdefault(number, sender))
        stream = found.setdefault(number, Stream())
        size = int(row["tcp.len"])
        stream.counts["packets"][direction] += 1
        stream.counts["payload_bytes"][direction] += size
        stream.counts["retransmitted"][direction] += bool(
            row["tcp.analysis.retransmission"] and size
        )
        stream.counts["out_of_order"][direction] += bool(row["tcp.analysis.out_of_order"])
        stream.counts["zero_window"][direction] += bool(row["tcp.analysis.zero_window"])
        stream.counts["keep_alive"][direction] += bool(row["tcp.analysis.keep_alive"])
        if stream.closed_time_ns is None and (is_set(row, "fin") or is_set(row, "reset")):
            stream.closed_time_ns = nanoseconds(row["frame.time_epoch"])
        if row["tcp.analysis.initial_rtt"]:
            stream.handshake_ns = nanoseconds(row["tcp.analysis.initial_rtt"])
        if row["tcp.analysis.acks_frame"] and not is_set(row, "reset"):
            data = frames[row["tcp.analysis.acks_frame"]]
            if int(data["tcp.len"]) and not sent_again(data, row, sent[sender_of(data)]):
                stream.samples[1 - direction].append(nanoseconds(row["tcp.analysis.ack_rtt"]))
    return [found[number] for number in sorted(found)]


def nanoseconds(seconds: str) -> int:
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 10**9 + int(fraction.ljust(9, "0"))


def is_set(row: dict[str, str], flag: str) -> bool:
    return row[f"tcp.flags.{flag}"] in ("1", "True")


def sender_of(row: dict[str, str]) -> tuple[str, ...]:
    return (row["tcp.stream"], row["ip.src"] or row["ipv6.src"], row["tcp.srcport"])


def sent_again(data: dict[str, str], ack: dict[str, str], sent: list[dict[str, str]]) -> bool:
    """Return true if a byte of a segment was in another one before it was acknowledged."""
    start = int(data["tcp.seq_raw"])
    end = start + int(data["tcp.len"])
    return any(
        int(row["frame.number"]) < int(ack["frame.number"])
        and row is not data
        and int(row["tcp.seq_raw"]) < end
        and start < int(row["tcp.seq_raw"]) + int(row["tcp.len"])
        for row in sent
    )


def packets_of(name: str) -> list[Packet]:
    with open_capture(str(path(name))) as reader:
        return [
            Packet(
                bytes(batch.buffer[batch.offset[i] :][: batch.captured_bytes[i]]),
                int(batch.time_ns[i]),
                int(batch.wire_bytes[i]),
                int(batch.link_type[i]),
            )
            for batch in reader.batches(1)
            for i in range(len(batch))
        ]


@functools.cache
def ours(name: str) -> list[TcpConnection]:
    return measured(packets_of(name))


def both(name: str) -> list[tuple[Stream, TcpConnection]]:
    return list(zip(streams(path(name)), ours(name), strict=True))


@pytest.mark.few(5)
@pytest.mark.parametrize("name", EVERY)
def test_tshark_has_the_same_counts_and_handshakes(name: str) -> None:
    known = 0
    for theirs, connection in both(name):
        measures = connection.measures
        assert measures is not None
        assert tuple(theirs.counts["packets"]) == connection.packets
        assert tuple(theirs.counts["payload_bytes"]) == connection.payload_bytes
        assert theirs.counts["retransmitted"] == measures.retransmitted_packets
        assert tuple(theirs.counts["out_of_order"]) == connection.out_of_order_packets
        assert theirs.counts["zero_window"] == measures.zero_window_packets
        assert theirs.counts["keep_alive"] == measures.keep_alive_packets
        assert measures.duplicate_packets == [0, 0]
        if measures.handshake_rtt_ns is None:
            refused = connection.end == "reset" and connection.payload_bytes == (0, 0)
            assert theirs.handshake_ns is None or refused
        else:
            assert measures.handshake_rtt_ns == theirs.handshake_ns
            known += 1
    assert known > 0


@pytest.mark.few(8)
@pytest.mark.parametrize("name", [*EVERY, "fault-killed", "fault-idle", "fault-network"])
def test_tshark_sees_the_same_first_fin_or_rst(name: str) -> None:
    closed = 0
    for theirs, connection in both(name):
        assert connection.measures is not None
        assert connection.measures.closed_time_ns == theirs.closed_time_ns
        assert (connection.closed_by is None) == (theirs.closed_time_ns is None)
        closed += theirs.closed_time_ns is not None
    assert closed > 0


@pytest.mark.parametrize("name", EVERY)
def test_tshark_times_the_same_acknowledgments(name: str) -> None:
    compared = 0
    for theirs, connection in both(name):
        assert connection.measures is not None
        for samples, trips in zip(theirs.samples, connection.measures.round_trips, strict=True):
            assert len(samples) == trips.samples
            assert sum(samples) == trips.total_ns
            assert min(samples, default=None) == trips.least_ns
            assert max(samples, default=None) == trips.most_ns
            compared += len(samples)
    assert compared > 50


@pytest.mark.few(3)
@pytest.mark.parametrize("name", EVERY)
def test_a_real_talk_has_the_same_figures_in_any_batches(name: str) -> None:
    whole = [figures(connection) for connection in ours(name)]
    with open_capture(str(path(name))) as reader:
        reassembler = Reassembler(measure=True)
        closed = [
            u.connection for b in reader.batches(1) for u in reassembler.feed(b).updates if u.closed
        ]
        closed += [update.connection for update in reassembler.finish().updates]
    closed.sort(key=lambda connection: connection.serial)
    assert [figures(connection) for connection in closed] == whole
    assert [figures(connection) for connection in measured(packets_of(name), 7)] == whole


@pytest.mark.parametrize("name", ["any", "basics", "ipv6", "large", "snaplen"])
def test_packets_captured_twice_add_only_duplicates(name: str) -> None:
    packets = packets_of(name)
    doubled = [
        copy
        for packet in packets
        for copy in (packet, replace(packet, time_ns=packet.time_ns + 2_000))
    ]
    pairs = zip(ours(name), measured(doubled), strict=True)
    for once, twice in pairs:
        one, two = once.measures, twice.measures
        assert one is not None
        assert two is not None
        for index in (0, 1):
            # The copy of the last packet comes when the connection is over.
            missing = 2 * once.packets[index] - twice.packets[index]
            assert missing in (0, 1)
            assert two.duplicate_packets[index] == once.packets[index] - missing
        assert twice.unique_bytes == once.unique_bytes
        assert twice.retransmitted_bytes == once.retransmitted_bytes
        assert twice.out_of_order_packets == once.out_of_order_packets
        for pair in ("retransmitted", "keep_alive", "zero_window", "fin", "reset"):
            attribute = f"{pair}_packets"
            assert getattr(two, attribute) == getattr(one, attribute)
        assert two.syn_retransmissions == one.syn_retransmissions == [0, 0]
        assert two.handshake_rtt_ns == one.handshake_rtt_ns
        assert [save(trips) for trips in two.round_trips] == [
            save(trips) for trips in one.round_trips
        ]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(["any", "basics", "large"], ["any", "basics"]))
def test_the_same_acknowledgments_are_timed_with_every_tenth_packet_missing(
    name: str, tmp_path: Path
) -> None:
    packets = packets_of(name)
    kept = [packet for number, packet in enumerate(packets) if number % 10 != 3]
    file = tmp_path / "lossy.pcap"
    file.write_bytes(pcap_file(kept, link_type=kept[0].link_type))
    compared = 0
    for theirs, connection in zip(streams(file), measured(kept), strict=True):
        assert connection.measures is not None
        assert connection.packets == tuple(theirs.counts["packets"])
        for samples, trips in zip(theirs.samples, connection.measures.round_trips, strict=True):
            assert (len(samples), sum(samples)) == (trips.samples, trips.total_ns)
            compared += len(samples)
    assert compared > 30
