"""The facts about the cluster in an exchange: brokers, leaders, coordinators, versions.

In: the values of the two bodies of an exchange. Out: :class:`MetadataEntry` for what is new or
changed on its connection.

Clients ask for metadata every few minutes, and a cluster may have many thousands of partitions. So
:class:`SeenMetadata` keeps the latest values of each connection, and only changes give lines. Its
memory is bounded; values that were dropped give lines again.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from kanalyze.common.plain_values import fields, items
from kanalyze.kafka.schema.error_codes import error_name
from kanalyze.spec.rows.cluster import MetadataEntry
from kanalyze.tables.requests.topic_names import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.tables.cluster.fields import FieldPaths

_PRODUCE, _FETCH, _METADATA, _API_VERSIONS = 0, 1, 3, 18
SAID_BY_RESPONSES = frozenset({_METADATA, _API_VERSIONS})
"""Kafka keys of the APIs that nearly all connections ask, and whose facts need no request."""
_ENDPOINTS = tuple(f"NodeEndpoints.{name}" for name in ("NodeId", "Host", "Port", "Rack"))
_ONE_COORDINATOR = ("NodeId", "Host", "Port")
_PARTITION = (
    *("PartitionIndex", "ErrorCode", "LeaderId", "LeaderEpoch"),
    *("ReplicaNodes", "IsrNodes", "OfflineReplicas"),
)
METADATA_FIELDS: FieldPaths = {
    _PRODUCE: (
        (),
        (
            *("Responses.Name", "Responses.TopicId", "Responses.PartitionResponses.Index"),
            *("Responses.PartitionResponses.ErrorCode", *_ENDPOINTS),
            "Responses.PartitionResponses.CurrentLeader",
        ),
    ),
    _FETCH: (
        (),
        (
            *("Responses.Topic", "Responses.TopicId", "Responses.Partitions.PartitionIndex"),
            *("Responses.Partitions.ErrorCode", *_ENDPOINTS),
            "Responses.Partitions.CurrentLeader",
        ),
    ),
    _METADATA: (
        (),
        (
            *("Brokers", "ClusterId", "ControllerId", "Topics.ErrorCode", "Topics.Name"),
            *("Topics.TopicId", *(f"Topics.Partitions.{name}" for name in _PARTITION)),
        ),
    ),
    10: (
        ("Key", "KeyType", "CoordinatorKeys"),
        (
            *("ErrorCode", *_ONE_COORDINATOR, "Coordinators.Key", "Coordinators.ErrorCode"),
            *(f"Coordinators.{name}" for name in _ONE_COORDINATOR),
        ),
    ),
    _API_VERSIONS: ((), ("ApiKeys",)),
    60: ((), ("ErrorCode", "EndpointType", "ClusterId", "ControllerId", "Brokers")),
}
"""The fields to decode of the APIs whose messages have facts about the cluster."""

_Values: TypeAlias = "dict[str, Any]"
_Key: TypeAlias = "tuple[str, Hashable, Hashable]"
KeyedValue: TypeAlias = "tuple[_Key, tuple[Any, ...]]"
"""The subject (its kind and two keys), and its values."""

_KEY_TYPES = {0: "group", 1: "transaction", 2: "share"}
_CONTROLLERS = 2
"""The endpoint type in DescribeCluster that asks for controllers."""
_NUMBERS = 7
"""Number of integers that are kept of a partition in Metadata: its index, error code, leader and
leader epoch, and how many of its replicas there are, are in sync, are offline."""
_UNKNOWN = -1
_PACKED_BYTES = _NUMBERS * array("i").itemsize
_MOST_KEPT_BYTES = 2048
"""The largest value, by its estimated memory, whose lines are kept: that of a topic may have very
many partitions."""
_STATES = {
    "topic": ("SS", "iy"),
    "hint": ("ti", "iii"),
    "coordinator": ("SS", "iSii"),
    "broker": ("is", "SiSSBB"),
    "controller": ("is", "SiSSBB"),
    "versions": ("SS", "s"),
}
"""For each kind, the types of the two keys and of the values, in the notation of
:func:`kanalyze.common.plain_values.fields`."""


def hinting(api_key: int) -> bool:
    """Return true if an API names leaders only in responses with an error (KIP-951)."""
    return api_key in (_PRODUCE, _FETCH)


def metadata_entries(
    api_key: int, api_version: int, request: _Values | None, response: _Values | None
) -> list[KeyedValue]:
    """Return all facts in an exchange. A body that was not decoded is None. Raises nothing."""
    if response is None:
        return []
    return list(_READERS[api_key](api_version, request, response))


def _metadata(version: int, _: _Values | None, response: _Values) -> Iterator[KeyedValue]:
    # Version 2 added the cluster's id, version 1 the controller.
    controller = response["ControllerId"] if version >= 1 else None
    for broker in response["Brokers"]:
        about = (response["ClusterId"], None, controller)
        yield _broker(("broker", broker["NodeId"], "metadata"), broker, about)
    has_offline = version >= 5
    for topic in response["Topics"]:
        numbers: list[tuple[int, ...]] = sorted(
            (
                part["PartitionIndex"],
                part["ErrorCode"],
                part["LeaderId"],
                part["LeaderEpoch"],
                len(part["ReplicaNodes"]),
                len(part["IsrNodes"]),
                len(part["OfflineReplicas"]) if has_offline else _UNKNOWN,
            )
            for part in topic["Partitions"]
        )
        packed = array("i", [number for part in numbers for number in part]).tobytes()
        name, topic_id = topic["Name"] or None, topic_id_text(topic["TopicId"])
        yield ("topic", name, topic_id), (topic["ErrorCode"], packed)


def _cluster(version: int, _: _Values | None, response: _Values) -> Iterator[KeyedValue]:
    kind = "controller" if response["EndpointType"] == _CONTROLLERS else "broker"
    cluster_id = response["ClusterId"] or None
    for broker in response["Brokers"]:
        fenced = broker["IsFenced"] if version >= 2 else None
        about = (cluster_id, fenced, response["ControllerId"])
        yield _broker((kind, broker["BrokerId"], "cluster"), broker, about)


def _broker(
    key: tuple[str, int, str],
    broker: _Values,
    about: tuple[str | None, bool | None, int | None],
) -> KeyedValue:
    """Return the values of a broker.

    Args:
        key: kind, node id, and a name of the response, so that different APIs are not compared.
        broker: the broker in the response.
        about: the cluster's id, whether the broker is fenced, and the controller's id.
    """
    cluster_id, fenced, controller = about
    is_controller = None if controller is None or controller < 0 else controller == key[1]
    values = (broker["Host"], broker["Port"], broker["Rack"], cluster_id, fenced)
    return key, (*values, is_controller)


def _coordinators(version: int, request: _Values | None, response: _Values) -> Iterator[KeyedValue]:
    key_type = None
    if request is not None:
        key_type = _KEY_TYPES.get(request["KeyType"], str(request["KeyType"]))
    if version < 4:
        coordinators = [{**response, "Key": None if request is None else request["Key"]}]
    else:
        coordinators = response["Coordinators"]
    for item in coordinators:
        value = (item["NodeId"], item["Host"], item["Port"], item["ErrorCode"])
        yield ("coordinator", key_type, item["Key"]), value


def _hints(_version: int, _: _Values | None, response: _Values) -> Iterator[KeyedValue]:
    """Yield the leaders that a response names for partitions that moved (KIP-951)."""
    for topic in response["Responses"]:
        name = topic.get("Name", topic.get("Topic")) or None
        topic_id = topic_id_text(topic.get("TopicId") or b"")
        for part in topic.get("PartitionResponses") or topic.get("Partitions") or ():
            leader = part["CurrentLeader"]
            if leader["LeaderId"] < 0 and leader["LeaderEpoch"] < 0:
                continue
            index = part.get("Index", part.get("PartitionIndex"))
            value = (part["ErrorCode"], leader["LeaderId"], leader["LeaderEpoch"])
            yield ("hint", (name, topic_id), index), value
    for broker in response.get("NodeEndpoints") or ():
        yield _broker(("broker", broker["NodeId"], "hint"), broker, (None, None, None))


def _versions(_version: int, _: _Values | None, response: _Values) -> Iterator[KeyedValue]:
    """Yield what a broker announces; a response with an error may have no APIs."""
    ranges = {
        api["ApiKey"]: f"{api['ApiKey']}:{api['MinVersion']}-{api['MaxVersion']}"
        for api in response["ApiKeys"]
    }
    if ranges:
        yield ("versions", None, None), (" ".join(ranges.values()),)


_READERS: dict[int, Callable[[int, _Values | None, _Values], Iterator[KeyedValue]]] = {
    _PRODUCE: _hints,
    _FETCH: _hints,
    _METADATA: _metadata,
    10: _coordinators,
    _API_VERSIONS: _versions,
    60: _cluster,
}


class SeenMetadata:
    """The latest values of each connection.

    Memory is bounded: the values of the least recently updated connection are dropped first.
    """

    _NOT_SAVED = ("_bytes", "_most_bytes")

    def __init__(self, most_bytes: int = 64 << 20) -> None:
        """Begin without values; ``most_bytes`` limits the estimated memory."""
        self._most_bytes = most_bytes
        self._bytes = 0
        self._connections: dict[tuple[str, int], dict[_Key, tuple[Any, ...]]] = {}

    def state(self, connections: Collection[tuple[str, int]]) -> State:
        """Return what :meth:`from_state` takes: the values of the given connections."""
        return tuple(
            (*connection, tuple(latest.items()))
            for connection, latest in self._connections.items()
            if connection in connections
        )

    @classmethod
    def from_state(cls, state: object) -> Self:
        """Make one from a state; raises ValueError for any other value."""
        metadata = cls()
        for connection_state in items(state, "t"):
            name, number, entries = fields(connection_state, "snt")
            values_of_connection = metadata._connections.setdefault((name, number), {})
            for entry in items(entries, "t"):
                key, value = _checked(*fields(entry, "tt"))
                values_of_connection[key] = value
                metadata._bytes += _size(value)
        return metadata

    def changes(
        self, connection: tuple[str, int], entries: list[KeyedValue]
    ) -> Iterator[MetadataEntry]:
        """Yield the entries that are new or changed on a connection, and keep them."""
        values_of_connection = self._connections.pop(connection, {})
        self._connections[connection] = values_of_connection  # moves the connection to the end
        for key, value in entries:
            previous = values_of_connection.get(key)
            # If a broker becomes the controller, the broker itself has not changed.
            if previous is not None and _compared(key, previous) == _compared(key, value):
                continue
            values_of_connection[key] = value
            size = _size(value)
            self._bytes += size - (0 if previous is None else _size(previous))
            if previous is None and size <= _MOST_KEPT_BYTES:
                yield from _first_lines(key, value)
            else:
                yield from _lines(key, value, previous)
        while self._bytes > self._most_bytes and self._connections:
            dropped = self._connections.pop(next(iter(self._connections)))
            self._bytes -= sum(map(_size, dropped.values()))


def _checked(key: tuple[Any, ...], value: tuple[Any, ...]) -> KeyedValue:
    """Return an entry of a state; raises ValueError for any other value."""
    kind, *keys = fields(key, "s**")
    if kind not in _STATES:
        raise ValueError(f"unknown kind of metadata: {kind!r}")
    of_keys, of_values = _STATES[kind]
    fields(tuple(keys), of_keys)
    fields(value, of_values)
    if kind == "hint":
        fields(keys[0], "SS")
    if kind == "topic" and len(value[1]) % _PACKED_BYTES:
        raise ValueError("incomplete partitions")
    return (kind, keys[0], keys[1]), value


def _size(value: tuple[Any, ...]) -> int:
    """Return the estimated memory in bytes of a key with this value."""
    texts = sum([len(part) for part in value if isinstance(part, str | bytes)])
    return 400 + texts  # a key and a tuple, with their entry in a dict


def _compared(key: tuple[Any, ...], value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the part of a value whose changes give a line: of a broker, all but is_controller."""
    return value[:-1] if key[0] in ("broker", "controller") else value


