from __future__ import annotations

import itertools
import random
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.tcp import Endpoint
from kanalyze.net.tcp.limits import ReassemblyLimits
from kanalyze.net.tcp.reassembly import Reassembler
from tests.support.cases import examples, for_each
from tests.support.measuring import check_figures_in_batches, figures, numbered
from tests.support.packets import (
    ACK,
    BROKER,
    CLIENT,
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

STEADY = settings(deadline=None)
TEXT = bytes(random.Random(5).randbytes(4000))
BATCHES = for_each("batch_packets", [0, 1, 2, 3, 7])


def data(start: int, end: int, isn: int = 0, **named) -> bytes:
    """A segment of the client with ``TEXT[start:end]``, where ``isn + 1`` is byte 0."""
    return segment(seq=isn + 1 + start, payload=TEXT[start:end], **named)


def answer(ack: int, isn: int = 0, **named) -> bytes:
    """The broker's acknowledgment of everything before byte ``ack``."""
    return segment(to_broker=False, seq=901, ack=isn + 1 + ack, **named)


def opening(isn: int = 0, **named) -> list[bytes]:
    return [
        segment(seq=isn, flags=SYN, **named),
        segment(to_broker=False, seq=900, ack=isn + 1, flags=SYN | ACK, **named),
        segment(seq=isn + 1, ack=901, **named),
    ]


def closing(at: int, isn: int = 0) -> list[bytes]:
    """Both ends close; the client after ``at`` bytes, the broker without sending data."""
    return [
        segment(seq=isn + 1 + at, ack=901, flags=FIN | ACK),
        segment(to_broker=False, seq=901, ack=isn + 2 + at, flags=FIN | ACK),
        segment(seq=isn + 2 + at, ack=902),
    ]


# Segments in order


@BATCHES
@pytest.mark.parametrize("isn", [0, 0xFFFFFFFF, 0xFFFFFF00, 0x7FFFFF00])
def test_segments_in_order_are_the_stream(batch_packets, isn):
    packets = [*opening(isn), data(0, 500, isn), data(500, 501, isn), data(501, 4000, isn)]
    done = reassemble(timed(packets), batch_packets)
    assert done.data() == TEXT
    assert done.anomalies == []
    (connection,) = done.connections
    assert connection.endpoints == (Endpoint(*CLIENT), Endpoint(*BROKER))
    assert connection.opened_by == 0
    assert connection.connection_number == connection.serial == 1
    assert connection.packets == (5, 1)
    assert connection.payload_bytes == (4000, 0)
    assert connection.retransmitted_bytes == connection.lost_bytes == (0, 0)
    assert (connection.first_time_ns, connection.last_time_ns) == (START_NS, START_NS + 5000)
    assert done.stream().packets == [
        (4, 0, START_NS + 3000),
        (5, 500, START_NS + 4000),
        (6, 501, START_NS + 5000),
    ]


@BATCHES
def test_streams_captured_from_the_middle_begin_with_the_first_byte_seen(batch_packets):
    packets = [answer(100), data(100, 200), data(200, 300)]
    done = reassemble(timed(packets), batch_packets)
    assert done.data(direction=1) == TEXT[100:300]
    assert done.connections[0].opened_by is None
    assert done.connections[0].endpoints[0] == Endpoint(*BROKER)


@BATCHES
def test_both_directions_of_ping_pong_are_streams(batch_packets):
    packets, sent, received = opening(), b"", b""
    for i in range(0, 1000, 50):
        packets.append(segment(seq=1 + len(sent), ack=901 + len(received), payload=TEXT[i : i + 7]))
        sent += TEXT[i : i + 7]
        packets.append(
            segment(
                to_broker=False,
                seq=901 + len(received),
                ack=1 + len(sent),
                payload=TEXT[i : i + 31],
            )
        )
        received += TEXT[i : i + 31]
    done = reassemble(timed(packets), batch_packets)
    assert (done.data(), done.data(direction=1)) == (sent, received)


def test_segments_in_order_are_one_chunk_over_the_lists_of_the_batch():
    reassembler = Reassembler()
    reassembler.feed(make_batch(timed(opening())))
    ports = [(CLIENT[0], port) for port in (50000, 50001)]
    packets = [data(i, i + 10, client=client) for i in range(0, 100, 10) for client in ports]
    updates = reassembler.feed(make_batch(timed(packets), 4)).updates
    (first,), (second,) = (update.items[0] for update in updates)
    assert first.segments is second.segments
    assert first.last - first.first == 10
    assert {type(i) for i in first.segments.start + first.segments.time_ns} == {int}


def test_connections_are_numbered_by_their_first_packets():
    clients = [("10.9.9.9", 7), ("10.0.0.1", 3), ("2001:db8::7", 5), ("10.0.0.1", 2)]
    packets = []
    for turn in range(3):
        for client in clients:
            broker = ("2001:db8::1", 9092) if ":" in client[0] else BROKER
            packets.append(data(turn * 10, turn * 10 + 10, client=client, broker=broker))
    for batch_packets in (0, 1, 5):
        done = reassemble(timed(packets), batch_packets)
        assert [tuple(c.endpoints[0]) for c in done.connections] == clients
        assert [c.serial for c in done.connections] == [1, 2, 3, 4]
        assert {done.data(number) for number in range(4)} == {TEXT[:30]}


def test_ipv4_and_ipv6_endpoints_of_the_same_bits_are_different():
    packets = [
        segment(payload=b"four", client=("1.2.3.4", 5), broker=("1.2.3.5", 6)),
        segment(payload=b"six", client=("::102:304", 5), broker=("::102:305", 6)),
    ]
    done = reassemble(timed(packets))
    assert [done.data(n) for n in (0, 1)] == [b"four", b"six"]


def test_a_connection_of_an_endpoint_with_itself_is_read():
    packets = [segment(payload=b"loop", client=BROKER, broker=BROKER)]
    assert reassemble(timed(packets)).data() == b"loop"


# Segments out of order


@BATCHES
def test_segments_captured_out_of_order_are_put_in_order(batch_packets):
    packets = [*opening(), data(0, 100), data(300, 400), data(200, 300), data(100, 200)]
    done = reassemble(timed([*packets, data(400, 500)]), batch_packets)
    assert done.data() == TEXT[:500]
    assert done.anomalies == []
    assert done.connections[0].out_of_order_packets == (2, 0)
    assert done.connections[0].retransmitted_bytes == (0, 0)
    assert [(number, offset) for number, offset, _ in done.stream().packets] == [
        (4, 0),
        (7, 100),
        (6, 200),
        (5, 300),
        (8, 400),
    ]


@BATCHES
def test_repeated_bytes_are_dropped_and_counted(batch_packets):
    packets = [p for p in [*opening(), data(0, 100), data(100, 300)] for _ in (1, 2)]
    packets += [data(0, 300), data(250, 350)]
    done = reassemble(timed(packets), batch_packets)
    assert done.data() == TEXT[:350]
    assert done.connections[0].duplicate_bytes == (100 + 200, 0)
    assert done.connections[0].retransmitted_bytes == (300 + 50, 0)
    assert done.connections[0].unique_bytes == [350, 0]
    assert done.connections[0].payload_bytes == (100 + 100 + 200 + 200 + 300 + 100, 0)
    assert len(done.connections) == 1
    assert done.anomalies == []


@BATCHES
def test_keep_alive_probes_are_not_data(batch_packets):
    probe = segment(seq=300, payload=b"\0")
    empty = segment(seq=300)
    packets = [*opening(), data(0, 300), probe, empty, probe, data(300, 400)]
    done = reassemble(timed(packets), batch_packets)
    assert done.data() == TEXT[:400]
    (connection,) = done.connections
    assert connection.keep_alive_bytes[0] + connection.duplicate_bytes[0] == 2
    assert connection.retransmitted_bytes == (0, 0)
    assert connection.unique_bytes == [400, 0]


@BATCHES
def test_a_probe_before_the_first_byte_is_not_data(batch_packets):
    packets = [*opening(), segment(seq=0, payload=b"\0"), data(0, 10)]
    done = reassemble(timed(packets), batch_packets)
    assert done.data() == TEXT[:10]
    assert done.reassembler.counters.out_of_window_packets == 0


@BATCHES
def test_the_first_copy_of_overlapping_bytes_counts(batch_packets):
    packets = [
        *opening(),
        segment(seq=1 + 4, payload=b"EF"),
        segment(seq=1 + 8, payload=b"IJ"),
        segment(seq=1 + 2, payload=b"cdxxghxxkl"),
        segment(seq=1, payload=b"AB"),
    ]
    done = reassemble(timed(packets), batch_packets)
    assert done.data() == b"ABcdEFghIJkl"
    assert done.connections[0].retransmitted_bytes == (4, 0)
    kinds = [(a.kind, a.stream_offset, a.length, a.packet) for a in done.anomalies]
    assert kinds == [
        (AnomalyKind.INCONSISTENT_RETRANSMISSION, 4, 2, 6),
        (AnomalyKind.INCONSISTENT_RETRANSMISSION, 8, 2, 6),
    ]


@BATCHES
def test_bytes_from_before_the_first_seen_are_dropped_and_counted(batch_packets):
    packets = [data(100, 200), data(50, 150), data(200, 300)]
    done = reassemble(timed(packets), batch_packets)
    assert done.data() == TEXT[100:300]
    assert done.reassembler.counters.before_start_bytes == 50
    assert done.connections[0].retransmitted_bytes == (50, 0)


@BATCHES
def test_a_keep_alive_probe_before_the_first_bytes_seen_is_no_data(batch_packets):
    fin = segment(seq=101, flags=FIN | ACK)
    done = reassemble(timed([fin, data(99, 100)]), batch_packets)
    assert done.reassembler.counters.before_start_bytes == 0
    assert done.connections[0].keep_alive_bytes == (0, 0)


@BATCHES
def test_a_snap_length_leaves_the_length_of_the_stream_as_it_was(batch_packets):
    packets = timed([*opening(), data(0, 100), data(200, 300), data(100, 200), data(300, 400)])
    for i in range(3, 7):
        whole = len(packets[i].data)
        packets[i] = replace(packets[i], data=packets[i].data[:-90], wire_bytes=whole)
    done = reassemble(packets, batch_packets)
    expected = b"".join(TEXT[i : i + 10] + b"?" * 90 for i in range(0, 400, 100))
    assert done.data() == expected
    assert done.connections[0].snapped_bytes == (360, 0)
    assert done.connections[0].lost_bytes == (0, 0)
    assert done.stream().gaps == []
    # The first is reported at once, the others together.
    assert [(a.kind, a.stream_offset, a.length, a.detail) for a in done.anomalies] == [
        (AnomalyKind.SNAPPED_BYTES, 10, 90, ""),
        (AnomalyKind.SNAPPED_BYTES, 110, 270, "in 3 more packets"),
    ]


@BATCHES
def test_a_snapped_segment_may_be_trimmed_to_nothing(batch_packets):
    packets = timed([*opening(), data(0, 100), data(50, 200)])
    packets[4] = replace(packets[4], data=packets[4].data[:-120], wire_bytes=len(packets[4].data))
    done = reassemble(packets, batch_packets)
    assert done.data() == TEXT[:100] + b"?" * 100


# Holes


@BATCHES
def test_a_hole_at_the_end_of_the_capture_is_a_gap(batch_packets):
    packets = [*opening(), data(0, 100), data(150, 200), data(300, 400)]
    done = reassemble(timed(packets), batch_packets)
    assert done.data() == TEXT[:100] + b"?" * 50 + TEXT[150:200] + b"?" * 100 + TEXT[300:400]
    assert [(g.stream_offset, g.length, g.packet, g.time_ns) for g in done.stream().gaps] == [
        (100, 50, 5, START_NS + 4000),
        (200, 100, 6, START_NS + 5000),
    ]
    assert done.connections[0].lost_bytes == (150, 0)
    assert [(a.kind, a.stream_offset, a.length) for a in done.anomalies] == [
        (AnomalyKind.LOST_BYTES, 100, 50),
        (AnomalyKind.LOST_BYTES, 200, 100),
    ]
    assert done.anomalies[0].connection is done.connections[0]
    assert done.anomalies[0].direction == 0


@BATCHES
def test_a_hole_that_was_acknowledged_is_given_up_after_some_segments(batch_packets):
    limits = ReassemblyLimits(acknowledged_hole_segments=4)
    packets = [*opening(), data(0, 100), data(200, 300), answer(300)]
    packets += [data(300 + i, 301 + i) for i in range(4)]
    early = reassemble(timed(packets[:-1]), batch_packets, limits, finish=False)
    assert early.data() == TEXT[:100]
    late = reassemble(timed(packets), batch_packets, limits, finish=False)
    assert late.data() == TEXT[:100] + b"?" * 100 + TEXT[200:304]
    too_late = reassemble(timed([*packets, data(100, 200)]), batch_packets, limits)
    assert too_late.data() == late.data()
    in_time = reassemble(timed([*packets[:-1], data(100, 200)]), batch_packets, limits)
    assert in_time.data() == TEXT[:303]


@BATCHES
def test_a_hole_that_was_acknowledged_is_given_up_after_some_time(batch_packets):
    packets = timed([*opening(), data(0, 100), data(200, 300), answer(300), data(300, 310)])
    waited = ReassemblyLimits().acknowledged_hole_ns
    packets[-1].time_ns = packets[-2].time_ns + waited
    assert reassemble(packets, batch_packets, finish=False).data() == TEXT[:100]
    packets[-1].time_ns += 1
    done = reassemble(packets, batch_packets, finish=False)
    assert done.data() == TEXT[:100] + b"?" * 100 + TEXT[200:310]


@BATCHES
def test_an_acknowledgment_of_a_part_gives_up_no_more_than_that(batch_packets):
    limits = ReassemblyLimits(acknowledged_hole_segments=1)
    packets = [*opening(), data(100, 200), data(300, 400), answer(200), answer(200)]
    done = reassemble(timed(packets), batch_packets, limits, finish=False)
    assert done.data() == b"?" * 100 + TEXT[100:200]


@BATCHES
def test_acknowledgments_before_the_hole_do_not_end_the_wait(batch_packets):
    limits = ReassemblyLimits(acknowledged_hole_segments=1)
    packets = [*opening(), data(0, 100), answer(100), data(200, 300)] + [answer(100)] * 9
    done = reassemble(timed(packets), batch_packets, limits, finish=False)
    assert done.data() == TEXT[:100]


@BATCHES
def test_a_hole_without_any_acknowledgment_is_given_up_after_a_longer_time(batch_packets):
    packets = timed([*opening(), data(0, 100), data(200, 300), data(300, 400), data(100, 200)])
    packets[-1].time_ns += ReassemblyLimits().hole_ns + 1_000_000
    done = reassemble(packets, batch_packets, finish=False)
    assert done.data() == TEXT[:100] + b"?" * 100 + TEXT[200:400]
    packets[-1].time_ns -= 2_000_000
    assert reassemble(packets, batch_packets, finish=False).data() == TEXT[:400]


def test_time_passes_for_a_silent_connection_while_others_send():
    packets = timed([*opening(), data(0, 100), data(200, 300)])
    other = segment(client=("10.7.7.7", 7), payload=b"x")
    later = Packet(other, START_NS + ReassemblyLimits().hole_ns + 10_000)
    done = reassemble([*packets, later], finish=False)
    assert done.data() == TEXT[:100] + b"?" * 100 + TEXT[200:300]
    assert done.data(1) == b"x"


@BATCHES
@pytest.mark.parametrize(
    "limits",
    [
        ReassemblyLimits(buffered_bytes_per_direction=500),
        ReassemblyLimits(buffered_segments_per_direction=5),
    ],
    ids=["bytes", "segments"],
)
def test_too_much_behind_a_hole_gives_it_up(batch_packets, limits):
    packets = [*opening(), *(data(i, i + 100) for i in range(100, 600, 100))]
    waiting = reassemble(timed(packets), batch_packets, limits, finish=False)
    assert waiting.data() == b""
    packets.append(data(600, 700))
    done = reassemble(timed(packets), batch_packets, limits, finish=False)
    assert done.data() == b"?" * 100 + TEXT[100:700]
    assert done.reassembler.buffered_bytes == 0
    kinds = [anomaly.kind for anomaly in done.anomalies]
    assert kinds == [AnomalyKind.REORDER_LIMIT, AnomalyKind.LOST_BYTES]


def test_too_many_buffered_bytes_in_all_give_up_the_hole_of_the_largest_buffer():
    packets = []
    for port, end in ((1, 400), (2, 900), (3, 300)):
        client = (CLIENT[0], port)
        packets += [*opening(client=client), data(100, end, client=client)]
    limits = ReassemblyLimits(buffered_bytes=1200)
    done = reassemble(timed(packets), 0, limits, finish=False)
    assert [len(done.data(n)) for n in range(3)] == [0, 900, 0]
    assert done.reassembler.buffered_bytes == 300 + 200
    assert AnomalyKind.REORDER_LIMIT in [anomaly.kind for anomaly in done.anomalies]


# The beginning and the end of connections


@BATCHES
def test_data_in_a_syn_is_the_beginning_of_the_stream(batch_packets):
    packets = [
        segment(seq=70, flags=SYN, payload=b"fast "),
        segment(to_broker=False, seq=900, ack=76, flags=SYN | ACK),
        segment(seq=76, payload=b"open"),
    ]
    done = reassemble(timed(packets), batch_packets)
    assert done.data() == b"fast open"
    assert done.connections[0].opened_by == 0


@BATCHES
def test_a_fin_with_data_ends_the_stream_after_it(batch_packets):
    packets = [*opening(), segment(seq=1, ack=901, flags=FIN | ACK, payload=b"bye")]
    packets += [segment(to_broker=False, seq=901, ack=5, flags=FIN | ACK), segment(seq=5, ack=902)]
    done = reassemble(timed(packets), batch_packets, finish=False)
    assert done.data() == b"bye"
    assert done.collector.closed == done.connections
    assert done.connections[0].packets == (4, 2)
    assert not done.connections[0].reset


@BATCHES
def test_one_end_may_go_on_after_the_other_has_closed(batch_packets):
    packets = [*opening(), segment(seq=1, ack=901, flags=FIN | ACK)]
    packets += [
        segment(to_broker=False, seq=901 + i, ack=2, payload=TEXT[i : i + 10])
        for i in range(0, 50, 10)
    ]
    done = reassemble(timed(packets), batch_packets, finish=False)
    assert done.data(direction=1) == TEXT[:50]
    assert done.collector.closed == []


@BATCHES
def test_a_close_gives_up_a_hole(batch_packets):
    packets = [*opening(), data(0, 100), data(200, 300), *closing(300)]
    done = reassemble(timed(packets), batch_packets, finish=False)
    assert done.data() == TEXT[:100] + b"?" * 100 + TEXT[200:300]
    assert done.collector.closed == done.connections


@BATCHES
@pytest.mark.parametrize("to_broker", [True, False])
def test_a_reset_closes_at_once(batch_packets, to_broker):
    reset = segment(to_broker=to_broker, seq=101 if to_broker else 901, flags=RST)
    done = reassemble(
        timed([*opening(), data(0, 100), data(150, 160), reset]), batch_packets, finish=False
    )
    assert done.data() == TEXT[:100] + b"?" * 50 + TEXT[150:160]
    assert done.connections[0].reset
    assert done.collector.closed == done.connections


@BATCHES
@pytest.mark.parametrize("end", ["fin", "reset"])
def test_late_packets_of_a_closed_connection_open_none(batch_packets, end):
    ends = closing(100) if end == "fin" else [segment(seq=101, flags=RST)]
    late = [data(50, 100), answer(100), *ends, *opening()[:2], data(100, 110)]
    done = reassemble(timed([*opening(), data(0, 100), *ends, *late]), batch_packets)
    assert done.data() == TEXT[:100]
    assert len(done.connections) == 1
    assert done.reassembler.counters.late_packets == len(late)
    assert done.reassembler.counters.late_bytes == 50 + 10


@BATCHES
@pytest.mark.parametrize("end", ["fin", "reset", "nothing"])
def test_a_syn_with_another_number_is_a_connection_of_its_own(batch_packets, end):
    ends = {"fin": closing(100), "reset": [segment(seq=101, flags=RST)], "nothing": []}[end]
    packets = [*opening(), data(0, 100), *ends]
    packets += [*opening(isn=777), data(0, 50, isn=777), *closing(50, isn=777)]
    packets += [*opening(isn=8), data(0, 20, isn=8)]
    done = reassemble(timed(packets), batch_packets)
    assert [done.data(n) for n in range(3)] == [TEXT[:100], TEXT[:50], TEXT[:20]]
    assert [c.connection_number for c in done.connections] == [1, 2, 3]
    assert [c.serial for c in done.connections] == [1, 2, 3]
    assert done.collector.closed == done.connections
    assert done.anomalies == []


OTHERS = {
    "a SYN after the middle of an older one": [data(0, 100), *opening(isn=5000)],
    "a SYN of the other end": [*opening(), segment(to_broker=False, seq=90, flags=SYN)],
    "a SYN-ACK with another number after data": [
        *opening(),
        segment(to_broker=False, seq=901, ack=1, payload=b"x"),
        segment(to_broker=False, seq=90, ack=1, flags=SYN | ACK),
    ],
    "a SYN-ACK that answers another SYN": [
        *opening()[:1],
        data(0, 4),
        segment(to_broker=False, seq=50, ack=99, flags=SYN | ACK),
    ],
}


@BATCHES
@for_each("name", OTHERS)
def test_a_syn_that_does_not_belong_begins_another_connection(name, batch_packets):
    done = reassemble(timed(OTHERS[name]), batch_packets)
    assert [connection.end for connection in done.connections] == ["reused", "open"]
    assert done.connections[0].opened_by == (None if "middle" in name else 0)


@BATCHES
def test_an_opening_captured_in_the_wrong_order_is_one_connection(batch_packets):
    syn, syn_ack, last_ack = opening(isn=55)
    first = data(0, 10, isn=55)
    for order in (
        [syn_ack, syn, last_ack, first],
        [syn_ack, last_ack, first, syn],
        [first, syn, syn_ack, last_ack],
        [syn, first, last_ack, syn_ack],
    ):
        done = reassemble(timed(order), batch_packets)
        assert done.data(direction=int(order[0] is syn_ack)) == TEXT[:10]
        assert len(done.connections) == 1
        opener = done.connections[0].endpoints[done.connections[0].opened_by]
        assert opener == Endpoint(*CLIENT)


@BATCHES
def test_a_syn_ack_seen_first_shows_the_opener_and_where_both_streams_begin(batch_packets):
    packets = [opening(isn=55)[1], data(10, 20, isn=55)]
    done = reassemble(timed(packets), batch_packets)
    assert done.connections[0].opened_by == 1
    assert done.data(direction=1) == b"?" * 10 + TEXT[10:20]


OPENINGS = {
    "simultaneous": [
        segment(seq=10, flags=SYN),
        segment(to_broker=False, seq=20, flags=SYN),
        segment(seq=10, ack=21, flags=SYN | ACK),
        segment(to_broker=False, seq=20, ack=11, flags=SYN | ACK),
        segment(to_broker=False, seq=21, ack=11, payload=b"hello"),
    ],
    "a second SYN-ACK with another number, before data": [
        *opening()[:2],
        segment(to_broker=False, seq=5000, ack=1, flags=SYN | ACK),
        segment(to_broker=False, seq=5001, ack=1, payload=b"hello"),
    ],
}


@BATCHES
@for_each("name", OPENINGS)
def test_an_opening_with_two_answers_is_one_connection(name, batch_packets):
    done = reassemble(timed(OPENINGS[name]), batch_packets)
    assert [done.data(direction=1), len(done.connections)] == [b"hello", 1]
    assert done.connections[0].opened_by == 0


@BATCHES
def test_much_payload_after_a_close_is_a_connection_of_its_own(batch_packets):
    limits = ReassemblyLimits(late_segments=3)
    packets = [*opening(), data(0, 100), segment(to_broker=False, seq=901, flags=RST)]
    packets += [data(i, i + 10) for i in range(100, 160, 10)]
    done = reassemble(timed(packets), batch_packets, limits)
    assert [done.data(n) for n in range(2)] == [TEXT[:100], TEXT[130:160]]
    assert [c.connection_number for c in done.connections] == [1, 2]


@BATCHES
def test_payload_far_from_a_closed_stream_or_long_after_is_a_connection_of_its_own(batch_packets):
    packets = timed([*opening(), data(0, 100), segment(to_broker=False, seq=901, flags=RST)])
    far = Packet(data(0, 10, isn=0x50000000), START_NS + 9000)
    assert len(reassemble([*packets, far], batch_packets).connections) == 2
    later = Packet(data(100, 110), START_NS + 61_000_000_000)
    assert len(reassemble([*packets, later], batch_packets).connections) == 2
    soon = Packet(data(100, 110), START_NS + 59_000_000_000)
    assert len(reassemble([*packets, soon], batch_packets).connections) == 1


@BATCHES
@pytest.mark.parametrize("far", [0x60000000, 0x90000000, 0xE0000000])
def test_a_few_impossible_segments_are_dropped_and_many_are_a_new_connection(batch_packets, far):
    packets = [*opening(), data(0, 100)]
    out_of_window = [data(i, i + 10, isn=far) for i in range(0, 170, 10)]
    done = reassemble(timed([*packets, *out_of_window[:16], data(100, 200)]), batch_packets)
    assert done.data() == TEXT[:200]
    assert done.reassembler.counters.out_of_window_packets == 16
    assert done.reassembler.counters.out_of_window_bytes == 160
    done = reassemble(timed([*packets, *out_of_window, data(170, 200, isn=far)]), batch_packets)
    assert [done.data(n) for n in range(2)] == [TEXT[:100], TEXT[160:200]]
    assert [c.connection_number for c in done.connections] == [1, 2]


@BATCHES
def test_a_fin_before_the_last_byte_seen_is_ignored(batch_packets):
    packets = [*opening(), data(0, 100), segment(seq=1 + 50, flags=FIN | ACK), data(100, 200)]
    assert reassemble(timed(packets), batch_packets).data() == TEXT[:200]


def test_a_reset_of_an_unknown_connection_is_a_connection_that_is_closed():
    done = reassemble(timed([segment(flags=RST)]), finish=False)
    assert done.collector.closed == done.connections
    assert done.connections[0].packets == (1, 0)


@BATCHES
@pytest.mark.parametrize(
    ("packets", "end", "closed_by"),
    [
        (closing(100), "fin", 0),
        (closing(100)[:2], "fin", 0),
        (closing(100)[:1], "open", 0),
        ([], "open", None),
        ([segment(to_broker=False, seq=901, flags=RST)], "reset", 1),
        ([*closing(100)[:2], segment(seq=102, flags=RST)], "reset", 0),
    ],
    ids=["fin", "fin without the last ACK", "half", "open", "reset", "reset after fin"],
)
def test_the_reason_of_a_close_is_reported_with_the_end_that_began_it(
    packets, end, closed_by, batch_packets
):
    done = reassemble(timed([*opening(), data(0, 100), *packets]), batch_packets)
    (connection,) = done.connections
    assert (connection.end, connection.closed_by) == (end, closed_by)
    assert connection.first_packet == 1


@BATCHES
def test_a_connection_ends_as_reused_where_another_takes_its_ports(batch_packets):
    closed = [*opening(isn=9000), *closing(0, isn=9000)[:2]]
    packets = [*opening(), data(0, 100), *closed, *opening(isn=77)]
    done = reassemble(timed(packets), batch_packets)
    assert [connection.end for connection in done.connections] == ["reused", "fin", "open"]
    assert [connection.first_packet for connection in done.connections] == [1, 5, 10]


@BATCHES
def test_packets_captured_twice_are_not_counted_as_retransmitted(batch_packets):
    talk = [*opening(), data(0, 100), data(200, 300), answer(100), data(100, 200), answer(300)]
    doubled = [packet for packet in [*talk, *closing(300)] for _ in range(2)]
    done = reassemble(timed(doubled), batch_packets)
    (connection,) = done.connections
    assert done.data() == TEXT[:300]
    assert connection.retransmitted_bytes == (0, 0)
    assert connection.duplicate_bytes == (300, 0)
    assert connection.unique_bytes == [300, 0]
    assert connection.out_of_order_packets == (1, 0)
    assert done.anomalies == []


# Bounds


@BATCHES
def test_too_many_open_connections_close_those_that_were_silent_longest(batch_packets):
    limits = ReassemblyLimits(connections=8)
    packets = [segment(payload=b"x", client=("10.0.0.9", 100 + i)) for i in range(12)]
    packets.append(segment(seq=1, payload=b"y", client=("10.0.0.9", 100)))
    done = reassemble(timed(packets), batch_packets, limits, finish=False)
    closed = {connection.endpoints[0].port for connection in done.collector.closed}
    assert len(done.connections) - len(closed) <= 8
    assert 111 not in closed
    assert {connection.end for connection in done.collector.closed} == {"limit"}
    noted = [anomaly.connection for anomaly in done.anomalies]
    assert {anomaly.kind for anomaly in done.anomalies} == {AnomalyKind.CONNECTION_LIMIT}
    assert sorted(noted, key=lambda connection: connection.serial) == sorted(
        done.collector.closed, key=lambda connection: connection.serial
    )


SECOND = 10**9
IDLE_LIMITS = ReassemblyLimits(idle_ns=60 * SECOND)


def silent_and_talking(seconds: int) -> list[Packet]:
    """One connection sends a word and is silent; another sends a word each second."""
    silent, talking = ("10.0.0.9", 100), ("10.0.0.9", 101)
    words = [segment(seq=at, payload=b"y", client=talking) for at in range(seconds)]
    return timed([segment(payload=b"x", client=silent), *words], SECOND)


def test_an_idle_connection_is_closed():
    done = reassemble(silent_and_talking(120), 5, IDLE_LIMITS, finish=False)
    (closed,) = done.collector.closed
    assert (closed.endpoints[0].port, closed.end) == (100, "idle")
    assert [connection.end for connection in done.connections] == ["idle", None]
    assert done.anomalies == []


def test_data_after_an_idle_close_is_a_connection_of_its_own():
    again = segment(seq=1, payload=b"z", client=("10.0.0.9", 100))
    talk = [*silent_and_talking(120), Packet(again, START_NS + 121 * SECOND)]
    done = reassemble(talk, 5, IDLE_LIMITS)
    assert [connection.connection_number for connection in done.connections] == [1, 1, 2]
    assert [connection.end for connection in done.connections] == ["idle", "open", "open"]


def test_data_after_a_close_at_the_limit_is_a_connection_of_its_own():
    clients = [("10.0.0.9", 100 + i) for i in range(3)]
    packets = [segment(payload=b"x", client=client) for client in clients]
    packets.append(segment(seq=1, payload=b"y", client=clients[0]))
    done = reassemble(timed(packets), 3, ReassemblyLimits(connections=2))
    assert [done.data(n) for n in range(4)] == [b"x", b"x", b"x", b"y"]
    assert done.connections[-1].connection_number == 2


@pytest.mark.parametrize(("every_anomaly", "kept"), [(False, 32), (True, 50)])
def test_all_anomalies_are_handed_over_only_when_requested(every_anomaly, kept):
    reassembler = Reassembler(every_anomaly=every_anomaly)
    whole = [data(0, 2, client=("10.0.0.1", 1 + number)) for number in range(50)]
    packets = [Packet(raw[:-1], wire_bytes=len(raw)) for raw in whole]
    anomalies = reassembler.feed(make_batch(packets)).anomalies
    assert [anomaly.kind for anomaly in anomalies] == [AnomalyKind.SNAPPED_BYTES] * kept
    assert reassembler.counters.anomalies == {AnomalyKind.SNAPPED_BYTES: 50}
    assert reassembler.feed(make_batch([])).anomalies == []


@pytest.mark.few(1)
def test_limits_of_little_memory_keep_the_reassembler_within_it():
    total = 1 << 20
    reassembler = Reassembler(ReassemblyLimits.of_memory(total), measure=True)
    tracemalloc.start()
    try:
        highest, number = 0, 1
        for first in range(0, 120, 40):
            packets = list(itertools.chain(*(greedy(port) for port in range(first, first + 40))))
            batch = make_batch(timed(packets), number)
            number += len(packets)
            before = tracemalloc.get_traced_memory()[0]
            reassembler.feed(batch)
            del batch, packets
            highest = max(highest, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert before > total // 8
    assert highest < total + (1 << 20)


def greedy(port: int) -> list[bytes]:
    """A connection with buffered data and timed segments, and one that is closed at once."""
    client, other = ("10.1.0.1", 1024 + port), ("10.2.0.1", 1024 + port)
    return [
        *opening(client=client),
        *(data(i, i + 40, client=client) for i in range(0, 400, 40)),
        *(data(i, i + 1, client=client) for i in range(500, 520, 2)),
        *opening(client=other),
        segment(seq=1, flags=RST, client=other),
    ]


def test_the_end_closes_every_connection_in_order():
    packets = [segment(payload=b"x", client=("10.0.0.9", 200 - i)) for i in range(5)]
    done = reassemble(timed(packets))
    assert done.collector.closed == done.connections
    assert done.reassembler.finish() == ([], [])


# Properties


@st.composite
def disorders(draw):
    """The text in segments: some are repeated, some overlap, some are slightly out of order."""
    total = draw(st.integers(1, 600))
    cuts = sorted({0, total, *draw(st.lists(st.integers(1, total), max_size=12))})
    pieces = list(itertools.pairwise(cuts))
    extra = draw(st.lists(st.tuples(st.integers(0, total), st.integers(0, total)), max_size=6))
    for start, end in extra:
        if start < end:
            pieces.insert(draw(st.integers(0, len(pieces))), (start, end))
    order = draw(st.permutations(range(len(pieces))))
    return total, [pieces[i] for i in order]


@STEADY
@given(disorders(), st.integers(0, 0xFFFFFFFF), st.integers(1, 9))
def test_splitting_moving_doubling_and_overlapping_changes_nothing(disorder, isn, batch_packets):
    total, pieces = disorder
    packets = opening(isn) + [data(start, end, isn) for start, end in pieces]
    done = reassemble(timed(packets), batch_packets)
    assert done.data() == TEXT[:total]
    assert done.anomalies == []
    copies = sum(end - start for start, end in pieces) - total
    assert done.connections[0].payload_bytes == (copies + total, 0)
    assert done.connections[0].unique_bytes == [total, 0]


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.booleans(),
        st.sampled_from([ACK] * 8 + [0, SYN, SYN | ACK, FIN | ACK, RST]),
        st.integers(0, 60),
        st.integers(0, 12),
        st.integers(0, 60),
        st.sampled_from([0, 65000, 65000, 65000]),
        st.integers(0, 2),
        st.sampled_from([0, 0, 0, 0, 2_000_000, 100_000_000, 3_000_000_000]),
    ),
    max_size=40,
)


