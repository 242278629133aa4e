"""What was measured of Spark, as Markdown.

In: :class:`Folder`. Out: text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.event_log import READ, REBUILD, Stage
from benchmarks.process_tree import JVM, OTHER, WORKER, TreeRun
from benchmarks.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.spark_tasks import Took

_NOTES = """\
One run of each in turn, the files in the page cache. *wall* is until the command itself ends. CPU
is that of all processes; *MB/s a core* is by wall, of the cores it was given. *largest* is the
resident memory of the largest process; *together* that of all, what they share counted once (PSS),
looked at once a second. *empty* is one capture without packets: start-up, which is not in the hours
that a TB takes: *core-hours* are wall time times cores, *CPU-hours* what they worked. With
`--buckets 17` segments are sent from task to task in files."""
_PROCESS_NOTES = """\
CPU by process, as far as it was seen (five times a second), the program that starts Spark among
*other*; memory is the peak of one process, what it shares included."""
_STAGE_NOTES = """\
Seconds that tasks ran, from Spark's event log: of the JVM and the Python worker together, so that
each takes a core at most. *rebuild* is done twice where names of topics have to be told from one
part of the connections to another; *MB/s* and *rows/s* are what one core does."""
_TASK_NOTES = """\
The tasks of a job that sends segments, in one process without Spark, quickest of some rounds.
*blocks* is what is sent, as a share of the capture."""
_SECONDS_PER_HOUR = 3600
_TB = 1e12


@dataclass(frozen=True, slots=True)
class Result:
    """What one command took on a folder."""

    run: TreeRun
    cores: int
    rows: int | None = None
    """That it found; None where it counts none."""
    stages: Sequence[Stage] = ()
    """Of Spark."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The results of all commands on the captures of a folder."""

    name: str
    capture_bytes: int
    files: int
    results: Mapping[str, Result]
    """By the names of the commands."""

    @property
    def megabytes(self) -> float:
        """Of its captures."""
        return self.capture_bytes / 1e6


def hours_per_tb(empty: Folder, folder: Folder, command: str) -> tuple[float, float]:
    """Return what a TB of such captures takes, without start-up: hours of cores, and of CPU."""
    result, started = folder.results[command], empty.results[command].run
    core_s = (result.run.wall_s - started.wall_s) * result.cores
    cpu_s = result.run.cpu_s - started.cpu_s
    a_byte = _TB / _SECONDS_PER_HOUR / folder.capture_bytes
    return core_s * a_byte, cpu_s * a_byte


_WHAT = "<!-- measured spark begins -->\n<!-- measured spark ends -->"
"""Where `benchmarks.publish` says whether the code has changed since."""


def markdown(folders: Sequence[Folder], tasks: Mapping[str, Took], facts: Iterable[str]) -> str:
    """Return the whole page; ``facts`` are lines to put before the tables."""
    lines = "\n".join(f"- {fact}" for fact in facts)
    parts = [_WHAT, lines, _commands(folders), _NOTES, _processes(folders), _PROCESS_NOTES]
    parts += [_stages(folders), _STAGE_NOTES]
    if tasks:
        parts += [_tasks(tasks), _TASK_NOTES]
    return "\n\n".join(parts) + "\n"


def _commands(folders: Sequence[Folder]) -> str:
    heads = ["captures", "MB", "files", "command", "wall s", "CPU s", "MB/s", "MB/s a core"]
    heads += ["rows", "largest MiB", "together MiB", "core-hours a TB", "CPU-hours a TB"]
    rows = []
    empty = folders[0]
    for folder in folders:
        for command, result in folder.results.items():
            run, rate = result.run, folder.megabytes / result.run.wall_s
            hours = ["", ""]
            if folder is not empty and command in empty.results:
                hours = [f"{some:,.1f}" for some in hours_per_tb(empty, folder, command)]
            cells = [folder.name, f"{folder.megabytes:,.1f}", f"{folder.files}", command]
            cells += [f"{run.wall_s:,.1f}", f"{run.cpu_s:,.1f}", f"{rate:,.0f}"]
            cells += [f"{rate / result.cores:,.0f}"]
            cells += ["" if result.rows is None else f"{result.rows:,}"]
            cells += [_mib(run.peak_bytes), _mib(run.together_bytes), *hours]
            rows.append(cells)
    return table(heads, rows, 4)


def _processes(folders: Sequence[Folder]) -> str:
    heads = ["captures", "command", "CPU s: JVM", "Python workers", "other"]
    heads += ["MiB: JVM", "one worker", "other"]
    rows = []
    for folder, command, result in _of_spark(folders):
        run = result.run
        cells = [folder.name, command]
        cells += [f"{run.cpu_of(kind):,.1f}" for kind in (JVM, WORKER, OTHER)]
        cells += [_mib(run.peak_of(kind)) for kind in (JVM, WORKER, OTHER)]
        rows.append(cells)
    return table(heads, rows, 2)


def _stages(folders: Sequence[Folder]) -> str:
    heads = ["captures", "command", "read s", "MB/s", "rebuild s", "times", "MB/s", "rows/s"]
    rows = []
    for folder, command, result in _of_spark(folders):
        seconds = dict.fromkeys((READ, REBUILD, "other"), 0.0)
        for stage in result.stages:
            seconds[stage.kind] += stage.run_s
        times = sum(stage.kind == REBUILD for stage in result.stages)
        read_s, rebuild_s = seconds[READ], seconds[REBUILD]
        cells = [folder.name, command, f"{read_s:,.1f}", _rate(folder.megabytes, read_s)]
        cells += [f"{rebuild_s:,.1f}", f"{times}", _rate(folder.megabytes * times, rebuild_s)]
        cells += [_rate((result.rows or 0) * times, rebuild_s), f"{seconds['other']:,.1f}"]
        rows.append(cells)
    return table([*heads, "other s"], rows, 2)


def _tasks(tasks: Mapping[str, Took]) -> str:
    heads = ["capture", "MB", "rows", "read s", "MB/s", "blocks", "rebuild s", "MB/s", "rows/s"]
    rows = []
    for name, took in tasks.items():
        megabytes = took.capture_bytes / 1e6
        cells = [name, f"{megabytes:,.1f}", f"{took.rows:,}", f"{took.read_s:.2f}"]
        cells += [_rate(megabytes, took.read_s), f"{took.block_bytes / took.capture_bytes:.2%}"]
        cells += [f"{took.rebuild_s:.2f}", _rate(megabytes, took.rebuild_s)]
        cells += [_rate(took.rows, took.rebuild_s)]
        rows.append(cells)
    return table(heads, rows, 1)


def _of_spark(folders: Iterable[Folder]) -> list[tuple[Folder, str, Result]]:
    return [
        (folder, command, result)
        for folder in folders
        for command, result in folder.results.items()
        if any(stage.kind == READ for stage in result.stages)
    ]


def _rate(count: float, seconds: float) -> str:
    return f"{count / seconds:,.0f}" if seconds > 0 else ""


def _mib(count: int) -> str:
    return f"{count / (1 << 20):,.0f}"