@lru_cache(maxsize=256)
def _first_lines(key: tuple[Any, ...], value: tuple[Any, ...]) -> list[MetadataEntry]:
    """Return the lines of a value that is new on a connection: all get the same from a cluster."""
    return list(_lines(key, value, None))


def _lines(
    key: tuple[Any, ...], value: tuple[Any, ...], previous: tuple[Any, ...] | None
) -> Iterator[MetadataEntry]:
    kind, first, second = key
    if kind == "topic":
        yield from _topic_lines(first, second, value, previous)
    elif kind == "hint":
        code, leader, epoch = value
        yield MetadataEntry(
            "partition",
            topic=first[0],
            topic_id=first[1],
            partition=second,
            leader_id=_known(leader),
            leader_epoch=_known(epoch),
            error_code=code,
            error_name=error_name(code),
        )
    elif kind == "coordinator":
        node_id, host, port, code = value
        yield MetadataEntry(
            kind,
            node_id=_known(node_id),
            host=host or None,
            port=_known(port),
            key_type=first,
            key=second,
            error_code=code,
            error_name=error_name(code),
        )
    elif kind == "versions":
        yield MetadataEntry(kind, announced=value[0])
    else:
        host, port, rack, cluster_id, fenced, is_controller = value
        yield MetadataEntry(
            kind,
            cluster_id=cluster_id,
            node_id=first,
            host=host,
            port=port,
            rack=rack,
            is_controller=is_controller,
            is_fenced=fenced,
        )


