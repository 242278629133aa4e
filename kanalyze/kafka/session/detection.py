"""Connections of which nobody knows yet whether they are Kafka: what is held, and the verdict.

In: stream updates. Out: Kafka, with its wire and its client; TLS; something else; or not known
yet. This module must not know exchanges, nor what becomes of a connection once it is decided.

A connection is undecided until one of its directions holds a request: a header that makes sense,
a body that takes up the frame to the byte, and evidence that it is no accident (see
:mod:`~kanalyze.kafka.session.heuristics`). Until then its bytes are kept (a bounded part), so that
nothing of a connection that turns out to be Kafka is lost. Most connections are known at first
sight, and nothing of them is held: see :meth:`Judge.at_first_sight`.

Compiled by Cython, with the types in ``undecided.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.kafka.framing.framer import LARGEST_FRAME_BYTES
from kanalyze.kafka.session.first_bytes import FirstBytes, FirstBytesReader
from kanalyze.kafka.session.heuristics import is_answered_first
from kanalyze.kafka.session.replay_buffer import HeldStream
from kanalyze.kafka.session.request_scan import Search, Searcher
from kanalyze.kafka.session.resync import RequestLocator
from kanalyze.kafka.session.tls import (
    find_records,
    is_alert,
    is_client_hello,
    looks_like_tls,
    records_fit,
)
from kanalyze.model.streams import Chunk

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.request_scan import Wire
    from kanalyze.model.segments import Segments
    from kanalyze.model.streams import StreamItem, StreamUpdate
    from kanalyze.model.tcp import TcpConnection

__all__ = ["Found", "Judge", "Side", "Undecided", "client_hello_side"]

_STEP_BYTES = 16 * 1024
"""Of each direction, how much is taken in before a verdict is sought: what comes after a verdict
is never copied."""
_FIRST_STEP_BYTES = 512
"""The same at first, four times as much each time: most show what they are with one message."""
_SOUGHT_BYTES = LARGEST_FRAME_BYTES + 16 * 1024 * 1024
"""How much of a connection is searched before it is taken for something else: the capture may begin
within the largest of requests."""
_ONE_SIDED_BYTES = 16 * 1024
"""How much that is no request is held while the other end is silent: its request may have been
captured later than the answer."""
_LONG_BYTES = 64 * 1024
_TLS_HEAD_BYTES = 5


class Found(NamedTuple):
    """A connection of Kafka."""

    client_side: int
    wire: Wire


_AT_FIRST_SIGHT = (Found(0, "kafka"), Found(1, "kafka"))


class Side:
    """One direction of an undecided connection."""

    __slots__ = ("first", "held", "index", "is_tls", "search", "tcp")
    _LEFT_OUT = ("index", "tcp")

    def __init__(self, tcp: TcpConnection, index: int) -> None:
        self.tcp = tcp
        self.index = index
        self.held = HeldStream()
        self.first = FirstBytes()
        self.search = Search()
        self.is_tls = False

    def state(self) -> State:
        """Return what :meth:`load_state` takes."""
        return self.is_tls, self.held.state(), self.first.state(), self.search.state()

    def load_state(self, state: object) -> None:
        """Go on from a state; raises ValueError where that is none."""
        self.is_tls, held, first, search = fields(state, "bttt")
        self.held = HeldStream.from_state(held)
        self.first = FirstBytes.from_state(first)
        self.search = Search.from_state(search)

    @property
    def opened(self) -> bool:
        """Whether the first byte is that of the stream."""
        return self.tcp.start_seen[self.index]

    @property
    def from_start(self) -> bool:
        """Whether the first byte held is the stream's first one."""
        return self.opened and self.held.is_whole and not self.held.begins_with_gap

    @property
    def is_known_no_client(self) -> bool:
        """Whether the stream's first bytes were seen and are no client's of Kafka."""
        return self.opened and not self.held.begins_with_gap and self.first.is_hopeless


