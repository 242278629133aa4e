"""The state of a running analysis: open connections, requests in flight, counts so far.

In: the stages of the run. Out: numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import bounded_text
from kanalyze.tables.quality import DOUBTS, CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.events import ConnectionSummary
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.model.anomalies import AnomalyKind
    from kanalyze.model.tcp import Endpoint
    from kanalyze.runtime.stages import Stages
    from kanalyze.tables.requests.extract import Extractors
    from kanalyze.tls.streams import GivenUp


class InFlightRequest(NamedTuple):
    """A request that has no response yet."""

    start_ns: int
    """Unix time of its first byte in ns."""
    api_key: int | None
    api_name: str | None
    """Name of the API; None if it is unknown."""
    client_id: str | None
    """The client id; a long one is shortened, as in reports."""
    client: Endpoint
    broker: Endpoint


class BrokerWaits(NamedTuple):
    """Requests that wait for a broker, without those that it may hold back on purpose."""

    broker: Endpoint
    requests: int
    connections: int
    """Connections on which they wait."""


class InFlight(NamedTuple):
    """All requests that have no response yet."""

    requests: int
    oldest: tuple[InFlightRequest, ...]
    """A few of the oldest, the oldest first, without those that the broker may hold back on
    purpose."""
    by_broker: tuple[BrokerWaits, ...] = ()
    """Requests that began before the time that was asked for."""

    def age_ns(self, now_ns: int) -> int:
        """Return how long the oldest request has waited in ns; 0 if there is none."""
        return max(now_ns - self.oldest[0].start_ns, 0) if self.oldest else 0


class TlsConnections(NamedTuple):
    """Numbers of connections with TLS."""

    decrypted: int
    """Open connections that are decrypted."""
    encrypted: int
    """Open connections that are not decrypted; some of them may wait for their secrets."""
    given_up: int | None
    """Connections given up so far, because their secrets were not found; None without keys."""


class RunMonitor:
    """The state of a run of :meth:`.Analysis.batches` in one process, between two blocks of rows.

    Before and after the run there are no open connections. With several processes, the open
    connections are unknown.
    """

    def __init__(self, quality: CaptureQuality) -> None:
        """Monitor a run that adds its counts to ``quality``."""
        self._quality = quality
        self._stages: Stages | None = None
        self._catalog: Catalog
        self._extractors: Extractors
        self._given_up: list[GivenUp] = []
        """Connections that the end of the run gave up, and that were not returned yet."""

    def begin(self, stages: Stages, catalog: Catalog, extractors: Extractors) -> None:
        """Note that ``stages`` begin to read.

        ``extractors`` are those that they were made with: what they decode of a request depends on
        the tables of the run, so only these can read it.
        """
        self._stages, self._catalog, self._extractors = stages, catalog, extractors

    def end(self) -> None:
        """Note that the stages have read to the end; ``quality`` has all of their counts."""
        self._given_up = self.take_given_up()
        self._stages = None

    @property
    def open_connections(self) -> int:
        """Number of TCP connections that are open now."""
        return 0 if self._stages is None else self._stages.open_connections

    @property
    def connections_seen(self) -> int:
        """Number of TCP connections seen so far."""
        return self._quality.connections + self.open_connections

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered for open connections."""
        return 0 if self._stages is None else self._stages.buffered_bytes

    def in_flight(self, before_ns: int) -> InFlight:
        """Return the requests that wait for their response.

        The oldest are listed without those that a broker may hold back on purpose: fetches up to
        their own maximum wait, and requests that wait for the members of a group.

        Args:
            before_ns: Unix time in ns; requests that began later may be missing.
        """
        exchanges = () if self._stages is None else self._stages.in_flight(before_ns)
        return in_flight(
            exchanges,
            self._api_name,
            lambda exchange: self._may_be_held_back(exchange, before_ns),
            before_ns=before_ns,
        )

    def tls(self) -> TlsConnections:
        """Count the connections with TLS; this visits all open connections."""
        stages = self._stages
        if stages is None:
            return TlsConnections(0, 0, None)
        encrypted = sum(map(stages.is_tls, stages.open_tcp()))
        streams = stages.tls.streams
        if streams is None:
            return TlsConnections(0, encrypted, None)
        encrypted += streams.waiting_connections
        return TlsConnections(
            streams.decrypted_connections, encrypted, streams.given_up_connections
        )

    def take_given_up(self) -> list[GivenUp]:
        """Return the connections with TLS that were given up since the last call.

        If there are very many, only the first of them are returned.
        """
        if self._stages is None:
            given_up, self._given_up = self._given_up, []
            return given_up
        streams = self._stages.tls.streams
        return [] if streams is None else streams.take_given_up()

    def doubts(self) -> dict[str, Any]:
        """Return which connections failed or were not recognised, and what data was discarded.

        The fields are those of the quality in :data:`DOUBTS`; open connections are included.
        """
        from kanalyze.kafka.session.events import ConnectionCounts  # imported late: as the stages

        quality = CaptureQuality()
        quality.merge(self._quality)
        stages = self._stages
        if stages is not None:
            unknown = ConnectionCounts()
            for tcp in stages.open_tcp():
                quality.count_attempt(tcp)
                if stages.is_unknown(tcp):
                    unknown.count_unknown(tcp)
            quality.count_ports(stages.counts)
            quality.count_ports(unknown)
            quality.count_discarded(stages.net)
        fields = quality.to_dict()
        return {name: fields[name] for name in DOUBTS}

    def open_summaries(self) -> Iterator[ConnectionSummary]:
        """Yield a summary of each open connection whose protocol is decided."""
        if self._stages is not None:
            summaries = map(self._stages.open_summary, self._stages.open_tcp())
            yield from (summary for summary in summaries if summary is not None)

    def count_anomalies(self) -> dict[AnomalyKind, int]:
        """Return the number of anomalies by kind; those of capture files come only at the end."""
        counts = {kind: total.count for kind, total in self._quality.anomalies.items()}
        if self._stages is not None:
            for kind, count in self._stages.net.anomalies.items():
                counts[kind] = counts.get(kind, 0) + count
        return counts

    def _may_be_held_back(self, exchange: Exchange, now_ns: int) -> bool:
        from kanalyze.tables.requests.long_polls import HELD_BACK_APIS, may_be_held_back

        request, api_key = exchange.request, exchange.api_key
        if request is None or exchange.wire != "kafka" or api_key not in HELD_BACK_APIS:
            return False
        if request.start_ns >= now_ns:  # most requests end here; only old ones are decoded
            return True
        summary = self._extractors.of_exchange(exchange)
        return may_be_held_back(api_key, summary, start_ns=request.start_ns, now_ns=now_ns)

    def _api_name(self, api_key: int) -> str | None:
        api = self._catalog.api(api_key)
        return None if api is None else api.name


