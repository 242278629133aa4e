from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.render.sections import lines_within, sections_that_matter
from kanalyze.spec.report import SECTIONS, TABLES


@given(
    st.dictionaries(st.sampled_from(sorted(TABLES)), st.integers(1, 30), max_size=5),
    st.integers(0, 90),
)
def test_lines_are_shared_evenly_and_fit(lines: dict[str, int], room: int) -> None:
    shown = lines_within(room, lines)
    assert list(shown) == list(lines)
    taken = sum(count + (count < lines[name]) for name, count in shown.items())
    least = sum(min(count, 3) + (count > 3) for count in lines.values())
    assert taken <= max(room, least)
    cut = [count for name, count in shown.items() if count < lines[name]]
    assert all(count >= min(3, lines[name]) for name, count in shown.items())
    if cut:
        assert max(cut) - min(cut) <= 1
        assert max(shown.values()) <= max(cut) + 1
        assert taken >= min(room, least)


@pytest.mark.parametrize(
    ("see", "first"),
    [
        ([], ["apis", "errors", "clients"]),
        ([["groups"], ["tls", "slowest"]], ["groups", "tls", "slowest", "apis", "errors"]),
        ([["apis", "brokers"], ["apis"]], ["apis", "brokers", "errors", "clients", "topics"]),
    ],
)
def test_sections_of_findings_come_first(see: list[list[str]], first: list[str]) -> None:
    chosen = sections_that_matter([{"see": names} for names in see], SECTIONS)
    assert len(chosen) == 5
    assert chosen[: len(first)] == first


def test_sections_without_lines_are_left_out() -> None:
    assert sections_that_matter([{"see": ["tls"]}], ["brokers", "slowest"]) == [
        "brokers",
        "slowest",
    ]
