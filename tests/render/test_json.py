from __future__ import annotations

import json

import kanalyze
from kanalyze.render.json import summary_json
from tests.support.rows import row
from tests.support.summaries import summary_of as report_on


def summary_of(*rows) -> dict:
    return report_on(rows)


def test_the_json_has_the_summary_and_the_version_of_kanalyze():
    summary = summary_of(row())
    parsed = json.loads(summary_json(summary))
    assert parsed.pop("kanalyze_version") == kanalyze.__version__
    assert parsed == summary


def test_the_schema_is_the_first_field():
    assert list(json.loads(summary_json(summary_of())))[:2] == ["schema", "kanalyze_version"]


def test_control_characters_are_escaped():
    text = summary_json(summary_of(row(client_id="\x1b[31m\u202e\u00e9")))
    assert text.isascii()
    assert "\x1b" not in text
    assert json.loads(text)["clients"][0]["client_id"] == "\x1b[31m\u202e\u00e9"
