"""What was measured, as data: all of one revision, on one machine.

In and out: :class:`Figures`, and `results.json`, which has them. Pages are made of it by
`benchmarks.publish`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchmarkError
from benchmarks.measure import Measured
from benchmarks.programs import base_name, with_jobs
from benchmarks.revision import Stamp

RESULTS = Path(__file__).resolve().parent / "results.json"
EMPTY = "empty"
"""Name of the capture of no packets: what a command takes there is its start-up."""


@dataclass(frozen=True, slots=True)
class Table:
    """The results of all commands on one capture."""

    name: str
    times: int
    """How many repetitions of it the file holds."""
    date: str
    file_bytes: int
    messages: tuple[int, int] | None
    """Of Kafka, that kanalyze and tshark find; None where they were not counted."""
    floor_bytes: int
    """A peak of memory that is no higher is not known: it is that of what measured."""
    results: dict[str, Measured]
    """By the names of the commands; tshark and tcpdump are among them where they were run."""

    @property
    def title(self) -> str:
        """The capture's name, and how many times it is there."""
        return self.name if self.times == 1 else f"{self.name} {self.times}-fold"

    def has(self, *commands: str) -> bool:
        """Return whether all of these were measured."""
        return all({each, with_jobs(each, 1)} & self.results.keys() for each in commands)

    def of(self, command: str) -> Measured:
        """Return what a command took: with one job, where its name says nothing of jobs."""
        return self.results.get(command) or self.results[with_jobs(command, 1)]


@dataclass(slots=True)
class Figures:
    """All that was measured, and which code it was."""

    stamp: Stamp
    machine: str
    """And the versions of all that took part."""
    reads: dict[str, list[str]] = field(default_factory=dict)
    """The rooms of the package that each command of kanalyze imports."""
    tables: list[Table] = field(default_factory=list)

    def is_old(self, command: str, now: dict[str, str]) -> bool:
        """Return whether the code of a command has changed since; ``now`` is as it is."""
        rooms = self.reads.get(base_name(command))
        return rooms is not None and bool(self.stamp.changed(now, rooms))

    def put(self, table: Table) -> None:
        """Add what was measured on a capture, in place of what was measured there before."""
        key = table.name, table.times
        self.tables = [each for each in self.tables if (each.name, each.times) != key] + [table]

    def longest(self, kind: str, *commands: str) -> Table | None:
        """Return the longest capture of a kind that all of these were measured on."""
        found = (each for each in self.tables if each.name == kind and each.has(*commands))
        return max(found, key=lambda table: table.times, default=None)

    def peak_bytes(self, command: str) -> int:
        """Return the most memory that a process of a command took on any capture."""
        runs = (item for table in self.tables for item in table.results.items())
        return max(run.peak_bytes for name, run in runs if base_name(name) == command)

    def check(self, stamp: Stamp, machine: str) -> None:
        """Raise BenchmarkError where these are of other code or of another machine."""
        for mine, other in ((self.stamp.rooms, stamp.rooms), (self.machine, machine)):
            if mine != other:
                raise BenchmarkError(
                    f"figures are of revision {self.stamp.revision} on {self.machine}; they do not "
                    f"mix with those of {stamp.revision}: measure all kinds again"
                )


def load(path: Path = RESULTS) -> tuple[Figures, dict[str, Stamp]]:
    """Return the figures, and the stamps of those that other commands print."""
    data = json.loads(path.read_text(encoding="utf-8"))
    tables = [_table(each) for each in data["tables"]]
    stamps = {name: Stamp(**each) for name, each in data["printed"].items()}
    return Figures(Stamp(**data["stamp"]), data["machine"], data["reads"], tables), stamps


def save(figures: Figures, printed: dict[str, Stamp], path: Path = RESULTS) -> None:
    """Write all; a line for each table and stamp."""
    data = asdict(figures) | {"printed": {name: asdict(each) for name, each in printed.items()}}
    lines = [f"{json.dumps(name)}: {_lines(value)}" for name, value in data.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _table(data: dict[str, Any]) -> Table:
    results = {name: Measured(**each) for name, each in data.pop("results").items()}
    messages = data.pop("messages")
    return Table(**data, messages=messages and tuple(messages), results=results)


def _lines(value: Any) -> str:
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"
    if isinstance(value, dict):
        inner = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in value.items())
        return "{\n" + ",\n".join(inner) + "\n}"
    return json.dumps(value)
