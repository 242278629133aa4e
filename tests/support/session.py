"""Parts of the reading of a connection, each by itself: frames, a reader, pending requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.framing.frame import Frame
from kanalyze.kafka.framing.framer import CutFrames, FrameCutter
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.exchange import Exchange, Message, Peers
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.kafka.session.replay_buffer import ReplayBuffer
from kanalyze.model.streams import Gap
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.tables.requests.extract import Extractors
from tests.support.streams import TIME_NS, chunk, cut
from tests.support.talk import CLIENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.model.streams import StreamItem

CATALOG = Catalog()
READER = MessageReader(CATALOG, Decoders(CATALOG), Extractors(CATALOG).needed_fields)
TCP = TcpConnection(1, (Endpoint("a", 1), Endpoint("b", 2)), 1, CLIENT, TIME_NS, TIME_NS)
NO_LIMIT = 1 << 30


def frame_of(data: bytes, sizes: Iterable[int] = ()) -> Frame:
    """A complete frame in segments of these sizes."""
    cutter = FrameCutter(lambda view: (None, len(view)), smallest_bytes=0)
    (frame,) = cutter.feed([chunk(cut(data, sizes))]).frames
    return frame


def cut_of(data: bytes, sizes: Iterable[int] = ()) -> CutFrames:
    """A complete frame in segments of these sizes, as it is cut."""
    cutter = FrameCutter(lambda view: (None, len(view)), smallest_bytes=0)
    return cutter.feed([chunk(cut(data, sizes))])


def cut_frame(frame: Frame) -> CutFrames:
    """A frame as one that was cut."""
    frames = CutFrames()
    frames.add(frame)
    return frames


def begun(data: bytes) -> Frame:
    """A frame of which only the first bytes have come."""
    cutter = FrameCutter(lambda view: (None, len(view)))
    cutter.feed([chunk([data])])
    assert cutter.partial.frame is not None
    return cutter.partial.frame


def exchange(correlation_id: int, packet: int) -> Exchange:
    """A Heartbeat request without a response."""
    message = Message(Frame(4, 0, packet, packet))
    return Exchange(
        Peers(TCP, *TCP.endpoints), message, None, 12, 0, correlation_id, client_id=None
    )


def buffered(*pieces: bytes | int, snap: int | None = None) -> ReplayBuffer:
    """Buffer segments; a number is a gap."""
    stream, offset = ReplayBuffer(), 0
    for piece in pieces:
        if isinstance(piece, int):
            stream.add(Gap(offset, piece, TIME_NS, 1), -1, NO_LIMIT)
            offset += piece
        else:
            stream.add(chunk([piece], stream_offset=offset, snap=snap), 0, NO_LIMIT)
            offset += len(piece)
    return stream


def rows_of(items: list[StreamItem]) -> list[tuple[int, int, bytes | None, int]]:
    """(stream offset, bytes on the wire, captured bytes, packet) of every segment and gap."""
    found: list[tuple[int, int, bytes | None, int]] = []
    for item in items:
        if isinstance(item, Gap):
            found.append((item.stream_offset, item.length, None, item.packet))
            continue
        offset, segments = item.stream_offset, item.segments
        for index in range(item.first, item.last):
            start, length = segments.start[index], segments.length[index]
            captured_bytes = bytes(segments.buffer[start : start + segments.captured[index]])
            found.append((offset, length, captured_bytes, segments.packet[index]))
            offset += length
    return found
