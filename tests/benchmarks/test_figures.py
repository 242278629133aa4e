from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from benchmarks import figures
from benchmarks.errors import BenchmarkError
from benchmarks.figures import Figures, Table
from benchmarks.measure import Measured
from benchmarks.revision import Stamp

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
NOW = {"kafka": "a", "queries": "b", "live": "c"}


def took(*cpus_s: float, peak_mib: int = 100) -> Measured:
    """What runs took; by the clock, twice as much."""
    return Measured([2 * each for each in cpus_s], list(cpus_s), peak_mib * MIB, 7 * MIB)


def table(name: str, times: int, results: dict[str, Measured]) -> Table:
    return Table(name, times, "2026-11-28", times * 10_000_000, (20, 18), 19 * MIB, results)


def made(*tables: Table) -> Figures:
    reads = {"requests": ["kafka"], "report": ["kafka", "queries"]}
    return Figures(Stamp("abc", "2026-11-28", NOW), "2 cores", reads, list(tables))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    first = made(table("java", 1, {"tshark": took(1.5, 2.0)}), table("java", 10, {}))
    first.tables.append(replace(first.tables[0], name="empty", messages=None))
    printed = {"live": Stamp("def", "2026-11-27", {"live": "d"})}
    figures.save(first, printed, tmp_path / "results.json")
    assert figures.load(tmp_path / "results.json") == (first, printed)


def test_what_is_measured_again_takes_the_place_of_what_was() -> None:
    measured = made(table("java", 1, {}), table("java", 10, {}))
    again = table("java", 1, {"tshark": took(1.0)})
    measured.put(again)
    assert [each.times for each in measured.tables] == [10, 1]
    assert measured.tables[1] is again


def test_figures_of_other_code_or_of_another_machine_do_not_mix() -> None:
    measured = made()
    measured.check(Stamp("later", "2026-11-29", dict(NOW)), "2 cores")
    for rooms, machine in ((NOW | {"live": "d"}, "2 cores"), (NOW, "4 cores")):
        with pytest.raises(BenchmarkError, match=r"abc on 2 cores; they do not mix with .* later"):
            measured.check(Stamp("later", "2026-11-29", rooms), machine)


def test_a_figure_is_old_when_what_its_command_reads_has_changed() -> None:
    measured = made()
    now = NOW | {"queries": "changed", "live": "changed"}
    assert [measured.is_old(name, now) for name in ("requests --jobs 2", "report")] == [False, True]
    assert not measured.is_old("tshark", now)
    assert not measured.is_old("report", NOW)


def test_the_longest_capture_that_has_all_of_some_commands() -> None:
    short = table("java", 1, {"requests --jobs 1": took(1.0), "decode": took(2.0)})
    long = table("java", 10, {"requests --jobs 1": took(9.0), "requests --jobs 2": took(5.0)})
    measured = made(short, long, table("bulk", 50, {"decode": took(1.0)}))
    assert measured.longest("java", "requests") is long
    assert measured.longest("java", "requests", "decode") is short
    assert measured.longest("java", "report") is None
    assert long.of("requests") is long.results["requests --jobs 1"]
    assert long.of("requests --jobs 2") is long.results["requests --jobs 2"]


def test_the_peak_of_a_command_is_that_on_any_capture_with_any_number_of_jobs() -> None:
    java = {"requests --jobs 1": took(1.0, peak_mib=90), "report": took(1.0)}
    bulk = {"requests --jobs 2": took(1.0, peak_mib=95)}
    measured = made(table("java", 1, java), table("bulk", 1, bulk))
    assert measured.peak_bytes("requests") == 95 * MIB
