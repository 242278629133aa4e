"""What is wrong, in words, the worst first: each kind is a query that answers with what it found.

In: a database with the tables of a run. Out: :class:`Finding`. This module must not know what kinds
there are: those are the files of ``sql/findings/``, and of a user's folder.

The comment at the head of such a file says, each on a line of its own, ``severity:`` (0 to 100),
``sure:``, ``why:``, ``repair:``, perhaps ``show:`` (the command that shows the rows: ``requests``
where nothing is said, or ``connections`` or ``anomalies``), ``tables:`` (those that it asks and
that are made for who asks alone) and ``needs: all requests`` (it counts what is missing: it is not
looked for where a filter leaves out some requests of a client), and its thresholds:
``parameter NAME = NUMBER: meaning``. What it answers has the columns ``what`` (the figures, as a
sentence) and ``weight`` (more is worse, among those of one kind), and of the others those that
apply: ``client_id client_ip broker_ip broker_port api_name topic group_id error_name first_time_ns
last_time_ns first_packet``.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.model.tcp import Endpoint
from kanalyze.queries.files import built_in, read_queries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from kanalyze.queries.engine import QueryEngine
    from kanalyze.queries.files import Query

__all__ = [
    "Finding",
    "FindingKind",
    "finding_kinds",
    "findings_of",
    "kind_of_finding",
    "unfiltered_only",
    "with_thresholds",
]

MOST_OF_A_KIND = 20
"""Findings of one kind that are given; those of less weight are left out."""

_FIELD = re.compile(r"(severity|sure|why|repair|show|tables|needs): (.+)")
_ALL_REQUESTS = "all requests"
_SOME_REQUESTS = frozenset(
    {"api", "topic", "partition", "status", "error", "errors", "slower_than_ns"}
)
"""Conditions that select some requests of a client and not others."""
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
_TAKEN = {
    "requests": frozenset({*_OPTIONS, "broker", "error_name"}),
    "connections": frozenset({"client_id", "client_ip", "broker"}),
    "anomalies": frozenset({"client_ip", "broker"}),
}
"""Which of what a finding concerns the options of a command can say."""
_NEEDED = ("what", "weight")
_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("what", *_OPTIONS, "error_name", "broker_ip"), str),
    **dict.fromkeys(("broker_port", "first_time_ns", "last_time_ns", "first_packet"), int),
    "weight": (int, float, Decimal),
}
"""Of the columns of an answer."""
_IS_GLOB = ("client_id", "topic", "group_id")


class FindingKind(NamedTuple):
    """One kind of thing that may be wrong, and how it is looked for."""

    query: Query
    severity: int
    """0 to 100, more is worse."""
    sure: str
    why: str
    repair: str
    command: str
    """Which shows the rows: ``requests``, ``connections`` or ``anomalies``."""
    tables: frozenset[str]
    """That it asks, of those that are made for who asks for them alone."""
    needs_all: bool
    """It counts what is missing: what a filter leaves out would be wrong with it."""
    thresholds: dict[str, float]
    """What the query takes, and the values that hold where nobody gives others."""
    meanings: dict[str, str]
    """What each of them is."""


class Finding(NamedTuple):
    """One thing that is wrong."""

    name: str
    """Of its kind: the name of the query."""
    title: str
    severity: int
    what: str
    """The figures, as a sentence."""
    weight: float
    """More is worse, among those of one kind."""
    sure: str
    why: str
    repair: str
    concerns: dict[str, Any]
    """Whom: of client_id, client_ip, broker, api_name, topic, group_id, error_name those that
    apply."""
    first_time_ns: int | None
    last_time_ns: int | None
    first_packet: int | None
    command: str
    """Of kanalyze: which shows the rows."""
    options: tuple[str, ...]
    """Of that command."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as the report has it."""
        return {**self._asdict(), "options": list(self.options)}


