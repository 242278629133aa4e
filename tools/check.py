"""Everything that has to hold before a change lands, in one command.

    .venv/bin/python tools/check.py [--long]

Runs the linter, the formatter's check, the import contracts, the type checker and the tests, all of
them even if one fails, and exits with 1 if one failed.

The type checker, and the tests that run Spark, take one processor each for long: they run in
parallel to everything else, and what they print comes at the end. The tests of Spark share one
session in one process. The other tests run in one process more than there are processors, for
some wait: for a terminal, an interface, a process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTEST = [str(BIN / "pytest"), "-q", "--durations=5"]


def beside(*, long: bool) -> dict[str, list[str]]:
    """Return the commands that run in parallel to all others, by name."""
    marks = "spark" if long else "not long and spark"
    # Two runs at a time cannot share the cache of failed tests.
    spark = [*PYTEST, "-p", "no:cacheprovider", "-m", marks, "tests/spark"]
    return {"mypy": [str(BIN / "mypy")], "pytest (Spark)": spark}


def steps(*, long: bool) -> list[list[str]]:
    """Return the commands that run one after the other."""
    marks = "not spark" if long else "not long and not spark"
    return [
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "ruff"), "format", "--check", "."],
        [str(BIN / "lint-imports"), "--no-logo"],
        # Tests of a file stay together: they share cached results, such as the rows of a capture.
        [*PYTEST, "-n", f"{(os.cpu_count() or 1) + 1}", "--dist", "worksteal", "-m", marks],
    ]


class Step:
    """A running command."""

    def __init__(self, name: str, command: list[str], output: IO[str] | None = None) -> None:
        """Start it. ``output`` buffers its output until it ends; None prints it at once."""
        self.name = name
        self._title = f"== {' '.join([Path(command[0]).name, *command[1:]])}"
        self._output = output
        self._began = time.monotonic()
        if output is None:
            print(self._title, flush=True)
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
        self._took_s = 0.0
        self._waiting = threading.Thread(target=self._wait)
        self._waiting.start()

    def _wait(self) -> None:
        self._process.wait()
        self._took_s = time.monotonic() - self._began

    def passes(self) -> bool:
        """Wait for the end, print buffered output, and return whether the command succeeded."""
        self._waiting.join()
        if self._output is not None:
            self._output.seek(0)
            print(self._title, self._output.read(), sep="\n", end="")
        print(f"   {self.name}: {self._took_s:.1f} s", flush=True)
        return self._process.returncode == 0


def main() -> int:
    """Run all steps; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true", help="run the long tests too")
    long = parser.parse_args().long
    with ExitStack() as stack:
        parallel = [
            Step(name, command, stack.enter_context(tempfile.TemporaryFile("w+")))
            for name, command in beside(long=long).items()
        ]
        failed = []
        for command in steps(long=long):
            step = Step(Path(command[0]).name, command)
            if not step.passes():
                failed.append(step.name)
        failed += [step.name for step in parallel if not step.passes()]
    if failed:
        print(f"failed: {', '.join(failed)}")
        return 1
    print("all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
