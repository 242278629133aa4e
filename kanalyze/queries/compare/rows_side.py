"""A side of a comparison, made from rows.

In: a database with the tables of a run. Out: :class:`~kanalyze.queries.compare.side.Side`. The
queries are in ``sql/compare/``.

Latencies are counted in bins of 0.5 % width. A quantile is the middle of its bin, which is at most
0.25 % from the exact value.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from kanalyze.queries.compare.side import (
    QUANTILES,
    STATUSES,
    LatencyCells,
    Presence,
    Side,
    SideLine,
)
from kanalyze.queries.engine import FailedQueries, QueryError
from kanalyze.queries.files import built_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kanalyze.queries.compare.side import LineKey, Numbers
    from kanalyze.queries.database import Database
    from kanalyze.tables.quality import CaptureQuality

__all__ = ["BIN_RATIO", "active_seconds", "bin_ns", "side_of_rows"]

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
    database: Database, quality: CaptureQuality, conditions: Mapping[str, Any], slices: int | None
) -> Side:
    """Return the rows of a database as a side of a comparison.

    Args:
        database: a database with the tables of a run.
        quality: the quality of the captures.
        conditions: the filter of the rows.
        slices: number of slices of the time; None if there will be no test.
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
        line["errors"],
        line["unanswered"],
        line["throttled"],
        line["waited"],
        line["request_bytes"],
        line["response_bytes"],
        _quantiles(latencies),
        line["unread"],
        by_slice,
        latencies,
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
