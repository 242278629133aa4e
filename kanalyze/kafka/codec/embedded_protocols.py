"""Reads protocols that are embedded in bytes fields of Kafka's messages.

In: the bytes of such a field. Out: plain values, or a WireError.

The consumer protocol in JoinGroup and SyncGroup (``ConsumerProtocolSubscription`` and
``ConsumerProtocolAssignment``): a version, then its fields, never flexible. Newer versions only add
fields, and readers of older ones leave those unread.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, TypeVar

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.wire import Malformed, Truncated

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "MemberAssignment",
    "Subscription",
    "TopicPartitions",
    "parse_assignment",
    "parse_subscription",
]

_INT16 = Struct(">h").unpack_from
_INT32 = Struct(">i").unpack_from
_NO_GENERATION = -1
_CONSUMER_PROTOCOL = 3
"""The newest version of both messages that is known."""

T = TypeVar("T")


class TopicPartitions(NamedTuple):
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


class Subscription(NamedTuple):
    """The metadata that a member of a consumer group sends when it joins."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    """Data of the assignor; None is null, which differs from empty."""
    owned: tuple[TopicPartitions, ...] = ()
    """From version 1 on: the partitions that it owns already."""
    generation_id: int | None = None
    """From version 2 on; None before, and for -1, which stands for no generation."""
    rack_id: str | None = None
    """From version 3 on."""


class MemberAssignment(NamedTuple):
    """The partitions that the leader assigns to a member."""

    version: int
    assigned: tuple[TopicPartitions, ...]
    user_data: bytes | None


def parse_subscription(data: bytes | memoryview) -> Subscription:
    """Read the metadata that a member of protocol type ``consumer`` joins with.

    Raises:
        WireError: the bytes end too early or contradict the format. Bytes after the known fields
            are those of a newer version, and no error.
    """
    reader = _Reader(data)
    version = reader.version()
    topics = reader.array(reader.string, least_bytes=2)
    user_data = reader.data()
    owned = reader.array(reader.topic_partitions, least_bytes=6) if version >= 1 else ()
    generation = reader.int32() if version >= 2 else _NO_GENERATION
    rack = reader.nullable_string() if version >= 3 else None
    generation_id = None if generation == _NO_GENERATION else generation
    return Subscription(version, topics, user_data, owned, generation_id, rack)


def parse_assignment(data: bytes | memoryview) -> MemberAssignment:
    """Read what a member of protocol type ``consumer`` is assigned; as :func:`parse_subscription`.

    Empty data is an assignment without partitions: a broker sends it to a member that gets none.
    """
    if len(data) == 0:
        return MemberAssignment(0, (), None)
    reader = _Reader(data)
    version = reader.version()
    assigned = reader.array(reader.topic_partitions, least_bytes=6)
    return MemberAssignment(version, assigned, reader.data())


class _Reader:
    """Reads the primitives of versions that are not flexible."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0

    def version(self) -> int:
        """Read a version; a newer one is read as the newest known."""
        version = self.int16()
        if version < 0:
            raise Malformed(f"version {version}")
        return min(version, _CONSUMER_PROTOCOL)

    def int16(self) -> int:
        return int(_INT16(self._take(2))[0])

    def int32(self) -> int:
        return int(_INT32(self._take(4))[0])

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length < -1:
            raise Malformed(f"a string of {length} bytes")
        if length == -1:
            return None
        return str(self._take(length), "utf-8", "backslashreplace")

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise Malformed("null in place of a string")
        return text

    def data(self) -> bytes | None:
        length = self.int32()
        if length < -1:
            raise Malformed(f"{length} bytes")
        return None if length == -1 else bytes(self._take(length))

    def topic_partitions(self) -> TopicPartitions:
        return TopicPartitions(self.string(), self.array(self.int32, least_bytes=4))

    def array(self, read: Callable[[], T], *, least_bytes: int) -> tuple[T, ...]:
        """Read an array; raises Truncated if there are too few bytes left for its elements."""
        count = self.int32()
        if count < 0:
            raise Malformed(f"an array of {count}")
        if count * least_bytes > len(self._data) - self._at:
            raise Truncated(f"an array of {count} in {len(self._data) - self._at} bytes")
        return tuple(read() for _ in range(count))

    def _take(self, length: int) -> memoryview:
        end = self._at + length
        if end > len(self._data):
            raise Truncated(f"{length} bytes at {self._at} of {len(self._data)}")
        data, self._at = self._data[self._at : end], end
        return data
