"""Finding a frame in bytes that begin anywhere."""

from __future__ import annotations

import random
import struct
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.session.resync import RequestCandidates, RequestLocator, ResponseLocator
from kanalyze.kafka.session.resync import responses as find_responses
from kanalyze.model.streams import Chunk, Segments
from tests.support import kafka as k
from tests.support.cases import for_each
from tests.support.session import CATALOG, READER

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import RequestHeader

REQUESTS = RequestLocator(READER, CATALOG)


def responses(waiting: dict[int, tuple[int, int]]) -> ResponseLocator:
    return expecting({key: {api} for key, api in waiting.items()})


def expecting(pending: dict[int, set[tuple[int, int]]], **options: bool) -> ResponseLocator:
    locator = ResponseLocator(READER, **options)
    locator.expect(pending)
    return locator


@given(st.binary(max_size=300), st.sampled_from([k.heartbeat(7), k.produce(9, acks=1)]))
def test_a_request_is_found_after_any_bytes(before: bytes, request: bytes) -> None:
    view = memoryview(b"\xfe" + before + b"\xfe" * 14 + request + request)
    index, _ = REQUESTS(view)
    assert index is not None
    assert index <= len(before) + 15


def test_a_request_is_whole_if_its_verdict_is_yes() -> None:
    frame = k.heartbeat(7)
    frames = [frame[:end] for end in range(len(frame) + 1)]
    newer = k.request(k.HEARTBEAT, 9, 1)
    for data in (*frames, frame + b"more", newer, bytes(20), k.heartbeat(1, client_id="a\n")):
        view = memoryview(data)
        segments = Segments(view, [0], [len(view)], [len(view)], [0], [1])
        header = REQUESTS.first_request([Chunk(0, segments, 0, 1)])
        assert (header is not None) == (REQUESTS.verdict(view) == "yes"), data
        if header is not None:
            assert (header.api_key, header.correlation_id) == (k.HEARTBEAT, 7)


@for_each("case", list(product([0, 1, 2, 3], [-1, 0, 1, 2], [None, "", "c", "\xe9" * 5])))
def test_produce_requests_of_old_versions_are_found(case: tuple[int, int, str | None]) -> None:
    version, acks, client_id = case
    body = k.produce(7, acks, version=version)[18:]  # its own client id is "test"
    request = k.request(k.PRODUCE, version, 7, body, client_id=client_id)
    for data in (request + request, request + request[:30]):
        assert REQUESTS(memoryview(b"\xff" * 9 + data)) == (9, 9)


def test_a_controlled_shutdown_without_a_client_id_is_found() -> None:
    frame = struct.pack(">ihhii", 12, k.CONTROLLED_SHUTDOWN, 0, 7, 3)
    assert REQUESTS(memoryview(b"\xff" * 9 + frame + k.heartbeat(8))) == (9, 9)


@given(st.binary(max_size=60), st.sampled_from(["", "00", "ffff", "000100", "7f", "00000030"]))
def test_skipped_positions_hold_no_request(noise: bytes, filler: str) -> None:
    """At a position that is no candidate, the verdict is not yes."""
    zeros = bytes.fromhex(filler or "00" * 20) * 10
    view = memoryview(noise + zeros + k.produce(7, 1, version=0) + zeros + noise)
    limit = len(view) - 13
    skipped = set(range(limit)) - set(REQUESTS._candidates(view, limit))
    assert "yes" not in {REQUESTS.verdict(view[index:]) for index in skipped}


def test_noise_holds_no_request() -> None:
    noise = random.Random(4)
    for _ in range(20):
        index, keep = REQUESTS(memoryview(noise.randbytes(50_000)))
        assert index is None
        assert keep <= 50_000


def test_bytes_that_may_begin_a_request_are_kept() -> None:
    big = k.produce(1, acks=1, records=k.record_batch(3, size=5000))
    index, keep = REQUESTS(memoryview(b"\xff" * 40 + big[:1000]))
    assert (index, keep) == (None, 40)
    index, keep = REQUESTS(memoryview(b"\xff" * 40 + big + k.heartbeat(2)))
    assert (index, keep) == (40, 40)


def test_a_request_larger_than_the_buffer_is_accepted_while_incomplete() -> None:
    big = k.produce(1, acks=1, records=k.record_batch(3, size=500_000))
    assert REQUESTS(memoryview(b"\xff" * 40 + big[:70_000]))[0] == 40


