from __future__ import annotations

import itertools
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.capture.merge import PacketIndex

pytestmark = pytest.mark.usefixtures("scan")


def test_runs_that_continue_are_one():
    index = PacketIndex()
    index.add(0, 1, 10)
    index.add(0, 11, 5)
    index.add(1, 1, 7)
    assert index.runs == 2
    assert [index.find(n) for n in (1, 15, 16, 22)] == [(0, 1), (0, 15), (1, 1), (1, 7)]


def test_numbers_of_no_packet_have_no_place():
    index = PacketIndex()
    assert index.find(1) is None
    index.add(0, 1, 3)
    assert index.find(0) is None
    assert index.find(4) is None


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=30), max_size=8))
def test_each_packet_is_found_however_captures_take_turns(batches):
    index, expected, given_of = PacketIndex(), [], [0, 0, 0, 0]
    for owners in batches:
        within = []
        for owner in owners:
            given_of[owner] += 1
            within.append(given_of[owner])
            expected.append((owner, given_of[owner]))
        starts = [i for i in range(len(owners)) if i == 0 or owners[i] != owners[i - 1]]
        runs = [array("q", [column[start] for start in starts]) for column in (owners, within)]
        index.add_runs(array("q", starts), *runs, len(owners))
    assert [index.find(n + 1) for n in range(len(expected))] == expected
    changes = sum(a[0] != b[0] for a, b in itertools.pairwise(expected))
    assert index.runs == (changes + 1 if expected else 0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.data())
def test_another_table_is_told_the_runs_from_a_packet_on(owners, data):
    index, other, told = PacketIndex(), PacketIndex(), 0
    for number, owner in enumerate(owners, 1):
        index.add(owner, number, 1)
        if number == len(owners) or data.draw(st.booleans()):
            other.add_runs(*index.runs_from(told + 1))
            told = number
    assert [other.find(n) for n in range(len(owners) + 2)] == [
        index.find(n) for n in range(len(owners) + 2)
    ]
    assert other.runs == index.runs


NAMES = ("a.pcap", "b.pcap", "c.pcap", "d.pcap")


@given(
    owners=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    low=st.integers(1, 40),
    high=st.integers(1, 40),
)
def test_the_runs_between_two_packets_locate_each_packet(owners, low, high):
    low, high = sorted((min(low, len(owners)), min(high, len(owners))))
    index = PacketIndex()
    for number, owner in enumerate(owners, 1):
        index.add(owner, number * 3, 1)
    runs = index.runs_between(low, high, 50, NAMES)
    for number in range(low, high + 1):
        run = [run for run in runs if run.first <= number][-1]
        located = run.capture, number + run.shift
        assert located == index.locate(number, NAMES, is_alone=False)


def test_there_are_no_runs_if_a_packet_has_no_place():
    index = PacketIndex(max_runs=2)
    assert index.runs_between(1, 1, 9, NAMES) is None
    for turn in range(4):
        index.add(turn % 2, turn + 1, 1)
    assert index.find(1) is None
    assert index.runs_between(1, 4, 9, NAMES) is None
    assert index.runs_between(4, 5, 9, NAMES) is None
    assert index.runs_between(3, 4, 1, NAMES) is None
    assert index.runs_between(3, 4, 2, NAMES) == [(3, 0, "a.pcap"), (4, 0, "b.pcap")]


def test_the_oldest_runs_are_forgotten_and_the_latest_are_kept():
    index = PacketIndex(max_runs=100)
    for turn in range(5000):
        index.add(turn % 2, turn // 2 + 1, 1)
        assert index.runs <= 125
    assert index.find(1) is None
    assert [index.find(n) for n in range(4901, 5001)] == [
        ((n - 1) % 2, (n - 1) // 2 + 1) for n in range(4901, 5001)
    ]
