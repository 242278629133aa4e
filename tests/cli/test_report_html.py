"""``kanalyze report --html``: the page, and the findings in text and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kanalyze.cli.main import main
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path


def test_a_page_is_written_in_addition_to_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, report = tmp_path / "r.html", tmp_path / "r.json"
    words = ["--html", str(page), "--json", str(report)]
    assert main(["report", *words, str(path("errors"))]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert page.stat().st_size < 1 << 20
    findings = json.loads(report.read_text())["findings"]
    assert {finding["name"] for finding in findings} == {"too_large"}
    out = capsys.readouterr().out.replace("\\\n", "")
    assert "1 of 1 Produce requests refused; client id aiokafka-too-large" in out
    assert "captures/errors.pcapng --client-id aiokafka-too-large" in " ".join(out.split())


@pytest.mark.long
def test_a_page_does_not_change_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_page, without_page = tmp_path / "with.json", tmp_path / "without.json"
    capture = str(path("basics"))
    words = ["--html", str(tmp_path / "r.html"), "--json", str(with_page)]
    assert main(["report", *words, capture]) == 0
    assert main(["report", "--json", str(without_page), capture]) == 0
    report, expected = json.loads(with_page.read_text()), json.loads(without_page.read_text())
    assert {name: report[name] for name in expected} == expected


def test_a_capture_without_faults_has_no_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--html", str(tmp_path / "r.html"), str(path("admin"))]) == 0
    assert "Findings\nnone\n" in capsys.readouterr().out
