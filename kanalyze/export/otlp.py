"""Rows of requests as OpenTelemetry traces: OTLP in JSON, as collectors read it.

In: rows of requests. Out: messages ExportTraceServiceRequest, a line each.

A request is a span of its own trace, named and described by the semantic conventions for messaging
and Kafka; what they have no name for begins with ``kanalyze.``. Its parts are spans inside. Ids are
made of the connection, the time and the correlation id, so that every run makes the same.

JSON is put together from texts, most of which repeat: that takes a third of the time of ``json``.

Links go both ways between a Produce and each Fetch of the same offsets, from the span that ends
later, because a span is written once; and from a request to the spans that ``traceparent`` headers
of its records name.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.export.traces import MAX_ITEMS, OffsetLinks, end_ns_of, parts_of, topics_of
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock

SpanId: TypeAlias = tuple[str, str]
"""Trace id and span id, in hexadecimal."""

_INTERNAL: Final = 1
_CLIENT: Final = 3
_ERROR: Final = 2
"""Numbers of OTLP: kinds of spans, and a status."""
_OPERATIONS: Final = {
    "Produce": "send",
    "Fetch": "receive",
    "ShareFetch": "receive",
    "OffsetCommit": "settle",
    "TxnOffsetCommit": "settle",
    "ShareAcknowledge": "settle",
}
"""``messaging.operation.type`` by API; others have none."""
_MAX_LINKS: Final = 128
"""Links of a span: as many as the limit of OpenTelemetry's SDKs."""
_MAX_TEXT: Final = 1024
"""Characters of a text from the wire."""
_MAX_KNOWN: Final = 4096
"""Texts in JSON that are kept."""
_MAX_SEEN: Final = 100_000
_ROWS_PER_LINE: Final = 256
"""Some 500 kB of JSON. A collector takes 20 MiB at once."""


class SpanWriter:
    """Writes rows of requests as lines of OTLP."""

    def __init__(self, put: Callable[[bytes], object]) -> None:
        """``put`` takes each line, a message of its own."""
        self._put = put
        self._links = OffsetLinks()
        self._seen: Counter[str] = Counter()
        """How many requests had the same key, as those of Kafka 0.7 in one packet have."""

    def write_block(self, block: RowBlock, parents: Sequence[Sequence[SpanId]] = ()) -> None:
        """Write the rows of a block; ``parents`` has for each the spans that its records name.

        Raises what ``put`` raises.
        """
        for first in range(0, len(block), _ROWS_PER_LINE):
            rows = block.part(first, min(first + _ROWS_PER_LINE, len(block))).rows()
            made = (
                self._spans(row, parents[at] if parents else ())
                for at, row in enumerate(rows, first)
            )
            if spans := list(chain.from_iterable(made)):
                self._put(message("spans", spans))

    def _spans(self, row: Row, parents: Sequence[SpanId]) -> Iterator[str]:
        """Yield the span of a request, then those of its parts; none if it has no time.

        ``parents`` are the spans that its records name.
        """
        begin_ns = row.began_ns
        if begin_ns is None:
            return
        trace_id, number = self._ids(row, begin_ns)
        span_id = _hex(number)
        links = [_link(each, {"kanalyze.link": "traceparent"}) for each in parents[:_MAX_LINKS]]
        links += islice(self._offset_links(row, (trace_id, span_id)), _MAX_LINKS - len(links))
        span = _span(trace_id, span_id, _name(row), begin_ns, end_ns_of(row))
        span += f',"kind":{_CLIENT},"attributes":{attributes(_described(row))}'
        if links:
            span += f',"links":[{",".join(links)}]'
        if row.status == "error":
            span += f',"status":{{"code":{_ERROR},"message":{quoted(row.error_name or "")}}}'
        yield f"{span}}}"
        for at, (part, part_ns, part_end_ns) in enumerate(parts_of(row), 1):
            child = _span(trace_id, _hex(number + at), part, part_ns, part_end_ns)
            yield f'{child},"kind":{_INTERNAL},"parentSpanId":"{span_id}"}}'

    def _ids(self, row: Row, begin_ns: int) -> tuple[str, int]:
        """Return the trace id, and the number of the request's span."""
        key = f"{row.connection} {row.connection_number} {begin_ns} {row.correlation_id}"
        if len(self._seen) >= _MAX_SEEN:
            self._seen.clear()
        self._seen[key] += 1
        digest = blake2b(f"{key} {self._seen[key]}".encode(), digest_size=24).digest()
        return digest[:16].hex(), int.from_bytes(digest[16:])

    def _offset_links(self, row: Row, span: SpanId) -> Iterator[str]:
        for produce, fetch in self._links.of(row, span):
            other = fetch if produce.mark == span else produce
            offset = max(produce.first_offset, fetch.first_offset)
            about = {"kanalyze.link": "offsets", "messaging.kafka.offset": offset}
            yield _link(other.mark, about)


