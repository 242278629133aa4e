from __future__ import annotations

import io

import pytest

from kanalyze.capture.reader import open_capture
from kanalyze.net.tcp.reassembly import Reassembler
from tests.fuzz.seed_captures import captures


def test_captures_are_short_and_of_every_format() -> None:
    found = captures()
    assert max(map(len, found)) <= 17_000
    # Times in microseconds and in nanoseconds, blocks, and data of five codecs.
    starts = {data[:2] for data in found}
    plain = {b"\xd4\xc3", b"\x4d\x3c", b"\x0a\x0d"}
    assert starts == plain | {b"\x1f\x8b", b"\x28\xb5", b"\x04\x22", b"BZ", b"\xfd7"}


@pytest.mark.parametrize("first", range(0, 7 * 7, 7))
def test_seed_captures_are_read_without_anomalies(first: int) -> None:
    for data in captures()[first :: 7 * 7]:
        reassembler = Reassembler()
        with open_capture(io.BytesIO(data)) as reader:
            for batch in reader.batches():
                reassembler.feed(batch)
        assert reader.packets >= 1
        assert [anomaly for anomaly in reader.anomalies if reader.packets < 20] == []
        assert reassembler.counters.tcp_segments > 0
