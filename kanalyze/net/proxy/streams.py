"""Takes what proxies put before a protocol off the streams.

In: :class:`~kanalyze.model.streams.StreamUpdate` of all connections. Out: the same updates; of a
connection that begins with a prefix, without it, and the ``proxy`` of its
:class:`~kanalyze.model.tcp.TcpConnection`.

Only the first bytes of a connection are looked at. While they may be a prefix, they are buffered,
as copies, and the connection has no update. Stream offsets, times and packets stay what they were.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from kanalyze.common.buffer_budget import BufferBudget
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import load_each, save_each
from kanalyze.model.streams import (
    Chunk,
    Gap,
    PrefixBytes,
    Segments,
    StreamUpdate,
    TokenBytes,
    both_items,
    copy_of,
    items_state,
    memory_of,
)
from kanalyze.model.tcp import ProxiedBy, end_of_two, open_connection
from kanalyze.net.proxy.grammar import (
    ANSWERS,
    BEGINNINGS,
    MAX_HEAD_BYTES,
    Head,
    may_have_secrets,
    read_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import BothItems, StreamItem
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.proxy.grammar import Prefix

_PASSED: Final = Head(b"\xff", is_over=True)
"""In place of the first bytes of a direction that were passed on: no prefix begins so."""
_CONNECTION_BYTES: Final = 1 << 10
"""Memory of a connection without its items."""
_MAX_BUFFERED_BYTES: Final = 1 << 20
"""Memory of one connection; a request without an answer is not waited for any longer."""


class UnwrappedBatch(NamedTuple):
    """The updates of a batch without what proxies put before the protocol."""

    updates: Sequence[StreamUpdate]
    prefixes: Sequence[PrefixBytes] = ()
    """The prefixes that were taken off."""
    credentials: Sequence[TokenBytes] = ()
    """Where credentials for a proxy are, or may be."""


class StreamsBehindProxies:
    """Takes prefixes off the streams of all connections."""

    _NOT_SAVED = ("_budget", "_prefixes", "_credentials")

    def __init__(self, most_bytes: int) -> None:
        """Begin.

        Args:
            most_bytes: memory for all connections. Above it, those that are silent for longest are
                passed on as they are.
        """
        self._budget = BufferBudget(most_bytes)
        self._begun: dict[int, _ConnectionStart] = {}
        """By serial, the connections whose first bytes may be a prefix, or are one that has not
        ended."""
        self._one_sided: dict[int, int] = {}
        """By serial, the direction that was passed on, if the other one has not begun."""
        self._prefixes: list[PrefixBytes] = []
        self._credentials: list[TokenBytes] = []

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered for open connections."""
        return self._budget.total

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes, between two batches."""
        return save_each(self._begun), tuple(self._one_sided.items())

    def load_state(self, state: object, connections: Mapping[int, TcpConnection]) -> None:
        """Continue from a state, before anything was fed; raises ValueError for any other value.

        ``connections`` are the open connections, by serial.
        """
        begun, one_sided = fields(state, "tt")
        self._begun = load_each(
            begun, lambda serial: _ConnectionStart(open_connection(connections, serial), None)
        )
        for serial, start in self._begun.items():
            self._budget.note(serial, start.buffered_bytes)
        for entry in items(one_sided, "t"):
            serial, direction = fields(entry, "nn")
            open_connection(connections, serial)
            if direction > 1:
                raise ValueError("no direction")
            self._one_sided[serial] = direction

    def feed(self, updates: Sequence[StreamUpdate]) -> UnwrappedBatch:
        """Return the updates of a batch in the same order, without prefixes.

        Updates of connections that are not decided yet come later.
        """
        begun = self._begun
        concerned = [
            index
            for index, update in enumerate(updates)
            if _has_first_bytes(update) or update.connection.serial in begun or update.closed
        ]
        if not concerned:
            return UnwrappedBatch(updates)
        read: list[StreamUpdate | None] = list(updates)
        for index in concerned:
            read[index] = self._read(updates[index])
        passed = [update for update in read if update is not None]
        passed += map(self._given_up, self._budget.excess())
        prefixes, self._prefixes = self._prefixes, []
        credentials, self._credentials = self._credentials, []
        return UnwrappedBatch(passed, prefixes, credentials)

    def _read(self, update: StreamUpdate) -> StreamUpdate | None:
        """Return the update to pass on; None for none."""
        tcp = update.connection
        start = self._begun.pop(tcp.serial, None)
        passed = self._one_sided.pop(tcp.serial, None)
        if start is None:
            if not _has_first_bytes(update):
                return update
            if passed is not None and passed == tcp.opened_by:
                return update  # only the end that opened the connection begins with a prefix
            passed = _passed_before(update, passed)
            if not _may_begin(update, passed):
                self._note_one_sided(update, passed)
                return update
            start = _ConnectionStart(tcp, passed)
        if start.ends is None:
            start.add(update.items)
            prefix = start.decide(is_last=update.closed)
            if prefix is None:
                return self._hold(start, update)
            self._note_credentials(start, prefix)
            if not prefix.layers:
                return _with_items(update, self._pass(start, is_last=update.closed))
            self._note_prefix(start, prefix)
            rest = start.cut_buffered()
        else:
            rest = start.cut(update.items)
        self._budget.note(tcp.serial, 0)
        if not (update.closed or start.is_past):
            self._begun[tcp.serial] = start
        return _with_items(update, rest)

    def _hold(self, start: _ConnectionStart, update: StreamUpdate) -> StreamUpdate | None:
        serial = update.connection.serial
        start.copy_buffered()
        self._begun[serial] = start
        self._budget.note(serial, start.buffered_bytes)
        for direction in (0, 1):
            if may_have_secrets(start.heads[direction].data):
                self._add_credentials(start.tcp, direction, 0, None)
        through = start.take_through()
        return _with_items(update, through) if any(through) else None

    def _note_one_sided(self, update: StreamUpdate, passed: int | None) -> None:
        """Note the direction of an update that is passed on, if the other one has not begun."""
        first, second = update.items
        if passed is None and not update.closed and not (first and second):
            self._one_sided[update.connection.serial] = 0 if first else 1

    def _pass(self, start: _ConnectionStart, *, is_last: bool) -> BothItems:
        """Return all items; the connection has no prefix."""
        self._budget.note(start.tcp.serial, 0)
        directions = [direction for direction in (0, 1) if start.has_begun(direction)]
        if not is_last and len(directions) == 1:
            self._one_sided[start.tcp.serial] = directions[0]
        return start.take_all()

    def _given_up(self, serial: int) -> StreamUpdate:
        """Return an update of a connection for which there is no memory."""
        start = self._begun.pop(serial)
        self._note_credentials(start, None)
        return StreamUpdate(start.tcp, self._pass(start, is_last=False), closed=False)

    def _note_prefix(self, start: _ConnectionStart, prefix: Prefix) -> None:
        """Write what the prefix says into the connection."""
        named = [layer.client for layer in prefix.layers if layer.client is not None]
        targets = [layer.target for layer in prefix.layers if layer.target is not None]
        client = named[-1] if named else None
        start.tcp.proxy = ProxiedBy(
            "+".join([layer.kind for layer in prefix.layers]),
            None if client is None else client.ip,
            None if client is None else client.port,
            targets[-1] if targets else None,
        )
        for side in (0, 1):
            direction = start.direction_of(side)
            data = start.heads[direction].data[: prefix.ends[side]]
            if prefix.ends[side]:
                part = PrefixBytes(start.tcp, direction, data, prefix.parts[side])
                self._prefixes.append(part)
        start.begin_cutting(prefix)

    def _note_credentials(self, start: _ConnectionStart, prefix: Prefix | None) -> None:
        """Note where credentials are, in place of where they might have been."""
        has_layers = prefix is not None and bool(prefix.layers)
        for direction in (0, 1):
            data = start.heads[direction].data
            if may_have_secrets(data[:1]):
                is_unread = not has_layers and may_have_secrets(data)
                self._add_credentials(start.tcp, direction, 0, len(data) if is_unread else 0)
        if prefix is not None and has_layers:
            for part in prefix.parts[0]:
                if part.kind == "secret":
                    self._add_credentials(start.tcp, start.direction_of(0), part.begin, part.end)

    def _add_credentials(
        self, tcp: TcpConnection, direction: int, begin: int, end: int | None
    ) -> None:
        self._credentials.append(TokenBytes(tcp, direction, begin, begin, end, tcp.last_time_ns))


class _ConnectionStart:
    """The first bytes of one connection.

    Attributes:
        heads: by direction, the first bytes up to the first hole.
        ends: by direction, the stream offset behind the prefix; None while it is not known.
    """

    __slots__ = ("_buffered", "_copied", "_sender", "_through", "ends", "heads", "passed", "tcp")
    _NOT_SAVED = ("_copied", "_sender", "_through", "heads", "tcp")

    def __init__(self, tcp: TcpConnection, passed: int | None) -> None:
        self.tcp = tcp
        self.passed = passed
        """The direction that was passed on before; None for none."""
        self.heads = [Head(b"", is_over=False), Head(b"", is_over=False)]
        if passed is not None:
            self.heads[passed] = _PASSED
        self.ends: list[int] | None = None
        self._buffered: BothItems = ([], [])
        self._through: list[StreamItem] = []
        """Items of the batch in the direction that was passed on before."""
        self._copied = [0, 0]
        """How many buffered items are copies, by direction."""
        self._sender = 0

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes."""
        ends = None if self.ends is None else tuple(self.ends)
        buffered = tuple(map(items_state, self._buffered))
        return self.passed, ends, buffered

    def load_state(self, state: object, _context: object) -> None:
        """Continue from a state; raises ValueError for any other value."""
        passed, ends, buffered = fields(state, "NTt")
        if passed is not None:
            self.passed = end_of_two(passed)
            self.heads[passed] = _PASSED
        self.add(both_items(buffered))
        self._copied = [len(each) for each in self._buffered]
        if ends is not None:
            self.ends = list(fields(ends, "nn"))

    @property
    def buffered_bytes(self) -> int:
        """Memory of the buffered items, and of what was read of them."""
        item_bytes = sum(map(memory_of, chain(*self._buffered)))
        return _CONNECTION_BYTES + item_bytes + sum(len(head.data) for head in self.heads)

    @property
    def _is_too_much(self) -> bool:
        """True if no more bytes are waited for."""
        is_long = any(len(head.data) >= MAX_HEAD_BYTES for head in self.heads)
        return is_long or self.buffered_bytes > _MAX_BUFFERED_BYTES

    @property
    def is_past(self) -> bool:
        """True if no byte of the prefix is still to come."""
        return self.ends == [0, 0]

    def has_begun(self, direction: int) -> bool:
        """Return true if anything of a direction was seen."""
        head = self.heads[direction]
        return bool(head.data) or head.is_over

    def direction_of(self, side: int) -> int:
        """Return the direction of the end that began with the prefix (0), or of the other (1)."""
        return self._sender if side == 0 else 1 - self._sender

    def add(self, added: BothItems) -> None:
        """Buffer items, which are valid until :meth:`copy_buffered`."""
        for direction in (0, 1):
            if direction == self.passed:
                self._through += added[direction]
                continue
            self._buffered[direction].extend(added[direction])
            self.heads[direction] = _extended(self.heads[direction], added[direction])

    def decide(self, *, is_last: bool) -> Prefix | None:
        """Return the prefix, without layers if there is none; None if more bytes may decide."""
        is_last = is_last or self._is_too_much
        heads = [Head(head.data, head.is_over or is_last) for head in self.heads]
        decided: Prefix | None = None
        is_decided = True
        for sender in (0, 1) if self.tcp.opened_by is None else (self.tcp.opened_by,):
            prefix = read_prefix(heads[sender], heads[1 - sender])
            if prefix is None:
                is_decided = False
            elif prefix.layers:
                self._sender = sender
                return prefix
            else:
                decided = prefix
        return decided if is_decided else None

    def begin_cutting(self, prefix: Prefix) -> None:
        """Note where the prefix ends."""
        first, second = prefix.ends
        self.ends = [first, second] if self._sender == 0 else [second, first]
        if self.passed is not None:
            self.ends[self.passed] = 0

    def cut_buffered(self) -> BothItems:
        """Return the buffered items without the prefix."""
        return self.cut(self.take_all())

    def cut(self, added: BothItems) -> BothItems:
        """Return items without the prefix."""
        assert self.ends is not None
        rest: BothItems = ([], [])
        for direction in (0, 1):
            end = self.ends[direction]
            rest[direction].extend(_behind(added[direction], end) if end else added[direction])
            if rest[direction]:
                self.ends[direction] = 0
        return rest

    def copy_buffered(self) -> None:
        """Copy the items buffered since the last call, before the batch's buffer is used again."""
        for direction, buffered in enumerate(self._buffered):
            copies = self._copied[direction]
            buffered[copies:] = map(copy_of, buffered[copies:])
            self._copied[direction] = len(buffered)

    def take_through(self) -> BothItems:
        """Return the items of the direction that was passed on before."""
        through, self._through = self._through, []
        return ([], through) if self.passed == 1 else (through, [])

    def take_all(self) -> BothItems:
        """Return all items, which are buffered no longer."""
        first, second = self._buffered
        self._buffered, self._copied = ([], []), [0, 0]
        through = self.take_through()
        return first + through[0], second + through[1]


