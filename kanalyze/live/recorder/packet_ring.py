"""The packets of the last moments, found by connection and time.

In: batches of packets; where in streams tokens are. Out: some of the packets, in the order of the
capture, each once, without the tokens. This module must not know why somebody wants them, nor where
they go.

Packets are copied and nothing more: their headers are read when a connection is looked for, piece
by piece, and of no piece twice. As long as nobody asks for any, a packet costs what its copy does.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.recorder.blanked_tokens import HiddenBytes, SentBytes
from kanalyze.model.packet_arrays import PacketArrays
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.segment_columns import ACK, FIN, SYN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.model.packets import PacketBatch
    from kanalyze.model.streams import TokenBytes
    from kanalyze.model.tcp import Endpoint

__all__ = ["Ends", "RecentPackets", "TakenPackets"]

_PIECES: Final = 32
"""The bound is kept by letting go of a piece at a time."""
_PACKET_BYTES: Final = 224
"""What a packet takes beside its bytes: its columns, and those of its headers once read."""
_HANDSHAKE_PACKETS: Final = 3
_MOST_SEARCHED: Final = 10_000
_MOST_COMMENTS: Final = 100
"""On a packet: thousands of requests may begin in one."""

_SET_BACK_NS: Final = 1_000_000_000
"""Two interfaces may be as far from each other; more is a clock that was set back."""
_MOST_STEP_NS: Final = 10_000_000_000

_MIX: Final = tuple(np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F))
"""Odd multipliers with irregular bits; which ones does not matter."""
_SHIFT: Final = np.uint64(29)
_U64: Final = (1 << 64) - 1
_U32: Final = (1 << 32) - 1
_HALF: Final = 1 << 31


class Ends(NamedTuple):
    """The two ends of a connection, as hashes of address and port.

    Two connections may have the same, though hardly by chance: then packets of both are found.
    """

    first: np.uint64
    second: np.uint64
    both: np.uint64
    """The same in both directions."""

    @classmethod
    def of(cls, first: Endpoint, second: Endpoint) -> Ends:
        """Return the ends as hashes; raises ValueError for what is no address."""
        # As arrays: a NumPy scalar would warn of the overflow that is meant here.
        one, other = (_mixed(*_columns(end)) for end in (first, second))
        return cls(one[0], other[0], (one + other)[0])


class TakenPackets(NamedTuple):
    """Packets that were wanted."""

    packets: PacketBatch
    """Valid for good."""
    comments: dict[int, list[str]]
    """By index of the packet in the batch."""


class RecentPackets:
    """Holds copies of packets, the latest ones, up to a bound; some of them are marked as wanted.

    What is marked is given out once: by :meth:`take`, or by :meth:`add` when there is no room for
    it any longer.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: deque[_Piece] = deque()
        self.held_bytes = 0
        """With what is needed to find them; at most the limit, or one packet."""
        self._searched: dict[Ends, int] = {}
        """By connection: up to which packet, about, its handshake was looked for."""
        self._last_ns: int | None = None
        self._last_age_ns = 0
        """Of the last packet: its time, and that on a clock that does not jump."""
        self._hidden = HiddenBytes()

    def add(self, batch: PacketBatch) -> Iterator[TakenPackets]:
        """Copy packets; give those marked packets that have to go for them.

        The copies are made whether or not somebody iterates to the end.
        """
        left = []
        piece_bytes = self._limit_bytes // _PIECES
        columns = PacketArrays.of(batch)
        for piece in _pieces_of(columns, self._ages(columns.time_ns), piece_bytes):
            self._append(piece, piece_bytes)
            self.held_bytes += piece.held_bytes
            while self.held_bytes > self._limit_bytes and len(self._pieces) > 1:
                left.append(self._pieces.popleft())
                self.held_bytes -= left[-1].held_bytes
        if left or self._pieces:
            self._hidden.drop((left or self._pieces)[0].first_age_ns)
        taken = (piece.take(None, self._hidden) for piece in left)
        return (each for each in taken if each is not None)

    def hide(self, tokens: Sequence[TokenBytes]) -> None:
        """Take the bytes of tokens out of whatever is given out from here on."""
        for token in tokens:
            ends = token.connection.endpoints
            found = Ends.of(ends[token.direction], ends[1 - token.direction])
            sender = int(found.both), int(found.first)
            self._hidden.add(sender, token, self._last_age_ns)
        if self._hidden.is_full:
            for piece in self._pieces:
                piece.blank(self._hidden)
            self._hidden.drop_half()

    def mark(self, ends: Ends, from_ns: int, until_ns: int) -> bool:
        """Mark the packets of a connection with times in a span, both ends of it included.

        Returns whether bytes are missing between those of one end, or came late: then what
        belongs to them may have come after the span.
        """
        senders: tuple[list[_Found], list[_Found]] = ([], [])
        for piece in self._pieces:
            if piece.first_ns <= until_ns and piece.last_ns >= from_ns:
                for found, of_sender in zip(piece.find(ends), senders, strict=True):
                    times = found.time_ns
                    within = found.picked((times >= from_ns) & (times <= until_ns))
                    piece.mark(within.row)
                    of_sender.append(within)
                piece.mark_fragments(ends, from_ns, until_ns)
        return any(_has_holes(of_sender) for of_sender in senders)

    def mark_handshake(self, ends: Ends, before_ns: int) -> None:
        """Mark the first packets of a connection that was open at some time.

        That is from its last SYN (not SYN and ACK) up to then on.
        """
        pieces = list(self._pieces)
        known = self._searched.get(ends, 0)
        opening = None
        for number in reversed(range(len(pieces))):
            opening = pieces[number].opening_row(ends, before_ns)
            if opening is not None or pieces[number].first_number <= known:
                break
        seen = [piece.first_number for piece in pieces if piece.last_ns <= before_ns]
        if seen:
            if len(self._searched) >= _MOST_SEARCHED:
                self._searched.clear()
            self._searched[ends] = seen[-1]
        if opening is None:
            return
        missing = _HANDSHAKE_PACKETS
        for piece in pieces[number:]:
            rows = np.sort(np.concatenate([sent.row for sent in piece.find(ends)]))
            rows = rows[(rows >= opening) & (piece.packets.time_ns[rows] <= before_ns)][:missing]
            piece.mark(rows)
            missing -= len(rows)
            opening = 0
            if not missing:
                return

    def comment(self, number: int | None, text: str) -> bool:
        """Put a comment on a packet that is marked and not given out yet; return whether it is."""
        if number is None:
            return False
        for piece in reversed(self._pieces):
            if number >= piece.first_number:
                return piece.comment(number, text)
        return False

    def holds(self, number: int | None) -> bool:
        """Return whether a packet, by its number, is not so old that it had to go."""
        return number is not None and bool(self._pieces) and number >= self._pieces[0].first_number

    def take(self, until_ns: int | None = None) -> Iterator[TakenPackets]:
        """Give out what is marked, of times up to one (None: all), in the order of the capture.

        Times are taken to be those of the clock as it is now: what came before it was set back is
        older than what came after.
        """
        until_age_ns = None
        if until_ns is not None and self._last_ns is not None:
            until_age_ns = until_ns - self._last_ns + self._last_age_ns
        for piece in self._pieces:
            taken = piece.take(until_age_ns, self._hidden)
            if taken is not None:
                yield taken

    def _ages(self, time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times of packets by a clock that does not jump; it hardly goes back."""
        if not len(time_ns):
            return time_ns
        if self._last_ns is None:
            self._last_ns = self._last_age_ns = int(time_ns[0])
        steps = np.diff(time_ns, prepend=self._last_ns)
        steps = np.where(steps < -_SET_BACK_NS, 0, np.minimum(steps, _MOST_STEP_NS))
        ages = self._last_age_ns + np.cumsum(steps)
        self._last_ns, self._last_age_ns = int(time_ns[-1]), int(ages[-1])
        return ages

    def _append(self, piece: _Piece, most_bytes: int) -> None:
        """Hold a piece; small ones are joined, for each takes its time when one looks for packets.

        A piece is joined to one before it that is no more than twice as large, so that a packet is
        copied a few times at most.
        """
        while self._pieces:
            last = self._pieces[-1]
            size = last.held_bytes + piece.held_bytes
            if last.held_bytes > 2 * piece.held_bytes or size > most_bytes:
                break
            piece = _Piece.joined(self._pieces.pop(), piece)
        self._pieces.append(piece)


class _Found(NamedTuple):
    """Segments that one end of a connection sent, in the order of the capture."""

    row: NDArray[np.int64]
    """Index of the packet in its piece."""
    time_ns: NDArray[np.int64]
    sequence: NDArray[np.int64]
    length: NDArray[np.int64]
    """What it adds to the sequence numbers."""

    def picked(self, which: NDArray[np.bool_] | slice) -> _Found:
        """Return some of them."""
        return _Found(*(column[which] for column in self))


class _Piece:
    """A run of packets, in a buffer of its own."""

    def __init__(self, packets: PacketArrays, age_ns: NDArray[np.int64]) -> None:
        self.packets = packets
        self._age_ns = age_ns
        self.first_age_ns = int(age_ns[0])
        self.first_number = int(packets.number[0])
        self.first_ns = int(packets.time_ns.min())
        self.last_ns = int(packets.time_ns.max())
        self.held_bytes = len(packets.buffer) + _PACKET_BYTES * len(packets)
        self._marked = np.zeros(len(packets), dtype=np.bool_)
        self._given = np.zeros(len(packets), dtype=np.bool_)
        self._has_marked = False
        self._comments: dict[int, list[str]] = {}

    @classmethod
    def joined(cls, first: _Piece, second: _Piece) -> _Piece:
        """Return one piece of two that follow each other."""
        ages = np.concatenate([first._age_ns, second._age_ns])
        made = cls(_joined(first.packets, second.packets), ages)
        made._marked = np.concatenate([first._marked, second._marked])
        made._given = np.concatenate([first._given, second._given])
        made._has_marked = first._has_marked or second._has_marked
        shift = len(first.packets)
        later = {row + shift: texts for row, texts in second._comments.items()}
        made._comments = first._comments | later
        return made

    def find(self, ends: Ends) -> tuple[_Found, _Found]:
        """Return what either end of a connection sent."""
        return self._index.find(ends)

    def opening_row(self, ends: Ends, until_ns: int) -> int | None:
        """Return the last packet that asks for a connection, up to some time."""
        rows = self._index.opening_rows(ends)
        rows = rows[self.packets.time_ns[rows] <= until_ns]
        return int(rows.max()) if len(rows) else None

    def mark(self, rows: NDArray[np.int64]) -> None:
        """Mark packets, but for those that were given out."""
        new = rows[~self._given[rows]]
        if len(new):
            self._marked[new] = True
            self._has_marked = True

    def mark_fragments(self, ends: Ends, from_ns: int, until_ns: int) -> None:
        """Mark whatever may be a fragment of a packet of a connection, if there are any."""
        if self._index.has_fragments(ends):
            rows = self._index.other_rows
            times = self.packets.time_ns[rows]
            self.mark(rows[(times >= from_ns) & (times <= until_ns)])

    def comment(self, number: int, text: str) -> bool:
        """Put a comment on a packet, if that is marked; return whether it is."""
        row = int(np.searchsorted(self.packets.number, number))
        is_here = row < len(self._marked) and self.packets.number[row] == number
        if not is_here or not self._marked[row]:
            return False
        texts = self._comments.setdefault(row, [])
        if len(texts) < _MOST_COMMENTS:
            texts.append(text)
        return True

    def blank(self, hidden: HiddenBytes) -> None:
        """Take what is hidden out of all packets."""
        self._index.blank(hidden)

    def take(self, until_age_ns: int | None, hidden: HiddenBytes) -> TakenPackets | None:
        """Give out what is marked, up to some age, but for what is hidden; None for nothing."""
        if not self._has_marked:
            return None
        wanted = self._marked
        if until_age_ns is not None:
            wanted = wanted & (self._age_ns <= until_age_ns)
        rows = np.flatnonzero(wanted)
        if len(rows) and hidden:
            rows = self._without_fragments(rows, hidden)
        if not len(rows):
            return None
        comments = {
            place: self._comments.pop(row)
            for place, row in enumerate(rows.tolist())
            if row in self._comments
        }
        self._given[rows] = True
        self._marked[rows] = False
        self._has_marked = bool(self._marked.any())
        packets = self.packets.taken(rows)
        if hidden:
            packets = self._index.without_hidden(packets, rows, hidden)
        return TakenPackets(packets.batch(), comments)

    def _without_fragments(self, rows: NDArray[np.int64], hidden: HiddenBytes) -> NDArray[np.int64]:
        """Leave out packets in which what is hidden may be anywhere."""
        left_out = rows[self._index.is_fragment(rows)]
        if not len(left_out) or not hidden.is_about(self.first_age_ns, int(self._age_ns[-1])):
            return rows
        self._given[left_out] = True
        self._marked[left_out] = False
        for row in left_out.tolist():
            self._comments.pop(row, None)
        return np.setdiff1d(rows, left_out)

    @cached_property
    def _index(self) -> _Index:
        return _Index(self.packets)


class _Index:
    """Where the packets of a connection are in a piece: its segments, sorted by connection."""

    def __init__(self, packets: PacketArrays) -> None:
        self._packets = packets
        found = read_headers(packets.batch(), LayerStats())
        segments = SimpleNamespace(
            **{name: np.asarray(getattr(found, name)) for name in found.__slots__}
        )
        senders = _mixed(segments.source_high, segments.source_low, segments.source_port)
        receivers = _mixed(
            segments.destination_high, segments.destination_low, segments.destination_port
        )
        # A sum, so that both directions have the same.
        keys = senders + receivers
        order = np.argsort(keys, kind="stable")
        self._keys, self._senders = keys[order], senders[order]
        flags = segments.flags[order]
        extra = ((flags & SYN) != 0).astype(np.int64) + ((flags & FIN) != 0)
        self._segments = _Found(
            np.searchsorted(packets.number, segments.number[order]),
            segments.time_ns[order],
            segments.sequence[order],
            segments.payload_bytes[order] + extra,
        )
        self._opens = (flags & (SYN | ACK)) == SYN
        # What was put together of fragments stands behind the packets of the capture.
        self._is_whole = segments.payload_start[order] <= len(packets.buffer)
        ports = segments.source_port[order] << 16 | segments.destination_port[order]
        self._sent = SentBytes(
            self._segments.time_ns,
            self._segments.sequence,
            segments.payload_start[order],
            segments.captured_bytes[order],
            ports.astype(np.uint32),
        )
        self._are_all_whole = bool(self._is_whole.all())

    def find(self, ends: Ends) -> tuple[_Found, _Found]:
        """Return what either end of a connection sent."""
        place = self._place(ends)
        found, senders = self._segments.picked(place), self._senders[place]
        return found.picked(senders == ends.first), found.picked(senders == ends.second)

    def opening_rows(self, ends: Ends) -> NDArray[np.int64]:
        """Return the packets that ask for a connection between two ends."""
        place = self._place(ends)
        rows: NDArray[np.int64] = self._segments.row[place][self._opens[place]]
        return rows

    def has_fragments(self, ends: Ends) -> bool:
        """Return whether packets of a connection were put together of fragments."""
        return not (self._are_all_whole or self._is_whole[self._place(ends)].all())

    @cached_property
    def other_rows(self) -> NDArray[np.int64]:
        """The packets that hold no whole segment."""
        return np.setdiff1d(np.arange(len(self._packets)), self._segments.row)

    def is_fragment(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which packets hold no whole segment of their own."""
        return ~np.isin(rows, self._segments.row[self._is_whole])

    def without_hidden(
        self, packets: PacketArrays, rows: NDArray[np.int64], hidden: HiddenBytes
    ) -> PacketArrays:
        """Return packets, which are those at ``rows`` here, with zeros for what is hidden.

        They are not changed here: of what cannot be read yet more may be known when others go out.
        """
        places = self._hidden_places(hidden)
        places = places[np.isin(self._segments.row[places], rows)]
        if not len(places):
            return packets
        copied = _copied(packets)
        shifts = copied.offset - packets.offset
        of_rows = np.searchsorted(rows, self._segments.row[places])
        self._blank(copied.buffer, places, shifts[of_rows], hidden)
        return copied

    def blank(self, hidden: HiddenBytes) -> None:
        """Write zeros for what is hidden."""
        places = self._hidden_places(hidden)
        self._blank(self._packets.buffer, places, np.zeros_like(places), hidden)

    def _hidden_places(self, hidden: HiddenBytes) -> NDArray[np.int64]:
        """Return the segments of connections of which anything is hidden."""
        return np.flatnonzero(np.isin(self._keys, hidden.connections) & self._is_whole)

    def _blank(
        self,
        buffer: memoryview,
        places: NDArray[np.int64],
        shifts: NDArray[np.int64],
        hidden: HiddenBytes,
    ) -> None:
        """Write zeros for what is hidden in some segments, each so much further on in a buffer."""
        senders = np.stack([self._keys[places], self._senders[places]], axis=1)
        found, sender_of = np.unique(senders, axis=0, return_inverse=True)
        for index, (connection, sender) in enumerate(found.tolist()):
            own = np.flatnonzero(sender_of.reshape(-1) == index)
            hidden.blank(buffer, self._sent.moved(places[own], shifts[own]), (connection, sender))

    def _place(self, ends: Ends) -> slice:
        begin = self._keys.searchsorted(ends.both, "left")
        return slice(int(begin), int(self._keys.searchsorted(ends.both, "right")))


def _has_holes(parts: list[_Found]) -> bool:
    """Return whether a segment begins behind the end of all before it."""
    if not parts:
        return False
    sequence = np.concatenate([part.sequence for part in parts])
    if not len(sequence):
        return False
    # From the first one, which may be anywhere among 2^32 that follow each other in a circle.
    begin = (sequence - sequence[0] + _HALF & _U32) - _HALF
    end = np.maximum.accumulate(begin + np.concatenate([part.length for part in parts]))
    return bool((begin[1:] > end[:-1]).any())


def _mixed(
    high: NDArray[np.uint64], low: NDArray[np.uint64], port: NDArray[np.integer]
) -> NDArray[np.uint64]:
    mixed = (high * _MIX[0] ^ low) * _MIX[1] ^ port.astype(np.uint64)
    mixed *= _MIX[0]
    mixed ^= mixed >> _SHIFT
    return mixed


def _columns(end: Endpoint) -> tuple[NDArray[np.uint64], ...]:
    address = int(ipaddress.ip_address(end.ip))
    numbers = address >> 64, address & _U64, end.port
    return tuple(np.array([number], np.uint64) for number in numbers)


def _pieces_of(batch: PacketArrays, ages: NDArray[np.int64], piece_bytes: int) -> Iterator[_Piece]:
    """Copy the packets of a batch, in pieces of about a size."""
    if not len(batch):
        return
    ends = np.cumsum(batch.captured_bytes + _PACKET_BYTES)
    numbers = ends // max(piece_bytes, 1)
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    for rows in np.split(np.arange(len(batch)), cuts):
        yield _Piece(_copied(batch.taken(rows)), ages[rows])


def _copied(packets: PacketArrays) -> PacketArrays:
    """Return packets in a buffer of their own, which can be written to, and otherwise the same."""
    first = int(packets.offset.min())
    end = int((packets.offset + packets.captured_bytes).max())
    size = int(packets.captured_bytes.sum())
    if end - first <= 2 * size:
        # All at once, with what is between them.
        buffer, offset = bytearray(packets.buffer[first:end]), packets.offset - first
    else:
        places = zip(packets.offset.tolist(), packets.captured_bytes.tolist(), strict=True)
        buffer = bytearray().join(packets.buffer[at : at + length] for at, length in places)
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
    """Return the packets of two batches in a buffer of their own."""
    shift = len(first.buffer)
    return PacketArrays(
        memoryview(bytearray().join([first.buffer, second.buffer])),
        np.concatenate([first.number, second.number]),
        np.concatenate([first.time_ns, second.time_ns]),
        np.concatenate([first.offset, second.offset + shift]),
        np.concatenate([first.captured_bytes, second.captured_bytes]),
        np.concatenate([first.wire_bytes, second.wire_bytes]),
        np.concatenate([first.link_type, second.link_type]),
    )