@pytest.mark.parametrize(
    ("frame", "verdict"),
    [
        (k.heartbeat(1), "yes"),
        (k.heartbeat(1)[:20], "perhaps"),
        (k.heartbeat(1)[:3], "perhaps"),
        (k.request(k.API_VERSIONS, 0, 1, bytes(4)), "yes"),
        (k.request(k.HEARTBEAT, 0, 1, b"\x7f\xff"), "no"),
        (k.request(999, 0, 1), "no"),
        (k.request(k.HEARTBEAT, 100, 1), "no"),
        (k.request(k.HEARTBEAT, -1, 1), "no"),
        (k.heartbeat(1, client_id="a\x00b"), "no"),
        (b"\xff\xff\xff\xff" + bytes(40), "no"),
        (bytes(40), "no"),
    ],
)
def test_a_verdict_says_whether_bytes_are_a_request(frame: bytes, verdict: str) -> None:
    assert REQUESTS.verdict(memoryview(frame)) == verdict


def test_a_response_is_recognized_by_a_pending_id_and_a_body_that_fits() -> None:
    response = k.heartbeat_answer(77)
    view = memoryview(b"\x01\x02\x03" + response)
    assert responses({77: (k.HEARTBEAT, 0)})(view) == (3, 3)
    assert responses({78: (k.HEARTBEAT, 0)})(view)[0] is None
    wrong = k.response(77, b"not what a heartbeat says")
    assert responses({77: (k.HEARTBEAT, 0)})(memoryview(b"\xee" * 3 + wrong))[0] is None


def test_frames_whose_sizes_lead_to_an_awaited_response_are_found() -> None:
    unknown = k.response(5, b"an answer to a request from before the capture")
    chain = unknown + k.heartbeat_answer(77)
    assert responses({77: (k.HEARTBEAT, 0)})(memoryview(chain))[0] == 0
    # Without an awaited response, one frame that ends with the bytes may be chance; two frames
    # with rising ids are not.
    assert responses({})(memoryview(unknown))[0] is None
    assert responses({})(memoryview(unknown + k.response(6, b"and one more"))) == (0, 0)
    assert responses({})(memoryview(unknown + k.response(4, b"and one more")))[0] is None
    assert responses({})(memoryview(unknown + b"\xff" * 20))[0] is None
    # Nor if the beginning of a large, awaited one seems to be inside.
    part = (5_000_000).to_bytes(4, "big") + (76).to_bytes(4, "big") + b"\0" * 4 + b"\x7f" * 4
    both = memoryview(k.response(5, part) + k.response(6, b"and one more"))
    assert responses({76: (k.METADATA, 1)})(both) == (0, 0)
    assert responses({76: (k.METADATA, 1)})(both[:-1])[0] is None


def test_a_search_may_begin_with_an_unknown_response_only_where_the_capture_begins() -> None:
    unknown = k.response(5, b"an answer to a request from before the capture")
    view = memoryview(unknown + k.heartbeat_answer(77))
    waiting = {77: {(k.HEARTBEAT, 0)}}
    at_start = expecting(waiting)
    later = expecting(waiting, from_middle=False)
    assert at_start(view)[0] == 0
    assert later(view)[0] == len(unknown)
    # Only once: bytes that are searched later do not begin the capture.
    assert at_start(view)[0] == len(unknown)


def test_one_response_that_fits_is_not_accepted_if_noise_follows_it() -> None:
    response = k.heartbeat_answer(77)
    locate = responses({77: (k.HEARTBEAT, 0)})
    assert locate(memoryview(b"\xee" * 3 + response + b"\xff" * 20))[0] is None
    assert locate(memoryview(b"\xee" * 3 + response + k.heartbeat_answer(78)))[0] == 3
    assert locate(memoryview(b"\xee" * 3 + response + b"\0\0"))[0] == 3
    # Java's clients log in with the highest ids, and begin anew.
    login, later = k.heartbeat_answer(2**31 - 6), k.heartbeat_answer(8)
    locate = responses({2**31 - 6: (k.HEARTBEAT, 0)})
    assert locate(memoryview(b"\xee" * 3 + login + later))[0] == 3


def test_a_response_to_no_known_request_is_kept_for_a_while() -> None:
    waiting: dict[int, set[tuple[int, int]]] = {}
    locate = expecting(waiting, from_middle=False)
    view = memoryview(b"\xee" * 9 + k.heartbeat_answer(77) + b"\xee" * 100)
    assert locate(view) == (None, 0)
    waiting[77] = {(k.HEARTBEAT, 0)}
    assert locate(memoryview(bytes(view[:19])))[0] == 9
    assert locate(memoryview(bytes(100_000)))[1] > 60_000


