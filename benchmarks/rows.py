"""What the rows of each table take, on one capture: a report needs more of them than `requests`.

    python -m benchmarks.rows CAPTURE [--rounds N]

Reads the capture in this process, one job, and makes the rows of more and more tables, without
putting them anywhere. Prints a Markdown table with the lowest processor time of all rounds.
"""

from __future__ import annotations

import argparse
import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import programs
from benchmarks.errors import run_main
from kanalyze.runtime.pipeline import Analysis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FACTS = ("groups", "metadata")
_MADE: dict[str, Callable[[Analysis], Iterable[object]]] = {
    "requests": lambda run: run.table_rows(others=False),
    "requests, groups, metadata": lambda run: run.table_rows(_FACTS, others=False, offsets=False),
    "requests, connections": lambda run: run.table_rows(anomalies=False),
    "requests, connections, anomalies with CRCs": lambda run: run.table_rows(),
    "all of a report": lambda run: run.table_rows(_FACTS, offsets=False),
}


def seconds(capture: Path, rows_of: Callable[[Analysis], Iterable[object]]) -> float:
    """Make rows once; return the processor time."""
    gc.collect()
    analysis = Analysis([str(capture)])
    begin_s = time.process_time()
    for _ in rows_of(analysis):
        pass
    return time.process_time() - begin_s


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What the rows of each table take.")
    parser.add_argument("capture", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    least_s = dict.fromkeys(_MADE, float("inf"))
    for _ in range(options.rounds):
        for name, rows_of in _MADE.items():
            least_s[name] = min(least_s[name], seconds(options.capture, rows_of))
    print(f"{programs.machine()}; {options.capture.name}\n")
    print("| rows of | CPU seconds |\n|---|---:|")
    print("\n".join(f"| {name} | {took_s:.3f} |" for name, took_s in least_s.items()))


if __name__ == "__main__":
    run_main(main)
