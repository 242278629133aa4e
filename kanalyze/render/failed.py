"""What a report or a comparison lacks because a query failed.

In: reports as plain values, in which what a failed query would have answered is null. Out: lines
that say so; reports without nulls, for code that shows tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.render.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["failed_names", "failed_texts", "without_nulls"]

_LOST = {
    "finding": "not searched",
    "table": "not made",
    "page": "not made",
    "comparison": "not compared",
}
_LONGEST_REASON = 300
_NO_TIME = {"start_ns": None, "bucket_ns": 1}
_NOTHING: dict[str, Any] = {
    "throughput": {
        **_NO_TIME,
        "requests": [],
        "errors": [],
        "request_bytes": [],
        "response_bytes": [],
    },
    "latency": {**_NO_TIME, "p50": [], "p90": [], "p99": [], "max": []},
    "totals": None,
}
"""What a part of a report without any lines is; the others are lists."""


def failed_texts(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each query that failed: what is missing, and why."""
    for line in result.get("failed_queries", ()):
        reason = shown(line["reason"], _LONGEST_REASON)
        yield f"{line['kind']} {shown(line['name'])}: {_LOST[line['kind']]}, {reason}"


def failed_names(result: Mapping[str, Any], kind: str) -> list[str]:
    """Return the names of the failed queries of one kind, such as ``finding``."""
    return [line["name"] for line in result.get("failed_queries", ()) if line["kind"] == kind]


def without_nulls(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report in which tables of failed queries are empty, except ``totals``."""
    return {
        name: _NOTHING.get(name, []) if value is None else value for name, value in report.items()
    }
