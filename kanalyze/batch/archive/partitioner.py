"""Partitions the segments of a capture, or of a part of one, by connection.

In: packet batches. Out: blocks (:class:`SegmentBlock`), each with segments of one bucket;
anomalies; statistics of the packets.

A bucket is a hash of the connection (:func:`~kanalyze.net.headers.shards_of`), the same in
every capture.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.batch.archive.packed_segments import (
    as_arrays,
    concat_pruned,
    no_holes,
    pack,
    prune,
    select_rows,
)
from kanalyze.common.int_columns import earliest_from, rising
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.session.events import ConnectionCounts
from kanalyze.model.packets import PacketBatch
from kanalyze.net.fragments import FragmentLimits, count_lost
from kanalyze.net.headers import HeaderReader, read_headers, shards_of
from kanalyze.net.layer_stats import LayerStats
from kanalyze.runtime.counting import count_packets
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kanalyze.batch.archive.packed_segments import PrunedSegments
    from kanalyze.batch.archive.payload_pruning import PayloadPruner
    from kanalyze.batch.archive.topic_name_scan import TopicNameScan
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.net.fragments import Datagram
    from kanalyze.net.segment_columns import SegmentColumns

_MAX_FRAGMENT_BYTES: Final = 1 << 20
"""Limit in bytes of IP fragments whose datagram may continue in another capture; a datagram has at
most 64 KiB."""
_SEGMENTS_A_BLOCK: Final = 256
_MAX_SEGMENTS: Final = 1 << 17
"""Limit of segments buffered before they are packed into blocks, some 200 bytes each."""
_MAX_BUFFERED_BYTES: Final = 16 << 20
"""Limit of their payload in bytes."""
_FRAGMENT_AGE_NS: Final = FragmentLimits().age_ns


class SegmentBlock(NamedTuple):
    """Packed segments of one bucket, and the sort key of blocks in a bucket."""

    bucket: int
    first_key_ns: int
    """When the first segment counts as captured: its sort key among those of other captures."""
    first_packet: int
    """Number of the first segment's packet."""
    data: bytes
    """See :mod:`kanalyze.batch.archive.packed_segments`."""


class UnmatchedFragment(NamedTuple):
    """A packet with an IP fragment whose datagram is incomplete in this capture."""

    key_ns: int
    time_ns: int
    packet: int
    wire_bytes: int
    link_type: int
    data: bytes


class Partitioned(NamedTuple):
    """The result of partitioning some packets."""

    blocks: list[SegmentBlock]
    anomalies: list[Anomaly]
    fragments: Sequence[UnmatchedFragment] = ()
    """Fragments of datagrams that are incomplete in this capture, in order; only at its end."""