@settings(max_examples=examples(300), deadline=None)
@given(EVENTS, st.integers(1, 7), st.sampled_from([0, 0xFFFFFFE0]))
def test_any_segments_give_the_same_streams_and_figures_in_any_batches(events, batch_packets, isn):
    packets, now = [], START_NS
    for port, to_broker, flags, start, length, ack, window, identification, pause in events:
        now += 1000 + pause
        raw = numbered(
            identification,
            window=window,
            to_broker=to_broker,
            seq=isn + start,
            ack=isn + ack,
            flags=flags,
            payload=TEXT[start : start + length],
            client=(CLIENT[0], 50000 + port),
        )
        packets.append(Packet(raw, now))
    check_figures_in_batches(packets, batch_packets)
    limits = ReassemblyLimits(
        buffered_bytes_per_direction=40,
        acknowledged_hole_segments=5,
        late_segments=3,
        out_of_window_segments=3,
    )
    whole = reassemble(packets, 0, limits)
    parts = reassemble(packets, batch_packets, limits)
    assert describe(whole) == describe(parts)
    assert vars(whole.reassembler.counters) == vars(parts.reassembler.counters)
    for connection in whole.connections:
        for i, stream in enumerate(whole.collector.streams[connection]):
            lost = sum(gap.length for gap in stream.gaps)
            assert connection.lost_bytes[i] == lost
            assert stream.position - lost <= connection.unique_bytes[i]