class Undecided:
    """A connection, as far as it is held.

    Where no SYN was seen the first byte seen is just that: streams do not begin there.
    """

    _LEFT_OUT = ("_items", "_next", "tcp")

    def __init__(self, tcp: TcpConnection) -> None:
        self.tcp = tcp
        self.sides = (Side(tcp, 0), Side(tcp, 1))
        self._items: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        self._next: list[tuple[int, int]] = [(0, -1), (0, -1)]
        self._step_bytes = _FIRST_STEP_BYTES

    def state(self) -> State:
        """Return what :meth:`load_state` takes, between two batches."""
        return self._step_bytes, self.sides[0].state(), self.sides[1].state()

    def load_state(self, state: object) -> None:
        """Go on from a state; raises ValueError where that is none."""
        self._step_bytes, one, other = fields(state, "ntt")
        if not 0 < self._step_bytes <= _STEP_BYTES:
            raise ValueError("a step of nothing, or too much")
        self.sides[0].load_state(one)
        self.sides[1].load_state(other)

    @property
    def held_bytes(self) -> int:
        """Memory that both directions take."""
        return self.sides[0].held.held_bytes + self.sides[1].held.held_bytes

    @property
    def payload_bytes(self) -> int:
        """Payload of both directions, each byte once: what came, and what is left of the update."""
        left = 0
        for side in (0, 1):
            for item in self._left(side):
                if isinstance(item, Chunk):
                    left += sum(item.segments.length[item.first : item.last])
        return left + sum(side.held.payload_bytes for side in self.sides)

    @property
    def tls_sides(self) -> list[int]:
        """The directions that begin with a TLS record."""
        return [side for side in (0, 1) if self.sides[side].is_tls]

    def begin(self, update: StreamUpdate) -> None:
        """Begin to take in an update, step by step."""
        self._items = update.items
        self._next = [(0, -1), (0, -1)]

    def step(self) -> bool:
        """Take in some of each direction; False when nothing was left."""
        more = self._step(0)
        more = self._step(1) or more
        self._step_bytes = min(4 * self._step_bytes, _STEP_BYTES)
        return more

    def rest(self, side: int) -> list[StreamItem]:
        """Return what is held of a direction, and what is left of the update."""
        return [*self.sides[side].held.items(), *self._left(side)]

    def _left(self, side: int) -> list[StreamItem]:
        index, first = self._next[side]
        left = self._items[side][index:]
        if left and first >= 0 and isinstance(left[0], Chunk):
            left[0] = _from(left[0], first)
        return left

    def end_step(self) -> None:
        """Let go of the update, whose buffers are used again."""
        self._items = ([], [])
        self._next = [(0, -1), (0, -1)]

    def _step(self, side: int) -> bool:
        index, first = self._next[side]
        items, held = self._items[side], self.sides[side].held
        if index >= len(items):
            return False
        before = held.end
        while index < len(items) and held.end - before < self._step_bytes:
            item = items[index]
            begin = first
            if begin < 0 and isinstance(item, Chunk):
                begin = item.first
            first = held.add(item, begin, self._step_bytes)
            if first < 0:
                index += 1
        self._next[side] = (index, first)
        self._note_tls(self.sides[side])
        return True

    @staticmethod
    def _note_tls(side: Side) -> None:
        if side.is_tls or side.held.payload_bytes > 2 * _STEP_BYTES:
            return
        head = side.held.head
        if looks_like_tls(head[:_TLS_HEAD_BYTES]):
            # Where the stream does not begin, records have to go on as far as can be seen.
            side.is_tls = side.opened or records_fit(side.held.read(0, side.held.first_run_end))


