"""Drops packets from a capture, and judges the rows of the rest by those of the whole capture.

The rows of the whole capture are the truth (other tests compare them with the broker's own log).
The packets that hold the bytes of each exchange are known. If none of these was dropped, its row
must be there and right; in all other rows no value may be wrong, though many may be unknown. Over
TLS, the packets of an exchange are all packets of the records that hold its bytes.
"""

from __future__ import annotations

import functools
import io
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kanalyze.capture.reader import open_capture
from kanalyze.kafka.framing.framer import FrameCutter, FrameLocator
from kanalyze.kafka.wire import WireError
from kanalyze.model.streams import Gap
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.reassembly import Reassembler
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tls.streams import DecryptedStreams
from tests.support.captures import analysis, key_log, path
from tests.support.disorder.transformation import WAY
from tests.support.packets import Packet, packets_in, pcap_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.model.streams import StreamItem, StreamUpdate
    from kanalyze.spec.rows.requests import Row

UNPROVABLE = ("trailing_bytes", "malformed_body", "snapped_bytes")
"""A body that contradicts its version, or is missing, proves no boundary: after a loss, its frame
may not be found."""

LEARNED = (*("client_software_name", "client_software_version", "principal", "waited"),)
"""Columns that a row takes from earlier exchanges: null is right if those are missing."""
PLACES = ("capture", "request_packet", "response_packet")
COMPLETE = ("ok", "error", "one_way")


class _Truth(NamedTuple):
    row: Row
    request_packets: frozenset[int]
    response_packets: frozenset[int]

    @property
    def packets(self) -> frozenset[int]:
        return self.request_packets | self.response_packets


@dataclass
class Judgement:
    """The result of judging a lossy capture."""

    untouched: int = 0
    """The number of complete exchanges without a dropped packet."""
    right: int = 0
    """How many of these have exactly the row they had."""
    missing: list[Row] = field(default_factory=list)
    """The rows of the others, which are missing."""
    wrong: list[tuple[str, Row]] = field(default_factory=list)
    """Rows with a wrong value, each with the reason."""
    rows: int = 0
    complete: int = 0
    """The number of rows with both messages, or to which no response is due."""


@functools.cache
def packets_of(name: str) -> tuple[Packet, ...]:
    """The packets of a capture."""
    with open_capture(str(path(name))) as reader:
        return tuple(packets_in(reader))


def pcap_without(name: str, dropped: Iterable[int]) -> bytes:
    """The capture as a pcap without the packets of these numbers (from 1)."""
    gone = set(dropped)
    packets = packets_of(name)
    kept = [packet for number, packet in enumerate(packets, 1) if number not in gone]
    return pcap_file(kept, link_type=packets[0].link_type)


def rows_without(name: str, dropped: Iterable[int]) -> list[Row]:
    """Our rows of the capture without the packets of these numbers."""
    run = Analysis([io.BytesIO(pcap_without(name, dropped))], keylog=key_log(name))
    return [row for batch in run.row_batches() for row in batch]


