"""Findings: what is wrong, in words. Each kind is a query, and each row of its result a finding.

In: a database with the tables of a run. Out: :class:`Finding`, the most severe first.

The comment at the top of such a file has these lines:

- ``severity:`` 0 to 100; ``sure:``, ``why:`` and ``repair:`` are texts for people;
- ``show:`` (optional): the command that shows the rows, ``requests`` (the default), ``connections``
  or ``anomalies``;
- ``see:`` (optional): the sections of a report that show more of it, before those of whom it
  concerns;
- ``tables:`` (optional): the tables that it reads and that are only made if asked for;
- ``needs: all requests`` (optional): it counts what is missing, so it cannot be used if a filter
  leaves out some requests of a client;
- ``only if TABLE: CONDITION`` (optional, repeated): see ``conditions.py``;
- ``caused by NAME: CONCERNS`` (optional, repeated): see ``stories.py``;
- ``parameter NAME = NUMBER: meaning`` for each threshold.

The result has the columns ``what`` (the figures, as a sentence) and ``weight`` (higher is worse,
among findings of one kind), and those of the following that apply: ``client_id client_ip broker_ip
broker_port api_name topic group_id error_name first_time_ns last_time_ns``. The two times are those
of the fault. All requests that the finding is about began between them, both included; connections
were open then. ``first_packet`` is needed only where no such row begins at the first time; see
``first_packets.py``.

A query says which rows it means by ``request_ids`` (a list of ``request_id``) or, if its command is
``connections``, ``connection_keys`` (a list of texts, each a connection, a space and its number).
Lists of all rows would cost more than the figures, so what makes them is in comments that begin
with ``-- rows:``, and is part of the query only if somebody asks for the rows.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import similar
from kanalyze.errors import UsageError
from kanalyze.model.tcp import Endpoint
from kanalyze.queries.conditions import promising
from kanalyze.queries.engine import QueryError
from kanalyze.queries.files import built_in, read_queries
from kanalyze.queries.finding import Finding
from kanalyze.queries.first_packets import with_first_packets
from kanalyze.queries.stories import CauseRule, cause_rules, in_stories
from kanalyze.spec.report import SECTIONS, SECTIONS_BY_CONCERN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kanalyze.queries.database import Database
    from kanalyze.queries.engine import FailedQueries
    from kanalyze.queries.files import Query

MAX_OF_A_KIND = 20
"""Maximum number of findings of one kind; those with less weight are left out."""

_FIELD = re.compile(r"(severity|sure|why|repair|show|see|tables|needs): (.+)")
_ALL_REQUESTS = "all requests"
_SOME_REQUESTS = frozenset(
    {
        *("api", "topic", "partition", "packet", "correlation_id", "anomaly", "principal"),
        *("status", "error", "errors", "slower_than_ns"),
    }
)
"""Filters that select some requests of a client but not others."""
_SEVERITY = re.compile(r"^severity: ", re.MULTILINE)
_PARAMETER = re.compile(r"parameter ([a-z_0-9]+) = ([0-9.]+): (.+)")
_GLOB = re.compile(r"[*?\[]")
_OPTIONS = {
    "client_id": "--client-id",
    "client_ip": "--client-ip",
    "api_name": "--api",
    "topic": "--topic",
    "group_id": "--group",
}
_CONCERNS_WITH_OPTIONS = {
    "requests": frozenset({*_OPTIONS, "broker", "error_name"}),
    "connections": frozenset({"client_id", "client_ip", "broker"}),
    "anomalies": frozenset({"client_ip", "broker"}),
}
"""For each command, the concerns of a finding that it has options for."""
_ROWS_COLUMN = {"requests": "request_ids", "connections": "connection_keys"}
"""By command: the column of a result that says which rows the finding is about."""
COMMANDS_OF_ROWS = tuple(_ROWS_COLUMN)
_NEEDED = ("what", "weight")
_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("what", *_OPTIONS, "error_name", "broker_ip"), str),
    **dict.fromkeys(("broker_port", "first_time_ns", "last_time_ns", "first_packet"), int),
    **dict.fromkeys(_ROWS_COLUMN.values(), list),
    "weight": (int, float, Decimal),
}
"""The types of a result's columns."""
_IS_GLOB = ("client_id", "topic", "group_id")


