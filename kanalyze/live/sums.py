"""What is summed up of the rows of one step of time.

In: columns of rows. Out: sums with ``merge``, which is associative, and commutative below the
limits on keys. This module must not know clocks, nor how steps follow each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kanalyze.analysis.block import Words
from kanalyze.analysis.grouping import Groups, key_of, value_at
from kanalyze.analysis.keyed import Keyed
from kanalyze.analysis.measures import rows_of_items
from kanalyze.analysis.statistics import add_errors, add_topics
from kanalyze.analysis.totals import (
    ErrorTotals,
    PartySums,
    PartyTotals,
    SlowestRequests,
    TopicTotals,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.analysis.block import RowBlock
    from kanalyze.analysis.measures import Measures

__all__ = ["API_LIMIT", "MOST_SLOWEST", "Amounts", "Captured", "Recent", "Step", "Traffic"]

API_LIMIT = 128
"""APIs that are counted apart: Kafka has fewer, but the wire may claim any number."""
MOST_SLOWEST = 20

_REBALANCE = "REBALANCE_IN_PROGRESS"


class Amounts(NamedTuple):
    """Requests, and bytes of requests and responses."""

    requests: int
    errors: int
    """Requests with an error code other than 0."""
    request_bytes: int
    response_bytes: int


class Traffic:
    """A sum of :class:`Amounts`."""

    __slots__ = ("amounts",)

    def __init__(self) -> None:
        self.amounts = Amounts(0, 0, 0, 0)

    def add(self, amounts: Amounts) -> None:
        """Add amounts."""
        self.amounts = Amounts(*map(int.__add__, self.amounts, amounts))

    def merge(self, other: Traffic) -> None:
        """Add another sum."""
        self.add(other.amounts)


class Captured:
    """What the capturing side took in and lost."""

    __slots__ = ("dropped_packets", "packets", "wire_bytes")

    def __init__(self) -> None:
        self.packets = 0
        self.wire_bytes = 0
        self.dropped_packets = 0

    def merge(self, other: Captured) -> None:
        """Add another sum."""
        self.packets += other.packets
        self.wire_bytes += other.wire_bytes
        self.dropped_packets += other.dropped_packets


class Step:
    """Sums over the rows of a step of time: in all, by API, client, topic and error."""

    __slots__ = ("apis", "captured", "clients", "errors", "topics", "traffic")

    def __init__(self, key_limit: int) -> None:
        """Begin; ``key_limit`` bounds clients, topics and errors, each."""
        self.traffic = Traffic()
        self.captured = Captured()
        self.apis: Keyed[PartyTotals] = Keyed(PartyTotals, API_LIMIT)
        """By ``(wire, api_key, api_name, waited)``."""
        self.clients: Keyed[Traffic] = Keyed(Traffic, key_limit)
        """By ``(client_id, client_ip)``."""
        self.topics: Keyed[TopicTotals] = Keyed(TopicTotals, key_limit)
        """By ``(topic, topic_id)``."""
        self.errors: Keyed[ErrorTotals] = Keyed(ErrorTotals, key_limit)
        """By ``(api_name, error_code, error_name, topic)``."""

    def add(self, rows: Measures) -> Amounts:
        """Add rows, at least one; return what they come to."""
        made = Amounts(*Groups(np.zeros(len(rows), dtype=np.int64)).sums(*rows.traffic)[0])
        self.traffic.add(made)
        self._add_apis(rows)
        self._add_clients(rows)
        add_topics(self.topics, rows)
        add_errors(self.errors, self.topics, rows)
        return made

    def merge(self, other: Step) -> None:
        """Add the sums of another step."""
        self.traffic.merge(other.traffic)
        self.captured.merge(other.captured)
        self.apis.merge(other.apis)
        self.clients.merge(other.clients)
        self.topics.merge(other.topics)
        self.errors.merge(other.errors)

    def _add_apis(self, rows: Measures) -> None:
        keys = [rows.key(name) for name in ("wire", "api_key", "api_name")]
        waited = rows.is_slow_on_purpose
        apis = Groups(*map(key_of, keys), waited.astype(np.int64))
        sums = apis.sums(*rows.traffic)
        latencies = apis.values(rows.ints("latency_ns").values, rows.known("latency_ns"))
        for first, of_api, latencies_ns in zip(apis.firsts, sums, latencies, strict=True):
            wire, api_key, api_name = (value_at(key, first) for key in keys)
            api = self.apis.of((wire, api_key, api_name, int(waited[first])))
            requests, errors, request_bytes, response_bytes = of_api
            api.add(PartySums(requests, errors, request_bytes, response_bytes, latencies_ns))

    def _add_clients(self, rows: Measures) -> None:
        # A response does not name its client.
        named = np.flatnonzero(rows.is_request)
        if not len(named):
            return
        keys = [rows.words("client_id"), rows.words("client_ip")]
        clients = Groups(*(key_of(key)[named] for key in keys))
        sums = clients.sums(*(measure[named] for measure in rows.traffic))
        for first, of_client in zip(clients.firsts, sums, strict=True):
            client_id, client_ip = (value_at(key, named[first]) for key in keys)
            self.clients.of((client_id, client_ip)).add(Amounts(*of_client))


class RebalanceTotals:
    """What shows that a consumer group is rebalancing."""

    __slots__ = ("joins", "last_time_ns", "longest_join_ns", "syncs", "told")

    def __init__(
        self,
        joins: int = 0,
        syncs: int = 0,
        told: int = 0,
        longest_join_ns: int | None = None,
        last_time_ns: int | None = None,
    ) -> None:
        self.joins = joins
        self.syncs = syncs
        self.told = told
        """Responses that told a member REBALANCE_IN_PROGRESS."""
        self.longest_join_ns = longest_join_ns
        """The highest latency of a JoinGroup: it is answered when all members have joined."""
        self.last_time_ns = last_time_ns

    def merge(self, other: RebalanceTotals) -> None:
        """Add another sum over the same group."""
        self.joins += other.joins
        self.syncs += other.syncs
        self.told += other.told
        self.longest_join_ns = _higher(self.longest_join_ns, other.longest_join_ns)
        self.last_time_ns = _higher(self.last_time_ns, other.last_time_ns)


class Recent:
    """What is looked at for longer than rates are: the slowest requests, groups that rebalance."""

    __slots__ = ("groups", "slowest")

    def __init__(self, key_limit: int) -> None:
        """Begin; ``key_limit`` bounds the groups."""
        self.groups: Keyed[RebalanceTotals] = Keyed(RebalanceTotals, key_limit)
        """By ``(group_id,)``."""
        self.slowest = SlowestRequests(MOST_SLOWEST)

    def add(self, rows: Measures, block: RowBlock) -> None:
        """Add the rows of a block, at least one, and their measures."""
        self._add_groups(rows)
        # As in a report: fetches that waited for data on purpose are not slow.
        known = np.flatnonzero(rows.known("latency_ns") & ~rows.is_slow_on_purpose)
        columns = [rows.ints(name).values[known] for name in SlowestRequests.FIRST_BY]
        places = self.slowest.candidates(*columns)
        if len(places):
            self.slowest.add(block.take(known[places]).rows(), int(columns[0][places].max()))

    def merge(self, other: Recent) -> None:
        """Add the sums of another."""
        self.groups.merge(other.groups)
        self.slowest.merge(other.slowest)

    def _add_groups(self, rows: Measures) -> None:
        group_ids = rows.words("group_id")
        is_join = rows.is_join & rows.is_request
        is_sync = _is(rows.words("api_name"), "SyncGroup") & rows.is_request
        is_told = _tells(rows, _REBALANCE)
        members = np.flatnonzero((group_ids.codes >= 0) & (is_join | is_sync | is_told))
        if not len(members):
            return
        groups = Groups(key_of(group_ids)[members])
        counts = groups.sums(
            *(mask[members].astype(np.int64) for mask in (is_join, is_sync, is_told))
        )
        is_timed = rows.known("latency_ns") & is_join
        joined = groups.values(rows.ints("latency_ns").values[members], is_timed[members])
        times = groups.values(
            rows.ints("response_start_ns").values[members],
            rows.known("response_start_ns")[members],
        )
        for first, of_group, latencies, ends in zip(
            groups.firsts, counts, joined, times, strict=True
        ):
            longest_ns = latencies.max if latencies.items else None
            last_ns = ends.max if ends.items else None
            group = self.groups.of((value_at(group_ids, members[first]),))
            joins, syncs, told = of_group
            group.merge(RebalanceTotals(joins, syncs, told, longest_ns, last_ns))


def _is(texts: Words, wanted: str) -> NDArray[np.bool_]:
    if wanted not in texts.words:
        return np.zeros(len(texts.codes), dtype=np.bool_)
    found: NDArray[np.bool_] = texts.codes == texts.words.index(wanted)
    return found


def _tells(rows: Measures, error_name: str) -> NDArray[np.bool_]:
    """Return where an error of this name is among the errors of a row."""
    lists = rows.lists("errors")
    names = lists.fields["name"]
    assert isinstance(names, Words)
    told = np.zeros(len(rows), dtype=np.bool_)
    told[rows_of_items(lists)[_is(names, error_name)]] = True
    return told


def _higher(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)
