"""Makes the report from the results of its queries.

In: a database with the requests, and the quality of the captures. Out: a report as plain values.
Each table of the report is a file in ``sql/report/``, which says what it counts.

Each field is described in ``spec/report.py`` or ``tools/report_fields.py``, which
``docs/schema/report.schema.json`` is made from.
If the meaning of a field changes, :data:`SCHEMA` must be increased. What a query that fails would
have answered is null.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kanalyze.common.texts import bounded_text
from kanalyze.model.tcp import Endpoint
from kanalyze.queries.conditions import promising
from kanalyze.queries.engine import FailedQueries, QueryError
from kanalyze.queries.files import built_in
from kanalyze.queries.findings import (
    asked_for,
    search,
    unfiltered_only,
    with_earlier,
    with_thresholds,
)
from kanalyze.queries.named_findings import with_commands
from kanalyze.spec.report import MOST_VERSIONS, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from kanalyze.queries.database import Database
    from kanalyze.queries.files import Query
    from kanalyze.queries.findings import FindingKind
    from kanalyze.tables.quality import CaptureQuality

SCHEMA = 1
MAX_KEYS = 10_000
"""Lines of a table; the rest is summed up in one more line, with ``other``."""
MAX_VERSIONS = 64
"""Versions of one API that are counted separately; the rest counts as ``other``."""
MAX_TEXTS = 8
"""Client addresses, principals and software versions that are listed for one client."""
MAX_SLOWEST = 10
MAX_SLOWEST_TOPICS = 3
_FINEST_BUCKET_NS = 1_000_000
_THROUGHPUT = ("requests", "errors", "request_bytes", "response_bytes")
_LATENCY = ("p50", "p90", "p99", "max")
_NO_AMOUNTS = dict.fromkeys(("min", "p50", "p90", "p99", "max", "mean"))
_WITH_SUMMARIES = ("apis", "brokers", "clients", "client_apis")
"""Tables with summaries of times, which are null if there are no times."""
_OF_CONNECTIONS = ("tls", "tls_certificates")
"""Tables that are empty if there is no table of connections."""
OF_ROWS = frozenset({"lag", "changes"})
"""Tables that are made of rows; of sums nobody can make them."""


def report_with_findings(
    database: Database,
    quality: CaptureQuality,
    conditions: Mapping[str, Any] | None,
    kinds: Iterable[FindingKind],
    thresholds: Mapping[str, float] | None = None,
    *,
    most_slowest: int = MAX_SLOWEST,
    sums: Database | None = None,
    earlier: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the report on the requests of a database, with findings.

    ``findings_left_out`` names the kinds that cannot be searched for in filtered requests, and
    ``failed_queries`` the queries that failed: what they would have answered is null.

    Args:
        database: a database with the tables of a run.
        quality: the quality of the captures.
        conditions: the filter of the rows.
        kinds: the kinds of findings to search for.
        thresholds: see :func:`~kanalyze.queries.findings.findings_of`.
        most_slowest: number of the slowest requests to list.
        sums: what the tables are made of, if not of the database, which then is for findings only.
        earlier: findings of earlier reports, which are listed too.

    Raises UsageError for an unknown threshold.
    """
    chosen = with_thresholds(kinds, thresholds or {})
    not_searched = [kind for kind in chosen if unfiltered_only(kind, conditions or {})]
    searched = [kind for kind in chosen if kind not in not_searched]
    parameters = _parameters(MAX_KEYS, most_slowest)
    # One look at each table for both.
    asked = [*_asked(parameters)] if sums is None else []
    queries = promising(database, [*asked, *asked_for(database, searched)])
    if sums is None:
        report = _report_of(database, quality, conditions or {}, parameters, queries)
    else:
        summed = {query for query in built_in("report").values() if query.name not in OF_ROWS}
        queries |= summed | promising(database, _asked(parameters, OF_ROWS))
        report = _report_of(sums, quality, conditions or {}, parameters, queries, database)
    failed = FailedQueries()
    findings = search(database, [kind for kind in searched if kind.query in queries], failed)
    shown = with_commands(findings, searched, conditions or {})
    report["findings"] = [finding.to_dict() for finding in with_earlier(shown, earlier, searched)]
    if not_searched:
        report["findings_left_out"] = sorted(kind.query.name for kind in not_searched)
    failed.add_to(report)
    return report


