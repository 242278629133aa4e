"""Findings as lines: what is wrong, why it matters, how to repair it, how to see the rows.

In: findings as the report has them. Out: lines. It escapes names from the wire.
"""

from __future__ import annotations

import re
import shlex
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import escape
from kanalyze.render.lines import Line
from kanalyze.render.missing import failed_names
from kanalyze.render.units import UTC_CLOCK, ReportClock, count_text, listed, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


CONCERNS = {
    "client_id": "client",
    "client_ip": "client address",
    "api_name": "API",
    "topic": "topic",
    "group_id": "group",
    "error_name": "error",
    "broker": "broker",
}
"""What a finding concerns, in the words of the tables."""
_MAX_OF_A_KIND, _MOST_NAMES = 3, 3
_TEXT_LIMIT = 300
_COMMAND_LIMIT = 1000
_FILE_LIMIT = 200
_CAPTURES_LIMIT = 300
"""Number of characters of the names of captures in a command."""


class FindingGroup(NamedTuple):
    """Findings of one kind, with one cause or none."""

    title: str
    depth: int
    """0 for findings without a known cause, 1 for their effects, and so on."""
    examples: list[tuple[str, str]]
    """For the first few findings: their figures, and the command that shows the rows."""
    more: int
    """Number of the other findings."""
    more_whom: str
    """Whom the others concern besides."""
    why: str
    repair: str
    sure: str


def finding_groups(
    findings: Sequence[dict[str, Any]],
    captures: Sequence[str],
    clock: ReportClock = UTC_CLOCK,
    most: int = _MAX_OF_A_KIND,
    *,
    has_files: bool = False,
) -> Iterator[FindingGroup]:
    """Yield findings grouped by kind and cause, each with its first ``most`` findings.

    ``captures`` are for the commands; ``has_files`` says whether several were read.
    """
    depths = depths_of(findings)
    numbered = zip(findings, depths, strict=True)
    for (_, _, depth), group in groupby(numbered, key=lambda each: (*_kind_of(each[0]), each[1])):
        of_kind = [finding for finding, _ in group]
        first = of_kind[0]
        yield FindingGroup(
            title_of(shown(first["title"], _TEXT_LIMIT), depth),
            depth,
            [
                (_figures(finding, clock, has_files=has_files), _command(finding, captures))
                for finding in of_kind[:most]
            ],
            max(len(of_kind) - most, 0),
            "; ".join(whom_texts(of_kind[most:], known=of_kind[:most])),
            *(first[name] for name in ("why", "repair", "sure")),
        )