class Lossy:
    """A capture and the truth about it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.packets = len(packets_of(name))
        self._truth = _truths(name)

    def with_copies(self, dropped: Iterable[int]) -> frozenset[int]:
        """Return these packets and all others that hold bytes of theirs.

        Bytes that are captured only when they are retransmitted have another time than before, and
        the capture does not show it.
        """
        copies = _copies(self.name)
        return frozenset(copy for number in dropped for copy in (number, *copies.get(number, ())))

    def last_packets(self) -> dict[tuple[int, int, str], frozenset[int]]:
        """Return, for answered requests, the packets with the last bytes of both and the id.

        The value is all packets that hold their bytes.
        """
        return {
            (max(request), max(response), str(row.correlation_id)): request | response
            for row, request, response in self._truth
            if request and response
        }

    def judge(self, dropped: Iterable[int], rows: Sequence[Row] | None = None) -> Judgement:
        """Judge the rows of the capture without the packets of these numbers."""
        gone = frozenset(dropped)
        kept = [number for number in range(1, self.packets + 1) if number not in gone]
        found = rows_without(self.name, gone) if rows is None else rows
        return judge(self._truth, found, gone, kept)


@functools.cache
def _truths(name: str) -> tuple[_Truth, ...]:
    frames = _frames(name)
    truths = []
    for row in sorted(analysis(name)[0], key=lambda row: row.request_packet or 0):
        request = _take(frames, row, "client", row.request_packet, row.request_bytes)
        response = _take(frames, row, "broker", row.response_packet, row.response_bytes)
        truths.append(_Truth(row, request, response))
    return tuple(truths)


_Frames = dict[tuple[str, int, int, int, int], list[frozenset[int]]]


def _take(
    frames: _Frames, row: Row, sender: str, packet: int | None, length: int | None
) -> frozenset[int]:
    if packet is None or length is None:
        return frozenset()
    ends = (f"{row.client_ip}:{row.client_port}", f"{row.broker_ip}:{row.broker_port}")
    end = ends[sender == "broker"]
    key = (end, row.connection_number, packet, length, row.correlation_id or 0)
    same = frames[key]
    assert same, f"no frame for {key}"
    return same.pop(0)


def _frames(name: str) -> _Frames:
    """By sender, connection, first packet, length and id: the packets with a frame's bytes."""
    found: _Frames = defaultdict(list)
    cutters: dict[tuple[int, int], tuple[FrameCutter, list[tuple[int, int, int]]]] = {}
    reassembler = Reassembler()
    keys = key_log(name)
    decrypted = None if keys is None else DecryptedStreams(keys, 1 << 30)
    records = {} if keys is None else _records(name)

    def take(updates: list[StreamUpdate]) -> None:
        for update in updates if decrypted is None else decrypted.feed(updates).updates:
            for side in (0, 1):
                key = (update.connection.serial, side)
                cutter, spans = cutters.setdefault(key, (FrameCutter(_Never()), []))
                for item in update.items[side]:
                    spans += _spans(item)
                cut = cutter.feed(update.items[side])
                partial = [cutter.partial.frame] if update.closed and cutter.partial.frame else []
                for frame in [*cut.frames, *partial]:
                    end = update.connection.endpoints[side]
                    number = update.connection.connection_number
                    for at in _id_places(update, side):
                        id_ = int.from_bytes(_bytes(frame, at), "big", signed=True)
                        sender = f"{end.ip}:{end.port}"
                        place = (sender, number, frame.start_packet, frame.length, id_)
                        packets = _packets(frame, spans)
                        found[place].append(records[key].widen(packets) if records else packets)
                if cutter.partial.frame is not None:
                    cutter.partial.frame.detach()

    with open_capture(str(path(name))) as reader:
        for batch in reader.batches():
            take(reassembler.feed(batch).updates)
    take(reassembler.finish().updates)
    return found


class _Records:
    """The packets of each TLS record that an end sent, by the packet that completed it."""

    def __init__(self) -> None:
        self.hello: frozenset[int] = frozenset()
        """The packets of the first record."""
        self._stream = bytearray()
        self._owners: list[int] = []
        """The packet of each byte of the stream."""
        self._by_last: dict[int, set[int]] = defaultdict(set)

    def add(self, items: Iterable[StreamItem]) -> None:
        for item in items:
            assert not isinstance(item, Gap)
            segments = item.segments
            for index in range(item.first, item.last):
                start, length = segments.start[index], segments.length[index]
                self._stream += segments.view(start, start + length)
                self._owners += [segments.packet[index]] * length
        size = _record_size(self._stream)
        while size <= len(self._stream):
            packets = frozenset(self._owners[:size])
            self.hello = self.hello or packets
            self._by_last[self._owners[size - 1]] |= packets
            del self._stream[:size], self._owners[:size]
            size = _record_size(self._stream)

    def widen(self, packets: frozenset[int]) -> frozenset[int]:
        """Return all packets of the records that these packets completed."""
        return packets.union(*(self._by_last.get(packet, ()) for packet in packets))


@functools.cache
def _records(name: str) -> dict[tuple[int, int], _Records]:
    """The records of a capture with TLS, by serial and side."""
    found: dict[tuple[int, int], _Records] = defaultdict(_Records)
    for update in _updates(name):
        for side in (0, 1):
            found[update.connection.serial, side].add(update.items[side])
    return found


