"""Everything that has to hold before a change lands, in one command.

    .venv/bin/python tools/check.py [--long]

Runs the linter, the formatter's check, the import contracts, the type checker and the tests, all of
them even if one fails, and exits with 1 if one failed.

The tests of a folder run in one process, because they share cached results, such as the rows of a
capture. Small folders share a process: its start and its imports take a second. Two commands more
than there are processors run at a time, because many tests wait: for a terminal, an interface,
another process. Commands that take long are started first. Of each is said how long it took, and
what of a processor, with all that it started. Where the sum of these is all that the processors
have, less work makes the check faster, and another order does not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
TESTS = ROOT / "tests"

SLOW_FOLDERS = {"spark": 1, "batch": 2, "cli": 3, "live": 1}
"""Folders of tests that take long, and among how many processes their files are dealt. They are
started before all others but the first of ``SHARED``, in this order."""

SHARED = (
    ("queries", "docs"),  # both look for findings in all captures
    ("api", "export", "runtime", "extraction", "anonymization"),
    ("tls", "tables", "decoding"),
    ("benchmarks", "captures", "common", "fuzz", "model"),
)
"""Folders whose tests run in one process, those that take longest first."""

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "OPENBLAS_NUM_THREADS": "1",
}
"""The environment of all commands. Tests start hundreds of processes, each of which would compile
all modules that it imports, and pytest would rewrite hypothesis each time it starts. Threads for
matrices, which nothing here has, would spin for 50 ms in each process that imports NumPy."""

NO_TESTS = 5
"""Exit status of pytest if it has run no test: all tests of a folder may be long ones."""


class Command(NamedTuple):
    """A command of the check."""

    name: str
    arguments: list[str]
    good: frozenset[int] = frozenset({0})
    """The exit statuses of success."""


class Result(NamedTuple):
    """How a command ended."""

    command: Command
    passes: bool
    output: str
    """Standard output and standard error."""
    took_s: float
    processor_s: float
    """What it and the processes that it started took of the processors."""


def commands(*, long: bool) -> list[Command]:
    """Return all commands, in the order in which they are started."""
    folders = sorted({path.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")})
    shared = {name for names in SHARED for name in names}
    alone = [name for name in folders if name not in SLOW_FOLDERS and name not in shared]
    marks = "" if long else "not long"
    first, *others_shared = (_tests(f"tests/ {' '.join(names)}", marks, names) for names in SHARED)
    return [
        first,
        *(
            _tests(f"tests/{name}, {part} of {parts}", marks, [name], others)
            for name, parts in SLOW_FOLDERS.items()
            for part, others in enumerate(_files_of_other_parts(TESTS / name, parts), 1)
        ),
        _tests("tests/*.py", marks, ["."], [TESTS / name for name in folders]),
        Command("mypy", [str(BIN / "mypy")]),
        *others_shared,
        *(_tests(f"tests/{name}", marks, [name]) for name in alone),
        Command("lint-imports", [str(BIN / "lint-imports"), "--no-logo"]),
        Command("ruff check", [str(BIN / "ruff"), "check", "."]),
        Command("ruff format", [str(BIN / "ruff"), "format", "--check", "."]),
    ]


def _files_of_other_parts(folder: Path, parts: int) -> list[list[Path]]:
    """Return for each part of a folder the files with tests that are in the other parts.

    Files are dealt in turn, because those that wait have similar names.
    """
    files = sorted(folder.rglob("test_*.py"))
    return [[file for file in files if file not in files[part::parts]] for part in range(parts)]


def _tests(name: str, marks: str, folders: Sequence[str], ignored: Sequence[Path] = ()) -> Command:
    # Several processes cannot share pytest's cache. Files are left out rather than named: pytest
    # collects a file that is named even if conftest.py ignores it, as where tshark is missing.
    # No test needs log records, which pytest would catch for each test.
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:logging", "-m", marks]
    leave_out = [f"--ignore={path}" for path in ignored]
    named = [str(TESTS / folder) for folder in folders]
    arguments = [sys.executable, "-m", "tools.run_tests", *options, *leave_out, *named]
    return Command(name, arguments, frozenset({0, NO_TESTS}))


def run(command: Command) -> Result:
    """Run a command to its end."""
    began = time.monotonic()
    process = subprocess.Popen(
        command.arguments,
        cwd=ROOT,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    passes = process.returncode in command.good
    took_s = time.monotonic() - began
    return Result(command, passes, output, took_s, used.ru_utime + used.ru_stime)


def show(result: Result) -> None:
    """Print the last line of a command that succeeded, and all that one printed that failed."""
    lines = result.output.rstrip().splitlines() or [""]
    verdict = lines[-1] if result.passes else "FAILED"
    times = f"{result.took_s:6.1f} s, {result.processor_s:6.1f} s of a processor"
    print(f"{times}  {result.command.name}: {verdict}", flush=True)
    if not result.passes:
        print(*lines, sep="\n", flush=True)


def main() -> int:
    """Run all commands; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true", help="run the long tests too")
    todo = commands(long=parser.parse_args().long)
    began = time.monotonic()
    failed, used_s = [], []
    printing = threading.Lock()

    def run_and_show(command: Command) -> None:
        result = run(command)
        with printing:
            show(result)
        used_s.append(result.processor_s)
        if not result.passes:
            failed.append(command.name)

    with ThreadPoolExecutor((os.cpu_count() or 1) + 2) as pool:
        list(pool.map(run_and_show, todo))
    print(f"{time.monotonic() - began:.0f} s in all, {sum(used_s):.0f} s of a processor")
    if failed:
        print(f"failed: {', '.join(failed)}")
        return 1
    print("all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
