"""Broken input gives a report of what is missing, or one clear line and exit status 2."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from kanalyze.cli.main import main
from kanalyze.errors import KanalyzeError
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import FOLDER, analysis, path

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze import Row


def rows_of(data: bytes) -> tuple[list[Row], Analysis]:
    run = Analysis([io.BytesIO(data)])
    return [row for batch in run.row_batches() for row in batch], run


def cut_at_every_byte(name: str, length: int, step: int = 1) -> None:
    data = path(name).read_bytes()[:length]
    for end in range(0, len(data), step):
        refusal = ""
        try:
            rows, run = rows_of(data[:end])
        except KanalyzeError as error:
            refusal = str(error)
        if refusal:
            assert end < 200, f"refused at {end}: {refusal}"
            assert "\n" not in refusal
            continue
        assert len(rows) <= run.quality.packets <= length // 50


OTHERS = [pytest.param(name, marks=pytest.mark.long) for name in ("ipv6", "any")]
"""Captures of the same formats, pcap and pcapng."""


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["mock", "errors", *OTHERS])
def test_the_start_of_a_capture_cut_at_any_byte_is_reported_or_refused(name: str) -> None:
    cut_at_every_byte(name, 600)
    cut_at_every_byte(name, 20_000, step=503)


@pytest.mark.long
@pytest.mark.parametrize("name", ["mock", "errors", "any"])
def test_a_capture_cut_at_any_byte_is_reported_or_refused(name: str) -> None:
    cut_at_every_byte(name, 20_000)


def test_rows_of_a_cut_capture_are_those_of_the_whole_one() -> None:
    data = path("basics").read_bytes()
    whole = {row.request_packet: row for row in analysis("basics")[0]}
    rows, run = rows_of(data[: len(data) * 2 // 3])
    assert run.quality.anomalies["capture_truncated"].count == 1
    unchanged = 0
    for row in rows:
        if row.status in ("ok", "error", "one_way"):
            same = whole[row.request_packet]
            assert row._replace(capture=same.capture) == same
            unchanged += 1
    assert unchanged > 100


REFUSED = {
    "empty.pcap": b"",
    "text.pcap": b"this is no capture, it is a text\n" * 10,
    "short.pcap": b"\xd4\xc3\xb2\xa1\x02\x00",
    "random.pcap": bytes(range(7, 250)),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("command", ["report", "requests"])
def test_a_file_that_is_no_capture_is_refused_in_one_line(
    name: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(REFUSED[name])
    assert main([command, str(tmp_path / name)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("kanalyze: ")
    assert output.err.count("\n") == 1
    assert name in output.err


def test_a_missing_path_and_an_empty_folder_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argument in (tmp_path / "missing.pcap", tmp_path):
        assert main(["report", str(argument)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_capture_without_packets_is_an_empty_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "none.pcap"
    empty.write_bytes(path("basics").read_bytes()[:24])
    assert main(["report", str(empty)]) == 0
    assert "no Kafka requests found; there are no packets" in capsys.readouterr().out


@pytest.mark.long
def test_a_folder_is_read_as_all_captures_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(FOLDER), "--json", "-"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert len(summary["capture"]["captures"]) >= 8
