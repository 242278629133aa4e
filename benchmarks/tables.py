"""What was measured, as Markdown.

In: :class:`Table`. Out: text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.measure import Measured, least_peak_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EMPTY = "empty"
"""Name of the capture of no packets: what a command takes there is its start-up."""
_NOTES = """\
Medians of runs in turn, the file in the page cache; in brackets the quickest and the slowest.
*tshark ÷* says how many times as long tshark takes, *÷ tcpdump* how many times as long this takes
as tcpdump, which only reads. CPU is that of all processes. *Peak* is the resident memory of the
largest process; *together* that of all processes at one time, what they share counted once (PSS),
looked at every 20 ms in a run of its own. *empty* is a capture of no packets: start-up."""
_GROWTH_NOTES = """\
(time - start-up) ÷ (time on the capture that was repeated - start-up): as many as it was repeated
is linear. Where other programs are at work on the machine, only that of the CPU says something."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one command took on one capture."""

    measured: Measured
    together_bytes: int | None
    """Peak of all its processes together (PSS); None where it was not asked for or is not told."""


@dataclass(frozen=True, slots=True)
class Table:
    """The results of all commands on one capture."""

    name: str
    times: int
    """How many repetitions of it the file holds."""
    file_bytes: int
    results: dict[str, Result]
    """By the names of the commands; tcpdump is among them, and tshark where it was run."""

    @property
    def title(self) -> str:
        """The capture's name, and how many times it is there."""
        return self.name if self.times == 1 else f"{self.name} {self.times}-fold"

    def wall_s(self, command: str) -> float:
        """Return a command's median time."""
        return self.results[command].measured.wall_s

    def cpu_s(self, command: str) -> float:
        """Return a command's median time of the processor."""
        return self.results[command].measured.cpu_s


def markdown(tables: Sequence[Table], facts: Iterable[str]) -> str:
    """Return the whole page; ``facts`` are lines to put before the tables."""
    parts = ["\n".join(f"- {fact}" for fact in facts), _times(tables), _NOTES]
    growth = _growth(tables)
    if growth is not None:
        parts += [growth, _GROWTH_NOTES]
    return "\n\n".join(parts) + "\n"


def _times(tables: Iterable[Table]) -> str:
    heads = ["capture", "MB", "command", "wall s", "CPU s", "MB/s", "tshark ÷", "÷ tcpdump"]
    lines = [_line([*heads, "peak MiB", "together MiB"]), "|---|" + "---:|---|" + "---:|" * 7]
    for table in tables:
        megabytes = table.file_bytes / 1e6
        for command, result in table.results.items():
            took = result.measured
            cells = [
                table.title,
                f"{megabytes:,.1f}",
                command,
                f"{took.wall_s:,.3f} ({took.least_wall_s:,.3f}-{took.most_wall_s:,.3f})",
                f"{took.cpu_s:,.3f}",
                f"{megabytes / took.wall_s:,.0f}",
                f"{table.wall_s('tshark') / took.wall_s:,.2f}" if "tshark" in table.results else "",
                f"{took.wall_s / table.wall_s('tcpdump'):,.1f}",
                _peak(took.peak_bytes),
                "" if result.together_bytes is None else f"{_mib(result.together_bytes):,.0f}",
            ]
            lines.append(_line(cells))
    return "\n".join(lines)


def _growth(tables: Sequence[Table]) -> str | None:
    """Return how times grow with the length; None where nothing was repeated."""
    once = {table.name: table for table in tables if table.times == 1}
    repeated = [table for table in tables if table.times > 1]
    if not repeated:
        return None
    commands = list(repeated[0].results)
    lines = [_line(["capture", "time", *commands]), "|---|---|" + "---:|" * len(commands)]
    for table in repeated:
        for label, seconds in (("wall", Table.wall_s), ("CPU", Table.cpu_s)):
            cells = []
            for command in commands:
                if command not in table.results:
                    cells.append("")
                    continue
                started_s = seconds(once[EMPTY], command)
                once_s = seconds(once[table.name], command) - started_s
                took_s = seconds(table, command) - started_s
                cells.append(f"{took_s / once_s:,.1f}" if once_s > 0 else "")
            lines.append(_line([table.title, label, *cells]))
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _peak(peak_bytes: int) -> str:
    bound = "<" if peak_bytes <= least_peak_bytes() else ""
    return f"{bound}{_mib(peak_bytes):,.0f}"


def _mib(count: int) -> float:
    return count / (1 << 20)
