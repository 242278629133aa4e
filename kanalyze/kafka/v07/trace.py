"""The fields of Kafka 0.7 messages, for which there are no definitions.

In: exchanges that keep the bytes of their frames. Out: trace nodes, named in lowerCamelCase after
Kafka 0.7's wire format, and plain values made of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.trace import TraceNode
from kanalyze.kafka.v07.messages import (
    OffsetsPart07,
    Request07,
    RequestType,
    parse_request,
    parse_response,
)
from kanalyze.kafka.wire import Malformed

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.v07.messages import FetchPart07, Part07, Response07

__all__ = ["trace_07", "values_of"]


def trace_07(exchange: Exchange, kind: Kind) -> list[TraceNode]:
    """Return the fields of one message of an exchange, the size prefix first.

    Each node has its end. The value of ``messages`` is their size in bytes; the value of an array
    is its number of elements. The message must keep its bytes. For a response, the request must
    keep its bytes or its values.

    Raises:
        WireError: the message was not captured, or its request was not read.
    """
    message = exchange.request if kind == "request" else exchange.response
    if exchange.request is None or message is None or message.data is None:
        raise Malformed("the message is not in the capture")
    data = message.data
    if kind == "request":
        return _request(data, parse_request(data))
    request = exchange.request.values
    if not isinstance(request, Request07):
        raise Malformed("its request was not read")
    return _response(data, parse_response(data, request), request.type)


def values_of(nodes: list[TraceNode]) -> dict[str, Any]:
    """Return nodes as a dict of JSON values, without size prefixes.

    Messages are replaced by their size in bytes, ``messagesSizeInBytes``.
    """
    values: dict[str, Any] = {}
    for node in nodes:
        if node.name == "size":
            continue
        if node.type == "messages":
            values["messagesSizeInBytes"] = node.value
        elif node.type.startswith("[]"):
            values[node.name] = [
                values_of(child.children) if child.children else child.value
                for child in node.children
            ]
        else:
            values[node.name] = node.value
    return values


class _Cursor:
    """Makes nodes from messages that have been validated."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

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
    items = []
    for index, part in enumerate(request.parts):
        item = TraceNode(f"[{index}]", cursor.at)
        item.children = _request_part(cursor, part)
        item.end = cursor.at
        items.append(item)
    return [*nodes, cursor.array("parts", start, "part", items)]


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
        nodes.append(cursor.number("errorCode", 2))
    if is_only:
        return nodes
    start = cursor.at
    items = []
    for index, part in enumerate(parts):
        item = TraceNode(f"[{index}]", cursor.at)
        item.children = [cursor.number("size", 4), *_fetched(cursor, part)]
        item.end = cursor.at
        items.append(item)
    return [*nodes, cursor.array("responses", start, "response", items)]


def _fetched(cursor: _Cursor, part: FetchPart07) -> list[TraceNode]:
    code = cursor.number("errorCode", 2)
    return [code, cursor.messages(part.messages.record_bytes, has_length=False)]


def _offsets(cursor: _Cursor, count: int) -> list[TraceNode]:
    nodes = [cursor.number("errorCode", 2)]
    if cursor.at == len(cursor.data):
        return nodes
    nodes.append(cursor.number("number", 4))
    start = cursor.at
    items = [cursor.number(f"[{index}]", 8) for index in range(count)]
    return [*nodes, cursor.array("offsets", start, "int64", items)]
