"""The figures of the page, summed up from its cube.

In: the model of a page. Out: one line for each line of its tables, and sums over time. ``page.js``
computes the same for the selection of a reader; a test compares the two.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from kanalyze.common.known import of_known
from kanalyze.spec.report import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Sum", "bin_position", "kind_of", "sums_of"]

_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
_COUNTS = (
    *("requests", "responses", "errors", "unread", "unanswered", "sent", "received"),
    *("produces", "fetches", "joins", "syncs", "leaves", "heartbeats", "commits"),
    *("records", "records_in", "records_out", "bytes_in", "bytes_out", "uncounted", "throttled"),
)
_BY_KIND = {
    "produce": "produces",
    "fetch": "fetches",
    "join": "joins",
    "sync": "syncs",
    "leave": "leaves",
    "heartbeat": "heartbeats",
    "commit": "commits",
}
_GROUPED = {
    "apis": ("api", "waited"),
    "clients": ("client",),
    "client_apis": ("client", "api"),
    "topics": ("topic",),
    "topic_apis": ("topic", "api"),
    "brokers": ("broker",),
    "groups": ("group",),
    "versions": ("api", "version"),
}
_BY_TOPIC = ("topics", "topic_apis")
_WITHOUT_ORPHANS = ("clients", "client_apis", "groups", "versions")
_NONE = -2
"""The number of no name, for example of the topic of a request without topics."""
_PARTS = tuple(column for column, _, _ in PARTS)
_CLIENT_NETWORK, _CLIENT_NETWORK_ROWS = "client_network_ns", "client_network_rows"
_PART_COUNTS = ("rows", "resent", "closed", *_PARTS, _CLIENT_NETWORK, _CLIENT_NETWORK_ROWS)


class Sum:
    """Sums over cells of the cube."""

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key
        self.counts: Counter[str] = Counter()
        self.versions: set[int] = set()
        self.clients: set[int] = set()
        self.bins: Counter[int] = Counter()
        self.most_ns: int | None = None

    def add(
        self, cell: Mapping[str, Any], kind: str, *, counts_requests: bool, is_timed: bool
    ) -> None:
        """Add a cell.

        Args:
            cell: a cell of the cube.
            kind: the kind of its API, such as ``produce``.
            counts_requests: False if another cell counts the same requests; then only records are
                added.
            is_timed: whether to add its latencies.
        """
        counts = self.counts
        if kind in ("produce", "fetch"):
            direction = "in" if kind == "produce" else "out"
            counts["records"] += cell["records"]
            counts[f"records_{direction}"] += cell["records"]
            counts[f"bytes_{direction}"] += cell["record_bytes"]
        if not counts_requests:
            return
        rows = cell["rows"]
        if cell["status"] != "orphan_response":
            counts["requests"] += rows
            self.versions.add(cell["version"])
            self.clients.add(cell["client"])
            if kind in _BY_KIND:
                counts[_BY_KIND[kind]] += rows
        counts["errors"] += rows if cell["status"] == "error" else 0
        counts["unread"] += cell["unread"]
        counts["unanswered"] += rows if cell["status"] == "unanswered" else 0
        counts["responses"] += cell["responses"]
        counts["sent"] += cell["request_bytes"]
        counts["received"] += cell["response_bytes"]
        counts["uncounted"] += cell["uncounted"]
        counts["throttled"] += cell["throttled"]
        if is_timed and cell["max_ns"] is not None:
            self.most_ns = of_known(max, self.most_ns, cell["max_ns"])
            pairs = cell["latencies"]
            for bin_number, count in zip(pairs[::2], pairs[1::2], strict=True):
                self.bins[bin_number] += count

    def quantiles(self, ratio: float) -> dict[str, float | None]:
        """Return quantiles of the latencies in ns, exact to 5 %; None if there are no latencies."""
        total = self.bins.total()
        quantiles: dict[str, float | None] = {"max": self.most_ns}
        for name, share in _QUANTILES:
            rank, counted = max(math.ceil(total * share), 1), 0
            quantiles[name] = None
            for bin_number in sorted(self.bins):
                counted += self.bins[bin_number]
                if counted >= rank:
                    quantiles[name] = min(_middle_ns(bin_number, ratio), self.most_ns or 0)
                    break
        return quantiles


def _middle_ns(bin_number: int, ratio: float) -> float:
    """Return the middle of a bin of latencies in ns; see ``sql/page/cells.sql``."""
    middle_ns: float = ratio ** (abs(bin_number + 0.5))
    return middle_ns if bin_number >= 0 else -middle_ns


def bin_position(latency_ns: float, ratio: float) -> float:
    """Return where a latency is among the bins: bin b is between the positions b and b + 1."""
    return math.copysign(math.log(max(abs(latency_ns), 1)) / math.log(ratio), latency_ns)


def kind_of(model: Mapping[str, Any], api: int) -> str:
    """Return the kind of the API with a number, such as ``produce``; empty for the others."""
    return model["names"]["api"][api]["kind"] if api >= 0 else ""


def sums_of(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lines of each table, the ``totals``, and sums by span of time (``times``)."""
    tables: dict[str, dict[tuple[Any, ...], Sum]] = {name: {} for name in _GROUPED}
    total = Sum(())
    times = [Sum((bucket,)) for bucket in range(model["buckets"])]
    for cell in _lines(model["cells"]):
        kind = kind_of(model, cell["api"])
        counts_requests, has_waited = not cell["is_again"], bool(cell["waited"])
        for name, keys in _GROUPED.items():
            if _is_skipped(name, cell):
                continue
            key = tuple(cell[column] for column in keys)
            line_sum = tables[name].setdefault(key, Sum(key))
            line_sum.add(
                cell,
                kind,
                counts_requests=counts_requests or name in _BY_TOPIC,
                is_timed=not has_waited or name == "apis",
            )
        total.add(cell, kind, counts_requests=counts_requests, is_timed=not has_waited)
        if 0 <= cell["bucket"] < len(times):
            times[cell["bucket"]].add(
                cell, kind, counts_requests=counts_requests, is_timed=not has_waited
            )
    exact = {name: _exact(model, name) for name in model["exact"]}
    ratio = model["bin_ratio"]
    return {
        **{
            name: [_line(line_sum, ratio, exact.get(name)) for line_sum in lines.values()]
            for name, lines in tables.items()
        },
        "totals": _line(total, ratio, exact["totals"]),
        "times": [_line(time_sum, ratio, exact["times"]) for time_sum in times],
        "bins": total.bins,
        "times_bins": [time_sum.bins for time_sum in times],
        "errors": _failures(model),
        "partitions": list(_batches(model, lambda cell: (cell["part"],))),
        "latency_parts": list(_latency_parts(model, ("api", "broker", "capture_point"))),
        "all_parts": list(_latency_parts(model, ())),
        "codecs": list(
            _batches(model, lambda cell: (cell["client"], cell["codec"]), is_produce=True)
        ),
    }


