"""Writes every page that states a figure, from `results.json`; each says what it is a figure of.

    python -m benchmarks.publish [--check]
    python -m benchmarks.publish --printed NAME

`python -m benchmarks.compare` does the first after it has measured. It is due again, and takes
seconds, when the code has changed: figures of commands whose code is no longer what was measured
are marked then, on every page (`tests/benchmarks/test_publish.py` fails until they are). So the
text is true at each commit, and nobody has to measure for hours for each. With --check nothing is
written, and the status is 1 where a page is not as it is to be.

--printed is for the tables that people copy from what other commands print: NAME is that of a
"measured" marker on a page, and what they are figures of is the code as it is.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from benchmarks import figures, revision, tables
from benchmarks.errors import BenchmarkError, run_main
from benchmarks.figures import EMPTY, RESULTS
from benchmarks.programs import REPORT, REQUESTS, TSHARK
from benchmarks.tables import measured_on, said
from tools import docs_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from benchmarks.figures import Figures
    from benchmarks.revision import Stamp

    Rooms = dict[str, str]

PAGE = RESULTS.with_suffix(".md")
_PARTS = re.compile(r"^<!-- (.+) begins -->$", re.MULTILINE)
_PRINTED = "measured "
"""What the marker of figures that another command prints begins with, before their name."""
_COMPARED = (REQUESTS, REPORT)
_ALL = "these figures are of before"


def pages(measured: Figures, printed: Mapping[str, Stamp], now: Rooms) -> dict[Path, str]:
    """Return the pages that state figures; ``now`` is the code as it is.

    Raises:
        BenchmarkError: a page has figures that nothing says the revision of.
    """
    made = {}
    for page in (*docs_pages.pages(), *sorted(RESULTS.parent.glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        for name in _PARTS.findall(text):
            if name in PARTS:
                part = PARTS[name](measured, now)
            elif name.startswith(_PRINTED):
                part = of_printed(name.removeprefix(_PRINTED), printed, now)
            else:
                continue
            made[page] = text = docs_pages.between(text, name, part + "\n")
    return made | {PAGE: tables.markdown(measured, now)}


def of_printed(name: str, printed: Mapping[str, Stamp], now: Rooms) -> str:
    """Return what the figures are of that another command printed."""
    if name not in printed:
        raise BenchmarkError(f"of which revision is {name}? benchmarks.publish --printed {name}")
    return measured_on(printed[name], _ALL if printed[name].changed(now) else None)


def speed(measured: Figures, now: Rooms) -> str:
    """Return what the longest captures take, and what they take of memory."""
    of_what = said(measured, now, *_COMPARED)
    heading = f"On {measured.machine}. {of_what} Of several runs, the quickest:"
    return "\n\n".join([heading, tables.short(measured, now), memory(measured, now)])


def goals(measured: Figures, now: Rooms) -> str:
    """Return how many times as long tshark takes, and what was to be reached."""
    return f"{said(measured, now, *_COMPARED)}\n\n{tables.shown(measured, now)}"


def memory(measured: Figures, now: Rooms) -> str:
    """Return the most memory that one process takes."""
    sizes = [table.file_bytes / 1e6 for table in measured.tables if table.name != EMPTY]
    most = [measured.peak_bytes(name) / (1 << 20) for name in (*_COMPARED, TSHARK)]
    text = (
        f"On captures of {min(sizes):,.0f} to {max(sizes):,.0f} MB, a process takes up to "
        f"{most[0]:,.0f} MiB of memory for `requests` and {most[1]:,.0f} MiB for `report`, "
        f"tshark {most[2]:,.0f} MiB. "
    )
    is_old = any(measured.is_old(name, now) for name in _COMPARED)
    return text + measured_on(measured.stamp, _ALL if is_old else None)


PARTS: dict[str, Callable[[Figures, Rooms], str]] = {
    "speed": speed,
    "goals of speed": goals,
    "memory": memory,
}
"""What makes a part of a page, by the name that its markers have."""


def write(*, only_checks: bool = False) -> int:
    """Write the pages that are not as they are to be, or only say which; return the status."""
    measured, printed = figures.load()
    made = pages(measured, printed, revision.rooms())
    return docs_pages.write_changed(made.items(), only_checks=only_checks)


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description="Write the pages that state figures.")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--printed", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.printed:
        measured, printed = figures.load()
        figures.save(measured, printed | {arguments.printed: revision.stamp()}, RESULTS)
    sys.exit(write(only_checks=arguments.check))


if __name__ == "__main__":
    run_main(main)
