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
from kanalyze.render.units import ReportClock, counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Verdict", "verdict_of"]

_CERTAIN = "certain"
_BAD = 50
"""The severity of findings from which on something does not work."""


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
        return Verdict(_found(findings, ReportClock.of(summary, zone)), level)
    if totals is None or failed_names(summary, "finding"):
        return Verdict("nothing was found, but queries failed: see the warnings", "unknown")
    if not totals["rows"]:
        return Verdict("nothing can be said: no Kafka requests were found", "unknown")
    return Verdict(f"nothing wrong was found in {counted(totals['requests'], 'request')}", "good")


def _found(findings: Sequence[Mapping[str, Any]], clock: ReportClock) -> str:
    """Return the title of the first kind of findings, since when, for whom; what else there is."""
    roots: dict[str, list[Mapping[str, Any]]] = {}
    effects: dict[str, dict[str, None]] = {}
    root = ""
    for finding, depth in zip(findings, depths_of(findings), strict=True):
        if depth:
            effects.setdefault(root, {})[finding["title"]] = None
        else:
            root = finding["name"]
            roots.setdefault(root, []).append(finding)
    (name, alike), *others = roots.items()
    parts = [alike[0]["title"]]
    level = alike[0]["sure"].partition(":")[0].rstrip(".")
    if level != _CERTAIN:
        parts[0] += f" ({level})"
    times = [each["first_time_ns"] for each in alike if each["first_time_ns"] is not None]
    if times:
        parts.append(f"since {clock.text(min(times))}")
    text = ", ".join((*parts, *whom_texts(alike)))
    if name in effects:
        text += f"; it led to: {', '.join(effects[name])}"
    return text + (f"; and {counted(len(others), 'other finding')}" if others else "")