def depths_of(findings: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return how many causes, one of the other, each finding has; causes come before effects."""
    depths: list[int] = []
    for finding in findings:
        cause = finding["cause"]
        depths.append(0 if cause is None else depths[cause["number"] - 1] + 1)
    return depths


def title_of(title: str, depth: int) -> str:
    """Return the title of a kind of findings, or of effects."""
    return f"It led to: {title}" if depth else title


def whom_texts(
    findings: Iterable[Mapping[str, Any]], known: Iterable[Mapping[str, Any]] = ()
) -> list[str]:
    """Return whom findings concern, other than ``known`` ones: the names of each kind, once."""
    told = {each for finding in known for each in finding["concerns"].items()}
    names: dict[str, dict[str, None]] = {}
    for finding in findings:
        for concern, name in finding["concerns"].items():
            if (concern, name) not in told:
                names.setdefault(concern, {})[shown(str(name))] = None
    return [
        f"{CONCERNS[concern]} {listed(list(named), _MOST_NAMES)}"
        for concern, named in names.items()
    ]


def _kind_of(finding: Mapping[str, Any]) -> tuple[str, int | None]:
    cause = finding["cause"]
    return finding["name"], None if cause is None else cause["number"]


def confidence_text(sure: str) -> str:
    """Return how sure a finding is, ``likely: REASON.``, as ``likely (REASON)``."""
    level, _, reason = sure.partition(": ")
    return f"{level} ({reason.rstrip('.')})" if reason else level


def left_out_text(report: Mapping[str, Any]) -> str | None:
    """Return which kinds of findings were not searched for; None if all were."""
    names = [shown(name) for name in report.get("findings_left_out", ())]
    return f"not searched for, because they need all rows: {', '.join(names)}" if names else None


def no_findings_text(report: Mapping[str, Any]) -> str:
    """Return what to say of a report without findings."""
    return "none of those that were searched for" if failed_names(report, "finding") else "none"


def finding_lines(
    findings: Sequence[dict[str, Any]],
    captures: Sequence[str] = (),
    not_searched: str | None = None,
    nothing: str = "none",
    most_stories: int | None = None,
    clock: ReportClock = UTC_CLOCK,
    *,
    has_files: bool = False,
) -> Iterator[Line]:
    """Yield the lines of the first few findings of each kind, effects indented under their cause.

    Args:
        findings: as the report has them.
        captures: the captures of the commands.
        not_searched: which kinds of findings were not searched for.
        nothing: is shown without findings.
        most_stories: of so many stories causes are told whole, and effects as one line; of the
            others there is a line. None to tell everything.
        clock: writes times.
        has_files: whether several captures were read.
    """
    yield Line()
    yield Line("Findings", style="bold cyan")
    if not findings:
        yield Line(nothing, style="dim")
    stories = 0
    most = _MAX_OF_A_KIND if most_stories is None else 1
    for group in finding_groups(findings, captures, clock, most, has_files=has_files):
        stories += not group.depth
        if most_stories is None or (stories <= most_stories and not group.depth):
            yield from _whole(group)
        elif group.depth <= 1:
            yield from _in_short(group)
    if not_searched is not None:
        yield Line(not_searched, style="dim")


def story_lines(findings: Sequence[dict[str, Any]], clock: ReportClock) -> Iterator[Line]:
    """Yield a line for each story but the first: what is wrong, and the figures."""
    for group in list(finding_groups(findings, (), clock))[1:]:
        if not group.depth:
            yield Line(f"{group.title}: {group.examples[0][0]}", style="red")


def found_lines(
    findings: Sequence[dict[str, Any]], clock: ReportClock, *, has_files: bool
) -> Iterator[Line]:
    """Yield the title and the figures of the first finding of each kind, and nothing else."""
    for group in finding_groups(findings, (), clock, 1, has_files=has_files):
        yield from _in_short(group)


def _whole(group: FindingGroup) -> Iterator[Line]:
    """Yield all lines of findings of a kind: what was seen, why it matters, how sure, repair."""
    indent = "  " * group.depth
    yield Line(f"{indent}{group.title}", style="bold red")
    for figures, command in group.examples:
        yield Line(f"{indent}  {figures}")
        yield Line(f"{indent}    {command}", style="dim", is_command=True)
    if group.more:
        yield Line(f"{indent}  {_more_text(group)}", style="dim")
    yield Line(f"{indent}  why: {group.why}")
    yield Line(f"{indent}  confidence: {confidence_text(group.sure)}", style="dim")
    yield Line(f"{indent}  repair: {group.repair}")


def _in_short(group: FindingGroup) -> Iterator[Line]:
    """Yield the title of a kind and the figures of its first finding."""
    indent = "  " * group.depth
    yield Line(f"{indent}{group.title}", style="bold red")
    figures = group.examples[0][0]
    yield Line(
        f"{indent}  {figures}" + (f"; and {count_text(group.more)} more" if group.more else "")
    )


def _more_text(group: FindingGroup) -> str:
    return f"and {count_text(group.more)} more" + (
        f": {group.more_whom}" if group.more_whom else ""
    )


def _figures(finding: dict[str, Any], clock: ReportClock, *, has_files: bool) -> str:
    """Return the figures of a finding, whom it concerns, and since and until when."""
    text = finding["what"]
    whom = [
        f"{CONCERNS[name]} {shown(str(value))}"
        for name, value in finding["concerns"].items()
        if not _names(text, str(value))
    ]
    parts = [shown(text, _TEXT_LIMIT), *whom]
    if finding["first_time_ns"] is not None:
        parts.append(_span_text(finding["first_time_ns"], finding["last_time_ns"], clock))
    packet = packet_text(finding, has_files=has_files)
    if packet is not None:
        parts.append(packet)
    return "; ".join(parts)


def packet_text(finding: Mapping[str, Any], *, has_files: bool) -> str | None:
    """Return which packet a finding begins in; None if that is unknown.

    ``has_files`` says whether there are several captures, of which the number says too little.
    """
    number, capture = finding["first_packet"], finding.get("first_capture")
    if number is None or (has_files and capture is None):
        return None
    return f"packet {number} of {shown(capture, _FILE_LIMIT)}" if has_files else f"packet {number}"


def _span_text(first_ns: int, last_ns: int | None, clock: ReportClock) -> str:
    """Return when the fault began and ended; one time if it is only seen once."""
    since = clock.text(first_ns)
    until = since if last_ns is None else clock.text(last_ns)
    return f"at {since}" if since == until else f"since {since} until {until}"


def _names(text: str, name: str) -> bool:
    """Return true if ``text`` contains ``name`` as a whole word."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None


def command_text(command: str, options: Sequence[str], captures: Sequence[str] = ()) -> str:
    """Return the command that shows the rows of a finding, quoted for a shell.

    ``CAPTURE`` is a placeholder for a pipe or an interface, ``CAPTURE...`` for many captures: the
    user must replace it.
    """
    are_files = all(name != "-" and not name.startswith("live:") for name in captures)
    names = " ".join(map(shlex.quote, captures))
    if not captures or not are_files:
        names = "CAPTURE"
    elif len(captures) > 1 and len(names) > _CAPTURES_LIMIT:
        names = "CAPTURE..."
    return escape(" ".join(("kanalyze", command, names, *map(shlex.quote, options))))


def _command(finding: dict[str, Any], captures: Sequence[str]) -> str:
    text = command_text(finding["command"], finding["options"], captures)
    return text if len(text) <= _COMMAND_LIMIT else f"{text[: _COMMAND_LIMIT - 1]}\u2026"
