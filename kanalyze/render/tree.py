"""Exchanges as trees of text: every field with its position, type and value.

In: exchanges with the bytes of their frames, and their rows. Out: lines.

A line is ``START..END  NAME: TYPE = VALUE``. Positions count bytes from the first byte of the
frame, which is its size prefix. END is the position after the last byte, length prefixes included.
An empty tag section (a single zero byte) has no line. Text from the wire is escaped. Unless
everything is asked for, values are cut: texts after 120 characters, bytes after 32, arrays after
20 elements. Secrets are hidden (see :mod:`kanalyze.decoding.secrets`).

Below a records field there is a line for each batch, with its header and whether its CRC is right.
Bytes that could not be decoded are shown in hexadecimal; those of messages that have records, and
of unknown APIs, only if everything is asked for, because they may be users' data; those of messages
that have secrets never.

The consumer protocol inside JoinGroup and SyncGroup messages is shown too. The format of these
bytes depends on the protocol type of the group, so they are parsed only if the message itself says
that the type is ``consumer``. JoinGroup requests always say it; JoinGroup responses say it from
version 7 on, SyncGroup from version 5 on.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import escape
from kanalyze.common.times import format_time
from kanalyze.decoding.bodies import (
    PREFIX_BYTES,
    DecodedMessage,
    ForwardedExchange,
    json_path,
)
from kanalyze.decoding.secrets import HIDDEN
from kanalyze.decoding.values import uuid_text
from kanalyze.kafka.codec.embedded_protocols import parse_assignment, parse_subscription
from kanalyze.kafka.codec.interpreter import TraceNode, trace_message
from kanalyze.kafka.other_wires import other_wire
from kanalyze.kafka.records.batches import RecordSet
from kanalyze.kafka.schema.error_codes import error_name
from kanalyze.kafka.wire import WireError
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.render.units import duration_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.decoding.bodies import BodyReader, DecodedExchange, Problem
    from kanalyze.kafka.codec.embedded_protocols import TopicPartitions
    from kanalyze.kafka.records.batches import RecordBatch
    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.schema.schema_ast import Struct
    from kanalyze.kafka.session.exchange import Exchange, Message
    from kanalyze.spec.rows.requests import Row

_CONSUMER = "consumer"
_MAX_NAMED = 20


def embedded_lines(body: TraceNode) -> Iterator[str]:
    """Yield a line for each subscription and each assignment in a body."""
    types = [node.value for node in body.children if node.name == "ProtocolType"]
    if types != [_CONSUMER]:
        return
    for node in _bytes_nodes(body):
        try:
            text = _subscription(node) if node.name == "Metadata" else _assignment(node)
        except WireError:
            text = "no consumer protocol, whatever the protocol type says"
        yield f"{node.start}..{node.end} {text}"


def _bytes_nodes(node: TraceNode) -> Iterator[TraceNode]:
    for child in node.children:
        if child.name in ("Metadata", "Assignment") and isinstance(child.value, bytes):
            if child.value:
                yield child
        else:
            yield from _bytes_nodes(child)


def _subscription(node: TraceNode) -> str:
    subscription = parse_subscription(node.value)
    parts = [f"subscription v{subscription.version} to {_names(subscription.topics)}"]
    if subscription.owned:
        parts.append(f"owns {_partitions(subscription.owned)}")
    if subscription.generation_id is not None:
        parts.append(f"generation {subscription.generation_id}")
    if subscription.rack_id is not None:
        parts.append(f"rack {shown(subscription.rack_id)}")
    return ", ".join(parts)


def _assignment(node: TraceNode) -> str:
    assignment = parse_assignment(node.value)
    return f"assignment v{assignment.version} of {_partitions(assignment.assigned)}"


def _names(topics: tuple[str, ...]) -> str:
    return _bounded([shown(topic) for topic in topics])


def _partitions(topics: tuple[TopicPartitions, ...]) -> str:
    return _bounded(
        [f"{shown(topic)} [{_bounded(list(map(str, numbers)))}]" for topic, numbers in topics]
    )


def _bounded(texts: list[str]) -> str:
    more = f" and {len(texts) - _MAX_NAMED} more" if len(texts) > _MAX_NAMED else ""
    return (", ".join(texts[:_MAX_NAMED]) or "nothing") + more


_MAX_ELEMENTS = 20
_MAX_CHARACTERS = 120
_MAX_BYTES = 32
_MAX_UNDECODED = 2 * _MAX_BYTES
_OFFSETS_WIDTH = 14
_STEP = "  "


class _Limits(NamedTuple):
    elements: int | None
    characters: int | None
    size_in_bytes: int | None


class TreeText:
    """Writes exchanges as trees of text."""

    def __init__(self, reader: BodyReader, *, everything: bool = False) -> None:
        """Make a writer.

        Args:
            reader: finds the beginning and the type of a body, and its secret fields.
            everything: True to cut no values. The memory for an exchange is then proportional to
                the number of its fields.
        """
        self._reader = reader
        self._limits = _Limits(_MAX_ELEMENTS, _MAX_CHARACTERS, _MAX_BYTES)
        if everything:
            self._limits = _Limits(None, None, None)

    def lines(self, exchange: Exchange, row: Row, decoded: DecodedExchange) -> Iterator[str]:
        """Yield the lines of an exchange, without line ends."""
        yield _title(row)
        yield f"{_STEP}{row.connection} connection {row.connection_number}"
        if row.anomalies:
            yield f"{_STEP}anomalies: {', '.join(row.anomalies)}"
        parts: tuple[tuple[Kind, Message | None, DecodedMessage | None, int | None], ...] = (
            ("request", exchange.request, decoded.request, row.request_packet),
            ("response", exchange.response, decoded.response, row.response_packet),
        )
        for kind, message, decoded_message, packet in parts:
            if message is None or decoded_message is None:
                continue
            yield f"{_STEP}{kind} {_when(message, packet)}"
            if exchange.wire != "kafka":
                yield from self._undefined_frame(exchange, message, decoded_message, kind)
            elif message.data is not None and exchange.api_key is not None:
                yield from self._frame(message.data, exchange.api_key, exchange.api_version, kind)
            # The keys of other wires are not those of Kafka's APIs.
            key = exchange.api_key if exchange.wire == "kafka" else None
            yield from self._problem(decoded_message, message.data, key, kind)
        if decoded.forwarded is not None:
            yield from self._forwarded(decoded.forwarded)

    # -- one frame --------------------------------------------------------------------------------

    def _frame(
        self, data: bytes, api_key: int, api_version: int | None, kind: Kind
    ) -> Iterator[str]:
        """Yield the lines of a frame, as far as it could be decoded."""
        if api_version is None:
            return
        size = TraceNode("size", 0, PREFIX_BYTES, "int32", int.from_bytes(data[:4], "big"))
        yield from self._node(size, 2)
        try:
            located = self._reader.locate_body(data, api_key, api_version, kind)
        except WireError:
            return
        header = trace_message(
            self._reader.catalog.header(kind), located.header_version, data, PREFIX_BYTES
        )
        yield from self._children(header.root, 2)
        if located.definition is None or located.version is None:
            return
        body = trace_message(
            located.definition,
            located.version,
            data,
            located.body,
            most_elements=self._limits.elements,
        )
        if not located.known and (body.failure is not None or body.pos != len(data)):
            return
        self._reader.redactor(api_key, kind).redact_trace(body.root)
        yield from self._children(body.root, 2, data)
        for line in embedded_lines(body.root):
            yield f"{_STEP * 2}inside {line}"

    def _undefined_frame(
        self, exchange: Exchange, message: Message, decoded: DecodedMessage, kind: Kind
    ) -> Iterator[str]:
        """Yield the lines of a frame without a definition, if it could be decoded."""
        if decoded.values is None or message.data is None:
            return
        for node in other_wire(exchange.wire).trace(exchange, kind):
            node.children = node.children[: self._limits.elements]
            yield from self._node(node, 2)

    def _forwarded(self, forwarded: ForwardedExchange) -> Iterator[str]:
        header = forwarded.header
        name = self._reader.api_name(header.api_key)
        yield (
            f"{_STEP}forwarded {name} v{header.api_version}"
            f", client id {shown(header.client_id)}, correlation id {header.correlation_id}"
        )
        parts: tuple[tuple[Kind, bytes | None, DecodedMessage | None], ...] = (
            ("request", forwarded.request_data, forwarded.request),
            ("response", forwarded.response_data, forwarded.response),
        )
        for kind, data, decoded in parts:
            if data is None or decoded is None:
                continue
            size = _size(len(data) - PREFIX_BYTES)
            yield f"{_STEP}forwarded {kind} {size}, as if a size prefix stood before them"
            yield from self._frame(data, header.api_key, header.api_version, kind)
            yield from self._problem(decoded, data, header.api_key, kind)

    # -- nodes ------------------------------------------------------------------------------------

    def _children(self, node: TraceNode, depth: int, data: bytes = b"") -> Iterator[str]:
        """Yield the lines of a node's fields; batches of records are read from ``data``."""
        for child in node.children:
            yield from self._node(child, depth, data)

    def _node(self, node: TraceNode, depth: int, data: bytes = b"") -> Iterator[str]:
        end = "" if node.end is None else str(node.end)
        offsets = f"{node.start}..{end}".rjust(_OFFSETS_WIDTH)
        yield f"{offsets}{_STEP * depth}{json_path(node.name)}{self._described(node)}"
        if node.type == "records" and node.value and node.end is not None and data:
            yield from self._batches(data, node.end - node.value, node.end, depth + 1)
        yield from self._children(node, depth + 1, data)
        hidden_children = _hidden_children(node)
        if hidden_children:
            yield f"{' ' * _OFFSETS_WIDTH}{_STEP * (depth + 1)}... {hidden_children} more"

    def _batches(self, data: bytes, start: int, end: int, depth: int) -> Iterator[str]:
        """Yield a line for each batch, or message, of a records field."""
        records = RecordSet(data[start:end])
        at, most = start, self._limits.elements
        for number, batch in enumerate(islice(records, most)):
            place = f"{at}..{at + batch.batch_bytes}".rjust(_OFFSETS_WIDTH)
            yield f"{place}{_STEP * depth}[{number}] {_batch(batch)}"
            at += batch.batch_bytes
        if at < end:
            problems = ", ".join(records.problems) or "more batches"
            place = f"{at}..{end}".rjust(_OFFSETS_WIDTH)
            yield f"{place}{_STEP * depth}... {_size(end - at)}: {problems}"

    # -- what was not decoded ---------------------------------------------------------------------

    def _problem(
        self, decoded: DecodedMessage, data: bytes | None, api_key: int | None, kind: Kind
    ) -> Iterator[str]:
        """Yield why a message was not decoded to its end, and the bytes of the rest."""
        problem = decoded.problem
        if problem is None:
            return
        yield f"{_STEP * 2}!! {_problem(problem)}"
        if data is None or problem.kind is AnomalyKind.MISSING_BYTES:
            return
        if not self._may_show(api_key, kind):
            return
        end = len(data)
        if self._limits.size_in_bytes is not None:
            end = min(end, problem.frame_offset + _MAX_UNDECODED)
        for at in range(problem.frame_offset, end, _MAX_BYTES):
            line = data[at : min(at + _MAX_BYTES, end)]
            place = f"{at}..{at + len(line)}".rjust(_OFFSETS_WIDTH)
            yield f"{place}{_STEP * 2}{line.hex(' ', 4)}"
        if end < len(data):
            yield f"{' ' * _OFFSETS_WIDTH}{_STEP * 2}... {_size(len(data) - end)} more"

    def _may_show(self, api_key: int | None, kind: Kind) -> bool:
        """Return whether bytes of a message that were not decoded may be shown."""
        is_everything = self._limits.size_in_bytes is None
        if api_key is None or self._reader.catalog.api(api_key) is None:
            return is_everything
        if self._reader.redactor(api_key, kind).plan is not None:
            return False
        return is_everything or not _has_records(self._reader.catalog.message(api_key, kind).struct)

    def _described(self, node: TraceNode) -> str:
        if not node.type:
            return ""
        if node.is_null:
            return f": {node.type} = null"
        if node.end is None and node.value is None:
            return f": {node.type}"
        if _is_struct(node):
            return f": {node.type}" if node.name[0] != "[" else ""
        return f": {node.type} = {self._value(node)}"

    def _value(self, node: TraceNode) -> str:
        value, kind = node.value, node.type
        if value == HIDDEN:
            # A field may really contain this text; it is then shown without quotes, which is
            # harmless.
            return HIDDEN
        if kind.startswith("[]"):
            return "1 element" if value == 1 else f"{value} elements"
        if kind in ("records", "messages"):
            return _size(value)
        if kind == "uuid":
            return uuid_text(value)
        if kind == "bytes":
            return self._bytes(value)
        if kind == "string":
            return self._text(value)
        if kind == "bool":
            return "true" if value else "false"
        if kind == "int16" and node.name == "ErrorCode":
            return f"{value} {error_name(value)}"
        return f"{value} {node.note}" if node.note else str(value)

    def _text(self, value: str) -> str:
        most = self._limits.characters
        cut = value if most is None else value[:most]
        quoted = escape(cut).replace('"', '\\"')
        omitted = len(value) - len(cut)
        return f'"{quoted}"' + (f" ... {omitted} more characters" if omitted else "")

    def _bytes(self, value: bytes) -> str:
        most = self._limits.size_in_bytes
        cut = value if most is None else value[:most]
        text = f"{_size(len(value))}" + (f" {cut.hex()}" if cut else "")
        return text + ("..." if len(cut) < len(value) else "")