class ConnectionPartitioner:
    """Partitions one stream of packets."""

    def __init__(
        self,
        buckets: int | None,
        pruner: PayloadPruner | None = None,
        names: TopicNameScan | None = None,
        connections: NDArray[np.bool_] | None = None,
        until_ns: int | None = None,
    ) -> None:
        """Make one.

        Args:
            buckets: how many there are; None if no segments are needed.
            pruner: finds the payload that no row needs; None keeps all payload.
            names: searches for names of topics; None if they are not needed.
            connections: becomes true at the hash of each connection; None if that is not needed.
            until_ns: when packets are too late to be counted in :attr:`packets_in_time`.
        """
        self._until_ns = until_ns
        self.packets_in_time: int | None = None
        """How many packets come before the first one that is too late; None if none is."""
        self._buckets = buckets
        self._pruner = pruner
        self._names = names
        self._connections = connections
        self._stats = LayerStats(every_anomaly=True)
        self._headers = HeaderReader(self._stats, lose=self._keep_or_count)
        self._reached_ns: int | None = None
        self._reading: tuple[PacketBatch, NDArray[np.int64]] | None = None
        """The batch whose headers are being read, and the keys of its packets."""
        self._start_ns = 0
        self._is_ending = False
        self._open: dict[int, UnmatchedFragment] = {}
        """Copies of packets with fragments of open datagrams, by number."""
        self._fragments: list[UnmatchedFragment] = []
        self._fragment_bytes = 0
        self._buffered: list[PrunedSegments] = []
        """Segments that are not in blocks yet."""
        self.quality = CaptureQuality()
        """Statistics of packets and their headers; complete after :meth:`finish`."""

    def feed(self, batch: PacketBatch) -> Partitioned:
        """Partition the next packets, at least one.

        There are blocks in the result only when enough segments are buffered.
        """
        count_packets(self.quality, batch)
        key_ns = self._keys(batch)
        self._reading = batch, key_ns
        segments = as_arrays(self._headers.read(batch))
        self._copy_open()
        self._reading = None
        if not len(segments):
            return Partitioned([], self._stats.drain_anomalies())
        if self._names is not None:
            self._names.feed(segments)
        if self._connections is not None:
            self._connections[np.asarray(shards_of(segments, len(self._connections)))] = True
        if self._buckets is None:
            return Partitioned([], self._stats.drain_anomalies())
        return Partitioned(self._buffer(segments, batch, key_ns), self._stats.drain_anomalies())

    def _buffer(
        self, segments: SegmentColumns, batch: PacketBatch, key_ns: NDArray[np.int64]
    ) -> list[SegmentBlock]:
        """Buffer segments; return blocks if there are enough for them."""
        assert self._buckets is not None
        holes = no_holes() if self._pruner is None else self._pruner.holes(segments)
        keys = key_ns[segments.number - batch.number[0]]
        self._buffered.append(prune(segments, keys, holes))
        count = sum(len(part.segments) for part in self._buffered)
        size = sum(len(part.segments.buffer) for part in self._buffered)
        # A block costs as much as some hundred segments in it.
        is_enough = count >= min(self._buckets * _SEGMENTS_A_BLOCK, _MAX_SEGMENTS)
        return self._flush() if is_enough or size >= _MAX_BUFFERED_BYTES else []

    def finish(self) -> Partitioned:
        """Return blocks of the buffered segments, and the fragments of incomplete datagrams."""
        self._is_ending = True
        self._headers.finish()
        self.quality.count_stages(self._stats.counters, ConnectionCounts())
        fragments = sorted(self._fragments, key=lambda fragment: fragment.packet)
        return Partitioned(self._flush(), self._stats.drain_anomalies(), fragments)

    def _flush(self) -> list[SegmentBlock]:
        buffered, self._buffered = self._buffered, []
        if self._buckets is None or not buffered:
            return []
        return blocks_of(concat_pruned(buffered), self._buckets)

    def _keys(self, batch: PacketBatch) -> NDArray[np.int64]:
        """Return the sort keys of packets: when they count as captured, which never decreases.

        As in :class:`kanalyze.capture.merge.OpenCapture`, the key of a packet is the
        earliest time of this packet and those after it.
        """
        if self._reached_ns is None:
            # A merge opens a capture at the time of its first packet.
            self._start_ns = self._reached_ns = batch.time_ns[0]
        keys = np.frombuffer(earliest_from(batch.time_ns), np.int64)
        keys = np.maximum(keys, self._reached_ns)
        self._reached_ns = int(keys[-1])
        until_ns = self._until_ns
        if until_ns is not None and self.packets_in_time is None and until_ns <= self._reached_ns:
            self.packets_in_time = batch.number[0] - 1 + int(np.searchsorted(keys, until_ns))
        return keys

    # -- fragments --------------------------------------------------------------------------------

    def _copy_open(self) -> None:
        """Copy the packets of incomplete datagrams, as another capture may complete them."""
        numbers = self._headers.open_fragments
        if numbers or self._open:
            self._open = {number: self._packet(number) for number in numbers}

    def _keep_or_count(self, datagram: Datagram, reason: str) -> None:
        """Keep an incomplete datagram for other captures; count another one as lost."""
        if not self._keep_incomplete(datagram):
            count_lost(datagram, reason, self._stats)

    def _keep_incomplete(self, datagram: Datagram) -> bool:
        """Keep an incomplete datagram if the capture before or after this may have the rest."""
        if not self._is_ending and datagram.time_ns - self._start_ns > _FRAGMENT_AGE_NS:
            return False
        packets = [self._packet(number) for number in datagram.packets]
        size = sum(len(packet.data) for packet in packets)
        if self._fragment_bytes + size > _MAX_FRAGMENT_BYTES:
            return False
        self._fragment_bytes += size
        self._fragments += packets
        return True

    def _packet(self, number: int) -> UnmatchedFragment:
        """Return a copy of a packet: of the current batch, or copied from an earlier one."""
        copy = self._open.get(number)
        if copy is not None:
            return copy
        assert self._reading is not None
        batch, key_ns = self._reading
        row = number - batch.number[0]
        start = batch.offset[row]
        return UnmatchedFragment(
            int(key_ns[row]),
            batch.time_ns[row],
            number,
            batch.wire_bytes[row],
            batch.link_type[row],
            bytes(batch.buffer[start : start + batch.captured_bytes[row]]),
        )


