"""What is summed up of the rows of one step of time.

In: columns of rows. Out: sums with ``merge``, which is associative, and commutative below the
limits on keys. This module must not know clocks, nor how steps follow each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.window.rebalances import GroupTotals, add_groups
from kanalyze.statistics.bounded_counters import BoundedCounters
from kanalyze.statistics.group_by import SortedGroups, key_of, value_at
from kanalyze.statistics.quantile_sketch import QuantileSketch
from kanalyze.statistics.summary import add_errors, add_topics
from kanalyze.statistics.totals import (
    EndpointSums,
    EndpointTotals,
    ErrorTotals,
    SlowestRequests,
    TopicTotals,
)

if TYPE_CHECKING:
    from kanalyze.statistics.aggregation_inputs import AggregationInputs
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["API_LIMIT", "MOST_SLOWEST", "Amounts", "Captured", "Recent", "Step", "Traffic"]

API_LIMIT = 128
"""APIs that are counted apart: Kafka has fewer, but the wire may claim any number."""
MOST_SLOWEST = 20


class Amounts(NamedTuple):
    """Requests, and bytes of requests and responses."""

    requests: int
    errors: int
    """Requests with an error code other than 0."""
    request_bytes: int
    response_bytes: int


class Traffic:
    """A sum of :class:`Amounts`."""

    __slots__ = ("errors", "p99_ns", "request_bytes", "requests", "response_bytes")

    def __init__(self) -> None:
        self.requests = self.errors = self.request_bytes = self.response_bytes = 0
        self.p99_ns: int | None = None
        """As :attr:`Step.p99_ns`, of a step that is in no window any more. It does not add up."""

    @property
    def amounts(self) -> Amounts:
        """The sum."""
        return Amounts(self.requests, self.errors, self.request_bytes, self.response_bytes)

    def add(self, amounts: Amounts) -> None:
        """Add amounts."""
        self.merge(amounts)

    def merge(self, other: Traffic | Amounts) -> None:
        """Add another sum."""
        self.requests += other.requests
        self.errors += other.errors
        self.request_bytes += other.request_bytes
        self.response_bytes += other.response_bytes


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

    __slots__ = ("_p99_ns", "apis", "captured", "clients", "errors", "topics", "traffic")

    def __init__(self, key_limit: int) -> None:
        """Begin; ``key_limit`` bounds clients, topics and errors, each."""
        self.traffic = Traffic()
        self.captured = Captured()
        self.apis: BoundedCounters[EndpointTotals] = BoundedCounters(EndpointTotals, API_LIMIT)
        """By ``(wire, api_key, api_name, waited)``."""
        self.clients: BoundedCounters[Traffic] = BoundedCounters(Traffic, key_limit)
        """By ``(client_id, client_ip)``."""
        self.topics: BoundedCounters[TopicTotals] = BoundedCounters(TopicTotals, key_limit)
        """By ``(topic, topic_id)``."""
        self.errors: BoundedCounters[ErrorTotals] = BoundedCounters(ErrorTotals, key_limit)
        """By ``(api_name, error_code, error_name, topic)``."""
        self._p99_ns: int | None = None

    def add(self, rows: AggregationInputs) -> Amounts:
        """Add rows, at least one; return what they come to."""
        made = Amounts(*SortedGroups(np.zeros(len(rows), dtype=np.int64)).sums(*rows.traffic)[0])
        self.traffic.add(made)
        self._p99_ns = None
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
        self._p99_ns = None

    @property
    def p99_ns(self) -> int | None:
        """Of :meth:`latency`; computed once for a step that does not change any more."""
        if self._p99_ns is None:
            self._p99_ns = self.latency().quantile(0.99)
        return self._p99_ns

    def latency(self) -> QuantileSketch:
        """Return the latencies of all requests that were not held back on purpose."""
        sketch = QuantileSketch()
        for (*_, waited), api in self.apis:
            if not waited:
                sketch.merge(api.latency)
        return sketch

    def _add_apis(self, rows: AggregationInputs) -> None:
        keys = [rows.key(name) for name in ("wire", "api_key", "api_name")]
        waited = rows.is_held_back
        apis = SortedGroups(*map(key_of, keys), waited.astype(np.int64))
        sums = apis.sums(*rows.traffic)
        latencies = apis.values(rows.ints("latency_ns").values, rows.known("latency_ns"))
        for first, of_api, latencies_ns in zip(apis.firsts, sums, latencies, strict=True):
            wire, api_key, api_name = (value_at(key, first) for key in keys)
            api = self.apis.of((wire, api_key, api_name, int(waited[first])))
            requests, errors, request_bytes, response_bytes = of_api
            api.add(EndpointSums(requests, errors, request_bytes, response_bytes, latencies_ns))

    def _add_clients(self, rows: AggregationInputs) -> None:
        # A response does not name its client.
        named = np.flatnonzero(rows.is_request)
        if not len(named):
            return
        keys = [rows.words("client_id"), rows.words("client_ip")]
        clients = SortedGroups(*(key_of(key)[named] for key in keys))
        sums = clients.sums(*(measure[named] for measure in rows.traffic))
        for first, of_client in zip(clients.firsts, sums, strict=True):
            client_id, client_ip = (value_at(key, named[first]) for key in keys)
            self.clients.of((client_id, client_ip)).add(Amounts(*of_client))


class Recent:
    """What is looked at for longer than rates are: the slowest requests, groups that rebalance."""

    __slots__ = ("groups", "slowest")

    def __init__(self, key_limit: int) -> None:
        """Begin; ``key_limit`` bounds the groups."""
        self.groups: BoundedCounters[GroupTotals] = BoundedCounters(GroupTotals, key_limit)
        """By ``(group_id,)``."""
        self.slowest = SlowestRequests(MOST_SLOWEST)

    def add(self, rows: AggregationInputs, block: RowBlock) -> None:
        """Add the rows of a block, at least one, and their measures."""
        add_groups(self.groups, rows)
        # As in a report: what waited on purpose is not slow.
        known = np.flatnonzero(rows.has_broker_latency)
        columns = [rows.ints(name).values[known] for name in SlowestRequests.FIRST_BY]
        places = self.slowest.candidates(*columns)
        if len(places):
            self.slowest.add(
                block.take(known[places].tolist()).rows(), int(columns[0][places].max())
            )

    def merge(self, other: Recent) -> None:
        """Add the sums of another."""
        self.groups.merge(other.groups)
        self.slowest.merge(other.slowest)
