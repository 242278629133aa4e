"""Produce and Fetch in any version, and connections that carry them, as packets of a capture.

In: the values of messages. Out: their bytes, and captures.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from kanalyze.kafka.schema.catalog import Catalog
from tests.support import kafka as k
from tests.support.messages import NUMBERS, Writer
from tests.support.packets import ACK, BROKER, FIN, RST, SYN, pcap_file, segment, timed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.schema.schema_ast import Struct

CATALOG = Catalog()
NO_ID = bytes(16)
TO_BROKER, TO_CLIENT = 0, 1
_START_SEQUENCE = 1000


class Part(NamedTuple):
    """A partition, with its values in request and response."""

    topic: str = "t"
    topic_id: bytes = NO_ID
    partition: int = 0
    records: bytes | None = k.record_batch()
    error_code: int = 0
    base_offset: int = 0
    high_watermark: int = 10


def _defaults(struct: Struct, version: int) -> dict[str, Any]:
    """Every field of a version, with an empty value."""
    made: dict[str, Any] = {}
    for field in struct.fields:
        if not field.is_present(version) or field.is_tagged(version):
            continue
        if field.is_array:
            made[field.json_name] = []
        elif field.struct is not None:
            made[field.json_name] = (
                None if field.is_nullable(version) else _defaults(field.struct, version)
            )
        else:
            made[field.json_name] = _nothing_of(field.element_type)
    return made


def _nothing_of(kind: str) -> Any:
    if kind in NUMBERS:
        return 0
    plain = {"string": "", "uuid": NO_ID, "bool": False, "float64": 0.0}
    return plain.get(kind, b"")


def body(api_key: int, kind: Kind, version: int, **values: Any) -> bytes:
    """The body of a message; fields that are not given are empty."""
    message = CATALOG.message(api_key, kind)
    return Writer(message, version).write(_defaults(message.struct, version) | values)


def asks(
    api_key: int, version: int, correlation_id: int, content: bytes, client_id: str | None = "test"
) -> bytes:
    """A request frame with a body."""
    tags = b"\0" if CATALOG.request_header_version(api_key, version) == 2 else b""
    return k.request(api_key, version, correlation_id, content, client_id=client_id, tags=tags)


def answers(api_key: int, version: int, correlation_id: int, content: bytes) -> bytes:
    """A response frame with a body."""
    tags = b"\0" if CATALOG.response_header_version(api_key, version) == 1 else b""
    return k.response(correlation_id, content, tags=tags)


def _topics(
    parts: Iterable[Part], api_key: int, kind: Kind, version: int, outer: str, inner: str, name: str
) -> list[dict[str, Any]]:
    """Parts by topic, each with the values of its fields under all their names."""
    topics = CATALOG.message(api_key, kind).struct.field(outer)
    assert topics is not None
    assert topics.struct is not None
    partitions = topics.struct.field(inner)
    assert partitions is not None
    assert partitions.struct is not None
    made = []
    for (topic, topic_id), own in groupby(parts, key=lambda part: (part.topic, part.topic_id)):
        items = [_partition(part, partitions.struct, version) for part in own]
        made.append({name: topic, "topicId": topic_id, _json_name(inner): items})
    return made


def _partition(part: Part, struct: Struct, version: int) -> dict[str, Any]:
    """A part with its fields under all their names; tagged fields are left out."""
    plain = _defaults(struct, version)
    values_by_name = {
        "index": part.partition,
        "partition": part.partition,
        "partitionIndex": part.partition,
        "records": part.records,
        "errorCode": part.error_code,
        "baseOffset": part.base_offset,
        "highWatermark": part.high_watermark,
    }
    return plain | {name: value for name, value in values_by_name.items() if name in plain}


def _json_name(name: str) -> str:
    """Kafka's name of a field, as its JSON has it."""
    return name[0].lower() + name[1:]


def produce(
    correlation_id: int,
    version: int,
    parts: Sequence[Part] = (Part(),),
    *,
    acks: int = -1,
    transactional_id: str | None = None,
    client_id: str | None = "test",
) -> bytes:
    content = body(
        k.PRODUCE,
        "request",
        version,
        acks=acks,
        timeoutMs=1000,
        transactionalId=transactional_id,
        topicData=_topics(
            parts, k.PRODUCE, "request", version, "TopicData", "PartitionData", "name"
        ),
    )
    return asks(k.PRODUCE, version, correlation_id, content, client_id)


