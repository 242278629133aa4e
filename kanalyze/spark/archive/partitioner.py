"""One capture, or a part of it, as blocks of segments for those who rebuild connections.

In: packet batches. Out: :class:`Block`, each with the segments of one bucket of connections, and
what the packets were like. Must not know: other captures, files, Spark.

A connection is in the same bucket wherever it is captured (see :mod:`kanalyze.net.shard`).
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.int_columns import earliest_from, rising
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.session.connection_summary import ConnectionCounts
from kanalyze.model.packets import PacketBatch
from kanalyze.net.headers import HeaderReader, read_headers
from kanalyze.net.ip.fragments import FragmentLimits
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.shard import shards_of
from kanalyze.runtime.one_pass import count_packets
from kanalyze.spark.archive.packed_segments import (
    as_arrays,
    lean,
    lean_together,
    no_holes,
    pack,
    taken,
)
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kanalyze.model.anomalies import Anomaly
    from kanalyze.net.ip.datagram import Datagram
    from kanalyze.net.segment_columns import SegmentColumns
    from kanalyze.spark.archive.packed_segments import Lean
    from kanalyze.spark.archive.payload_pruning import Trimmer

__all__ = ["Block", "Cutter", "Joined", "Loose", "blocks_of", "join_fragments"]

_MOST_LOOSE_BYTES: Final = 1 << 20
"""Of IP fragments whose datagram goes on in another capture; a datagram has at most 64 KiB."""
_SEGMENTS_A_BLOCK: Final = 256
_MOST_SEGMENTS: Final = 1 << 17
"""That are held before they go into blocks, some 200 bytes each,"""
_MOST_HELD_BYTES: Final = 16 << 20
"""and how much payload."""
_FRAGMENT_AGE_NS: Final = FragmentLimits().age_ns


class Block(NamedTuple):
    """Segments of one bucket, and their place among others of it."""

    bucket: int
    first_key_ns: int
    """When the first segment counts as captured among packets of other captures."""
    last_key_ns: int
    first_packet: int
    """Number of the first segment's packet."""
    data: bytes
    """See :mod:`kanalyze.spark.archive.packed_segments`."""


class Loose(NamedTuple):
    """A packet with an IP fragment whose datagram did not become whole here."""

    key_ns: int
    time_ns: int
    packet: int
    wire_bytes: int
    link_type: int
    data: bytes


class Cutter:
    """Reads what is one stream of packets to its end."""

    def __init__(self, buckets: int, trimmer: Trimmer | None = None) -> None:
        """Make one.

        Args:
            buckets: into how many parts connections are divided.
            trimmer: tells what nobody needs; None keeps all.
        """
        self._buckets = buckets
        self._trimmer = trimmer
        self._notes = LayerStats(every_anomaly=True)
        self._headers = HeaderReader(self._notes, pass_on=self._pass_on)
        self._reached_ns: int | None = None
        self._reading: tuple[PacketBatch, NDArray[np.int64]] | None = None
        """The batch whose headers are being read, and the keys of its packets."""
        self._began_ns = 0
        self._is_ending = False
        self._open: dict[int, Loose] = {}
        """Copies of packets with fragments of open datagrams, by number."""
        self._loose: list[Loose] = []
        self._loose_bytes = 0
        self._held: list[Lean] = []
        """Segments that are not in blocks yet."""
        self.quality = CaptureQuality()
        """Of packets and their headers; complete after :meth:`finish`."""

    @property
    def last_key_ns(self) -> int | None:
        """When the last packet so far counts as captured; None before the first."""
        return self._reached_ns

    def take_anomalies(self) -> list[Anomaly]:
        """Return what was wrong with packets since the last call."""
        return self._notes.drain_anomalies()

    def feed(self, batch: PacketBatch) -> list[Block]:
        """Take the next packets, at least one; return segments by bucket, when there are enough."""
        count_packets(self.quality, batch)
        key_ns = self._keys(batch)
        self._reading = batch, key_ns
        segments = as_arrays(self._headers.read(batch))
        self._copy_open()
        self._reading = None
        if not len(segments):
            return []
        holes = no_holes() if self._trimmer is None else self._trimmer.holes(segments)
        keys = key_ns[segments.number - batch.number[0]]
        self._held.append(lean(segments, keys, holes))
        count = sum(len(held.segments) for held in self._held)
        size = sum(len(held.segments.buffer) for held in self._held)
        # A block costs as much as some hundred segments in it.
        is_enough = count >= min(self._buckets * _SEGMENTS_A_BLOCK, _MOST_SEGMENTS)
        return self._take_held() if is_enough or size >= _MOST_HELD_BYTES else []

    def finish(self) -> tuple[list[Block], list[Loose]]:
        """End it; return the last segments, and the fragments that others may make whole.

        Fragments are in their order.
        """
        self._is_ending = True
        self._headers.finish()
        self.quality.count_stages(self._notes.counters, ConnectionCounts())
        return self._take_held(), sorted(self._loose, key=lambda loose: loose.packet)

    def _take_held(self) -> list[Block]:
        held, self._held = self._held, []
        return blocks_of(lean_together(held), self._buckets) if held else []

    def _keys(self, batch: PacketBatch) -> NDArray[np.int64]:
        """Return when packets count as captured, which never falls.

        As :class:`kanalyze.capture.merge_cursor.OpenCapture`: the earliest time from a packet on.
        """
        if self._reached_ns is None:
            # A capture is opened when it is time for its first packet.
            self._began_ns = self._reached_ns = batch.time_ns[0]
        keys = np.frombuffer(earliest_from(batch.time_ns), np.int64)
        keys = np.maximum(keys, self._reached_ns)
        self._reached_ns = int(keys[-1])
        return keys

    # -- fragments --------------------------------------------------------------------------------

    def _copy_open(self) -> None:
        """Keep the packets of datagrams that may be made whole elsewhere."""
        numbers = self._headers.open_fragments
        if numbers or self._open:
            self._open = {number: self._packet(number) for number in numbers}

    def _pass_on(self, datagram: Datagram) -> bool:
        """Take a datagram of which fragments may be in the capture before this, or after it."""
        if not self._is_ending and datagram.time_ns - self._began_ns > _FRAGMENT_AGE_NS:
            return False
        packets = [self._packet(number) for number in datagram.packets]
        size = sum(len(packet.data) for packet in packets)
        if self._loose_bytes + size > _MOST_LOOSE_BYTES:
            return False
        self._loose_bytes += size
        self._loose += packets
        return True

    def _packet(self, number: int) -> Loose:
        """Return a copy of a packet of the present batch, or the one made before."""
        known = self._open.get(number)
        if known is not None:
            return known
        assert self._reading is not None
        batch, key_ns = self._reading
        row = number - batch.number[0]
        start = batch.offset[row]
        return Loose(
            int(key_ns[row]),
            batch.time_ns[row],
            number,
            batch.wire_bytes[row],
            batch.link_type[row],
            bytes(batch.buffer[start : start + batch.captured_bytes[row]]),
        )


