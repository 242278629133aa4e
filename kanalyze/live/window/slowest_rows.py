"""The requests with the highest latency.

In: rows. Out: up to a number of them, as in a report; with ``merge``, which is associative and
commutative.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from kanalyze.common.texts import bounded_text

if TYPE_CHECKING:
    from kanalyze.live.window.row_measures import RowMeasures
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["MAX_SLOWEST", "SlowestRows"]

MAX_SLOWEST = 20
_MAX_TOPICS = 3
_COLUMNS = (
    *("capture", "connection", "connection_number", "client_id"),
    *("api_key", "api_name", "api_version", "correlation_id"),
    *("latency_ns", "total_time_ns"),
    *("request_start_ns", "request_end_ns", "response_start_ns", "response_end_ns"),
    *("request_packet", "response_packet", "request_bytes", "response_bytes"),
    *("throttle_time_ms", "status", "error_name"),
)


class SlowestRows:
    """The slowest requests, without those that were held back on purpose.

    Requests of equal latency are sorted by time, then by packet number, so that the order of adding
    does not decide which are kept.
    """

    __slots__ = ("_entries", "_most")

    def __init__(self, most: int = MAX_SLOWEST) -> None:
        self._most = most
        self._entries: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add(self, rows: RowMeasures, block: RowBlock) -> None:
        """Add the rows of a block; ``rows`` are its measures."""
        latencies = rows.ints("latency_ns").values
        may_be_kept = rows.known("latency_ns") & rows.is_not_held_back
        if len(self._entries) == self._most:
            may_be_kept = may_be_kept & (latencies >= self._entries[-1][1]["latency_ns"])
        indices = np.flatnonzero(may_be_kept)
        if not len(indices):
            return
        later = [
            rows.ints(name).values[indices]
            for name in ("correlation_id", "request_packet", "request_start_ns")
        ]
        slowest_first = np.lexsort([*later, ~latencies[indices]])[: self._most]
        slowest = block.take(indices[slowest_first].tolist()).rows()
        entries = [(_order(row), _entry(row)) for row in slowest]
        # Requests that are equal in this order are sorted by all their fields.
        self._keep([((*order, repr(entry)), entry) for order, entry in entries])

    def merge(self, other: SlowestRows) -> None:
        """Add the requests of ``other`` if they are among the slowest."""
        self._keep(other._entries)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the requests, slowest first."""
        return [entry for _, entry in self._entries]

    def _keep(self, entries: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
        self._entries = sorted([*self._entries, *entries], key=itemgetter(0))[: self._most]


def _order(row: Row) -> tuple[Any, ...]:
    return (
        -(row.latency_ns or 0),
        row.request_start_ns or 0,
        row.request_packet or 0,
        row.correlation_id or 0,
        row.connection,
    )


def _entry(row: Row) -> dict[str, Any]:
    entry = {name: getattr(row, name) for name in _COLUMNS}
    if row.client_id is not None:
        entry["client_id"] = bounded_text(row.client_id)
    names = {item.topic or item.topic_id for item in row.partitions}
    topics = sorted({bounded_text(name) for name in names if name is not None})
    entry["topics"] = topics[:_MAX_TOPICS]
    entry["more_topics"] = len(topics) > _MAX_TOPICS
    return entry
