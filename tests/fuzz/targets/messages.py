"""Bodies and headers: compiled decoders against the plain reader, traces, embedded protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.byte_ranges_read import byte_ranges_read_so_far
from kanalyze.kafka.codec.compiler import Projection
from kanalyze.kafka.codec.embedded_protocols import (
    parse_assignment,
    parse_subscription,
)
from kanalyze.kafka.codec.interpreter import read_message, trace_message
from kanalyze.kafka.framing.frame import Frame, parse_request_header, parse_response_header
from kanalyze.kafka.framing.framer import FrameCutter, FrameLocator
from kanalyze.kafka.session.gssapi import looks_like_gssapi
from kanalyze.kafka.session.login import principal_of
from kanalyze.kafka.wire import WireError
from kanalyze.model.streams import Chunk, Segments
from tests.fuzz.invariant import holds, sizes_of
from tests.fuzz.targets.common import CATALOG, DECODERS, EXTRACTORS, TABLE

if TYPE_CHECKING:
    from kanalyze.kafka.codec.interpreter import TraceNode
    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.schema.catalog import Kind
    from tests.fuzz.seeds import Body

MAX_BYTES_A_BYTE = 150
"""Bytes of Python objects for each byte of a body; test_hostile.py shows which bodies need most."""
_FREE_BYTES = 4096
_PREFIX_BYTES = 5
_BODY_AT = 4
"""Frames made here have no header: the body begins after the size."""
_SKIMS = 3
_KINDS: tuple[Kind, Kind] = ("request", "response")
_VERSIONS = {
    key: [version for found, version in TABLE if found == key] for key in {key for key, _ in TABLE}
}


def body_input(body: Body) -> bytes:
    """Return the input for a body: kind, API key, version, then its bytes."""
    kind = bytes((_KINDS.index(body.kind),))
    head = kind + body.api_key.to_bytes(2, "big") + body.version.to_bytes(2, "big")
    return head + body.content


def _read_input(data: bytes) -> tuple[int, int, Kind, bytes]:
    """Read an input; one with an unknown API or version stands for a known one."""
    head = data[:_PREFIX_BYTES].ljust(_PREFIX_BYTES, b"\0")
    key, version = int.from_bytes(head[1:3], "big"), int.from_bytes(head[3:5], "big")
    if version not in _VERSIONS.get(key, ()):
        key, version = TABLE[(key * 31 + version) % len(TABLE)]
    return key, version, _KINDS[head[0] & 1], data[_PREFIX_BYTES:]


def _outcome(decode: BodyDecoder, body: bytes) -> tuple[Any, int] | None:
    """Return the result of a decoder; None for a WireError."""
    try:
        return decode(body, 0)
    except WireError:
        return None


def decode_body(data: bytes) -> None:
    """Decode a body with every field, with those of a row, and with the plain reader: all agree."""
    key, version, kind, body = _read_input(data)
    everything = _outcome(DECODERS.get(key, kind, version, Projection.ALL), body)
    some = _outcome(DECODERS.get(key, kind, version, EXTRACTORS.needed_fields(key, kind)), body)
    if some is not None:
        _check_size(some, body)
    message = CATALOG.message(key, kind)
    if everything is None:
        failure = trace_message(message, version, body, most_elements=0).failure
        holds(failure is not None, "only the compiled decoder refuses")
        return
    values, end = everything
    _check_size(everything, body)
    holds(some is not None, "a row cannot be read where everything can")
    if some is not None:
        holds(some[1] == end, "a row's fields end elsewhere")
    # Compared as text, because NaN is not equal to itself.
    holds(repr(read_message(message, version, body)) == repr((values, end)), "values differ")


def _check_size(found: tuple[Any, int], body: bytes) -> None:
    values, end = found
    holds(0 <= end <= len(body), "an end beyond the body")
    objects, size = sizes_of(values)
    holds(objects <= 16 * len(body) + 256, f"{objects} objects of {len(body)} bytes")
    most = MAX_BYTES_A_BYTE * len(body) + _FREE_BYTES
    holds(size <= most, f"{size} bytes of objects of {len(body)} bytes")


def decode_in_pieces(data: bytes) -> None:
    """Decode a body in pieces, some of them lost: the result of the whole, or a WireError."""
    key, version, kind, body = _read_input(data)
    sizes = [1 + size % 61 for size in data[-4:]] or [1]
    decode = DECODERS.get(key, kind, version, EXTRACTORS.needed_fields(key, kind))
    whole = _outcome(decode, body)
    snapped = None if len(data) % 2 else 3
    frame = _frame_of(body, sizes, snapped)
    if frame is None:
        return
    found = _outcome_in_pieces(decode, frame)
    if found is not None:
        holds(4 <= found[1] <= frame.length, "an end beyond the frame")
        _check_size((found[0], found[1] - 4), body)
    if not frame.missing_bytes:
        expected = None if whole is None else (whole[0], whole[1] + 4)
        holds(repr(found) == repr(expected), "pieces give another result than the whole")
    elif found is not None:
        holds(whole is not None, "it can be read only with bytes missing")


def _frame_of(body: bytes, sizes: list[int], snapped: int | None) -> Frame | None:
    """Return a frame of the body, cut into segments; ``snapped`` is which of four is cut short."""
    data = len(body).to_bytes(4, "big") + body
    starts, lengths, captured, at = [], [], [], 0
    while at < len(data):
        length = 4 if at == 0 else min(sizes[len(starts) % len(sizes)], len(data) - at)
        starts.append(at)
        lengths.append(length)
        captured.append(length // 2 if len(starts) % 4 == snapped else length)
        at += length
    count = len(starts)
    segments = Segments(memoryview(data), starts, lengths, captured, [0] * count, [1] * count)
    cutter = FrameCutter(_Nowhere())
    frames = cutter.feed([Chunk(0, segments, 0, count)]).frames
    return frames[0] if frames else None


def skim_body(data: bytes) -> None:
    """Drop unread bytes while a frame comes in: the fields that are read stay the same."""
    key, version, kind, body = _read_input(data)
    decode = DECODERS.get(key, kind, version, EXTRACTORS.needed_fields(key, kind))
    size = 64 + 16 * (data[-1] if data else 0)
    every = 1 + len(body) // size // _SKIMS
    whole, skimmed = Frame(len(body), 0, 0, 1), Frame(len(body), 0, 0, 1)
    frame = memoryview(len(body).to_bytes(4, "big") + body)
    for count, at in enumerate(range(0, len(frame), size), 1):
        whole.add(at, frame[at : at + size])
        skimmed.add(at, frame[at : at + size])
        if count % every == 0 and at + size < whole.length:
            before_bytes = skimmed.buffered_bytes
            skimmed.keep_only(*byte_ranges_read_so_far(skimmed, _BODY_AT, decode))
            holds(skimmed.buffered_bytes <= before_bytes, "more bytes are buffered than before")
    expected, found = _outcome_in_pieces(decode, whole), _outcome_in_pieces(decode, skimmed)
    holds(repr(found) == repr(expected), "bytes that were dropped were needed")


class _Nowhere(FrameLocator):
    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        return None, 0


def _outcome_in_pieces(decode: BodyDecoder, frame: Frame) -> tuple[Any, int] | None:
    try:
        return decode.of_frame(frame, _BODY_AT), decode.end
    except WireError:
        return None


def trace_body(data: bytes) -> None:
    """Trace a body; nodes lie inside of each other and of the body, in order."""
    key, version, kind, body = _read_input(data)
    message = CATALOG.message(key, kind)
    trace = trace_message(message, version, body)
    holds(0 <= trace.pos <= len(body), "a position beyond the body")
    count = _check_nodes(trace.root, trace.pos)
    holds(count <= 32 * len(body) + 256, f"{count} nodes of {len(body)} bytes")
    few = trace_message(message, version, body, most_elements=2)
    holds(few.pos == trace.pos, "elements left out change the position")


def _check_nodes(root: TraceNode, limit: int) -> int:
    waiting, count = [root], 0
    while waiting:
        node = waiting.pop()
        count += 1
        end = limit if node.end is None else node.end
        holds(0 <= node.start <= end <= limit, f"{node.name} lies outside")
        at = node.start
        for child in node.children:
            holds(child.start >= at, f"{child.name} begins before the one before it ends")
            at = end if child.end is None else child.end
        holds(at <= end, f"{node.name} ends before what is in it")
        waiting.extend(node.children)
    return count


def parse_headers(data: bytes) -> None:
    """Read the headers of a frame; the body begins inside of it."""
    limit = len(data)
    try:
        request = parse_request_header(data, 4, limit, CATALOG)
        holds(12 <= request.body <= limit, "a request's body outside of its frame")
        holds(len(request.client_id or "") <= 4 * limit, "a client id longer than the frame")
    except WireError:
        pass
    for version in (0, 1):
        try:
            response = parse_response_header(memoryview(data), 4, limit, version)
            holds(8 <= response.body <= limit, "a response's body outside of its frame")
        except WireError:
            pass


def read_embedded(data: bytes) -> None:
    """Read embedded protocols of fields; each gives a value or a WireError."""
    for read in (parse_subscription, parse_assignment):
        try:
            found = read(data)
        except WireError:
            continue
        objects, size = sizes_of(found)
        holds(objects <= 4 * len(data) + 16, f"{objects} objects of {len(data)} bytes")
        holds(size <= MAX_BYTES_A_BYTE * len(data) + _FREE_BYTES, "out of proportion")


_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "GSSAPI", None)


def read_token(data: bytes) -> None:
    """Read a SASL token; a principal is a part of it."""
    mechanism, token = _MECHANISMS[data[0] & 3 if data else 0], data[1:]
    name = principal_of(mechanism, token)
    if name is not None:
        holds(0 < len(name) <= 4 * len(token), "a name longer than its token")
        holds(mechanism is not None and mechanism != "GSSAPI", "a name out of a secret")
    for size in (len(token), 0, -1, 1 << 31):
        holds(looks_like_gssapi(token, size) in (True, False), "neither yes nor no")
