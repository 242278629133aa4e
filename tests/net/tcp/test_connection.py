from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import pytest

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.streams import Segments
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.connection import HalfOpenConnection, OpenConnection, TimedSegments
from kanalyze.net.tcp.limits import ReassemblyLimits
from kanalyze.net.tcp.reassembly import Reassembler
from kanalyze.net.tcp.segment_iterator import IS_COPY, IS_ZERO_WINDOW, new_segment
from tests.support.cases import for_each
from tests.support.measuring import figures, measured, numbered
from tests.support.packets import (
    ACK,
    FIN,
    RST,
    START_NS,
    SYN,
    Packet,
    make_batch,
    reassemble,
    segment,
    timed,
)
from tests.support.work import calls_of, peak_bytes_of

if TYPE_CHECKING:
    from kanalyze.model.tcp import TcpConnection

PAIRS = {"IPv4": (0x0A000001_0007, 0x0A000002_2384), "IPv6": (1 << 144 | 7, 1 << 144 | 9 << 16 | 5)}
SHARED = Segments(memoryview(b""), [], [], [], [], [])
SECOND = 10**9


def everything(tcp: TcpConnection) -> dict[str, object]:
    plain = ("serial", "endpoints", "connection_number", "opened_by", "first_packet", "start_seen")
    return figures(tcp) | {name: getattr(tcp, name) for name in plain}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@for_each("from_higher", [0, 1])
@for_each("measure", [False, True])
@for_each("marks", [0, IS_COPY, IS_ZERO_WINDOW])
@for_each("end", ["open", "limit", "idle"])
def test_a_half_open_connection_closes_like_a_full_one_with_the_same_syn(
    pair, from_higher, measure, marks, end
):
    syn = new_segment(10, 3, SYN | 0xC0, 0, 0, 0, START_NS, 17, 0, from_higher, marks)
    all_timed = TimedSegments() if measure else None
    state = OpenConnection(pair, syn, 4, ReassemblyLimits(), LayerStats(), all_timed)
    assert state.receive(syn, SHARED)
    state.tcp.serial = 9
    expected = state.close(SHARED, end)
    half_open = HalfOpenConnection(pair, 4, syn, 0)
    half_open.serial = 9
    found = half_open.close(end, measure=measure)
    assert everything(found.connection) == everything(expected.connection)
    assert (found.items, found.closed) == (expected.items, expected.closed)
    assert half_open.syn == syn
    assert half_open.last_time_ns == state.last_time_ns


def syn(port: int, host: int = 1, **changed) -> bytes:
    return segment(flags=SYN, seq=port, client=(f"11.0.{host >> 8}.{host & 255}", port), **changed)


