"""A ring buffer of the latest packets, searched by connection and time.

In: packet batches; the positions of tokens in streams. Out: the marked packets, in the order of the
capture, each once, with zeros in place of SASL tokens.

The ring consists of chunks. Adding a packet only copies it. The headers of a chunk are read once,
at the first search for a connection in it.

A token is found by its sequence numbers, so retransmissions of it are found too. Checksums of
redacted segments are right if they were right before.
"""

from __future__ import annotations

from collections import defaultdict, deque
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.packet_arrays import PacketArrays
from kanalyze.net.endpoint_hashes import EndpointHashes, hashes_of_ends
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.segment_columns import ACK, COLUMN_NAMES, FIN, SYN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.model.packets import PacketBatch
    from kanalyze.model.streams import TokenBytes
    from kanalyze.model.tcp import TcpConnection

Sender = tuple[int, int]
"""The hash of a connection, and the hash of the endpoint that sends."""

_MAX_TOKENS: Final = 1 << 14
"""A login has two or four tokens."""
_MAX_OF_SENDER: Final = 256
"""Maximum number of tokens of a sender. Above it everything from the sender is redacted: no client
logs in so often."""
_EVERYTHING: Final = (-1, -1)
_LATE_NS: Final = 60_000_000_000
"""How long after the end of its connection a segment may come: TIME_WAIT of Linux, and twice the
time limit for IP fragments."""
_LAST_NS: Final = (1 << 63) - 1
_U32: Final = (1 << 32) - 1
_HALF: Final = 1 << 31
_MIN_HEADER_BYTES: Final = 20
_MAX_HEADER_BYTES: Final = 60
_HEADER_WORDS_AT: Final = 12
_CHECKSUM_AT: Final = 16


class SegmentPayloads(NamedTuple):
    """Segments as columns, in the order of the capture; each payload lies in one packet."""

    row: NDArray[np.int64]
    """Index of the packet in its chunk."""
    time_ns: NDArray[np.int64]
    sequence: NDArray[np.int64]
    length: NDArray[np.int64]
    """Sequence numbers that it takes: payload bytes, SYN and FIN."""
    payload_start: NDArray[np.int64]
    """Index in the buffer of the packets."""
    captured_bytes: NDArray[np.int64]
    ports: NDArray[np.uint32]
    """The source port in the upper half, the destination port in the lower half."""

    def picked(self, selection: NDArray[np.bool_] | NDArray[np.int64] | slice) -> SegmentPayloads:
        """Return the selected segments."""
        return SegmentPayloads._make(column[selection] for column in self)


class _RedactedRange(NamedTuple):
    """Bytes of a stream to redact."""

    tcp: TcpConnection
    sequence: int
    """Stream offset of the first byte."""
    length: int | None
    """None for everything from the sender."""
    age_ns: int
    """When it was added, on a monotonic clock."""


