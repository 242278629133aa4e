"""What every reader of Kafka bytes shares: how reading them fails, varints and tags.

In: a view and a position. Out: a value and the position after it, or an exception; what a wire
without definitions says of exchanges.

The exceptions never leave the package: the stage that called a decoder turns them into anomalies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class WireError(ValueError):
    """Bytes that cannot be read as what they should be."""


class Truncated(WireError):
    """The bytes end before the field does."""


class MissingBytes(WireError):
    """The field exists, but the capture does not hold (all of) its bytes."""


class Malformed(WireError):
    """The bytes contradict the grammar: a negative length, a varint without an end."""


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
        tag, pos = read_unsigned_varint(view, pos)
        if tag <= last:
            raise Malformed("tags do not rise")
        size, pos = read_unsigned_varint(view, pos)
        if pos + size > limit:
            raise Truncated("the bytes end within a tagged field")
        last, pos = tag, pos + size
    return pos


class WireApi(NamedTuple):
    """A type of request as rows have it; name and key are None for an orphan response."""

    name: str | None
    equivalent_api_key: int | None
    """The key of the API of ``kafka`` that corresponds to it."""
    error_name: Callable[[int], str]
    has_records: bool
    """Whether its requests or responses have records."""
    is_produce: bool
    """Whether these are in requests."""


class WirePartition(NamedTuple):
    """One partition of an exchange; None: not known, or not said."""

    topic: str
    partition: int
    record_count: int | None = None
    record_bytes: int | None = None
    base_offset: int | None = None
    codec: str | None = None
    error_code: int | None = None


class WireRecords(NamedTuple):
    """The records of one partition in one message."""

    topic: str
    partition: int
    error_code: int | None
    data: bytes
    offset: int | None
    """The position of its first byte in the log; Fetch only."""