def flood(count: int, first: int = 0) -> list[bytes]:
    return [syn(1024 + index % 60_000, index // 60_000) for index in range(first, first + count)]


@pytest.mark.parametrize("measure", [False, True])
@pytest.mark.parametrize("batch_packets", [1, 2, 3, 0])
def test_a_half_open_connection_continues_as_a_full_one(batch_packets, measure):
    packets = [
        syn(2000),
        syn(2001),
        numbered(7, flags=SYN, seq=2001, client=("11.0.0.1", 2001)),  # sent again
        segment(flags=SYN, seq=99),
        segment(to_broker=False, flags=SYN | ACK, seq=500, ack=100),
        segment(seq=100, ack=501),
        segment(seq=100, ack=501, payload=b"hello"),
        segment(to_broker=False, flags=RST | ACK, ack=2001, client=("11.0.0.1", 2000)),
        segment(flags=FIN | ACK, seq=105, ack=501),
    ]
    found = measured(timed(packets), batch_packets, measure=measure)
    alone = measured(timed(packets), len(packets), measure=measure)
    assert list(map(everything, found)) == list(map(everything, alone))
    assert [tcp.packets for tcp in found] == [(1, 1), (2, 0), (4, 1)]
    assert [tcp.end for tcp in found] == ["reset", "open", "open"]
    assert [tcp.serial for tcp in found] == [1, 2, 3]
    assert found[2].payload_bytes == (5, 0)
    if measure:
        assert found[1].measures.syn_retransmissions == [1, 0]
        assert found[2].measures.handshake_rtt_ns == 2000


def test_the_same_syn_after_a_close_is_late_and_another_one_opens_a_connection():
    client = ("11.0.0.1", 2000)
    packets = [
        syn(2000),
        segment(flags=RST, to_broker=False, ack=2001, client=client),
        syn(2000),
        segment(flags=SYN, seq=9, client=client),
    ]
    done = reassemble(timed(packets), 1)
    assert [tcp.connection_number for tcp in done.connections] == [1, 2]
    assert done.reassembler.counters.late_packets == 1


def test_a_flood_ends_no_other_connection():
    limits = ReassemblyLimits(connections=8, half_open=16)
    talk = [segment(payload=b"x", seq=1, client=("10.0.0.9", 100 + i)) for i in range(8)]
    packets = timed([*talk, *flood(100)])
    done = reassemble(packets, 10, limits, finish=False)
    assert {tcp.endpoints[0].ip for tcp in done.collector.closed} == {"11.0.0.0"}
    assert done.reassembler.open_connections <= 8 + 16
    assert done.reassembler.counters.anomalies[AnomalyKind.CONNECTION_LIMIT] >= 84
    closed = [tcp.endpoints[0].port for tcp in done.collector.closed]
    assert closed == sorted(closed)


def test_an_unanswered_syn_is_closed_when_it_is_idle():
    limits = ReassemblyLimits(idle_ns=4 * SECOND)
    packets = [Packet(syn(2000), START_NS)]
    packets += [
        Packet(segment(payload=b"x", seq=i), START_NS + i * SECOND // 2) for i in range(1, 30)
    ]
    closed = [tcp for tcp in measured(packets, 1, limits) if tcp.end == "idle"]
    assert [tcp.endpoints[0].port for tcp in closed] == [2000]


def feed(packets: list[bytes], limits: ReassemblyLimits | None = None) -> Reassembler:
    reassembler = Reassembler(limits)
    for first in range(0, len(packets), 1000):
        reassembler.feed(make_batch(timed(packets[first : first + 1000]), first + 1))
    return reassembler


@pytest.mark.few(1)
def test_a_syn_costs_a_few_calls_however_many_there_were_before(core):
    few, many = flood(2000), flood(6000)  # most of both are beyond the limits
    limits = ReassemblyLimits(half_open=700, time_wait_pairs=500)
    feed(few, limits)
    built = [calls_of(lambda one=one: make_batches(one)) for one in (few, many)]
    calls = [calls_of(lambda one=one: feed(one, limits)) for one in (few, many)]
    calls_per_syn = [(calls[at] - built[at]) / len(one) for at, one in enumerate((few, many))]
    assert max(calls_per_syn) < (40 if core == "compiled" else 240)
    assert calls_per_syn[1] < 1.5 * calls_per_syn[0]


def make_batches(packets: list[bytes]) -> None:
    for first in range(0, len(packets), 1000):
        make_batch(timed(packets[first : first + 1000]), first + 1)


@pytest.mark.few(1)
def test_a_syn_takes_no_more_memory_than_the_limits_count_with():
    kept = []
    limits = ReassemblyLimits(half_open=10_000)
    packets = flood(8000)
    feed(packets[:1000])  # creates what is created only once
    assert peak_bytes_of(lambda: kept.append(feed(packets, limits))) < 8000 * 512 + (3 << 20)
    assert kept[0].open_connections == 8000


def test_the_oldest_closed_connection_is_found_without_a_search():
    """In a plain dict, Python finds the first key by stepping over all deleted ones before it."""
    reassembler = feed(flood(3000), ReassemblyLimits(half_open=100, time_wait_pairs=50))
    remembered = reassembler._table._time_wait._closed
    assert isinstance(remembered, OrderedDict)
    assert len(remembered) == 50
