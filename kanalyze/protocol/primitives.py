"""The reads that every decoder shares and that are too long to be written into each of them.

In: a view and a position. Out: a value and the position after it, or a WireError. Must not know
messages. Names of the arguments are those of a decoder (:mod:`kanalyze.protocol.compiler`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.protocol.wire import Malformed, MissingBytes, Truncated

if TYPE_CHECKING:
    from kanalyze.protocol.wire import Source

__all__ = [
    "MAX_UNSIGNED_VARINT",
    "check_frame_holds",
    "read_raw_records",
    "read_tags",
    "read_unsigned_varint",
    "read_uuids",
    "skip_tags",
]

MAX_UNSIGNED_VARINT = 0x7FFFFFFF
"""Lengths, counts and tags are ints of Java: more would be a negative number there."""


def read_unsigned_varint(view: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 5 bytes; return it and the position after it.

    0 to :data:`MAX_UNSIGNED_VARINT`. Raises Malformed beyond, Truncated where the view ends first.
    """
    value = 0
    try:
        for shift in (0, 7, 14, 21, 28):
            byte = view[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > MAX_UNSIGNED_VARINT:
                    raise Malformed("unsigned varint beyond 2^31 - 1")
                return value, pos
    except IndexError:
        raise Truncated("the bytes end within a varint") from None
    raise Malformed("unsigned varint of more than 5 bytes")


def skip_tags(view: bytes | memoryview, pos: int, limit: int) -> int:
    """Step over the tag section at ``pos``, which has no tag that anybody wants.

    Returns the position after it. Raises Malformed when tags don't rise, Truncated when a tag's
    bytes go past ``limit``.
    """
    count, pos = read_unsigned_varint(view, pos)
    last = -1
    for _ in range(count):
        last, _, pos = _next_tag(view, pos, limit, last)
    return pos


def read_tags(
    view: bytes | memoryview, pos: int, limit: int
) -> tuple[list[tuple[int, bytes]], int]:
    """Read the tag section at ``pos`` as tags and their bytes; raises as :func:`skip_tags`."""
    tags: list[tuple[int, bytes]] = []
    count, pos = read_unsigned_varint(view, pos)
    last = -1
    for _ in range(count):
        last, start, pos = _next_tag(view, pos, limit, last)
        tags.append((last, bytes(view[start:pos])))
    return tags, pos


def _next_tag(view: bytes | memoryview, pos: int, limit: int, last: int) -> tuple[int, int, int]:
    """Read the tag after ``last``; return it and where its bytes start and end."""
    tag, pos = read_unsigned_varint(view, pos)
    if tag <= last:
        raise Malformed("tags do not rise")
    size, pos = read_unsigned_varint(view, pos)
    if pos + size > limit:
        raise Truncated("the bytes end within a tagged field")
    return tag, pos, pos + size


def check_frame_holds(need: int, pos: int, base: int, source: Source | None) -> None:
    """Refuse an array that needs more bytes than the frame has left.

    Called when ``need`` bytes (at least 1) from ``pos`` on go past the view. Whether the capture
    holds them matters not: most may be records that are never read. Raises Truncated.
    """
    if source is None:
        raise Truncated("an array of more elements than there are bytes")
    try:
        rest = source.window(base + pos + need - 1)
    except MissingBytes:
        return
    if not rest:
        raise Truncated("an array of more elements than there are bytes")


def read_raw_records(
    view: bytes | memoryview, pos: int, length: int, base: int, source: Source | None
) -> bytes:
    """Copy the ``length`` bytes of a records field at ``view[pos]``.

    Raises Truncated where the frame ends first, MissingBytes where the capture has a hole.
    """
    if pos + length <= len(view):
        return bytes(view[pos : pos + length])
    if source is None:
        raise Truncated("the bytes end within records")
    return bytes(source.read(base + pos, length))


def read_uuids(view: bytes | memoryview, pos: int, count: int) -> list[bytes]:
    """Copy ``count`` UUIDs of 16 bytes; the caller has made sure that the view holds them."""
    return [bytes(view[at : at + 16]) for at in range(pos, pos + 16 * count, 16)]
