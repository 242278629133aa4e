"""How much speaks for a request: one that fits may be luck, or another protocol's message.

In: bytes in which a request seems to begin, and what the other direction said. Out: whether it is
believed. This module must not know how the place was found.

In random bytes, a header that makes sense begins at one byte in about 2^42: of its 112 bits, a
size up to 100 MiB fixes 5, a known key 9, a known version 12, a client id that is null, empty or
short text 15. A body that takes up the frame to the byte makes that 2^60 and more, so noise alone
is no danger. Other protocols are: messages behind a 4-byte length, of small integers and short
strings. ZooKeeper's reads are FindCoordinator requests to the byte while its running number passes
655360 (0x000A0000). What they all lack is a client id, a text of its own where Kafka has it; and
answers that repeat the bytes where Kafka has its correlation id, each with a body that fits. So a
request is believed that tells a name, or that is answered.

Of a request that is not all there, which may be one of 100 MiB, no end tells that the body fits. It
is believed where it carries records, whose head has its magic, its length and its counts in place;
or, if it tells a name, where another request of that name begins when its size says so, or where an
answer fits to the byte.

Compiled by Cython, with the types in ``heuristics.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.kafka.framing.framer import LARGEST_FRAME_BYTES
from kanalyze.kafka.records.batch_headers import BATCH_HEADER_BYTES, batch_head_bytes
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from kanalyze.kafka.framing.headers import RequestHeader
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.replay_buffer import ReplayBuffer

__all__ = [
    "RequestHead",
    "carries_records",
    "has_answer",
    "is_answered_first",
    "is_likely",
    "names_client",
    "read_head",
]

_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from
_SHORTEST_NAME = 4
"""Characters of a client id that is no accident."""
_MOST_PLACES = 64
_MOST_READ_BYTES = 64 * 1024
_NO_ID = bytes(4)


class RequestHead(NamedTuple):
    """What a request's header says."""

    size: int
    api_key: int
    api_version: int
    correlation_id: bytes
    """As on the wire."""
    name: str
    """The client id; empty without one, and where it is no printable text."""

    @property
    def is_named(self) -> bool:
        """Whether the client id is long enough to be no accident."""
        return len(self.name) >= _SHORTEST_NAME

    @property
    def end(self) -> int:
        """Bytes of the whole frame."""
        return self.size + 4

    @classmethod
    def from_state(cls, state: object) -> RequestHead:
        """Make one of its plain values; raises ValueError where they are none."""
        made = cls(*fields(state, "niiys"))
        if made.size > LARGEST_FRAME_BYTES or len(made.correlation_id) != len(_NO_ID):
            raise ValueError("no head of a request")
        return made


def read_head(reader: MessageReader, view: memoryview) -> RequestHead | None:
    """Read the header of a request at the view's first byte; None where there is none."""
    if len(view) < 12:
        return None
    size = _INT32(view)[0]
    if not 8 <= size <= LARGEST_FRAME_BYTES:
        return None
    try:
        header = reader.parse_header(view, size)
    except WireError:
        return None
    name = _name(view, header)
    return RequestHead(size, header.api_key, header.api_version, bytes(view[8:12]), name)


def names_client(view: memoryview, header: RequestHeader) -> bool:
    """Tell whether a header, read at the view's first byte, has a client id that is no accident."""
    return len(_name(view, header)) >= _SHORTEST_NAME


def _name(view: memoryview, header: RequestHeader) -> str:
    if header.client_id is None:
        return ""
    if "\\" not in header.client_id:
        return header.client_id if header.client_id.isprintable() else ""
    # The header's text has escapes for what is none.
    try:
        name = str(view[14 : 14 + _INT16(view, 12)[0]], "utf-8")
    except UnicodeDecodeError:
        return ""
    return name if name.isprintable() else ""


def is_likely(reader: MessageReader, view: memoryview) -> bool:
    """Tell whether a request that seems to begin, but is not all there, is no accident.

    Enough where requests are known to go: they tell a name, or carry records.
    """
    head = read_head(reader, view)
    return head is not None and (head.is_named or carries_records(reader, view))


def carries_records(reader: MessageReader, view: memoryview) -> bool:
    """Tell whether the view begins with a request, all there or not, that carries records.

    The head of the first batch has to make sense: all of it where the client has no good name.
    """
    head = read_head(reader, view)
    if head is None:
        return False
    header = reader.parse_header(view, head.size)
    found = reader.first_records(view[: head.end], header)
    if found is None or found[0] + found[1] > head.end:
        return False
    at, length = found
    seen = batch_head_bytes(view[at : at + BATCH_HEADER_BYTES], length)
    return seen >= BATCH_HEADER_BYTES or (seen > 0 and head.is_named)


def is_answered_first(
    reader: MessageReader, head: RequestHead, answers: memoryview, *, fits: bool
) -> bool | None:
    """Tell whether the other direction's first bytes are the answer to its first request.

    None while they are too few to tell. ``fits`` says that the request's body took up its frame;
    where it did not, and there is no name, the answer's body has to.
    """
    if len(answers) < 8:
        return None
    size = _INT32(answers)[0]
    if not 4 <= size <= LARGEST_FRAME_BYTES or answers[4:8] != head.correlation_id:
        return False
    if head.correlation_id != _NO_ID and (fits or head.name):
        return True  # an id of zeros is found everywhere
    answer_fits = reader.checks.response_fits(answers, size, head.api_key, head.api_version)
    return bool(answer_fits) or (answer_fits is None and fits)


def has_answer(
    reader: MessageReader,
    head: RequestHead,
    other: ReplayBuffer,
    first: int,
    *,
    to_the_byte: bool = False,
) -> bool:
    """Tell whether the other direction holds an answer to a request, from position ``first`` on.

    The size before the correlation id must make sense and the body must fit. A body that is not
    all there is enough where the request has a good name and its id is not zero, unless it has to
    fit ``to_the_byte``; without a good name the answer has to begin a segment.
    """
    may_be_begun = head.is_named and head.correlation_id != _NO_ID and not to_the_byte
    at = first
    for _ in range(_MOST_PLACES):
        at = other.find(head.correlation_id, at)
        if at < 0:
            return False
        start, at = at - 4, at + 1
        if start < other.begin or not (head.is_named or other.segment_at(start)):
            continue
        size = _INT32(other.read(start, start + 4))[0]
        if not 4 <= size <= LARGEST_FRAME_BYTES:
            continue
        view = other.read(start, start + min(size + 4, _MOST_READ_BYTES))
        fits = reader.checks.response_fits(view, size, head.api_key, head.api_version)
        if fits or (fits is None and may_be_begun):
            return True
    return False
