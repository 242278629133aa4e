"""What outputs say of exchanges of Kafka 0.7: names, partitions, fields with messages, all fields.

It is an :class:`~kanalyze.kafka.other_wires.OtherWire`.

In: exchanges whose values :mod:`kanalyze.kafka.v07.messages` decoded; for all fields, with the
bytes of their frames. Out: plain values; trace nodes, named in lowerCamelCase after Kafka 0.7's
wire format, for which there are no definitions.

Kafka 0.7 has no API keys and no versions: rows have the request type as the key, and version 0.
Type 2 is MultiFetch, not ListOffsets as in later versions; only ``wire`` distinguishes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.codec.interpreter import TraceNode
from kanalyze.kafka.v07.messages import (
    SIMILAR_APIS,
    MessageSet07Records,
    OffsetsPart07,
    Request07,
    RequestType,
    error_name_07,
    parse_request,
    parse_response,
)
from kanalyze.kafka.wire import Malformed, MissingBytes, WireApi, WirePartition, WireRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.records.types import DecompressionLimits
    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.v07.messages import FetchPart07, MessageSet07, Part07, Response07


def api_keys() -> dict[str, int]:
    """Return the request types by their names in rows."""
    return {kind.api_name: int(kind) for kind in RequestType}


def api(kind: int | None) -> WireApi:
    """Return what rows say of a request type; None is that of an orphan response."""
    if kind is None:
        return WireApi(None, None, error_name_07, has_records=False, is_produce=False)
    request_type = RequestType(kind)
    return WireApi(
        request_type.api_name,
        SIMILAR_APIS[kind],
        error_name_07,
        has_records=request_type != RequestType.OFFSETS,
        is_produce=not request_type.is_answered,
    )


def partitions(exchange: Exchange) -> Iterator[WirePartition]:
    """Yield the partitions of an exchange; none if its request was not decoded."""
    requested, response = _values(exchange)
    if isinstance(response, OffsetsPart07):
        newest = response.offsets[0] if response.offsets else None
        for part in requested:
            yield WirePartition(
                part.topic, part.partition, base_offset=newest, error_code=response.error_code
            )
        return
    for part, messages, code in _with_messages(requested, response):
        found = WirePartition(part.topic, part.partition, base_offset=part.offset, error_code=code)
        if messages is not None:
            found = found._replace(
                record_count=messages.record_count,
                record_bytes=messages.record_bytes,
                codec=messages.codec,
            )
        yield found


def records_fields(exchange: Exchange) -> list[WireRecords] | None:
    """Return the fields with messages of an exchange, as bytes; None if they were not decoded."""
    is_produce = api(exchange.api_key).is_produce
    message = exchange.request if is_produce else exchange.response
    if message is None or message.data is None or message.values is None:
        return None
    requested, response = _values(exchange)
    if exchange.request is None or isinstance(response, OffsetsPart07):
        return None
    return [
        WireRecords(
            *(part.topic, part.partition, code, _bytes_of(message.data, messages), part.offset)
        )
        for part, messages, code in _with_messages(requested, () if is_produce else response)
        if messages is not None and messages.record_bytes
    ]


def _bytes_of(data: bytes, messages: MessageSet07) -> bytes:
    return data[messages.start : messages.start + messages.record_bytes]


def _values(
    exchange: Exchange,
) -> tuple[tuple[Part07, ...], tuple[FetchPart07, ...] | OffsetsPart07]:
    """Return the parts of the request, and the response; empty if a message was not decoded."""
    request, response = exchange.request, exchange.response
    requested = None if request is None else request.values
    answers = None if response is None else response.values
    return (() if requested is None else requested.parts), (() if answers is None else answers)


def _with_messages(
    requested: tuple[Part07, ...], answers: tuple[FetchPart07, ...]
) -> Iterator[tuple[Part07, MessageSet07 | None, int | None]]:
    """Yield each part of a request, its messages there or in the response, and its error code."""
    for index, part in enumerate(requested):
        answer = answers[index] if index < len(answers) else None
        if answer is None:
            yield part, part.messages, None
        else:
            yield part, answer.messages, answer.error_code


def trace(exchange: Exchange, kind: Kind) -> list[TraceNode]:
    """Return the fields of one message of an exchange, the size prefix first.

    Each node has its end. The value of ``messages`` is their size in bytes; the value of an array
    is its number of elements. The message must keep its bytes. For a response, the request must
    keep its bytes or its values.

    Raises:
        WireError: the message was not captured, or its request was not read.
    """
    message = exchange.request if kind == "request" else exchange.response
    if exchange.request is None or message is None or message.data is None:
        if exchange.api_key is None and exchange.malformed:
            # The bytes of a message of unknown type are not kept.
            raise Malformed("not a Kafka 0.7 request, or incomplete")
        raise MissingBytes("the message is not in the capture")
    data = message.data
    if kind == "request":
        return _request(data, parse_request(data))
    request = exchange.request.values
    if not isinstance(request, Request07):
        raise Malformed("its request was not read")
    return _response(data, parse_response(data, request), request.type)


def records_in(data: bytes, offset: int, limits: DecompressionLimits | None) -> MessageSet07Records:
    """Return the messages of a field, whose first byte has a position in the log."""
    return MessageSet07Records(data, offset, limits)


class _Cursor:
    """Makes nodes from messages that have been validated."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def error_code(self) -> TraceNode:
        node = self.number("errorCode", 2)
        node.note = error_name_07(node.value)
        return node

    def number(self, name: str, size: int) -> TraceNode:
        start = self.at
        self.at += size
        value = int.from_bytes(self.data[start : self.at], "big", signed=True)
        return TraceNode(name, start, self.at, f"int{8 * size}", value)

    def text(self, name: str, value: str) -> TraceNode:
        start = self.at
        self.at += 2 + len(value.encode())
        return TraceNode(name, start, self.at, "string", value)

    def messages(self, size: int, *, has_length: bool) -> TraceNode:
        start = self.at
        self.at += size + (4 if has_length else 0)
        return TraceNode("messages", start, self.at, "messages", size)

    def array(self, name: str, start: int, kind: str, items: list[TraceNode]) -> TraceNode:
        return TraceNode(name, start, self.at, f"[]{kind}", len(items), children=items)


