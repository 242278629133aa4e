"""A comparison as text and as Markdown: the worst first, escaped, and within the width."""

from __future__ import annotations

from typing import Any

import pytest

from kanalyze.render.compare import compare_lines, compare_markdown
from kanalyze.render.layout import cell_width

INPUT = {
    "made_of": "rows",
    "captures": ["a.pcap", "b.pcap"],
    "first_time_ns": 1_767_225_600_000_000_000,
    "last_time_ns": 1_767_225_640_000_000_000,
    "filter": {"api": ["Produce"]},
    "requests": 4000,
    "span_ns": 40_000_000_000,
    "requests_per_s": 100.0,
    "slices": 32,
    "slice_s": 1.25,
}


def measured(measure: str = "p99", **changes: Any) -> dict[str, Any]:
    base = {"measure": measure, "a": 12_000_000, "b": 80_000_000, "ratio": 6.667}
    return {**base, "low": 5.1, "high": 8.8, "chance": 0.0005, "chance_alone": 0.0005, **changes}


def failing() -> dict[str, Any]:
    errors = measured("errors", a=0.0, b=0.031, difference=0.031, low=0.02, high=0.04)
    del errors["ratio"]
    return errors


def change(name: str | None = "billing", by: str = "client", *measures: Any) -> dict[str, Any]:
    return {
        "by": by,
        "api": "Produce",
        "name": name,
        "requests": [500, 510],
        "requests_per_s": [12.5, 12.75],
        "measures": list(measures or [measured()]),
        "as_much_for": [{"by": "topic", "name": "orders"}],
        "options": ["--api", "Produce", "--client-id", str(name)],
    }


def comparison(**changes: Any) -> dict[str, Any]:
    sections = ("slower", "faster", "fails_more", "fails_less", "may_be_chance", "new", "gone")
    sections += ("new_findings", "gone_findings")
    return {
        "a": INPUT,
        "b": {**INPUT, "requests_per_s": 200.0},
        "settings": {
            "at_least": 1.2,
            "least_ns": 1_000_000,
            "least_share": 0.001,
            "false_alarms": 0.05,
        },
        "tested": True,
        "not_tested": None,
        "differences_tested": 58,
        **{name: [] for name in sections},
        "alike": 7,
        "too_few": [],
        "judged": True,
        "load": [],
        "limited": False,
        **changes,
    }


def text(width: int = 100, **changes: Any) -> str:
    return "\n".join(line.plain for line in compare_lines(comparison(**changes), width))


def test_more_failures_and_slower_requests_come_first() -> None:
    output = text(
        fails_more=[change("shop", "client", failing())],
        slower=[change("billing", "client", measured(), measured("p50", ratio=1.62))],
        faster=[change(None, "api")],
    )
    lines = output.splitlines()
    assert "1 fails more, 1 slower, 1 faster; 7 alike" in lines
    titles = [line for line in lines if line in ("Fails more", "Slower", "Faster", "New in B")]
    assert titles == ["Fails more", "Slower", "Faster"]
    billing = next(line for line in lines if "client billing" in line)
    assert billing.split() == [
        *("Produce", "client", "billing", "p99", "12", "ms", "80", "ms", "6.67\u00d7"),
        *("5.1", "to", "8.8", "0.05", "%"),
    ]
    assert lines[lines.index(billing) + 1].split()[:2] == ["p50", "12"]
    assert "  the same difference for topic orders" in lines
    assert "  kanalyze requests B --api Produce --client-id billing" in lines
    shop = next(line for line in lines if "client shop" in line)
    assert "0 %  3.10 %  +3.1 %" in shop


def test_differences_that_may_be_chance_are_counted_apart() -> None:
    names = [
        {"kind": "client", "name": "a", "requests": 9, "seconds": 1, "may_be_chance": True},
        {"kind": "API version", "name": "b", "requests": 9, "seconds": 9, "may_be_chance": False},
    ]
    output = text(may_be_chance=[change()], new=names)
    assert "1 new; 7 alike, 1 may differ by chance" in output
    assert output.index("API version") < output.index("client       a")


def test_a_comparison_that_was_not_tested_says_so() -> None:
    output = text(tested=False, not_tested="a report has no rows")
    assert "NOT TESTED FOR CHANCE: a report has no rows" in output
    assert "no difference; 7 alike" in output


