"""The wire protocol of Kafka 0.7, which is not that of any later version.

In: the bytes of one frame, and for a response the request that it answers. Out: values.

    request:  size int32, type int16, body
    PRODUCE (0):      topic, partition int32, messages_length int32, messages; no response
    FETCH (1):        topic, partition int32, offset int64, max_size int32
    MULTIFETCH (2):   count int16, then each part as in FETCH
    MULTIPRODUCE (3): count int16, then each part as in PRODUCE; no response
    OFFSETS (4):      topic, partition int32, time int64, max_number int32
    response: size int32, error int16, then messages, or a number int32 and offsets int64, or, for
              MULTIFETCH, one whole FETCH response (with its size) a part

A topic is an int16 length and its bytes. There is no correlation id, no version, no client id; an
offset is a position in bytes in the log. A message: length int32, magic int8, for magic 1
attributes int8 (codec in bits 0 and 1), CRC-32 of the payload int32, payload; the payload of a
compressed message holds messages. Source: the wire format pages of Kafka 0.7's documentation.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import items
from kanalyze.common.saved import Saved, make, save
from kanalyze.kafka.records.budget import DecompressionBudget
from kanalyze.kafka.records.types import (
    MAX_DEPTH,
    DecompressionLimits,
    Record,
    RecordProblem,
    as_int64,
    note,
)
from kanalyze.kafka.wire import Malformed, Truncated, WireError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.records.batches import RecordBatch

CODEC_NAMES_07 = ("none", "gzip", "snappy", "unknown")
"""By the low two bits of a message's attributes."""
COUNTING_LIMITS = DecompressionLimits(most_ratio=256, free_bytes=1 << 18)
"""Bounds when messages are only counted, which is done for the row of every exchange."""

_LENGTH_BYTES = 4
_MIN_HEAD_BYTES = 5
"""Magic and checksum; one more in magic 1."""
_UNKNOWN_CODEC = 3
_INT32 = Struct(">i").unpack_from
_UINT32 = Struct(">I").unpack_from


class _RawMessage07(NamedTuple):
    start: int
    payload: int
    end: int
    magic: int
    codec: int


def _messages(data: bytes | memoryview, problems: list[RecordProblem]) -> Iterator[_RawMessage07]:
    """Yield the complete messages, in order; each has 9 bytes or more. Raises nothing."""
    at, size = 0, len(data)
    while at < size:
        if at + _LENGTH_BYTES >= size:
            note(problems, RecordProblem.CUT_BATCH)
            return
        length, magic = _INT32(data, at)[0], data[at + _LENGTH_BYTES]
        if magic > 1:
            note(problems, RecordProblem.UNKNOWN_MAGIC)
            return
        if length < _MIN_HEAD_BYTES + magic:
            note(problems, RecordProblem.MALFORMED_BATCH)
            return
        end = at + _LENGTH_BYTES + length
        if end > size:
            note(problems, RecordProblem.CUT_BATCH)
            return
        codec = data[at + _LENGTH_BYTES + 1] & 3 if magic else 0
        yield _RawMessage07(at, at + _LENGTH_BYTES + _MIN_HEAD_BYTES + magic, end, magic, codec)
        at = end


def _is_checksum_right(data: bytes | memoryview, message: _RawMessage07) -> bool:
    payload, end = message.payload, message.end
    return bool(zlib.crc32(memoryview(data)[payload:end]) == _UINT32(data, payload - 4)[0])


