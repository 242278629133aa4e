"""A frame gives back the bytes that were captured of it, and its header says where its body is."""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.saved import make
from kanalyze.kafka.framing.frame import (
    SKIMMED_BYTES,
    Frame,
    FramePieces,
    parse_request_header,
    parse_response_header,
)
from kanalyze.kafka.framing.framer import FrameCutter, FrameLocator
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.wire import Malformed, MissingBytes, Truncated, WireError
from kanalyze.model.streams import Chunk, Segments
from tests.support.messages import Generator, Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.kafka.schema.catalog import Kind


PARTS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), min_size=1, max_size=120)
"""For each segment: its length, and how many of its bytes the snap length leaves."""


class Nowhere(FrameLocator):
    """Finds no boundary."""

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        return None, len(view)


class CapturedFrame(NamedTuple):
    """A frame, and by position its bytes, None for those that were not captured."""

    frame: Frame
    known: list[int | None]


def segments_of(data: bytes, parts: Sequence[tuple[int, int]]) -> tuple[Segments, list[int | None]]:
    """Segments of ``data`` with other bytes between them, and which bytes they have."""
    storage, known, at = bytearray(), list[int | None](), 0
    columns: list[list[int]] = [[], [], [], [], []]
    for number, (size, captured) in enumerate(parts):
        piece = data[at : at + size]
        captured_bytes = min(len(piece), captured)
        storage += b"\xee\xee\xee"
        for column, value in zip(
            columns, (len(storage), len(piece), captured_bytes, number, number), strict=True
        ):
            column.append(value)
        storage += piece[:captured_bytes]
        known += [*piece[:captured_bytes], *[None] * (len(piece) - captured_bytes)]
        at += size
    return Segments(memoryview(storage), *columns), known


def captured_frame(parts: Sequence[tuple[int, int]], at_once: int) -> CapturedFrame:
    """A frame with a captured size prefix, which came in batches of ``at_once`` segments."""
    body = bytes(index % 251 for index in range(sum(size for size, _ in parts)))
    data = len(body).to_bytes(4, "big") + body
    parts = [(4, 4), *parts]
    cutter, known, frames, offset = FrameCutter(Nowhere()), list[int | None](), list[Frame](), 0
    for first in range(0, len(parts), at_once):
        some = parts[first : first + at_once]
        segments, batch_known = segments_of(data[offset:], some)
        frames += cutter.feed([Chunk(offset, segments, 0, len(some))]).frames
        if cutter.partial.frame is not None:
            cutter.partial.frame.detach()
        if not frames:
            segments.buffer[:] = b"\xdd" * len(segments.buffer)
        known += batch_known
        offset += sum(size for size, _ in some)
    (frame,) = frames
    return CapturedFrame(frame, known)


def assert_reads(frame: Frame, known: list[int | None], at: int, length: int) -> None:
    expected = known[at : at + length]
    if None in expected:
        with pytest.raises(MissingBytes):
            frame.read(at, length)
    else:
        assert list(frame.read(at, length)) == expected


@given(PARTS, st.integers(1, 130), st.data())
def test_only_captured_bytes_can_be_read(parts, at_once, data):
    frame, known = captured_frame(parts, at_once)
    assert frame.length == len(known)
    assert frame.missing_bytes == known.count(None)
    assert frame.buffered_bytes == len(known) - known.count(None)
    assert frame.received == max(at for at, byte in enumerate(known) if byte is not None) + 1
    for _ in range(8):
        at = data.draw(st.integers(0, len(known) - 1))
        assert_reads(frame, known, at, data.draw(st.integers(1, len(known) - at)))
    at = data.draw(st.integers(0, len(known) - 1))
    if known[at] is not None:
        window = frame.window(at)
        window_known = known[at : at + len(window)]
        assert list(window) == window_known
        enough = len(window) >= frame.window_bytes or at + len(window) == len(known)
        assert enough or known[at + len(window)] is None


@given(PARTS, st.integers(1, 130), st.data())
def test_dropped_bytes_are_gone_and_all_others_stay(parts, at_once, data):
    frame, known = captured_frame(parts, at_once)
    bounds = sorted(data.draw(st.lists(st.integers(0, len(known)), max_size=6)))
    ranges = list(zip(bounds[::2], bounds[1::2], strict=False))
    until = data.draw(st.integers(0, len(known)))
    frame.keep_only(ranges, until)
    for at in range(until):
        if not any(begin <= at < end for begin, end in ranges):
            known[at] = None
    assert frame.buffered_bytes == len(known) - known.count(None)
    assert frame.lost_bytes == 0
    for at in range(len(known)):
        assert_reads(frame, known, at, 1)


@given(PARTS, st.data())
def test_a_detached_frame_outlives_its_buffers(parts, data):
    frame, known = captured_frame(parts, len(parts) + 1)
    buffered = frame.buffered_bytes
    frame.detach()
    assert frame.buffered_bytes == buffered
    for at in range(len(known)):
        assert_reads(frame, known, at, 1)
    begin = data.draw(st.integers(0, len(known) - 1))
    assert_reads(frame, known, begin, len(known) - begin)


@pytest.mark.parametrize("state", [((0, 2), (b"abc", b"d")), ((0,), (b"",))])
def test_a_state_with_overlapping_or_empty_pieces_is_refused(state):
    with pytest.raises(ValueError, match="overlap"):
        make(FramePieces, state)


def frame_with(received: int) -> Frame:
    frame = Frame(4 * SKIMMED_BYTES, 0, 1, 1)
    frame.add(0, memoryview(bytes(received)))
    return frame


