"""Runs targets on hostile inputs, and reports what broke.

    python -m tests.fuzz.run [--target NAME,...|all] [--runs N | --seconds S] [--seed K]
                             [--jobs J] [--atheris]

``--runs`` and ``--seconds`` are for all targets together: each gets its part by its weight (see
:mod:`tests.fuzz.table`). Inputs are the same on every machine for the same seed and number of runs;
with ``--seconds``, they depend on the machine. Each target runs in a process of its own,
``--jobs`` of them at a time, and prints a line as soon as it is done:

    inputs, inputs/s, the slowest input in ms of processor time, growth of memory in MiB

Growth is that of the resident set, from a tenth of the inputs to the last. A finding is an input
that raised, that took longer than its size allows (three times over), or a target that grew by more
than 32 MiB. Inputs of findings are reduced and saved in ``tests/fuzz/cases/TARGET/``, where
``tests/fuzz/test_fuzz.py`` tries them in every run of the tests; the exit status is 1.

``--atheris`` lets atheris (libFuzzer) choose inputs by the code that they cover, if it is installed
(``pip install atheris``, no dependency of the tests): one target, until Ctrl-C or ``--runs``.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.fuzz.mutate import Mutator
from tests.fuzz.reduce import smaller
from tests.fuzz.table import TARGETS
from tests.support.effort import took_soon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

CASES = Path(__file__).resolve().parent / "cases"
DEFAULT_RUNS = 100_000
HANG_SECONDS = 20.0
"""Processor time after which one input is stopped."""
_DEAD_SECONDS = 900.0
"""Time after which 4096 inputs count as hanging in code that cannot be stopped: then the process is
ended with a traceback."""
_SLOW_SECONDS = 0.25
_SLOW_SECONDS_A_BYTE = 20e-6
"""The time that an input may take: a hundred times that of valid inputs."""
_MAX_GROWTH_MIB = 32.0
_MAX_FINDINGS = 10
_WARM_PART = 10
_MIB = 1 << 20


class TooSlow(Exception):
    """An input took more processor time than is allowed."""


class Finding(NamedTuple):
    """An input that broke the invariant, and how."""

    what: str
    """Type and text of the exception and the line that raised it."""
    data: bytes
    trace: str


class Report(NamedTuple):
    """The result of a run of one target."""

    name: str
    inputs: int
    seconds: float
    slowest_ms: float
    growth_mib: float
    findings: list[Finding]

    def line(self) -> str:
        """Return the report as one line."""
        rate = self.inputs / max(self.seconds, 1e-9)
        return (
            f"{self.name:12} {self.inputs:>10,} inputs {rate:>9,.0f}/s "
            f"slowest {self.slowest_ms:>7.1f} ms growth {self.growth_mib:>6.1f} MiB "
            f"findings {len(self.findings)}"
        )


# -- one target -----------------------------------------------------------------------------------


def fuzz(
    name: str, *, runs: int | None, seconds: float | None, seed: int, every: int = 1
) -> Report:
    """Run one target on ``runs`` inputs or for ``seconds``; every seed comes first, unchanged.

    With ``every`` = n, only each n-th seed is taken. Seeds that cannot be made are a finding too:
    the other targets are still run.
    """
    try:
        own = TARGETS[name].seeds()[::every]
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        return Report(name, 0, 0, 0, 0, [Finding(_what(error), b"", traceback.format_exc())])
    handler = signal.signal(signal.SIGPROF, _stop)
    try:
        return _fuzz(name, own, runs, seconds, seed)
    finally:
        signal.signal(signal.SIGPROF, handler)


def _fuzz(
    name: str, own: list[bytes], runs: int | None, seconds: float | None, seed: int
) -> Report:
    target = TARGETS[name]
    mutator = Mutator(own, seed=seed, most_bytes=target.most_bytes, shape=target.shape)
    findings: dict[str, Finding] = {}
    began = time.monotonic()
    slowest, done, warm_mib = 0.0, 0, 0.0
    for data in _inputs(own, mutator, runs, began, seconds):
        if done & 4095 == 0:
            faulthandler.dump_traceback_later(_DEAD_SECONDS, exit=True)
        found, took = _try(target.run, data)
        if found is not None and found.what not in findings:
            findings[found.what] = found
            if len(findings) >= _MAX_FINDINGS:
                break
        slowest = max(slowest, took)
        done += 1
        if warm_mib == 0.0 and _is_warm(done, len(own), runs, began, seconds):
            warm_mib = resident_mib()
    faulthandler.cancel_dump_traceback_later()
    growth = resident_mib() - (warm_mib or resident_mib())
    if growth > _MAX_GROWTH_MIB:
        what = f"memory grew by {growth:.1f} MiB"
        findings[what] = Finding(what, b"", "")
    elapsed = time.monotonic() - began
    return Report(name, done, elapsed, slowest * 1000, growth, list(findings.values()))


def _inputs(
    own: list[bytes], mutator: Mutator, runs: int | None, began: float, seconds: float | None
) -> Iterator[bytes]:
    number = 0
    while runs is None or number < runs:
        if seconds is not None and number & 63 == 0 and time.monotonic() - began > seconds:
            return
        yield own[number] if number < len(own) else mutator.next()
        number += 1


def _is_warm(done: int, own: int, runs: int | None, began: float, seconds: float | None) -> bool:
    if done < own:
        return False
    if runs is not None:
        return done >= runs // _WARM_PART
    return seconds is not None and time.monotonic() - began > seconds / _WARM_PART


def _try(run: Callable[[bytes], None], data: bytes) -> tuple[Finding | None, float]:
    """Run an input; return its finding, if any, and its seconds of processor time."""
    took, found = _timed(run, data)
    most = _SLOW_SECONDS + _SLOW_SECONDS_A_BYTE * len(data)
    if found is None and took > most:
        # The garbage collector or the compiler of decoders may have run in between.
        took = min(took, *(_timed(run, data)[0] for _ in range(2)))
        if not took_soon(took, most):
            found = Finding(f"slow: {len(data)} bytes took {took:.2f} s", data, "")
    return found, took


def _timed(run: Callable[[bytes], None], data: bytes) -> tuple[float, Finding | None]:
    began = time.thread_time()
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
    found = None
    try:
        run(data)
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        found = Finding(_what(error), data, traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return time.thread_time() - began, found


def _what(error: Exception) -> str:
    """Name a finding: the same for inputs that break in the same place."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next(
        (frame for frame in reversed(frames) if Path(frame.filename).name != "invariant.py"),
        frames[-1],
    )
    text = str(error)
    digits = "".join("#" if letter.isdigit() else letter for letter in text)[:80]
    return f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {digits}"