def _has_first_bytes(update: StreamUpdate) -> bool:
    """Return true if an update has the first bytes of a direction."""
    first, second = update.items
    return bool(first and not first[0].stream_offset) or bool(
        second and not second[0].stream_offset
    )


def _may_begin(update: StreamUpdate, passed: int | None) -> bool:
    """Tell, by the first byte of each direction, whether a connection may begin with a prefix."""
    opened_by = update.connection.opened_by
    for sender in (0, 1) if opened_by is None else (opened_by,):
        if update.items[sender]:
            if _first_byte(update.items[sender][0]) in BEGINNINGS:
                return True
        elif sender != passed:
            other = update.items[1 - sender]
            if other and _first_byte(other[0]) in ANSWERS:
                return True
    return False


def _first_byte(item: StreamItem) -> int | None:
    if not isinstance(item, Chunk) or not item.segments.captured[item.first]:
        return None
    return item.segments.buffer[item.segments.start[item.first]]


def _passed_before(update: StreamUpdate, passed: int | None) -> int | None:
    """Return the direction whose first bytes were passed on before; None for none."""
    if passed is not None:
        return passed
    for direction in (0, 1):
        added = update.items[direction]
        if added and added[0].stream_offset:
            return direction
    return None


def _extended(head: Head, added: Sequence[StreamItem]) -> Head:
    """Return the first bytes of a direction with those of more items, up to a hole."""
    if head.is_over or not added:
        return head
    data = bytearray(head.data)
    for item in added:
        if not isinstance(item, Chunk):
            return Head(bytes(data), is_over=True)
        segments = item.segments
        for index in range(item.first, item.last):
            begin, captured = segments.start[index], segments.captured[index]
            data += segments.view(begin, begin + captured)
            if captured < segments.length[index] or len(data) >= MAX_HEAD_BYTES:
                return Head(bytes(data), is_over=True)
    return Head(bytes(data), is_over=False)


