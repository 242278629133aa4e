"""The loops over bytes of anonymizing: fields of messages, records, packets of TCP.

In: bytes, and what is known of their form: the steps of a message (:mod:`.rules`), a records field,
a packet. Out: bytes of the same length, in which numbers stay and all else is replaced.

This module is compiled, because nearly all time of anonymizing is spent in it. What is rare is in
:mod:`.messages`, :mod:`.records` and :mod:`.packets`, whose classes go on where these ones end.
Every byte of an output is zero until it is written on purpose.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, Final

from kanalyze.anonymization.rules import (
    ARRAY,
    COMPACT,
    FIXED,
    FIXED_ARRAY,
    ID,
    SHORT,
    SIZED,
    TAGS,
    WIDE,
)
from kanalyze.common.caches import remember
from kanalyze.kafka.framing.frame import plain_body
from kanalyze.kafka.records.batches import RecordCursor
from kanalyze.kafka.records.compression import crc32c
from kanalyze.kafka.records.types import (
    BATCH_HEADER_BYTES,
    ENTRY_HEAD_BYTES,
    MAGIC_AT,
    MESSAGE_HEAD_BYTES,
)
from kanalyze.model.packets import PacketBatch
from kanalyze.net.header_cursor import HeaderCursor
from kanalyze.net.layer_stats import LayerStats

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.header_cursor import read_ipv4, read_ipv6
    from kanalyze.net.header_kinds import DROPPED, IPV4, IPV6, TCP
    from kanalyze.net.headers import read_link

    PIECE_CELLS = 4  # stream, offset, length, place in the file

    def copy_bytes(
        data: bytes | bytearray | memoryview,
        begin: int,
        to: bytearray | memoryview,
        at: int,
        count: int,
    ) -> None:
        """Copy ``count`` bytes, 0 or fewer for none; IndexError if either lacks some."""
        if count > 0:
            if min(at, begin) < 0 or max(begin - len(data), at - len(to)) > -count:
                raise IndexError("bytes that are not there")
            to[at : at + count] = data[begin : begin + count]

    def put_bytes(content: bytes, to: bytearray | memoryview, at: int, count: int) -> None:
        """Write the first bytes of ``content``; compiled, it makes no memoryview of them."""
        copy_bytes(content, 0, to, at, count)

    def bytes_in(data: bytes | bytearray | memoryview, begin: int, size: int) -> bytes:
        """Return a copy of some bytes; IndexError if ``data`` lacks some."""
        if begin < 0 or size > len(data) - begin:
            raise IndexError("bytes that are not there")
        return bytes(data[begin : begin + size])

    def fill_bytes(to: bytearray | memoryview, at: int, count: int, byte: int) -> None:
        """Write the same byte ``count`` times, 0 or fewer for none; IndexError as above."""
        if count > 0:
            if at < 0 or count > len(to) - at:
                raise IndexError("bytes that are not there")
            to[at : at + count] = bytes((byte,)) * count

    def sums_of_bytes(data: bytes | bytearray | memoryview, begin: int, end: int) -> int:
        """Return the sum of the bytes at even and at odd places, the former times 256."""
        if begin < 0 or end > len(data):
            raise IndexError("bytes that are not there")
        return (sum(data[begin:end:2]) << 8) + sum(data[begin + 1 : end : 2])


UUID_RULE, BLANK_RULE, MESSAGE_RULE, RECORDS_RULE = 3, 4, 8, 9

HEAD_BYTES = 8  # of a response: size and correlation id; of a request: size, key, version
CLIENT_ID_AT = 12
MAX_BEGIN_BYTES = 6  # a throttle time and an error code, which many responses begin with
UUID_BYTES = 16
FILL = 0x78  # x
UNREADABLE = 0xFF

CRC_AT, CRC_FROM = 17, 21
OLD_CRC_AT = 12
COUNT_AT = 57
CODEC, CONTROL = 0x07, 0x20
# Sizes of the key and the value of a control record that only have its type (KIP-98).
CONTROL_KEY_BYTES, CONTROL_VALUE_BYTES = 4, 6

ONES = 0xFFFF
WRONG = 0x5555
IPV4_BYTES, IPV6_BYTES, TCP_BYTES = 20, 40, 20
FRAGMENT_BITS = 0x3FFF
OFFSET_AND_MORE = 0xFFF9
FRAGMENT_HEADER, AUTHENTICATION = 44, 51
TCP_PROTOCOL, UDP_PROTOCOL = 6, 17
SYN = 2
TIMESTAMPS_BYTES = 12
TWO_NOPS, TIMESTAMPS_HEAD = 0x0101, 0x080A
ALERT_BYTES = 7

ETHERNET_LINK = 1
MAX_HEADERS = 24

SASL_HANDSHAKE, ENVELOPE = 17, 58  # API keys


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from mmap import mmap
    from typing import BinaryIO, Protocol, TypeAlias

    from kanalyze.anonymization.stand_ins import StandIns
    from kanalyze.kafka.session.exchange import Exchange, Message, Peers

    Ranges: TypeAlias = Sequence[tuple[int, int]]
    """Begin and end of each range; the end is not included."""

    class StreamRanges(Protocol):
        """Ranges of streams."""

        def add(self, stream: int, begin: int, end: int) -> None:
            """Add a range."""
            ...

    class Messages(Protocol):
        """Replaces what is inside of the fields of messages."""

        known: list[dict[bytes, bytes]]
        """By rule: replacements that were made before."""
        plans: dict[int, WalkPlan | None]
        """How to walk messages whose form does not depend on their bytes, by :func:`form_key`."""

        @property
        def records(self) -> BatchBlanker:
            """What blanks records fields."""
            ...

        def content(self, rule: int, content: bytes) -> bytes:
            """Return the replacement for the content of a field with this rule."""
            ...

        def embedded(
            self, content: bytes, forwarded: tuple[int, int] | None
        ) -> tuple[bytes | bytearray, tuple[int, int] | None]:
            """Return the message inside an Envelope, and its API key and version if a request."""
            ...


_NO_OPTION: Final = b"\x01"
_KEPT_OPTIONS: Final = frozenset((2, 3, 4, 5, 8))
"""Segment size, window scale, selective acknowledgments, timestamps."""
_CLEAR_ALERT: Final = re.compile(rb"\x15\x03[\0-\x04]\0\x02[\1\2].", re.DOTALL)
"""A TLS record with an alert that is not encrypted: its level and its description."""
_NO_NUMBERS: Final = array("q")
HALF, MASK = 1 << 31, 0xFFFFFFFF
WINDOW_BYTES = 1 << 30
NO_HOLE = 1 << 62
_MAX_KNOWN: Final = 1 << 16
"""Number of address pairs that are cached."""
_WRITTEN_AT_ONCE: Final = 1 << 20
_FIRST_PIECES: Final = 1 << 10


def overlaps(ranges: Ranges, begin: int, end: int) -> bool:
    """Return true if one of the ranges has bytes between ``begin`` and ``end``."""
    return any(first < end and last > begin for first, last in ranges)


# -- messages -------------------------------------------------------------------------------------


class WalkPlan:
    """How to walk the messages of a version."""

    def __init__(
        self, steps: array[int] | None, header_version: int, is_known: bool, head: bytes = b""
    ) -> None:
        """Make one.

        Args:
            steps: the steps of the body, see :func:`~kanalyze.anonymization.rules.plan_of`; None
                if the body cannot be walked.
            header_version: of the request or the response.
            is_known: whether the definition has the version of the request.
            head: the first bytes of a request whose header may be plain (API key and version);
                empty for responses.
        """
        self.has_steps = steps is not None
        self.steps = memoryview(steps or _NO_NUMBERS)
        self.header_version = header_version
        self.is_known = is_known
        self.head = head


class _UnreadableBody(Exception):
    """A body does not fit its definition."""


class _Missing(Exception):
    """A length, count or marker that the walk needs is among the missing bytes."""


class FrameWalk:
    """One walk over a frame. Bytes that were read as numbers are copied, and no others.

    Attributes:
        out: the anonymized frame; bytes that the walk did not come to are zero.
        records: ranges of the records in it, without batch headers.
        inner: API key and version of the request inside an Envelope.
    """

    def __init__(
        self,
        messages: Messages,
        data: bytes,
        holes: Ranges,
        forwarded: tuple[int, int] | None,
    ) -> None:
        """Stand before the frame; for the arguments see :meth:`.MessageAnonymizer.message`."""
        self._messages = messages
        self._known = messages.known
        self._blanker = messages.records
        self._bytes = data
        self._data = data
        self._size = len(data)
        self.out = bytearray(self._size)
        self._out = self.out
        self._holes = holes
        self._first_hole = holes[0][0] if holes else NO_HOLE
        self._forwarded = forwarded
        self._copied = 0  # all before this position is written
        self._at = 0  # all before this position was read; what is not written are numbers
        self.records: list[tuple[int, int]] = []
        self.inner: tuple[int, int] | None = None

    def rewrite(self, plan: WalkPlan | None, body: int, is_request: bool) -> bool:
        """Write the frame; return whether its body could be read.

        Args:
            plan: how to walk it; None if its header cannot be read.
            body: position of the first byte of the body.
            is_request: whether it is a request.
        """
        try:
            is_read = self._frame(plan, body, is_request)
        except (_Missing, _UnreadableBody, IndexError):
            is_read = False
        self._flush()
        return is_read

    def _frame(self, plan: WalkPlan | None, body: int, is_request: bool) -> bool:
        self._pass(HEAD_BYTES)
        if plan is None:
            return False
        self._header(plan, body, is_request)
        if not plan.has_steps:
            return False
        self._flush()
        self._steps = plan.steps
        begin = self._at
        try:
            self._walk(0, len(self._steps))
        except (_UnreadableBody, IndexError):
            is_read = False
        else:
            is_read = plan.is_known or self._at == self._size
        if is_read:
            self._rest()
        else:
            self._discard(begin)
        return is_read

    def _header(self, plan: WalkPlan, body: int, is_request: bool) -> None:
        version = plan.header_version
        if is_request:
            self._pass(CLIENT_ID_AT - HEAD_BYTES)
            if version:
                size = self._length(SHORT)
                if size > 0:
                    self._content(size, 0)
            version -= 1
        if version > 0 and body > self._at:
            self._tags(0, 0)
        if self._at != body:
            raise IndexError

    def _rest(self) -> None:
        """Fill what is after the body: a few zeros are padding, which any other byte is not."""
        self._flush()
        for at in range(self._at, self._size):
            if self._data[at]:
                for place in range(self._at, self._size):
                    self._out[place] = UNREADABLE
                break

    def _discard(self, body: int) -> None:
        """Discard what was written of the body, and fill it.

        The numbers that it begins with stay, most often an error code: readers decide by it how to
        read the rest.
        """
        begin = 0
        if len(self._steps) and self._steps[0] == FIXED:
            begin = self._steps[1]
        end = min(body + begin, body + MAX_BEGIN_BYTES, self._size)
        for at in range(body, end):
            self._out[at] = self._data[at]
        for at in range(end, self._size):
            self._out[at] = UNREADABLE
        self._copied = self._at = self._size
        self.records.clear()

    # -- bytes ------------------------------------------------------------------------------------

    def _pass(self, size: int) -> None:
        """Copy bytes that are numbers."""
        if self._at + size > self._size:
            raise IndexError
        self._at += size

    def _put(self, content: bytes | bytearray, size: int) -> None:
        """Replace the next ``size`` bytes by ``content``."""
        self._flush()
        self.out[self._at : self._at + size] = content
        self._copied = self._at = self._at + size

    def _flush(self) -> None:
        count = min(self._at, self._size) - self._copied
        copy_bytes(self._data, self._copied, self._out, self._copied, count)
        self._copied = self._at

    def _need(self, size: int) -> None:
        """Raise _Missing if the capture lacks any of the next ``size`` bytes."""
        if self._at + size > self._first_hole and overlaps(self._holes, self._at, self._at + size):
            raise _Missing

    def _length(self, form: int) -> int:
        """Read a length, or a count; -1 is null."""
        if self._at + 5 > self._first_hole:
            self._need(2 if form == SHORT else 4 if form == WIDE else 1)
        if form == COMPACT:
            if self._at >= self._size:
                raise IndexError
            byte = self._data[self._at]
            if byte < 0x80:
                self._at += 1
                return byte - 1
            return self._unsigned() - 1
        if form == SHORT:
            self._pass(2)
            length = self._data[self._at - 2] << 8 | self._data[self._at - 1]
            if length >= 0x8000:
                length -= 0x10000
        else:
            self._pass(4)
            length = int32_at(self._data, self._at - 4)
        if length < -1:
            raise _UnreadableBody
        return length

    def _unsigned(self) -> int:
        value = 0
        for shift in (0, 7, 14, 21, 28):
            self._need(1)
            if self._at >= self._size:
                raise IndexError
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise _UnreadableBody

    def _content(self, size: int, rule: int) -> None:
        at = self._at
        end = at + size
        if end > self._size:
            raise IndexError
        if rule == RECORDS_RULE:
            self._records(size)
            return
        if rule == BLANK_RULE or (end > self._first_hole and overlaps(self._holes, at, end)):
            self._fill(size)
            return
        content = self._bytes[at:end]
        if rule == MESSAGE_RULE:
            replacement, inner = self._messages.embedded(content, self._forwarded)
            if inner is not None:
                self.inner = inner
            self._put(replacement, size)
            return
        known = self._known[rule].get(content)
        self._put(self._messages.content(rule, content) if known is None else known, size)

    def _fill(self, size: int) -> None:
        """Blank the next ``size`` bytes."""
        self._flush()
        fill_bytes(self._out, self._at, size, FILL)
        self._copied = self._at = self._at + size

    def _records(self, size: int) -> None:
        at = self._at
        holes: Sequence[tuple[int, int]] = ()
        if at + size > self._first_hole:
            holes = holes_within(self._holes, at, at + size)
        self._flush()
        self._blanker.blank(self._bytes, at, at + size, self.out, self.records, holes)
        self._copied = self._at = at + size

    # -- bodies -----------------------------------------------------------------------------------

    def _walk(self, pc: int, pc_end: int) -> None:
        """Take the steps between two places."""
        while pc < pc_end:
            code = self._steps[pc]
            if code == FIXED:
                self._at += self._steps[pc + 1]
                if self._at > self._size:
                    raise IndexError
                pc += 2
            elif code == SIZED:
                size = self._length(self._steps[pc + 1])
                if size > 0:
                    self._content(size, self._steps[pc + 2])
                pc += 3
            elif code == ARRAY:
                count = self._count(self._steps[pc + 1])
                end = pc + 3 + self._steps[pc + 2]
                for _i in range(count):
                    self._walk(pc + 3, end)
                pc = end
            else:
                pc = self._other_step(code, pc)

    def _other_step(self, code: int, pc: int) -> int:
        """Take a step; return the place of the next one."""
        if code == ID:
            self._content(UUID_BYTES, UUID_RULE)
            return pc + 1
        if code == FIXED_ARRAY:
            count = self._length(self._steps[pc + 1])
            if count > 0:
                self._at += count * self._steps[pc + 2]
            if self._at > self._size:
                raise IndexError
            return pc + 3
        end = pc + 2 + self._steps[pc + 1]
        if code == TAGS:
            self._tags(pc + 2, end)
            return end
        self._need(1)
        self._pass(1)
        marker = self._data[self._at - 1]
        if marker == 1:
            self._walk(pc + 2, end)
        elif marker != 0xFF:  # not null either
            raise _UnreadableBody
        return end

    def _count(self, form: int) -> int:
        count = self._length(form)
        if count > self._size - self._at:
            raise _UnreadableBody
        return count

    def _tags(self, pc: int, pc_end: int) -> None:
        """Walk a section of tagged fields; unknown ones are blanked."""
        if self._at < self._first_hole:
            if self._at >= self._size:
                raise IndexError
            if not self._data[self._at]:
                self._at += 1  # most sections are empty
                return
        count = self._unsigned()
        for _i in range(count):
            tag = self._unsigned()
            size = self._unsigned()
            end = self._at + size
            if end > self._size:
                raise IndexError
            steps_at = self._steps_of_tag(tag, pc, pc_end)
            if not steps_at:
                self._flush()
                self._copied = self._at = end
                continue
            self._walk(steps_at, steps_at + self._steps[steps_at - 1])
            if self._at != end:
                raise _UnreadableBody

    def _steps_of_tag(self, tag: int, pc: int, pc_end: int) -> int:
        """Return where the steps of a tag begin; 0 if it is unknown."""
        while pc < pc_end:
            if self._steps[pc] == tag:
                return pc + 2
            pc += 2 + self._steps[pc + 1]
        return 0


def holes_within(holes: Ranges, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of ranges that are between two positions."""
    return [
        (max(first, begin), min(last, end)) for first, last in holes if first < end and last > begin
    ]


