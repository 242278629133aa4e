"""Our rows, compared with tshark's in TCP, packet numbers and headers.

tshark is a poor oracle for bodies: it leaves out messages whose body it takes for malformed. So
each message it shows has to be among ours, in its order; where it shows a request at all in a
packet, ours has the same key, version and correlation id.

Without tshark this file is not collected (see conftest.py, which says so).
"""

from __future__ import annotations

import functools
import subprocess
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from tests.support.captures import NAMES, analysis, often, path, truth

CLEAR = [name for name in NAMES if name != "tls"]
# No request of this capture is answered.
ANSWERED = [name for name in CLEAR if name != "fault-plaintext-to-tls"]
# In a snapped capture, tshark continues at the next packet and takes record data for requests.
WHOLE = [name for name in CLEAR if name != "snaplen"]
SHOWN = ("errors", "ipv6", "old-0-8-2-2", "sasl", "transactions")


class TsharkPacket(NamedTuple):
    """The fields of a TCP packet; values of several messages are separated by commas."""

    number: str
    stream: str
    source_port: str
    api_keys: str
    api_versions: str
    correlation_ids: str
    request_packets: str


FIELDS = ("frame.number", "tcp.stream", "tcp.srcport", "kafka.request_key")
FIELDS += ("kafka.request.version", "kafka.correlation_id", "kafka.request_frame")


@functools.cache
def tshark(name: str) -> list[TsharkPacket]:
    """The TCP packets of a capture; tshark runs once for each capture."""
    shown = [part for field in FIELDS for part in ("-e", field)]
    command = ["tshark", "-r", str(path(name)), *as_kafka(name), "-Y", "tcp", "-T", "fields"]
    done = subprocess.run([*command, *shown], capture_output=True, check=True, text=True)
    return [TsharkPacket(*line.split("\t")) for line in done.stdout.splitlines()]


def ports(name: str) -> list[int]:
    return sorted({row.broker_port for row in analysis(name)[0]})


def as_kafka(name: str) -> list[str]:
    return [part for port in ports(name) for part in ("-d", f"tcp.port=={port},kafka")]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(NAMES, SHOWN))
def test_tshark_sees_the_same_tcp_connections_and_as_many_tcp_packets(name: str) -> None:
    packets = tshark(name)
    assert analysis(name)[1].tcp_packets == len(packets)
    assert analysis(name)[1].connections == len({packet.stream for packet in packets})


@pytest.mark.few(3)
@pytest.mark.parametrize("name", often(WHOLE, SHOWN))
def test_every_request_that_tshark_shows_is_ours_in_its_order(name: str) -> None:
    theirs: dict[int, list[tuple[str, str, str]]] = defaultdict(list)
    for packet in tshark(name):
        if not packet.api_keys:
            continue
        shown = (packet.api_keys, packet.api_versions, packet.correlation_ids)
        parts = [values.split(",") for values in shown]
        if len({len(part) for part in parts}) != 1:
            continue  # a packet with a response to no request in it has more ids than keys
        theirs[int(packet.source_port)].extend(zip(*parts, strict=True))
    ours: dict[int, list[tuple[str, str, str]]] = defaultdict(list)
    for row in sorted(analysis(name)[0], key=lambda row: row.request_packet or 0):
        if row.request_packet is not None:
            key = (str(row.api_key), str(row.api_version), str(row.correlation_id))
            ours[row.client_port].append(key)
    assert sum(map(len, theirs.values())) > 0.9 * sum(map(len, ours.values()))
    for port, messages in theirs.items():
        assert is_subsequence(messages, ours[port]), port


def is_subsequence(part: list[tuple[str, str, str]], whole: list[tuple[str, str, str]]) -> bool:
    rest = iter(whole)
    return all(message in rest for message in part)


@pytest.mark.parametrize("name", often(ANSWERED, SHOWN))
def test_tshark_pairs_the_same_packets(name: str) -> None:
    """Where tshark pairs two packets (it leaves out many), ours are the same two."""
    theirs = {
        (int(packet.request_packets), int(packet.number), int(packet.correlation_ids))
        for packet in tshark(name)
        if packet.request_packets
        if "," not in packet.request_packets + packet.correlation_ids
    }
    # tshark gives the packet that completed a message; ours is the one with its first byte.
    ends: dict[tuple[int, int], set[int]] = defaultdict(set)
    rows = [row for row in analysis(name)[0] if row.response_packet and row.request_packet]
    for row in rows:
        ends[row.correlation_id or 0, row.request_packet or 0].add(row.response_packet or 0)
    same = Counter()
    for request, response, correlation_id in theirs:
        begun = ends.get((correlation_id, request))
        if begun is not None:
            same[any(first <= response for first in begun)] += 1
    assert same[False] == 0
    # The rest are requests over several packets, of which tshark names the last.
    assert same[True] >= 0.8 * len(theirs) > 0


def test_the_oracle_is_asked_about_every_clear_capture() -> None:
    assert len(CLEAR) >= 8
    assert all("packets" in truth(name) for name in CLEAR)