class FindingKind(NamedTuple):
    """One kind of finding, and how to search for it."""

    query: Query
    severity: int
    """0 to 100; higher is worse."""
    sure: str
    why: str
    repair: str
    command: str
    """The command that shows the rows: ``requests``, ``connections`` or ``anomalies``."""
    see: tuple[str, ...]
    """Sections of a report that show more of it, whomever it concerns."""
    tables: frozenset[str]
    """Tables that it reads and that are only made if asked for."""
    needs_all: bool
    """Whether it counts what is missing, so that a filter would make it wrong."""
    thresholds: dict[str, float]
    """The parameters of the query, with their default values."""
    meanings: dict[str, str]
    """The meaning of each parameter."""
    causes: tuple[CauseRule, ...]
    """Which findings may explain one of this kind."""
    names_rows: bool
    """Whether its query can say which rows a finding is about."""


def findings_of(
    database: Database,
    kinds: Iterable[FindingKind],
    thresholds: Mapping[str, float] | None = None,
) -> list[Finding]:
    """Return the findings in stories, the most severe first.

    Args:
        database: a database with the tables of a run. Kinds that need a missing table are
            skipped.
        kinds: the kinds to search for.
        thresholds: values that replace the defaults of parameters, by kind and parameter:
            ``{"tiny_batches.least_per_s": 10}``.

    Raises:
        QueryError: a query fails.
        UsageError: a threshold is unknown, or the columns of a result are not those of a finding.
    """
    chosen = with_thresholds(kinds, thresholds or {})
    queries = promising(database, asked_for(database, chosen))
    found = [_findings(database, kind) for kind in chosen if kind.query in queries]
    findings = [finding for each in found for finding in each]
    return told(with_first_packets(findings, database), chosen)


def told(findings: Iterable[Finding], kinds: Iterable[FindingKind]) -> list[Finding]:
    """Return findings in stories (``stories.py``), the most severe first."""
    rules = {kind.query.name: kind.causes for kind in kinds}
    return in_stories(sorted(findings, key=_by_severity), rules)


def search(
    database: Database, kinds: Iterable[FindingKind], failed: FailedQueries
) -> list[Finding]:
    """Return the findings in stories; a kind whose query fails is added to ``failed``.

    Args:
        database: see :func:`findings_of`.
        kinds: the kinds to search for, whose queries are all run.
        failed: kinds whose query fails are added.
    """
    findings: list[Finding] = []
    searched = list(kinds)
    for kind in searched:
        try:
            findings += _findings(database, kind)
        except UsageError as error:
            failed.add("finding", kind.query.name, error)
    try:
        findings = with_first_packets(findings, database)
    except QueryError as error:
        failed.add("finding", error.query or "", error)
    return told(findings, searched)


def search_rows(
    database: Database,
    kinds: Iterable[FindingKind],
    conditions: Mapping[str, Any],
    failed: FailedQueries,
) -> tuple[list[Finding], list[str]]:
    """Return the findings of rows that a filter selects, and the kinds not searched for.

    Args:
        database: see :func:`findings_of`.
        kinds: the kinds to search for.
        conditions: the filter of the rows.
        failed: kinds whose query fails are added.
    """
    chosen = list(kinds)
    searched = [kind for kind in chosen if not unfiltered_only(kind, conditions)]
    queries = promising(database, asked_for(database, searched))
    found = search(database, [kind for kind in searched if kind.query in queries], failed)
    return found, [kind.query.name for kind in chosen if kind not in searched]


