"""Everything that has to hold before a change lands, in one command.

    .venv/bin/python tools/check.py [--long]

Runs the linter, the formatter's check, the type checker, the import contracts and the tests, each
to its end, and exits with 1 when one of them fails. The tests come last: their summary is what a
reader looks for.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def steps(*, long: bool) -> list[list[str]]:
    """Return the commands, in order."""
    tests = [str(BIN / "pytest"), "-q", "--durations=5"]
    if long:
        tests += ["-m", "long or not long"]
    return [
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "ruff"), "format", "--check", "."],
        [str(BIN / "mypy")],
        [str(BIN / "lint-imports"), "--no-logo"],
        tests,
    ]


def main() -> int:
    """Run all steps; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true", help="run the long tests too")
    long = parser.parse_args().long
    failed = []
    for command in steps(long=long):
        name = Path(command[0]).name
        began = time.monotonic()
        print(f"== {' '.join([name, *command[1:]])}", flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            failed.append(name)
        print(f"   {name}: {time.monotonic() - began:.1f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
        return 1
    print("all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
