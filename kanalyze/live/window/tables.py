"""The tables of a snapshot: by which columns rows are grouped, and what is summed up.

In: nothing. Out: declarations, which :mod:`~kanalyze.live.window.sums` carries out. The queries in
``kanalyze/queries/sql/report/`` define each figure; a test compares the two.
"""

from __future__ import annotations

from operator import attrgetter, not_
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.window.rebalances import GROUPS
from kanalyze.live.window.snapshot import (
    ApiEntry,
    BrokerEntry,
    ClientEntry,
    ErrorEntry,
    GroupEntry,
    TopicEntry,
)
from kanalyze.live.window.sums import KeyedSums, Max, Quantiles, Source, Sum, add_sources
from kanalyze.model.tcp import Endpoint
from kanalyze.tables.columns.numpy_arrays import IntArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kanalyze.live.window.row_measures import ErrorItems, PartitionMeasures, RowMeasures
    from kanalyze.live.window.sums import Column, Key, Mask

__all__ = ["RECENT_TABLES", "WINDOW_TABLES", "WindowTable"]

_API_LIMIT: Final = 128
"""APIs with sums of their own: Kafka has fewer, but keys on the wire may be wrong."""


class WindowTable(NamedTuple):
    """A table of a snapshot."""

    entry: type[Any]
    """A named tuple: what the columns of a key are called, ``other``, the figures of measures."""
    sources: tuple[Source[Any], ...]
    names: tuple[str, ...]
    """The fields of an entry that are its key."""
    rank: Callable[[Any], int]
    """Returns the rank of an entry; the highest come first, equal ones by name."""
    limit: int | None = None
    """How many keys have sums of their own in a step; None for the limit of the windows."""
    key: Callable[[Key], Key] = tuple
    """Returns the values of ``names``."""
    of_others: tuple[tuple[str, object], ...] = ()
    """Fields of the entry for all keys beyond the limit that are not known."""

    def sums(self, limit: int) -> KeyedSums:
        """Return sums without keys; ``limit`` is that of tables without a limit of their own."""
        measures = [measure for source in self.sources for measure in source.measures]
        return KeyedSums(measures, self.limit or limit)

    def add(self, sums: KeyedSums, rows: RowMeasures) -> None:
        """Add rows to sums of this table."""
        add_sources(sums, self.sources, rows)

    def entries(self, sums: KeyedSums) -> tuple[Any, ...]:
        """Return the entries, the highest rank first, with that of the others at the end."""
        entries = [self._entry(key, sums.figures(values)) for key, values in sums]
        # Sort keys are texts: thousands of lists would keep the garbage collector busy.
        entries.sort(key=lambda entry: str(entry[: len(self.names)]))
        entries.sort(key=self.rank, reverse=True)
        if sums.others is not None:
            others = {**sums.figures(sums.others), **dict.fromkeys(self.names), "other": True}
            entries.append(self.entry(**(others | dict(self.of_others))))
        return tuple(entries)

    def _entry(self, key: Key, figures: dict[str, Any]) -> Any:
        names = dict(zip(self.names, self.key(key), strict=True))
        return self.entry(**names, other=False, **figures)


def _rows(rows: RowMeasures) -> RowMeasures:
    return rows


def _columns(*names: str) -> Callable[[Any], list[Column]]:
    """Return a function that returns these columns of rows, or of items."""
    return lambda items: [items.key(name) for name in names]


def _values(name: str) -> Callable[[RowMeasures], NDArray[np.int64]]:
    return lambda rows: rows.ints(name).values


_TRAFFIC: Final = (
    Sum("requests", attrgetter("is_request")),
    Sum("errors", attrgetter("is_error")),
    Sum("request_bytes", _values("request_bytes")),
    Sum("response_bytes", _values("response_bytes")),
    Sum("unread", attrgetter("is_unread")),
)
"""The fields of :class:`~kanalyze.live.window.snapshot.Amounts`."""
_LATENCY: Final = _values("latency_ns")
_WORK_LATENCY: Final = Quantiles(_LATENCY, attrgetter("has_broker_latency"))
"""Requests that were held back on purpose are left out."""


def _requests(entry: Any) -> int:
    requests: int = entry.requests
    return requests


