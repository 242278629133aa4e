"""Time and memory of a whole command: what the system says of it, from outside.

In: a command. Out: :class:`Run`. So no NumPy here, nor in what imports this. Linux and macOS.
"""

from __future__ import annotations

import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from benchmarks.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MAXRSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True)
class Run:
    """What a command took."""

    wall_s: float
    cpu_s: float
    """User and system, with all child processes that it waited for."""
    peak_bytes: int
    """Resident memory of its largest process: not a sum."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What some runs of a command took."""

    walls_s: list[float]
    cpus_s: list[float]
    peak_bytes: int
    """The highest."""
    together_bytes: int | None = None
    """Peak of all its processes together (PSS); None where it was not asked for or is not told."""

    @classmethod
    def of(cls, runs: Sequence[Run], together_bytes: int | None = None) -> Measured:
        """Sum up; there is at least one run."""
        return cls(
            [round(run.wall_s, 4) for run in runs],
            [round(run.cpu_s, 4) for run in runs],
            max(run.peak_bytes for run in runs),
            together_bytes,
        )

    @property
    def wall_s(self) -> float:
        """The median."""
        return statistics.median(self.walls_s)

    @property
    def cpu_s(self) -> float:
        """The median."""
        return statistics.median(self.cpus_s)

    @property
    def least_wall_s(self) -> float:
        """That of the quickest run: what the others took more is of other programs."""
        return min(self.walls_s)

    @property
    def least_cpu_s(self) -> float:
        """That of the run that took least."""
        return min(self.cpus_s)


def measure(command: Sequence[str]) -> Run:
    """Run a command, its output thrown away; raises BenchmarkError when it fails."""
    with tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        with _running(command, errors) as process:
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        _check(command, process.returncode, errors)
    return Run(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _MAXRSS_UNIT_BYTES)


def least_peak_bytes() -> int:
    """Return the peak that is told of a command that needs less: what this process took so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT_BYTES


@contextmanager
def _running(command: Sequence[str], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a process group of its own, which ends when this is interrupted."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        process_group=0,
    )
    try:
        yield process
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _check(command: Sequence[str], status: int, errors: IO[bytes]) -> None:
    if status != 0:
        errors.seek(0)
        last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
        raise BenchmarkError(": ".join([f"exit {status}", " ".join(command), *last]))
