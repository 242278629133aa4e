"""Rows added up: what a report says.

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
0 (see :mod:`kanalyze.analysis.sketch` for what the quantiles are). ``errors`` counts requests with
an error code other than 0 at any level, except where said. Where records are counted,
``..._known`` is false when some could not be: the count is then what is known at least. The
records of a fetch whose response is not in the capture are none.

- ``schema``: 1
- ``kanalyze_version``: is set by whoever writes the summary out, not here
- ``capture``: ``captures packets captured_bytes wire_bytes first_time_ns first_time last_time_ns
  last_time duration_ns dropped_packets``; ``first_time`` is ISO 8601
- ``quality``: all of :class:`~kanalyze.analysis.quality.CaptureQuality`, and ``decoded_share``
- ``totals``: ``rows requests responses``, the statuses ``ok error one_way unanswered
  orphan_response malformed``, ``request_bytes response_bytes``, ``produced_records
  produced_record_bytes produced_records_known refused_records`` (sent, but answered with an
  error: not in ``produced``), the same for ``fetched``, ``throttled
  throttle_time_ms``
- ``apis``, most requests first: ``wire api_key api_name other requests responses versions{version:
  requests} statuses{status: rows} errors request_bytes response_bytes record_count record_bytes
  record_count_known`` (these three null for APIs that carry no records) ``throttled
  throttle_time_ms latency_ns total_time_ns waited{requests errors request_bytes response_bytes
  record_count latency_ns total_time_ns}``. Counts are of all requests, ``waited`` holds the part
  of them that are fetches that waited for data on purpose; latencies of those are in ``waited``
  alone. Responses without a request are an entry whose ``api_key`` is null.
- ``errors``, most frequent first: ``api_name error_code error_name topic other count first_time_ns
  last_time_ns``; every error code in a response counts, so one response may count many times
- ``clients``, most requests first: ``client_id other software[] more_software client_ips[]
  more_client_ips principals[] more_principals requests errors request_bytes response_bytes
  latency_ns`` (without waiting fetches; the lists hold the first 8 in sorted order)
- ``topics``, most bytes first: ``topic topic_id other produce_requests produced_records
  produced_records_known produced_bytes``, the same for fetch, ``errors`` (codes, each counted);
  ``topic_id`` only where no name is known
- ``groups``, most requests first: ``group_id other requests joins errors``; joins are JoinGroup
- ``brokers``, most requests first: ``broker other requests errors request_bytes response_bytes
  latency_ns``
- ``throughput``: ``start_ns bucket_ns requests[] errors[] request_bytes[] response_bytes[]``;
  requests count when they begin, errors and responses when the response begins
- ``slowest``: up to 10 requests by latency, waiting fetches left out, with packet numbers
- ``limited``: names of the tables that hold an entry ``"other": true``
"""

from __future__ import annotations

from collections import Counter, defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from kanalyze.analysis.keyed import Key, Keyed
from kanalyze.analysis.row import Row
from kanalyze.analysis.series import ThroughputSeries
from kanalyze.analysis.sketch import Int64Values
from kanalyze.analysis.times import format_time
from kanalyze.analysis.totals import (
    ApiTotals,
    ClientTotals,
    ErrorTotals,
    GroupTotals,
    PartyTotals,
    RecordTotals,
    RowSums,
    SlowestRequests,
    TopicTotals,
)
from kanalyze.model import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kanalyze.analysis.quality import CaptureQuality
    from kanalyze.analysis.row import PartitionItem

__all__ = ["KEY_LIMIT", "SCHEMA", "Statistics"]

SCHEMA = 1
KEY_LIMIT = 10_000

_STATUSES = ("ok", "error", "one_way", "unanswered", "orphan_response", "malformed")

_PRODUCE_APIS = frozenset({"Produce", "MultiProduce"})
_FETCH_APIS = frozenset({"Fetch", "MultiFetch", "ShareFetch"})
_JOIN_APIS = frozenset({"JoinGroup"})

# Rows alike in these are added up together: a few dozen groups in a batch of thousands of rows,
# so that all that is looked up by key is looked up once a group.
_LIKENESS = (
    "wire",
    "api_key",
    "api_name",
    "api_version",
    "status",
    "waited",
    "client_id",
    "client_ip",
    "client_software_name",
    "client_software_version",
    "principal",
    "broker_ip",
    "broker_port",
    "group_id",
)
_MEASURES = (
    "request_start_ns",
    "request_bytes",
    "response_start_ns",
    "response_bytes",
    "latency_ns",
    "total_time_ns",
    "throttle_time_ms",
    "record_count",
    "record_bytes",
    "errors",
    "partitions",
)
_likeness_of = itemgetter(*map(Row._fields.index, _LIKENESS))
_measures_of = itemgetter(*map(Row._fields.index, _MEASURES))