def _title(row: Row) -> str:
    name = row.api_name or "response"
    version = "" if row.api_version is None else f" v{row.api_version}"
    client = "" if row.client_id is None else f", client id {shown(row.client_id)}"
    latency = "" if row.latency_ns is None else f", latency {duration_text(row.latency_ns)}"
    number = "" if row.correlation_id is None else f", correlation id {row.correlation_id}"
    return f"{name}{version} {row.status}{client}{number}{latency}"


def _when(message: Message, packet: int | None) -> str:
    packet_text = "" if packet is None else f", packet {packet}"
    return f"{format_time(message.start_ns)}{packet_text}, {_size(message.length)}"


def _has_records(struct: Struct) -> bool:
    """Return true if a struct, or one inside of it, has a records field."""
    return any(
        field.type == "records" or (field.struct is not None and _has_records(field.struct))
        for field in struct.fields
    )


def _batch(batch: RecordBatch) -> str:
    """Return the header of a batch, or of a message of the formats before."""
    kind = "batch" if batch.magic > 1 else f"message of format {batch.magic}"
    counted = "" if batch.record_count is None else f", {batch.record_count} records"
    parts = [f"{kind} at offset {batch.base_offset}{counted}, {batch.codec}"]
    if batch.timestamp_type is not None:
        parts.append(f"{batch.timestamp_type} time")
    if batch.producer_id is not None:
        parts.append(
            f"producer {batch.producer_id}/{batch.producer_epoch}, sequence {batch.base_sequence}"
        )
    if batch.partition_leader_epoch is not None:
        parts.append(f"leader epoch {batch.partition_leader_epoch}")
    parts += ["transactional"] * batch.is_transactional + ["control"] * batch.is_control
    return f"{', '.join(parts)}; CRC {'right' if batch.crc_ok else 'WRONG'}"


def _problem(problem: Problem) -> str:
    where = "" if problem.field_path is None else f" at {problem.field_path}"
    undecoded_size = f"{_size(problem.size_in_bytes)} not decoded"
    if problem.kind is AnomalyKind.MISSING_BYTES:
        return f"{problem.kind}: {problem.reason}; {undecoded_size}"
    return f"{problem.kind}{where}, byte {problem.frame_offset}: {problem.reason}; {undecoded_size}"


def _size(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _is_struct(node: TraceNode) -> bool:
    return node.field is not None and node.field.struct is not None and node.type[:2] != "[]"


def _hidden_children(node: TraceNode) -> int:
    """Return the number of array elements that the trace left out."""
    value: Any = node.value
    if not node.type.startswith("[]") or not isinstance(value, int):
        return 0
    return value - len(node.children)
