"""Headers and bodies are read from frames, in whatever segments the bytes are."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.codec.compiler import Decoders, Projection
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.message_reader import RECORD_APIS, MessageReader
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.kafka.wire import WireError
from kanalyze.model.anomalies import AnomalyKind
from tests.support import kafka as k
from tests.support.messages import unsigned_varint
from tests.support.session import CATALOG, READER, frame_of
from tests.support.talk import Talk

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import Struct

PRODUCE = k.produce(3, acks=-1, version=7, topic="orders", records=k.record_batch(6, size=4000))


@given(st.lists(st.integers(1, 400), max_size=40))
def test_a_message_is_read_the_same_from_any_segments(sizes: list[int]) -> None:
    frame = frame_of(PRODUCE, sizes)
    head = READER.request_header(frame)
    assert (head.api_key, head.api_version, head.correlation_id) == (k.PRODUCE, 7, 3)
    assert head.client_id == "test"
    body = READER.request_body(frame, head)
    assert body.problem is None
    transactional_id, acks, [(topic, _, [(index, records)])] = body.values
    assert (transactional_id, acks, topic, index) == (None, -1, "orders", 0)
    assert (records.record_count, records.record_bytes) == (6, 4061)
    assert READER.acks(frame, head) == -1
    again = READER.parse_header(READER.beginning(frame), frame.size)
    assert (again.api_key, again.api_version, again.correlation_id) == (k.PRODUCE, 7, 3)
    assert (again.client_id, again.body) == (head.client_id, head.body)


SMALL_RESPONSES = st.lists(
    st.tuples(
        st.integers(0, 3),  # correlation ids: what is said does not depend on them
        st.sampled_from([(k.API_VERSIONS, 3), (k.METADATA, 12), (k.HEARTBEAT, 99), (999, 0)]),
        st.sampled_from([b"", b"\0", b"\0\0"]),
        st.sampled_from([0, 3, 35, 12345]),
        st.binary(max_size=8),
    ),
    max_size=12,
)


@given(SMALL_RESPONSES)
def test_what_is_said_of_a_response_is_the_same_when_it_comes_again(
    responses: list[tuple[int, tuple[int, int], bytes, int, bytes]],
) -> None:
    one_for_all = MessageReader(CATALOG, Decoders(CATALOG), lambda _api, _kind: Projection.of())
    for correlation_id, api, before, code, after in responses:
        data = struct.pack(">i", correlation_id) + before + struct.pack(">h", code) + after
        frame = frame_of(struct.pack(">i", len(data)) + data)
        fresh = MessageReader(CATALOG, Decoders(CATALOG), lambda _api, _kind: Projection.of())
        details = [reader.response_body(frame, *api).detail for reader in (one_for_all, fresh)]
        assert details[0] == details[1]


NAMES = st.text("abé", max_size=3)


@given(st.lists(st.tuples(st.integers(0, 3), NAMES, NAMES, NAMES, st.booleans()), max_size=20))
def test_the_software_of_a_client_is_the_same_when_it_comes_again(
    requests: list[tuple[int, str, str, str, bool]],
) -> None:
    for version, client_id, name, number, is_cut in requests:
        tags = b"\0" if version >= 3 else b""
        body = k.compact(name) + k.compact(number) + tags if version >= 3 else b""
        data = k.request(
            k.API_VERSIONS,
            version,
            5,
            body[:-1] if is_cut else body,
            client_id=client_id,
            tags=tags,
        )
        frame = frame_of(data)
        software = READER.fields.software(frame, READER.request_header(frame))
        assert software == (None if version < 3 or is_cut else (name, number))


@pytest.mark.parametrize("length", range(10))
def test_a_frame_without_room_for_a_header_is_refused(length: int) -> None:
    frame = frame_of(struct.pack(">i", length) + b"\0\x0c\0\0\0\0\0\1\0\5"[:length])
    with pytest.raises(WireError):
        READER.request_header(frame)


def test_header_version_2_has_tags_and_unknown_tags_are_skipped() -> None:
    request = k.request(
        k.API_VERSIONS, 3, 5, k.compact("a") + k.compact("b") + b"\0", tags=b"\x01\x07\x03abc"
    )
    head = READER.request_header(frame_of(request))
    assert READER.request_body(frame_of(request), head).problem is None


@pytest.mark.parametrize("tags", [b"\xff", b"\x01", b"\x01\x07\x7f", b"\x01" + b"\xff" * 6])
def test_tags_that_do_not_fit_are_refused(tags: bytes) -> None:
    with pytest.raises(WireError):
        READER.request_header(frame_of(k.request(k.API_VERSIONS, 3, 5, b"", tags=tags)))


@pytest.mark.parametrize(("version", "acks"), [(0, 1), (2, -1), (3, 0), (8, 1), (9, -1), (13, 0)])
def test_acks_are_read_in_every_layout(version: int, acks: int) -> None:
    if version >= 9:
        body = b"\x03tx" + struct.pack(">hi", acks, 1000) + b"\x01\0"
        request = k.request(k.PRODUCE, version, 1, body, tags=b"\0")
    else:
        body = (k.string("tx") if version >= 3 else b"") + struct.pack(">hii", acks, 1000, 0)
        request = k.request(k.PRODUCE, version, 1, body)
    frame = frame_of(request)
    head = READER.request_header(frame)
    assert READER.acks(frame, head) == acks
    assert READER.request_body(frame, head).values[1] == acks


@pytest.mark.parametrize("transactional_id", [None, "", "tx", "x" * 130, "x" * 5000])
@pytest.mark.parametrize("version", [3, 8, 9])
def test_acks_are_read_from_any_segments(version: int, transactional_id: str | None) -> None:
    if version < 9:
        before_acks = k.string(transactional_id)
    else:
        length = 0 if transactional_id is None else len(transactional_id) + 1
        before_acks = unsigned_varint(length) + (transactional_id or "").encode()
    body = before_acks + struct.pack(">hi", 0, 1000)
    request = k.request(k.PRODUCE, version, 1, body, tags=b"\0" if version >= 9 else b"")
    for size in (1, 2, 3, 5, 17, 1448):
        frame = frame_of(request, [size] * (len(request) // size))
        assert READER.acks(frame, READER.request_header(frame)) == 0
    for end in range(len(request) - len(body), len(request)):
        frame = frame_of(request, [end])
        assert READER.acks(frame, READER.request_header(frame)) == 0


def test_acks_of_a_request_that_ends_before_them_are_unknown() -> None:
    for body in (b"", b"\0", k.string("x" * 130), struct.pack(">h", 300) + b"x" * 20):
        frame = frame_of(k.request(k.PRODUCE, 3, 1, body))
        assert READER.acks(frame, READER.request_header(frame)) is None


def test_a_newer_version_is_read_as_the_newest_known_one_if_that_fits_exactly() -> None:
    api = CATALOG.api(k.HEARTBEAT)
    assert api is not None
    newer = api.versions.highest + 1
    fits = b"\x02g" + struct.pack(">i", 1) + b"\x02m" + b"\0" + b"\0"
    for body, read_as in ((fits, api.versions.highest), (fits + b"more", None)):
        frame = frame_of(k.request(k.HEARTBEAT, newer, 1, body, tags=b"\0"))
        found = READER.request_body(frame, READER.request_header(frame))
        assert (found.version, found.problem) == (read_as, AnomalyKind.UNKNOWN_API_VERSION)
        assert (found.values is None) == (read_as is None)


def test_equal_malformed_messages_are_explained_once_and_all_have_the_explanation() -> None:
    frame = frame_of(k.request(k.METADATA, 1, 1, struct.pack(">i", 40) + k.string("t") * 39))
    header = READER.request_header(frame)
    details = {READER.request_body(frame, header).detail for _ in range(10_000)}
    assert details == {"topics[39].name, byte 139: the bytes end too early"}


def test_the_number_of_kept_plans_is_bounded() -> None:
    for number in range(6000):
        READER.request_header(frame_of(k.request(200 + number % 100, number, 1)))
    assert len(READER._plans._requests) <= 4096


def test_the_slow_reader_explains_only_some_of_many_malformed_messages() -> None:
    reader = MessageReader(CATALOG, Decoders(CATALOG), lambda _key, _kind: Projection.ALL)
    topics = struct.pack(">i", 5001) + b"\0\1a" * 5000
    frame = frame_of(k.request(3, 1, 1, topics + b"\0"))
    header = reader.request_header(frame)
    details = [reader.request_body(frame, header).detail for _ in range(100)]
    assert details[0] == "topics[5000].name, byte 15022: the bytes end too early"
    explained = details.count(details[0])
    assert 50 < explained < 80
    # All others have a reason too.
    assert set(details[explained:]) == {details[-1]}
    assert details[-1]
    assert "byte 1" not in details[-1]


def test_a_large_malformed_message_has_the_reason_of_the_fast_reader() -> None:
    reader = MessageReader(CATALOG, Decoders(CATALOG), lambda _key, _kind: Projection.ALL)
    frame = frame_of(k.request(3, 1, 1, struct.pack(">i", 1 << 24) + b"\0" * 20_000))
    body = reader.request_body(frame, reader.request_header(frame))
    assert body.problem is AnomalyKind.MALFORMED_BODY
    assert body.detail == "the bytes end within the body"


# -- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_bytes", [False, True])
def test_a_body_that_is_too_large_to_read_keeps_its_header_times_and_sizes(
    keeps_bytes: bool,
) -> None:
    """Also where bytes are kept, as by `decode`: its values would take 43 times the memory."""
    talk = Talk()
    if keeps_bytes:
        talk = Talk(tracker=ConnectionTracker(talk.reader, talk.catalog, keep=lambda _: True))
    topics = struct.pack(">i", 5_000_000) + k.string("tt") * 5_000_000
    request = k.request(k.METADATA, 0, 1, topics)
    assert len(request) > 16 << 20
    for at in range(0, len(request), 4 << 20):
        talk.client(request[at : at + (4 << 20)])
    talk.client(k.heartbeat(2)).broker(k.heartbeat_answer(2)).close()
    (large,) = [exchange for exchange in talk.exchanges if exchange.correlation_id == 1]
    assert large.request is not None
    assert (large.request.length, large.request.values) == (len(request), None)
    assert "memory_limit" in large.anomalies
    assert not large.malformed
    assert (2, 6, 7) in talk.pairs()


def test_apis_with_record_data_are_those_of_the_definitions(catalog: Catalog) -> None:
    def has_records(struct: Struct) -> bool:
        return any(
            field.element_type == "records"
            or (field.struct is not None and has_records(field.struct))
            for field in struct.fields
        )

    with_records = {
        api.key
        for api in catalog.apis
        for kind in ("request", "response")
        if has_records(catalog.message(api.key, kind).struct)
    }
    assert with_records == RECORD_APIS
