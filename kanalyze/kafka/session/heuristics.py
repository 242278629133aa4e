"""Decides whether bytes that look like a Kafka request are one.

In: bytes that a request seems to begin with, and the bytes of the other direction. Out: what their
header may say without being taken for other bytes; a verdict.

In random bytes, a header that makes sense begins at one byte in about 2^42: of its 112 bits, a
size up to 100 MiB fixes 5, a known key 9, a known version 12, a client id that is null, empty or
short text 15. A body that takes up the frame to the byte makes that 2^60 and more, so noise alone
is no danger. Other protocols are: messages behind a 4-byte length, of small integers and short
strings. ZooKeeper's reads look exactly like FindCoordinator requests while its running number
passes 655360 (0x000A0000). But no other protocol has a text of its own where Kafka has the client
id, nor responses that repeat the bytes of the correlation id, each with a body that fits. So a
request counts as one if it has a client id, or a response.

For an incomplete request, which may have 100 MiB, it cannot be checked that the body fits. It
counts as a request if it carries records whose header has plausible magic, length and counts; or if
it has a client id, and another request with that id or a response that fits to the byte follows.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.framer import LARGEST_FRAME_BYTES
from kanalyze.kafka.records.types import BATCH_HEADER_BYTES, batch_head_bytes
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import RequestHeader
    from kanalyze.kafka.schema.catalog import Api, Catalog
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.replay_buffer import ReplayBuffer

_NEWER_VERSIONS = 8
"""How many versions beyond the tables a request may have."""
_LONGEST_CLIENT_ID = 1024
LONGEST_CLIENT_ID_BYTES = 4 * _LONGEST_CLIENT_ID
"""A character of UTF-8 has at most four bytes."""
_CONTROL = "[\0-\x1f\x7f]"


def highest_plausible_version(api: Api) -> int:
    """Return the highest version that a request to an API may have."""
    return api.versions.highest + _NEWER_VERSIONS


def is_plausible_version(catalog: Catalog, api_key: int, api_version: int) -> bool:
    """Return true if the API is known, and the version is known or slightly newer."""
    api = catalog.api(api_key)
    return api is not None and 0 <= api_version <= highest_plausible_version(api)


def is_plausible_client_id(client_id: str | None) -> bool:
    """Return true for text of a usual length without control characters, and for None."""
    if client_id is None:
        return True
    return len(client_id) <= _LONGEST_CLIENT_ID and not has_control(client_id)


def has_control(text: str) -> bool:
    """Return true if a text has control characters of ASCII, as bytes that are no text mostly have.

    A client id may have any other character. Which of these are printable depends on the version of
    Unicode, and a stand-in for an emoji is rarely another one.
    """
    return not text.isprintable() and re.search(_CONTROL, text) is not None


_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from
SHORTEST_NAME = 4
"""A client id of this many characters or more is no accident."""
_MAX_PLACES = 64
_MAX_READ_BYTES = 64 * 1024
_NO_ID = bytes(4)


@Saved("size:count api_key:int api_version:int correlation_id:bytes name:str")
class RequestHead(NamedTuple):
    """The header of a request."""

    size: int
    api_key: int
    api_version: int
    correlation_id: bytes
    """As on the wire."""
    name: str
    """The client id; empty if there is none, or if it is no text or has control characters."""

    @property
    def is_named(self) -> bool:
        """True if the client id is too long to be an accident."""
        return len(self.name) >= SHORTEST_NAME

    @property
    def end(self) -> int:
        """Bytes of the whole frame."""
        return self.size + 4

    def _after_load(self) -> None:
        if self.size > LARGEST_FRAME_BYTES or len(self.correlation_id) != len(_NO_ID):
            raise ValueError("no head of a request")


def read_head(reader: MessageReader, view: memoryview) -> RequestHead | None:
    """Read the header of a request at the view's first byte; None if there is none."""
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
    """Return true if a header at the view's first byte has a client id that is no accident."""
    return len(_name(view, header)) >= SHORTEST_NAME


def _name(view: memoryview, header: RequestHeader) -> str:
    if header.client_id is None:
        return ""
    if "\\" not in header.client_id:
        return "" if has_control(header.client_id) else header.client_id
    # The header's text has escapes for bytes that are no text.
    try:
        name = str(view[14 : 14 + _INT16(view, 12)[0]], "utf-8")
    except UnicodeDecodeError:
        return ""
    return "" if has_control(name) else name


def is_likely(reader: MessageReader, view: memoryview) -> bool:
    """Return true if an incomplete request has a client id, or carries records.

    That is enough in a direction that is known to carry requests.
    """
    head = read_head(reader, view)
    return head is not None and (head.is_named or carries_records(reader, view))


def carries_records(reader: MessageReader, view: memoryview) -> bool:
    """Return true if the view begins with a request, complete or not, that carries records.

    The header of the first batch has to be plausible; all of it has to be there if the client id is
    short.
    """
    head = read_head(reader, view)
    if head is None:
        return False
    header = reader.parse_header(view, head.size)
    first_records = reader.first_records(view[: head.end], header)
    if first_records is None or first_records[0] + first_records[1] > head.end:
        return False
    at, length = first_records
    head_bytes = batch_head_bytes(view[at : at + BATCH_HEADER_BYTES], length)
    return head_bytes >= BATCH_HEADER_BYTES or (head_bytes > 0 and head.is_named)


def is_answered_first(
    reader: MessageReader, head: RequestHead, answers: memoryview, *, fits: bool, may_grow: bool
) -> bool | None:
    """Return true if the other direction begins with the response to the first request.

    None if the next bytes may decide. If the correlation id is zero, or if the request's body did
    not take up its frame and the client id is short, the response's body has to take up its frame.

    Args:
        reader: reads the response.
        head: the request.
        answers: the first bytes of the other direction.
        fits: the request's body took up its frame.
        may_grow: more of ``answers`` may come. If not, an incomplete response may fit.
    """
    if len(answers) < 8:
        return None
    size = _INT32(answers)[0]
    if not 4 <= size <= LARGEST_FRAME_BYTES or answers[4:8] != head.correlation_id:
        return False
    if head.correlation_id != _NO_ID and (fits or head.name):
        return True  # an id of zeros is found everywhere
    answer_fits = reader.checks.response_fits(answers, size, head.api_key, head.api_version)
    if answer_fits is None:
        return None if may_grow else fits
    return answer_fits


def has_answer(
    reader: MessageReader,
    head: RequestHead,
    other: ReplayBuffer,
    first: int,
    *,
    to_the_byte: bool = False,
) -> bool:
    """Return true if the other direction has a response to a request from position ``first`` on.

    The size before the correlation id must be plausible, and the body must fit. An incomplete body
    is enough if the client id is long and the correlation id is not zero, unless the body has to
    fit ``to_the_byte``. If the client id is short, the response has to begin a segment.
    """
    may_be_begun = head.is_named and head.correlation_id != _NO_ID and not to_the_byte
    at = first
    for _ in range(_MAX_PLACES):
        at = other.find(head.correlation_id, at)
        if at < 0:
            return False
        start, at = at - 4, at + 1
        if start < other.begin or not (head.is_named or other.segment_at(start)):
            continue
        size = _INT32(other.read(start, start + 4))[0]
        if not 4 <= size <= LARGEST_FRAME_BYTES:
            continue
        view = other.read(start, start + min(size + 4, _MAX_READ_BYTES))
        fits = reader.checks.response_fits(view, size, head.api_key, head.api_version)
        if fits or (fits is None and may_be_begun):
            return True
    return False
