"""The sums that the HTML page filters: a cube of client, API, topic and time.

In: a database with the requests, and the report on them. Out: plain values. Each part of the cube
is a file in ``sql/page/``.

In the cube, names (of clients, APIs, ...) are numbers: positions in a list of names. ``OTHERS`` is
any name that is not in the list, ``NONE`` the absence of a name. A request with several topics has
a line for each of them; all but one of these lines have ``is_again``, so that sums over all topics
count it once.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.times import round_width_ns
from kanalyze.model.tcp import Endpoint
from kanalyze.queries.engine import FailedQueries, QueryError
from kanalyze.queries.files import Query, built_in
from kanalyze.queries.report import bounded_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kanalyze.queries.database import Database

OTHERS, NONE = -1, -2
BIN_RATIO = 1.1
"""Ratio of the bounds of a histogram bin: using the middle of a bin is off by less than 5 %."""

MAX_PACKED_BYTES = 300_000
"""Limit in bytes of a compressed cube, so that a page with it stays below 1 MB."""

_MAX_SUM_BYTES = 260_000
_MAX_CELLS = 200_000
_MAX_CODES = 60
_MAX_VERSIONS = 200
_MAX_PARTS = 200
_MAX_EVENTS = 600
_MAX_SLOWEST = 300
_MAX_LAGS = 8
_MAX_OF_ALL = 100
_MAX_OF_EACH = 3


class _Level(NamedTuple):
    """How many names and spans of time the cube keeps separate."""

    buckets: int
    clients: int
    topics: int
    brokers: int
    groups: int
    apis: int
    versions: int


_LEVELS = (
    _Level(120, 100, 100, 50, 50, 100, _MAX_VERSIONS),
    _Level(60, 100, 100, 50, 50, 100, _MAX_VERSIONS),
    _Level(60, 50, 50, 20, 30, 100, _MAX_VERSIONS),
    _Level(60, 25, 25, 12, 15, 100, 100),
    _Level(40, 15, 15, 8, 10, 40, 0),
    _Level(24, 8, 8, 4, 5, 20, 0),
    _Level(12, 4, 4, 2, 2, 10, 0),
    _Level(1, 1, 1, 1, 1, 1, 0),
)
"""Levels from fine to coarse; the first whose cube is small enough is used."""

_NAMES = {
    "clients": _LEVELS[0].clients,
    "apis": _LEVELS[0].apis,
    "versions": _LEVELS[0].versions,
    "brokers": _LEVELS[0].brokers,
    "groups": _LEVELS[0].groups,
    "topics": _LEVELS[0].topics,
    "codes": _MAX_CODES,
    "parts": _MAX_PARTS,
}
"""The kinds of names that have numbers on the page, with the limit of each."""

_STEPS = ("named", "several", "requests")
"""Tables that are made from the names one by one; a single query would need more memory."""

_EXACT = {
    "totals": (),
    "apis": ("api",),
    "clients": ("client",),
    "client_apis": ("client", "api"),
    "brokers": ("broker",),
    "topic_apis": ("topic", "api"),
    "times": ("bucket",),
}
"""The keys by which exact quantiles are computed."""
_KEYS = ("client", "api", "broker", "topic", "bucket")


def cube_of(
    database: Database, report: Mapping[str, Any], failed: FailedQueries
) -> dict[str, Any] | None:
    """Return the sums of a page; None if they cannot be made without a query that failed.

    Args:
        database: a database with the requests of the report.
        report: the result of :func:`kanalyze.queries.report.report_of` for it.
        failed: gets the queries that fail. Parts of the cube that only one of them makes are empty.
    """
    if report["throughput"] is None:
        return None
    kept: list[str] = []
    try:
        return _cube(database, report, failed, kept)
    except QueryError as error:
        failed.add("page", error.query or "", error)
        return None
    finally:
        for table in kept:
            database.forget(table)


def _cube(
    database: Database, report: Mapping[str, Any], failed: FailedQueries, kept: list[str]
) -> dict[str, Any]:
    """Return the sums of a page; ``kept`` gets the names of tables that are made for it."""
    cube: dict[str, Any] = {}
    names = _names(database, kept)
    for name in _STEPS:
        _keep(database, name, {}, kept)
    for level in _LEVELS:
        queries = _PageQueries(database, report, level, failed)
        cube = _sums(queries, names)
        # The details have to fit too; they are only computed if the rest fits.
        if len(packed(cube)) > _MAX_SUM_BYTES and level is not _LEVELS[-1]:
            continue
        cube.update(_details(queries))
        if len(packed(cube)) <= MAX_PACKED_BYTES:
            break
    return cube


def _keep(database: Database, name: str, parameters: Mapping[str, object], kept: list[str]) -> None:
    database.keep(f"page_{name}", built_in("page")[name], parameters)
    kept.append(f"page_{name}")


def packed(values: Any) -> bytes:
    """Return plain values as JSON, compressed by zlib."""
    return zlib.compress(json.dumps(values, separators=(",", ":")).encode("ascii"), 9)


# -- names ----------------------------------------------------------------------------------------


def _names(database: Database, kept: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Number the names; return those of each kind in the order of their numbers."""
    names = {}
    for kind, most in _NAMES.items():
        _keep(database, kind, {"most": most}, kept)
        query = Query(kind, "", "", (), f"FROM page_{kind} ORDER BY ix")
        lines = database.answer(query, {})
        names[kind] = [bounded_line({k: v for k, v in line.items() if k != "ix"}) for line in lines]
    names["brokers"] = [
        {"broker": str(Endpoint(line["broker_ip"], line["broker_port"])), **line}
        for line in names["brokers"]
    ]
    return names


