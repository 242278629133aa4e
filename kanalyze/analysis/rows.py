"""Makes rows of exchanges.

In: :class:`~kanalyze.connection.exchange.Exchange`. Out: :class:`~kanalyze.analysis.row.Row`. This
module must not know of packets or bytes, nor where rows go.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kanalyze.analysis.block import bytes_of_lists
from kanalyze.analysis.extract import FETCH, PRODUCE, SHARE_FETCH, Extractors, Facts, Part
from kanalyze.analysis.row import ErrorItem, PartitionItem, Row, Status
from kanalyze.analysis.sessions import MOST_LISTED, FetchSessions, SessionSizes
from kanalyze.analysis.topics import TopicNames
from kanalyze.analysis.waits import MEMBER_APIS, LogEnds, waited_for_members
from kanalyze.protocol.error_codes import error_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.analysis.sessions import SessionFacts
    from kanalyze.connection.exchange import Exchange, Message, Peers
    from kanalyze.protocol.catalog import Catalog

__all__ = ["RowMaker"]


class _Api(NamedTuple):
    name: str | None
    like: int | None
    """Key of the API of later versions that it is, or is like."""
    error_name: Callable[[int], str]


class _PeersColumns(NamedTuple):
    """The columns of a row, in their order, that say who spoke with whom."""

    connection: str
    connection_number: int
    client_ip: str
    broker_ip: str
    client_port: int
    broker_port: int
    client_software_name: str | None
    client_software_version: str | None
    principal: str | None


_MOST_PEERS = 256
"""Exchanges of as many connections come mixed; each entry keeps its connection."""


class RowMaker:
    """Turns exchanges into rows, in the order in which they come.

    Holds what rows need to know of earlier ones: topic names, log ends and fetch sessions, all
    bounded.
    """

    def __init__(
        self,
        catalog: Catalog,
        extractors: Extractors,
        place: Callable[[int], tuple[str, int | None]],
        names: TopicNames | None = None,
    ) -> None:
        """Make a row maker.

        Args:
            catalog: names of APIs.
            extractors: reads facts out of decoded values.
            place: gives, for a packet number over the whole input, the capture it is in and its
                number there.
            names: what is known of topic ids already; None begins with nothing.
        """
        self._catalog = catalog
        self._extractors = extractors
        self._place = place
        self.names = TopicNames() if names is None else names
        """What topic ids are called."""
        self.log_ends = LogEnds()
        """Where logs ended."""
        self._sessions = FetchSessions()
        self._apis: dict[tuple[str, int | None], _Api] = {}
        self._throttles: dict[tuple[int, int], bool] = {}
        self._peers_columns: dict[Peers, _PeersColumns] = {}

    def row(self, exchange: Exchange, facts: Facts | None = None) -> Row:
        """Return the row of an exchange; ``facts`` are its own, if they were asked for before."""
        peers, request, response = exchange.peers, exchange.request, exchange.response
        key = (exchange.wire, exchange.api_key)
        api_name, like, name_of = self._apis.get(key) or self._api(*key)
        if facts is None:
            facts = self.facts(exchange)
        for topic_id, name in facts.names:
            self.names.learn(topic_id, name)
        errors = self._errors(facts, name_of) if facts.errors else []
        # Without a response that was read nothing is known of errors; 0 would be a claim.
        known = response is not None and response.version is not None
        code = errors[0].code if errors else 0
        partitions = [self._partition(part) for part in facts.parts] if facts.parts else []
        if facts.session is not None:
            partitions += self._quiet(peers, facts, facts.session)
        record_count, record_bytes = _records(like, facts) if like in _HAVE_RECORDS else _NO_RECORDS
        capture, request_packet, response_packet = self._packets(request, response)
        # By place: by name it takes 2 us more, a fifth of all that a row takes. The order is that
        # of the contract, and a test compares each field with what it is called there.
        return Row(
            capture,
            *self._columns_of(peers),
            exchange.wire,
            exchange.api_key,
            exchange.api_version,
            api_name,
            exchange.correlation_id,
            exchange.client_id,
            request.start_ns if request else None,
            request.end_ns if request else None,
            response.start_ns if response else None,
            response.end_ns if response else None,
            _latency(request, response),
            _total_time(request, response),
            request.length if request else None,
            response.length if response else None,
            request_packet,
            response_packet,
            _status(exchange, bool(errors)),
            code if known else None,
            name_of(code) if known else None,
            errors,
            self._throttle(exchange, facts),
            partitions,
            record_count,
            record_bytes,
            facts.acks,
            facts.max_wait_ms,
            facts.min_bytes,
            self._waited(exchange, facts, like),
            facts.group_id,
            facts.member_id,
            facts.transactional_id,
            [kind.value for kind in exchange.anomalies] if exchange.anomalies else [],
        )

    def _errors(self, facts: Facts, name_of: Callable[[int], str]) -> list[ErrorItem]:
        return [
            ErrorItem(self.names.name(topic, topic_id), partition, code, name_of(code))
            for topic, topic_id, partition, code in facts.errors
        ]

    def _columns_of(self, peers: Peers) -> _PeersColumns:
        """Return what all rows of the same peers have in common, of which the latest are kept."""
        found = self._peers_columns.get(peers)
        if found is None:
            if len(self._peers_columns) >= _MOST_PEERS:
                self._peers_columns.clear()
            client, broker = peers.client, peers.broker
            found = self._peers_columns[peers] = _PeersColumns(
                connection=f"{client}>{broker}",
                connection_number=peers.tcp.connection_number,
                client_ip=client.ip,
                broker_ip=broker.ip,
                client_port=client.port,
                broker_port=broker.port,
                client_software_name=peers.software_name,
                client_software_version=peers.software_version,
                principal=peers.principal,
            )
        return found

    def _api(self, wire: str, api_key: int | None) -> _Api:
        """Return what is known of an API, and keep it: there are at most 2^16 keys."""
        if wire != "kafka":
            from kanalyze.analysis.kafka07 import api_name_07, like_07  # a protocol long gone
            from kanalyze.protocol.kafka07 import error_name_07

            found = _Api(api_name_07(api_key), like_07(api_key), error_name_07)
        elif api_key is None:
            found = _Api(None, None, error_name)
        else:
            api = self._catalog.api(api_key)
            found = _Api(f"Unknown{api_key}" if api is None else api.name, api_key, error_name)
        self._apis[wire, api_key] = found
        return found

    def _quiet(self, peers: Peers, facts: Facts, said: SessionFacts) -> list[PartitionItem]:
        """Return the partitions of a fetch session that neither request nor response names."""
        session = self._sessions.follow(peers.tcp.serial, said)
        if not session:
            return []
        items = session.items
        if items is None:
            some = islice(session, MOST_LISTED)
            items = [(place, self._partition(Part(*place))) for place in some]
            # A name that is not known yet may be told before the next fetch.
            if all(item.topic is not None for _, item in items):
                session.items = items
        named = {part[:3] for part in facts.parts}
        quiet = [item for place, item in items if place not in named]
        return quiet[: max(0, MOST_LISTED - len(named))]

    def sizes_ahead(self) -> Callable[[Exchange, Facts], int]:
        """Return what tells how much memory rows take at most, before any of them is made.

        To be asked in the order of the exchanges, with the facts of each; what it says is as
        :func:`~kanalyze.analysis.block.bytes_of_row`.
        """
        sessions = SessionSizes(self._sessions)

        def size_of(exchange: Exchange, facts: Facts) -> int:
            items = len(facts.parts) + len(facts.errors)
            if facts.session is not None:
                items += sessions.most_listed(exchange.peers.tcp.serial, facts.session)
            return bytes_of_lists(items)

        return size_of

    def api_name(self, api_key: int) -> str | None:
        """Return the name of an API."""
        return self._api("kafka", api_key).name

    def facts(self, exchange: Exchange) -> Facts:
        """Return what the bodies of an exchange say."""
        request, response = exchange.request, exchange.response
        if exchange.wire != "kafka":
            from kanalyze.analysis.kafka07 import facts_07  # as above

            return facts_07(
                request.values if request else None, response.values if response else None
            )
        return self._extractors.facts(
            exchange.api_key,
            request.values if request else None,
            response.values if response else None,
        )

    def _packets(
        self, request: Message | None, response: Message | None
    ) -> tuple[str, int | None, int | None]:
        capture = ""
        request_packet = response_packet = None
        if response is not None:
            capture, response_packet = self._place(response.start_packet)
        if request is not None:
            capture, request_packet = self._place(request.start_packet)
        return capture, request_packet, response_packet

    def _partition(self, part: Part) -> PartitionItem:
        topic, topic_id = part.topic, part.topic_id
        return PartitionItem(
            self.names.name(topic, topic_id),
            self.names.text(topic_id),
            part.partition,
            part.record_count,
            part.record_bytes,
            part.base_offset,
            part.high_watermark,
            part.codec,
            part.error_code,
        )

    def _throttle(self, exchange: Exchange, facts: Facts) -> int | None:
        """Return the throttle time; None in the versions that do not tell one."""
        response, api_key = exchange.response, exchange.api_key
        if facts.throttle_time_ms is None or response is None or response.version is None:
            return None
        if api_key is None or not self.tells_throttle(api_key, response.version):
            return None
        return facts.throttle_time_ms

    def tells_throttle(self, api_key: int, version: int) -> bool:
        """Tell whether an API's responses in a version have a throttle time."""
        key = (api_key, version)
        tells = self._throttles.get(key)
        if tells is None:
            field = self._catalog.message(api_key, "response").struct.field("ThrottleTimeMs")
            tells = field is not None and field.is_present(version)
            self._throttles[key] = tells
        return tells

    def _waited(self, exchange: Exchange, facts: Facts, like: int | None) -> bool | None:
        """Tell whether an answer was held back; None where that is not known, or never is done."""
        request, response = exchange.request, exchange.response
        if request is None or response is None or request.end_ns is None:
            return None
        if like == FETCH:
            return self._waited_for_data(exchange, request, response, facts)
        if like in MEMBER_APIS and request.values is not None and response.values is not None:
            code = facts.errors[0][-1] if facts.errors else 0
            return waited_for_members(code, leads=facts.leads)
        if facts.delivery is None:
            return None
        return self.log_ends.waited_for_news(
            (exchange.peers.tcp.serial, like),
            asked_ns=request.end_ns,
            answered_ns=response.start_ns,
            delivery=facts.delivery,
            lost_ns=exchange.lost_ns,
        )

    def _waited_for_data(
        self, exchange: Exchange, request: Message, response: Message, facts: Facts
    ) -> bool | None:
        if request.end_ns is None:
            return None
        if facts.max_wait_ms is None or facts.min_bytes is None or response.values is None:
            return None
        peers = exchange.peers
        answered = [part for part in facts.parts if part.error_code is not None]
        waited = self.log_ends.waited(
            peers.tcp.serial,
            asked_ns=request.end_ns,
            answered_ns=response.start_ns,
            max_wait_ms=facts.max_wait_ms,
            min_bytes=0 if _only_ends_session(facts) else facts.min_bytes,
            record_bytes=sum(part.record_bytes or 0 for part in answered),
            failed=bool(facts.errors),
            got=[
                (_log(peers, part), offset)
                for part in answered
                if (offset := _offset_in_first_batch(part)) is not None
            ],
            lost_ns=exchange.lost_ns,
        )
        for part in answered:
            if part.high_watermark is not None:
                self.log_ends.learn(_log(peers, part), part.high_watermark, response.start_ns)
        return waited


