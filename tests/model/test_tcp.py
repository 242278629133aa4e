from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.common.saved import load, make, save
from kanalyze.model.tcp import KEPT_NS, MAX_EVENTS, NetworkPath, RoundTripHistory, ip_text

UNKNOWN = -1
MS = 1_000_000


def history(*trips: tuple[int, bool, int]) -> RoundTripHistory:
    made = RoundTripHistory()
    for trip in trips:
        made.add(*trip)
    return made


def test_the_least_round_trip_counts_only_those_up_to_a_packet():
    made = history((30, True, 5), (40, True, 7), (20, True, 9))
    assert [made.least_at(packet) for packet in (4, 5, 8, 9, 100)] == [UNKNOWN, 30, 30, 20, 20]


def test_a_round_trip_that_may_be_delayed_is_only_an_upper_bound():
    made = history((10, False, 1), (30, True, 2), (8, False, 3), (9, True, 4))
    assert [made.least_at(packet) for packet in (1, 2, 3, 4)] == [UNKNOWN, 10, 8, 8]


def test_the_number_of_remembered_falls_is_bounded():
    made = history(*[(10**6 - packet, True, packet) for packet in range(1000)])
    assert len(save(made)[3]) == 64
    made.add(100, True, 1001)
    assert made.least_at(1001) == 100


def test_packets_are_counted_between_two_others():
    path = NetworkPath()
    assert (path.retransmissions(1, 9, 0), path.zero_windows(1, 9, 0)) == (0, 0)
    path.add_retransmission(0, 0, 10, False, 50, 3)
    path.add_zero_window(1, 60, 4)
    path.add_retransmission(1, 5, 10, False, 70, 6)
    assert [path.retransmissions(first, last, 10) for first, last in ((1, 2), (3, 3), (1, 9))] == [
        0,
        1,
        2,
    ]
    assert [path.zero_windows(first, last, 10) for first, last in ((1, 3), (4, 9))] == [0, 1]


EVENTS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=30)


@settings(deadline=None)
@given(EVENTS, st.integers(0, 30), st.booleans(), st.booleans(), st.data())
def test_any_events_are_counted_between_any_packets(events, forgotten, saves, encrypts, data):
    path, packet = NetworkPath(), 0
    packets: list[tuple[int, bool]] = []
    for time_ns, (step, is_resent) in enumerate(events):
        packet += step
        packets.append((packet, is_resent))
        if is_resent:
            path.add_retransmission(0, time_ns, time_ns + 1, False, time_ns, packet)
        else:
            path.add_zero_window(1, time_ns, packet)
    path.forget_before(forgotten)
    if encrypts:
        path.forget_ranges()
    if saves:
        path = make(NetworkPath, save(path))
    last_forgotten = max((number for number, _ in packets[:forgotten]), default=-1)
    for _query in range(4):
        first = data.draw(st.integers(last_forgotten + 1, packet + 2))
        last = data.draw(st.integers(first, packet + 3))
        expected = [are for number, are in packets[forgotten:] if first <= number <= last]
        assert path.retransmissions(first, last, 0) == sum(expected)
        assert path.zero_windows(first, last, 0) == len(expected) - sum(expected)


def test_events_of_a_request_that_took_too_long_are_unknown():
    path = NetworkPath()
    path.add_retransmission(0, 0, 10, False, 50, 3)
    assert path.retransmissions(1, 9, KEPT_NS + 1) == UNKNOWN
    # Before the first event there was none.
    assert path.retransmissions(1, 2, KEPT_NS + 1) == 0
    path.forget_before(51)
    assert path.events == 0
    assert path.retransmissions(1, 9, 10) == UNKNOWN
    assert path.retransmissions(4, 9, 10) == 0