def _updates(name: str) -> Iterator[StreamUpdate]:
    reassembler = Reassembler()
    with open_capture(str(path(name))) as reader:
        for batch in reader.batches():
            yield from reassembler.feed(batch).updates
    yield from reassembler.finish().updates


@functools.cache
def hello_packets(name: str) -> dict[tuple[str, int], frozenset[int]]:
    """By the client's end and the connection's number: the packets of both hellos of TLS."""
    found = {}
    for update in _updates(name):
        tcp = update.connection
        assert tcp.opened_by is not None
        client = tcp.endpoints[tcp.opened_by]
        hellos = [_records(name)[tcp.serial, side].hello for side in (0, 1)]
        found[f"{client.ip}:{client.port}", tcp.connection_number] = hellos[0] | hellos[1]
    return found


def _record_size(stream: bytearray) -> int:
    """Return the size of the first record; 5 if it is not known yet."""
    return 5 + int.from_bytes(stream[3:5], "big") if len(stream) >= 5 else 5


def _id_places(update: StreamUpdate, side: int) -> tuple[int, ...]:
    """The offsets of a frame's correlation id: 8 in a request, 4 in a response."""
    if update.connection.opened_by is None:
        return (4, 8)
    return (8,) if update.connection.opened_by == side else (4,)


def _bytes(frame: Frame, at: int) -> bytes:
    try:
        return bytes(frame.read(at, 4))
    except WireError:
        return b""


@functools.cache
def _copies(name: str) -> dict[int, tuple[int, ...]]:
    """By packet: other packets of the same sender whose sequence numbers overlap with its own."""
    spans: dict[tuple[object, ...], list[tuple[int, int, int]]] = defaultdict(list)
    with open_capture(str(path(name))) as reader:
        for batch in reader.batches():
            segments = read_headers(batch, LayerStats())
            for row in range(len(segments)):
                length = int(segments.payload_bytes[row])
                if not length:
                    continue
                sender = (
                    int(segments.source_low[row]),
                    int(segments.source_port[row]),
                    int(segments.destination_port[row]),
                )
                first = int(segments.sequence[row])
                spans[sender].append((first, first + length, int(segments.number[row])))
    found: dict[int, tuple[int, ...]] = {}
    for sent in spans.values():
        sent.sort()
        for index, (_, end, packet) in enumerate(sent):
            for first, _, other in sent[index + 1 :]:
                if first >= end:
                    break
                found[packet] = (*found.get(packet, ()), other)
                found[other] = (*found.get(other, ()), packet)
    return found


class _Never(FrameLocator):
    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        return None, len(view)


def _spans(item: StreamItem) -> list[tuple[int, int, int]]:
    if isinstance(item, Gap):
        return []
    spans, at = [], item.stream_offset
    for index in range(item.first, item.last):
        spans.append((at, at + item.segments.length[index], item.segments.packet[index]))
        at = spans[-1][1]
    return spans


def _packets(frame: Frame, spans: list[tuple[int, int, int]]) -> frozenset[int]:
    begin, end = frame.stream_offset, frame.stream_offset + frame.length
    return frozenset(packet for first, last, packet in spans if first < end and last > begin)


def judge(
    truths: Sequence[_Truth], rows: Sequence[Row], gone: frozenset[int], kept: Sequence[int]
) -> Judgement:
    """Judge rows; ``kept`` gives the number that a packet had before."""
    done = Judgement(rows=len(rows))
    by_request: dict[tuple[Any, ...], list[_Truth]] = defaultdict(list)
    by_response: dict[tuple[Any, ...], list[_Truth]] = defaultdict(list)
    for truth in truths:
        row = truth.row
        by_request[_request_key(row, row.request_packet)].append(truth)
        by_response[_response_key(row, row.response_packet)].append(truth)
    right: set[int] = set()
    for row in rows:
        done.complete += row.status in COMPLETE
        _judge_row(row, by_request, by_response, gone, kept, right, done)
    for truth in truths:
        if truth.row.status in COMPLETE and not truth.packets & gone:
            done.untouched += 1
            if id(truth) in right:
                done.right += 1
            elif not set(UNPROVABLE) & set(truth.row.anomalies):
                done.missing.append(truth.row)
    return done


