"""Other programs, and what stops a benchmark: one line for people, exit status 2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PACKAGES = {
    "ip": "iproute2",
    "java": "openjdk-17-jdk-headless",
    "mvn": "maven",
    "timeout": "coreutils",
}
_LIMIT_S = 600.0


class BenchmarkError(Exception):
    """Something stands in the way; the text is one line."""


def need(*programs: str) -> None:
    """Raise when a program is not installed, naming its Debian package."""
    for program in programs:
        if shutil.which(program) is None:
            package = _PACKAGES.get(program, program)
            raise BenchmarkError(f"{program} is missing: install the Debian package {package}")


def need_root() -> None:
    """Raise unless this runs as root."""
    if os.geteuid() != 0:
        raise BenchmarkError("run this as root: it makes a network namespace and captures packets")


def output_of(*command: str, folder: Path | None = None) -> str:
    """Run a command, in a folder; return what it writes.

    Raises:
        BenchmarkError: it fails, or does not end.
    """
    words = " ".join(command)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, cwd=folder
        )
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"no end within {_LIMIT_S:.0f} s: {words}") from None
    if done.returncode != 0:
        last = (done.stderr.strip() or "no output").splitlines()[-1]
        raise BenchmarkError(f"exit {done.returncode}: {words}: {last}")
    return done.stdout


def lines_of(*command: str) -> Iterator[str]:
    """Run a command; give its lines as they come. Raises BenchmarkError when it fails."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield from process.stdout or ()
    if process.returncode != 0:
        raise BenchmarkError(f"exit {process.returncode}: {' '.join(command)}")


def run_main(main: Callable[[], None]) -> None:
    """Run a benchmark; end with status 2 and one line when something stands in its way."""
    try:
        main()
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