def _request(data: bytes, request: Request07) -> list[TraceNode]:
    cursor = _Cursor(data)
    nodes = [cursor.number("size", 4), cursor.number("requestType", 2)]
    if request.type not in (RequestType.MULTIFETCH, RequestType.MULTIPRODUCE):
        return nodes + _request_part(cursor, request.parts[0])
    nodes.append(cursor.number("count", 2))
    start = cursor.at
    items = _structs([_request_part(cursor, part) for part in request.parts])
    return [*nodes, cursor.array("parts", start, "part", items)]


def _structs(fields_of_each: list[list[TraceNode]]) -> list[TraceNode]:
    """Return the elements of an array, of the fields of each."""
    return [
        TraceNode(f"[{index}]", fields[0].start, fields[-1].end, children=fields)
        for index, fields in enumerate(fields_of_each)
    ]


def _request_part(cursor: _Cursor, part: Part07) -> list[TraceNode]:
    nodes = [cursor.text("topic", part.topic), cursor.number("partition", 4)]
    if part.messages is not None:
        return [*nodes, cursor.messages(part.messages.record_bytes, has_length=True)]
    first, second = "offset", "maxSize"
    if part.time_ms is not None:
        first, second = "time", "maxNumber"
    return [*nodes, cursor.number(first, 8), cursor.number(second, 4)]


def _response(data: bytes, response: Response07, kind: RequestType) -> list[TraceNode]:
    cursor = _Cursor(data)
    nodes = [cursor.number("size", 4)]
    if isinstance(response, OffsetsPart07):
        return nodes + _offsets(cursor, len(response.offsets))
    if kind == RequestType.FETCH:
        return nodes + _fetched(cursor, response[0])
    return nodes + _several(cursor, response)


def _several(cursor: _Cursor, parts: tuple[FetchPart07, ...]) -> list[TraceNode]:
    nodes = []
    is_only = len(cursor.data) == cursor.at + 2
    # A part has a size and an error code of its own before its messages.
    if is_only or parts[0].messages.start == cursor.at + 2 + 4 + 2:
        nodes.append(cursor.error_code())
    if is_only:
        return nodes
    start = cursor.at
    items = _structs([[cursor.number("size", 4), *_fetched(cursor, part)] for part in parts])
    return [*nodes, cursor.array("responses", start, "response", items)]


def _fetched(cursor: _Cursor, part: FetchPart07) -> list[TraceNode]:
    code = cursor.error_code()
    return [code, cursor.messages(part.messages.record_bytes, has_length=False)]


def _offsets(cursor: _Cursor, count: int) -> list[TraceNode]:
    nodes = [cursor.error_code()]
    if cursor.at == len(cursor.data):
        return nodes
    nodes.append(cursor.number("number", 4))
    start = cursor.at
    items = [cursor.number(f"[{index}]", 8) for index in range(count)]
    return [*nodes, cursor.array("offsets", start, "int64", items)]
