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
from pathlib import Path
from typing import IO, TYPE_CHECKING

from benchmarks.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_POLL_S = 0.02
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
    """What some runs of a command took: medians, and the highest peak."""

    wall_s: float
    least_wall_s: float
    most_wall_s: float
    cpu_s: float
    peak_bytes: int

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Measured:
        """Sum up; there is at least one run."""
        walls = [run.wall_s for run in runs]
        return cls(
            wall_s=statistics.median(walls),
            least_wall_s=min(walls),
            most_wall_s=max(walls),
            cpu_s=statistics.median(run.cpu_s for run in runs),
            peak_bytes=max(run.peak_bytes for run in runs),
        )


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


def peak_together(command: Sequence[str]) -> int | None:
    """Run a command; return the most bytes that all its processes had together.

    Memory that processes share counts once (PSS). Looked at every 20 ms, so that a short peak may
    be missed; and looking takes time, so that this is no run to time. None where the system does
    not tell (other than Linux). Raises BenchmarkError when the command fails.
    """
    if sys.platform != "linux":
        return None
    peak = 0
    with tempfile.TemporaryFile() as errors:
        with _running(command, errors) as process:
            while process.poll() is None:
                peak = max(peak, sum(_shared_out_bytes(pid) for pid in _group(process.pid)))
                time.sleep(_POLL_S)
        _check(command, process.returncode, errors)
    return peak


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


def _group(leader: int) -> list[int]:
    """Return the processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == leader:
                found.append(int(entry.name))
        except ProcessLookupError:
            continue
    return found


def _shared_out_bytes(pid: int) -> int:
    """Return a process's share of the memory that it uses; 0 when it just ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line[:4] == "Pss:")
