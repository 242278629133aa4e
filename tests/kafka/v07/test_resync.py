"""Finding a frame of Kafka 0.7 in bytes that begin anywhere."""

from __future__ import annotations

import random
import struct
import subprocess
import sys

import pytest

from kanalyze.kafka.v07.first_request import verdict_07
from kanalyze.kafka.v07.resync import Request07Locator, Response07Locator
from tests.support import kafka as k
from tests.support import kafka07 as old

REQUESTS, RESPONSES = Request07Locator(), Response07Locator()


VERDICTS = [
    (old.fetch(5), "yes"),
    (old.produce(), "yes"),
    (old.offsets(), "yes"),
    (old.request(old.MULTIFETCH, old.fetch_part(1), old.fetch_part(2)), "yes"),
    (old.produce(old.message(b"x" * 900))[:100], "perhaps"),
    (old.fetch(5)[:3], "perhaps"),
    (old.fetch(5)[:10], "perhaps"),
    (b"\0\0\x10\0" + old.produce(old.message(b"x" * 900))[4:100], "no"),
    (old.fetch(-5), "no"),
    (old.fetch(5, topic="a/b"), "no"),
    (old.fetch(5, topic="a\0b"), "no"),
    (old.produce(old.message(b"abc")[:-1] + b"X"), "no"),
    (old.produce(old.message(b"abc")[:-1]), "no"),
    (old.sized(struct.pack(">h", 5) + bytes(20)), "no"),
    (bytes(40), "no"),
    (b"\xff" * 40, "no"),
    (old.fetch(5, topic="é"), "yes"),
    (old.fetch(5, topic="\0b"), "no"),
    (old.sized(struct.pack(">hh", old.MULTIFETCH, 0) + bytes(20)), "no"),
]


@pytest.mark.parametrize(("frame", "verdict"), VERDICTS)
def test_a_verdict_says_whether_bytes_are_a_request(frame: bytes, verdict: str) -> None:
    assert REQUESTS.verdict(memoryview(frame)) == verdict


@pytest.mark.parametrize("correlation_id", [0, 1, 1000, 2**24, -1])
@pytest.mark.parametrize("version", range(9))
def test_no_request_of_later_versions_is_taken_for_kafka_07(
    version: int, correlation_id: int
) -> None:
    frames = [
        k.produce(correlation_id, 1, version=version),
        k.request(k.FETCH, version, correlation_id, bytes(40)),
        k.request(k.METADATA, version, correlation_id, struct.pack(">i", 0)),
    ]
    assert {REQUESTS.verdict(memoryview(frame)) for frame in frames} == {"no"}


def test_a_request_is_found_where_it_begins() -> None:
    frame = old.fetch(5) + old.offsets()
    assert REQUESTS(memoryview(b"\xee" * 7 + frame)) == (7, 7)
    index, keep = REQUESTS(memoryview(b"\xee" * 7 + frame[:12]))
    assert (index, keep) == (None, 7)


def test_a_request_followed_by_other_bytes_is_not_found() -> None:
    assert REQUESTS(memoryview(old.fetch(5) + b"\xee" * 40))[0] is None


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_found_in_random_bytes(seed: int) -> None:
    noise = memoryview(random.Random(seed).randbytes(50_000))
    assert REQUESTS(noise)[0] is None
    assert RESPONSES(noise)[0] is None


def test_responses_are_found_by_the_chain_of_their_sizes() -> None:
    chain = old.fetched(old.message()) + old.fetched() + old.offsets_answer(5)
    assert RESPONSES(memoryview(b"\xee" * 5 + chain)) == (5, 5)
    assert RESPONSES(memoryview(b"\xee" * 5 + chain[:-1]))[0] is None
    assert RESPONSES(memoryview(bytes(60)))[0] is None


@pytest.mark.parametrize(("frame", "verdict"), VERDICTS)
def test_the_quick_verdict_is_that_of_the_locator(frame: bytes, verdict: str) -> None:
    for end in range(1, len(frame) + 1):
        view = memoryview(frame)[:end]
        expected = Request07Locator.verdict(view)
        quick_verdict = verdict_07(view)
        # The quick verdict may be no while the locator's is still perhaps.
        is_early_no = (quick_verdict, expected, verdict) == ("no", "perhaps", "no")
        assert quick_verdict == expected or is_early_no


def test_the_reader_of_kafka_07_is_not_imported_for_requests_of_later_versions() -> None:
    frames = [
        frame[:40]
        for correlation_id in (0, 1, 1000)
        for frame in (
            k.produce(correlation_id, 1, version=7),
            k.request(k.FETCH, 11, correlation_id, bytes(40)),
            k.request(k.METADATA, 5, correlation_id, struct.pack(">i", 0)),
            k.heartbeat(correlation_id, client_id="app"),
        )
    ]
    code = (
        "import sys\n"
        "from kanalyze.kafka.v07.first_request import verdict_07\n"
        f"assert {{verdict_07(memoryview(frame)) for frame in {frames!r}}} == {{'no'}}\n"
        "loaded = {name for name in sys.modules if name.startswith('kanalyze.kafka.v07.')}\n"
        "assert loaded == {'kanalyze.kafka.v07.first_request'}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
