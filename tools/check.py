"""Everything that has to hold before a change lands, in one command.

    .venv/bin/python tools/check.py [--long]

Runs the linter, the formatter's check, the type checker, the import contracts and the tests, all of
them even if one fails, and exits with 1 if one failed. The tests come last, so that their summary
is at the end.

The tests that run Spark share one session in one process, which runs in parallel to everything
else. The other tests run in as many processes as there are processors.
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
    """Return the command that runs the tests of Spark in one process."""
    marks = "spark" if long else "not long and spark"
    # Two runs at a time cannot share the cache of failed tests.
    return [*PYTEST, "-p", "no:cacheprovider", "-m", marks, "tests/spark"]


def steps(*, long: bool) -> list[list[str]]:
    """Return the commands that run one after the other."""
    marks = "not spark" if long else "not long and not spark"
    return [
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "ruff"), "format", "--check", "."],
        [str(BIN / "mypy")],
        [str(BIN / "lint-imports"), "--no-logo"],
        # Tests of a file stay together: they share cached results, such as the rows of a capture.
        [*PYTEST, "-n", "auto", "--dist", "worksteal", "-m", marks],
    ]


class Step:
    """A running command."""

    def __init__(self, command: list[str], output: IO[str] | None = None) -> None:
        """Start it. ``output`` buffers its output until it ends; None prints it at once."""
        self.name = Path(command[0]).name
        self._title = f"== {' '.join([self.name, *command[1:]])}"
        self._output = output
        self._began = time.monotonic()
        if output is None:
            print(self._title, flush=True)
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)

    def passes(self) -> bool:
        """Wait for the end, print buffered output, and return whether the command succeeded."""
        succeeded = self._process.wait() == 0
        if self._output is not None:
            self._output.seek(0)
            print(self._title, self._output.read(), sep="\n", end="")
        print(f"   {self.name}: {time.monotonic() - self._began:.1f} s", flush=True)
        return succeeded


def main() -> int:
    """Run all steps; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true", help="run the long tests too")
    long = parser.parse_args().long
    failed = []
    with tempfile.TemporaryFile("w+") as output:
        spark = Step(spark_tests(long=long), output)
        for command in steps(long=long):
            step = Step(command)
            if not step.passes():
                failed.append(step.name)
        if not spark.passes():
            failed.append(f"{spark.name} (Spark)")
    if failed:
        print(f"failed: {', '.join(failed)}")
        return 1
    print("all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