def in_flight(
    exchanges: Iterable[Exchange],
    api_name_of: Callable[[int], str | None],
    may_be_held_back: Callable[[Exchange], bool],
    most: int = 5,
    before_ns: int | None = None,
) -> InFlight:
    """Sum up requests without a response.

    Args:
        exchanges: the requests.
        api_name_of: returns the name of an API key.
        may_be_held_back: returns whether the broker may still hold back the response to a request
            on purpose; such requests are counted, but not listed among the oldest.
        most: number of the oldest requests to list.
        before_ns: Unix time in ns; only requests that began before it are counted by broker. None
            for all.
    """
    from heapq import nsmallest  # imported late: for a view that is live

    count = 0
    waiting = []
    for exchange in exchanges:
        request = exchange.request
        if request is None:
            continue
        count += 1
        key = exchange.api_key
        name = None if key is None else api_name_of(key)
        if not may_be_held_back(exchange):
            waiting.append((request.start_ns, count, name, exchange))
    old = [each for *_, each in waiting if before_ns is None or _start_ns(each) < before_ns]
    oldest = tuple(_request_of(*entry) for entry in nsmallest(most, waiting))
    return InFlight(count, oldest, _by_broker(old))


def _start_ns(exchange: Exchange) -> int:
    assert exchange.request is not None  # it waits for its response
    return exchange.request.start_ns


def _by_broker(exchanges: Iterable[Exchange]) -> tuple[BrokerWaits, ...]:
    clients: dict[Endpoint, list[Endpoint]] = {}
    for exchange in exchanges:
        clients.setdefault(exchange.peers.broker, []).append(exchange.peers.client)
    return tuple(
        BrokerWaits(broker, len(waiting), len(set(waiting))) for broker, waiting in clients.items()
    )


def _request_of(start_ns: int, _: int, name: str | None, exchange: Exchange) -> InFlightRequest:
    peers, client_id = exchange.peers, exchange.client_id
    client_id = None if client_id is None else bounded_text(client_id)
    return InFlightRequest(start_ns, exchange.api_key, name, client_id, peers.client, peers.broker)
