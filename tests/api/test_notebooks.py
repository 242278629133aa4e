"""A report in a notebook: a dict as before, the page in a frame, tables as data frames."""

from __future__ import annotations

import copy
import html
import io
import json
import pickle
import re
import shutil
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.spec.report import TABLES
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path

FRAME = re.compile(r'<iframe sandbox="allow-scripts" style="[^"<>]*" srcdoc="([^"]*)"></iframe>')


@pytest.fixture(scope="module")
def report() -> kanalyze.Report:
    return kanalyze.report(path("basics"))


def test_the_page_in_the_frame_is_that_of_the_command(
    report: kanalyze.Report, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    command = ["report", str(path("basics")), "--html", str(page), "-o", str(tmp_path / "x.txt")]
    assert main(command) == 0
    found = FRAME.fullmatch(report._repr_html_())
    assert found is not None
    assert html.unescape(found[1]) == page.read_text()


def test_it_is_a_dict_as_before(report: kanalyze.Report) -> None:
    assert isinstance(report, dict)
    assert report.findings == report["findings"]
    for plain in (json.loads(json.dumps(report)), copy.copy(report), copy.deepcopy(report)):
        assert plain == report
    plain = pickle.loads(pickle.dumps(report))
    assert (type(plain), plain) == (dict, report)


def test_tables_are_data_frames(report: kanalyze.Report) -> None:
    for name in TABLES:
        assert name in dir(report)
        assert len(getattr(report, name)) == len(report[name])
    line, row = report["apis"][0], report.apis.iloc[0]
    assert row["requests"] == line["requests"]
    assert row["latency_ns.p99"] == line["latency_ns"]["p99"]
    with pytest.raises(AttributeError, match="a report has no table 'nothing'"):
        _ = report.nothing


def test_a_page_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    shutil.copy(path("basics"), capture)
    for given in (capture, tmp_path, str(tmp_path / "*.pcap")):
        assert b"this is the report as text" not in kanalyze.report(given).page()
    report = kanalyze.report(capture)
    capture.unlink()
    with pytest.raises(kanalyze.CaptureError, match=r"a\.pcap: no such file"):
        report.page()


def test_captures_that_cannot_be_read_twice_have_their_report_as_text() -> None:
    report = kanalyze.report(io.BytesIO(path("basics").read_bytes()))
    assert b"this is the report as text" in report.page()
