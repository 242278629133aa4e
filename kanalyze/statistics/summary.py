"""Aggregates rows into the summary of a report.

In: rows. Out: a summary, made of plain values that JSON can hold. This module must not know where
rows come from or how a summary is shown.

A statistic of two halves is the sum of both: ``merge`` adds what another :class:`Statistics` saw,
and the summary does not depend on how rows were split into parts, nor on their order (as long as
no limit on keys is met, see below). Memory is bounded: clients, topics, groups, brokers, APIs and
errors are counted apart for the first :data:`KEY_LIMIT` of each; what comes beyond is counted
together, in an entry with ``"other": true``, and ``limited`` names the tables it happened to.

The summary, schema 1
---------------------

Times are Unix times in ns, durations ns, sizes bytes, unless the name says otherwise. A *latency
summary* is ``{count, min, p50, p90, p99, max, mean}``, in ns; all but count are null when count is
0 (see :mod:`kanalyze.statistics.quantile_sketch` for what the quantiles are). ``errors`` counts
requests with an error code other than 0 at any level, except where said. Where records are counted,
``..._known`` is false when some could not be: the count is then what is known at least. The records
of a fetch whose response is not in the capture are none.

- ``schema``: 1
- ``kanalyze_version``: is set by whoever writes the summary out, not here
- ``capture``: ``captures packets captured_bytes wire_bytes first_time_ns first_time last_time_ns
  last_time duration_ns dropped_packets``; ``first_time`` is ISO 8601
- ``filter``: the conditions on rows that there were, by the names of the arguments of
  :func:`kanalyze.requests` (``slower_than_ns`` is a number, times are ISO 8601); of ``kanalyze
  live`` those on packets: ``port host filter``. ``capture`` and ``quality`` are of all packets that
  were read, everything else is of the rows that match
- ``quality``: all of :class:`~kanalyze.tables.quality.CaptureQuality`, and ``decoded_share``
- ``totals``: ``rows requests responses``, the statuses ``ok error one_way unanswered
  orphan_response malformed``, ``request_bytes response_bytes``, ``produced_records
  produced_record_bytes produced_records_known refused_records`` (sent, but answered with an
  error: not in ``produced``) ``acknowledged_records acknowledged_record_bytes`` (of ``produced``,
  what was answered without an error) ``unanswered_records`` (of ``produced``, what may have been
  written or not) ``one_way_records`` (of ``produced``, what was sent with acks=0), the first
  three for ``fetched``, ``throttled throttle_time_ms``
- ``apis``, most requests first: ``wire api_key api_name other requests responses versions{version:
  requests} statuses{status: rows} errors request_bytes response_bytes record_count record_bytes
  record_count_known`` (these three null for APIs that carry no records) ``throttled
  throttle_time_ms latency_ns total_time_ns waited{requests errors request_bytes response_bytes
  record_count latency_ns total_time_ns}``. Counts are of all requests, ``waited`` holds the part of
  them that the broker held back on purpose, as :mod:`kanalyze.tables.requests.long_polls` tells it;
  latencies of those are in ``waited`` alone. Responses without a request are an entry whose
  ``api_key`` is null.
- ``errors``, most frequent first: ``api_name error_code error_name topic other count first_time_ns
  last_time_ns``; every error code in a response counts, so one response may count many times
- ``clients``, most requests first: ``client_id other software[] more_software client_ips[]
  more_client_ips principals[] more_principals requests errors request_bytes response_bytes
  latency_ns`` (without what waited on purpose; the lists hold the first 8 in sorted order)
- ``topics``, most bytes first: ``topic topic_id other produce_requests produced_records
  produced_records_known produced_bytes acknowledged_records acknowledged_bytes
  unanswered_records one_way_records``, the first four for fetch, ``errors`` (codes, each counted);
  ``topic_id`` only where no name is known
- ``groups``, most requests first: ``group_id other requests joins errors``; joins are JoinGroup
- ``brokers``, most requests first: ``broker other requests errors request_bytes response_bytes
  latency_ns``
- ``throughput``: ``start_ns bucket_ns requests[] errors[] request_bytes[] response_bytes[]``;
  requests count when they begin, errors and responses when the response begins
- ``slowest``: up to 10 requests by latency, what waited on purpose left out, with packet numbers
- ``limited``: names of the tables that hold an entry ``"other": true``
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from kanalyze.model.tcp import Endpoint
from kanalyze.statistics.aggregation_inputs import AggregationInputs, rows_of_items
from kanalyze.statistics.bounded_counters import BoundedCounters, Key
from kanalyze.statistics.group_by import SortedGroups, key_of, value_at
from kanalyze.statistics.time_series import ThroughputSeries
from kanalyze.statistics.totals import (
    ApiTotals,
    ClientTotals,
    ConsumerGroupTotals,
    EndpointSums,
    EndpointTotals,
    ErrorTotals,
    RecordTotals,
    RowSums,
    SlowestRequests,
    TopicTotals,
)
from kanalyze.tables.columns.block import Lists, RowBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from kanalyze.statistics.quantile_sketch import Int64Values
    from kanalyze.tables.columns.numpy_arrays import WordArray
    from kanalyze.tables.quality import CaptureQuality
    from kanalyze.tables.row import Row

__all__ = ["KEY_LIMIT", "SCHEMA", "Statistics", "add_errors", "add_topics"]

SCHEMA = 1
KEY_LIMIT = 10_000

_STATUSES = ("ok", "error", "one_way", "unanswered", "orphan_response", "malformed")

_ROWS_AT_ONCE = 4096
"""Rows are buffered until there are so many: a sum of few takes as long."""
_ITEMS_AT_ONCE = 20_000
"""Or until there are so many partitions in them."""


class Statistics:
    """Sums over rows."""

    def __init__(self, *, key_limit: int = KEY_LIMIT) -> None:
        self._apis: BoundedCounters[ApiTotals] = BoundedCounters(ApiTotals, key_limit)
        self._errors: BoundedCounters[ErrorTotals] = BoundedCounters(ErrorTotals, key_limit)
        self._clients: BoundedCounters[ClientTotals] = BoundedCounters(ClientTotals, key_limit)
        self._topics: BoundedCounters[TopicTotals] = BoundedCounters(TopicTotals, key_limit)
        self._groups: BoundedCounters[ConsumerGroupTotals] = BoundedCounters(
            ConsumerGroupTotals, key_limit
        )
        self._brokers: BoundedCounters[EndpointTotals] = BoundedCounters(EndpointTotals, key_limit)
        self._series = ThroughputSeries()
        self._slowest = SlowestRequests()
        self._produced = RecordTotals()
        self._fetched = RecordTotals()
        self._pending: list[RowBlock] = []
        self._pending_rows = self._pending_items = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows, in any order; raises OverflowError for a number beyond int64."""
        made = list(rows)
        self.add_block(RowBlock.of_rows(made))

    def add_block(self, block: RowBlock) -> None:
        """Add the rows of a block, as ``add`` would."""
        if not len(block):
            return
        self._pending.append(block)
        self._pending_rows += len(block)
        partitions = block.columns["partitions"]
        assert isinstance(partitions, Lists)
        self._pending_items += partitions.offsets[-1]
        if self._pending_rows >= _ROWS_AT_ONCE or self._pending_items >= _ITEMS_AT_ONCE:
            self._add_pending()

    def merge(self, other: Statistics) -> None:
        """Add the rows that another saw; associative and commutative below the key limit."""
        self._add_pending()
        other._add_pending()
        self._apis.merge(other._apis)
        self._errors.merge(other._errors)
        self._clients.merge(other._clients)
        self._topics.merge(other._topics)
        self._groups.merge(other._groups)
        self._brokers.merge(other._brokers)
        self._series.merge(other._series)
        self._slowest.merge(other._slowest)
        self._produced.merge(other._produced)
        self._fetched.merge(other._fetched)

    def save_state(self) -> tuple[Any, ...]:
        """Return all sums, as :meth:`load_state` takes them."""
        self._add_pending()
        tables = (self._apis, self._errors, self._clients, self._topics, self._groups)
        others = (self._series, self._slowest, self._produced, self._fetched)
        return (*tables, self._brokers, *others)

    def load_state(self, state: tuple[Any, ...]) -> None:
        """Undo :meth:`save_state`."""
        self._apis, self._errors, self._clients, self._topics, self._groups = state[:5]
        self._brokers, self._series, self._slowest, self._produced, self._fetched = state[5:]

    def summary(
        self, quality: CaptureQuality, conditions: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the summary, as the module describes it; ``conditions`` are its ``filter``."""
        self._add_pending()
        tables = {
            "apis": _table(self._apis, ("wire", "api_key", "api_name")),
            "errors": _table(self._errors, ("api_name", "error_code", "error_name", "topic")),
            "clients": _table(self._clients, ("client_id",)),
            "topics": _table(self._topics, ("topic", "topic_id")),
            "groups": _table(self._groups, ("group_id",)),
            "brokers": _table(self._brokers, ("broker",)),
        }
        tables["apis"].sort(key=_by_requests)
        tables["errors"].sort(key=lambda item: (item["other"], -item["count"]))
        tables["clients"].sort(key=_by_requests)
        tables["topics"].sort(key=_by_topic_bytes)
        tables["groups"].sort(key=_by_requests)
        tables["brokers"].sort(key=_by_requests)
        return {
            "schema": SCHEMA,
            "capture": quality.extent(),
            "filter": dict(conditions or {}),
            "quality": quality.to_dict(),
            "totals": self._totals(),
            **tables,
            "throughput": self._series.to_dict(),
            "slowest": self._slowest.to_list(),
            "limited": [name for name, items in tables.items() if any(i["other"] for i in items)],
        }

    def _add_pending(self) -> None:
        held, self._pending = self._pending, []
        self._pending_rows = self._pending_items = 0
        if held:
            block = RowBlock.joined(held)
            self._add(
                AggregationInputs(block.columns),
                lambda numbers: block.take(numbers.tolist()).rows(),
            )

    def _add(self, rows: AggregationInputs, pick: Callable[[NDArray[np.int64]], list[Row]]) -> None:
        """Add rows, at least one; ``pick`` gives those with the given numbers."""
        latencies = rows.has_broker_latency
        self._add_apis(rows)
        self._add_brokers(rows, latencies)
        self._add_clients(rows, latencies)
        self._add_groups(rows)
        add_topics(self._topics, rows)
        add_errors(self._errors, self._topics, rows)
        self._add_times(rows)
        self._add_slowest(rows, latencies, pick)

    def _add_apis(self, rows: AggregationInputs) -> None:
        names = ("wire", "api_key", "api_name", "api_version", "status", "waited")
        keys = [rows.key(name) for name in names]
        alike = SortedGroups(*map(key_of, keys))
        throttles = rows.ints("throttle_time_ms").values
        sums = alike.sums(
            np.ones(len(rows), dtype=np.int64),
            rows.known("response_start_ns").astype(np.int64),
            *rows.traffic[2:],
            (throttles != 0).astype(np.int64),
            throttles,
            *rows.records,
        )
        latencies = alike.values(rows.ints("latency_ns").values, rows.known("latency_ns"))
        times = alike.values(rows.ints("total_time_ns").values, rows.known("total_time_ns"))
        for first, of_group, latency, time in zip(
            alike.firsts, sums, latencies, times, strict=True
        ):
            wire, api_key, api_name, version, status, waited = (
                value_at(key, first) for key in keys
            )
            (
                count,
                responses,
                request_bytes,
                response_bytes,
                throttled,
                throttle_time_ms,
                *records,
            ) = of_group
            carries_records = rows.is_produce[first] or rows.is_fetch[first]
            made = RowSums(
                status=str(status),
                rows=count,
                responses=responses,
                request_bytes=request_bytes,
                response_bytes=response_bytes,
                throttled=throttled,
                throttle_time_ms=throttle_time_ms,
                latencies_ns=latency,
                total_times_ns=time,
                waited=bool(waited),
                records=RecordTotals(*records) if carries_records else None,
            )
            self._apis.of((wire, api_key, api_name)).add(_as_int(version), made)
            if made.records is not None:
                (self._produced if rows.is_produce[first] else self._fetched).merge(made.records)

    def _add_brokers(self, rows: AggregationInputs, latencies: NDArray[np.bool_]) -> None:
        ips, ports = rows.words("broker_ip"), rows.ints("broker_port")
        brokers = SortedGroups(key_of(ips), key_of(ports))
        sums = brokers.sums(*rows.traffic)
        values = brokers.values(rows.ints("latency_ns").values, latencies)
        for first, of_broker, latency in zip(brokers.firsts, sums, values, strict=True):
            ip, port = value_at(ips, first), value_at(ports, first)
            broker = str(Endpoint(str(ip), int(port or 0)))
            self._brokers.of((broker,)).add(_party(of_broker, latency))

    def _add_clients(self, rows: AggregationInputs, latencies: NDArray[np.bool_]) -> None:
        # A response does not name its client.
        named = np.flatnonzero(rows.is_request)
        if not len(named):
            return
        client_ids = rows.words("client_id")
        key = key_of(client_ids)[named]
        clients = SortedGroups(key)
        sums = clients.sums(*(measure[named] for measure in rows.traffic))
        values = clients.values(rows.ints("latency_ns").values[named], latencies[named])
        for first, of_client, latency in zip(clients.firsts, sums, values, strict=True):
            client = self._clients.of((value_at(client_ids, named[first]),))
            client.party.add(_party(of_client, latency))
        self._add_identities(rows, client_ids, named)

    def _add_identities(
        self, rows: AggregationInputs, client_ids: WordArray, named: NDArray[np.int64]
    ) -> None:
        names = ("client_ip", "client_software_name", "client_software_version", "principal")
        keys = [client_ids, *map(rows.words, names)]
        for first in SortedGroups(*(key_of(key)[named] for key in keys)).firsts:
            client_id, ip, software, version, principal = (
                value_at(key, named[first]) for key in keys
            )
            client = self._clients.of((client_id,))
            client.ips.add(str(ip))
            if software is not None:
                client.software.add(f"{software} {version or ''}".strip())
            if principal is not None:
                client.principals.add(str(principal))

    def _add_groups(self, rows: AggregationInputs) -> None:
        group_ids = rows.words("group_id")
        members = np.flatnonzero(group_ids.codes >= 0)
        if not len(members):
            return
        groups = SortedGroups(key_of(group_ids)[members])
        requests, errors, *_ = rows.traffic
        measures = (requests, errors, requests * rows.is_join)
        sums = groups.sums(*(measure[members] for measure in measures))
        for first, (requested, failed, joined) in zip(groups.firsts, sums, strict=True):
            group = self._groups.of((value_at(group_ids, members[first]),))
            group.requests += requested
            group.errors += failed
            group.joins += joined

    def _add_times(self, rows: AggregationInputs) -> None:
        requests = rows.known("request_start_ns") & rows.is_request
        self._series.add_requests(
            rows.ints("request_start_ns").values[requests],
            rows.ints("request_bytes").values[requests],
        )
        responses = rows.known("response_start_ns")
        times = rows.ints("response_start_ns").values
        self._series.add_responses(times[responses], rows.ints("response_bytes").values[responses])
        self._series.add_errors(times[responses & rows.is_error])

    def _add_slowest(
        self,
        rows: AggregationInputs,
        latencies: NDArray[np.bool_],
        pick: Callable[[NDArray[np.int64]], list[Row]],
    ) -> None:
        known = np.flatnonzero(latencies)
        columns = [rows.ints(name).values[known] for name in SlowestRequests.FIRST_BY]
        places = self._slowest.candidates(*columns)
        if len(places):
            self._slowest.add(pick(known[places]), int(columns[0][places].max()))

    def _totals(self) -> dict[str, Any]:
        apis = list(self._apis.sums())
        statuses: Counter[str] = Counter()
        for api in apis:
            statuses.update(api.statuses)
        return {
            "rows": statuses.total(),
            "requests": sum(api.requests for api in apis),
            "responses": sum(api.responses for api in apis),
            **{status: statuses[status] for status in _STATUSES},
            "request_bytes": sum(api.request_bytes for api in apis),
            "response_bytes": sum(api.response_bytes for api in apis),
            "produced_records": self._produced.count,
            "produced_record_bytes": self._produced.bytes,
            "produced_records_known": self._produced.unknown == 0,
            "refused_records": self._produced.refused,
            "acknowledged_records": self._produced.acknowledged,
            "acknowledged_record_bytes": self._produced.acknowledged_bytes,
            "unanswered_records": self._produced.unanswered,
            "one_way_records": self._produced.one_way,
            "fetched_records": self._fetched.count,
            "fetched_record_bytes": self._fetched.bytes,
            "fetched_records_known": self._fetched.unknown == 0,
            "throttled": sum(api.throttled for api in apis),
            "throttle_time_ms": sum(api.throttle_time_ms for api in apis),
        }


def add_topics(topics: BoundedCounters[TopicTotals], rows: AggregationInputs) -> None:
    """Add what rows produced and fetched to the sums by topic: by name, and by id without one."""
    parts = rows.partitions
    if parts is None:
        return
    is_named = parts.topic.codes >= 0
    ids = np.where(is_named, 0, key_of(parts.topic_id))
    is_produce = rows.is_produce[parts.row]
    count = np.where(parts.is_refused, 0, parts.record_count)
    size = np.where(parts.is_refused, 0, parts.record_bytes)
    is_acknowledged = rows.is_acknowledged[parts.row]
    groups = SortedGroups(is_produce.astype(np.int64), key_of(parts.topic), ids)
    sums = groups.sums(
        # A request counts once for each of its topics, whatever its partitions.
        groups.changes(parts.row),
        count,
        size,
        parts.is_unknown.astype(np.int64),
        np.zeros(len(count), dtype=np.int64),  # of topics nobody asks what was refused
        count * is_acknowledged,
        size * is_acknowledged,
        count * rows.is_unanswered[parts.row],
        count * rows.is_one_way[parts.row],
    )
    for first, (requests, *records) in zip(groups.firsts, sums, strict=True):
        name = value_at(parts.topic, first)
        topic_id = value_at(parts.topic_id, first) if name is None else None
        topic = topics.of((name, topic_id))
        if is_produce[first]:
            topic.produce_requests += requests
            topic.produced.merge(RecordTotals(*records))
        else:
            topic.fetch_requests += requests
            topic.fetched.merge(RecordTotals(*records))


def add_errors(
    errors: BoundedCounters[ErrorTotals],
    topics: BoundedCounters[TopicTotals],
    rows: AggregationInputs,
) -> None:
    """Add the error codes in rows to the sums by error, and to those of the topics concerned."""
    lists = rows.lists("errors")
    row = rows_of_items(lists)
    if not len(row):
        return
    api_names = rows.words("api_name")
    keys = [lists.fields[name] for name in ("code", "name", "topic")]
    groups = SortedGroups(key_of(api_names)[row], *map(key_of, keys))
    times = rows.ints("response_start_ns").values[row]
    is_known = rows.known("response_start_ns")[row]
    bounds = groups.lowest_and_highest(
        np.where(is_known, times, _LATEST_NS), np.where(is_known, times, _EARLIEST_NS)
    )
    counts = groups.sums(np.ones(len(row), dtype=np.int64))
    for first, (count,), (earliest, latest) in zip(groups.firsts, counts, bounds, strict=True):
        code, name, topic = (value_at(key, first) for key in keys)
        error = errors.of((value_at(api_names, row[first]), code, name, topic))
        is_timed = earliest <= latest
        error.merge(
            ErrorTotals(count, earliest if is_timed else None, latest if is_timed else None)
        )
        if topic is not None:
            topics.of((topic, None)).errors += count


def _as_int(value: str | int | None) -> int | None:
    return None if value is None else int(value)


def _party(sums: list[int], latencies_ns: Int64Values) -> EndpointSums:
    requests, errors, request_bytes, response_bytes = sums
    return EndpointSums(requests, errors, request_bytes, response_bytes, latencies_ns)


# Bounds of times where there is none.
_EARLIEST_NS, _LATEST_NS = -(2**63), 2**63 - 1


def _table(sums: BoundedCounters[Any], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return an entry for each key, in the order of the keys, that of the others last."""
    table = [
        {**dict(zip(names, key, strict=True)), "other": False, **item.to_dict()}
        for key, item in sorted(sums, key=lambda pair: _order(pair[0]))
    ]
    if sums.others is not None:
        table.append({**dict.fromkeys(names), "other": True, **sums.others.to_dict()})
    return table


def _order(key: Key) -> list[tuple[bool, str, int]]:
    """Return what keys of numbers, texts and nulls are sorted by: so that no order is chance."""
    return [
        (part is None, part if isinstance(part, str) else "", part if isinstance(part, int) else 0)
        for part in key
    ]


def _by_requests(item: dict[str, Any]) -> tuple[bool, int]:
    return item["other"], -item["requests"]


def _by_topic_bytes(item: dict[str, Any]) -> tuple[bool, int, int]:
    requests = item["produce_requests"] + item["fetch_requests"]
    return item["other"], -(item["produced_bytes"] + item["fetched_bytes"]), -requests
