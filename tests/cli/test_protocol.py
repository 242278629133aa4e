from __future__ import annotations

import json
import sys

import pytest

from kanalyze.cli.main import main


def test_without_arguments_all_apis_are_listed(capsys):
    assert main(["protocol"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["key", "API", "versions"]
    assert lines[1].split()[:3] == ["0", "Produce", "0-13"]


def test_a_terminal_gets_the_columns_that_fit(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["protocol"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize("text", ["Fetch", "fetch", "FETCH", "1"])
def test_an_api_is_named_in_any_case_or_by_its_key(capsys, text):
    assert main(["protocol", text]) == 0
    assert capsys.readouterr().out.startswith("Fetch, key 1, FETCH\n")


def test_an_api_may_be_named_as_in_the_log_of_kafka(capsys):
    assert main(["protocol", "OFFSET_FOR_LEADER_EPOCH"]) == 0
    assert capsys.readouterr().out.startswith("OffsetForLeaderEpoch, key 23,")


@pytest.mark.parametrize("version", ["12", "v12"])
def test_a_version_of_an_api_has_its_own_fields_alone(capsys, version):
    assert main(["protocol", "fetch", version]) == 0
    text = capsys.readouterr().out
    assert "topicId" not in text
    assert "forgottenTopicsData" in text
    assert main(["protocol", "--json", "fetch", "13"]) == 0
    topics = json.loads(capsys.readouterr().out)["request"]["fields"]
    fields = next(field["fields"] for field in topics if field["name"] == "topics")
    assert [field["name"] for field in fields] == ["topicId", "partitions"]


@pytest.mark.parametrize(("version", "said"), [("99", "versions are 0-"), ("x", "not a version")])
def test_a_version_that_an_api_lacks_is_refused(capsys, version, said):
    assert main(["protocol", "fetch", version]) == 2
    assert said in capsys.readouterr().err


def test_error_codes_are_listed(capsys):
    assert main(["protocol", "errors"]) == 0
    assert "NOT_LEADER_OR_FOLLOWER" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "is_expected"),
    [
        ([], lambda apis: apis[1]["name"] == "Fetch"),
        (["Fetch"], lambda api: api["request"]["fields"][0]["name"] == "clusterId"),
        (["errors"], lambda errors: {"code": 0, "name": "NONE", "retriable": False} in errors),
    ],
)
def test_json_lists_apis_fields_and_errors(capsys, arguments, is_expected):
    assert main(["protocol", "--json", *arguments]) == 0
    assert is_expected(json.loads(capsys.readouterr().out))


def test_apis_of_a_user_are_shown(capsys, tmp_path):
    for kind in ("request", "response"):
        definition = {
            "apiKey": 9001,
            "type": kind,
            "name": f"Frobnicate{kind.capitalize()}",
            "validVersions": "0-2",
            "flexibleVersions": "1+",
            "fields": [{"name": "ApiSecret", "type": "string", "versions": "1+"}],
        }
        (tmp_path / f"{kind}.json").write_text(json.dumps(definition))
    assert main(["protocol", "frobnicate", "--definitions", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Frobnicate, key 9001, FROBNICATE\n")
    assert shown.count("string  1-2\n") == 2
    assert main(["protocol", "--json", "--definitions", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)[-1]["name"] == "Frobnicate"


HOSTILE = "\x1b]0;owned\x07\u202e\u200b\n"


def test_control_characters_of_definitions_are_escaped(capsys, tmp_path):
    definition = {
        "apiKey": 9999,
        "type": "request",
        "name": "OwnRequest",
        "listeners": [HOSTILE],
        "validVersions": "0",
        "flexibleVersions": "none",
        "fields": [
            {"name": "Text", "type": "string", "versions": "0+", "default": HOSTILE},
        ],
    }
    response = {
        "apiKey": 9999,
        "type": "response",
        "name": "OwnResponse",
        "validVersions": "0",
        "flexibleVersions": "none",
        "fields": [],
    }
    (tmp_path / "OwnRequest.json").write_text(json.dumps(definition))
    (tmp_path / "OwnResponse.json").write_text(json.dumps(response))
    for argv in ([], ["Own"], ["9999"], ["--json"], ["Own", "--json"]):
        assert main(["protocol", "--definitions", str(tmp_path), *argv]) == 0
        text = capsys.readouterr().out
        assert "Own" in text
        assert all(line.isprintable() for line in text.splitlines())
        assert "owned" in text
