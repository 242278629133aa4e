"""The tables of a snapshot: by which columns rows are grouped, and what is summed up.

In: nothing. Out: declarations, which :mod:`~kanalyze.live.window.sums` carries out. The queries in
``kanalyze/queries/sql/report/`` define each figure; a test compares the two.
"""

from __future__ import annotations

from operator import attrgetter, not_
from typing import TYPE_CHECKING, Any, Final

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
from kanalyze.live.window.sums import ExactSum, KeyedSums, Max, Quantiles, SumSource, add_sources

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.live.window.row_measures import RowMeasures
    from kanalyze.live.window.sums import Key

__all__ = ["RECENT_TABLES", "WINDOW_TABLES", "WindowTable"]

_API_LIMIT: Final = 128
"""APIs with sums of their own: Kafka has fewer, but keys on the wire may be wrong."""


class WindowTable(NamedTuple):
    """A table of a snapshot."""

    entry: type[Any]
    """A named tuple: what the columns of a key are called, ``other``, the figures of measures."""
    sources: tuple[SumSource, ...]
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

    def amounts(self) -> list[str]:
        """Return the fields of an entry that are sums."""
        measures = [measure for source in self.sources for measure in source.measures]
        return [each.name for each in measures if isinstance(each, ExactSum) and each.is_amount]

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


def _requests(entry: Any) -> int:
    requests: int = entry.requests
    return requests


_TRAFFIC: Final = (
    ExactSum("requests", "is_request"),
    ExactSum("errors", "is_error"),
    ExactSum("request_bytes", "request_bytes"),
    ExactSum("response_bytes", "response_bytes"),
    ExactSum("unread", "is_unread"),
)
"""The fields of :class:`~kanalyze.live.window.snapshot.Amounts`."""
_WORK_LATENCY: Final = Quantiles("latency_ns", where="is_not_held_back")

WINDOW_TABLES: Final = {
    "apis": WindowTable(
        ApiEntry,
        (
            SumSource(
                _rows,
                ("wire", "api_key", "api_name", "is_held_back_key"),
                *_TRAFFIC,
                Quantiles("latency_ns"),
            ),
        ),
        ("wire", "api_key", "api_name", "waited"),
        _requests,
        limit=_API_LIMIT,
        key=lambda key: (*key[:3], bool(key[3])),
        of_others=(("waited", False),),
    ),
    "clients": WindowTable(
        ClientEntry,
        # A response without its request has no client id.
        (
            SumSource(
                _rows, ("client_id", "client_ip"), *_TRAFFIC, _WORK_LATENCY, where="is_request"
            ),
        ),
        ("client_id", "client_ip"),
        _requests,
    ),
    "brokers": WindowTable(
        BrokerEntry,
        (SumSource(_rows, ("broker",), *_TRAFFIC, _WORK_LATENCY),),
        ("broker",),
        _requests,
    ),
    "topics": WindowTable(
        TopicEntry,
        (
            SumSource(
                attrgetter("partitions"),
                ("topic", "id_without_name"),
                ExactSum("produce_requests", "is_first_produced"),
                ExactSum("produced_records", "produced_records"),
                ExactSum("produced_bytes", "produced_bytes"),
                ExactSum("fetch_requests", "is_first_fetched"),
                ExactSum("fetched_records", "fetched_records"),
                ExactSum("fetched_bytes", "fetched_bytes"),
                ExactSum("records_known", "is_unknown", not_),
            ),
            SumSource(
                attrgetter("errors"),
                ("topic", "no_id"),
                ExactSum("errors", "one"),
                where="has_topic",
            ),
        ),
        ("topic", "topic_id"),
        lambda entry: entry.produced_bytes + entry.fetched_bytes,
    ),
    "errors": WindowTable(
        ErrorEntry,
        (
            SumSource(
                attrgetter("errors"),
                ("api_name", "code", "name", "topic"),
                ExactSum("occurrences", "one"),
                Max("last_time_ns", "time_ns"),
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
