"""The sides of a comparison: from rows, or from the report that another run wrote.

In: nothing. Out: :class:`Side`.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.queries.compare.findings import SideFindings, without_uuids
from kanalyze.queries.engine import FailedQueries, QueryError
from kanalyze.queries.files import built_in
from kanalyze.queries.findings import search_rows
from kanalyze.queries.named_findings import with_commands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import UnionType

    from numpy.typing import NDArray

    from kanalyze.queries.database import Database
    from kanalyze.queries.findings import FindingKind
    from kanalyze.tables.quality import CaptureQuality

    Numbers: TypeAlias = NDArray[np.int64]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
STATUSES = ("errors", "unanswered", "throttled", "unread")
OF_READ = ("errors", "throttled")
"""The statuses that are known only of responses that were read."""
_AMOUNTS = (*STATUSES, "request_bytes", "response_bytes")
"""What both rows and a report count of a line."""

LineKey: TypeAlias = "tuple[str, str, str | None]"
"""The line of a comparison: ``api``, ``client``, ``topic`` or ``broker``; the API; the name."""


class LatencyCells(NamedTuple):
    """Numbers of latencies, by slice of time and bin of latency."""

    slices: Numbers
    bins: Numbers
    counts: Numbers


class SideLine(NamedTuple):
    """The figures of one line; None if unknown."""

    requests: int
    due: int
    """Number of requests that a response is due to."""
    latency_ns: dict[str, int | None]
    """``count``, ``p50``, ``p90`` and ``p99`` in ns, of requests that did not wait on purpose."""
    errors: int | None = None
    unanswered: int | None = None
    throttled: int | None = None
    waited: int | None = None
    request_bytes: int | None = None
    response_bytes: int | None = None
    unread: int | None = None
    """Number of responses that were not read; None in a report that does not count them."""
    by_slice: dict[str, Numbers] | None = None
    """Numbers of ``due`` and of each status, by slice; None if there are no rows."""
    latencies: LatencyCells | None = None

    def base_of(self, status: str) -> int:
        """Return of how many requests it is known whether they have a status."""
        return self.due - (self.unread or 0) if status in OF_READ else self.due


class Presence(NamedTuple):
    """How often a name occurred."""

    requests: int
    seconds: int | None
    """Number of seconds with requests in which it occurred; None if there are no rows."""


class Side(NamedTuple):
    """One of the two sides of a comparison."""

    extent: dict[str, Any]
    """Description of the input and its time, as in the comparison."""
    seconds: int | None
    """Number of seconds with requests; None if there are no rows."""
    span_ns: int | None
    """Time from the first request to the last in ns."""
    slices: int | None
    lines: dict[LineKey, SideLine]
    names: dict[str, dict[str, Presence]]
    """Names by kind; a missing kind is unknown."""
    limited: bool
    """Whether lines were left out because there were too many."""
    failed_queries: Sequence[dict[str, str]] = ()
    """The queries that failed; without them, lines or kinds of names are missing."""
    findings: SideFindings | None = None
    """What was found; None if it is unknown."""


BIN_RATIO = 1.005
MAX_LINES = 10_000
MAX_CELLS = 8_000_000
"""Maximum number of bins of all lines together; each takes 16 bytes."""


def bin_ns(bin_number: float) -> int:
    """Return the latency in the middle of a bin, in ns."""
    return round(float(BIN_RATIO ** (bin_number + 0.5)))


def active_seconds(database: Database) -> int:
    """Return the number of seconds in which requests began."""
    return int(database.answer(built_in("compare")["seconds"], {})[0]["seconds"])


def side_of_rows(
    database: Database,
    quality: CaptureQuality,
    conditions: Mapping[str, Any],
    slices: int | None,
    kinds: Iterable[FindingKind] = (),
) -> Side:
    """Return the rows of a database as a side of a comparison.

    Args:
        database: a database with the tables of a run.
        quality: the quality of the captures.
        conditions: the filter of the rows.
        slices: number of slices of the time; None if there will be no test.
        kinds: the kinds of findings to search for.
    """
    span = database.answer(built_in("compare")["seconds"], {})[0]
    failed = FailedQueries()
    lines: dict[LineKey, SideLine] = {}
    is_cut = False
    try:
        lines, is_cut = _lines(database, slices)
    except QueryError as error:
        failed.add("comparison", error.query or "lines", error)
    names: dict[str, dict[str, Presence]] = {}
    try:
        names = _names(database)
    except QueryError as error:
        failed.add("comparison", "names", error)
    searched = list(kinds)
    found, left_out = search_rows(database, searched, conditions, failed)
    first_ns, last_ns = span["first_time_ns"], span["last_time_ns"]
    return Side(
        {
            "made_of": "rows",
            **quality.extent(),
            "filter": dict(conditions),
            "requests": span["requests"],
        },
        span["seconds"],
        None if first_ns is None else last_ns - first_ns,
        slices,
        lines,
        names,
        is_cut,
        failed.lines,
        SideFindings(
            [finding.to_dict() for finding in with_commands(found, searched, conditions)],
            [*left_out, *(line["name"] for line in failed.lines if line["kind"] == "finding")],
        ),
    )


def _lines(database: Database, slices: int | None) -> tuple[dict[LineKey, SideLine], bool]:
    """Return the lines with their figures, and whether some were left out."""
    queries = built_in("compare")
    database.keep("compare_slices", queries["slices"], {"slices": slices or 1})
    database.keep("compare_cells", queries["cells"], {"bin_ratio": BIN_RATIO})
    database.keep("compare_lines", queries["lines"], {"most_lines": MAX_LINES + 1})
    line_rows = database.ask("FROM compare_lines ORDER BY line").to_pylist()
    latencies, is_cut = _by_line(database, "latencies", len(line_rows))
    statuses, is_also_cut = _by_line(database, "statuses", len(line_rows))
    lines: dict[LineKey, SideLine] = {
        (line["kind"], line["api"], line["name"]): _side_line(line, cells, ends, slices)
        for line, cells, ends in zip(line_rows, latencies, statuses, strict=False)
    }
    return lines, is_cut or is_also_cut or len(line_rows) > MAX_LINES


def _names(database: Database) -> dict[str, dict[str, Presence]]:
    """Return the names that occur, by kind."""
    names: dict[str, dict[str, Presence]] = {kind: {} for kind in KINDS}
    for line in database.answer(built_in("compare")["names"], {"most_lines": MAX_LINES}):
        names[line["kind"]][line["name"]] = Presence(line["requests"], line["seconds"])
    return names


KINDS = ("API", "API version", "error", "client", "software", "user", "group", "topic", "broker")


def _by_line(
    database: Database, query: str, lines: int
) -> tuple[Iterator[dict[str, Numbers]], bool]:
    """Return the columns of a result for each line, and whether the result was too large.

    If it was too large, incomplete lines are left out.
    """
    sql = built_in("compare")[query].sql
    answer = database.ask(sql, {"most_cells": MAX_CELLS})
    columns = {name: answer[name].to_numpy() for name in answer.column_names}
    numbers = columns.pop("line")
    is_cut = len(numbers) >= MAX_CELLS
    complete_lines = min(lines, int(numbers[-1])) if is_cut else lines
    starts = np.searchsorted(numbers, np.arange(complete_lines + 1)).tolist()
    return (
        {name: column[low:high] for name, column in columns.items()}
        for low, high in pairwise(starts)
    ), is_cut


def _side_line(
    line: Mapping[str, Any],
    cells: Mapping[str, Numbers],
    ends: Mapping[str, Numbers],
    slices: int | None,
) -> SideLine:
    latencies = LatencyCells(cells["slice"], cells["bin"], cells["requests"])
    by_slice = None
    if slices is not None:
        by_slice = {
            name: np.bincount(ends["slice"], ends[name], slices).astype(np.int64)
            for name in ("due", *STATUSES)
        }
    return SideLine(
        line["requests"],
        line["due"],
        _quantiles(latencies),
        **{name: line[name] for name in (*_AMOUNTS, "waited")},
        by_slice=by_slice,
        latencies=latencies,
    )


def _quantiles(latencies: LatencyCells) -> dict[str, int | None]:
    """Return the count and the quantiles, by nearest rank, in ns."""
    count = int(latencies.counts.sum())
    if not count:
        return {"count": 0, **dict.fromkeys(QUANTILES)}
    low = int(latencies.bins.min())
    running = np.cumsum(np.bincount(latencies.bins - low, latencies.counts))
    return {
        "count": count,
        **{
            name: bin_ns(low + int(np.searchsorted(running, np.ceil(part * count - 1e-9))))
            for name, part in QUANTILES.items()
        },
    }


_SECOND = 1_000_000_000
_MAX_LINES = 100_000
_EXTENT = {"captures": list, "first_time": str, "last_time": str, "first_time_ns": int}
_EXTENT |= {"last_time_ns": int, "duration_ns": int}


def is_report(first: bytes) -> bool:
    """Return true if a file that begins with these bytes is JSON; a capture never is."""
    return first.lstrip()[:1] == b"{"


def parse_report(name: str, text: bytes) -> dict[str, Any]:
    """Parse a report; raises UsageError, whose text begins with ``name``."""
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"{name}: not a kanalyze report: not JSON") from None
    return checked_report(name, report)


def checked_report(name: str, report: object) -> dict[str, Any]:
    """Return a value if it is a report; raises UsageError, whose text begins with ``name``."""
    if (
        not isinstance(report, dict)
        or report.get("schema") != 1
        or not isinstance(report.get("capture"), dict)
        or "apis" not in report
        or not isinstance(report["apis"], list | None)
    ):
        raise UsageError(f"{name}: not a report of kanalyze report --json")
    return report


def side_of_report(name: str, report: dict[str, Any]) -> Side:
    """Return a report as a side of a comparison.

    Args:
        name: name of the report in messages.
        report: a report as the command writes it.

    Raises:
        UsageError: a part of it has the wrong type.
    """
    read = _ReportReader(name)
    capture = read.dict_of(report, "capture")
    totals = read.dict_of(report, "totals")
    lines: dict[LineKey, SideLine] = {}
    for item in read.lines(report, "apis"):
        api = _api(read, item)
        if api is not None:
            lines["api", api, None] = _api_line(read, item)
    for item in read.lines(report, "client_apis"):
        client = _client(read.text(item, "client_id"))
        lines["client", read.text(item, "api_name") or "", client] = _line(read, item)
    for item in read.lines(report, "topic_latency"):
        topic = _topic(read, item)
        lines["topic", read.text(item, "api_name") or "", topic] = _latency_line(read, item)
    extent = {key: read.typed_value(capture, key, kind) for key, kind in _EXTENT.items()}
    return Side(
        {
            "made_of": "report",
            **extent,
            "filter": read.dict_of(report, "filter"),
            "requests": read.number(totals, "requests") or 0,
        },
        None,
        _span_ns(read, report, capture),
        None,
        lines,
        _names_of_report(read, report),
        bool(report.get("limited")),
        findings=_findings_of_report(read, report),
    )


class _ReportReader:
    """Returns values of the expected type from JSON, or raises UsageError."""

    def __init__(self, name: str) -> None:
        self._name = name

    def typed_value(self, item: Mapping[str, Any], key: str, kind: type | UnionType) -> Any:
        """Return a value of a type, or None; a bool does not count as an int."""
        value = item.get(key)
        if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
            return value
        raise UsageError(f"{self._name}: not a kanalyze report: {key} has a wrong value")

    def number(self, item: Mapping[str, Any], key: str) -> int | None:
        """Return a count or a time, which must not be negative."""
        value: int | None = self.typed_value(item, key, int)
        return None if value is None else max(value, 0)

    def text(self, item: Mapping[str, Any], key: str) -> str | None:
        value: str | None = self.typed_value(item, key, str)
        return value

    def dict_of(self, item: Mapping[str, Any], key: str) -> dict[str, Any]:
        value: dict[str, Any] | None = self.typed_value(item, key, dict)
        return value or {}

    def lines(self, report: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
        """Yield the lines of a table except the line of others; nothing if there is no table."""
        for line in (self.typed_value(report, key, list) or [])[:_MAX_LINES]:
            if not isinstance(line, dict):
                raise UsageError(f"{self._name}: not a kanalyze report: {key} is not a table")
            if not line.get("other"):
                yield line

    def texts(self, item: Mapping[str, Any], key: str) -> Iterator[str]:
        for value in self.typed_value(item, key, list) or []:
            if isinstance(value, str):
                yield value


def _api(read: _ReportReader, item: Mapping[str, Any]) -> str | None:
    """Return the name of an API as in rows; None for the line of orphan responses."""
    name, key = read.text(item, "api_name"), read.number(item, "api_key")
    if name is None:
        return None if key is None else f"key {key}"
    wire = read.text(item, "wire")
    return name if wire in (None, "kafka") else f"{name} {wire}"


def _client(client_id: str | None) -> str | None:
    return None if client_id is None else without_uuids(client_id)


def _topic(read: _ReportReader, item: Mapping[str, Any]) -> str | None:
    topic, topic_id = read.text(item, "topic"), read.text(item, "topic_id")
    return f"id {topic_id}" if topic is None and topic_id is not None else topic


def _latency(read: _ReportReader, item: Mapping[str, Any]) -> dict[str, int | None]:
    latency = read.dict_of(item, "latency_ns")
    return {name: read.number(latency, name) for name in ("count", *QUANTILES)}


def _line(read: _ReportReader, item: Mapping[str, Any]) -> SideLine:
    requests = read.number(item, "requests") or 0
    amounts: dict[str, Any] = {name: read.number(item, name) for name in _AMOUNTS}
    return SideLine(requests, requests, _latency(read, item), **amounts)


def _api_line(read: _ReportReader, item: Mapping[str, Any]) -> SideLine:
    line = _line(read, item)
    statuses = read.dict_of(item, "statuses")
    return line._replace(
        due=line.requests - (read.number(statuses, "one_way") or 0),
        unanswered=read.number(statuses, "unanswered") or 0,
        waited=read.number(read.dict_of(item, "waited"), "requests"),
    )


def _latency_line(read: _ReportReader, item: Mapping[str, Any]) -> SideLine:
    latency = _latency(read, item)
    count = latency["count"] or 0
    return SideLine(count, count, latency)


def _span_ns(
    read: _ReportReader, report: Mapping[str, Any], capture: Mapping[str, Any]
) -> int | None:
    """Return the time from the first to the last request in ns, as exactly as known."""
    series = read.dict_of(report, "throughput")
    bucket_count = len(read.typed_value(series, "requests", list) or [])
    width_ns = read.number(series, "bucket_ns")
    if bucket_count and width_ns:
        return bucket_count * width_ns
    return read.number(capture, "duration_ns")


def _findings_of_report(read: _ReportReader, report: Mapping[str, Any]) -> SideFindings | None:
    """Return what was found; None if the report does not say."""
    if report.get("findings") is None:
        return None
    failed = [
        read.text(line, "name") or ""
        for line in read.lines(report, "failed_queries")
        if line.get("kind") == "finding"
    ]
    return SideFindings(
        [_finding(read, line) for line in read.lines(report, "findings")],
        [*read.texts(report, "findings_left_out"), *failed],
    )


def _finding(read: _ReportReader, line: Mapping[str, Any]) -> dict[str, Any]:
    concerns, cause = read.dict_of(line, "concerns"), read.dict_of(line, "cause")
    texts = ("name", "title", "what", "sure", "why", "repair", "command")
    numbers = ("first_time_ns", "last_time_ns", "first_packet")
    return {
        **{name: read.text(line, name) or "" for name in texts},
        **{name: read.number(line, name) for name in numbers},
        "first_capture": read.text(line, "first_capture"),
        **{name: read.typed_value(line, name, int | float) or 0 for name in ("severity", "weight")},
        **{name: list(read.texts(line, name)) for name in ("options", "see")},
        "concerns": {name: read.text(concerns, name) for name in concerns},
        "cause": {"name": read.text(cause, "name"), "number": read.number(cause, "number")}
        if cause
        else None,
    }


def _names_of_report(
    read: _ReportReader, report: Mapping[str, Any]
) -> dict[str, dict[str, Presence]]:
    """Return the names in a report; kinds whose table is missing are unknown."""
    names: dict[str, dict[str, Presence]] = {
        kind: {} for table, (kind, _) in _NAMED.items() if report.get(table) is not None
    }
    for table, (kind, name_of) in _NAMED.items():
        for item in read.lines(report, table):
            _add(names, kind, name_of(read, item), _requests_of(read, item))
    for item in read.lines(report, "apis"):
        for version, count in read.dict_of(item, "versions").items():
            if version.isdigit() and isinstance(count, int):
                _add(names, "API version", f"{_api(read, item)} v{version}", count)
    for item in read.lines(report, "clients"):
        for kind, key in (("software", "software"), ("user", "principals")):
            for text in read.texts(item, key):
                _add(names, kind, text, _requests_of(read, item))
    return names


def _add(names: dict[str, dict[str, Presence]], kind: str, name: str | None, count: int) -> None:
    names_of_kind = names.setdefault(kind, {})
    if name is not None:
        presence = names_of_kind.get(name)
        names_of_kind[name] = Presence(count + (presence.requests if presence else 0), None)


def _requests_of(read: _ReportReader, item: Mapping[str, Any]) -> int:
    keys = ("requests", "count", "produce_requests", "fetch_requests")
    return sum(read.number(item, key) or 0 for key in keys)


def _error(read: _ReportReader, item: Mapping[str, Any]) -> str:
    return f"{read.text(item, 'api_name')} {read.text(item, 'error_name')}"


_NAMED: dict[str, tuple[str, Callable[[_ReportReader, Mapping[str, Any]], str | None]]] = {
    "apis": ("API", lambda read, item: read.text(item, "api_name")),
    "errors": ("error", _error),
    "clients": ("client", lambda read, item: _client(read.text(item, "client_id"))),
    "groups": ("group", lambda read, item: read.text(item, "group_id")),
    "topics": ("topic", _topic),
    "brokers": ("broker", lambda read, item: read.text(item, "broker")),
}
"""The kinds of names in each table. A table without lines means that there are none."""
