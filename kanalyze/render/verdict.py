"""The verdict: what is wrong, since when, whom it hits, in a sentence.

In: a summary (see :mod:`kanalyze.queries.report`). Out: text, and how bad it is. Names from the
wire are escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.zones import UTC, Zone
from kanalyze.render.findings import depths_of, whom_texts
from kanalyze.render.missing import failed_names
from kanalyze.render.units import ReportClock, counted, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CERTAIN = "certain"
_BAD = 50
"""The severity of findings from which on something does not work."""
_MOST_OTHERS = 2
_OVER_NS = 2_000_000_000
"""A fault is over if it was not seen for so long before the last packet."""


class Verdict(NamedTuple):
    """What a report says in a sentence."""

    text: str
    level: str
    """``bad``, ``warning``, ``good``, or ``unknown`` where nothing could be judged."""


def verdict_of(summary: Mapping[str, Any], zone: Zone = UTC) -> Verdict:
    """Return the verdict of a report in which tables of failed queries are empty."""
    findings, totals = summary.get("findings", []), summary["totals"]
    if findings:
        level = "bad" if findings[0]["severity"] >= _BAD else "warning"
        end_ns = summary["capture"]["last_time_ns"]
        return Verdict(_found(findings, ReportClock.of(summary, zone), end_ns), level)
    if totals is None or failed_names(summary, "finding"):
        return Verdict("nothing was found, but queries failed: see the warnings", "unknown")
    if not totals["rows"]:
        return Verdict("nothing can be said: no Kafka requests were found", "unknown")
    return Verdict(f"nothing wrong was found in {counted(totals['requests'], 'request')}", "good")


def _found(findings: Sequence[Mapping[str, Any]], clock: ReportClock, end_ns: int | None) -> str:
    """Return the title of the first kind of findings, when, for whom; what else there is.

    ``end_ns`` is the time of the last packet.
    """
    roots: dict[str, list[Mapping[str, Any]]] = {}
    effects: dict[str, dict[str, None]] = {}
    root = ""
    for finding, depth in zip(findings, depths_of(findings), strict=True):
        if depth:
            effects.setdefault(root, {})[shown(finding["title"])] = None
        else:
            root = finding["name"]
            roots.setdefault(root, []).append(finding)
    (name, alike), *others = roots.items()
    parts = [shown(alike[0]["title"])]
    level = alike[0]["sure"].partition(":")[0].rstrip(".")
    if level != _CERTAIN:
        parts[0] += f" ({level})"
    when = _when(alike, clock, end_ns)
    if when:
        parts.append(when)
    text = ", ".join((*parts, *whom_texts(alike)))
    if name in effects:
        text += f"; it led to: {', '.join(effects[name])}"
    if not others:
        return text
    titles = [shown(of_kind[0]["title"]) for _, of_kind in others]
    return f"{text}; also: {'; '.join(titles[:_MOST_OTHERS])}" + (
        f"; and {counted(len(titles) - _MOST_OTHERS, 'other finding')}"
        if len(titles) > _MOST_OTHERS
        else ""
    )


def _when(findings: Sequence[Mapping[str, Any]], clock: ReportClock, end_ns: int | None) -> str:
    """Return since when findings are there, and until when if it was over before the capture."""
    first = [each["first_time_ns"] for each in findings if each["first_time_ns"] is not None]
    if not first:
        return ""
    last = [each["last_time_ns"] for each in findings if each["last_time_ns"] is not None]
    begin_ns, last_ns = min(first), max(last, default=None)
    if last_ns == begin_ns:
        return f"at {clock.text(begin_ns)}"
    if last_ns is None or end_ns is None or end_ns - last_ns < _OVER_NS:
        return f"since {clock.text(begin_ns)}"
    return f"since {clock.text(begin_ns)} until {clock.text(last_ns)}"