def int32_at(data: bytes | memoryview, at: int) -> int:
    """Read a signed number of four bytes."""
    number = data[at]  # C shifts a byte as an int, which has no room for it
    number = number << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
    return number - 0x1_0000_0000 if number >= 0x8000_0000 else number


def form_key(api_key: int, api_version: int, is_request: bool) -> int:
    """Return a number for the messages of an API and a version."""
    return (api_key << 16 | (api_version & 0xFFFF)) << 1 | is_request


class MessageWriter:
    """Writes the anonymized messages of exchanges; subclasses write those that are rare.

    Attributes:
        pieces: where they are written to.
        message_count: number of messages so far.
        unread_messages: number of those whose body could not be read; the whole body is blank.
    """

    def __init__(
        self, messages: Messages, pieces: PieceWriter, ranges: StreamRanges | None
    ) -> None:
        """Write to ``pieces``; the ranges of records to ``ranges``, if these are asked for."""
        self.messages = messages
        self.pieces = pieces
        self.message_count = 0
        self.unread_messages = 0
        self._ranges = ranges
        self._plans = messages.plans
        self._peers: Peers | None = None
        self._stream = 0
        self._tokens: dict[tuple[int, int], tuple[int, int | None]] = {}

    def add_exchanges(self, exchanges: list[Exchange]) -> None:
        """Write the messages of exchanges, whose bytes are discarded then."""
        self._peers = None  # the connection may have been closed since
        for exchange in exchanges:
            self._exchange(exchange)

    def connection(self, peers: Peers) -> tuple[int, dict[tuple[int, int], tuple[int, int | None]]]:
        """Return the number of the client's stream of a connection, and frames that may be tokens.

        These are by direction and stream offset.
        """
        raise NotImplementedError

    def rare_exchange(self, exchange: Exchange) -> tuple[int, int] | None:
        """Note what a SaslHandshake says; return key and version of the request in an Envelope."""
        raise NotImplementedError

    def other_message(
        self,
        exchange: Exchange,
        message: Message,
        is_request: bool,
        forwarded: tuple[int, int] | None,
    ) -> tuple[bytes | bytearray, Ranges, bool]:
        """Return a message that is not whole, or has no plain header.

        Also return the ranges of its records, and whether its body could be read.
        """
        raise NotImplementedError

    def _exchange(self, exchange: Exchange) -> None:
        if exchange.peers is not self._peers:
            self._peers = exchange.peers
            self._stream, self._tokens = self.connection(exchange.peers)
        if exchange.wire != "kafka":
            return
        key = exchange.key
        forwarded = None
        if key in (SASL_HANDSHAKE, ENVELOPE):
            forwarded = self.rare_exchange(exchange)
        if exchange.request is not None:
            self._message(exchange, exchange.request, True, self._stream, None)
        if exchange.response is not None:
            self._message(exchange, exchange.response, False, self._stream ^ 1, forwarded)

    def _message(
        self,
        exchange: Exchange,
        message: Message,
        is_request: bool,
        stream: int,
        forwarded: tuple[int, int] | None,
    ) -> None:
        offset = message.stream_offset
        if self._tokens:
            self._tokens.pop((stream & 1, offset), None)
        self.message_count += 1
        data = message.data
        plan: WalkPlan | None = None
        body = 0
        if data is not None:
            plan = self._plans.get(form_key(exchange.key, exchange.key_version, is_request))
            if plan is not None:
                body = plain_body(data, plan.head, plan.header_version)
        content: bytes | bytearray
        records: Ranges
        if data is not None and body:
            walk = FrameWalk(self.messages, data, (), forwarded)
            is_read = walk.rewrite(plan, body, is_request)
            content, records = walk.out, walk.records
        else:
            content, records, is_read = self.other_message(exchange, message, is_request, forwarded)
        message.data = message.pieces = None
        if not is_read:
            self.unread_messages += 1
        self.pieces.add(stream, offset, content)
        if self._ranges is not None:
            for begin, end in records:
                if begin < end:
                    self._ranges.add(stream, offset + begin, offset + end)


