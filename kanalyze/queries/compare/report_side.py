"""A side of a comparison, made from a report's JSON.

In: the text of a report. Out: :class:`~kanalyze.queries.compare.side.Side`, without slices. A file
may have any content: if it is not a report, the error is one clear line.

A report has quantiles, and counts of requests and errors of each API, client and so on, over the
whole time. Such counts would suffice for a test if requests failed independently. They do not: when
a broker is away, all requests fail for seconds, and clients retry. So shares vary more between
captures than such a test allows, by a factor that is only known from counts over time; a report has
these only for all requests together. Quantiles cannot be tested at all.
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
        _names(read, report),
        bool(report.get("limited")),
    )


class _ReportReader:
    """Returns values of the expected type from JSON, or raises UsageError."""

    def __init__(self, name: str) -> None:
        self._name = name

    def typed_value(self, item: Mapping[str, Any], key: str, kind: type) -> Any:
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
        read.number(item, "unread"),
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
    return SideLine(count, count, None, None, None, None, None, None, latency, None)


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


def _names(read: _ReportReader, report: Mapping[str, Any]) -> dict[str, dict[str, Presence]]:
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