def findings_of(
    database: QueryEngine,
    kinds: Iterable[FindingKind],
    thresholds: Mapping[str, float] | None = None,
) -> list[Finding]:
    """Return what is wrong, the worst first.

    Args:
        database: with the tables that the queries ask; what asks others that are not made in every
            run is not looked for.
        kinds: what to look for.
        thresholds: values of parameters that replace those of the queries, by ``NAME`` of the
            kind and of the parameter: ``{"tiny_batches.least_per_s": 10}``.

    Raises:
        QueryError: a query cannot be answered.
        UsageError: there is no such threshold, or a query answers with other columns than those
            of a finding.
    """
    found: list[Finding] = []
    for kind in with_thresholds(kinds, thresholds or {}):
        if kind.tables <= database.tables:
            lines = database.answer(kind.query, kind.thresholds, MOST_OF_A_KIND)
            found += [_finding(kind, line) for line in lines]
    return sorted(found, key=lambda each: (-each.severity, each.name, -each.weight))


def with_thresholds(
    kinds: Iterable[FindingKind], thresholds: Mapping[str, float]
) -> list[FindingKind]:
    """Return kinds with values of a user in place of those of the queries.

    ``thresholds`` are as for :func:`findings_of`. Raises UsageError for one that no kind has.
    """
    given = dict(thresholds)
    made = []
    for kind in kinds:
        values = {
            name: float(given.pop(f"{kind.query.name}.{name}", value))
            for name, value in kind.thresholds.items()
        }
        made.append(kind._replace(thresholds=values))
    if given:
        raise UsageError(f"unknown threshold: {next(iter(given))!r}")
    return made


def unfiltered_only(kind: FindingKind, conditions: Mapping[str, Any]) -> list[str]:
    """Return the conditions on rows for which a kind cannot be looked for, sorted."""
    return sorted(_SOME_REQUESTS & conditions.keys()) if kind.needs_all else []


def finding_kinds(*folders: Path) -> list[FindingKind]:
    """Return the built-in kinds, and those of a user's folders, of which the last ones count.

    Queries of such a folder whose head says no severity are no findings. Raises UsageError where a
    folder or a head cannot be read.
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
    """Return the kind that a query looks for; raises UsageError where its head does not say it."""
    fields = dict(_FIELD.findall(query.description))
    missing = [name for name in ("severity", "sure", "why", "repair") if name not in fields]
    if missing or not fields["severity"].isdecimal():
        raise UsageError(f"query {query.name!r}: its comment does not say {missing or 'severity'}")
    parameters = _PARAMETER.findall(query.description)
    values = {name: float(value) for name, value, _ in parameters}
    if set(values) != set(query.parameters):
        raise UsageError(f"query {query.name!r}: its comment does not say all parameters")
    command = fields.get("show", "requests")
    if command not in _TAKEN:
        raise UsageError(f"query {query.name!r}: no command shows {command!r}")
    return FindingKind(
        query,
        int(fields["severity"]),
        fields["sure"],
        fields["why"],
        fields["repair"],
        command,
        frozenset(fields.get("tables", "").split()),
        fields.get("needs") == _ALL_REQUESTS,
        values,
        {name: meaning for name, _, meaning in parameters},
    )


def _finding(kind: FindingKind, line: Mapping[str, Any]) -> Finding:
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
        options=_options(concerns, _TAKEN[kind.command]),
    )


def _check_types(name: str, line: Mapping[str, Any]) -> None:
    """Raise UsageError for a line that is no finding: a user's query may answer with anything."""
    for column, types in _TYPES.items():
        value = line.get(column)
        is_missing = value is None and column in _NEEDED
        if is_missing or not (value is None or isinstance(value, types)):
            raise UsageError(f"query {name!r}: {value!r} is no {column} of a finding")


def _options(concerns: Mapping[str, Any], taken: Collection[str]) -> tuple[str, ...]:
    """Return what the command is given to show the rows."""
    words: list[str] = []
    for name, option in _OPTIONS.items():
        if name in concerns and name in taken:
            value = str(concerns[name])
            words += [option, _GLOB.sub(r"[\g<0>]", value) if name in _IS_GLOB else value]
    if "broker" in concerns:
        words += ["--broker", concerns["broker"]]
    if "error_name" in concerns and "error_name" in taken:
        words.append("--errors")
    return tuple(words)
