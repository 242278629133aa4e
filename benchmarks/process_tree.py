"""Time and memory of a command and of all that it starts, each process by what it is.

In: a command. Out: :class:`TreeRun`.

What `benchmarks.measure` cannot see: processes that nobody waits for (PySpark's JVM ends after the
program that started it), and those that leave the process group (PySpark's workers). While a
command runs, orphans below this process become its children. Five times a second it looks at each:
time and peak memory are the kernel's own sums, so that only what a process does between the last
look and its end is missing there. Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

JVM, WORKER, OTHER = "JVM", "Python worker", "other"

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_EVERY_S = 0.2
_FIRST_LOOKS = 10
_SHARED_EVERY_LOOKS = 5
_MAX_S = 3600.0
_MAX_S_AFTER = 30.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class ProcessUse:
    """What one process took."""

    kind: str
    cpu_s: float = 0.0
    peak_bytes: int = 0
    """Resident memory, what it shares with others included."""


@dataclass(frozen=True, slots=True)
class TreeRun:
    """What a command took."""

    wall_s: float
    """Until the command itself ended."""
    cpu_s: float
    """User and system, of all processes."""
    together_bytes: int
    """Peak memory of all processes at one time, what they share counted once (PSS); looked at once
    a second."""
    processes: list[ProcessUse]

    def cpu_of(self, kind: str) -> float:
        """Return the seconds of all processes of a kind, as far as they were seen."""
        return sum(process.cpu_s for process in self.processes if process.kind == kind)

    def peak_of(self, kind: str) -> int:
        """Return the peak of the largest process of a kind; 0 where there was none."""
        return max((one.peak_bytes for one in self.processes if one.kind == kind), default=0)

    @property
    def peak_bytes(self) -> int:
        """The peak of the largest process."""
        return max(process.peak_bytes for process in self.processes)


@dataclass(slots=True)
class _Tree:
    """The processes below this one that were not there before."""

    older: frozenset[int]
    seen: dict[int, ProcessUse] = field(default_factory=dict)
    together_bytes: int = 0
    looks: int = 0

    def look(self) -> None:
        """Look at all of them."""
        alive = self.alive()
        for pid, ticks in alive.items():
            use = self.seen.setdefault(pid, ProcessUse(OTHER))
            use.cpu_s = ticks / _TICKS_PER_S
            use.kind = _kind(pid) or use.kind
            use.peak_bytes = max(use.peak_bytes, peak_bytes_of(pid))
        # It takes a while of a large process; a short command would have ended by the second time.
        if self.looks < _FIRST_LOOKS or self.looks % _SHARED_EVERY_LOOKS == 0:
            together = sum(_kib(pid, "smaps_rollup", "Pss:") for pid in alive) * 1024
            self.together_bytes = max(self.together_bytes, together)
        self.looks += 1

    def alive(self) -> Mapping[int, int]:
        """Return the time that each took, in ticks; those that ended and are not waited for too."""
        table = _processes()
        below = {os.getpid()}
        found: dict[int, int] = {}
        # A process may have a lower number than the one that started it.
        while more := {
            pid: ticks
            for pid, (parent, ticks) in table.items()
            if parent in below and pid not in found and pid not in self.older
        }:
            found.update(more)
            below.update(more)
        return found


def measure_tree(command: Sequence[str], environment: Mapping[str, str] | None = None) -> TreeRun:
    """Run a command, its output thrown away, and wait until all that it started has ended.

    Raises:
        BenchmarkError: it fails, or takes an hour; or the system is none that tells.
    """
    if sys.platform != "linux":
        raise BenchmarkError("this takes Linux: it looks at the processes of a command in /proc")
    tree = _Tree(frozenset(_processes()))
    before_s = _children_s()
    with _orphans_come_here(), tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=None if environment is None else {**os.environ, **environment},
        )
        try:
            wall_s = _watch(process, tree, began)
        finally:
            _end(process, tree)
        if process.returncode != 0:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
            words = " ".join(command)
            raise BenchmarkError(": ".join([f"exit {process.returncode}", words[:200], *last]))
    # The kernel's sum misses those whose parent did not care for their end (PySpark's workers);
    # what was seen misses the last moments of each.
    seen_s = sum(use.cpu_s for use in tree.seen.values())
    cpu_s = max(_children_s() - before_s, seen_s)
    return TreeRun(wall_s, cpu_s, tree.together_bytes, list(tree.seen.values()))


def _watch(process: subprocess.Popen[bytes], tree: _Tree, began: float) -> float:
    """Look until the command ends; return how long it took."""
    while True:
        tree.look()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_EVERY_S)
            return time.perf_counter() - began
        if time.perf_counter() - began > _MAX_S:
            raise BenchmarkError(f"no end within {_MAX_S:.0f} s: {process.args!r:.200}")


def _end(process: subprocess.Popen[bytes], tree: _Tree) -> None:
    """Wait for all that is left, and kill it where it does not end."""
    if process.poll() is None:
        process.kill()
        process.wait()
        deadline = 0.0
    else:
        deadline = time.perf_counter() + _MAX_S_AFTER
    while True:
        tree.look()
        alive = tree.alive()
        for pid in alive:
            if time.perf_counter() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # a child of one of the others
                os.waitpid(pid, os.WNOHANG)
        if not alive:
            return
        time.sleep(_LOOK_EVERY_S / 4)


@contextlib.contextmanager
def _orphans_come_here() -> Iterator[None]:
    """Have processes below this one, whose parent ends, become its children."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise BenchmarkError(f"prctl: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _processes() -> dict[int, tuple[int, int]]:
    """Return the parent of each process of the system, and the ticks that it took."""
    found = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - often, and there are many
        if not entry.isdigit():
            continue
        words = _stat(int(entry))
        if words:
            found[int(entry)] = int(words[1]), _ticks(words)
    return found


def cpu_s_of(pid: int) -> float:
    """Return the CPU seconds of a process that runs."""
    return _ticks(_stat(pid)) / _TICKS_PER_S


def peak_bytes_of(pid: int) -> int:
    """Return the most memory that a process had until now, what it shares included."""
    return _kib(pid, "status", "VmHWM:") * 1024


def resident_bytes_of(pid: int) -> int:
    """Return the memory that a process has now, what it shares included."""
    return _kib(pid, "status", "VmRSS:") * 1024


def _stat(pid: int) -> list[str]:
    """Return the fields of proc(5)'s ``stat`` after the program's name, which may hold anything."""
    return _text(pid, "stat").rpartition(")")[2].split()


def _ticks(stat: list[str]) -> int:
    return int(stat[11]) + int(stat[12])


def _kind(pid: int) -> str | None:
    """Return what a process is; None where it has ended."""
    words = _text(pid, "cmdline").split("\0")
    if not words[0]:
        return None
    if Path(words[0]).name == "java":
        return JVM
    return WORKER if "pyspark.daemon" in words else OTHER


def _kib(pid: int, file: str, name: str) -> int:
    lines = _text(pid, file).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(name))


def _text(pid: int, name: str) -> str:
    """Return what the kernel tells of a process; nothing where it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