def with_earlier(
    findings: Sequence[Finding], earlier: Iterable[Mapping[str, Any]], kinds: Iterable[FindingKind]
) -> list[Finding]:
    """Return findings in stories with those of earlier reports, the worst of each kind.

    Args:
        findings: in stories. One takes the place of an earlier one with the same concerns.
        earlier: findings as in a report, of rows that were not searched for ``findings``.
        kinds: the kinds that were searched for; earlier findings of others are left out.
    """
    searched = list(kinds)
    known = {kind.query.name for kind in searched}
    seen = {_subject(finding) for finding in findings}
    lists = ("options", "see")
    kept = [
        Finding(**{**line, **{name: tuple(line[name]) for name in lists}, "cause": None})
        for line in earlier
        if line["name"] in known
    ]
    kept = [finding for finding in kept if _subject(finding) not in seen]
    if not kept:
        return list(findings)
    of_kinds: dict[str, list[Finding]] = {}
    for finding in sorted([*findings, *kept], key=_by_severity):
        of_kinds.setdefault(finding.name, []).append(finding)
    worst = (finding for of_kind in of_kinds.values() for finding in of_kind[:MAX_OF_A_KIND])
    return told(worst, searched)


def _subject(finding: Finding) -> tuple[str, frozenset[tuple[str, Any]]]:
    return finding.name, frozenset(finding.concerns.items())


def asked_for(
    database: Database, kinds: Iterable[FindingKind]
) -> Iterator[tuple[Query, Mapping[str, float]]]:
    """Yield the queries of kinds with their thresholds, without those that need a missing table."""
    return ((kind.query, kind.thresholds) for kind in kinds if kind.tables <= database.tables)


def _findings(database: Database, kind: FindingKind) -> list[Finding]:
    lines = database.answer(kind.query, kind.thresholds, MAX_OF_A_KIND)
    names = _short_names(kind, len(lines))
    return [_finding(kind, line, name) for line, name in zip(lines, names, strict=True)]


def _short_names(kind: FindingKind, count: int) -> list[str]:
    """Return the name for ``--finding`` of each finding of a kind."""
    name = kind.query.name if kind.names_rows else ""
    return [f"{name}:{place}" if name and count > 1 else name for place in range(1, count + 1)]


def _by_severity(finding: Finding) -> tuple[int, str, float]:
    return -finding.severity, finding.name, -finding.weight


def with_thresholds(
    kinds: Iterable[FindingKind], thresholds: Mapping[str, float]
) -> list[FindingKind]:
    """Return kinds with the user's values of parameters.

    For ``thresholds`` see :func:`findings_of`. Raises UsageError for a threshold that no kind has.
    """
    unused, valid_names = dict(thresholds), []
    kinds_with_values = []
    for kind in kinds:
        values = {
            name: float(unused.pop(f"{kind.query.name}.{name}", value))
            for name, value in kind.thresholds.items()
        }
        kinds_with_values.append(kind._replace(thresholds=values))
        valid_names += [f"{kind.query.name}.{name}" for name in values]
    if unused:
        name = next(iter(unused))
        raise UsageError(f"unknown threshold: {name!r}{similar(name, valid_names)}")
    return kinds_with_values


def unfiltered_only(kind: FindingKind, conditions: Mapping[str, Any]) -> list[str]:
    """Return the filters that prevent a search for a kind, sorted."""
    return sorted(_SOME_REQUESTS & conditions.keys()) if kind.needs_all else []


def finding_kinds(*folders: Path) -> list[FindingKind]:
    """Return the built-in kinds and those in a user's folders; later ones replace earlier ones.

    Queries in such a folder without ``severity:`` are not findings. Raises UsageError if a folder
    or a comment cannot be parsed.
    """
    queries = dict(built_in("findings"))
    for folder in folders:
        queries.update(
            (name, query)
            for name, query in read_queries(folder).items()
            if _SEVERITY.search(query.description)
        )
    return [kind_of_finding(query) for query in queries.values()]