def test_a_complete_frame_is_preferred_to_a_partial_one() -> None:
    # Bytes that look like the beginning of a large response, then a small complete one.
    part = (5_000_000).to_bytes(4, "big") + (76).to_bytes(4, "big") + b"\0" * 4 + b"\x7f" * 4
    view = memoryview(b"\xee" * 3 + part + k.heartbeat_answer(77))
    locate = responses({76: (k.METADATA, 1), 77: (k.HEARTBEAT, 0)})
    assert locate(view)[0] == 3 + len(part)


class CountingReader:
    """A reader whose checks count what they are given: calls, and bytes."""

    parse_header = READER.parse_header

    def __init__(self) -> None:
        self.calls = self.given_bytes = 0
        self.checks = self

    def request_fits(self, view: memoryview, header: RequestHeader, size: int) -> bool | None:
        self._count(view, size)
        return READER.checks.request_fits(view, header, size)

    def response_fits(self, view: memoryview, size: int, *api: int) -> bool | None:
        self._count(view, size)
        return READER.checks.response_fits(view, size, *api)

    def _count(self, view: memoryview, size: int) -> None:
        self.calls += 1
        self.given_bytes += min(len(view), size + 4)


def nearly_requests(size: int) -> bytes:
    """The head of a Metadata request; its repetitions are its topics, until it ends too early."""
    return struct.pack(">ihhihih", size, k.METADATA, 1, 0, -1, size // 20, 18)


@pytest.mark.parametrize("size", [2_000, 16_000, 70_000, 1 << 26])
@pytest.mark.parametrize("kibibytes", [16, 64, 512])
def test_bytes_that_nearly_fit_everywhere_are_checked_a_few_times(
    size: int, kibibytes: int
) -> None:
    view = memoryview(nearly_requests(size) * (kibibytes * 1024 // 20))
    reader = CountingReader()
    RequestLocator(reader, CATALOG)(view)  # type: ignore[arg-type]
    assert 0 < reader.given_bytes < 16 * max(len(view), 1 << 17)


@pytest.mark.parametrize("apis", [1, 50])
@pytest.mark.parametrize("kibibytes", [16, 256])
def test_responses_that_nearly_fit_everywhere_are_checked_a_few_times(
    apis: int, kibibytes: int
) -> None:
    answer = struct.pack(">iii", 70_000, 7, 0)
    view = memoryview(answer * (kibibytes * 1024 // len(answer)))
    reader = CountingReader()
    locator = ResponseLocator(reader, from_middle=False)  # type: ignore[arg-type]
    versions = [(api.key, version) for api in CATALOG.apis for version in range(2)]
    locator.expect({7: set(versions[:apis])})
    locator(view)
    assert 0 < reader.given_bytes < 16 * max(len(view), 1 << 17)
    assert reader.calls < len(view)


@pytest.mark.parametrize("before", [0, 200, 900])
def test_a_request_is_found_behind_many_that_nearly_fit(before: int) -> None:
    noise = nearly_requests(400) * before + b"\xff" * 20
    found = REQUESTS(memoryview(noise + k.heartbeat(7) + k.heartbeat(8)))
    assert found == (len(noise), len(noise))


# -- candidates for headers ------------------------------------------------------------------------

VERSIONS = [
    (api.key, version)
    for api in CATALOG.apis
    for version in range(api.versions.lowest, api.versions.highest + 1)
    if api.key > 7  # those up to 7 have forms of their own in their first versions
]


@given(
    st.binary(max_size=40),
    st.sampled_from(VERSIONS),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text("abcXYZ-0", max_size=20),
    st.binary(max_size=40),
)
def test_no_request_is_missed(before, api, correlation_id, client_id, body):
    name = (client_id or "").encode()
    length = -1 if client_id is None else len(name)
    head = struct.pack(">hhih", *api, correlation_id, length) + name + body
    data = before + struct.pack(">i", len(head)) + head
    candidates = RequestCandidates(CATALOG).find(memoryview(data), len(before) + 1)
    assert len(before) in candidates


@given(st.binary(max_size=80), st.sets(st.integers(-(2**31), 2**31 - 1), max_size=4), st.data())
def test_responses_are_found_at_a_size_and_a_pending_id(data, pending, draw):
    for number in pending:
        at = draw.draw(st.integers(0, len(data)))
        size = draw.draw(st.integers(0, 300))
        data = data[:at] + struct.pack(">ii", size, number) + data[at:]
    limit = max(len(data) - 7, 0)
    expected = [
        at
        for at in range(limit)
        if (head := struct.unpack_from(">ii", data, at))[1] in pending
        and 4 <= head[0] <= 100 * 1024 * 1024
    ]
    assert find_responses(memoryview(data), limit, pending) == expected