# -- sums -----------------------------------------------------------------------------------------


class _PageQueries:
    """Runs queries with the parameters of a level."""

    def __init__(
        self,
        database: Database,
        report: Mapping[str, Any],
        level: _Level,
        failed: FailedQueries,
    ) -> None:
        self._database = database
        self._failed = failed
        self.has_groups = "groups" in database.tables
        self.level = level._asdict()
        self.start_ns, self.bucket_ns, self.buckets = _time_buckets(
            report["throughput"], level.buckets
        )
        self._parameters: dict[str, object] = {
            **self.level,
            "start_ns": self.start_ns,
            "bucket_ns": self.bucket_ns,
            "bin_ratio": BIN_RATIO,
            "most_cells": _MAX_CELLS,
            "most_events": _MAX_EVENTS,
            "most": _MAX_SLOWEST,
            "most_lags": _MAX_LAGS,
            "most_of_all": _MAX_OF_ALL,
            "most_of_each": _MAX_OF_EACH,
        }

    def lines(self, name: str, **parameters: object) -> list[dict[str, Any]]:
        """Return the rows of a query's result."""
        return self._database.answer(built_in("page")[name], {**self._parameters, **parameters})

    def lines_if_any(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a query's result; no rows if it fails."""
        try:
            return self.lines(name)
        except QueryError as error:
            self._failed.add("page", name, error)
            return []


def _sums(queries: _PageQueries, names: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the main part of a cube."""
    counts = queries.level
    return {
        "start_ns": queries.start_ns,
        "bucket_ns": queries.bucket_ns,
        "buckets": queries.buckets,
        "bin_ratio": BIN_RATIO,
        "names": {
            kind: names_of_kind[: counts.get(kind, len(names_of_kind))]
            for kind, names_of_kind in names.items()
        },
        "cells": _columns(_cell(line) for line in queries.lines("cells")),
        "failures": _columns(queries.lines_if_any("failures")),
        "batches": _columns(queries.lines_if_any("batches")),
        "latency_parts": _columns(queries.lines_if_any("latency_parts")),
    }


def _details(queries: _PageQueries) -> dict[str, Any]:
    """Return the parts of a cube that take longer to compute."""
    return {
        "exact": {name: _exact(queries, keys) for name, keys in _EXACT.items()},
        "slowest": [bounded_line(line) for line in queries.lines_if_any("slowest")],
        "lags": _lags(queries) if queries.has_groups else [],
        "group_events": [bounded_line(line) for line in queries.lines_if_any("group_events")],
    }


def _lags(queries: _PageQueries) -> list[dict[str, Any]]:
    """Return a line for each group and topic, with its points: pairs of span and records."""
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for point in map(bounded_line, queries.lines_if_any("lag")):
        key = point["group_id"], point["topic"]
        line = lines.setdefault(key, {"group_id": key[0], "topic": key[1], "points": []})
        line["points"].append((point["bucket"], int(point["records"])))
    return list(lines.values())


def _time_buckets(series: Mapping[str, Any], most: int) -> tuple[int, int, int]:
    """Return the beginning of the first span of time, the width of each, and their number.

    A span consists of several of the report's buckets.
    """
    start_ns, width_ns = series["start_ns"] or 0, series["bucket_ns"]
    end_ns = start_ns + len(series["requests"]) * width_ns
    while -(-end_ns // width_ns) - start_ns // width_ns > most:
        width_ns = round_width_ns(width_ns + 1, series["bucket_ns"])
    first = start_ns // width_ns
    return first * width_ns, width_ns, -(-end_ns // width_ns) - first


def _cell(line: dict[str, Any]) -> dict[str, Any]:
    """Return a cell with its histogram as a flat list: bin, count, bin, count, ..."""
    bins = sorted((line["latencies"] or {}).items())
    return {**line, "latencies": [number for pair in bins for number in pair]}


def _columns(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return lines as columns, with booleans as 0 and 1, which takes half the space."""
    columns: dict[str, list[Any]] = {}
    for line in lines:
        for name, value in line.items():
            columns.setdefault(name, []).append(int(value) if value in (True, False) else value)
    return columns


def _exact(queries: _PageQueries, keys: tuple[str, ...]) -> list[list[int | None]]:
    """Return lines of: keys, whether the requests waited, the quantiles."""
    lines = queries.lines("exact", **{f"by_{key}": key in keys for key in _KEYS})
    return [
        [
            *(line[key] for key in keys),
            int(line["waited"]),
            *(line[name] for name in ("p50", "p90", "p99", "max")),
        ]
        for line in lines
    ]