class MessageSet07Records:
    """The messages in the bytes of a messages field.

    It may be iterated several times. Afterwards ``problems`` says what was wrong outside of
    complete messages (each message has ``problems`` of its own).
    """

    def __init__(
        self, data: bytes, first_offset: int = 0, limits: DecompressionLimits | None = None
    ) -> None:
        """Store the field; nothing is read yet.

        Args:
            data: the field.
            first_offset: position in the log, in bytes, of the field's first byte.
            limits: bounds of the decompressed size of one message; None for the defaults.
        """
        self._data = data
        self._first_offset = first_offset
        self._limits = DecompressionLimits() if limits is None else limits
        self.problems: list[RecordProblem] = []

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield each complete message as a batch, of one record if it is not compressed.

        An offset is the position in the log where a message begins. Messages inside a compressed
        one have the offset of that one, with which it is fetched. Raises nothing.
        """
        self.problems.clear()
        for message in _messages(self._data, self.problems):
            yield self._batch(message)

    def _batch(self, message: _RawMessage07) -> RecordBatch:
        data = self._data
        offset = as_int64(self._first_offset + message.start)

        def read(problems: list[RecordProblem]) -> Iterator[Record]:
            payload = data[message.payload : message.end]
            if not message.codec:
                yield Record(offset, None, None, payload)
                return
            budget = DecompressionBudget(self._limits, len(payload), len(payload))
            yield from _inside(budget, message.codec, payload, offset, problems)

        from kanalyze.kafka.records.batches import RecordBatch  # loaded at every start otherwise

        batch = RecordBatch()
        batch.begin(
            read,
            base_offset=offset,
            batch_bytes=message.end - message.start,
            magic=message.magic,
            codec=CODEC_NAMES_07[message.codec],
            crc_ok=_is_checksum_right(data, message),
            timestamp_type=None,
            limits=self._limits,
        )
        return batch


def _inside(
    budget: DecompressionBudget,
    codec: int,
    payload: bytes,
    offset: int,
    problems: list[RecordProblem],
    depth: int = 1,
) -> Iterator[Record]:
    """Read the messages in a compressed payload, and those nested in them."""
    if depth > MAX_DEPTH:
        note(problems, RecordProblem.NESTED_TOO_DEEP)
        return
    plain, problem = (
        (b"", RecordProblem.UNKNOWN_CODEC)
        if codec == _UNKNOWN_CODEC
        else budget.decompress(codec, payload)
    )
    inner_problems: list[RecordProblem] = []
    for message in _messages(plain, inner_problems):
        if not budget.remaining_messages:
            note(problems, RecordProblem.TOO_MANY_RECORDS)
            return
        budget.remaining_messages -= 1
        inner = plain[message.payload : message.end]
        if message.codec:
            yield from _inside(budget, message.codec, inner, offset, problems, depth + 1)
        else:
            yield Record(offset, None, None, inner, (), _is_checksum_right(plain, message))
    if problem is not None:
        note(problems, problem)
    elif inner_problems:
        # A broker truncates a field at its size limit, but nobody truncates a payload.
        note(problems, RecordProblem.MALFORMED_RECORD)


_LONGEST_TOPIC_BYTES = 255
_RANDOM_PARTITION = -1
_CHECKED_BYTES = 8 * 1024 * 1024
"""Checksums are computed only for payloads that end within these first bytes of a message set."""


class RequestType(IntEnum):
    """The type of a request; later versions have an API key in its place."""

    PRODUCE = 0
    FETCH = 1
    MULTIFETCH = 2
    MULTIPRODUCE = 3
    OFFSETS = 4

    @property
    def api_name(self) -> str:
        """Its name in rows: ``Produce``, ``MultiFetch``, ..."""
        return _API_NAMES[self]

    @property
    def is_answered(self) -> bool:
        """True if the broker responds to it."""
        return self not in (RequestType.PRODUCE, RequestType.MULTIPRODUCE)


_API_NAMES = ("Produce", "Fetch", "MultiFetch", "MultiProduce", "Offsets")
SIMILAR_APIS = (0, 1, 1, 0, 2)
"""By request type, the key of the most similar later API: Produce, Fetch, ListOffsets."""

ERROR_NAMES_07 = {
    -1: "UNKNOWN",
    0: "NONE",
    1: "OFFSET_OUT_OF_RANGE",
    2: "INVALID_MESSAGE",
    3: "WRONG_PARTITION",
    4: "INVALID_FETCH_SIZE",
}
"""Codes by number; 3 and 4 mean other things in later versions."""


def error_name_07(code: int) -> str:
    """Return the name of an error code of Kafka 0.7; ``UNKNOWN_CODE_n`` for any other."""
    return ERROR_NAMES_07.get(code) or f"UNKNOWN_CODE_{code}"


@Saved(
    "record_bytes:count record_count:count? codec:str? whole_bytes:count bad_checksums:count "
    "is_cut:bool start:count"
)
class MessageSet07(NamedTuple):
    """Counts over a message set; only complete messages count."""

    record_bytes: int
    """Bytes of the field, with a truncated message."""
    record_count: int | None
    """Number of messages: those inside compressed ones count, the compressed ones do not. None if
    one was not decompressed, or could not be read to its end."""
    codec: str | None
    """``none``, ``gzip``, ``snappy``, ``unknown``; ``mixed``; None without a complete message."""
    whole_bytes: int
    """Bytes of the complete messages: a consumer's next offset is higher by this."""
    bad_checksums: int
    """Number of payloads whose CRC-32 is not the one in their header."""
    is_cut: bool
    """The last message is truncated, as a broker may send it."""
    start: int = 0
    """Position in the frame of the field's first byte."""