class Statistics:
    """Sums over rows. Adding many rows at a time is what makes it fast: thousands, not tens."""

    def __init__(self, *, key_limit: int = KEY_LIMIT) -> None:
        self._apis: Keyed[ApiTotals] = Keyed(ApiTotals, key_limit)
        self._errors: Keyed[ErrorTotals] = Keyed(ErrorTotals, key_limit)
        self._clients: Keyed[ClientTotals] = Keyed(ClientTotals, key_limit)
        self._topics: Keyed[TopicTotals] = Keyed(TopicTotals, key_limit)
        self._groups: Keyed[GroupTotals] = Keyed(GroupTotals, key_limit)
        self._brokers: Keyed[PartyTotals] = Keyed(PartyTotals, key_limit)
        self._series = ThroughputSeries()
        self._slowest = SlowestRequests()
        self._produced = RecordTotals()
        self._fetched = RecordTotals()

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows, in any order."""
        alike: defaultdict[Key, list[Row]] = defaultdict(list)
        for row in rows:
            alike[_likeness_of(row)].append(row)
        for likeness, group in alike.items():
            self._add_alike(likeness, group)

    def merge(self, other: Statistics) -> None:
        """Add the rows that another saw; associative and commutative below the key limit."""
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

    def summary(self, quality: CaptureQuality) -> dict[str, Any]:
        """Return the summary, as the module describes it."""
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
            "capture": _capture(quality),
            "quality": quality.to_dict(),
            "totals": self._totals(),
            **tables,
            "throughput": self._series.to_dict(),
            "slowest": self._slowest.to_list(),
            "limited": [name for name, items in tables.items() if any(i["other"] for i in items)],
        }

    def _add_alike(self, likeness: Key, rows: list[Row]) -> None:
        # The order is that of _LIKENESS.
        wire, api_key, api_name, version, status, waited, client_id, *party = likeness
        client_ip, software, software_version, principal, broker_ip, broker_port, group = party
        columns = dict(zip(_MEASURES, zip(*map(_measures_of, rows), strict=True), strict=True))
        sums = _sums(str(status), bool(waited), api_name, columns)

        self._apis.of((wire, api_key, api_name)).add(_as_int(version), sums)
        broker = str(Endpoint(str(broker_ip), int(broker_port or 0)))
        self._brokers.of((broker,)).add(sums)
        self._add_client(client_id, (client_ip, software, software_version, principal), sums)
        if group is not None:
            self._add_group(group, api_name, sums)
        self._add_records(api_name, sums, rows)
        self._add_times(columns, sums)
        if any(columns["errors"]):
            self._add_errors(api_name, rows)
        if not waited:
            self._slowest.add(rows, sums.latencies_ns.max)

    def _add_client(self, client_id: str | int | None, identity: Key, sums: RowSums) -> None:
        if sums.status == "orphan_response":
            return  # a response does not name its client
        client_ip, software, software_version, principal = identity
        client = self._clients.of((client_id,))
        client.party.add(sums)
        client.ips.add(str(client_ip))
        if software is not None:
            client.software.add(f"{software} {software_version or ''}".strip())
        if principal is not None:
            client.principals.add(str(principal))

    def _add_group(self, group_id: str | int, api_name: str | int | None, sums: RowSums) -> None:
        group = self._groups.of((group_id,))
        group.requests += sums.requests
        group.errors += sums.errors
        group.joins += sums.requests if api_name in _JOIN_APIS else 0

    def _add_records(self, api_name: str | int | None, sums: RowSums, rows: Sequence[Row]) -> None:
        if sums.records is None:
            return
        is_produce = api_name in _PRODUCE_APIS
        (self._produced if is_produce else self._fetched).merge(sums.records)
        none_is_zero = not is_produce and sums.status == "unanswered"
        for key, (requests, records) in _by_topic(rows, none_is_zero).items():
            topic = self._topics.of(key)
            if is_produce:
                topic.produce_requests += requests
                topic.produced.merge(records)
            else:
                topic.fetch_requests += requests
                topic.fetched.merge(records)

    def _add_times(self, columns: dict[str, tuple[Any, ...]], sums: RowSums) -> None:
        if sums.requests:
            times, sizes = _timed(columns["request_start_ns"], columns["request_bytes"])
            self._series.add_requests(times, sizes)
        if sums.responses:
            times, sizes = _timed(columns["response_start_ns"], columns["response_bytes"])
            self._series.add_responses(times, sizes)
            if sums.errors:
                self._series.add_errors(times)

    def _add_errors(self, api_name: str | int | None, rows: Iterable[Row]) -> None:
        for row in rows:
            for item in row.errors:
                key = (api_name, item.code, item.name, item.topic)
                self._errors.of(key).add(row.response_start_ns)
                if item.topic is not None:
                    self._topics.of((item.topic, None)).errors += 1

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
            "fetched_records": self._fetched.count,
            "fetched_record_bytes": self._fetched.bytes,
            "fetched_records_known": self._fetched.unknown == 0,
            "throttled": sum(api.throttled for api in apis),
            "throttle_time_ms": sum(api.throttle_time_ms for api in apis),
        }


def _as_int(value: str | int | None) -> int | None:
    return None if value is None else int(value)


def _sums(
    status: str, waited: bool, api_name: str | int | None, columns: dict[str, tuple[Any, ...]]
) -> RowSums:
    starts = columns["response_start_ns"]
    throttles = [value for value in columns["throttle_time_ms"] if value]
    return RowSums(
        status=status,
        rows=len(starts),
        responses=len(starts) - starts.count(None),
        # filter: without None, and without zeros, which add nothing.
        request_bytes=sum(filter(None, columns["request_bytes"])),
        response_bytes=sum(filter(None, columns["response_bytes"])),
        throttled=len(throttles),
        throttle_time_ms=sum(throttles),
        latencies_ns=_known(columns["latency_ns"]),
        total_times_ns=_known(columns["total_time_ns"]),
        waited=waited,
        records=_record_sums(status, api_name, columns),
    )


def _record_sums(
    status: str, api_name: str | int | None, columns: dict[str, tuple[Any, ...]]
) -> RecordTotals | None:
    if api_name not in _PRODUCE_APIS and api_name not in _FETCH_APIS:
        return None
    counts = columns["record_count"]
    is_unanswered_fetch = status == "unanswered" and api_name in _FETCH_APIS
    refused = _refused(columns["partitions"]) if status == "error" else _NOTHING_REFUSED
    return RecordTotals(
        count=sum(filter(None, counts)) - refused.count,
        bytes=sum(filter(None, columns["record_bytes"])) - refused.bytes,
        unknown=0 if is_unanswered_fetch else counts.count(None),
        refused=refused.count,
    )


_NOTHING_REFUSED = RecordTotals()


def _refused(partitions: Iterable[list[PartitionItem]]) -> RecordTotals:
    """Return what was sent to partitions that answered with an error: it was not produced."""
    parts = [part for several in partitions for part in several if part.error_code]
    return RecordTotals(
        sum(part.record_count or 0 for part in parts),
        sum(part.record_bytes or 0 for part in parts),
    )


def _known(values: tuple[Any, ...]) -> Int64Values:
    if None in values:
        values = tuple(value for value in values if value is not None)
    return Int64Values.of(values)


def _timed(
    times: Sequence[int | None], sizes: Sequence[int | None]
) -> tuple[Sequence[int], Sequence[int]]:
    """Return the times that are known and the sizes beside them, 0 where not known."""
    if None in times or None in sizes:
        pairs = [
            (time, size or 0) for time, size in zip(times, sizes, strict=True) if time is not None
        ]
        return [time for time, _ in pairs], [size for _, size in pairs]
    return cast("Sequence[int]", times), cast("Sequence[int]", sizes)


def _by_topic(rows: Iterable[Row], none_is_zero: bool) -> dict[Key, tuple[int, RecordTotals]]:
    """Return requests and records per topic; a request counts once for each of its topics."""
    # By name, and by id where there is no name. The loop runs once for every partition of every
    # row: no key is made in it, and a list holds the sums.
    names: dict[str, list[int]] = {}
    ids: dict[str | None, list[int]] = {}
    for number, row in enumerate(rows):
        for topic, topic_id, _, count, size, _, _, _, code in row.partitions:
            sums = ids.get(topic_id) if topic is None else names.get(topic)
            if sums is None:
                sums = [0, -1, 0, 0, 0]
                if topic is None:
                    ids[topic_id] = sums
                else:
                    names[topic] = sums
            if sums[_LAST_ROW] != number:
                sums[_LAST_ROW] = number
                sums[_REQUESTS] += 1
            if code:
                continue  # refused: asked for, but neither produced nor fetched
            if size:
                sums[_BYTES] += size
            if count:
                sums[_RECORDS] += count
            elif count is None and row.record_count is None:
                # With a sum, the partition is one that the response leaves out.
                sums[_UNKNOWN] += 1
    found: dict[Key, list[int]] = {(name, None): sums for name, sums in names.items()}
    found.update({(None, topic_id): sums for topic_id, sums in ids.items()})
    return {
        key: (requests, RecordTotals(records, size, 0 if none_is_zero else unknown))
        for key, (requests, _, records, size, unknown) in found.items()
    }


_REQUESTS, _LAST_ROW, _RECORDS, _BYTES, _UNKNOWN = range(5)


def _table(sums: Keyed[Any], names: tuple[str, ...]) -> list[dict[str, Any]]:
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


def _capture(quality: CaptureQuality) -> dict[str, Any]:
    first, last = quality.first_time_ns, quality.last_time_ns
    return {
        "captures": list(quality.captures),
        "packets": quality.packets,
        "captured_bytes": quality.captured_bytes,
        "wire_bytes": quality.wire_bytes,
        "first_time_ns": first,
        "first_time": None if first is None else format_time(first),
        "last_time_ns": last,
        "last_time": None if last is None else format_time(last),
        "duration_ns": quality.duration_ns,
        "dropped_packets": quality.dropped_packets,
    }