def _is_skipped(name: str, cell: Mapping[str, Any]) -> bool:
    if name in _BY_TOPIC:
        return bool(cell["topic"] == _NONE)
    if name == "groups" and cell["group"] == _NONE:
        return True
    return name in _WITHOUT_ORPHANS and cell["status"] == "orphan_response"


def _lines(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _line(
    line_sum: Sum, ratio: float, exact: Mapping[tuple[Any, ...], Any] | None
) -> dict[str, Any]:
    line = {
        **dict.fromkeys(_COUNTS, 0),
        **line_sum.counts,
        "key": list(line_sum.key),
        "versions": sorted(line_sum.versions),
        "clients": len(line_sum.clients),
        **line_sum.quantiles(ratio),
    }
    exact_quantiles = None if exact is None else exact.get(line_sum.key)
    if exact_quantiles is not None:
        line.update(zip(("p50", "p90", "p99", "max"), exact_quantiles, strict=True))
    return line


def _exact(model: Mapping[str, Any], name: str) -> dict[tuple[Any, ...], list[Any]]:
    """Return exact quantiles by key; for requests that waited on purpose, only those of APIs."""
    quantiles = {}
    for line in model["exact"][name]:
        *key, waited = line[:-4]
        if name == "apis":
            quantiles[*key, waited] = line[-4:]
        elif not waited:
            quantiles[tuple(key)] = line[-4:]
    return quantiles


def _failures(model: Mapping[str, Any]) -> list[dict[str, Any]]:
    failures: dict[tuple[Any, ...], dict[str, Any]] = {}
    for cell in _lines(model["failures"]):
        if cell["is_again"]:
            continue
        topic = _NONE if cell["is_topicless"] else cell["topic"]
        key = (cell["code"], cell["api"], cell["client"], topic)
        line = failures.setdefault(
            key, {"key": list(key), "count": 0, "first": math.inf, "last": -math.inf}
        )
        line["count"] += cell["rows"]
        if cell["first_time_ns"] is not None:
            line["first"] = min(line["first"], cell["first_time_ns"])
            line["last"] = max(line["last"], cell["last_time_ns"])
    for line in failures.values():
        if line["first"] == math.inf:
            line["first"] = line["last"] = None
    return list(failures.values())


def _batches(
    model: Mapping[str, Any],
    key_of: Callable[[Mapping[str, Any]], tuple[Any, ...]],
    *,
    is_produce: bool = False,
) -> Iterator[dict[str, Any]]:
    batches: dict[tuple[Any, ...], Counter[str]] = {}
    high_watermarks: dict[tuple[Any, ...], int | None] = {}
    for cell in _lines(model["batches"]):
        produces = kind_of(model, cell["api"]) == "produce"
        if is_produce and (not produces or cell["codec"] is None):
            continue
        key, direction = key_of(cell), "in" if produces else "out"
        counts = batches.setdefault(key, Counter())
        counts["batches"] += cell["rows"]
        counts["produces" if produces else "fetches"] += cell["rows"]
        counts[f"records_{direction}"] += cell["records"]
        counts[f"bytes_{direction}"] += cell["record_bytes"]
        high_watermark = cell["high_watermark"]
        if high_watermark is not None:
            high_watermarks[key] = max(high_watermarks.get(key) or 0, high_watermark)
    names = (*("batches", "produces", "fetches"), "records_in", "records_out")
    for key, counts in batches.items():
        size, batch_count = counts["bytes_in"], counts["batches"]
        yield {
            **dict.fromkeys((*names, "bytes_in", "bytes_out"), 0),
            **counts,
            "key": list(key),
            "mark": high_watermarks.get(key),
            "bytes_each": size // batch_count,
            "records_each": counts["records_in"] // batch_count,
        }


def _latency_parts(model: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield, for each key, the mean of each part of the requests' time."""
    parts: dict[tuple[Any, ...], Counter[str]] = {}
    for cell in _lines(model["latency_parts"]):
        if cell["is_again"]:
            continue
        counts = parts.setdefault(tuple(cell[column] for column in keys), Counter())
        for name in _PART_COUNTS:
            counts[name] += cell[name]
    for key, counts in parts.items():
        total_ns = sum(counts[name] for name in _PARTS)
        rows, client_network_rows = counts["rows"], counts[_CLIENT_NETWORK_ROWS]
        yield {
            "key": list(key),
            "requests": rows,
            "resent": counts["resent"],
            "closed": counts["closed"],
            "whole": total_ns,
            "total": total_ns // rows,
            "parts": [counts[name] for name in _PARTS],
            **{name: counts[name] // rows for name in _PARTS},
            _CLIENT_NETWORK: counts[_CLIENT_NETWORK] // client_network_rows
            if client_network_rows
            else None,
        }