def message(kind: str, items: Iterable[str]) -> bytes:
    """Return a message with ``spans`` or ``metrics``, which are JSON already, as a line."""
    resource = f'{{"attributes":{attributes({"service.name": "kanalyze"})}}}'
    scope = f'{{"name":"kanalyze","version":{quoted(__version__)}}}'
    scopes = f'[{{"scope":{scope},"{kind}":[{",".join(items)}]}}]'
    name = kind.capitalize()
    return f'{{"resource{name}":[{{"resource":{resource},"scope{name}":{scopes}}}]}}\n'.encode()


def _hex(number: int) -> str:
    return (number % (1 << 64)).to_bytes(8).hex()


def _span(trace_id: str, span_id: str, name: str, begin_ns: int, end_ns: int | None) -> str:
    """Return the beginning of a span."""
    return (
        f'{{"traceId":"{trace_id}","spanId":"{span_id}","name":{quoted(name)},'
        f'"startTimeUnixNano":"{begin_ns}","endTimeUnixNano":"{max(end_ns or begin_ns, begin_ns)}"'
    )


def _link(span: SpanId, about: Mapping[str, object]) -> str:
    return f'{{"traceId":"{span[0]}","spanId":"{span[1]}","attributes":{attributes(about)}}}'


def _name(row: Row) -> str:
    """Return the operation and, if there is only one, the topic, as the conventions say."""
    topics = topics_of(row)
    name = row.api_name or row.status
    return f"{name} {topics[0][:_MAX_TEXT]}" if len(topics) == 1 else name


def _described(row: Row) -> dict[str, object]:
    """Return the attributes of a request; those that are not known are None."""
    topics = topics_of(row)
    partitions = [part for part in row.partitions if part.partition is not None]
    only = partitions[0] if len(partitions) == 1 else None
    offset = None if only is None else only.base_offset
    client: tuple[str, int | None] = row.client_ip, row.client_port
    if row.proxied_client_ip is not None:
        client = row.proxied_client_ip, row.proxied_client_port
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": row.api_name,
        "messaging.operation.type": _OPERATIONS.get(row.api_name or ""),
        "messaging.destination.name": topics[0] if len(topics) == 1 else None,
        "messaging.destination.partition.id": None if only is None else str(only.partition),
        "messaging.kafka.offset": offset if offset is not None and offset >= 0 else None,
        "messaging.client.id": row.client_id,
        "messaging.consumer.group.name": row.group_id,
        "messaging.batch.message_count": row.record_count,
        "error.type": row.error_name if row.status == "error" else None,
        "server.address": row.broker_ip,
        "server.port": row.broker_port,
        "client.address": client[0],
        "client.port": client[1],
        "network.peer.address": row.broker_ip,
        "network.peer.port": row.broker_port,
        "network.transport": "tcp",
        "network.protocol.name": "kafka",
        "kanalyze.status": row.status,
        "kanalyze.api_version": row.api_version,
        "kanalyze.correlation_id": row.correlation_id,
        "kanalyze.topics": topics[:MAX_ITEMS] if len(topics) > 1 else None,
        "kanalyze.errors": list(dict.fromkeys(each.name for each in row.errors))[:MAX_ITEMS]
        or None,
        "kanalyze.request_bytes": row.request_bytes,
        "kanalyze.response_bytes": row.response_bytes,
        "kanalyze.record_bytes": row.record_bytes,
        "kanalyze.throttle_time_ms": row.throttle_time_ms,
        "kanalyze.waited": row.waited,
        "kanalyze.capture": row.capture,
        "kanalyze.request_packet": row.request_packet,
        "kanalyze.response_packet": row.response_packet,
    }


def attributes(values: Mapping[str, object]) -> str:
    """Return the attributes that are known, in JSON; names are our own."""
    texts = [
        f'{{"key":"{name}","value":{_value(value)}}}'
        for name, value in values.items()
        if value is not None
    ]
    return f"[{','.join(texts)}]"


def _value(value: object) -> str:
    """Return a value in OTLP's JSON, in which integers of 64 bits are texts."""
    if isinstance(value, str):
        return f'{{"stringValue":{quoted(value[:_MAX_TEXT])}}}'
    if isinstance(value, bool):
        return f'{{"boolValue":{"true" if value else "false"}}}'
    if isinstance(value, list):
        return f'{{"arrayValue":{{"values":[{",".join(map(_value, value))}]}}}}'
    return f'{{"intValue":"{value}"}}'


@lru_cache(_MAX_KNOWN)
def quoted(text: str) -> str:
    """Return a text in JSON, as UTF-8 can hold it: no half of a surrogate pair."""
    return json.dumps(text.encode("utf-8", "replace").decode())
