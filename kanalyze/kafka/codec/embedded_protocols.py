"""Reads protocols that are embedded in bytes fields of Kafka's messages.

In: the bytes of such a field. Out: plain values, or a WireError.

The consumer protocol in JoinGroup and SyncGroup (``ConsumerProtocolSubscription`` and
``ConsumerProtocolAssignment``): a version, then its fields, never flexible. Newer versions only add
fields, and readers of older ones leave those unread.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.codec.compiler import Projection, compile_decoder
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.wire import Malformed, Truncated

if TYPE_CHECKING:
    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.schema.schema_ast import MessageSpec

_VERSION = Struct(">h")
_NO_GENERATION = -1
_BUILT_IN = Catalog()


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
    version, (topics, user_data, owned, generation, rack) = _read("Subscription", data)
    generation_id = None if generation == _NO_GENERATION else generation
    partitions = _topic_partitions(owned)
    return Subscription(version, tuple(topics), user_data, partitions, generation_id, rack)


def parse_assignment(data: bytes | memoryview) -> MemberAssignment:
    """Read what a member of protocol type ``consumer`` is assigned; as :func:`parse_subscription`.

    Empty data is an assignment without partitions: a broker sends it to a member that gets none.
    """
    if len(data) == 0:
        return MemberAssignment(0, (), None)
    version, (assigned, user_data) = _read("Assignment", data)
    return MemberAssignment(version, _topic_partitions(assigned), user_data)


def _read(name: str, data: bytes | memoryview) -> tuple[int, tuple[Any, ...]]:
    """Read a version and a message; a newer version is read as the newest known.

    The values are those of all fields, in the order of the definition.
    """
    if len(data) < _VERSION.size:
        raise Truncated("the bytes end within the version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise Malformed(f"version {version}")
    message = _BUILT_IN.data(f"ConsumerProtocol{name}")
    version = min(version, message.valid_versions.highest)
    return version, _decoder(message, version)(data, _VERSION.size)[0]


@cache
def _decoder(message: MessageSpec, version: int) -> BodyDecoder:
    fields = Projection.of(*(field.name for field in message.struct.fields))
    return compile_decoder(message, version, fields)


def _topic_partitions(read: list[tuple[str, list[int]]]) -> tuple[TopicPartitions, ...]:
    return tuple([TopicPartitions(topic, tuple(partitions)) for topic, partitions in read])