def test_a_frame_is_skimmed_again_when_it_has_doubled() -> None:
    frame = frame_with(3 * SKIMMED_BYTES)
    assert frame.skim_above == SKIMMED_BYTES
    frame.keep_only([(0, SKIMMED_BYTES)], 3 * SKIMMED_BYTES)
    assert frame.buffered_bytes == SKIMMED_BYTES
    frame.add(3 * SKIMMED_BYTES, memoryview(bytes(SKIMMED_BYTES)))
    assert frame.buffered_bytes == frame.skim_above


def test_bytes_without_room_are_lost_and_the_beginning_is_kept() -> None:
    frame = frame_with(1000)
    assert frame.drop_after(100) == 900
    assert (frame.buffered_bytes, frame.missing_bytes, frame.lost_bytes) == (100, 900, 900)
    assert len(frame.read(0, 100)) == 100
    with pytest.raises(MissingBytes):
        frame.read(100, 1)
    assert (frame.drop_after(100), frame.lost_bytes) == (0, 900)


def head(key: int, version: int, client_id: bytes | None, tags: bytes = b"") -> bytes:
    length = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, 5, length) + (client_id or b"") + tags


def test_version_0_has_no_client_id(catalog: Catalog) -> None:
    header = parse_request_header(struct.pack(">hhi", 7, 0, -9), 0, 8, catalog)
    assert (header.api_key, header.api_version, header.correlation_id) == (7, 0, -9)
    assert (header.client_id, header.body) == (None, 8)


def test_a_client_id_may_be_null_empty_or_no_text_but_not_below_null(catalog: Catalog) -> None:
    for written, expected in ((None, None), (b"", ""), (b"a\xff", "a\\xff"), ("é".encode(), "é")):
        view = head(1, 4, written)
        assert parse_request_header(view, 0, len(view), catalog).client_id == expected

    with pytest.raises(Malformed):
        parse_request_header(struct.pack(">hhih", 1, 4, 5, -2) + bytes(100), 0, 110, catalog)


def test_a_header_that_is_cut_is_truncated(catalog: Catalog) -> None:
    view = head(1, 12, b"client", b"\x01\x07\x03abc")
    for limit in range(len(view)):
        for some in (view, view[:limit]):
            with pytest.raises(Truncated):
                parse_request_header(some, 0, limit, catalog)
    view = struct.pack(">i", 77) + b"\x01\x00\x01x"
    for limit in range(len(view)):
        with pytest.raises(Truncated):
            parse_response_header(view, 0, limit, 1)


@pytest.mark.parametrize("kind", ["request", "response"])
def test_headers_are_read_as_their_definitions_say(catalog: Catalog, kind: Kind) -> None:
    message = catalog.header(kind)
    apis = {("request", 0): (7, 0), ("request", 1): (1, 4), ("request", 2): (1, 12)}
    for version in message.valid_versions.each():
        for seed in range(30):
            values = Generator(message, version, Random(seed)).values()
            key, api_version = apis.get((kind, version), (0, 0))
            if kind == "request":
                values |= {"requestApiKey": key, "requestApiVersion": api_version}
            view = Writer(message, version).write(values)
            if kind == "request":
                request = parse_request_header(view, 0, len(view), catalog)
                assert request.client_id == values.get("clientId")
                found = (request.correlation_id, request.body)
            else:
                found = parse_response_header(view, 0, len(view), version)
            assert found == (values["correlationId"], len(view))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_header_or_a_wire_error(view: bytes) -> None:
    catalog = Catalog()
    try:
        header = parse_request_header(view, 0, len(view), catalog)
    except WireError:
        return
    assert 8 <= header.body <= len(view)


CATALOG = Catalog()
PLAIN_HEADS = [struct.pack(">hh", *each) for each in ((0, 3), (0, 9), (7, 0), (18, 3))]


@given(st.sampled_from(PLAIN_HEADS), st.integers(-3, 12), st.binary(max_size=12))
def test_a_request_has_the_body_that_its_header_says(core, head, length, rest):
    data = bytes(4) + head + bytes(4) + struct.pack(">h", length) + rest
    version = CATALOG.request_header_version(*struct.unpack(">hh", head))
    body_at = core.frame.plain_body(data, head, version)
    try:
        expected = parse_request_header(data, 4, len(data), CATALOG).body
    except WireError:
        assert body_at == 0
        return
    # For a header with tags, no position may be returned.
    assert body_at in ((0, expected) if version == 2 else (expected,))


@given(st.binary(max_size=12), st.integers(0, 1))
def test_a_response_has_the_body_that_its_header_says(core, data, version):
    body_at = core.frame.plain_body(data, b"", version)
    try:
        expected = parse_response_header(data, 4, len(data), version).body
    except WireError:
        assert body_at == 0
        return
    assert body_at == (expected if version == 0 or data[8] == 0 else 0)


def test_an_empty_tag_section_is_skipped(core):
    data = bytes(4) + PLAIN_HEADS[1] + bytes(4) + b"\0\3app"
    assert core.frame.plain_body(data + b"\0body", PLAIN_HEADS[1], 2) == 4 + 10 + 3 + 1
    assert core.frame.plain_body(data + b"\1body", PLAIN_HEADS[1], 2) == 0
    assert core.frame.plain_body(data, PLAIN_HEADS[1], 2) == 0


def test_a_request_of_another_api_has_no_position(core):
    data = bytes(4) + PLAIN_HEADS[0] + bytes(4) + b"\xff\xff"
    assert core.frame.plain_body(data, PLAIN_HEADS[0], 1) == 14
    assert core.frame.plain_body(data, PLAIN_HEADS[1], 1) == 0
