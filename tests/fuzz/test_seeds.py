from __future__ import annotations

from kanalyze.kafka.records.compression import decompress
from tests.fuzz import seeds
from tests.fuzz.targets.common import TABLE


def test_there_is_a_body_of_every_message_in_every_version() -> None:
    found = {(body.api_key, body.version, body.kind) for body in seeds.bodies()}
    expected = {(*pair, kind) for pair in TABLE for kind in ("request", "response")}
    # A few old versions are neither in the vectors nor in the captures.
    assert len(expected - found) < len(expected) // 20


def test_records_are_of_every_format_and_codec() -> None:
    looks = {
        (found[16], (found[22] if found[16] == 2 else found[17]) & 7)
        for found in seeds.record_sets()
    }
    assert looks >= {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), *((2, n) for n in range(5))}


def test_compressed_seeds_can_be_decompressed() -> None:
    assert {found[0] for found in seeds.compressed()} == {1, 2, 3, 4}
    for found in seeds.compressed():
        assert decompress(found[0], found[1:], 1 << 20).problem is None
