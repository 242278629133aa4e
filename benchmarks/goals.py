"""What kanalyze shall reach, beside what it does.

In: :class:`Figures`. Out: cells of tables. All by the quickest run of each command, on the longest
capture of its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import programs
from benchmarks.figures import EMPTY
from benchmarks.programs import REPORT, REQUESTS, TSHARK, base_name, with_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figures

    Row = tuple[tuple[str, ...], list[str]]
    """The commands that it is of, and its cells."""

TIMES_TSHARK = {
    ("bulk", REQUESTS): (35, 50),
    ("java", REQUESTS): (16, 28),
    ("java", REPORT): (11, 20),
    ("small", REQUESTS): (14, 25),
    ("small", REPORT): (10, 17),
    ("mixed", REQUESTS): (20, 35),
    ("mixed", REPORT): (14, 24),
    ("many", REQUESTS): (10, 17),
}
"""How many times as long tshark shall take: CPU beside one job, wall time beside two."""
RATIOS = (
    *((kind, with_jobs(REQUESTS, 2), REQUESTS, 1.1) for kind in ("java", "small")),
    *((kind, REPORT, REQUESTS, 1.5) for kind in ("java", "small", "mixed")),
    ("java", programs.CSV, REQUESTS, 1.5),
    ("java", programs.JSON_LINES, REQUESTS, 1.5),
    ("java", "extract", REQUESTS, 1.5),
    ("java", "records", "decode", 1.5),
    (EMPTY, programs.CSV, programs.START, 5.0),
    (EMPTY, programs.HELP, programs.START, 3.0),
)
"""Of a capture and two commands, how many times the CPU of the second the first may take."""
RATES = (("java", "anonymize", 40), ("compressed", "anonymize", 10))
"""MB/s that a command shall reach, with as many jobs as were tried."""
PEAKS = ((REQUESTS, 160), (REPORT, 250))
"""MB of resident memory that a command may take, whatever the capture."""


def beside_tshark(figures: Figures) -> Iterator[Row]:
    """Give captures, commands, what these reached, and the goals."""
    for (kind, command), (cpu_goal, wall_goal) in TIMES_TSHARK.items():
        table = figures.longest(kind, command, two_jobs := with_jobs(command, 2), TSHARK)
        if table is not None:
            tshark, one, two = table.of(TSHARK), table.of(command), table.of(two_jobs)
            cpu, wall = tshark.least_cpu_s / one.least_cpu_s, tshark.least_wall_s / two.least_wall_s
            reached = [f"{cpu:.1f}", f"{cpu_goal}", f"{wall:.1f}", f"{wall_goal}"]
            yield (command,), [table.title, command, *reached]


def bounds(figures: Figures) -> Iterator[Row]:
    """Give captures, what is measured, what it is, and the bound."""
    for kind, command, base, most in RATIOS:
        table = figures.longest(kind, command, base)
        if table is not None:
            ratio = table.of(command).least_cpu_s / table.of(base).least_cpu_s
            what = f"CPU of {command} ÷ {base}"
            yield (command, base), [table.title, what, f"{ratio:.2f}", f"at most {most}"]
    for kind, command, least in RATES:
        table = figures.longest(kind, command)
        if table is not None:
            runs = [run for name, run in table.results.items() if base_name(name) == command]
            rate = table.file_bytes / 1e6 / min(run.least_wall_s for run in runs)
            what = f"MB/s of {command}"
            yield (command,), [table.title, what, f"{rate:.1f}", f"at least {least}"]
    for command, most in PEAKS:
        megabytes = figures.peak_bytes(command) / 1e6
        what = f"MB of memory of {command}"
        yield (command,), ["any", what, f"{megabytes:.0f}", f"at most {most}"]