def produce_answer(
    correlation_id: int, version: int, parts: Sequence[Part] = (Part(),), *, throttle_ms: int = 0
) -> bytes:
    content = body(
        k.PRODUCE,
        "response",
        version,
        throttleTimeMs=throttle_ms,
        responses=_topics(
            parts, k.PRODUCE, "response", version, "Responses", "PartitionResponses", "name"
        ),
    )
    return answers(k.PRODUCE, version, correlation_id, content)


def fetch(
    correlation_id: int,
    version: int,
    parts: Sequence[Part] = (Part(),),
    *,
    session_id: int = 0,
    epoch: int = -1,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    client_id: str | None = "test",
    replica_id: int = -1,
) -> bytes:
    content = body(
        k.FETCH,
        "request",
        version,
        replicaId=replica_id,
        replicaState={"replicaId": replica_id, "replicaEpoch": 3},
        maxWaitMs=max_wait_ms,
        minBytes=min_bytes,
        sessionId=session_id,
        sessionEpoch=epoch,
        topics=_topics(parts, k.FETCH, "request", version, "Topics", "Partitions", "topic"),
    )
    return asks(k.FETCH, version, correlation_id, content, client_id)


def fetch_answer(
    correlation_id: int,
    version: int,
    parts: Sequence[Part] = (Part(),),
    *,
    throttle_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
) -> bytes:
    content = body(
        k.FETCH,
        "response",
        version,
        throttleTimeMs=throttle_ms,
        errorCode=error_code,
        sessionId=session_id,
        responses=_topics(parts, k.FETCH, "response", version, "Responses", "Partitions", "topic"),
    )
    return answers(k.FETCH, version, correlation_id, content)


METADATA_VERSION = 12
"""A version with ids and names of topics."""


def metadata(correlation_id: int) -> bytes:
    return asks(
        k.METADATA, METADATA_VERSION, correlation_id, body(k.METADATA, "request", METADATA_VERSION)
    )


def metadata_answer(correlation_id: int, names: Iterable[tuple[bytes, str]]) -> bytes:
    """A response with the names of topic ids."""
    topics = CATALOG.message(k.METADATA, "response").struct.field("Topics")
    assert topics is not None
    assert topics.struct is not None
    plain = _defaults(topics.struct, METADATA_VERSION)
    content = body(
        k.METADATA,
        "response",
        METADATA_VERSION,
        topics=[plain | {"topicId": topic_id, "name": name} for topic_id, name in names],
    )
    return answers(k.METADATA, METADATA_VERSION, correlation_id, content)


class Line:
    """One TCP connection: its packets are appended to a list, which lines may share."""

    def __init__(
        self,
        packets: list[bytes],
        client_port: int = 50000,
        *,
        client: tuple[str, int] | None = None,
        broker: tuple[str, int] = BROKER,
    ) -> None:
        self._packets = packets
        self._ends = {"client": client or ("10.0.0.1", client_port), "broker": broker}
        self._sequence = [_START_SEQUENCE, _START_SEQUENCE]

    def open(self) -> Line:
        self._send(TO_BROKER, SYN)
        self._send(TO_CLIENT, SYN | ACK)
        self._send(TO_BROKER, ACK)
        return self

    def says(self, side: int, *payloads: bytes) -> Line:
        """Send each payload as a packet of one side."""
        for payload in payloads:
            if payload:
                self._send(side, ACK, payload)
        return self

    def client(self, *payloads: bytes) -> Line:
        return self.says(TO_BROKER, *payloads)

    def broker(self, *payloads: bytes) -> Line:
        return self.says(TO_CLIENT, *payloads)

    def probes(self, side: int) -> Line:
        """Send a keepalive, which is one byte back and has none, and its answer."""
        self.loses(side, -1)._send(side, ACK)
        self.loses(side, 1)._send(1 - side, ACK)
        return self

    def loses(self, side: int, length: int) -> Line:
        """Send bytes that are not captured."""
        self._sequence[side] += length
        return self

    def close(self, first: int = TO_BROKER) -> Line:
        self._send(first, FIN | ACK)
        self._send(1 - first, FIN | ACK)
        return self

    def reset(self) -> Line:
        self._send(TO_CLIENT, RST)
        return self

    def _send(self, side: int, flags: int, payload: bytes = b"") -> None:
        ours, theirs = self._sequence[side], self._sequence[1 - side]
        self._packets.append(
            segment(
                to_broker=side == TO_BROKER,
                seq=ours,
                ack=theirs,
                flags=flags,
                payload=payload,
                **self._ends,
            )
        )
        # SYN and FIN take one sequence number each.
        self._sequence[side] += len(payload) + bool(flags & (SYN | FIN))


def capture_of(packets: Iterable[bytes]) -> bytes:
    """A capture of packets, a microsecond apart."""
    return pcap_file(timed(packets))