def _topic_lines(
    topic: str | None,
    topic_id: str | None,
    value: tuple[int, bytes],
    previous: tuple[Any, ...] | None,
) -> Iterator[MetadataEntry]:
    """Yield the partitions of a topic that are new or changed.

    A topic that has no partitions, or an error, gives one entry for the topic itself.
    """
    code, packed = value
    old = set() if previous is None else set(_partitions(previous[1]))
    partitions = _partitions(packed)
    is_repeated = previous is not None and previous[0] == code and (code != 0 or not old)
    if (not partitions or code != 0) and not is_repeated:
        yield MetadataEntry(
            "topic", topic=topic, topic_id=topic_id, error_code=code, error_name=error_name(code)
        )
    for numbers in partitions:
        if numbers in old:
            continue
        index, code, leader, epoch, *counts = numbers
        replicas, in_sync, offline = map(_known, counts)
        yield MetadataEntry(
            "partition",
            topic=topic,
            topic_id=topic_id,
            partition=index,
            leader_id=_known(leader),
            leader_epoch=_known(epoch),
            replica_count=replicas,
            isr_count=in_sync,
            offline_count=offline,
            error_code=code,
            error_name=error_name(code),
        )


def _partitions(packed: bytes) -> list[tuple[int, ...]]:
    numbers = array("i", packed)
    return list(zip(*(numbers[place::_NUMBERS] for place in range(_NUMBERS)), strict=True))


def _known(number: int) -> int | None:
    """Return a number; None if it is negative, which means that there is none."""
    return None if number < 0 else number
