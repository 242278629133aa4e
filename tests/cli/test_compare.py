"""``kanalyze compare``: its output and its exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support.captures import ROOT, path

if TYPE_CHECKING:
    from pathlib import Path


BASICS, WAITS = str(path("basics")), str(path("waits"))
REPORTS = [str(ROOT / "reports" / f"{name}.json") for name in ("basics", "waits")]


def test_a_capture_does_not_differ_from_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", BASICS, BASICS, "--fail-on", "any"]) == 0
    captured = capsys.readouterr()
    assert "\nno difference; " in captured.out
    assert captured.err == ""


def test_new_and_gone_names_can_set_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", BASICS, WAITS]) == 0
    out = capsys.readouterr().out
    assert "Gone: in A, not in B" in out
    assert main(["compare", *REPORTS, "--fail-on", "slower,gone"]) == 1
    captured = capsys.readouterr()
    assert "NOT TESTED FOR CHANCE" in captured.out
    assert "\nGone: in A, not in B (may be chance: not tested)\n" in captured.out
    assert captured.err.startswith(
        "kanalyze: --fail-on: not tested for chance: a report has no rows"
    )
    assert main(["compare", *REPORTS, "--fail-on", "slower"]) == 0
    assert capsys.readouterr().err == ""


def test_too_little_to_judge_has_an_exit_status_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = [BASICS, BASICS, "--api", "InitProducerId"]
    assert main(["compare", *few]) == 0
    assert "nothing certain, because too short to judge" in capsys.readouterr().out
    assert main(["compare", *few, "--fail-on", "slower,errors"]) == 3
    assert capsys.readouterr().err == (
        "kanalyze: --fail-on: nothing certain, because too short to judge\n"
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("output_format", ["json", "md"])
def test_other_formats_go_to_standard_output(
    output_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", BASICS, WAITS, "--format", output_format]) == 0
    out = capsys.readouterr().out
    if output_format == "json":
        assert json.loads(out)["a"]["captures"] == [BASICS]
    else:
        assert out.startswith("# Comparison\n")


@pytest.mark.long
def test_the_json_is_what_the_library_returns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "difference.json"
    options = ["--api", "Fetch", "--at-least", "1.5", "--least-ms", "2"]
    assert main(["compare", BASICS, WAITS, *options, "--json", str(target)]) == 0
    written = json.loads(target.read_text())
    returned = kanalyze.compare(BASICS, WAITS, api="Fetch", at_least=1.5, least_ms=2)
    del written["kanalyze_version"]
    assert written == json.loads(json.dumps(returned))
    assert written["a"]["filter"] == written["b"]["filter"]
    assert {line["api"] for line in written["load"]} == {"Fetch"}
    assert "only requests of A that match" in capsys.readouterr().out


def test_a_report_and_a_capture_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", REPORTS[0], BASICS, "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["a"]["made_of"], result["b"]["made_of"]) == ("report", "rows")
    assert [result[name] for name in ("slower", "faster", "fails_more", "new", "gone")] == [[]] * 5
    assert result["alike"] > 0


@pytest.mark.long
def test_saved_files_compare_as_their_captures_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = [str(tmp_path / "a.duckdb"), str(tmp_path / "b.duckdb")]
    for capture, file in zip((BASICS, WAITS), saved, strict=True):
        assert main(["save", capture, "-o", file]) == 0
    capsys.readouterr()

    def comparison_of(a: str, b: str) -> str:
        assert main(["compare", a, b, "--json", "-"]) == 0
        return capsys.readouterr().out

    expected = comparison_of(BASICS, WAITS)
    assert json.loads(expected)["tested"]
    assert comparison_of(*saved) == comparison_of(BASICS, saved[1]) == expected
    assert kanalyze.compare(*saved, api="Fetch") == kanalyze.compare(BASICS, WAITS, api="Fetch")


def test_options_that_need_captures_are_refused_for_saved_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "a.duckdb")
    assert main(["save", BASICS, "-o", saved]) == 0
    capsys.readouterr()
    assert main(["compare", saved, WAITS, "--port", "9092"]) == 2
    err = capsys.readouterr().err
    assert "--port has no effect on the saved file" in err
    assert err.count("\n") == 1


def test_the_library_compares_reports() -> None:
    report = kanalyze.report(BASICS)
    assert kanalyze.compare(report, report)["new"] == []