def kind_of_finding(query: Query) -> FindingKind:
    """Return the kind that a query searches for; raises UsageError if its comment is incomplete."""
    fields = dict(_FIELD.findall(query.description))
    missing = [name for name in ("severity", "sure", "why", "repair") if name not in fields]
    if missing or not fields["severity"].isdecimal():
        raise UsageError(f"query {query.name!r}: its comment has no {missing or 'severity'}")
    parameters = _PARAMETER.findall(query.description)
    values = {name: float(value) for name, value, _ in parameters}
    if set(values) != set(query.parameters):
        raise UsageError(f"query {query.name!r}: its comment does not have all parameters")
    command = fields.get("show", "requests")
    if command not in _CONCERNS_WITH_OPTIONS:
        raise UsageError(f"query {query.name!r}: there is no command {command!r} to show")
    see = tuple(fields.get("see", "").split())
    for section in see:
        if section not in SECTIONS:
            raise UsageError(f"query {query.name!r}: reports have no section {section!r}")
    return FindingKind(
        query,
        int(fields["severity"]),
        fields["sure"],
        fields["why"],
        fields["repair"],
        command,
        see,
        frozenset(fields.get("tables", "").split()),
        fields.get("needs") == _ALL_REQUESTS,
        values,
        {name: meaning for name, _, meaning in parameters},
        cause_rules(query.description),
        command in _ROWS_COLUMN and query.names_rows,
    )


def _finding(kind: FindingKind, line: Mapping[str, Any], short_name: str) -> Finding:
    _check_types(kind.query.name, line)
    concerns = {name: line[name] for name in _OPTIONS if line.get(name) is not None}
    if line.get("error_name") is not None:
        concerns["error_name"] = line["error_name"]
    ip, port = line.get("broker_ip"), line.get("broker_port")
    if ip is not None and port is not None:
        concerns["broker"] = str(Endpoint(ip, port))
    return Finding(
        name=kind.query.name,
        title=kind.query.title.rstrip("."),
        severity=kind.severity,
        what=line["what"],
        weight=float(line["weight"]),
        sure=kind.sure,
        why=kind.why,
        repair=kind.repair,
        concerns=concerns,
        first_time_ns=line.get("first_time_ns"),
        last_time_ns=line.get("last_time_ns"),
        first_packet=line.get("first_packet"),
        command=kind.command,
        options=_options(concerns, _CONCERNS_WITH_OPTIONS[kind.command]),
        short_name=short_name,
        rows=tuple(line.get(_ROWS_COLUMN.get(kind.command, "")) or ()),
        see=_sections(kind.see, concerns),
    )


def _sections(first: Iterable[str], concerns: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sections of a report that matter for a finding, without repetition."""
    by_concern = [
        name
        for concern, names in SECTIONS_BY_CONCERN.items()
        if concern in concerns
        for name in names
    ]
    return tuple(dict.fromkeys((*first, *by_concern)))


def _check_types(name: str, line: Mapping[str, Any]) -> None:
    """Raise UsageError for a line that is not a finding: a user's query may return anything."""
    for column, types in _TYPES.items():
        value = line.get(column)
        is_missing = value is None and column in _NEEDED
        if is_missing or not (value is None or isinstance(value, types)):
            raise UsageError(f"query {name!r}: {value!r} is not a valid {column} of a finding")


def _options(concerns: Mapping[str, Any], accepted: Collection[str]) -> tuple[str, ...]:
    """Return the options of the command that shows the rows."""
    words: list[str] = []
    for name, option in _OPTIONS.items():
        if name in concerns and name in accepted:
            value = str(concerns[name])
            words += [option, _GLOB.sub(r"[\g<0>]", value) if name in _IS_GLOB else value]
    if "broker" in concerns:
        words += ["--broker", concerns["broker"]]
    if "error_name" in concerns and "error_name" in accepted:
        words.append("--errors")
    return tuple(words)
