from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.net.headers import read_headers
from kanalyze.net.notes import Notes
from kanalyze.net.runs import Run, Steps, cut_into_runs
from kanalyze.net.sorted_batch import SortedBatch
from tests.support.packets import ACK, FIN, RST, SYN, make_batch, segment, timed

OTHER = ("10.0.0.7", 7)


def sort(*packets: bytes) -> SortedBatch:
    return SortedBatch(read_headers(make_batch(timed(packets), 1), Notes()))


def packets_of(batch: SortedBatch, steps: list) -> list:
    """Steps as packet numbers: an odd segment as its own, a run as the list of its."""
    group = next(iter(batch.groups()))
    listed = batch.segments_of(group)
    return [
        [each.packet for each in listed[step.first : step.last]]
        if isinstance(step, Run)
        else step.packet
        for step in steps
    ]


def test_a_connection_is_cut_at_its_syns_and_at_its_first_fin():
    batch = sort(
        segment(flags=SYN, seq=9),
        segment(to_broker=False, flags=SYN | ACK, seq=4),
        segment(seq=10),
        segment(seq=10, payload=b"abc"),
        segment(to_broker=False, seq=5, payload=b"x"),
        segment(flags=FIN | ACK, seq=13),
        segment(to_broker=False, flags=ACK, seq=6),
        segment(to_broker=False, flags=FIN | ACK, seq=6),
        segment(seq=14),
    )
    steps = cut_into_runs(batch)[0]
    assert packets_of(batch, steps) == [1, 2, [3, 4, 5], 6, 7, 8, 9]
    run = steps[2]
    assert (run.lower.packets, run.lower.sequence, run.lower.length) == (2, 10, 3)
    assert (run.higher.packets, run.higher.sequence, run.higher.length) == (1, 5, 1)
    assert run.last_time_ns == max(run.lower.told[1], run.higher.told[1])


def test_payload_that_does_not_follow_is_odd_and_so_is_what_follows_the_place_before():
    batch = sort(
        segment(seq=1, payload=b"ab"),
        segment(seq=3, payload=b"cd"),
        segment(seq=1, payload=b"ab"),
        segment(to_broker=False, seq=5),
        segment(seq=5, payload=b"e"),
        segment(seq=6, payload=b"f"),
    )
    assert packets_of(batch, cut_into_runs(batch)[0]) == [[1, 2], 3, [4], 5, [6]]


def test_groups_without_anything_odd_are_not_cut():
    batch = sort(segment(seq=1), segment(client=OTHER, flags=RST), segment(client=OTHER))
    plain, odd = batch.groups()
    steps = Steps(batch, None)
    assert list(cut_into_runs(batch)) == [odd.number]
    (run,) = steps.of(plain)
    assert [each.packet for each in steps.segments_of(plain, run.first, run.last)] == [1]
    assert [step.packet for step in steps.of(odd)] == [2, 3]


def test_all_steps_are_segments_where_no_runs_are_wanted():
    batch = sort(segment(flags=SYN), segment(seq=1), segment(seq=1, payload=b"a"))
    group = next(batch.groups())
    steps = Steps(batch, np.array([4, 5, 6], np.uint8), with_runs=False)
    assert [(step.packet, step.marks) for step in steps.of(group)] == [(1, 4), (2, 5), (3, 6)]


SENT = st.tuples(
    st.booleans(),
    st.sampled_from([ACK] * 12 + [SYN, SYN | ACK, FIN | ACK, RST, 0]),
    st.integers(0, 3),
    st.sampled_from([0] * 8 + [-2, 1, 5]),
    st.sampled_from([None, OTHER]),
)


@given(st.lists(SENT, min_size=1, max_size=120))
def test_steps_are_all_segments_of_a_group_by_arrival(sent):
    packets, following = [], {}
    for to_broker, flags, size, jump, client in sent:
        sequence = following.get((to_broker, client), 100) + jump
        following[to_broker, client] = sequence + size
        more = {} if client is None else {"client": client}
        packets.append(
            segment(to_broker=to_broker, flags=flags, seq=sequence, payload=b"x" * size, **more)
        )
    batch = sort(*packets)
    marks = np.arange(len(packets)).astype(np.uint8)
    steps = Steps(batch, marks)
    cut = cut_into_runs(batch, marks)
    for group in batch.groups():
        whole = batch.segments_of(group, marks)
        found = []
        for step in steps.of(group):
            if not isinstance(step, Run):
                found.append(step)
                continue
            run = steps.segments_of(group, step.first, step.last)
            assert steps.run_of(group, step.first, step.last) == step
            assert run == whole[step.first : step.last]
            for side, from_higher in ((step.lower, 0), (step.higher, 1)):
                mine = [each for each in run if each.from_higher == from_higher]
                payloads = [each for each in mine if each.length]
                assert side.packets == len(mine)
                assert side.length == sum(each.length for each in mine)
                assert list(range(side.first, side.last)) == [each.rank for each in payloads]
                assert side.breaks == 0
                if mine:
                    assert side.told == (mine[-1].acknowledgment, mine[-1].time_ns, mine[-1].packet)
                if payloads:
                    assert side.sequence == payloads[0].sequence
            found += run
        assert found == whole
        assert (group.number in cut) == (group.has_control or group.has_breaks)
