"""What each query of a report takes, and what fills the database, on one capture.

    python -m benchmarks.queries CAPTURE [--rounds N]

Runs `kanalyze report` in this process, one job, with the processor time of each statement of DuckDB
counted for the query, or the derived table, that it is of. Prints a Markdown table of the lowest of
all rounds: first the parts, then the statements from 1 ms on. `reading` is what is none of the
others: the capture, rows, the text of the report.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import programs
from benchmarks.errors import run_main
from kanalyze.cli.main import main as kanalyze
from kanalyze.export.arrow import BatchMaker
from kanalyze.queries.database import Database, DerivedViews

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READING, ARROW, INSERTING, DERIVED = "reading", "Arrow", "inserting", "derived tables"
ANSWERS, WHOLE = "queries", "all"
_SHOWN_FROM_S = 0.001


class Watch:
    """Counts processor time for the innermost thing that runs."""

    def __init__(self) -> None:
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._running = [(READING, "")]
        self._since_s = time.process_time()

    @contextlib.contextmanager
    def on(self, part: str, name: str) -> Iterator[None]:
        """Count the time of a block for something."""
        self._count()
        self._running.append((part, name))
        try:
            yield
        finally:
            self._count()
            self._running.pop()

    def _count(self) -> None:
        now_s = time.process_time()
        self.seconds[self._running[-1]] += now_s - self._since_s
        self._since_s = now_s

    def end(self) -> dict[tuple[str, str], float]:
        """Return the seconds of each part and name."""
        self._count()
        return dict(self.seconds)


@contextlib.contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Let databases tell what they are at."""

    def telling(method: Callable[..., Any], part: str, name_at: int | None) -> Callable[..., Any]:
        def told(*arguments: Any, **named: Any) -> Any:
            of = "" if name_at is None else arguments[name_at]
            with watch.on(part, getattr(of, "name", of)):
                return method(*arguments, **named)

        return told

    changed = (
        (BatchMaker, "of_block", ARROW, None),
        (BatchMaker, "of_rows", ARROW, None),
        (Database, "answer", ANSWERS, 1),
        (Database, "insert", INSERTING, 1),
        (Database, "_insert_all", INSERTING, None),
        (DerivedViews, "_create", DERIVED, 1),
    )
    usual = [(kind, name, getattr(kind, name)) for kind, name, *_ in changed]
    for kind, name, part, name_at in changed:
        setattr(kind, name, telling(getattr(kind, name), part, name_at))
    try:
        yield
    finally:
        for kind, name, method in usual:
            setattr(kind, name, method)


def report_once(capture: Path) -> dict[tuple[str, str], float]:
    """Make a report; return the seconds of each part and name."""
    watch = Watch()
    with (
        watched(watch),
        Path(os.devnull).open("w", encoding="utf-8") as nothing,
        contextlib.redirect_stdout(nothing),
    ):
        status = kanalyze(["report", str(capture), "--jobs", "1"])
    assert status == 0, f"report on {capture} failed"
    return watch.end()


def lines_of(rounds: list[dict[tuple[str, str], float]]) -> list[str]:
    """Return the lines of the table: parts, and statements from the longest on."""
    least = {key: min(each.get(key, 0.0) for each in rounds) for key in rounds[-1]}
    parts: defaultdict[str, float] = defaultdict(float)
    for (part, _), seconds in least.items():
        parts[part] += seconds
        parts[WHOLE] += seconds
    lines = [f"| {part} | | {seconds:.3f} |" for part, seconds in parts.items()]
    for (part, name), seconds in sorted(least.items(), key=lambda item: -item[1]):
        if name and seconds >= _SHOWN_FROM_S:
            lines.append(f"| {part} | {name} | {seconds:.3f} |")
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What each query of a report takes.")
    parser.add_argument("capture", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    report_once(arguments.capture)  # what imports take is in benchmarks.stages
    rounds = [report_once(arguments.capture) for _ in range(arguments.rounds)]
    print(f"{programs.machine()}; {arguments.capture.name}\n")
    print("| part | query or table | CPU seconds |\n|---|---|---:|")
    print("\n".join(lines_of(rounds)))


if __name__ == "__main__":
    run_main(main)
