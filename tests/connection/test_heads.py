"""Headers of requests, many at a time: as the reader of single ones has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.connection.cutting import cut, plain_stream
from kanalyze.connection.frame_columns import FrameBytes, FrameColumns
from kanalyze.connection.heads import CLIENT_ID_AT, read_heads
from kanalyze.connection.reader import MessageReader
from kanalyze.protocol.compiler import Decoders
from kanalyze.protocol.projection import Projection
from tests.support import kafka as k
from tests.support.streams import chunk, frame_of
from tests.support.traffic import CATALOG, asks, fetch, metadata, produce

if TYPE_CHECKING:
    from kanalyze.connection.heads import RequestHeads

READER = MessageReader(CATALOG, Decoders(CATALOG), lambda *_: Projection.of())
PADDING = [k.heartbeat(0)] * 2


def heads_of(*requests: bytes) -> tuple[RequestHeads, FrameColumns]:
    """The headers of requests, and of two more after them."""
    stream = plain_stream([chunk([*requests, *PADDING])])
    assert stream is not None
    cuts = cut(stream, 0, 8)
    assert cuts is not None
    frames, data = FrameColumns(), FrameBytes()
    frames.add(stream, cuts, data)
    frames.close()
    return read_heads(frames, data.array(), READER), frames


def sound(*requests: bytes) -> list[bool]:
    heads, _ = heads_of(*requests)
    found: list[bool] = heads.is_sound.tolist()
    assert found[-2:] == [True, True]
    return found[:-2]


@given(
    st.lists(
        st.builds(
            lambda key, version, number, client_id, tags: k.request(
                key, version, number, b"body", client_id=client_id, tags=tags
            ),
            st.sampled_from([k.FETCH, k.METADATA, k.HEARTBEAT, k.API_VERSIONS, 999, -1]),
            st.integers(-1, 20),
            st.integers(-(2**31), 2**31 - 1),
            st.sampled_from(["test", "", None, "caf\u00e9"]),
            st.sampled_from([b"\0", b"", b"\1\7\1x"]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_a_header_that_is_sound_says_what_the_reader_of_single_ones_says(
    requests: list[bytes],
) -> None:
    stream = plain_stream([chunk([*requests, *PADDING])])
    assert stream is not None
    cuts = cut(stream, 0, 8)
    assert cuts is not None
    frames, data = FrameColumns(), FrameBytes()
    direction = frames.add(stream, cuts, data)
    frames.close()
    heads = read_heads(frames, data.array(), READER)
    for row in range(len(requests)):
        if not heads.is_sound[row]:
            continue
        header = READER.request_header(frames.frame(direction, row))
        assert heads.kinds[heads.kind[row]] == (header.api_key, header.api_version)
        assert heads.correlation_id[row] == header.correlation_id
        at, length = int(frames.start[row]) + CLIENT_ID_AT, int(heads.client_id_length[row])
        held = data.array()[at : at + max(length, 0)].tobytes().decode()
        assert (None if length < 0 else held) == header.client_id
        assert heads.body[row] - frames.start[row] == header.body


@pytest.mark.parametrize("version", range(14))
def test_a_produce_request_that_wants_no_answer_is_none_of_them(version: int) -> None:
    requests = [
        produce(number, version, acks=acks, transactional_id=transactional_id)
        for number, (acks, transactional_id) in enumerate(
            [(1, None), (0, None), (-1, "tx"), (0, "tx"), (0, ""), (1, "")]
        )
    ]
    assert sound(*requests) == [True, False, True, False, False, True]


def test_one_that_does_not_tell_is_none_either() -> None:
    for version in (2, 8, 9):
        whole = produce(1, version)
        head = whole[4 : 18 + (version >= 9)]
        assert sound(*(frame_of(head + bytes(size)) for size in range(2))) == [False, False]


def test_a_header_with_tags_or_without_its_end_is_not_sound() -> None:
    whole = fetch(1, 12)
    tagged = k.request(k.FETCH, 12, 1, whole[19:], tags=b"\1\7\1x")
    cut_short = [frame_of(whole[4 : 4 + size]) for size in range(8, 15)]
    assert sound(whole, tagged, *cut_short) == [True, False, *[False] * 7]


def test_a_client_id_of_no_length_that_there_is() -> None:
    whole = bytearray(fetch(1, 11))
    for length in (b"\xff\xfe", b"\x7f\xff", b"\x80\x00"):
        whole[12:14] = length
        assert sound(bytes(whole)) == [False]


def test_controlled_shutdown_v0_has_another_header() -> None:
    assert sound(k.request(k.CONTROLLED_SHUTDOWN, 0, 1, bytes(9))) == [False]


def test_requests_that_tell_something_of_their_connection() -> None:
    requests = [
        metadata(1),
        k.api_versions(2),
        asks(k.SASL_HANDSHAKE, 1, 3, k.string("PLAIN")),
        asks(k.SASL_AUTHENTICATE, 0, 4, bytes(4)),
        fetch(5, 11),
    ]
    heads, _ = heads_of(*requests)
    assert heads.is_telling.tolist()[:5] == [False, True, True, True, False]
