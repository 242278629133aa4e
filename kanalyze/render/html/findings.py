"""The findings, at the head of the page.

In: findings, as plain values. Out: HTML.
"""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.zones import UTC
from kanalyze.render.findings import command_text, confidence_text, packet_text, title_of
from kanalyze.render.units import count_text, moment_text, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kanalyze.common.zones import Zone

_MOST = 40
_LONGEST_TEXT, _LONGEST_ADVICE = 400, 4000
_GRAVE, _SERIOUS = 70, 40
_WORDS = {
    "client_id": "client",
    "client_ip": "from",
    "broker": "broker",
    "api_name": "API",
    "topic": "topic",
    "group_id": "group",
    "error_name": "error",
}
_SELECTS = {
    "client_id": ("client", "clients", "name"),
    "api_name": ("api", "apis", "api_name"),
    "topic": ("topic", "topics", "name"),
    "broker": ("broker", "brokers", "broker"),
    "group_id": ("group", "groups", "name"),
}
"""The dimensions of the page that a finding can select, by the names that findings use."""


class _About(NamedTuple):
    """What all findings of a page are about."""

    has_files: bool
    """Whether there are several captures, so that a packet needs its file."""
    inputs: Sequence[str]
    """The captures, for commands."""
    names: Mapping[str, Any]
    zone: Zone


def findings_html(
    findings: Sequence[Mapping[str, Any]] | None,
    captures: Sequence[str],
    names: Mapping[str, Any],
    nothing: str = "none",
    zone: Zone = UTC,
    inputs: Sequence[str] | None = None,
) -> str:
    """Return findings as a list, the most severe first; without findings, ``nothing``.

    ``inputs`` are the captures as the user named them, for commands; None for ``captures``.
    """
    if findings is None:
        return "<p>Findings were not searched for.</p>"
    if not findings:
        is_all = nothing == "none"
        return f"<p>{'Nothing wrong was found' if is_all else nothing.capitalize()}.</p>"
    shown_findings = list(enumerate(findings[:_MOST], start=1))
    more = len(findings) - _MOST
    about = _About(len(captures) > 1, captures if inputs is None else inputs, names, zone)
    return _kinds(shown_findings, None, about) + (
        f"<p>and {count_text(more)} more</p>" if more > 0 else ""
    )


def _kinds(
    findings: Sequence[tuple[int, Mapping[str, Any]]],
    cause: int | None,
    about: _About,
) -> str:
    """Return the findings that one of them caused, or those without a cause, as a list by kind."""
    caused = [each for each in findings if _cause(each[1]) == cause]
    by_kind = groupby(caused, key=lambda each: each[1]["name"])
    items = "".join(_kind(list(of_kind), findings, about) for _, of_kind in by_kind)
    return f"<ol>{items}</ol>" if items else ""


def _cause(finding: Mapping[str, Any]) -> int | None:
    return None if finding["cause"] is None else finding["cause"]["number"]


def _kind(
    of_kind: Sequence[tuple[int, Mapping[str, Any]]],
    findings: Sequence[tuple[int, Mapping[str, Any]]],
    about: _About,
) -> str:
    """Return the findings of one kind: each finding, the common texts once, and its effects."""
    first = of_kind[0][1]
    items = "".join(_item(finding, about) for _, finding in of_kind)
    effects = "".join(_kinds(findings, number, about) for number, _ in of_kind)
    title = title_of(first["title"], 0 if first["cause"] is None else 1)
    facts = (
        ("Why it matters", first["why"]),
        ("Confidence", confidence_text(first["sure"])),
        ("What repairs it", first["repair"]),
    )
    lines = "".join(
        f"<div><dt>{word}</dt><dd>{_text(text, _LONGEST_ADVICE)}</dd></div>" for word, text in facts
    )
    return (
        f'<li class="{_grade(first["severity"])}"><h3>{_text(title)}</h3>'
        f"<ul>{items}</ul><dl>{lines}</dl>{effects}</li>"
    )


def _item(finding: Mapping[str, Any], about: _About) -> str:
    concerns = ", ".join(
        f"{word} <b>{_text(finding['concerns'][name])}</b>"
        for name, word in _WORDS.items()
        if name in finding["concerns"]
    )
    head = f"{concerns}: " if concerns else ""
    when = _when(finding, about.zone, has_files=about.has_files)
    when = f' <span class="when">{when}</span>' if when else ""
    command = command_text(finding["command"], finding["options"], about.inputs)
    return (
        f'<li class="finding"{_selects(finding["concerns"], about.names)}{_times(finding)}>'
        f"<p>{head}{_text(finding['what'])}{when}</p>"
        f"<p><code>{escape(command)}</code></p></li>"
    )


def _text(text: object, limit: int = _LONGEST_TEXT) -> str:
    return escape(shown(str(text), limit))


def _grade(severity: int) -> str:
    return "grave" if severity >= _GRAVE else "serious" if severity >= _SERIOUS else "minor"


def _when(finding: Mapping[str, Any], zone: Zone, *, has_files: bool) -> str:
    first, last = finding["first_time_ns"], finding["last_time_ns"]
    texts = []
    if first is not None:
        until = "" if last in (None, first) else f" to {moment_text(last, zone)}"
        texts.append(f"{moment_text(first, zone)}{until} {zone.label(first)}")
    packet = packet_text(finding, has_files=has_files)
    if packet is not None:
        texts.append(f"first in {packet}")
    return escape(", ".join(texts))


def _times(finding: Mapping[str, Any]) -> str:
    """Return attributes with the first and last time of a finding in µs of Unix time."""
    first, last = finding["first_time_ns"], finding["last_time_ns"]
    if first is None or last is None:
        return ""
    return f' data-first="{first // 1000}" data-last="{last // 1000}"'


def _selects(concerns: Mapping[str, Any], names: Mapping[str, Any]) -> str:
    """Return attributes with the numbers of the names that a finding concerns; -1 if unknown."""
    attributes = ""
    for concern, (dimension, kind, field) in _SELECTS.items():
        if concern in concerns:
            numbers = [
                number
                for number, line in enumerate(names[kind])
                if line[field] == concerns[concern]
            ]
            attributes += f' data-{dimension}="{numbers[0] if numbers else -1}"'
    return attributes