class TokenRedactor:
    """Redacts the latest tokens, which are stored by sender."""

    def __init__(self) -> None:
        self._by_sender: defaultdict[Sender, dict[tuple[int, int], _RedactedRange]]
        self._by_sender = defaultdict(dict)
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    @property
    def is_full(self) -> bool:
        """True if there are too many tokens: redact all buffered packets, then drop some."""
        return self._count > _MAX_TOKENS

    @property
    def connections(self) -> NDArray[np.uint64]:
        """The hashes of connections with tokens."""
        return np.array([connection for connection, _ in self._by_sender], np.uint64)

    def add(self, sender: Sender, token: TokenBytes, age_ns: int) -> None:
        """Add the position of a token; it replaces an earlier position for the same message."""
        tcp = token.connection
        tokens = self._by_sender[sender]
        message = tcp.serial, token.stream_offset
        self._count -= tokens.pop(message, None) is not None
        length = _HALF - 1 if token.end is None else min(token.end - token.begin, _HALF - 1)
        if length > 0:
            sequence = tcp.first_sequence[token.direction] + token.begin & _U32
            tokens[message] = _RedactedRange(tcp, sequence, length, age_ns)
            self._count += 1
        if len(tokens) > _MAX_OF_SENDER:
            self._count -= len(tokens) - 1
            tokens.clear()
            tokens[_EVERYTHING] = _RedactedRange(tcp, 0, None, age_ns)
        if not tokens:
            del self._by_sender[sender]

    def drop(self, before_ns: int) -> None:
        """Forget tokens added long before a time on the monotonic clock."""
        self._drop(before_ns - _LATE_NS)

    def drop_half(self) -> None:
        """Forget the older half of the tokens."""
        ages = [token.age_ns for tokens in self._by_sender.values() for token in tokens.values()]
        self._drop(sorted(ages)[len(ages) // 2] + 1)

    def covers(self, first_ns: int, last_ns: int) -> bool:
        """Return true if a token was added near an interval on the monotonic clock."""
        return any(
            first_ns - _LATE_NS <= token.age_ns <= last_ns + _LATE_NS
            for tokens in self._by_sender.values()
            for token in tokens.values()
        )

    def redact(self, buffer: memoryview, sent: SegmentPayloads, sender: Sender) -> None:
        """Redact tokens in the segments of a sender, in their buffer."""
        for token in self._by_sender.get(sender, {}).values():
            if token.length is None:
                begin, end = np.zeros_like(sent.captured_bytes), sent.captured_bytes
            else:
                begin = (token.sequence - sent.sequence + _HALF & _U32) - _HALF
                end = np.minimum(begin + token.length, sent.captured_bytes)
                begin = np.maximum(begin, 0)
            overlaps = (end > begin) & (sent.time_ns <= _last_ns(token.tcp))
            for index in np.flatnonzero(overlaps).tolist():
                _zero(buffer, sent, index, int(begin[index]), int(end[index]))

    def _drop(self, before_ns: int) -> None:
        for sender in list(self._by_sender):
            tokens = self._by_sender[sender]
            for message in [key for key, token in tokens.items() if token.age_ns < before_ns]:
                del tokens[message]
                self._count -= 1
            if not tokens:
                del self._by_sender[sender]


def _last_ns(tcp: TcpConnection) -> int:
    """Return the latest time of a segment that may belong to a connection.

    There is no earliest time: the clock may have been set back since the connection began.
    """
    return _LAST_NS if tcp.end is None else tcp.last_time_ns + _LATE_NS


def _zero(buffer: memoryview, sent: SegmentPayloads, index: int, begin: int, end: int) -> None:
    """Write zeros over a part of a segment's payload, and update its checksum.

    The checksum is updated by the change of the bytes (RFC 1624), not computed again. So a checksum
    that was wrong stays wrong, for example because the network card fills it in or the segment was
    cut. The checksums of tunnels around the segment stay right.
    """
    start = int(sent.payload_start[index])
    # Words of two bytes; the payload begins at an even offset in the segment.
    data = bytes(begin & 1) + bytes(buffer[start + begin : start + end])
    words = np.frombuffer(data + bytes(len(data) & 1), ">u2")
    buffer[start + begin : start + end] = bytes(end - begin)
    checksum_at = _header_at(buffer, sent, index) + _CHECKSUM_AT
    # In one's complement arithmetic, what the words lose is added to the checksum.
    total = int.from_bytes(buffer[checksum_at : checksum_at + 2]) + int(words.sum(dtype=np.int64))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    buffer[checksum_at : checksum_at + 2] = total.to_bytes(2)


def _header_at(buffer: memoryview, sent: SegmentPayloads, index: int) -> int:
    """Return the index of the header of a segment, found by the header length that it states."""
    end = int(sent.payload_start[index])
    begin = int(sent.ports[index]).to_bytes(4) + int(sent.sequence[index]).to_bytes(4)
    for size in range(_MIN_HEADER_BYTES, min(_MAX_HEADER_BYTES, end) + 1, 4):
        at = end - size
        if buffer[at + _HEADER_WORDS_AT] >> 4 == size // 4 and buffer[at : at + 8] == begin:
            return at
    raise AssertionError("a segment without a header")


_CHUNKS: Final = 32
"""Chunks in a full ring, at least. The ring drops whole chunks to stay within its limit."""
_PACKET_BYTES: Final = 224
"""Memory of a packet in addition to its bytes: columns for the packet and for its headers."""
_HANDSHAKE_PACKETS: Final = 3
_MAX_SEARCHED: Final = 10_000
_MAX_COMMENTS: Final = 100
"""Maximum number for a packet, in which thousands of requests may begin."""

_SET_BACK_NS: Final = 1_000_000_000
"""Times of two interfaces may differ by this much. A larger step back means that the clock was set
back."""
_MAX_STEP_NS: Final = 10_000_000_000


class SelectedPackets(NamedTuple):
    """Marked packets that left the ring."""

    packets: PacketBatch
    """The packets, in a buffer of their own."""
    comments: dict[int, list[str]]
    """Comments by index of the packet in the batch."""


class PacketRing:
    """Buffers copies of the latest packets, up to a limit; packets can be marked.

    A marked packet is returned once: by :meth:`release`, or by :meth:`add` when the ring drops it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._chunks: deque[_RingChunk] = deque()
        self.buffered_bytes = 0
        """Memory of packets and their columns; at most the limit, or one packet."""
        self._handshake_searched: dict[EndpointHashes, int] = {}
        """By connection: packets with numbers below this one need no second search for a SYN."""
        self._last_ns: int | None = None
        self._last_age_ns = 0
        """The time of the last packet, and its time on a monotonic clock."""
        self._redactor = TokenRedactor()

    def add(self, batch: PacketBatch) -> Iterator[SelectedPackets]:
        """Copy packets; yield the marked packets that are dropped to make room.

        The packets are copied at once, even if the result is not iterated.
        """
        dropped_chunks = []
        chunk_bytes = self._limit_bytes // _CHUNKS
        columns = PacketArrays.of(batch)
        for chunk in _chunks_of(columns, self._ages(columns.time_ns), chunk_bytes):
            self._append(chunk, chunk_bytes)
            self.buffered_bytes += chunk.buffered_bytes
            while self.buffered_bytes > self._limit_bytes and len(self._chunks) > 1:
                dropped_chunks.append(self._chunks.popleft())
                self.buffered_bytes -= dropped_chunks[-1].buffered_bytes
        if dropped_chunks or self._chunks:
            self._redactor.drop((dropped_chunks or self._chunks)[0].first_age_ns)
        selections = (chunk.release(None, self._redactor) for chunk in dropped_chunks)
        return (selection for selection in selections if selection is not None)

    def redact(self, tokens: Sequence[TokenBytes]) -> None:
        """Redact tokens in all packets that are released from now on."""
        for token in tokens:
            ends = token.connection.endpoints
            hashes = EndpointHashes.of(ends[token.direction], ends[1 - token.direction])
            sender = int(hashes.both), int(hashes.first)
            self._redactor.add(sender, token, self._last_age_ns)
        if self._redactor.is_full:
            for chunk in self._chunks:
                chunk.redact(self._redactor)
            self._redactor.drop_half()

    def mark(self, ends: EndpointHashes, from_ns: int, until_ns: int) -> bool:
        """Mark the packets of a connection from one time to another, both included.

        Returns True if the marked bytes have gaps or are out of order: missing bytes may come
        after the interval.
        """
        senders: tuple[list[SegmentPayloads], list[SegmentPayloads]] = ([], [])
        for chunk in self._chunks:
            if chunk.first_ns <= until_ns and chunk.last_ns >= from_ns:
                for segments, of_sender in zip(chunk.find(ends), senders, strict=True):
                    times = segments.time_ns
                    within = segments.picked((times >= from_ns) & (times <= until_ns))
                    chunk.mark(within.row)
                    of_sender.append(within)
                chunk.mark_fragments(ends, from_ns, until_ns)
        return any(_has_holes(of_sender) for of_sender in senders)

    def mark_handshake(self, ends: EndpointHashes, before_ns: int) -> None:
        """Mark the first packets of the connection that was open at a time.

        They begin with its last SYN (without ACK) up to that time.
        """
        chunks = list(self._chunks)
        searched_until = self._handshake_searched.get(ends, 0)
        opening = None
        for number in reversed(range(len(chunks))):
            opening = chunks[number].opening_row(ends, before_ns)
            if opening is not None or chunks[number].first_number <= searched_until:
                break
        past_chunks = [chunk.first_number for chunk in chunks if chunk.last_ns <= before_ns]
        if past_chunks:
            if len(self._handshake_searched) >= _MAX_SEARCHED:
                self._handshake_searched.clear()
            self._handshake_searched[ends] = past_chunks[-1]
        if opening is None:
            return
        missing = _HANDSHAKE_PACKETS
        for chunk in chunks[number:]:
            rows = np.sort(np.concatenate([sent.row for sent in chunk.find(ends)]))
            rows = rows[(rows >= opening) & (chunk.packets.time_ns[rows] <= before_ns)][:missing]
            chunk.mark(rows)
            missing -= len(rows)
            opening = 0
            if not missing:
                return

    def comment(self, number: int, text: str) -> bool:
        """Add a comment to a packet; return False if it is not marked or was released."""
        for chunk in reversed(self._chunks):
            if number >= chunk.first_number:
                return chunk.comment(number, text)
        return False

    def has(self, number: int) -> bool:
        """Return true if the packet with this number, or a later one, is in the ring."""
        return bool(self._chunks) and number >= self._chunks[0].first_number

    def release(self, until_ns: int | None = None) -> Iterator[SelectedPackets]:
        """Yield the marked packets up to a time (None: all), in the order of the capture.

        Packets from before the clock was set back count as older than those after.
        """
        until_age_ns = None
        if until_ns is not None and self._last_ns is not None:
            until_age_ns = until_ns - self._last_ns + self._last_age_ns
        for chunk in self._chunks:
            selected = chunk.release(until_age_ns, self._redactor)
            if selected is not None:
                yield selected

    def _ages(self, time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times of packets on a monotonic clock, without jumps of the system clock."""
        if not len(time_ns):
            return time_ns
        if self._last_ns is None:
            self._last_ns = self._last_age_ns = int(time_ns[0])
        steps = np.diff(time_ns, prepend=self._last_ns)
        steps = np.where(steps < -_SET_BACK_NS, 0, np.minimum(steps, _MAX_STEP_NS))
        ages = self._last_age_ns + np.cumsum(steps)
        self._last_ns, self._last_age_ns = int(time_ns[-1]), int(ages[-1])
        return ages

    def _append(self, chunk: _RingChunk, max_bytes: int) -> None:
        """Append a chunk; small chunks are joined, because each one takes time to search.

        A chunk is joined only to a previous chunk that is at most twice as large, so that a packet
        is copied only a few times.
        """
        while self._chunks:
            last = self._chunks[-1]
            size = last.buffered_bytes + chunk.buffered_bytes
            if last.buffered_bytes > 2 * chunk.buffered_bytes or size > max_bytes:
                break
            chunk = _RingChunk.joined(self._chunks.pop(), chunk)
        self._chunks.append(chunk)


class _ChunkHeaders(NamedTuple):
    """The headers of a chunk, sorted by connection."""

    segments: SegmentPayloads
    keys: NDArray[np.uint64]
    """The hash of each segment's connection."""
    senders: NDArray[np.uint64]
    """The hash of the endpoint that sent it."""
    opens: NDArray[np.bool_]
    """True for a SYN without ACK."""
    are_whole: NDArray[np.bool_]
    """False if it was reassembled of fragments."""


class _RingChunk:
    """Consecutive packets in one buffer."""

    def __init__(self, packets: PacketArrays, age_ns: NDArray[np.int64]) -> None:
        self.packets = packets
        self._age_ns = age_ns
        self.first_age_ns = int(age_ns[0])
        self.first_number = int(packets.number[0])
        self.first_ns = int(packets.time_ns.min())
        self.last_ns = int(packets.time_ns.max())
        self.buffered_bytes = len(packets.buffer) + _PACKET_BYTES * len(packets)
        self._marked = np.zeros(len(packets), dtype=np.bool_)
        self._released = np.zeros(len(packets), dtype=np.bool_)
        self._has_marked = False
        self._comments: dict[int, list[str]] = {}

    @classmethod
    def joined(cls, first: _RingChunk, second: _RingChunk) -> _RingChunk:
        """Join two consecutive chunks."""
        ages = np.concatenate([first._age_ns, second._age_ns])
        chunk = cls(_joined(first.packets, second.packets), ages)
        chunk._marked = np.concatenate([first._marked, second._marked])
        chunk._released = np.concatenate([first._released, second._released])
        chunk._has_marked = first._has_marked or second._has_marked
        shift = len(first.packets)
        second_comments = {row + shift: texts for row, texts in second._comments.items()}
        chunk._comments = first._comments | second_comments
        return chunk

    @cached_property
    def _headers(self) -> _ChunkHeaders:
        """The segments, sorted by connection; read at the first search."""
        packets = self.packets
        headers = read_headers(packets.batch(), LayerStats())
        columns = SimpleNamespace(
            **{name: np.asarray(getattr(headers, name)) for name in COLUMN_NAMES}
        )
        senders, receivers = hashes_of_ends(headers)
        # The sum is the same in both directions.
        keys = senders + receivers
        order = np.argsort(keys, kind="stable")
        flags = columns.flags[order]
        extra = ((flags & SYN) != 0).astype(np.int64) + ((flags & FIN) != 0)
        ports = columns.source_port[order] << 16 | columns.destination_port[order]
        segments = SegmentPayloads(
            np.searchsorted(packets.number, columns.number[order]),
            columns.time_ns[order],
            columns.sequence[order],
            columns.payload_bytes[order] + extra,
            columns.payload_start[order],
            columns.captured_bytes[order],
            ports.astype(np.uint32),
        )
        return _ChunkHeaders(
            segments,
            keys[order],
            senders[order],
            (flags & (SYN | ACK)) == SYN,
            # In the buffer, reassembled datagrams follow the packets of the capture.
            segments.payload_start <= len(packets.buffer),
        )

    def _range(self, ends: EndpointHashes) -> slice:
        """Return where the segments of a connection are."""
        keys = self._headers.keys
        return slice(*(int(keys.searchsorted(ends.both, side)) for side in ("left", "right")))

    def find(self, ends: EndpointHashes) -> tuple[SegmentPayloads, SegmentPayloads]:
        """Return the segments of each endpoint of a connection."""
        within = self._range(ends)
        segments, senders = self._headers.segments.picked(within), self._headers.senders[within]
        return segments.picked(senders == ends.first), segments.picked(senders == ends.second)

    def opening_row(self, ends: EndpointHashes, until_ns: int) -> int | None:
        """Return the row of the last SYN of a connection up to a time; None if there is none."""
        within = self._range(ends)
        rows = self._headers.segments.row[within][self._headers.opens[within]]
        rows = rows[self.packets.time_ns[rows] <= until_ns]
        return int(rows.max()) if len(rows) else None

    def mark(self, rows: NDArray[np.int64]) -> None:
        """Mark packets that were not released yet."""
        unreleased = rows[~self._released[rows]]
        if len(unreleased):
            self._marked[unreleased] = True
            self._has_marked = True

    def mark_fragments(self, ends: EndpointHashes, from_ns: int, until_ns: int) -> None:
        """Mark packets that may be IP fragments, if the connection has fragmented packets."""
        if not self._headers.are_whole[self._range(ends)].all():
            times = self.packets.time_ns
            is_other = np.ones(len(times), dtype=np.bool_)
            is_other[self._headers.segments.row] = False
            self.mark(np.flatnonzero(is_other & (times >= from_ns) & (times <= until_ns)))

    def comment(self, number: int, text: str) -> bool:
        """Add a comment to a packet; return False if it is not marked."""
        row = int(np.searchsorted(self.packets.number, number))
        is_here = row < len(self._marked) and self.packets.number[row] == number
        if not is_here or not self._marked[row]:
            return False
        texts = self._comments.setdefault(row, [])
        if len(texts) < _MAX_COMMENTS:
            texts.append(text)
        return True

    def redact(self, redactor: TokenRedactor) -> None:
        """Redact all packets."""
        indices = self._redactable(redactor)
        self._zero(self.packets.buffer, self._headers.segments.picked(indices), indices, redactor)

    def _redactable(self, redactor: TokenRedactor) -> NDArray[np.int64]:
        """Return the segments of connections that have tokens."""
        headers = self._headers
        return np.flatnonzero(np.isin(headers.keys, redactor.connections) & headers.are_whole)

    def _redacted(
        self, packets: PacketArrays, rows: NDArray[np.int64], redactor: TokenRedactor
    ) -> PacketArrays:
        """Return ``packets``, which are at ``rows`` of the chunk, with tokens redacted.

        The chunk itself is not changed, because the bytes to redact may still change.
        """
        indices = self._redactable(redactor)
        indices = indices[np.isin(self._headers.segments.row[indices], rows)]
        if not len(indices):
            return packets
        copied = _copied(packets)
        segments = self._headers.segments.picked(indices)
        shifts = (copied.offset - packets.offset)[np.searchsorted(rows, segments.row)]
        segments = segments._replace(payload_start=segments.payload_start + shifts)
        self._zero(copied.buffer, segments, indices, redactor)
        return copied

    def _zero(
        self,
        buffer: memoryview,
        segments: SegmentPayloads,
        indices: NDArray[np.int64],
        redactor: TokenRedactor,
    ) -> None:
        """Redact segments, which have these indices in the chunk, in a buffer."""
        senders = np.stack([self._headers.keys[indices], self._headers.senders[indices]], axis=1)
        unique_senders, sender_of = np.unique(senders, axis=0, return_inverse=True)
        for index, (connection, sender) in enumerate(unique_senders.tolist()):
            of_sender = segments.picked(sender_of.reshape(-1) == index)
            redactor.redact(buffer, of_sender, (connection, sender))

    def release(self, until_age_ns: int | None, redactor: TokenRedactor) -> SelectedPackets | None:
        """Return the marked packets up to an age, redacted; None if there are none."""
        if not self._has_marked:
            return None
        is_selected = self._marked
        if until_age_ns is not None:
            is_selected = is_selected & (self._age_ns <= until_age_ns)
        rows = np.flatnonzero(is_selected)
        if len(rows) and redactor:
            rows = self._without_fragments(rows, redactor)
        if not len(rows):
            return None
        comments = {
            index: self._comments.pop(row)
            for index, row in enumerate(rows.tolist())
            if row in self._comments
        }
        self._released[rows] = True
        self._marked[rows] = False
        self._has_marked = bool(self._marked.any())
        packets = self.packets.select(rows)
        if redactor:
            packets = self._redacted(packets, rows, redactor)
        return SelectedPackets(packets.batch(), comments)

    def _without_fragments(
        self, rows: NDArray[np.int64], redactor: TokenRedactor
    ) -> NDArray[np.int64]:
        """Leave out fragments, in which tokens cannot be found."""
        headers = self._headers
        fragments = rows[~np.isin(rows, headers.segments.row[headers.are_whole])]
        if not len(fragments) or not redactor.covers(self.first_age_ns, int(self._age_ns[-1])):
            return rows
        self._released[fragments] = True
        self._marked[fragments] = False
        for row in fragments.tolist():
            self._comments.pop(row, None)
        return np.setdiff1d(rows, fragments)


def _has_holes(parts: list[SegmentPayloads]) -> bool:
    """Return true if a segment begins after the end of all segments before it."""
    if not parts:
        return False
    sequence = np.concatenate([part.sequence for part in parts])
    if not len(sequence):
        return False
    # Sequence numbers wrap around: they are counted from the first one.
    begin = (sequence - sequence[0] + _HALF & _U32) - _HALF
    end = np.maximum.accumulate(begin + np.concatenate([part.length for part in parts]))
    return bool((begin[1:] > end[:-1]).any())


def _chunks_of(
    batch: PacketArrays, ages: NDArray[np.int64], chunk_bytes: int
) -> Iterator[_RingChunk]:
    """Copy the packets of a batch, in chunks of about a size."""
    if not len(batch):
        return
    ends = np.cumsum(batch.captured_bytes + _PACKET_BYTES)
    numbers = ends // max(chunk_bytes, 1)
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    for rows in np.split(np.arange(len(batch)), cuts):
        yield _RingChunk(_copied(batch.select(rows)), ages[rows])


def _copied(packets: PacketArrays) -> PacketArrays:
    """Copy packets to a writable buffer of their own."""
    first = int(packets.offset.min())
    end = int((packets.offset + packets.captured_bytes).max())
    size = int(packets.captured_bytes.sum())
    if end - first <= 2 * size:
        # One copy, with the bytes between the packets.
        buffer, offset = bytearray(packets.buffer[first:end]), packets.offset - first
    else:
        spans = zip(packets.offset.tolist(), packets.captured_bytes.tolist(), strict=True)
        buffer = bytearray().join(packets.buffer[begin : begin + size] for begin, size in spans)
        offset = np.cumsum(packets.captured_bytes) - packets.captured_bytes
    return PacketArrays(
        memoryview(buffer),
        packets.number,
        packets.time_ns,
        offset,
        packets.captured_bytes,
        packets.wire_bytes,
        packets.link_type,
    )


def _joined(first: PacketArrays, second: PacketArrays) -> PacketArrays:
    """Copy the packets of two batches to one buffer."""
    shift = len(first.buffer)
    columns = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in PacketArrays.__slots__
        if name != "buffer"
    }
    columns["offset"][len(first) :] += shift
    return PacketArrays(memoryview(bytearray().join([first.buffer, second.buffer])), **columns)
