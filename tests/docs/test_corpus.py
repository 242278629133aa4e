"""What `tools/record/corpus.py` wrote about findings on a cluster fits those that there are."""

from __future__ import annotations

import json
from typing import Any

from kanalyze.queries.findings import finding_kinds
from tools.docs_findings import CORPUS


def tried() -> Any:
    return json.loads(CORPUS.read_text(encoding="utf-8"))


def test_each_trial_expects_and_finds_what_is_a_finding() -> None:
    known = {kind.query.name for kind in finding_kinds()}
    for trial in tried()["recordings"]:
        named = {*trial["expected"], *trial["others"], *filter(None, [trial["first"]])}
        assert named <= known, trial["name"]


def test_the_scores_are_those_of_the_trials() -> None:
    trials, scores = tried()["recordings"], tried()["scores"]
    names = [(trial["name"], trial["recording"]) for trial in trials]
    assert len(set(names)) == len(names)
    for kind, rows in (
        ("faults", [each for each in trials if each["expected"]]),
        ("healthy", [each for each in trials if not each["expected"]]),
    ):
        assert scores[kind] == len(rows) > 0
        assert scores[f"{kind}_right"] == sum(row["wrong"] is None for row in rows)
    for trial in trials:
        found = {trial["first"], *trial["others"]} - {None}
        if trial["wrong"] is None:
            assert trial["first"] in trial["expected"] if trial["expected"] else not found
    assert scores["first_findings"] == sum(trial["first"] is not None for trial in trials)
    assert scores["faults_right"] <= scores["faults_found"] <= scores["faults"]