def few(name: str | None, b_ns: int, by: str = "api") -> dict[str, Any]:
    largest = {"measure": "p90", "a": 4_170_000, "b": b_ns, "ratio": b_ns / 4_170_000}
    return {"by": by, "api": "Fetch", "name": name, "requests": [9, 8], "largest": largest}


def test_what_is_too_short_to_judge_is_not_called_equal() -> None:
    lines = [few(None, 5_000_000), {**few(None, 7_980_000_000), "api": "Produce"}]
    lines.append(few("billing", 9_000_000_000, "client"))
    output = " ".join(text(judged=False, alike=0, too_few=lines).split())
    assert (
        "nothing certain, because too short to judge; 0 alike, 3 with too few requests or too "
        "short a time; the largest differences of these: Produce p90 4.17 ms \u2192 7.98 s, "
        "Fetch p90 4.17 ms \u2192 5 ms"
    ) in output
    assert "no difference" not in output
    of_client = " ".join(text(too_few=[few("billing", 9_000_000_000, "client")]).split())
    assert "no difference; 7 alike, 1 with too few" in of_client
    assert "of these: Fetch of client billing p90 4.17 ms \u2192 9 s" in of_client


def test_only_load_that_differs_is_shown() -> None:
    same = {
        "api": "Fetch",
        "requests_per_s": [10.0, 10.5],
        "request_bytes": [100.0, 100.0],
        "response_bytes": [None, None],
        "waited": [0.5, 0.5],
    }
    assert "Other load" not in text(load=[same])
    output = text(load=[{**same, "requests_per_s": [10.0, 25.0]}])
    assert "10 \u2192 25" in output


@pytest.mark.parametrize("width", [60, 80, 140])
def test_lines_fit_the_width_and_control_characters_are_escaped(width: int) -> None:
    hostile = change("hostile\x1b[31m|`<b>" + "x" * 300)
    few = [{"by": "client", "api": "Fetch", "name": "few\x07", "requests": [1, 2], "largest": None}]
    output = text(width, slower=[hostile], too_few=few)
    assert all(cell_width(line) <= width for line in output.splitlines())
    assert "\x1b" not in output
    assert "\x07" not in output


def test_markdown_has_tables_with_escaped_names() -> None:
    output = compare_markdown(comparison(slower=[change("a|b<img>*")]))
    assert "## Slower" in output
    assert "| Produce | client a\\|b\\<img\\>\\* | p99 | 12 ms | 80 ms |" in output
    assert "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |" in output
    assert "**1 slower; 7 alike**" in output


def finding(name: str, cause: int | None = None, **concerns: str) -> dict[str, Any]:
    return {
        "name": name,
        "title": f"What is wrong: {name}",
        "what": "12 requests\x1b[2J failed",
        **dict.fromkeys(("sure", "why", "repair", "command"), ""),
        "concerns": concerns,
        "first_time_ns": INPUT["first_time_ns"],
        "last_time_ns": INPUT["first_time_ns"],
        "first_packet": None,
        "options": [],
        "cause": None if cause is None else {"name": "x", "number": cause},
    }


def test_findings_of_one_side_come_first_and_are_in_the_verdict() -> None:
    new = [finding("stopped", broker="10.0.0.1:9092"), finding("late", 1, topic="orders")]
    output = text(new_findings=new, gone_findings=[finding("old", client_id="a\nb")])
    assert (
        " 2 new findings: What is wrong: stopped, broker 10.0.0.1:9092, ...; finding gone: What is "
        "wrong: old, client a\\nb; no other difference; 7 alike "
    ) in output.replace("\n", " ")
    assert output.index("Found in B, not in A\nWhat is wrong: stopped\n  12 requests\\u001b[2J") < (
        output.index("  It led to: What is wrong: late\n")
    )
    assert "\nFound in A, not in B\nWhat is wrong: old\n" in output
    markdown = compare_markdown(comparison(new_findings=new))
    assert "\n## Found in B, not in A\n\n- What is wrong: stopped\n" in markdown
    short = text(new_findings=new[:1], judged=False)
    assert (
        "new finding: What is wrong: stopped, broker 10.0.0.1:9092; nothing else certain," in short
    )