def describe(done):
    return [
        (
            connection.serial,
            figures(connection),
            [
                (bytes(stream.data), stream.gaps, stream.packets)
                for stream in done.collector.streams[connection]
            ],
        )
        for connection in done.connections
    ]


# Bytes missing at the end


MISSING = {
    "a FIN beyond the last byte": (closing(250), [(100, 150)]),
    "an acknowledgment beyond the last byte": ([answer(100), answer(300)], [(100, 200)]),
    "one byte more, which may be a FIN": ([answer(101)], []),
    "an acknowledgment far from the stream": ([answer(100 + (65 << 20)), data(100, 110)], []),
}


@BATCHES
@for_each("name", MISSING)
def test_a_fin_or_an_acknowledgment_shows_what_is_missing_at_the_end(name, batch_packets):
    packets, gaps = MISSING[name]
    done = reassemble(timed([*opening(), data(0, 100), *packets]), batch_packets)
    assert [(gap.stream_offset, gap.length) for gap in done.stream().gaps] == gaps
    assert done.connections[0].lost_bytes == (sum(length for _, length in gaps), 0)
    assert [anomaly.kind for anomaly in done.anomalies] == [AnomalyKind.LOST_BYTES] * len(gaps)


@BATCHES
def test_the_start_of_a_stream_is_known_by_its_syn_or_the_syn_ack(batch_packets):
    syn, syn_ack, last_ack = opening()
    talk = [data(0, 10), segment(to_broker=False, seq=901, ack=11, payload=b"told")]
    for packets, seen in (
        ([syn, syn_ack, last_ack, *talk], (True, True)),
        ([syn, last_ack, *talk], (True, False)),
        ([syn_ack, last_ack, *talk], (True, True)),
        ([last_ack, *talk], (False, False)),
    ):
        (connection,) = reassemble(timed(packets), batch_packets).connections
        by_client = connection.endpoints[0] == CLIENT
        assert connection.start_seen == (seen if by_client else seen[::-1])