def _only_ends_session(facts: Facts) -> bool:
    """Whether a fetch asks for nothing but the end of its session, which is given at once."""
    said = facts.session
    return said is not None and said.epoch == _FINAL_EPOCH and not said.asked


_FINAL_EPOCH = -1  # KIP-227


def _offset_in_first_batch(part: Part) -> int | None:
    """Return where the first batch lies: a log ends before a batch or after it, never within."""
    return part.last_offset if part.base_offset is None else part.base_offset


def _log(peers: Peers, part: Part) -> tuple[object, ...]:
    return (peers.tcp.serial, part.topic, part.topic_id, part.partition)


def _latency(request: Message | None, response: Message | None) -> int | None:
    if request is None or response is None or request.end_ns is None:
        return None
    return response.start_ns - request.end_ns


def _total_time(request: Message | None, response: Message | None) -> int | None:
    if request is None or response is None or response.end_ns is None:
        return None
    return response.end_ns - request.start_ns


_HAVE_RECORDS = (PRODUCE, FETCH, SHARE_FETCH)
_NO_RECORDS = (None, None)


def _records(api_key: int | None, facts: Facts) -> tuple[int | None, int | None]:
    """Return the sums over partitions; None where there are none, or one is not known."""
    parts = [part for part in facts.parts if part.record_bytes is not None]
    if not parts and (api_key == PRODUCE or not _was_answered(facts)):
        return None, None
    counts = [part.record_count for part in parts]
    total = None if None in counts else sum(count or 0 for count in counts)
    return total, sum(part.record_bytes or 0 for part in parts)


def _was_answered(facts: Facts) -> bool:
    return facts.throttle_time_ms is not None


def _status(exchange: Exchange, failed: bool) -> Status:
    if exchange.request is None:
        return "orphan_response"
    if failed:
        # Its request may not be all there: that the answer has an error code is known.
        return "error"
    if exchange.malformed:
        return "malformed"
    if exchange.response is None:
        return "one_way" if exchange.one_way else "unanswered"
    return "ok"
