"""Which commands say that records have a wrong CRC."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support import kafka as k
from tests.support.traffic import Line, capture_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """A capture of two Produce requests; a byte of the second one's records is changed."""
    good = k.record_batch(3, size=5000, base_offset=17)
    wrong = good[:-1] + b"\2"
    packets: list[bytes] = []
    line = Line(packets).open().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    for number, records in enumerate((good, wrong), 2):
        line.client(k.produce(number, 1, records=records)).broker(k.produce_answer(number))
    line.close()
    file = tmp_path / "wrong.pcap"
    file.write_bytes(capture_of(packets))
    return str(file)


def lines(capsys, *arguments: str) -> list[dict[str, object]]:
    assert main([*arguments, "--format", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_report_counts_them(capture, capsys):
    quality = kanalyze.report(capture)["quality"]
    assert quality["anomalies"]["wrong_crc"]["count"] == 1
    names = ("record_batches", "checked_batches", "wrong_batches")
    assert [quality[name] for name in names] == [2, 2, 1]
    assert main(["report", capture]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "WARNING: 1 of 2 record batches have a wrong CRC" in text
    assert "anomalies: wrong_crc 1" in text


def test_anomalies_say_where(capture, capsys):
    (row,) = lines(capsys, "anomalies", capture)
    assert (row["kind"], row["api_name"]) == ("wrong_crc", "Produce")
    assert str(row["detail"]).endswith("the batch with the base offset 17")


def test_rows_that_are_decoded_saved_or_listed_with_anomalies_name_them(capture, capsys, tmp_path):
    named = [[], [], ["wrong_crc"]]
    assert [line["anomalies"] for line in lines(capsys, "decode", capture)] == named
    saved = str(tmp_path / "saved.duckdb")
    assert main(["save", capture, "-o", saved]) == 0
    capsys.readouterr()
    assert [line["anomalies"] for line in lines(capsys, "requests", saved)] == named
    # Requests alone are read too fast for it: what is not checked is not named, nor counted.
    assert [line["anomalies"] for line in lines(capsys, "requests", capture)] == [[], [], []]


def test_batches_that_were_not_checked_are_said(tmp_path, capsys):
    request = k.produce(2, 1, records=k.record_batch(3, size=9000))
    packets: list[bytes] = []
    line = Line(packets).open().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    line.client(request[:2000]).loses(0, 3000).client(request[5000:]).broker(k.produce_answer(2))
    line.close()
    file = tmp_path / "lossy.pcap"
    file.write_bytes(capture_of(packets))
    assert main(["report", str(file)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "the CRC of 1 of 1 record batches was not checked: bytes are missing" in text