def test_events_are_bounded_and_counts_are_unknown_once_some_are_forgotten():
    path = NetworkPath()
    for packet in range(MAX_EVENTS + 1):
        path.add_zero_window(0, packet, packet)
    assert path.events == MAX_EVENTS // 2 + 1
    assert path.zero_windows(0, MAX_EVENTS, 10) == UNKNOWN
    assert path.zero_windows(MAX_EVENTS // 2, MAX_EVENTS, 10) == MAX_EVENTS // 2 + 1
    path.forget_all()
    assert path.zero_windows(MAX_EVENTS, MAX_EVENTS, 10) == UNKNOWN


@pytest.mark.parametrize(
    ("begin", "end", "last_packet", "until_ns", "expected_ns"),
    [
        (0, 10, 9, 900 * MS, 300 * MS),
        (0, 10, 9, 299 * MS, 100),
        (0, 10, 3, 900 * MS, 100),
        (10, 20, 9, 900 * MS, 100),
    ],
)
def test_the_last_retransmission_of_a_range_is_found(
    begin, end, last_packet, until_ns, expected_ns
):
    path = NetworkPath()
    path.add_retransmission(0, 5, 10, False, 300 * MS, 4)
    path.add_retransmission(1, 5, 10, False, 400 * MS, 5)
    assert path.last_resent_ns(0, begin, end, 2, last_packet, 100, until_ns) == expected_ns
    assert path.last_resent_ns(0, begin, end, 5, last_packet, 100, until_ns) == 100


def test_a_range_without_events_stays_so_until_there_is_one():
    path = NetworkPath()
    path.add_zero_window(0, 10, 10)
    assert [path.zero_windows(first, 30, 5) for first in (11, 12, 10)] == [0, 0, 1]
    path.add_zero_window(0, 20, 20)
    assert [path.zero_windows(first, 30, 5) for first in (11, 20, 21, 11)] == [1, 1, 0, 1]
    assert [path.zero_windows(11, last, 5) for last in (19, 20)] == [0, 1]
    # Without events too, the count is unknown for a request that took too long.
    assert path.zero_windows(11, 19, KEPT_NS + 1) == UNKNOWN


def test_a_probe_of_the_last_packet_does_not_count_as_lost():
    path = NetworkPath()
    path.add_retransmission(0, 0, 10, True, 150 * MS, 4)
    assert path.last_resent_ns(0, 0, 10, 1, 9, 0, 900 * MS) == 0
    path.add_retransmission(0, 0, 10, True, 250 * MS, 5)
    assert path.last_resent_ns(0, 0, 10, 1, 9, 0, 900 * MS) == 250 * MS


def test_a_path_continues_from_its_state():
    path = NetworkPath()
    path.round_trips[1].add(30, True, 2)
    path.add_retransmission(0, 5, 10, True, 300 * MS, 4)
    path.forget_before(0)
    restored = make(NetworkPath, save(path))
    assert save(restored) == save(path)
    restored.add_retransmission(0, 10, 20, False, 310 * MS, 5)
    assert restored.retransmissions(4, 5, 10) == 2
    assert restored.round_trips[1].least_at(3) == 30


@pytest.mark.parametrize("index", range(6, 12))
def test_a_state_with_columns_of_different_lengths_is_refused(index):
    state = list(save(NetworkPath()))
    state[index] = (1,)
    with pytest.raises(ValueError, match="of one length"):
        make(NetworkPath, tuple(state))


def test_a_history_with_columns_of_different_lengths_is_refused():
    with pytest.raises(ValueError, match="round trips"):
        load(RoundTripHistory(), (1, 1, (1, 2), (3,)))


def text6(address: str) -> str:
    number = int(ipaddress.IPv6Address(address))
    return ip_text(number >> 64, number & (1 << 64) - 1, is_ipv6=True)


def test_ipv4_is_a_dotted_quad():
    assert ip_text(0, 0x0A00FF01, is_ipv6=False) == "10.0.255.1"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("2001:0DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        ("::", "::"),
        ("fe80::1", "fe80::1"),
        ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
    ],
)
def test_ipv6_is_written_as_rfc_5952_says(address, text):
    assert text6(address) == text


@settings(deadline=None)
@given(st.integers(0, (1 << 128) - 1))
def test_any_ipv6_address_reads_back_as_itself(number):
    text = ip_text(number >> 64, number & (1 << 64) - 1, is_ipv6=True)
    assert socket.inet_pton(socket.AF_INET6, text) == number.to_bytes(16, "big")