def _behind(added: Sequence[StreamItem], end: int) -> Iterator[StreamItem]:
    """Yield what is behind a stream offset."""
    for item in added:
        if isinstance(item, Chunk):
            yield from _chunks_behind(item, end)
        elif item.stream_offset >= end:
            yield item
        elif item.stream_offset + item.length > end:
            skipped = end - item.stream_offset
            yield Gap(end, item.length - skipped, item.time_ns, item.packet)


def _chunks_behind(chunk: Chunk, end: int) -> Iterator[Chunk]:
    segments, first, offset = chunk.segments, chunk.first, chunk.stream_offset
    while first < chunk.last and offset + segments.length[first] <= end:
        offset += segments.length[first]
        first += 1
    if first < chunk.last and offset < end:
        skipped = end - offset
        rest = Segments(
            segments.buffer,
            [segments.start[first] + skipped],
            [segments.length[first] - skipped],
            [max(segments.captured[first] - skipped, 0)],
            [segments.time_ns[first]],
            [segments.packet[first]],
        )
        yield Chunk(end, rest, 0, 1)
        offset += segments.length[first]
        first += 1
    if first < chunk.last:
        yield Chunk(offset, segments, first, chunk.last)


def _with_items(update: StreamUpdate, rest: BothItems) -> StreamUpdate:
    read = StreamUpdate(update.connection, rest, update.closed)
    read.closed_packet = update.closed_packet
    return read