def report_of(
    database: Database,
    quality: CaptureQuality,
    conditions: Mapping[str, Any] | None = None,
    *,
    most_keys: int = MAX_KEYS,
    most_slowest: int = MAX_SLOWEST,
) -> dict[str, Any]:
    """Return the report on the requests of a database, without findings.

    Args:
        database: a database with a table of requests.
        quality: the quality of the captures.
        conditions: the filter of the rows.
        most_keys: lines of a table; the rest is summed up in one more line, with ``other``.
        most_slowest: number of the slowest requests to list.
    """
    parameters = _parameters(most_keys, most_slowest)
    queries = promising(database, _asked(parameters))
    return _report_of(database, quality, conditions or {}, parameters, queries)


def _parameters(most_keys: int, most_slowest: int) -> dict[str, int]:
    """Return the parameters of the queries of a report."""
    return {"most_keys": most_keys, "most": most_slowest}


def _asked(
    parameters: Mapping[str, object], names: Collection[str] | None = None
) -> Iterator[tuple[Query, Mapping[str, object]]]:
    """Yield the queries of a report with their parameters; all of them, or those with names."""
    for name, query in built_in("report").items():
        if names is None or name in names:
            yield query, parameters


def _report_of(
    database: Database,
    quality: CaptureQuality,
    conditions: Mapping[str, Any],
    parameters: Mapping[str, int],
    queries: Collection[Query],
    rows: Database | None = None,
) -> dict[str, Any]:
    """Return the report; only ``queries`` have anything to say.

    ``rows`` is what answers those of :data:`OF_ROWS` if the database has sums.
    """
    ask = _Asker(database, rows or database, parameters, queries)
    has_connections = "connections" in database.tables
    makers = _makers(parameters["most_keys"])
    *tables, slowest = (
        (name, ask.table(*makers.get(name, (_each(bounded_line), name))))
        if has_connections or name not in _OF_CONNECTIONS
        else (name, [])
        for name in TABLES
    )
    report = {
        "schema": SCHEMA,
        "capture": quality.extent(),
        "filter": dict(conditions),
        "quality": quality.to_dict(),
        "totals": ask.table(_totals, "totals", *(["hidden_records"] if has_connections else [])),
        **dict(tables),
        "throughput": ask.table(
            lambda spans, lines: _series(spans, lines, _THROUGHPUT, 0), "time_buckets", "throughput"
        ),
        "latency": ask.table(
            lambda spans, lines: _series(spans, lines, _LATENCY, None), "time_buckets", "latency"
        ),
        **dict([slowest]),
        "limited": [
            name for name, lines in tables if lines and any(line.get("other") for line in lines)
        ],
    }
    ask.failed.add_to(report)
    return report


_Lines: TypeAlias = "list[dict[str, Any]]"
_Made = TypeVar("_Made")


class _Asker:
    """Makes tables of the results of queries."""

    def __init__(
        self,
        database: Database,
        rows: Database,
        parameters: Mapping[str, object],
        queries: Collection[Query],
    ) -> None:
        self._database = database
        self._rows = rows
        self._parameters = parameters
        self._queries = queries
        self._results: dict[str, _Lines | None] = {}
        self.failed = FailedQueries()

    def table(self, make: Callable[..., _Made], *names: str) -> _Made | None:
        """Return what ``make`` makes of the results of queries; None if one of them fails."""
        results = [self._lines(name) for name in names]
        return None if None in results else make(*results)

    def _lines(self, name: str) -> _Lines | None:
        if name not in self._results:
            query = built_in("report")[name]
            try:
                is_asked = query in self._queries
                asked = self._rows if name in OF_ROWS else self._database
                lines = asked.answer(query, self._parameters) if is_asked else []
                # Most tables have nothing nested, and may have 10,000 lines.
                if any("." in column for column in (lines[0] if lines else ())):
                    lines = list(map(_nested, lines))
                self._results[name] = (
                    list(map(_summarized, lines)) if name in _WITH_SUMMARIES else lines
                )
            except QueryError as error:
                self.failed.add("table", name, error)
                self._results[name] = None
        return self._results[name]


