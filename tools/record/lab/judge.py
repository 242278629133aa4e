"""Holds what a report found against what was provoked."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.processes import run
from lab.trial import Trial

LEAST_SEVERITY = 20
"""What is less severe is a note: an ordinary event that is worth a line."""
TOLERANCE_NS = 5_000_000_000
TOLERANCE_SHARE = 0.25
"""Of the time that a fault was there, that its finding may begin or end earlier or later."""

Finding = Mapping[str, Any]
Span = tuple[int, int | None]


def findings_in(capture: Path, scratch: Path) -> list[Finding]:
    """Return what the report on a capture finds, notes left out."""
    program = Path(sys.executable).with_name("kanalyze")
    run([str(program), "report", str(capture), "--json", str(scratch)], timeout=300)
    found = json.loads(scratch.read_text())["findings"]
    return [one for one in found if one["severity"] >= LEAST_SEVERITY]


def verdict(trial: Trial, found: Sequence[Finding], fault_ns: Span | None) -> dict[str, Any]:
    """Return a trial, what was found first, and what is wrong with that."""
    wrong = _wrong(trial, found, fault_ns)
    first = found[0] if found else None
    return {
        "summary": trial.summary,
        "expected": list(trial.expected.findings) if trial.expected else [],
        "first": first["name"] if first else None,
        "what": first["what"] if first else None,
        "others": list(dict.fromkeys(one["name"] for one in found[1:])),
        "wrong": wrong,
    }


def _wrong(trial: Trial, found: Sequence[Finding], fault_ns: Span | None) -> str | None:
    if trial.expected is None:
        return f"{len(found)} findings" if found else None
    if not found:
        return "nothing found"
    first = found[0]
    if first["name"] not in trial.expected.findings:
        return f"first is {first['name']}"
    for name, value in trial.expected.concerns.items():
        if not _names(first, name, value):
            return f"{name} is {first['concerns'].get(name)}, not {value}"
    for name in trial.expected.also:
        if name not in {one["name"] for one in found}:
            return f"{name} is missing"
    if trial.expected.is_timed and fault_ns is not None:
        return _time(first, *fault_ns)
    return None


def _names(finding: Finding, name: str, value: str) -> bool:
    """Return true if a finding is about a value, or names it in its text."""
    told = str(finding["concerns"].get(name, ""))
    return told == value or told.startswith(f"{value}:") or value in finding["what"]


def _time(finding: Finding, begin_ns: int, end_ns: int | None) -> str | None:
    """A fault shows when somebody meets it."""
    first, last = finding["first_time_ns"], finding["last_time_ns"]
    if first is None or last is None:
        return "no time"
    until_ns = last if end_ns is None else end_ns
    allowed = max(TOLERANCE_NS, TOLERANCE_SHARE * (until_ns - begin_ns))
    for what, off in (("begins", first - begin_ns), ("ends", last - until_ns)):
        if abs(off) > allowed:
            return f"{what} {off / 1e9:+.1f} s"
    return None


def scores(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many were right, of how many.

    Precision is ``faults_right`` of ``first_findings``, recall is ``faults_right`` of ``faults``.
    """
    rows = list(verdicts)
    faults = [row for row in rows if row["expected"]]
    healthy = [row for row in rows if not row["expected"]]
    return {
        "faults": len(faults),
        "faults_right": sum(row["wrong"] is None for row in faults),
        "faults_found": sum(
            bool({row["first"], *row["others"]} & set(row["expected"])) for row in faults
        ),
        "first_findings": sum(row["first"] is not None for row in rows),
        "healthy": len(healthy),
        "healthy_right": sum(row["wrong"] is None for row in healthy),
    }
