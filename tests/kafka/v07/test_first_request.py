"""The verdict on first bytes needs no module that reads Kafka 0.7."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest

from kanalyze.kafka.v07.first_request import verdict_07
from kanalyze.kafka.v07.messages import RequestType
from kanalyze.kafka.v07.resync import Request07Locator
from tests.support import kafka as k
from tests.support import kafka07 as old

OLD = [
    old.fetch(5),
    old.produce(),
    old.offsets(),
    old.request(old.MULTIFETCH, old.fetch_part(1), old.fetch_part(2)),
    old.produce(old.message(b"x" * 900))[:100],
    old.fetch(5)[:3],
    old.fetch(5)[:10],
    old.fetch(5, topic="é"),
]
OTHER = [
    old.fetch(-5),
    old.fetch(5, topic="a/b"),
    old.fetch(5, topic="\0b"),
    old.sized(struct.pack(">hh", RequestType.MULTIFETCH, 0) + bytes(20)),
    old.sized(struct.pack(">h", max(RequestType) + 1) + bytes(20)),
    bytes(40),
    b"\xff" * 40,
]


@pytest.mark.parametrize("frame", OLD + OTHER)
def test_the_quick_verdict_is_that_of_the_locator(frame: bytes) -> None:
    for end in range(1, len(frame) + 1):
        view = memoryview(frame)[:end]
        expected = Request07Locator.verdict(view)
        quick_verdict = verdict_07(view)
        # The quick verdict may be no while the locator's is still perhaps.
        assert quick_verdict == expected or (quick_verdict, expected, frame in OTHER) == (
            "no",
            "perhaps",
            True,
        )


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
