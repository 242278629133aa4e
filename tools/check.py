"""Everything that has to hold before a change lands, in one command.

    .venv/bin/python tools/check.py [--long]

Runs the linter, the formatter's check, the type checker, the import contracts and the tests, each
to its end, and exits with 1 when one of them fails. The tests come last: their summary is what a
reader looks for.

The tests that run Spark share one session, in a process of their own, from the beginning on and
beside all else: half of their time they wait for Spark. The other tests are divided among as many
processes as there are processors.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTEST = [str(BIN / "pytest"), "-q", "--durations=5"]


def spark_tests(*, long: bool) -> list[str]:
    """Return the command that runs the tests of Spark, one after the other."""
    marks = "spark" if long else "not long and spark"
    # Of two runs at a time, one keeps what failed last.
    return [*PYTEST, "-p", "no:cacheprovider", "-m", marks, "tests/spark"]


def steps(*, long: bool) -> list[list[str]]:
    """Return the other commands, in order."""
    marks = "not spark" if long else "not long and not spark"
    return [
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "ruff"), "format", "--check", "."],
        [str(BIN / "mypy")],
        [str(BIN / "lint-imports"), "--no-logo"],
        # Neighbours stay together: they share what they make, such as the rows of a capture.
        [*PYTEST, "-n", "auto", "--dist", "worksteal", "-m", marks],
    ]


class Step:
    """One command that runs."""

    def __init__(self, command: list[str], output: IO[str] | None = None) -> None:
        """Start it; ``output`` keeps what it says until it has ended, None shows it at once."""
        self.name = Path(command[0]).name
        self._title = f"== {' '.join([self.name, *command[1:]])}"
        self._output = output
        self._began = time.monotonic()
        if output is None:
            print(self._title, flush=True)
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)

    def passes(self) -> bool:
        """Wait for its end, show what was kept, and tell whether it found nothing wrong."""
        is_right = self._process.wait() == 0
        if self._output is not None:
            self._output.seek(0)
            print(self._title, self._output.read(), sep="\n", end="")
        print(f"   {self.name}: {time.monotonic() - self._began:.1f} s", flush=True)
        return is_right


def main() -> int:
    """Run all steps; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true", help="run the long tests too")
    long = parser.parse_args().long
    failed = []
    with tempfile.TemporaryFile("w+") as said:
        beside = Step(spark_tests(long=long), said)
        for command in steps(long=long):
            step = Step(command)
            if not step.passes():
                failed.append(step.name)
        if not beside.passes():
            failed.append(f"{beside.name} (Spark)")
    if failed:
        print(f"failed: {', '.join(failed)}")
        return 1
    print("all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
