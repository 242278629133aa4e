"""A comparison as text and as Markdown: the worst first, within the width, escaped."""

from __future__ import annotations

from typing import Any

import pytest

from kanalyze.render.compare import compare_lines, compare_markdown
from kanalyze.render.layout import cell_width

SIDE = {
    "made_of": "rows",
    "captures": ["a.pcap", "b.pcap"],
    "first_time_ns": 1_767_225_600_000_000_000,
    "filter": {"api": ["Produce"]},
    "requests": 4000,
    "span_ns": 40_000_000_000,
    "requests_per_s": 100.0,
    "slices": 32,
    "slice_s": 1.25,
}


def told(measure: str = "p99", **changes: Any) -> dict[str, Any]:
    made = {"measure": measure, "a": 12_000_000, "b": 80_000_000, "ratio": 6.667}
    return {**made, "low": 5.1, "high": 8.8, "chance": 0.0005, "chance_alone": 0.0005, **changes}


def failing() -> dict[str, Any]:
    made = told("errors", a=0.0, b=0.031, difference=0.031, low=0.02, high=0.04)
    del made["ratio"]
    return made


def change(name: str | None = "billing", by: str = "client", *measures: Any) -> dict[str, Any]:
    return {
        "by": by,
        "api": "Produce",
        "name": name,
        "requests": [500, 510],
        "requests_per_s": [12.5, 12.75],
        "measures": list(measures or [told()]),
        "as_much_for": [{"by": "topic", "name": "orders"}],
        "options": ["--api", "Produce", "--client-id", str(name)],
    }


def comparison(**changes: Any) -> dict[str, Any]:
    sections = ("slower", "faster", "fails_more", "fails_less", "may_be_chance", "new", "gone")
    return {
        "a": SIDE,
        "b": {**SIDE, "requests_per_s": 200.0},
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
        "load": [],
        "limited": False,
        **changes,
    }


def text(width: int = 100, **changes: Any) -> str:
    return "\n".join(line.plain for line in compare_lines(comparison(**changes), width))


def test_more_failures_and_slower_requests_come_first() -> None:
    found = text(
        fails_more=[change("shop", "client", failing())],
        slower=[change("billing", "client", told(), told("p50", ratio=1.62))],
        faster=[change(None, "api")],
    )
    lines = found.splitlines()
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


def test_differences_that_may_be_chance_are_not_counted() -> None:
    names = [
        {"kind": "client", "name": "a", "requests": 9, "seconds": 1, "may_be_chance": True},
        {"kind": "API version", "name": "b", "requests": 9, "seconds": 9, "may_be_chance": False},
    ]
    found = text(may_be_chance=[change()], new=names)
    assert "1 new; 7 alike, 1 may differ by chance" in found
    assert found.index("API version") < found.index("client       a")


def test_a_comparison_without_a_test_says_so() -> None:
    found = text(tested=False, not_tested="a report has no rows")
    assert "NOT TESTED FOR CHANCE: a report has no rows" in found
    assert "no difference; 7 alike" in found


def test_load_is_shown_where_it_differs() -> None:
    same = {
        "api": "Fetch",
        "requests_per_s": [10.0, 10.5],
        "request_bytes": [100.0, 100.0],
        "response_bytes": [None, None],
        "waited": [0.5, 0.5],
    }
    assert "Other load" not in text(load=[same])
    found = text(load=[{**same, "requests_per_s": [10.0, 25.0]}])
    assert "10 \u2192 25" in found


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_too_long_and_nothing_from_the_wire_drives_a_terminal(width: int) -> None:
    evil = change("evil\x1b[31m|`<b>" + "x" * 300)
    few = [{"by": "client", "api": "Fetch", "name": "few\x07", "requests": [1, 2]}]
    found = text(width, slower=[evil], too_few=few)
    assert all(cell_width(line) <= width for line in found.splitlines())
    assert "\x1b" not in found
    assert "\x07" not in found


def test_markdown_has_tables_and_no_markup_from_the_wire() -> None:
    found = compare_markdown(comparison(slower=[change("a|b<img>*")]))
    assert "## Slower" in found
    assert "| Produce | client a\\|b\\<img\\>\\* | p99 | 12 ms | 80 ms |" in found
    assert "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |" in found
    assert "**1 slower; 7 alike**" in found
