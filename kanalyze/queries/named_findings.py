"""Findings by name or number, and the rows that they are about.

In: what ``--finding`` names; a database with the tables of a run. Out: findings, ids of requests,
keys of connections; the command that shows the rows of a finding.

A name is the number of a finding in the report, its kind, or its kind and its place among those:
``3``, ``unanswered``, ``unanswered:2``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import known_or_similar
from kanalyze.errors import UsageError
from kanalyze.queries.conditions import promising
from kanalyze.queries.engine import FailedQueries, QueryError
from kanalyze.queries.findings import (
    COMMANDS_OF_ROWS,
    asked_for,
    kind_of_finding,
    search,
    unfiltered_only,
    with_thresholds,
)
from kanalyze.spec.filters import FILTERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kanalyze.queries.database import Database
    from kanalyze.queries.finding import Finding
    from kanalyze.queries.findings import FindingKind

_MAX_DIGITS = 9


class FindingName(NamedTuple):
    """What names a finding, or all of a kind."""

    kind: str | None
    """None for any."""
    place: int | None
    """From 1, among those of the kind, or else in the report; None for all."""

    def __str__(self) -> str:
        """Return the text that :func:`parse_name` parses."""
        return ":".join(str(part) for part in self if part is not None)


def parse_name(text: str, kinds: Iterable[FindingKind]) -> FindingName:
    """Parse ``N``, ``KIND`` or ``KIND:N``.

    Raises UsageError for a kind that does not exist, and for one that has no rows to show.
    """
    if _is_place(text):
        return FindingName(None, int(text))
    name, colon, place = text.partition(":")
    by_name = {kind.query.name: kind for kind in kinds}
    if name not in by_name or (colon and not _is_place(place)):
        raise UsageError(f"no finding is named {text!r}{known_or_similar(name, sorted(by_name))}")
    if by_name[name].command not in COMMANDS_OF_ROWS:
        raise _without_rows(name, by_name[name].command)
    return FindingName(name, int(place) if colon else None)


def _without_rows(name: str, command: str) -> UsageError:
    return UsageError(
        f"finding {name!r} is about data that the capture lacks: there are no packets to "
        f"extract; kanalyze {command} shows where data is missing"
    )


def _is_place(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < len(text) <= _MAX_DIGITS and int(text) > 0


def named_findings(
    database: Database,
    names: Sequence[FindingName],
    kinds: Iterable[FindingKind],
    thresholds: Mapping[str, float],
    conditions: Mapping[str, Any],
) -> list[Finding]:
    """Return the findings that are named, with their rows.

    Args:
        database: a database with the tables of a run, with all columns.
        names: which findings.
        kinds: the kinds of findings of the report.
        thresholds: those of the report.
        conditions: the filter of the rows.

    Raises:
        UsageError: the report has no finding of a number, or the search is not possible.
    """
    wanted = {name.kind for name in names}
    searched = [
        kind
        for kind in with_thresholds(kinds, thresholds)
        if None in wanted or kind.query.name in wanted
    ]
    for kind in searched:
        if kind.query.name in wanted and (filters := unfiltered_only(kind, conditions)):
            raise UsageError(
                f"finding {kind.query.name!r} needs all requests of a client: "
                f"leave out {', '.join(filters)}"
            )
    searched = [kind for kind in searched if not unfiltered_only(kind, conditions)]
    queries = promising(database, asked_for(database, searched))
    database.derived.say_rows()
    kinds_with_rows = [
        kind._replace(query=kind.query.with_rows()) for kind in searched if kind.query in queries
    ]
    failed = FailedQueries()
    findings = search(database, kinds_with_rows, failed)
    for line in failed.lines:
        if line["name"] in wanted:
            raise QueryError(line["reason"], line["name"])
    return [finding for name in names for finding in _chosen(name, findings)]


def _chosen(name: FindingName, findings: Sequence[Finding]) -> list[Finding]:
    if name.kind is None:
        numbered = dict(enumerate(findings, start=1))
    else:
        of_kind = [finding for finding in findings if finding.name == name.kind]
        numbered = {_place_of(finding): finding for finding in of_kind}
    if name.place is None:
        return list(numbered.values())
    if name.place not in numbered:
        raise UsageError(f"there is no finding {name}: there are {len(numbered)}")
    finding = numbered[name.place]
    if not finding.short_name:
        raise _without_rows(finding.name, finding.command)
    return [finding]


def _place_of(finding: Finding) -> int:
    """Return the place of a finding among those of its kind."""
    return int(finding.short_name.partition(":")[2] or 1)


def with_commands(
    findings: Iterable[Finding], kinds: Iterable[FindingKind], conditions: Mapping[str, Any]
) -> list[Finding]:
    """Return findings whose commands show their rows, and no others.

    A finding whose query does not say which rows it means stays as it is.

    Args:
        findings: findings of a report.
        kinds: the kinds that were searched for, with their thresholds.
        conditions: the filter of the rows, which the commands repeat.
    """
    filters, by_name = _filter_options(conditions), {kind.query.name: kind for kind in kinds}
    return [
        finding._replace(
            options=(
                *("--finding", finding.short_name, *filters),
                *_threshold_options(by_name[finding.name]),
            )
        )
        if finding.short_name
        else finding
        for finding in findings
    ]


def _threshold_options(kind: FindingKind) -> list[str]:
    """Return the options that set the thresholds that are not the default ones."""
    default = kind_of_finding(kind.query).thresholds
    return [
        word
        for name, value in kind.thresholds.items()
        if value != default[name]
        for word in ("--threshold", f"{kind.query.name}.{name}={value!r}")
    ]


def _filter_options(conditions: Mapping[str, Any]) -> list[str]:
    """Return the options that filter rows as in a report."""
    words: list[str] = []
    for each in FILTERS.values():
        value = conditions.get(each.field)
        if value is None:
            continue
        values: Collection[Any] = value if isinstance(value, list) else [value]
        (flag,) = each.flags
        for text in (f"{item}{each.unit}" for item in values):
            if value is True:
                words.append(flag)
            elif text.startswith("-"):  # argparse would take it for another option
                words.append(f"{flag}={text}")
            else:
                words += [flag, text]
    return words
