from __future__ import annotations

from benchmarks.measure import Measured
from benchmarks.tables import EMPTY, Result, Table, markdown

MIB = 1 << 20


def cpu_s(wall_s: float) -> float:
    return wall_s**2


def table(name: str, times: int, ours_s: float, tshark_s: float, tcpdump_s: float) -> Table:
    walls = {"kanalyze requests": ours_s, "tshark": tshark_s, "tcpdump": tcpdump_s}
    return Table(
        name,
        times,
        file_bytes=times * 10_000_000,
        results={
            command: Result(Measured(wall, wall / 2, wall * 2, cpu_s(wall), 4096 * MIB), None)
            for command, wall in walls.items()
        },
    )


def cells(text: str, *beginning: str) -> list[str]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    (found,) = [row for row in rows if row[: len(beginning)] == list(beginning)]
    return found[len(beginning) :]


def test_a_line_has_rates_and_ratios() -> None:
    text = markdown([table("bulk", 1, 2.0, 5.0, 0.1)], ["2 cores"])
    expected = ["2.000 (1.000-4.000)", "4.000", "5", "2.50", "20.0", "4,096", ""]
    assert cells(text, "bulk", "10.0", "kanalyze requests") == expected


def test_growth_does_not_include_the_start_up() -> None:
    tables = [
        table(EMPTY, 1, 0.5, 0.5, 0.5),
        table("bulk", 1, 1.5, 2.5, 0.5),
        table("bulk", 10, 10.5, 40.5, 0.9),
    ]
    # tcpdump took no longer than its start-up, so its growth is unknown.
    assert cells(markdown(tables, []), "bulk 10-fold", "wall") == ["10.0", "20.0", ""]
    assert cells(markdown(tables, []), "bulk 10-fold", "CPU") == ["55.0", "273.3", ""]