def resident_mib() -> float:
    """Return the memory of the process now, or its peak where the system has no other figure."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (_MIB if sys.platform == "darwin" else 1024)
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise TooSlow(f"more than {HANG_SECONDS:.0f} s on one input")


# -- findings -------------------------------------------------------------------------------------


def save(name: str, finding: Finding, folder: Path = CASES) -> Path:
    """Make the input of a finding small, and save it as a case."""

    def breaks(data: bytes) -> bool:
        found, _ = _try(TARGETS[name].run, data)
        return found is not None and found.what == finding.what

    data = smaller(finding.data, breaks)
    path = folder / name / f"{hashlib.sha256(data).hexdigest()[:12]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# -- many targets ---------------------------------------------------------------------------------


class _Job(NamedTuple):
    name: str
    runs: int | None
    seconds: float | None
    seed: int


def _work(job: _Job) -> Report:
    """Run a target in a process of its own; save and print its findings."""
    report = fuzz(job.name, runs=job.runs, seconds=job.seconds, seed=job.seed)
    _say(report.line())
    for finding in report.findings:
        case = save(job.name, finding) if finding.data else "-"
        _say(f"  {finding.what}\n  {case}\n{finding.trace}")
    return report


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a command, whose output this is


def _jobs(names: list[str], runs: int | None, seconds: float | None, seed: int) -> list[_Job]:
    weights = {name: TARGETS[name].weight for name in names}
    total = sum(weights.values())
    return [
        _Job(
            name,
            None if runs is None else max(1, runs * weight // total),
            None if seconds is None else seconds * weight / total,
            seed,
        )
        for name, weight in weights.items()
    ]


def run_all(jobs: list[_Job], processes: int) -> list[Report]:
    """Run jobs, each in a new process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(processes, len(jobs)), maxtasksperchild=1) as pool:
        return pool.map(_work, jobs, chunksize=1)


def main(arguments: list[str] | None = None) -> int:
    """Run the targets that the command line selects; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="all", help=f"all, or of: {', '.join(TARGETS)}")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--runs", type=int, help=f"inputs in all; default {DEFAULT_RUNS:,}")
    amount.add_argument("--seconds", type=float, help="how long, in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--atheris", action="store_true", help="inputs by coverage")
    options = parser.parse_args(arguments)
    names = list(TARGETS) if options.target == "all" else options.target.split(",")
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"no target {', '.join(unknown)}")
    if options.atheris:
        if len(names) != 1:
            parser.error("--atheris takes one target")
        runs_text = [] if options.runs is None else [str(options.runs)]
        command = [sys.executable, "-m", "tests.fuzz.guided", names[0], *runs_text]
        return subprocess.run(command, cwd=CASES.parents[2], check=False).returncode
    runs = options.runs
    if runs is None and options.seconds is None:
        runs = DEFAULT_RUNS
    began = time.monotonic()
    reports = run_all(_jobs(names, runs, options.seconds, options.seed), options.jobs)
    inputs = sum(report.inputs for report in reports)
    findings = sum(len(report.findings) for report in reports)
    took = time.monotonic() - began
    _say(f"{inputs:,} inputs in {took:.0f} s, seed {options.seed}: {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
