"""A capture is partitioned into blocks by bucket; IP datagrams may span several captures."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.archive.packed_segments import unpack
from kanalyze.batch.archive.partitioner import (
    ConnectionPartitioner,
    SegmentBlock,
    reassemble_fragments,
)
from kanalyze.model.anomalies import AnomalyKind
from tests.net.test_fragments import v4_fragments
from tests.support.packets import START_NS, Packet, ethernet, ipv4, make_batch, segment, tcp

if TYPE_CHECKING:
    from kanalyze.model.packets import PacketBatch

SECOND = 1_000_000_000


def packet(data: bytes, index: int) -> Packet:
    return Packet(data, START_NS + index * 1000)


def blocks_of(partitioner: ConnectionPartitioner, *batches: PacketBatch) -> list[SegmentBlock]:
    blocks = [block for batch in batches for block in partitioner.feed(batch).blocks]
    return [*blocks, *partitioner.finish().blocks]


def fragments_of(payload: bytes, port: int = 5000) -> list[bytes]:
    inner = ipv4(tcp(source_port=port, payload=payload))
    return [ethernet(part) for part in v4_fragments(inner, [4, 9])]


def test_both_directions_of_a_connection_are_in_one_bucket() -> None:
    packets = [
        packet(segment(to_broker=bool(index % 2), client=("10.0.0.1", 5000 + index % 40)), index)
        for index in range(400)
    ]
    bucket_of: dict[int, set[int]] = {}
    for block in blocks_of(ConnectionPartitioner(8), make_batch(packets)):
        segments = unpack(block.data).segments
        ports = segments.source_port.tolist() + segments.destination_port.tolist()
        for port in ports:
            if port != 9092:
                bucket_of.setdefault(port, set()).add(block.bucket)
    assert len(bucket_of) == 40
    assert all(len(buckets) == 1 for buckets in bucket_of.values())
    assert len(set.union(*bucket_of.values())) > 4


def test_no_segment_is_lost_and_packet_numbers_are_kept() -> None:
    packets = [packet(segment(client=("10.0.0.1", 5000 + i % 9)), i) for i in range(100)]
    partitioner = ConnectionPartitioner(4)
    blocks = blocks_of(partitioner, make_batch(packets[:60]), make_batch(packets[60:], 61))
    numbers = [number for block in blocks for number in unpack(block.data).segments.number.tolist()]
    assert sorted(numbers) == list(range(1, 101))
    assert all(block.first_packet in numbers for block in blocks)


def test_times_that_go_backwards_do_not_change_the_order() -> None:
    times = [5, 9, 3, 8, 20, 7]
    packets = [Packet(segment(seq=i), START_NS + time) for i, time in enumerate(times)]
    blocks = blocks_of(
        ConnectionPartitioner(1), make_batch(packets[:4]), make_batch(packets[4:], 5)
    )
    keys = [key - START_NS for block in blocks for key in unpack(block.data).key_ns.tolist()]
    # Not before the first packet of the batch, and not after any later packet.
    assert keys == [5, 5, 5, 8, 8, 8]
    (block,) = blocks
    assert block.first_key_ns - START_NS == 5


def test_blocks_are_emitted_once_there_is_enough_for_all_buckets() -> None:
    batches = [
        make_batch(
            [packet(segment(client=("10.0.0.1", i)), 1000 * b + i) for i in range(1000)],
            1000 * b + 1,
        )
        for b in range(3)
    ]
    partitioner = ConnectionPartitioner(8)
    block_counts = [len(partitioner.feed(batch).blocks) for batch in batches]
    assert block_counts == [0, 0, 8]
    assert partitioner.finish() == ([], [], [])


def test_blocks_are_emitted_early_when_there_is_much_payload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kanalyze.batch.archive.partitioner._MAX_BUFFERED_BYTES", 10_000)
    partitioner = ConnectionPartitioner(8)
    batch = [packet(segment(seq=1000 * i, payload=b"x" * 1000), i) for i in range(9)]
    assert partitioner.feed(make_batch(batch)).blocks == []
    assert len(partitioner.feed(make_batch(batch, 10)).blocks) == 1


def test_packets_are_counted() -> None:
    partitioner = ConnectionPartitioner(2)
    arp = ethernet(b"\0" * 28, 0x0806)
    partitioner.feed(make_batch([packet(segment(payload=b"x"), 0), packet(arp, 1)]))
    partitioner.finish()
    assert (partitioner.quality.packets, partitioner.quality.tcp_packets) == (2, 1)
    assert partitioner.quality.other_packets == {"ARP": 1}


def test_an_unreadable_packet_is_an_anomaly() -> None:
    partitioner = ConnectionPartitioner(2)
    blocks, (anomaly,), _ = partitioner.feed(make_batch([Packet(segment()[:30])]))
    assert blocks == []
    assert (anomaly.kind, anomaly.packet) == (AnomalyKind.BAD_IP_HEADER, 1)
    assert partitioner.finish().anomalies == []


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
@pytest.mark.parametrize("first_count", [1, 2])
def test_a_datagram_in_two_captures_is_reassembled(order: list[int], first_count: int) -> None:
    parts = fragments_of(b"0123456789" * 10)
    packets = [packet(parts[index], at) for at, index in enumerate(order)]
    first, second = ConnectionPartitioner(4), ConnectionPartitioner(4)

    assert first.feed(make_batch(packets[:first_count])).blocks == []
    assert second.feed(make_batch(packets[first_count:])).blocks == []
    fragments = [first.finish().fragments, second.finish().fragments]
    assert [len(fragments_of_one) for fragments_of_one in fragments] == [
        first_count,
        3 - first_count,
    ]
    joined = reassemble_fragments(fragments, 4)

    ((capture, block),) = joined.blocks
    segments = unpack(block.data).segments
    # The segment is located at the packet that completed the datagram.
    assert (capture, segments.number.tolist()) == (1, [3 - first_count])
    assert segments.time_ns.tolist() == [packets[2].time_ns]
    assert bytes(segments.buffer) == b"0123456789" * 10
    assert joined.anomalies == []
    assert (joined.quality.tcp_packets, joined.quality.fragment_packets) == (1, 0)
    assert first.quality.fragment_packets + second.quality.fragment_packets == 3
    assert first.quality.lost_datagrams == second.quality.lost_datagrams == 0


def test_an_incomplete_datagram_is_an_anomaly() -> None:
    parts = fragments_of(b"0123456789" * 10)
    partitioner = ConnectionPartitioner(4)
    partitioner.feed(make_batch([packet(parts[0], 0), packet(segment(), 1), packet(parts[1], 2)]))
    joined = reassemble_fragments([[], partitioner.finish().fragments], 4)
    assert joined.blocks == []
    ((capture, anomaly),) = joined.anomalies
    assert (capture, anomaly.kind, anomaly.packet) == (1, AnomalyKind.IP_FRAGMENT, 1)
    assert joined.quality.lost_datagrams == 1


def test_a_datagram_in_one_capture_is_reassembled_there() -> None:
    parts = fragments_of(b"0123456789" * 10)
    partitioner = ConnectionPartitioner(4)
    partitioner.feed(make_batch([packet(part, at) for at, part in enumerate(parts)]))
    blocks, _, fragments = partitioner.finish()
    assert [bytes(unpack(block.data).segments.buffer) for block in blocks] == [b"0123456789" * 10]
    assert fragments == []


def test_old_fragments_are_dropped_unless_the_capture_begins_with_them() -> None:
    early, late = fragments_of(b"x" * 90, 5000), fragments_of(b"y" * 90, 5001)
    late = [part[:18] + b"\x12\x34" + part[20:] for part in late]
    packets = [
        Packet(early[0], START_NS),
        Packet(late[0], START_NS + 40 * SECOND),
        Packet(segment(), START_NS + 100 * SECOND),
    ]
    partitioner = ConnectionPartitioner(4)
    partitioner.feed(make_batch(packets))
    assert [fragment.packet for fragment in partitioner.finish().fragments] == [1]
    assert partitioner.quality.lost_datagrams == 1


def test_the_size_of_unmatched_fragments_is_bounded() -> None:
    dice = random.Random(3)
    partitioner = ConnectionPartitioner(4)
    for turn in range(40):
        parts = []
        for index in range(50):
            data = fragments_of(dice.randbytes(1200), 5000 + index)[2]
            identification = (turn * 50 + index + 1).to_bytes(2, "big")
            parts.append(packet(data[:18] + identification + data[20:], turn * 50 + index))
        partitioner.feed(make_batch(parts, 1 + turn * 50))
    fragments = partitioner.finish().fragments
    assert sum(len(fragment.data) for fragment in fragments) <= 1 << 20
    assert len(fragments) + partitioner.quality.lost_datagrams == 2000
    assert partitioner.quality.lost_datagrams > 0
