"""Where the first records of an incomplete message begin."""

from __future__ import annotations

import pytest

from kanalyze.kafka.records.first_records import first_records
from tests.support import kafka as k
from tests.support.traffic import CATALOG, Part, produce

RECORDS = k.record_batch(3, 5000)


@pytest.mark.parametrize("version", range(14))
def test_the_first_records_are_found_in_every_version(version: int) -> None:
    parts = [Part(records=None), Part(partition=1, records=RECORDS)]
    frame = produce(1, version, parts)
    at = frame.index(RECORDS)
    body = frame.index(b"test") + 4 + (CATALOG.request_header_version(k.PRODUCE, version) == 2)
    message = CATALOG.message(k.PRODUCE, "request")
    for end in (at, at + 1, len(frame)):
        assert first_records(message, version, frame[:end], body) == (at, len(RECORDS))
    assert first_records(message, version, frame[: at - 4], body) is None


def test_a_message_without_records_has_none() -> None:
    frame = k.heartbeat(1)
    message = CATALOG.message(k.HEARTBEAT, "request")
    assert first_records(message, 0, frame, 18) is None
    assert first_records(message, 0, frame[:20], 18) is None