def _judge_row(
    row: Row,
    by_request: dict[tuple[Any, ...], list[_Truth]],
    by_response: dict[tuple[Any, ...], list[_Truth]],
    gone: frozenset[int],
    kept: Sequence[int],
    right: set[int],
    done: Judgement,
) -> None:
    request_packet = None if row.request_packet is None else kept[row.request_packet - 1]
    response_packet = None if row.response_packet is None else kept[row.response_packet - 1]
    if request_packet is None:
        if not by_response.get(_response_key(row, response_packet)):
            done.wrong.append(("a response that was none", row))
        return
    same = by_request.get(_request_key(row, request_packet))
    if not same:
        done.wrong.append(("a request that was none", row))
        return
    reasons = {
        id(truth): _difference(row, truth, response_packet, gone)
        for truth in same
        if id(truth) not in right
    }
    for truth in same:
        if reasons.get(id(truth)) == "":
            if not truth.packets & gone and row.status == truth.row.status:
                right.add(id(truth))
            return
    done.wrong.append((next(iter(reasons.values()), "a row too many"), row))


def _request_key(row: Row, packet: int | None) -> tuple[Any, ...]:
    return (row.connection, packet, row.correlation_id, row.request_bytes, row.api_key)


def _response_key(row: Row, packet: int | None) -> tuple[Any, ...]:
    return (row.connection, packet, row.correlation_id, row.response_bytes)


def _difference(row: Row, truth: _Truth, response_packet: int | None, gone: frozenset[int]) -> str:
    """The wrong value of a row, as text; empty if there is none."""
    was = truth.row
    # A request whose response may be lost is marked, and has no values of the response.
    unsure = row.response_packet is None and "lost_bytes" in row.anomalies
    touched = unsure or bool(truth.packets & gone)
    if response_packet is not None and response_packet != was.response_packet:
        return "the response of another request"
    for name in row._fields:
        if name in PLACES or name in ("status", "anomalies", "errors", "partitions"):
            continue
        if name in WAY:
            continue
        mine, true = getattr(row, name), getattr(was, name)
        unknown = mine is None and (touched or name in LEARNED)
        if name == "connection_number":
            continue
        if mine != true and not unknown:
            return f"{name} {mine!r}, not {true!r}"
    if touched:
        return _difference_of_touched(row, was)
    if row.status != was.status:
        return f"status {row.status}, not {was.status}"
    if _unnamed(row.errors, was.errors) != _unnamed(was.errors, row.errors):
        return "errors"
    if not _same_partitions(row, was):
        return "partitions"
    return ""


def _difference_of_touched(row: Row, was: Row) -> str:
    if row.status in COMPLETE and row.status != was.status:
        return f"status {row.status}, not {was.status}"
    # The order of a request is not always that of its response, which may add the ids of topics.
    expected_parts = {
        (topic, part.partition): part
        for part in was.partitions
        for topic in {part.topic, part.topic_id}
    }
    for part in row.partitions:
        true = expected_parts.get((part.topic_id or part.topic, part.partition))
        if true is None or any(a not in (None, b) for a, b in zip(part, true, strict=True)):
            return f"partitions {part}, not {true}"
    return ""


def _same_partitions(row: Row, was: Row) -> bool:
    mine, true = list(row.partitions), list(was.partitions)
    if len(mine) < len(true):
        # Unchanged partitions of a fetch session are named by earlier fetches.
        true = true[: len(mine)]
    return all(
        a._replace(topic=None) == b._replace(topic=None) and a.topic in (None, b.topic)
        for a, b in zip(mine, true, strict=True)
    )


def _unnamed(mine: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """Errors without the names of topics that one of the rows does not have."""
    if len(mine) != len(other):
        return list(mine)
    return [
        error._replace(topic=None) if None in (error.topic, twin.topic) else error
        for error, twin in zip(mine, other, strict=True)
    ]