@Saved(
    "topic:str partition:int offset:int? max_size:int? time_ms:int? max_number:int? "
    "messages:MessageSet07?",
    MessageSet07,
)
class Part07(NamedTuple):
    """One partition of a request.

    ``offset`` and ``max_size`` are FETCH's; ``time_ms`` (-1 latest, -2 earliest) and ``max_number``
    belong to OFFSETS; ``messages`` to PRODUCE. None in other requests.
    """

    topic: str
    partition: int
    offset: int | None = None
    max_size: int | None = None
    time_ms: int | None = None
    max_number: int | None = None
    messages: MessageSet07 | None = None


@Saved("type:RequestType parts:tuple[Part07]", RequestType, Part07)
class Request07(NamedTuple):
    """A request: its type, and its partitions in wire order."""

    type: RequestType
    parts: tuple[Part07, ...]


@Saved("error_code:int messages:MessageSet07", MessageSet07)
class FetchPart07(NamedTuple):
    """The response for one partition of a FETCH or MULTIFETCH request."""

    error_code: int
    messages: MessageSet07


@Saved("error_code:int offsets:tuple[int]")
class OffsetsPart07(NamedTuple):
    """The response to an OFFSETS request: offsets, newest first."""

    error_code: int
    offsets: tuple[int, ...]


Response07: TypeAlias = tuple[FetchPart07, ...] | OffsetsPart07


def response_state(response: Response07) -> State:
    """Return a response as plain values."""
    if isinstance(response, OffsetsPart07):
        return tuple(save(response))
    return tuple([save(part) for part in response])


def response_from_state(state: object) -> Response07:
    """Return the response of :func:`response_state`; raises ValueError for any other value."""
    if isinstance(state, tuple) and state and isinstance(state[0], int):
        return make(OffsetsPart07, state)
    return tuple([make(FetchPart07, part) for part in items(state, "t")])


def parse_request(
    frame: bytes | memoryview, limits: DecompressionLimits | None = None
) -> Request07:
    """Read a whole request frame, its size prefix included.

    ``limits`` bound the decompressed bytes of each partition; None decompresses nothing.

    Raises:
        Truncated: a field goes past the frame's end.
        WireError: the type is unknown, a topic is no text, or bytes are left over.
    """
    if len(frame) < 6:
        raise Truncated("a request of Kafka 0.7 is at least 6 bytes")
    number = _int16(frame, 4)
    if not 0 <= number <= RequestType.OFFSETS:
        raise Malformed(f"request type {number}")
    kind = RequestType(number)
    at, count = 6, 1
    if kind in (RequestType.MULTIFETCH, RequestType.MULTIPRODUCE):
        count = _int16(frame, at)
        at += 2
        if count < 1:
            raise Malformed(f"{count} parts")
    parts = []
    for _ in range(count):
        part, at = _part(frame, at, kind, limits)
        parts.append(part)
    if at != len(frame):
        raise Malformed(f"{len(frame) - at} bytes left over")
    return Request07(kind, tuple(parts))