def blocks_of(pruned: PrunedSegments, buckets: int) -> list[SegmentBlock]:
    """Return segments, at least one, as a block for each bucket; their keys never decrease."""
    bucket = np.asarray(shards_of(pruned.segments, buckets))
    order = np.argsort(bucket, kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=buckets)).tolist()
    blocks, begin = [], 0
    for index, end in enumerate(ends):
        if end > begin:
            of_bucket = pruned.select_rows(order[begin:end])
            first = int(of_bucket.segments.number[0])
            keys = of_bucket.key_ns
            blocks.append(SegmentBlock(index, int(keys[0]), first, pack(of_bucket)))
        begin = end
    return blocks


class ReassembledFragments(NamedTuple):
    """Datagrams reassembled from fragments in several captures."""

    blocks: list[tuple[int, SegmentBlock]]
    """Each block with the index of the capture whose packet completed the datagrams."""
    quality: CaptureQuality
    anomalies: list[tuple[int, Anomaly]]
    """Each with the index of its capture; the packet number is the number in that capture."""


def reassemble_fragments(
    captures: Sequence[Sequence[UnmatchedFragment]], buckets: int
) -> ReassembledFragments:
    """Reassemble datagrams whose fragments are in several captures, which must be in order.

    Datagrams that stay incomplete are counted as lost.
    """
    sorted_fragments = sorted(
        (fragment.key_ns, index, fragment)
        for index, fragments in enumerate(captures)
        for fragment in fragments
    )
    quality = CaptureQuality()
    if not sorted_fragments:
        return ReassembledFragments([], quality, [])
    stats = LayerStats(every_anomaly=True)
    # Their packets are numbered from 1, in this order.
    segments = _read_fragments([fragment for _, _, fragment in sorted_fragments], stats)
    # These packets were counted already when their captures were read.
    stats.counters.ip_fragments = 0
    quality.count_stages(stats.counters, ConnectionCounts())
    owner = np.array([index for _, index, _ in sorted_fragments])
    key_ns = np.array([key_ns for key_ns, _, _ in sorted_fragments], np.int64)
    packet = np.array([fragment.packet for _, _, fragment in sorted_fragments], np.int64)
    anomalies = [
        (int(owner[index]), anomaly._replace(packet=int(packet[index])))
        for anomaly in stats.drain_anomalies()
        for index in ((anomaly.packet or 1) - 1,)
    ]
    blocks: list[tuple[int, SegmentBlock]] = []
    fragment_index = segments.number - 1
    for capture in np.unique(owner[fragment_index]).tolist():
        rows = np.flatnonzero(owner[fragment_index] == capture)
        selected = select_rows(segments, rows)
        selected.number = packet[fragment_index[rows]]
        keys = key_ns[fragment_index[rows]]
        capture_blocks = blocks_of(prune(selected, keys, no_holes()), buckets)
        blocks += [(capture, block) for block in capture_blocks]
    return ReassembledFragments(blocks, quality, anomalies)


def _read_fragments(packets: Sequence[UnmatchedFragment], stats: LayerStats) -> SegmentColumns:
    """Read packets as if they were a capture, numbered from 1."""
    sizes = array("q", [len(packet.data) for packet in packets])
    batch = PacketBatch(
        buffer=memoryview(b"".join([packet.data for packet in packets])),
        number=rising(1, len(packets)),
        time_ns=array("q", [packet.time_ns for packet in packets]),
        offset=array("q", accumulate(sizes[:-1], initial=0)),
        captured_bytes=sizes,
        wire_bytes=array("q", [packet.wire_bytes for packet in packets]),
        link_type=array("i", [packet.link_type for packet in packets]),
    )
    return as_arrays(read_headers(batch, stats))