class Judge:
    """Tells what a connection is."""

    def __init__(self, reader: MessageReader, catalog: Catalog) -> None:
        self._reader = reader
        self.locate = RequestLocator(reader, catalog)
        self._first = FirstBytesReader(reader, catalog, self.locate)
        self._searcher = Searcher(reader, self.locate)

    def at_first_sight(self, update: StreamUpdate, client_side: int | None) -> Found | None:
        """Tell of a new connection that it is Kafka, where its first segments leave no doubt.

        So it is with nearly every connection, and nothing of it has to be held. :meth:`find` and
        :meth:`forced` would say the same: such a request settles it, whatever follows, unless the
        other end speaks TLS. ``client_side`` is that of a connection that is Kafka by order.
        """
        tcp = update.connection
        side = client_side if client_side is not None else tcp.opened_by or 0
        if not tcp.start_seen[side] or not update.items[side]:
            return None
        first, other = _first_captured(update.items[side]), update.items[1 - side]
        if first is None or not self._first.settles(first.segments, first.first):
            return None
        if other:
            begun = _first_captured(other)
            answer = _NO_BYTES if begun is None else _first_segment(begun)
            if len(answer) < _TLS_HEAD_BYTES or looks_like_tls(answer):
                return None
        return _AT_FIRST_SIGHT[side]

    def find(self, state: Undecided, *, last: bool = False) -> Found | None:
        """Tell whose requests are in what is held; None where there are none (yet).

        ``last`` says that the connection ended.
        """
        order = (1, 0) if state.tcp.opened_by == 1 else (0, 1)
        for side in order:
            wire = self._wire(state.sides[side], state.sides[1 - side], last=last)
            if wire is not None:
                return Found(side, wire)
        return None

    def forced(self, state: Undecided, client_side: int, *, last: bool = False) -> Found | None:
        """Tell which wire a connection speaks that is Kafka by order; None: not to be told yet."""
        side, other = state.sides[client_side], state.sides[1 - client_side]
        if not side.held.payload_bytes and not last:
            # Answers alone do not tell; but no more of them is held than of any other.
            return Found(client_side, "kafka") if _is_long(other.held) else None
        wire = self._wire(side, other, last=last)
        if wire is not None or not side.from_start:
            return Found(client_side, wire or "kafka")
        first = side.first
        if first.new == "no" and first.old != "no":
            return Found(client_side, "kafka-0.7")
        if first.new == "no" and first.tokens != "no":
            return Found(client_side, "kafka after tokens")
        if first.new == "perhaps" and not first.heads and not last:
            return None
        return Found(client_side, "kafka")

    @staticmethod
    def is_hopeless(state: Undecided) -> bool:
        """Tell whether this can be no Kafka connection any more."""
        sides = state.sides
        if not all(side.is_known_no_client or not side.held.payload_bytes for side in sides):
            return sum(side.held.payload_bytes for side in sides) >= _SOUGHT_BYTES
        if all(side.held.payload_bytes for side in sides):
            return True
        return any(side.held.payload_bytes > _ONE_SIDED_BYTES for side in sides)

    @staticmethod
    def is_tls(state: Undecided) -> bool:
        """Tell whether what is held lies within a TLS connection whose beginning was not seen."""
        for side in state.sides:
            held = side.held
            if not side.from_start and find_records(held.read(held.begin, held.end)) is not None:
                return True
        return False

    def clear_client(self, state: Undecided) -> Found | None:
        """Tell whether one end spoke Kafka in the clear, and the other one wants TLS.

        Such a broker answers with an alert (RFC 8446 section 6) and closes.
        """
        (server,) = state.tls_sides
        client = state.sides[1 - server]
        if not is_alert(state.sides[server].held.head) or not client.from_start:
            return None
        self._first.look(client.first, client.held)
        return Found(1 - server, "kafka") if client.first.new == "yes" else None

    # -- how --------------------------------------------------------------------------------------

    def _wire(self, side: Side, other: Side, *, last: bool) -> Wire | None:
        if not side.held.payload_bytes or side.is_known_no_client:
            return None
        if side.from_start:
            self._first.look(side.first, side.held, last=last)
            wire = self._first_wire(side, other, last=last)
            if wire is not None or side.held.is_unbroken or side.first.is_hopeless:
                return wire
        return self._searcher.look(side.search, side.held, other.held, last=last)

    def _first_wire(self, side: Side, other: Side, *, last: bool) -> Wire | None:
        first = side.first
        answered = self._is_answered(side, other)
        if last and answered is None and other.held.captured_bytes and other.from_start:
            answered = False  # a few bytes, and no more will come
        # A body that is not all there, newer than the tables, or sound in both readings: an
        # answer with the same correlation id speaks for the later versions.
        if first.old == "yes" and (first.new != "yes" or answered is False):
            return "kafka-0.7"
        if first.new != "no":
            return "kafka" if self._is_believed(side, answered, last=last) else None
        if first.old == "perhaps" and _is_long(side.held):
            return "kafka-0.7"
        return "kafka after tokens" if first.tokens == "yes" else None

    @staticmethod
    def _is_believed(side: Side, answered: bool | None, *, last: bool) -> bool:
        first = side.first
        if not first.heads:
            return False
        named = first.heads[0].is_named
        if first.new == "yes":
            # Without a name: once the other end answered, or never said a word.
            return named or bool(answered) or (last and answered is None)
        return bool(answered) or (named and (last or _is_long(side.held)))

    def _is_answered(self, side: Side, other: Side) -> bool | None:
        """Tell whether the other end's first words answer one of the first requests, if known.

        The first request may need no answer (acks=0).
        """
        heads = side.first.heads
        if not heads or not other.from_start:
            return None
        answers = other.held.read(0, min(other.held.first_run_end, _STEP_BYTES))
        fits = side.first.new == "yes"
        found = [is_answered_first(self._reader, head, answers, fits=fits) for head in heads]
        return True if True in found else found[0]


def _first_captured(items: list[StreamItem]) -> Chunk | None:
    """Return what a stream begins with; None where bytes before it, or of its first segment, lack.

    A capture may lack them, or a snap length may have cut them.
    """
    item = items[0]
    if not isinstance(item, Chunk) or not _is_captured(item.segments, item.first):
        return None
    return item


def _is_captured(segments: Segments, index: int) -> bool:
    return segments.captureds[index] >= segments.lengths[index]


def _first_segment(chunk: Chunk) -> memoryview:
    """Return the bytes of a chunk's first segment."""
    begin = chunk.segments.start[chunk.first]
    return chunk.segments.view(begin, begin + chunk.segments.length[chunk.first])


_NO_BYTES = memoryview(b"")


def _is_long(held: HeldStream) -> bool:
    return held.end >= _LONG_BYTES


def _from(chunk: Chunk, first: int) -> Chunk:
    """Return a chunk without its segments before index ``first``."""
    skipped = sum(chunk.segments.length[chunk.first : first])
    return Chunk(chunk.stream_offset + skipped, chunk.segments, first, chunk.last)


def client_hello_side(state: Undecided) -> int | None:
    """Return the direction that sent a ClientHello, None where none was seen."""
    for side in (0, 1):
        if is_client_hello(state.sides[side].held.head):
            return side
    return None
