from __future__ import annotations

from typing import Any

import pytest

from kanalyze.render.findings import command_text, confidence_text, finding_lines, left_out_text

FINDING = {
    "name": "too_large",
    "title": "Records that are too large",
    "what": "3 of 4 Produce requests refused, of billing-2",
    "why": "They are not written.",
    "repair": "Make them smaller.",
    "sure": "certain",
    "command": "requests",
    "options": ["--client-id", "it's"],
    "concerns": {"client_id": "it's", "group_id": "billing"},
    "first_time_ns": 1_790_000_000 * 10**9,
    "last_time_ns": 1_790_000_012 * 10**9,
    "first_packet": 7,
    "cause": None,
}


def lines_of(*findings: dict[str, Any]) -> list[str]:
    return [line.plain for line in finding_lines(findings)]


def test_a_finding_has_its_figures_its_names_and_a_command() -> None:
    assert lines_of(FINDING) == [
        "",
        "Findings",
        "Records that are too large",
        (
            "  3 of 4 Produce requests refused, of billing-2; client it's; group billing; "
            "since 14:13:20.000 until 14:13:32.000; packet 7"
        ),
        """    kanalyze requests CAPTURE --client-id 'it'"'"'s'""",
        "  why: They are not written.",
        "  confidence: certain",
        "  repair: Make them smaller.",
    ]


@pytest.mark.parametrize("last_time_ns", [FINDING["first_time_ns"], None])
def test_a_fault_that_is_seen_once_has_one_time(last_time_ns: int | None) -> None:
    line = lines_of({**FINDING, "last_time_ns": last_time_ns})[3]
    assert line.endswith("; group billing; at 14:13:20.000; packet 7")


@pytest.mark.parametrize(
    ("captures", "name"),
    [
        (["broker.pcap"], "broker.pcap"),
        (["it's mine.pcap"], """'it'"'"'s mine.pcap'"""),
        (["bad\x1b[2J"], r"'bad\u001b[2J'"),
        ([], "CAPTURE"),
        (["-"], "CAPTURE"),
        (["live:eth0"], "CAPTURE"),
        (["a.pcap", "b c.pcap"], "a.pcap 'b c.pcap'"),
        (["logs/*.pcap", "b.pcap"], "'logs/*.pcap' b.pcap"),
        ([f"capture-{number:04}.pcap" for number in range(40)], "CAPTURE..."),
    ],
)
def test_the_command_that_shows_the_rows_names_the_capture(captures: list[str], name: str) -> None:
    assert command_text("requests", ["--errors"], captures) == f"kanalyze requests {name} --errors"


def test_confidence_has_its_reason_in_parentheses() -> None:
    lines = lines_of({**FINDING, "sure": "likely: two reasons: a, b."})
    assert "  confidence: likely (two reasons: a, b)" in lines
    assert confidence_text("yes.") == "yes."


def test_no_findings_are_shown_as_none() -> None:
    assert lines_of() == ["", "Findings", "none"]


def test_kinds_that_were_not_searched_for_are_named() -> None:
    text = left_out_text({"findings_left_out": ["capture_one_way", "bad\x1b[2J"]})
    assert text is not None
    assert text.startswith("not searched for")
    assert "capture_one_way, bad" in text
    assert "\x1b" not in text
    assert [line.plain for line in finding_lines([], not_searched=text)] == [
        "",
        "Findings",
        "none",
        text,
    ]
    assert left_out_text({}) is None


@pytest.mark.parametrize(
    ("what", "is_named"), [("of billing", False), ("billing, twice", False), ("of a.billing", True)]
)
def test_a_name_in_the_figures_is_not_repeated(what: str, is_named: bool) -> None:
    line = lines_of({**FINDING, "what": what})[3]
    assert ("group billing" in line) is is_named


def test_only_the_first_findings_of_a_kind_are_shown_and_its_texts_once() -> None:
    lines = lines_of(*[FINDING] * 5)
    assert sum("refused" in line for line in lines) == 3
    assert "  and 2 more" in lines
    assert sum(line.startswith("  why:") for line in lines) == 1


def test_effects_are_indented_under_their_cause() -> None:
    away = {**FINDING, "name": "away", "title": "Away"}
    effect = {**FINDING, "cause": {"name": "away", "number": 1}}
    further = {**FINDING, "title": "Storm", "cause": {"name": "too_large", "number": 2}}
    titles = [
        line
        for line in lines_of(away, effect, further, FINDING)
        if line.lstrip().startswith(("Away", "It led to", "Records", "why"))
    ]
    assert titles == [
        "Away",
        "  why: They are not written.",
        "  It led to: Records that are too large",
        "    why: They are not written.",
        "    It led to: Storm",
        "      why: They are not written.",
        "Records that are too large",
        "  why: They are not written.",
    ]


def test_of_some_stories_only_causes_are_told_whole_and_others_have_a_line() -> None:
    second = {**FINDING, "concerns": {"client_id": "other", "group_id": "billing"}}
    effect = {**FINDING, "title": "Storm", "name": "storm", "cause": {"name": "x", "number": 1}}
    third = {**FINDING, "title": "Third", "name": "third", "what": "3 of 3"}
    lines = [line.plain for line in finding_lines([FINDING, effect, third, third], most_stories=1)]
    assert [line for line in lines if line.lstrip().startswith(("why", "repair", "kanalyze"))] == [
        lines[4],
        "  why: They are not written.",
        "  repair: Make them smaller.",
    ]
    assert lines[lines.index("  It led to: Storm") + 1].startswith("    3 of 4 Produce")
    assert lines[lines.index("Third") + 1].endswith("; packet 7; and 1 more")
    alike = [line.plain for line in finding_lines([FINDING, second], most_stories=1)]
    assert "  and 1 more: client other" in alike


def test_control_characters_are_escaped() -> None:
    hostile = "\x1b[2J"
    finding = {
        **FINDING,
        "what": hostile,
        "concerns": {"topic": hostile},
        "options": ["--topic", hostile],
    }
    assert "\x1b" not in "".join(lines_of(finding))


def test_of_several_captures_a_number_alone_names_no_packet() -> None:
    assert any("; packet 7" in line for line in lines_of(FINDING))
    lines = finding_lines([FINDING], ["a.pcap", "b.pcap"], has_files=True)
    assert not any("packet 7" in line.plain for line in lines)
    of_b = {**FINDING, "first_capture": "it's\x1b b.pcap"}
    lines = finding_lines([of_b], ["a.pcap", "b.pcap"], has_files=True)
    assert any(line.plain.endswith("; packet 7 of it's\\u001b b.pcap") for line in lines)
    assert "; packet 7" in "".join(lines_of(of_b))