def _by_api(rows: RowMeasures) -> list[Column]:
    is_held_back = IntArray(rows.is_held_back.astype(np.int64), None)
    return [*_columns("wire", "api_key", "api_name")(rows), is_held_back]


def _is_known_latency(rows: RowMeasures) -> Mask:
    return rows.known("latency_ns")


def _broker(key: Key) -> tuple[str | None]:
    ip, port = key
    return (None if ip is None else str(Endpoint(str(ip), int(port or 0))),)


def _by_topic(parts: PartitionMeasures) -> list[Column]:
    """Return names, and the ids of topics without a name."""
    topic, topic_id = parts.topic, parts.topic_id
    return [topic, topic_id._replace(codes=np.where(topic.codes >= 0, -1, topic_id.codes))]


def _amount(
    api: str, name: str
) -> Callable[[PartitionMeasures], NDArray[np.int64] | NDArray[np.bool_]]:
    """Return a function that returns an amount of the partitions of some APIs, 0 for others."""
    return lambda parts: np.where(getattr(parts, api), getattr(parts, name), 0)


def _topic_of_error(errors: ErrorItems) -> list[Column]:
    no_id = errors.topic._replace(codes=np.full_like(errors.topic.codes, -1))
    return [errors.topic, no_id]


_PARTITIONS: Final = (
    # A request counts once for each of its topics, whatever its partitions.
    Sum("produce_requests", _amount("is_produce", "is_first")),
    Sum("produced_records", _amount("is_produce", "records")),
    Sum("produced_bytes", _amount("is_produce", "bytes")),
    Sum("fetch_requests", _amount("is_fetch", "is_first")),
    Sum("fetched_records", _amount("is_fetch", "records")),
    Sum("fetched_bytes", _amount("is_fetch", "bytes")),
    Sum("records_known", attrgetter("is_unknown"), not_),
)

WINDOW_TABLES: Final = {
    "apis": WindowTable(
        ApiEntry,
        (Source(_rows, _by_api, *_TRAFFIC, Quantiles(_LATENCY, _is_known_latency)),),
        ("wire", "api_key", "api_name", "waited"),
        _requests,
        limit=_API_LIMIT,
        key=lambda key: (*key[:3], bool(key[3])),
        of_others=(("waited", False),),
    ),
    "clients": WindowTable(
        ClientEntry,
        (
            Source(
                _rows,
                _columns("client_id", "client_ip"),
                *_TRAFFIC,
                _WORK_LATENCY,
                # A response without its request has no client id.
                where=attrgetter("is_request"),
            ),
        ),
        ("client_id", "client_ip"),
        _requests,
    ),
    "brokers": WindowTable(
        BrokerEntry,
        (Source(_rows, _columns("broker_ip", "broker_port"), *_TRAFFIC, _WORK_LATENCY),),
        ("broker",),
        _requests,
        key=_broker,
    ),
    "topics": WindowTable(
        TopicEntry,
        (
            Source(attrgetter("partitions"), _by_topic, *_PARTITIONS),
            Source(
                attrgetter("errors"),
                _topic_of_error,
                Sum("errors", attrgetter("is_item")),
                where=lambda errors: errors.topic.codes >= 0,
            ),
        ),
        ("topic", "topic_id"),
        lambda entry: entry.produced_bytes + entry.fetched_bytes,
    ),
    "errors": WindowTable(
        ErrorEntry,
        (
            Source(
                attrgetter("errors"),
                _columns("api_name", "code", "name", "topic"),
                Sum("occurrences", attrgetter("is_item")),
                Max("last_time_ns", attrgetter("time_ns"), attrgetter("is_timed")),
            ),
        ),
        ("api_name", "error_code", "error_name", "topic"),
        lambda entry: entry.occurrences,
    ),
}
"""By field of a snapshot: tables over the window. The first has all rows."""

RECENT_TABLES: Final = {
    "groups": WindowTable(
        GroupEntry,
        (GROUPS,),
        ("group_id",),
        lambda entry: entry.last_time_ns or 0,
        of_others=(("protocol", None), ("rebalances", None)),
    )
}
"""Tables over the last minute."""
