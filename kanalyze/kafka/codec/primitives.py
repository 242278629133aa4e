"""Reads that every decoder shares.

In: a view and a position. Out: a value and the position after it, or a WireError. Names of the
arguments are those of a decoder (:mod:`kanalyze.kafka.codec.compiler`).
"""

from __future__ import annotations

from kanalyze.kafka.wire import Malformed, Truncated

__all__ = [
    "MAX_UNSIGNED_VARINT",
    "read_unsigned_varint",
    "skip_tags",
]

MAX_UNSIGNED_VARINT = 0x7FFFFFFF
"""Lengths, counts and tags are ints of Java: more would be a negative number there."""


def read_unsigned_varint(view: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 5 bytes; return it and the position after it.

    Raises Malformed above :data:`MAX_UNSIGNED_VARINT`, Truncated where the view ends first.
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
    """Skip the tag section at ``pos``.

    Returns the position after it. Raises Malformed when tags don't rise, Truncated when a tag's
    bytes go past ``limit``.
    """
    count, pos = read_unsigned_varint(view, pos)
    last = -1
    for _ in range(count):
        last, _, pos = _next_tag(view, pos, limit, last)
    return pos


def _next_tag(view: bytes | memoryview, pos: int, limit: int, last: int) -> tuple[int, int, int]:
    """Read the tag after ``last``; return it and where its bytes start and end."""
    tag, pos = read_unsigned_varint(view, pos)
    if tag <= last:
        raise Malformed("tags do not rise")
    size, pos = read_unsigned_varint(view, pos)
    if pos + size > limit:
        raise Truncated("the bytes end within a tagged field")
    return tag, pos, pos + size