def blocks_of(kept: Lean, buckets: int) -> list[Block]:
    """Return segments, at least one, by bucket; the times that they count by never fall."""
    bucket = np.asarray(shards_of(kept.segments, buckets))
    order = np.argsort(bucket, kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=buckets)).tolist()
    blocks, begin = [], 0
    for index, end in enumerate(ends):
        if end > begin:
            own = kept.taken(order[begin:end])
            first = int(own.segments.number[0])
            keys = own.key_ns
            blocks.append(Block(index, int(keys[0]), int(keys[-1]), first, pack(own)))
        begin = end
    return blocks


class Joined(NamedTuple):
    """What became of fragments from several captures."""

    blocks: list[tuple[int, Block]]
    """Segments, each block with the index of the capture whose packet completed them."""
    quality: CaptureQuality
    anomalies: list[tuple[int, Anomaly]]
    """Each with the index of the capture that it is about; its packet number is that there."""


def join_fragments(captures: Sequence[Sequence[Loose]], buckets: int) -> Joined:
    """Put fragments together that several captures, in their order, could not use alone.

    What stays incomplete is counted as lost.
    """
    found = sorted(
        (loose.key_ns, index, loose)
        for index, loose_ones in enumerate(captures)
        for loose in loose_ones
    )
    quality = CaptureQuality()
    if not found:
        return Joined([], quality, [])
    notes = LayerStats(every_anomaly=True)
    segments = _read_loose([loose for _, _, loose in found], notes)
    # As packets they were counted where they were captured.
    notes.counters.packets = notes.counters.ip_fragments = 0
    quality.count_stages(notes.counters, ConnectionCounts())
    owner = np.array([index for _, index, _ in found])
    key_ns = np.array([key_ns for key_ns, _, _ in found], np.int64)
    packet = np.array([loose.packet for _, _, loose in found], np.int64)
    anomalies = [
        (int(owner[at]), anomaly._replace(packet=int(packet[at])))
        for anomaly in notes.drain_anomalies()
        for at in (_index(anomaly),)
    ]
    blocks: list[tuple[int, Block]] = []
    at = segments.number - 1
    for index in np.unique(owner[at]).tolist():
        rows = np.flatnonzero(owner[at] == index)
        own = taken(segments, rows)
        own.number = packet[at[rows]]
        made = blocks_of(lean(own, key_ns[at[rows]], no_holes()), buckets)
        blocks += [(index, block) for block in made]
    return Joined(blocks, quality, anomalies)


def _index(anomaly: Anomaly) -> int:
    return (anomaly.packet or 1) - 1


def _read_loose(packets: Sequence[Loose], notes: LayerStats) -> SegmentColumns:
    """Read packets, which get numbers from 1 on, as if they were a capture."""
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
    return as_arrays(read_headers(batch, notes))