def _makers(most_keys: int) -> dict[str, tuple[Callable[..., _Lines], *tuple[str, ...]]]:
    """Return what makes tables that are not the unchanged results of their own queries.

    By table: a function, and the queries whose results it takes.
    """
    return {
        "apis": (_apis, "apis", "api_versions"),
        "clients": (_clients, "clients", "client_identities"),
        "inventory": (_each(_spoken), "inventory"),
        "topics": (partial(_topics, most_keys), "topics"),
        "brokers": (_each(_broker), "brokers"),
        "tls": (_each(_broker), "tls"),
        "slowest": (_each(_slow_request), "slowest"),
    }


def _each(make: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[_Lines], _Lines]:
    """Return what makes each line of a table by itself."""
    return lambda lines: list(map(make, lines))


def _totals(lines: _Lines, hidden: _Lines | None = None) -> dict[str, Any]:
    """Return the totals; numbers of records are not known if some requests could not be read."""
    (line,) = lines
    has_all = not (hidden and hidden[0]["may_be_missing"])
    known = {name: value and has_all for name, value in line.items() if name.endswith("_known")}
    return {**line, **known}


def _nested(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line in which columns ``a.b`` are nested: ``b`` in ``a``."""
    nested: dict[str, Any] = {}
    for name, value in line.items():
        *outer, last = name.split(".")
        group = nested
        for part in outer:
            group = group.setdefault(part, {})
        group[last] = value
    return nested


def _summarized(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line in which summaries of no times count 0; of other clients, nothing is known."""
    nothing = {"count": None if line.get("other") else 0, **_NO_AMOUNTS}
    for group in (line, line.get("waited", {})):
        for name in {"latency_ns", "total_time_ns"} & group.keys():
            group[name] = group[name] or nothing
    return line


def bounded_line(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line in which texts from the wire are cut to their maximum length."""
    return {
        name: bounded_text(value) if isinstance(value, str) else value
        for name, value in line.items()
    }


def _apis(lines: list[dict[str, Any]], versions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the APIs, each with its versions and the statuses that occur."""
    by_api: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for version in versions:
        by_api.setdefault(_api_of(version), []).append(version)
    return [_api(line, by_api.get(_api_of(line), [])) for line in lines]


def _api_of(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return line["wire"], line["api_key"], line["api_name"]


def _api(line: dict[str, Any], versions: list[dict[str, Any]]) -> dict[str, Any]:
    statuses = {status: count for status, count in sorted(line["statuses"].items()) if count}
    counts = {
        "unknown" if number is None else str(number): requests
        for number, requests in ((item["api_version"], item["requests"]) for item in versions)
    }
    listed = dict(list(counts.items())[:MAX_VERSIONS])
    if len(counts) > len(listed):
        listed["other"] = sum(counts.values()) - sum(listed.values())
    return {
        **{name: line.pop(name) for name in ("wire", "api_key", "api_name")},
        "other": False,
        **{name: line.pop(name) for name in ("requests", "responses")},
        "versions": listed,
        "statuses": statuses,
        "errors": statuses.get("error", 0),
        **{name: value for name, value in line.items() if name != "statuses"},
    }


def _clients(lines: list[dict[str, Any]], identities: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the clients, each with its addresses, its software and its principals."""
    listed = {line["client_id"] for line in lines if not line["other"]}
    of_client: dict[str | None, list[dict[str, Any]]] = {}
    identities_of_others: list[dict[str, Any]] = []
    for identity in identities:
        client_id = identity["client_id"]
        is_other = client_id not in listed
        (identities_of_others if is_other else of_client.setdefault(client_id, [])).append(identity)
    return [
        _client(
            line, identities_of_others if line["other"] else of_client.get(line["client_id"], [])
        )
        for line in lines
    ]


def _client(line: dict[str, Any], identities: list[dict[str, Any]]) -> dict[str, Any]:
    client_id = line.pop("client_id")
    return {
        "client_id": None if client_id is None else bounded_text(client_id),
        "other": line.pop("other"),
        **_texts("software", map(_software, identities), MAX_TEXTS),
        **_texts("client_ips", (identity["client_ip"] for identity in identities), MAX_TEXTS),
        **_texts("principals", (identity["principal"] for identity in identities), MAX_TEXTS),
        **line,
    }


def _software(identity: Mapping[str, Any]) -> str | None:
    name = identity["client_software_name"]
    version = identity["client_software_version"] or ""
    return None if name is None else f"{name} {version}".strip()


def _spoken(line: dict[str, Any]) -> dict[str, Any]:
    """Return a client with bounded lists of what it speaks."""
    lists = ("versions", "refused", "kafka_4_refuses")
    single = {name: line[name] for name in ("traffic", "client_id", "client_ip", "principal")}
    return {
        **bounded_line(single),
        "software": bounded_text(_software(line) or "") or None,
        "requests": line["requests"],
        "errors": line["errors"],
        **{
            key: value
            for name in lists
            for key, value in _texts(name, line[name], MOST_VERSIONS).items()
        },
    }


def _texts(name: str, texts: Iterable[str | None], most: int) -> dict[str, Any]:
    """Return the first ``most`` texts in sorted order, and whether there are more."""
    distinct = sorted({bounded_text(text) for text in texts if text is not None})
    return {name: distinct[:most], f"more_{name}": len(distinct) > most}


def _topics(most_keys: int, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the topics; those after ``most_keys`` are summed up."""
    topics = [bounded_line({"topic": None, "topic_id": None, "other": False, **x}) for x in lines]
    listed, remaining = topics[:most_keys], topics[most_keys:]
    if remaining:
        summed: dict[str, Any] = {"topic": None, "topic_id": None, "other": True}
        for name in list(remaining[0])[3:]:
            values = [topic[name] for topic in remaining]
            summed[name] = all(values) if name.endswith("_known") else sum(values)
        listed.append(summed)
    return listed


def _broker(line: dict[str, Any]) -> dict[str, Any]:
    ip, port = line.pop("broker_ip"), line.pop("broker_port")
    return {"broker": None if ip is None else str(Endpoint(ip, port)), **line}


def _series(
    spans: list[dict[str, Any]],
    lines: Iterable[Mapping[str, Any]],
    names: Iterable[str],
    empty_value: int | None,
) -> dict[str, Any]:
    """Return lines as columns with a value for each span of time, and the start of the first."""
    if not spans:
        return {"start_ns": None, "bucket_ns": _FINEST_BUCKET_NS, **{name: [] for name in names}}
    start_ns, bucket_ns, buckets = (spans[0][name] for name in ("start_ns", "bucket_ns", "buckets"))
    series = {name: [empty_value] * buckets for name in names}
    for line in lines:
        for name, values in series.items():
            values[(line["start_ns"] - start_ns) // bucket_ns] = line[name]
    return {"start_ns": start_ns, "bucket_ns": bucket_ns, **series}


def _slow_request(line: dict[str, Any]) -> dict[str, Any]:
    partitions = line.pop("partitions")
    if line["client_id"] is not None:
        line["client_id"] = bounded_text(line["client_id"])
    names = (item["topic"] or item["topic_id"] for item in partitions)
    return {**line, **_texts("topics", names, MAX_SLOWEST_TOPICS)}