# -- records --------------------------------------------------------------------------------------


class BatchBlanker:
    """Blanks records fields, one after the other; subclasses rewrite what is compressed or old.

    Attributes:
        blanked_batches: number of batches whose records were blanked as a whole.
    """

    def __init__(self, header_name: Callable[[bytes], bytes]) -> None:
        """``header_name`` returns the stand-in of the name of a header."""
        self._header_name = header_name
        self.blanked_batches = 0

    def blank(
        self,
        field: bytes,
        at: int,
        last: int,
        out: bytearray,
        records: list[tuple[int, int]],
        holes: Ranges = (),
    ) -> None:
        """Write a records field without contents.

        Args:
            field: bytes that have it.
            at: where it begins.
            last: where it ends.
            out: it is written to the same place here, where all is zero so far.
            records: the ranges of its records are added.
            holes: the ranges of missing bytes. A batch with a hole keeps only its header.
        """
        data = field
        view = out
        while at < last:
            if holes and overlaps(holes, at, min(at + BATCH_HEADER_BYTES, last)):
                break  # without this header, it is unknown where the next batch begins
            at = self._entry(field, data, at, last, out, view, records, holes)
            if not at:
                break

    def _entry(
        self,
        field: bytes,
        data: bytes,
        at: int,
        last: int,
        out: bytearray,
        view: bytearray,
        records: list[tuple[int, int]],
        holes: Ranges,
    ) -> int:
        """Blank the batch or message at ``at``; return its end, or 0 if no other can follow it."""
        remaining_bytes = last - at
        if remaining_bytes < MESSAGE_HEAD_BYTES:
            return 0
        length = int32_at(data, at + 8)
        magic = data[at + MAGIC_AT]
        if magic > 2:
            return 0  # not a batch
        if length < (BATCH_HEADER_BYTES - ENTRY_HEAD_BYTES if magic == 2 else 14 + 8 * magic):
            return 0
        head = BATCH_HEADER_BYTES if magic == 2 else MESSAGE_HEAD_BYTES + 8 * magic
        if remaining_bytes < head:
            copy_bytes(data, at, view, at, ENTRY_HEAD_BYTES)
            view[at + MAGIC_AT] = magic
            return 0
        copy_bytes(data, at, view, at, head)
        end = at + ENTRY_HEAD_BYTES + length
        # Readers look at this many bytes of every entry, even if some of them are records.
        records.append((min(at + BATCH_HEADER_BYTES, end), min(end, last)))
        is_complete = end <= last and not (holes and overlaps(holes, at, end))
        if not is_complete:
            # The batch is cut off or has a hole: its checksum cannot be calculated.
            crc_at = CRC_AT if magic == 2 else OLD_CRC_AT
            fill_bytes(view, at + crc_at, 4, 0)
            return end if end <= last else 0
        if magic == 2:
            self._batch(field, data, at, end, out, view)
        else:
            out[at:end] = self.message(field[at:end])
        return end

    def _batch(
        self, field: bytes, data: bytes, at: int, end: int, out: bytearray, view: bytearray
    ) -> None:
        attributes = data[at + CRC_FROM + 1]
        count = int32_at(data, at + COUNT_AT)
        is_control = attributes & CONTROL != 0
        begin = at + BATCH_HEADER_BYTES
        if attributes & CODEC:
            packed = self.repacked(attributes & CODEC, field[begin:end], count, is_control)
            is_blanked = packed is not None
            if packed is not None:
                out[begin:end] = packed
        else:
            copy_bytes(data, begin, view, begin, end - begin)
            is_blanked = self.blank_records(field, begin, end, count, is_control, out)
            if not is_blanked:
                fill_bytes(view, begin, end - begin, 0)
        if not is_blanked:
            self.blanked_batches += 1
        is_right = crc32c(field, at + CRC_FROM, end) == int32_at(data, at + CRC_AT) & 0xFFFFFFFF
        crc = crc32c(out, at + CRC_FROM, end)
        if not is_right:
            crc ^= 0xFFFFFFFF
        for i in range(4):
            view[at + CRC_AT + i] = crc >> (24 - 8 * i) & 0xFF

    def blank_records(
        self,
        records: bytes,
        begin: int,
        end: int,
        count: int,
        is_control: bool,
        out: bytearray,
    ) -> bool:
        """Blank keys, values and headers in a copy of records; return false if they are none."""
        view = out
        cursor = RecordCursor(records, begin, end, count, 0, 0, None)
        while cursor.advance():
            if not is_control or cursor.key_bytes != CONTROL_KEY_BYTES:
                fill_bytes(view, cursor.key_at, cursor.key_bytes, FILL)
            if not is_control or cursor.value_bytes != CONTROL_VALUE_BYTES:
                fill_bytes(view, cursor.value_at, cursor.value_bytes, FILL)
            if cursor.header_count:
                self._headers(records, cursor, out)
        return cursor.problem is None

    def _headers(self, records: bytes, cursor: RecordCursor, out: bytearray) -> None:
        """Replace the names of a record's headers, and blank their values."""
        at = cursor.headers_at
        for name, value in cursor.headers():
            at = after_varint(records, at)
            out[at : at + len(name)] = self._header_name(name)
            at = after_varint(records, at + len(name))
            if value is not None:
                out[at : at + len(value)] = b"x" * len(value)
                at += len(value)

    def message(self, message: bytes) -> bytes:
        """Return a whole message of magic 0 or 1 without its contents."""
        raise NotImplementedError

    def repacked(
        self, codec: int, packed: bytes, count: int, is_control: bool
    ) -> bytes | bytearray | None:
        """Return the compressed records of a batch, blanked; None if that is impossible."""
        raise NotImplementedError