def _part(
    frame: bytes | memoryview, at: int, kind: RequestType, limits: DecompressionLimits | None
) -> tuple[Part07, int]:
    topic, at = _topic(frame, at)
    partition = _int32(frame, at)
    if partition < _RANDOM_PARTITION:
        raise Malformed(f"partition {partition}")
    at += 4
    if kind in (RequestType.PRODUCE, RequestType.MULTIPRODUCE):
        length = _int32(frame, at)
        at += 4
        if length < 0:
            raise Malformed(f"messages of {length} bytes")
        if at + length > len(frame):
            raise Truncated("messages go past the end of the frame")
        messages = _field(frame, at, at + length, limits)
        return Part07(topic, partition, messages=messages), at + length
    first, second = _int64(frame, at), _int32(frame, at + 8)
    at += 12
    if kind == RequestType.OFFSETS:
        return Part07(topic, partition, time_ms=first, max_number=second), at
    return Part07(topic, partition, offset=first, max_size=second), at


def _topic(frame: bytes | memoryview, at: int) -> tuple[str, int]:
    length = _int16(frame, at)
    at += 2
    if not 0 < length <= _LONGEST_TOPIC_BYTES:
        raise Malformed(f"a topic of {length} bytes")
    if at + length > len(frame):
        raise Truncated("the topic goes past the end of the frame")
    try:
        topic = str(frame[at : at + length], "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("a topic that is no text") from error
    # A topic is a directory's name on the broker.
    if not topic.isprintable() or "/" in topic:
        raise Malformed("a topic with an impossible name")
    return topic, at + length


def fits_request(view: bytes | memoryview, size: int) -> bool | None:
    """Return true if a frame of ``size`` bytes is a request to the byte, with sound messages.

    Args:
        view: bytes from the frame's size prefix on; may end before or after the frame does.
        size: the declared size.

    Returns:
        None if the view ends before the frame, and nothing contradicts a request.
    """
    frame_view = view[: size + 4]
    try:
        request = parse_request(frame_view)
    except Truncated:
        return None if len(frame_view) < size + 4 and may_fit(frame_view, size) else False
    except WireError:
        return False
    if len(frame_view) < size + 4:
        return False
    return all(_is_sound(part) for part in request.parts)


def may_fit(head: bytes | memoryview, size: int) -> bool:
    """Return true if the first fields of a request with one part agree with the frame's size.

    The check is fast, and few other bytes pass it.
    """
    if len(head) < 8:
        return True
    kind = _int16(head, 4)
    if kind in (RequestType.MULTIFETCH, RequestType.MULTIPRODUCE):
        return True
    topic_bytes = _int16(head, 6)
    if not 0 < topic_bytes <= _LONGEST_TOPIC_BYTES:
        return False
    messages_at = 16 + topic_bytes
    if kind != RequestType.PRODUCE:
        return size + 4 == messages_at + 8
    return len(head) < messages_at or _int32(head, messages_at - 4) == size + 4 - messages_at


def _is_sound(part: Part07) -> bool:
    if part.messages is not None:
        return not (part.messages.bad_checksums or part.messages.is_cut)
    if part.offset is not None and part.max_size is not None:
        return part.offset >= 0 and part.max_size >= 0
    least_time = -2
    return (part.time_ms or 0) >= least_time and (part.max_number or 0) >= 0


def parse_response(
    frame: bytes | memoryview, request: Request07, limits: DecompressionLimits | None = None
) -> Response07:
    """Read a whole frame, its size prefix included, as the response to ``request``.

    ``limits`` as for :func:`parse_request`.

    Raises:
        WireError: it is no response to such a request.
    """
    if request.type == RequestType.OFFSETS:
        return _offsets(frame)
    if request.type == RequestType.FETCH:
        return (_fetched(frame, 4, len(frame), limits),)
    if request.type == RequestType.MULTIFETCH:
        return _fetched_parts(frame, len(request.parts), limits)
    raise Malformed(f"{request.type.api_name} has no response")


def _offsets(frame: bytes | memoryview) -> OffsetsPart07:
    code = _int16(frame, 4)
    if code and len(frame) == 6:
        return OffsetsPart07(code, ())
    count = _int32(frame, 6)
    if count < 0 or len(frame) != 10 + 8 * count:
        raise Malformed(f"{count} offsets in a response of {len(frame)} bytes")
    return OffsetsPart07(code, tuple(_int64(frame, 10 + 8 * index) for index in range(count)))


def _fetched(
    frame: bytes | memoryview, at: int, end: int, limits: DecompressionLimits | None
) -> FetchPart07:
    code = _int16(frame, at)
    if code not in ERROR_NAMES_07:
        raise Malformed(f"error code {code}")
    return FetchPart07(code, _field(frame, at + 2, end, limits))


def _fetched_parts(
    frame: bytes | memoryview, count: int, limits: DecompressionLimits | None
) -> tuple[FetchPart07, ...]:
    """Read a part for each requested one, after an error code of the whole if there is one.

    Brokers write the code, but some clients do not expect it. Only one of the two layouts takes up
    the frame.
    """
    code = _int16(frame, 4)
    if code and len(frame) == 6:
        return tuple(FetchPart07(code, parse_messages(b"")) for _ in range(count))
    try:
        return _parts_from(frame, 6, count, limits)
    except WireError:
        return _parts_from(frame, 4, count, limits)


def _parts_from(
    frame: bytes | memoryview, at: int, count: int, limits: DecompressionLimits | None
) -> tuple[FetchPart07, ...]:
    parts = []
    for _ in range(count):
        end = at + 4 + _int32(frame, at)
        if not at + 6 <= end <= len(frame):
            raise Malformed("a part goes past the end of the frame")
        parts.append(_fetched(frame, at + 4, end, limits))
        at = end
    if at != len(frame):
        raise Malformed(f"{len(frame) - at} bytes left over")
    return tuple(parts)


def _field(
    frame: bytes | memoryview, start: int, end: int, limits: DecompressionLimits | None
) -> MessageSet07:
    return parse_messages(frame[start:end], limits)._replace(start=start)


def parse_messages(
    field: bytes | memoryview, limits: DecompressionLimits | None = None
) -> MessageSet07:
    """Count the messages in a field of messages.

    The last one may be cut. This takes one step for each message, which has at least 9 bytes, and a
    CRC-32 over the first 8 MiB; with ``limits``, also as much decompression as they allow.

    Raises:
        Malformed: a length or a magic byte that no message has.
    """
    at, count, bad = 0, 0, 0
    codecs: set[int] = set()
    budget = None if limits is None else DecompressionBudget(limits, len(field), len(field))
    problems: list[RecordProblem] = []
    not_counted: list[RecordProblem] = []
    for message in _messages(field, problems):
        codecs.add(message.codec)
        if not message.codec:
            count += 1
        elif budget is not None and not not_counted:
            payload = bytes(field[message.payload : message.end])
            count += sum(1 for _ in _inside(budget, message.codec, payload, 0, not_counted))
        if message.end <= _CHECKED_BYTES:
            bad += not _is_checksum_right(field, message)
        at = message.end
    if problems not in ([], [RecordProblem.CUT_BATCH]):
        length, magic = _INT32(field, at)[0], field[at + _LENGTH_BYTES]
        raise Malformed(f"a message of magic {magic} and {length} bytes")
    is_known = not not_counted and (budget is not None or codecs <= {0})
    total = count if is_known else None
    return MessageSet07(len(field), total, _codec(codecs), at, bad, is_cut=at < len(field))


def _codec(codecs: set[int]) -> str | None:
    if len(codecs) > 1:
        return "mixed"
    return CODEC_NAMES_07[next(iter(codecs))] if codecs else None


def _number(frame: bytes | memoryview, at: int, size: int) -> int:
    if at + size > len(frame):
        raise Truncated(f"an int{8 * size} at {at} of {len(frame)} bytes")
    return int.from_bytes(frame[at : at + size], "big", signed=True)


_int16, _int32, _int64 = (partial(_number, size=size) for size in (2, 4, 8))
