from __future__ import annotations

from benchmarks.tables import markdown, said, short
from tests.benchmarks.test_figures import NOW, made, table, took

CHANGED = NOW | {"queries": "changed"}
BULK = table(
    "bulk",
    1,
    {
        "requests": took(3.0, 1.0, 4.0),
        "report": took(2.0),
        "tshark": took(5.0),
        "tcpdump": took(0.1, peak_mib=19),
    },
)


def cells(text: str, *beginning: str) -> list[str]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    (found,) = [row for row in rows if row[: len(beginning)] == list(beginning)]
    return found[len(beginning) :]


def test_a_line_has_medians_and_the_quickest_run_and_ratios_of_that() -> None:
    text = markdown(made(BULK), NOW)
    times = ["6.000 (2.000)", "3.000 (1.000)", "5", "5.0", "5.0", "10.0", "100", "7"]
    assert cells(text, "bulk", "10.0", "requests") == times
    assert cells(text, "bulk", "10.0", "tcpdump")[-2] == "<19"
    assert "- bulk: 20 Kafka messages of kanalyze's, 18 of tshark's" in text


def test_what_is_old_is_marked_and_nothing_else() -> None:
    measured = made(BULK)
    assert "†" not in markdown(measured, NOW)
    text = markdown(measured, CHANGED)
    assert cells(text, "bulk", "10.0", "report †")
    assert cells(text, "bulk", "10.0", "requests")
    assert "Measured on revision abc (2026-11-28). The code has changed since" in text
    assert said(measured, CHANGED, "requests") == "Measured on revision abc (2026-11-28)."


def test_seconds_are_those_of_the_longest_capture() -> None:
    names = [f"{name} --jobs {jobs}" for name in ("requests", "report") for jobs in (1, 2)]
    long = {name: took(cpu_s) for name, cpu_s in zip(names, (4.0, 2.0, 8.0, 5.0), strict=True)}
    measured = made(BULK, table("bulk", 10, {**long, "tshark": took(50.0)}))
    seconds = ["100", "8.0 s", "4.0 s", "16.0 s", "10.0 s", "100.0 s"]
    assert cells(short(measured, NOW), "bulk 10-fold") == seconds
    assert cells(short(measured, CHANGED), "bulk 10-fold †") == seconds
