from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.duplicates import (
    IDENTIFIED_NS,
    UNIDENTIFIED_NS,
    WITHIN_PACKETS,
    DuplicateDetector,
)
from tests.support.measuring import at, numbered
from tests.support.packets import ACK, FIN, START_NS, Packet, make_batch

BATCHES = pytest.mark.parametrize("batch_packets", [0, 1, 2])
CLIENT_V6, BROKER_V6 = ("2001:db8::1", 50000), ("2001:db8::2", 9092)


def copies(packets: list[Packet], batch_packets: int = 0) -> list[bool]:
    """Return for each packet whether it is a copy."""
    finder, found = DuplicateDetector(), []
    size = batch_packets or len(packets)
    for first in range(0, len(packets), size):
        batch = make_batch(packets[first : first + size], first + 1)
        segments = read_headers(batch, LayerStats())
        all_at_once = list(map(bool, finder.find(segments)))
        lookback = finder.lookback(segments)
        assert [lookback.is_copy(row) for row in range(len(segments))] == all_at_once
        found += all_at_once
        finder.remember(segments)
    return found


def pair(first: bytes, second: bytes, apart_ns: int = 1000) -> list[Packet]:
    return at((START_NS, first), (START_NS + apart_ns, second))


@BATCHES
def test_the_same_packet_soon_after_is_a_copy_and_the_first_is_none(batch_packets):
    one, other = numbered(7, payload=b"a"), numbered(8, seq=1, payload=b"b")
    packets = [Packet(data, START_NS + i) for i, data in enumerate([one, other, one, one, other])]
    assert copies(packets, batch_packets) == [False, False, True, True, True]


@BATCHES
@pytest.mark.parametrize(
    "changes",
    [
        {"identification": 8},
        {"window": 64999},
        {"checksum": 1},
        {"seq": 1},
        {"ack": 1},
        {"flags": FIN | ACK},
        {"payload": b"bc"},
        {"client": ("10.0.0.1", 50001)},
        {"broker": ("10.0.0.3", 9092)},
        {"to_broker": False},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_packet_that_differs_in_its_header_is_no_copy(changes, batch_packets):
    plain = {"identification": 7, "payload": b"a"}
    packets = pair(numbered(**plain), numbered(**(plain | changes)))
    assert copies(packets, batch_packets) == [False, False]


@BATCHES
def test_a_copy_with_an_identification_may_come_later_than_one_without(batch_packets):
    named, unnamed = numbered(7), numbered(0)
    six = numbered(client=CLIENT_V6, broker=BROKER_V6)
    for packet, limit_ns in ((named, IDENTIFIED_NS), (unnamed, UNIDENTIFIED_NS)):
        assert copies(pair(packet, packet, limit_ns), batch_packets) == [False, True]
        assert copies(pair(packet, packet, limit_ns + 1), batch_packets) == [False, False]
    assert copies(pair(six, six, UNIDENTIFIED_NS), batch_packets) == [False, True]
    assert copies(pair(six, six, UNIDENTIFIED_NS + 1), batch_packets) == [False, False]


def test_a_copy_may_have_the_earlier_time():
    assert copies(pair(numbered(7), numbered(7), -1000)) == [False, True]


@pytest.mark.few(2)
@pytest.mark.parametrize("batch_packets", [0, 1000])
def test_copies_are_looked_for_among_the_last_packets_only(batch_packets):
    others = [numbered(i % 65535 + 1, seq=i) for i in range(WITHIN_PACKETS)]
    near = [numbered(7, seq=9_000_000), *others[:-1], numbered(7, seq=9_000_000)]
    far = [numbered(7, seq=9_000_000), *others, numbered(7, seq=9_000_000)]
    for packets, is_copy in ((near, True), (far, False)):
        found = copies([Packet(data) for data in packets], batch_packets)
        assert found == [False] * (len(packets) - 1) + [is_copy]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=30), st.integers(1, 7))
def test_copies_are_those_that_a_dictionary_finds_in_any_batches(choices, batch_packets):
    packets, seen, expected, now = [], {}, [], START_NS
    for identification, payload in choices:
        now += 400_000
        packets.append(Packet(numbered(identification, payload=b"x" * payload), now))
        allowed_ns = IDENTIFIED_NS if identification else UNIDENTIFIED_NS
        before = seen.get((identification, payload))
        expected.append(before is not None and now - before <= allowed_ns)
        seen[identification, payload] = now
    if packets:
        assert copies(packets) == expected
        assert copies(packets, batch_packets) == expected