def after_varint(data: bytes, at: int) -> int:
    """Return where the varint ends that begins at an index."""
    while data[at] >= 0x80:
        at += 1
    return at + 1


# -- streams --------------------------------------------------------------------------------------


class PieceWriter:
    """Writes pieces of streams to a file, many at a time.

    Attributes:
        count: number of pieces.
        file_bytes: bytes of all of them.
        furthest: the end of the piece that is furthest in its stream.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._bytes = bytearray(_WRITTEN_AT_ONCE)
        self._buffer = self._bytes
        self._used = 0
        self._numbers = array("q", [0]) * (PIECE_CELLS * _FIRST_PIECES)
        self._cells = memoryview(self._numbers)
        self.count = 0
        self.file_bytes = 0
        self.furthest = 0

    def add(self, stream: int, offset: int, data: bytes | bytearray) -> None:
        """Add bytes at an offset of a stream."""
        size = len(data)
        if size > len(self._buffer) - self._used:
            self.flush()
        if size > len(self._buffer):
            self._file.write(data)
        else:
            copy_bytes(data, 0, self._buffer, self._used, size)
            self._used += size
        at = PIECE_CELLS * self.count
        if at == len(self._cells):
            self._numbers = self._numbers + array("q", [0]) * at
            self._cells = memoryview(self._numbers)
        self._cells[at] = stream
        self._cells[at + 1] = offset
        self._cells[at + 2] = size
        self._cells[at + 3] = self.file_bytes
        self.count += 1
        self.file_bytes += size
        self.furthest = max(self.furthest, offset + size)

    def flush(self) -> None:
        """Write all to the file."""
        self._file.write(memoryview(self._bytes)[: self._used])
        self._file.flush()
        self._used = 0

    def cells(self) -> array[int]:
        """Return four numbers for each piece: its stream and offset, its size, its place."""
        return self._numbers[: PIECE_CELLS * self.count]


class PieceReader:
    """Reads pieces of streams, which are sorted by stream and offset.

    Attributes:
        bounds: index of the first piece of each stream, of the first after them, and the size of
            the longest piece.
    """

    def __init__(self) -> None:
        self.bounds: dict[int, tuple[int, int, int]] = {}
        self.set_pieces(_NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, b"")

    def set_pieces(
        self, offsets: array[int], lengths: array[int], places: array[int], data: bytes | mmap
    ) -> None:
        """Read these pieces: their offsets in streams, their sizes, and where they are in data."""
        self._offsets = memoryview(offsets)
        self._lengths = memoryview(lengths)
        self._places = memoryview(places)
        self._data = memoryview(data)

    def read(self, stream: int, offset: int, length: int, to: bytearray, at: int) -> bool:
        """Write bytes of a stream where all is zero; return false if the stream has none.

        What was never added stays zero.

        Args:
            stream: the stream.
            offset: of the first byte.
            length: number of bytes.
            to: where to write them.
            at: the place of the first.
        """
        bounds = self.bounds.get(stream)
        if bounds is None:
            return False
        first, last, longest = bounds
        end = offset + length
        index = max(self._first_after(offset, first, last) - 1, first)
        begin = self._offsets[index]
        if begin <= offset and end <= begin + self._lengths[index]:
            copy_bytes(self._data, self._places[index] + offset - begin, to, at, length)
            return True
        # A piece that began before may be longer than those after it.
        index = self._first_after(offset - longest - 1, first, last)
        while index < last and self._offsets[index] < end:
            begin = self._offsets[index]
            start = max(begin, offset)
            count = min(begin + self._lengths[index], end) - start
            copy_bytes(
                self._data, self._places[index] + start - begin, to, at + start - offset, count
            )
            index += 1
        return True

    def _first_after(self, offset: int, first: int, last: int) -> int:
        """Return the index of the first of some pieces that begins after an offset."""
        while first < last:
            middle = (first + last) // 2
            if offset < self._offsets[middle]:
                last = middle
            else:
                first = middle + 1
        return first


class OneWayStream:
    """What one end of a connection sends.

    Attributes:
        number: that of the stream in its shard.
        shard: the shard of its connection.
        first_packet: number of the connection's first packet.
        first_sequence: sequence number of its first byte.
        furthest: the furthest offset so far.
    """

    def __init__(self, number: int, first_packet: int, first_sequence: int, shard: int = 0) -> None:
        self.number = number
        self.shard = shard
        self.first_packet = first_packet
        self.first_sequence = first_sequence
        self.furthest = 0

    def offset_of(self, sequence: int) -> int:
        """Return the offset in the stream that a sequence number stands for.

        Sequence numbers have 32 bits: of all possible offsets, take the one nearest to the furthest
        so far.
        """
        distance = sequence - self.first_sequence - self.furthest
        offset = self.furthest + ((distance + HALF) & MASK) - HALF
        if abs(offset - self.furthest) < WINDOW_BYTES:
            self.furthest = max(offset, self.furthest)
        return offset


class StreamPayloads:
    """A source of anonymized TCP payload.

    Attributes:
        kept_bytes: bytes of the payload found last that are kept, where packets are cut off.
    """

    def __init__(
        self, streams: dict[bytes, list[OneWayStream]], shards: Sequence[PieceReader]
    ) -> None:
        """Find payload.

        Args:
            streams: by addresses of sender and receiver, and then their ports, as in packets, in
                the order of their first packets.
            shards: the pieces of the streams of each shard.
        """
        self._streams = streams
        self._shards = [*shards]
        self.kept_bytes = 0

    def find(
        self,
        ends: bytes,
        sequence: int,
        length: int,
        packet: int,
        to: bytearray,
        at: int,
        room: int,
    ) -> bool:
        """Write the anonymized payload of a packet; return false if all of it is blank.

        Args:
            ends: addresses and ports, as in the packet.
            sequence: sequence number of the first byte.
            length: number of bytes on the wire, 1 or more.
            packet: number of the packet.
            to: where to write it, where all is zero.
            at: the place of the first byte.
            room: number of bytes to write.
        """
        streams = self._streams.get(ends)
        if streams is None:
            return False
        stream = stream_at(streams, packet)
        offset = stream.offset_of(sequence)
        self.kept_bytes = self.kept(stream, offset, length)
        pieces = self._shards[stream.shard]
        return pieces.read(stream.number, offset, min(length, room), to, at)

    def kept(self, _stream: OneWayStream, _offset: int, length: int) -> int:
        """Return how many bytes of a payload are kept, where packets are cut off."""
        return length


def stream_at(streams: list[OneWayStream], packet: int) -> OneWayStream:
    """Return the stream that a packet belongs to, of those between the same ends."""
    stream = streams[0]
    for later in streams:
        if later.first_packet > packet:
            break
        stream = later
    return stream


# -- packets --------------------------------------------------------------------------------------


class Addresses:
    """The two addresses of a packet, their stand-ins, and the checksum sums of both pairs."""

    def __init__(self, both: bytes, stand_ins: StandIns) -> None:
        """Make them of both addresses, one after the other."""
        half = len(both) // 2
        self.both = both
        self.new = stand_ins.address(both[:half]) + stand_ins.address(both[half:])
        self.sum = ones_sum(both, 0, len(both))
        self.new_sum = ones_sum(self.new, 0, len(both))


class PacketBytes:
    """Writes bytes and checksums of one packet after the other.

    Positions count from the first byte of the packet.

    Attributes:
        stand_ins: the stand-ins of addresses.
        begin_at: position of the packet in the buffer of the batch.
    """

    def __init__(self, stand_ins: StandIns) -> None:
        self.stand_ins = stand_ins
        self._buffer = memoryview(b"")
        self._from = self._buffer
        self._to = bytearray()
        self.begin_at = 0
        self._out_at = 0
        self._size = 0
        self._sums: list[tuple[int, int, int, Addresses | None, int]] = []

    @property
    def data(self) -> bytes:
        """The original packet."""
        return bytes(self._buffer[self.begin_at : self.begin_at + self._size])

    def put(self, at: int, content: bytes) -> None:
        """Write bytes of the packet."""
        count = min(len(content), self._size - at)
        put_bytes(content, self._to, self._out_at + at, count)

    def copy(self, begin: int, end: int) -> None:
        """Keep bytes of the packet."""
        count = min(end, self._size) - begin
        copy_bytes(self._from, self.begin_at + begin, self._to, self._out_at + begin, count)

    def _bytes(self, at: int, size: int) -> bytes:
        if at + size > self._size:
            raise IndexError
        return bytes_in(self._from, self.begin_at + at, size)

    def _byte(self, at: int) -> int:
        if at >= self._size:
            raise IndexError
        return self._from[self.begin_at + at]

    # -- checksums --------------------------------------------------------------------------------

    def add_sum(
        self, at: int, end: int, checksum_at: int, pseudo: Addresses | None, protocol: int
    ) -> None:
        """Note a checksum, to be written when all bytes that it covers are written.

        Args:
            at: position of the first covered byte.
            end: end of the covered bytes.
            checksum_at: position of the checksum, counted from ``at``.
            pseudo: the addresses of the pseudo-header; None if the checksum covers none.
            protocol: the protocol in the pseudo-header.
        """
        self._sums.append((at, end, checksum_at, pseudo, protocol))

    def _write_sums(self) -> None:
        """Write the checksums that were noted, the last one first.

        A tunnel's checksum covers the packet inside.
        """
        for at, end, checksum_at, pseudo, protocol in reversed(self._sums):
            self._write_sum(at, end, checksum_at, pseudo, protocol)

    def _write_sum(
        self, at: int, end: int, checksum_at: int, pseudo: Addresses | None, protocol: int
    ) -> None:
        old_checksum = self._word(at + checksum_at)
        if not old_checksum and (protocol == UDP_PROTOCOL or end > self._size):
            return  # the packet has no checksum
        if end > self._size:
            self._put_word(at + checksum_at, self.stand_ins.checksums[old_checksum])
            return
        partial = new_partial = 0
        if pseudo is not None:
            more = protocol + end - at
            partial = (pseudo.sum + more) % ONES
            new_partial = (pseudo.new_sum + more) % ONES
            if old_checksum and old_checksum % ONES == partial:
                self._put_word(at + checksum_at, new_partial or ONES)
                return
        old = partial + ones_sum(self._from, self.begin_at + at, self.begin_at + end)
        old %= ONES
        new = new_partial + ones_sum(self._to, self._out_at + at, self._out_at + end)
        if not old_checksum and old:
            return  # a checksum of 0 that does not match: the sender left it out
        # Right if the old one was right, else wrong: the sum with a right one is 0.
        value = right_checksum(new, old_checksum)
        if old:
            value ^= WRONG
        if not value and protocol == UDP_PROTOCOL:
            value = ONES
        self._put_word(at + checksum_at, value)

    def _word(self, at: int) -> int:
        if at + 2 > self._size:
            raise IndexError
        return self._from[self.begin_at + at] << 8 | self._from[self.begin_at + at + 1]

    def _put_word(self, at: int, value: int) -> None:
        self._to[self._out_at + at] = value >> 8
        self._to[self._out_at + at + 1] = value & 0xFF


class PlainPackets(PacketBytes):
    """Writes the headers and the payload of TCP over IP; subclasses write all else.

    Attributes:
        cursor: a position among the headers, counted from the first byte of the batch.
    """

    def __init__(
        self, stand_ins: StandIns, payloads: StreamPayloads, *, cuts: bool = False
    ) -> None:
        """Take payload from ``payloads``; ``cuts``: whether it may say where to cut packets off."""
        super().__init__(stand_ins)
        self._payloads = payloads
        self._cuts = cuts
        self._packet = 0
        self._cut_at = -1
        self._known: dict[bytes, Addresses] = {}
        self._known_macs: dict[bytes, bytes] = {}

    def batch(self, batch: PacketBatch) -> PacketBatch:
        """Return the packets of a batch, anonymized; raises nothing."""
        self._buffer = batch.buffer
        self._from = batch.buffer
        self.cursor = HeaderCursor(batch, LayerStats())
        numbers = memoryview(batch.number)
        out = bytearray(sum(batch.captured_bytes))
        self._to = out
        offsets = array("q", bytes(8 * len(numbers)))
        sizes = array("q", offsets)
        self._write_all(numbers, memoryview(offsets), memoryview(sizes))
        return PacketBatch(
            memoryview(out),
            batch.number,
            batch.time_ns,
            offsets,
            sizes,
            batch.wire_bytes,
            batch.link_type,
        )

    def _write_all(self, numbers: memoryview, offsets: memoryview, sizes: memoryview) -> None:
        self._out_at = 0
        for row in range(len(numbers)):
            self._packet = numbers[row]
            offsets[row] = self._out_at
            self._write(row)
            if 0 <= self._cut_at < self._size:
                fill_bytes(self._to, self._out_at + self._cut_at, self._size - self._cut_at, 0)
                self._size = self._cut_at
            sizes[row] = self._size
            self._out_at += self._size

    def _write(self, row: int) -> None:
        """Write a packet of the batch."""
        link_type = self._begin(row)
        kind = read_link(self.cursor, link_type)
        header_end = self.cursor.at - self.begin_at
        if link_type == ETHERNET_LINK:
            self.ethernet(0, header_end)
        elif not self.link(link_type, header_end, kind >= 0):
            return
        for _i in range(MAX_HEADERS):
            if kind < 0:
                break
            if kind == IPV4:
                kind = self._ipv4()
            elif kind == IPV6:
                kind = self._ipv6()
            else:
                kind = self.other_header(kind)
        self._write_sums()

    def link(self, link_type: int, header_end: int, is_read: bool) -> bool:
        """Write a link-layer header other than Ethernet.

        Returns false if the link type is unknown.

        Args:
            link_type: its type.
            header_end: where it ends, if it could be read.
            is_read: whether it could.
        """
        raise NotImplementedError

    def other_header(self, kind: int) -> int:
        """Write a header that is not IP; return the kind of the next one, below 0 for none."""
        raise NotImplementedError

    def _begin(self, row: int) -> int:
        """Begin with a packet of the batch, none of which is written yet; return its link type."""
        link_type = self.cursor.begin(row)
        self.begin_at = self.cursor.at
        self._size = self.cursor.limit - self.begin_at
        self._sums.clear()
        self._cut_at = -1
        return link_type

    def ethernet(self, at: int, header_end: int) -> None:
        """Write an Ethernet header, and the tags up to the header's end."""
        if header_end < at + 14:
            return
        self.copy(at + 12, header_end)
        both = self._bytes(at, 12)
        stand_ins = self._known_macs.get(both)
        if stand_ins is None:
            stand_ins = self.stand_ins.mac(both[:6]) + self.stand_ins.mac(both[6:])
            remember(self._known_macs, both, stand_ins, _MAX_KNOWN)
        self.put(at, stand_ins)

    # -- IP ---------------------------------------------------------------------------------------

    def _ipv4(self) -> int:
        """Write an IPv4 header; return the kind of the next header, below 0 if none is written."""
        at = self.cursor.at - self.begin_at
        kind = read_ipv4(self.cursor)
        if kind < 0:
            return kind
        header_end = self.cursor.at - self.begin_at
        self.copy(at, at + 10)
        addresses = self._addresses(at + 12, 4)
        old_checksum = self._word(at + 10)
        if old_checksum and header_end == at + IPV4_BYTES:
            # Only the addresses differ: update the checksum by the difference (RFC 1624).
            difference = addresses.new_sum - addresses.sum
            self._put_word(at + 10, right_checksum(difference - old_checksum, old_checksum))
        else:
            self.add_sum(at, header_end, 10, None, 0)
        if self._word(at + 6) & FRAGMENT_BITS:
            return DROPPED
        return self._inside(kind, addresses)

    def _ipv6(self) -> int:
        """Write an IPv6 header and its extensions; return as for IPv4."""
        at = self.cursor.at - self.begin_at
        protocol = self._byte(at + 6) if at + IPV6_BYTES <= self._size else -1
        next_at = at + IPV6_BYTES
        kind = read_ipv6(self.cursor)
        if protocol < 0 or self._byte(at) >> 4 != 6:
            return kind
        # The flow label, which may be a hash of the addresses, is left out.
        self._put_word(at, self._word(at) & 0xFFF0)
        self.copy(at + 4, at + 8)
        addresses = self._addresses(at + 8, 16)
        header_end = min(self.cursor.at - self.begin_at, self._size)
        while next_at + 8 <= header_end:
            is_fragment = protocol == FRAGMENT_HEADER
            self.copy(next_at, next_at + (8 if is_fragment else 2))
            if is_fragment and self._word(next_at + 2) & OFFSET_AND_MORE:
                return DROPPED
            size = self._byte(next_at + 1)
            size = 4 * size + 8 if protocol == AUTHENTICATION else 8 * size + 8
            protocol = self._byte(next_at)
            next_at += 8 if is_fragment else size
        return self._inside(kind, addresses) if kind >= 0 else kind

    def _addresses(self, at: int, size: int) -> Addresses:
        """Write the stand-ins of the two addresses at ``at``, each of ``size`` bytes."""
        both = self._bytes(at, 2 * size)
        addresses = self._known.get(both)
        if addresses is None:
            addresses = Addresses(both, self.stand_ins)
            remember(self._known, both, addresses, _MAX_KNOWN)
        self.put(at, addresses.new)
        return addresses

    def _inside(self, kind: int, addresses: Addresses) -> int:
        """Write the header inside IP; return the kind of the header inside a tunnel."""
        if kind != TCP:
            return self.other_inside(kind, addresses)
        at = self.cursor.at - self.begin_at
        end = self.cursor.ip_end - self.begin_at
        if end >= at:
            self._tcp(at, end, addresses)
        return DROPPED

    def other_inside(self, kind: int, addresses: Addresses) -> int:
        """Write a header inside IP that is not TCP; return the kind of that inside a tunnel."""
        raise NotImplementedError

    # -- TCP --------------------------------------------------------------------------------------

    def _tcp(self, at: int, end: int, addresses: Addresses) -> None:
        if at + TCP_BYTES > self._size:
            return
        self.copy(at, at + 16)
        self.copy(at + 18, at + 20)
        self._tcp_rest(at, at + (self._byte(at + 12) >> 4) * 4, end, addresses)
        # Nothing is inside, so it need not be noted.
        self._write_sum(at, end, 16, addresses, TCP_PROTOCOL)

    def _tcp_rest(self, at: int, payload_at: int, end: int, addresses: Addresses) -> None:
        """Write the options and the payload."""
        length = end - payload_at
        if payload_at < at + TCP_BYTES or length < 0 or payload_at > self._size:
            return
        if payload_at == at + TCP_BYTES + TIMESTAMPS_BYTES and (
            self._word(at + TCP_BYTES) == TWO_NOPS
            and self._word(at + TCP_BYTES + 2) == TIMESTAMPS_HEAD
        ):
            self.copy(at + TCP_BYTES, payload_at)  # the options of most packets
        elif payload_at > at + TCP_BYTES:
            self.put(at + TCP_BYTES, options(self.data[at + TCP_BYTES : payload_at]))
        if length:
            self._payload(at, payload_at, length, addresses)

    def _payload(self, at: int, payload_at: int, length: int, addresses: Addresses) -> None:
        sequence = self._word(at + 4) << 16 | self._word(at + 6)
        if self._byte(at + 13) & SYN:
            sequence += 1
        ends = addresses.both + self._bytes(at, 4)
        room = self._size - payload_at
        place = self._out_at + payload_at
        if self._payloads.find(ends, sequence, length, self._packet, self._to, place, room):
            if self._cuts:
                self._cut_at = payload_at + self._payloads.kept_bytes
        elif length == ALERT_BYTES and _CLEAR_ALERT.fullmatch(
            self.data, payload_at, payload_at + length
        ):
            self.copy(payload_at, payload_at + length)


def ones_sum(data: bytes | bytearray | memoryview, begin: int, end: int) -> int:
    """Return the ones' complement sum of the 16-bit words; 0, not 65535, for both forms of zero."""
    return sums_of_bytes(data, begin, end) % ONES


def right_checksum(total: int, old_checksum: int) -> int:
    """Return the right checksum for a sum; zero is 0xFFFF if the old checksum was, else 0."""
    right = ONES - (total % ONES + ONES) % ONES  # of C, a remainder may be below 0
    return 0 if right == ONES and old_checksum != ONES else right


def options(kinds: bytes) -> bytes:
    """Return TCP options; those that do not stay are replaced by NOPs."""
    out = bytearray(_NO_OPTION * len(kinds))
    at = 0
    while at < len(kinds):
        kind = kinds[at]
        if kind <= 1:
            out[at] = kind
            if not kind:
                out[at:] = bytes(len(kinds) - at)
                break
            at += 1
            continue
        size = kinds[at + 1] if at + 1 < len(kinds) else 0
        if size < 2 or at + size > len(kinds):
            break
        if kind in _KEPT_OPTIONS:
            out[at : at + size] = kinds[at : at + size]
        at += size
    return bytes(out)
