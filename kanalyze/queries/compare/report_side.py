"""A side of a comparison, made of a report's JSON.

In: the text of one. Out: :class:`~kanalyze.queries.compare.side.Side`, without slices. This module
must not know what is compared with what. A file may hold anything: what is not as a report has it
is said in one line.

A report has quantiles, and counts of requests and errors of each API, client and so on, over its
whole time. A test of two shares could be made of such counts if requests failed independently of
each other. They do not: a broker that is away fails all of them for seconds, and clients try again.
So shares vary more from one capture to the next than such a test allows for, by a factor that only
counts over time would tell, and those a report has of all requests together alone. Of quantiles
nothing at all can be tested.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from kanalyze.errors import UsageError
from kanalyze.queries.compare.side import QUANTILES, Presence, Side, SideLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kanalyze.queries.compare.side import LineKey

__all__ = ["is_report", "parse_report", "side_of_report"]

_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_SECOND = 1_000_000_000
_MOST_LINES = 100_000
_EXTENT = {"captures": list, "first_time": str, "last_time": str, "first_time_ns": int}
_EXTENT |= {"last_time_ns": int, "duration_ns": int}


def is_report(first: bytes) -> bool:
    """Return whether a file that begins with these bytes is JSON, as no capture is."""
    return first.lstrip()[:1] == b"{"


def parse_report(name: str, text: bytes) -> dict[str, Any]:
    """Return the report that a text is; raises UsageError, which begins with ``name``."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"{name}: no report of kanalyze: not JSON") from None
    return checked_report(name, found)


def checked_report(name: str, found: object) -> dict[str, Any]:
    """Return a value that looks like a report; raises UsageError, which begins with ``name``."""
    if (
        not isinstance(found, dict)
        or found.get("schema") != 1
        or not isinstance(found.get("capture"), dict)
        or not isinstance(found.get("apis"), list)
    ):
        raise UsageError(f"{name}: no report as kanalyze report --json writes it")
    return found


def side_of_report(name: str, report: dict[str, Any]) -> Side:
    """Return what a comparison needs of a report.

    Args:
        name: what messages call it.
        report: as the command writes it.

    Raises:
        UsageError: a part of it is not what it should be.
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
    extent = {key: read.kept(capture, key, kind) for key, kind in _EXTENT.items()}
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
        _names(read, report),
        bool(report.get("limited")),
    )


class _ReportReader:
    """Takes values of a type out of JSON, or says that they are not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def kept(self, item: Mapping[str, Any], key: str, kind: type) -> Any:
        """Return a value of a type, or None; bool is no int."""
        value = item.get(key)
        if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
            return value
        raise UsageError(f"{self._name}: no report of kanalyze: {key} is not what it should be")

    def number(self, item: Mapping[str, Any], key: str) -> int | None:
        """Return a count or a time, which is not negative."""
        value: int | None = self.kept(item, key, int)
        return None if value is None else max(value, 0)

    def text(self, item: Mapping[str, Any], key: str) -> str | None:
        value: str | None = self.kept(item, key, str)
        return value

    def dict_of(self, item: Mapping[str, Any], key: str) -> dict[str, Any]:
        value: dict[str, Any] | None = self.kept(item, key, dict)
        return value or {}

    def lines(self, report: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
        """Give the lines of a table but that of others; none for a table that is not there."""
        for line in (self.kept(report, key, list) or [])[:_MOST_LINES]:
            if not isinstance(line, dict):
                raise UsageError(f"{self._name}: no report of kanalyze: {key} has no lines")
            if not line.get("other"):
                yield line

    def texts(self, item: Mapping[str, Any], key: str) -> Iterator[str]:
        for value in self.kept(item, key, list) or []:
            if isinstance(value, str):
                yield value


def _api(read: _ReportReader, item: Mapping[str, Any]) -> str | None:
    """Return what an API is called, as the rows have it; None for responses alone."""
    name, key = read.text(item, "api_name"), read.number(item, "api_key")
    if name is None:
        return None if key is None else f"key {key}"
    wire = read.text(item, "wire")
    return name if wire in (None, "kafka") else f"{name} {wire}"


def _client(client_id: str | None) -> str | None:
    return None if client_id is None else _UUID.sub("*", client_id)


def _topic(read: _ReportReader, item: Mapping[str, Any]) -> str | None:
    topic, topic_id = read.text(item, "topic"), read.text(item, "topic_id")
    return f"id {topic_id}" if topic is None and topic_id is not None else topic


def _latency(read: _ReportReader, item: Mapping[str, Any]) -> dict[str, int | None]:
    latency = read.dict_of(item, "latency_ns")
    return {name: read.number(latency, name) for name in ("count", *QUANTILES)}


def _line(read: _ReportReader, item: Mapping[str, Any]) -> SideLine:
    requests = read.number(item, "requests") or 0
    return SideLine(
        requests,
        requests,
        read.number(item, "errors"),
        read.number(item, "unanswered"),
        read.number(item, "throttled"),
        None,
        read.number(item, "request_bytes"),
        read.number(item, "response_bytes"),
        _latency(read, item),
    )


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
    return SideLine(count, count, None, None, None, None, None, None, latency)


def _span_ns(
    read: _ReportReader, report: Mapping[str, Any], capture: Mapping[str, Any]
) -> int | None:
    """Return how long there were requests, as well as it is known."""
    series = read.dict_of(report, "throughput")
    many = len(read.kept(series, "requests", list) or [])
    width_ns = read.number(series, "bucket_ns")
    return many * width_ns if many and width_ns else read.number(capture, "duration_ns")


def _names(read: _ReportReader, report: Mapping[str, Any]) -> dict[str, dict[str, Presence]]:
    """Return who and what was there; tables that a report does not have are not known."""
    names: dict[str, dict[str, Presence]] = {
        kind: {} for table, (kind, _) in _NAMED.items() if table in report
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
    known = names.setdefault(kind, {})
    if name is not None:
        before = known.get(name)
        known[name] = Presence(count + (before.requests if before else 0), None)


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
"""What each table names; one without lines says that there is none."""
