"""The CRCs of batches of records: in all formats, in whatever packets and batches they come."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from crc32c import crc32c

from kanalyze.runtime.pipeline import Analysis
from tests.support import batches as made
from tests.support import kafka as k
from tests.support.captures import NAMES, TROUBLED, key_log, often, path
from tests.support.saved_state import run
from tests.support.traffic import Line, Part, capture_of, fetch, fetch_answer, produce_answer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.saved_state import Outcome

SEGMENT_BYTES = 1448


def batch(payload: int = 100, **header: Any) -> bytes:
    content = made.batch(payload=payload, **header)
    return content[:17] + struct.pack(">I", crc32c(content[21:])) + content[21:]


def message(magic: int, **header: Any) -> bytes:
    content = made.message(magic, **header)
    return content[:12] + struct.pack(">I", zlib.crc32(content[16:])) + content[16:]


def broken(content: bytes, at: int = -1) -> bytes:
    """Return bytes with one that is changed."""
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


def segments(data: bytes, size: int = SEGMENT_BYTES) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def produced(folder: Path, *fields: bytes, lost: int | None = None, version: int = 7) -> Path:
    """A capture with a Produce of each records field; segment ``lost`` of the first is lost."""
    packets: list[bytes] = []
    line = Line(packets).open().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    for number, records in enumerate(fields, 2):
        for index, part in enumerate(
            segments(k.produce(number, 1, version=version, records=records))
        ):
            if number == 2 and index == lost:
                line.loses(0, len(part))
            else:
                line.client(part)
        line.broker(produce_answer(number, version))
    line.close()
    file = folder / "made.pcap"
    file.write_bytes(capture_of(packets))
    return file


def fetched(folder: Path, records: bytes) -> Path:
    packets: list[bytes] = []
    line = Line(packets).open().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    line.client(fetch(2, 11))
    line.broker(*segments(fetch_answer(2, 11, [Part(records=records)])))
    line.close()
    file = folder / "made.pcap"
    file.write_bytes(capture_of(packets))
    return file


def counts(outcome: Outcome) -> tuple[int, int, int]:
    quality = outcome.quality
    return quality["record_batches"], quality["checked_batches"], quality["wrong_batches"]


def outcome_of(file: Path, most_packets: int = 100_000, **settings: Any) -> Outcome:
    return run(str(file), most_packets=lambda: most_packets, **settings)


FORMATS = {
    "batch": batch(),
    "empty batch": batch(0, count=0),
    "compressed batch": batch(200, attributes=4),
    "control batch": batch(attributes=0x20),
    "large batch": batch(300_000),
    "message of magic 0": message(0),
    "message of magic 1": message(1, attributes=1, value=b"x" * 3000),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_wrong_crc_is_found_in_every_format(name, tmp_path):
    good = FORMATS[name]
    version = 2 if "message" in name else 7
    fields = good, good + good, good + broken(good), broken(good) + good
    outcome = outcome_of(produced(tmp_path, *fields, version=version))
    assert counts(outcome) == (7, 7, 2)
    assert [row.anomalies for row in outcome.rows] == [[], [], [], ["wrong_crc"], ["wrong_crc"]]
    assert {row.status for row in outcome.rows} == {"ok"}
    assert outcome.quality["anomalies"]["wrong_crc"]["count"] == 2
    assert outcome_of(fetched(tmp_path, good)).quality["anomalies"] == {}
    assert counts(outcome_of(fetched(tmp_path, good + broken(good)))) == (2, 2, 1)


@pytest.mark.parametrize("at", [12, 17, 20, 21, 22, 40, 60, -1])
def test_any_byte_from_the_crc_on_makes_it_wrong(at, tmp_path):
    file = produced(tmp_path, broken(batch(2000), at))
    assert counts(outcome_of(file))[2] == (0 if at == 12 else 1)  # 12: the leader's epoch


def test_the_last_batch_of_a_fetch_may_be_cut_anywhere(tmp_path):
    whole, cut = batch(500), batch(700)
    for size in (1, 17, 40, 61, 300, len(cut) - 1):
        outcome = outcome_of(fetched(tmp_path, whole + cut[:size]))
        assert counts(outcome) == (1, 1, 0)
        assert outcome.quality["anomalies"] == {}


def test_the_packets_and_the_batches_that_they_come_in_make_no_difference(tmp_path):
    """Large frames drop record data before they are complete, and are saved in between."""
    fields = [
        b"".join(broken(batch(9_000)) if n % 7 == 0 else batch(9_000) for n in range(40)),
        broken(batch(400_000), 200_000) + batch(200_000),
        batch(100),
    ]
    file = produced(tmp_path, *fields)
    whole = outcome_of(file)
    assert counts(whole) == (43, 43, 7)
    details = [anomaly[10] for anomaly in whole.anomalies if anomaly[0] == "wrong_crc"]
    assert len(details) == 2
    assert details[0].endswith("6 of 40 batches are wrong")
    for most_packets in (1, 3, 50):
        assert outcome_of(file, most_packets) == whole
    assert outcome_of(file, 7, breaks=lambda: True) == whole


def test_a_batch_with_missing_bytes_is_not_checked(tmp_path):
    """The segment that is lost is within the second batch of three."""
    fields = batch(10_000) + broken(batch(10_000)) + broken(batch(10_000))
    file = produced(tmp_path, fields, lost=10)
    for most_packets in (1, 100):
        assert counts(outcome_of(file, most_packets)) == (3, 2, 1)


@pytest.mark.parametrize(
    "name", often([*NAMES, *TROUBLED], ("codecs", "old-0-8-2-2", "transactions", "mock"))
)
def test_the_batches_of_the_captures_are_right(name):
    analysis = Analysis([str(path(name))], keylog=key_log(name))
    kinds = {row.kind for rows in analysis.anomaly_batches() for row in rows}
    assert "wrong_crc" not in kinds
    assert analysis.quality.wrong_batches == 0
    assert analysis.quality.checked_batches == analysis.quality.record_batches
