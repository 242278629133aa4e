"""What was measured, as Markdown.

In: :class:`Figures`, and the code as it is now. Out: text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import goals
from benchmarks.figures import EMPTY, Figures, Table
from benchmarks.programs import REPORT, REQUESTS, TCPDUMP, TSHARK, with_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.revision import Stamp

    Rooms = dict[str, str]

OLD = "†"
BOUNDS = ("capture", "what", "is", "goal")
_MESSAGES = "- {}: {:,} Kafka messages of kanalyze's, {:,} of tshark's"
_NOTES = """\
Runs in turn, the file in the page cache: the median, and in brackets the quickest. *tshark ÷* says
how many times as long tshark takes, *÷ tcpdump* how many times as long this takes as tcpdump, which
only reads: by the quickest runs. CPU is that of all processes. *Peak* is the resident memory of the
largest process; *together* that of all processes at one time, what they share counted once (PSS),
looked at once a second in a run of its own. *empty* is a capture of no packets: start-up. *compare*
reads the capture twice, as both sides."""


def markdown(figures: Figures, now: Rooms) -> str:
    """Return the whole page of results; ``now`` is the code as it is."""
    commands = {name for each in figures.tables for name in each.results}
    counted = [each for each in figures.tables if each.messages is not None]
    parts = [
        "# Whole commands",
        said(figures, now, *commands),
        f"Machine and versions: {figures.machine}.",
        "\n".join(_MESSAGES.format(each.name, *each.messages) for each in counted),
        "## Shows it is done",
        shown(figures, now),
        table(BOUNDS, _marked(figures, now, goals.bounds(figures)), 2),
        "## All figures",
        _times(figures, now),
        _NOTES,
    ]
    return "\n\n".join(parts) + "\n"


def said(figures: Figures, now: Rooms, *commands: str) -> str:
    """Return the sentences that say of which code figures are, over a table with marks."""
    is_old = any(figures.is_old(command, now) for command in commands)
    return measured_on(figures.stamp, f"what is marked {OLD} is of before" if is_old else None)


def measured_on(stamp: Stamp, what_is_old: str | None) -> str:
    """Return the sentences that say what was measured, and what of it has changed since."""
    text = f"Measured on revision {stamp.revision} ({stamp.date})."
    return text if what_is_old is None else f"{text} The code has changed since: {what_is_old}."


def shown(figures: Figures, now: Rooms) -> str:
    """Return how many times as long tshark takes, beside what was to be reached."""
    heads = ("capture", "command", "tshark ÷ CPU, one job", "goal", "÷ wall, two jobs", "goal")
    return table(heads, _marked(figures, now, goals.beside_tshark(figures)), 2)


def short(figures: Figures, now: Rooms) -> str:
    """Return the seconds that the longest captures take."""
    heads = ("capture", "MB", REQUESTS, "two jobs", REPORT, "two jobs", TSHARK)
    names = [with_jobs(name, jobs) for name in (REQUESTS, REPORT) for jobs in (1, 2)]
    kinds = dict.fromkeys(each.name for each in figures.tables if each.name != EMPTY)
    found = (figures.longest(kind, *names, TSHARK) for kind in kinds)
    rows = [
        [
            marked(figures, now, each.title, *names),
            f"{each.file_bytes / 1e6:,.0f}",
            *(f"{each.of(name).least_wall_s:.1f} s" for name in (*names, TSHARK)),
        ]
        for each in found
        if each is not None
    ]
    return table(heads, rows, 1)


def marked(figures: Figures, now: Rooms, text: str, *commands: str) -> str:
    """Return a text, marked where it is of a command whose code has changed since."""
    is_old = any(figures.is_old(command, now) for command in commands)
    return f"{text} {OLD}" if is_old else text


def _marked(figures: Figures, now: Rooms, rows: Iterable[goals.Row]) -> Iterable[list[str]]:
    for commands, (first, what, *rest) in rows:
        yield [first, marked(figures, now, what, *commands), *rest]


def _times(figures: Figures, now: Rooms) -> str:
    heads = ("capture", "MB", "command", "wall s", "CPU s", "MB/s", "tshark ÷ wall", "÷ CPU")
    rows = (
        _cells(each, name, marked(figures, now, name, name))
        for each in figures.tables
        for name in each.results
    )
    return table((*heads, "÷ tcpdump", "peak MiB", "together MiB"), rows, 3)


def _cells(each: Table, name: str, shown_name: str) -> list[str]:
    took = each.results[name]
    tshark, tcpdump = each.results.get(TSHARK), each.results[TCPDUMP]
    megabytes = each.file_bytes / 1e6
    bound = "<" if took.peak_bytes <= each.floor_bytes else ""
    return [
        each.title,
        f"{megabytes:,.1f}",
        shown_name,
        f"{took.wall_s:,.3f} ({took.least_wall_s:,.3f})",
        f"{took.cpu_s:,.3f} ({took.least_cpu_s:,.3f})",
        f"{megabytes / took.least_wall_s:,.0f}",
        f"{tshark.least_wall_s / took.least_wall_s:,.1f}" if tshark else "",
        f"{tshark.least_cpu_s / took.least_cpu_s:,.1f}" if tshark else "",
        f"{took.least_wall_s / tcpdump.least_wall_s:,.1f}",
        f"{bound}{_mib(took.peak_bytes):,.0f}",
        "" if took.together_bytes is None else f"{_mib(took.together_bytes):,.0f}",
    ]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], texts: int) -> str:
    """Return a Markdown table; the first columns, so many, are texts, and the others numbers."""
    lines = [list(heads), [*["---"] * texts, *["---:"] * (len(heads) - texts)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _mib(count: int) -> float:
    return count / (1 << 20)
