"""Makes rows of exchanges, by column.

In: :class:`~kanalyze.kafka.session.exchange.Exchange`, in the order in which they ended. Out:
:class:`~kanalyze.tables.columns.block.RowBlock`. This module must not know of packets or bytes, nor
where rows go.

An exchange is written straight into columns that grow: no object is made for a row, nor for a
partition of it but the one that its body was read into.

Compiled by Cython, with the types in ``row_assembler.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from array import array
from itertools import islice
from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields
from kanalyze.kafka.codec.values import SEEN_CODECS
from kanalyze.kafka.schema.error_codes import error_name
from kanalyze.tables.columns.block import BUFFERED_BYTES, Lists, RowBlock, Words
from kanalyze.tables.columns.buffers import (
    IntBuffer,
    WordBuffer,
    buffers_of,
    ints_of,
    words_of,
)
from kanalyze.tables.requests.extract import FETCH, PRODUCE, SHARE_FETCH, Extractors
from kanalyze.tables.requests.fetch_sessions import (
    MOST_LISTED,
    FetchSession,
    FetchSessions,
    FetchSessionUpdate,
)
from kanalyze.tables.requests.long_polls import (
    MEMBER_APIS,
    LongPollDetector,
    longest_wait_ms,
    waited_for_members,
)
from kanalyze.tables.requests.topic_names import TopicNames, topic_id_of
from kanalyze.tables.row import COLUMNS

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.framing.frame import NO_PACKET
    from kanalyze.kafka.session.exchange import NO_API, NO_ID, NO_VERSION
    from kanalyze.tables.requests.summaries import (
        BASE_OFFSET,
        CODEC,
        ERROR_CODE,
        HIGH_WATERMARK,
        LAST_OFFSET,
        PARTITION,
        RECORD_BYTES,
        RECORD_COUNT,
    )

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.exchange import Exchange, Message, Peers
    from kanalyze.tables.columns.block import ColumnValues, Ints
    from kanalyze.tables.requests.summaries import ExchangeSummary, PartitionColumns

__all__ = ["RowAssembler", "with_names"]

_ERROR_IDS = "errors.topic_id"
"""No column: the ids of topics that had no name when their error was written."""

_ROW_BYTES = 330
_ITEM_BYTES = 70
"""What a row takes by column, and each item of its lists, without its texts."""
_MOST_BYTES = BUFFERED_BYTES // 4
"""What rows take before they are to be taken: whoever has a block makes more of it."""
_LEAST_ROOM = 64
_MOST_PEERS = 256
"""Exchanges of as many connections come mixed; each entry keeps its connection."""
_MOST_WORDS = 50_000
_MOST_CHARACTERS = 4 << 20
"""Of all columns together: beyond that, blocks begin with words of their own."""

_HAVE_RECORDS = frozenset({PRODUCE, FETCH, SHARE_FETCH})
_LEAST_INT64, _LARGEST_INT64 = -(2**63), 2**63 - 1
_FAR = 1 << 62
"""Differences of what lies nearer to 0 are numbers of 64 bits."""


class _Api:
    """What rows say of an API, and what it says of them.

    Attributes:
        wire: number of the wire's name; ``name``: of its own.
        like: key of the API of later versions that it is, or is like.
        error_name: names its error codes.
        error_codes: number of the name of each code that came.
        throttles: by version whether responses tell a throttle time.
    """

    __slots__ = (
        *("error_codes", "error_name", "has_records", "is_fetch", "is_produce", "like", "name"),
        *("throttles", "waits_for_members", "wire"),
    )

    def __init__(
        self, wire: int, name: int, like: int | None, error_name: Callable[[int], str]
    ) -> None:
        self.wire = wire
        self.name = name
        self.like = like
        self.has_records = like in _HAVE_RECORDS
        self.is_produce, self.is_fetch = like == PRODUCE, like == FETCH
        self.waits_for_members = like in MEMBER_APIS
        self.error_name = error_name
        self.error_codes: dict[int, int] = {}
        self.throttles: dict[int, bool] = {}


class _PeersColumns:
    """The columns that say who spoke with whom, as numbers."""

    __slots__ = (
        *("connection", "connection_number", "client_ip", "broker_ip", "client_port"),
        *("broker_port", "software_name", "software_version", "principal", "serial"),
    )

    def __init__(self, serial: int, numbers: tuple[int, int, int], words: list[int]) -> None:
        self.serial = serial
        self.connection_number, self.client_port, self.broker_port = numbers
        self.connection, self.client_ip, self.broker_ip = words[:3]
        self.software_name, self.software_version, self.principal = words[3:]


class _SessionColumns:
    """The partitions of a fetch session as they are listed, by column.

    Attributes:
        session, changes: whose they are, and when.
    """

    __slots__ = ("changes", "count", "partitions", "session", "topic_ids", "topics")

    def __init__(self, session: FetchSession, count: int) -> None:
        self.session = session
        self.changes = session.changes
        self.count = count
        self.topics = memoryview(array("i", bytes(4 * count)))
        self.topic_ids = memoryview(array("i", bytes(4 * count)))
        self.partitions = memoryview(array("q", bytes(8 * count)))


class RowAssembler:
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
        *,
        are_all_numbered: bool = True,
    ) -> None:
        """Make a builder.

        Args:
            catalog: names of APIs.
            extractors: reads summary out of decoded values.
            place: gives, for a packet number over the whole input, the capture it is in and its
                number there.
            names: what is known of topic ids already; None begins with nothing.
            are_all_numbered: whether each packet of the input has the number after that of the one
                before it, so that no capture can begin between two numbers unseen.
        """
        self._are_all_numbered = are_all_numbered
        self._most_bytes = _MOST_BYTES
        self._catalog = catalog
        self._extractors = extractors
        self._place = place
        self.names = TopicNames() if names is None else names
        """What topic ids are called."""
        self.long_polls = LongPollDetector()
        """Where logs ended."""
        self._sessions = FetchSessions()
        self._rows = self._room = 0
        self._last_rows = self._last_parts = 0
        """How many there were in the last block: the next one most likely has as many."""
        self._make_columns()
        self._known_names = 0
        self._last_api: _Api | None = None
        self._last_key, self._last_wire = NO_API, ""
        """Most exchanges are of the API of the one before."""
        self._forget_words()

    def state(self, connections: Collection[int]) -> State:
        """Return what :meth:`load_state` takes: what is known of some connections, by serial.

        Names of topics are whoever's who made the builder.
        """
        return self.long_polls.state(connections), self._sessions.state(connections)

    @staticmethod
    def known_from_state(state: object) -> tuple[LongPollDetector, FetchSessions]:
        """Return what is known, of a state; raises ValueError where that is none."""
        long_polls, sessions = fields(state, "tt")
        return LongPollDetector.from_state(long_polls), FetchSessions.from_state(sessions)

    def load_state(self, known: tuple[LongPollDetector, FetchSessions]) -> None:
        """Go on with what is known, before the first row."""
        self.long_polls, self._sessions = known

    def _make_columns(self) -> None:
        """Make a buffer for each column and each field of lists, and call the hot ones by name."""
        columns = buffers_of(COLUMNS)
        columns[_ERROR_IDS] = WordBuffer()
        self._columns = columns
        lists = {
            column.name: [name for name in columns if name.partition(".")[0] == column.name]
            for column in COLUMNS
            if column.type.startswith("list<")
        }
        self._of_rows = [name for name in columns if not any(name in of for of in lists.values())]
        self._of_errors, self._of_parts = lists["errors"], lists["partitions"]
        self._connection: WordBuffer = words_of(columns, "connection")
        self._connection_number: IntBuffer = ints_of(columns, "connection_number")
        self._client_ip: WordBuffer = words_of(columns, "client_ip")
        self._broker_ip: WordBuffer = words_of(columns, "broker_ip")
        self._client_port: IntBuffer = ints_of(columns, "client_port")
        self._broker_port: IntBuffer = ints_of(columns, "broker_port")
        self._software_name: WordBuffer = words_of(columns, "client_software_name")
        self._software_version: WordBuffer = words_of(columns, "client_software_version")
        self._principal: WordBuffer = words_of(columns, "principal")
        self._capture: WordBuffer = words_of(columns, "capture")
        self._wire: WordBuffer = words_of(columns, "wire")
        self._api_key: IntBuffer = ints_of(columns, "api_key")
        self._api_version: IntBuffer = ints_of(columns, "api_version")
        self._api_name: WordBuffer = words_of(columns, "api_name")
        self._correlation_id: IntBuffer = ints_of(columns, "correlation_id")
        self._client_id: WordBuffer = words_of(columns, "client_id")
        self._request_start_ns: IntBuffer = ints_of(columns, "request_start_ns")
        self._request_end_ns: IntBuffer = ints_of(columns, "request_end_ns")
        self._response_start_ns: IntBuffer = ints_of(columns, "response_start_ns")
        self._response_end_ns: IntBuffer = ints_of(columns, "response_end_ns")
        self._latency_ns: IntBuffer = ints_of(columns, "latency_ns")
        self._total_time_ns: IntBuffer = ints_of(columns, "total_time_ns")
        self._request_bytes: IntBuffer = ints_of(columns, "request_bytes")
        self._response_bytes: IntBuffer = ints_of(columns, "response_bytes")
        self._request_packet: IntBuffer = ints_of(columns, "request_packet")
        self._response_packet: IntBuffer = ints_of(columns, "response_packet")
        self._status: WordBuffer = words_of(columns, "status")
        self._error_code: IntBuffer = ints_of(columns, "error_code")
        self._error_name: WordBuffer = words_of(columns, "error_name")
        self._throttle_time_ms: IntBuffer = ints_of(columns, "throttle_time_ms")
        self._record_count: IntBuffer = ints_of(columns, "record_count")
        self._record_bytes: IntBuffer = ints_of(columns, "record_bytes")
        self._acks: IntBuffer = ints_of(columns, "acks")
        self._max_wait_ms: IntBuffer = ints_of(columns, "max_wait_ms")
        self._min_bytes: IntBuffer = ints_of(columns, "min_bytes")
        self._waited: IntBuffer = ints_of(columns, "waited")
        self._group_id: WordBuffer = words_of(columns, "group_id")
        self._member_id: WordBuffer = words_of(columns, "member_id")
        self._transactional_id: WordBuffer = words_of(columns, "transactional_id")
        self._part_topic: WordBuffer = words_of(columns, "partitions.topic")
        self._part_topic_id: WordBuffer = words_of(columns, "partitions.topic_id")
        self._part_partition: IntBuffer = ints_of(columns, "partitions.partition")
        self._part_record_count: IntBuffer = ints_of(columns, "partitions.record_count")
        self._part_record_bytes: IntBuffer = ints_of(columns, "partitions.record_bytes")
        self._part_base_offset: IntBuffer = ints_of(columns, "partitions.base_offset")
        self._part_high_watermark: IntBuffer = ints_of(columns, "partitions.high_watermark")
        self._part_codec: WordBuffer = words_of(columns, "partitions.codec")
        self._part_error_code: IntBuffer = ints_of(columns, "partitions.error_code")
        self._error_topic: WordBuffer = words_of(columns, "errors.topic")
        self._error_topic_id: WordBuffer = words_of(columns, _ERROR_IDS)
        self._error_partition: IntBuffer = ints_of(columns, "errors.partition")
        self._error_item_code: IntBuffer = ints_of(columns, "errors.code")
        self._error_item_name: WordBuffer = words_of(columns, "errors.name")
        self._anomaly: WordBuffer = words_of(columns, "anomalies")
        self._part_ends, self._error_ends, self._anomaly_ends = (IntBuffer() for _ in range(3))
        self._parts = self._part_room = 0
        self._errors = self._error_room = 0
        self._anomalies = self._anomaly_room = 0

    def __len__(self) -> int:
        """Return how many rows there are to be taken."""
        return self._rows

    @property
    def is_full(self) -> bool:
        """Whether the rows take as much memory as may be held."""
        return self._buffered_bytes() >= self._most_bytes

    def _buffered_bytes(self) -> int:
        items = self._parts + self._errors + self._anomalies
        return self._rows * _ROW_BYTES + items * _ITEM_BYTES

    # -- one row ----------------------------------------------------------------------------------

    def add(self, exchange: Exchange) -> None:
        """Write the row of an exchange."""
        if self._rows == self._room:
            self._make_row_room()
        at = self._rows
        peers, request, response = exchange.peers, exchange.request, exchange.response
        api = self._api_of(exchange)
        summary: ExchangeSummary = self.summary(exchange)
        if summary.names:
            for topic_id, name in summary.names:
                self.names.learn(topic_id, name)
        peers_columns = self._put_peers(at, peers)
        self._put_head(at, api, exchange)
        self._put_messages(at, request, response)
        self._put_errors(at, api, summary, exchange)
        if summary.parts.count:
            self._put_parts(summary.parts)
        if summary.session is not None:
            self._put_unnamed(peers_columns, summary, summary.session)
        self._part_ends.put(at, self._parts)
        if api.has_records:
            self._put_sums(at, api, summary)
        self._acks.put_any(at, summary.acks)
        self._max_wait_ms.put_any(at, summary.max_wait_ms)
        self._min_bytes.put_any(at, summary.min_bytes)
        if request is not None and response is not None and request.last_packet != NO_PACKET:
            waited = self._waited_on_purpose(
                exchange, peers_columns, api, summary, request, response, request.last_ns
            )
            self._waited.put_any(at, waited)
        self._group_id.put(at, summary.group_id)
        self._member_id.put(at, summary.member_id)
        self._transactional_id.put(at, summary.transactional_id)
        if exchange._anomalies:
            for kind in exchange._anomalies:
                self._put_anomaly(kind.value)
        self._anomaly_ends.put(at, self._anomalies)
        self._rows = at + 1

    def _put_head(self, at: int, api: _Api, exchange: Exchange) -> None:
        """Put what the request's header says."""
        self._wire.put_code(at, api.wire)
        if exchange.key != NO_API:
            self._api_key.put(at, exchange.key)
        if exchange.key_version != NO_API:
            self._api_version.put(at, exchange.key_version)
        self._api_name.put_code(at, api.name)
        if exchange.correlation != NO_ID:
            self._correlation_id.put(at, exchange.correlation)
        self._client_id.put(at, exchange.client_id)

    def add_until_full(self, exchanges: list[Exchange], first: int) -> int:
        """Write the rows of exchanges from number ``first`` on; return the number of the next."""
        place = first
        while place < len(exchanges):
            self.add(exchanges[place])
            place += 1
            if self._buffered_bytes() >= self._most_bytes:
                break
        return place

    def summary(self, exchange: Exchange) -> ExchangeSummary:
        """Return what the bodies of an exchange say."""
        request, response = exchange.request, exchange.response
        if exchange.wire != "kafka":
            from kanalyze.tables.requests.kafka07 import summary_07  # a protocol long gone

            asked = None if request is None else request.values
            return summary_07(asked, None if response is None else response.values)
        return self._extractors.summary(
            None if exchange.key == NO_API else exchange.key,
            None if request is None else request.taped,
            None if response is None else response.taped,
        )

    def _put_peers(self, at: int, peers: Peers) -> _PeersColumns:
        """Put what all rows of the same peers have in common, which was looked up once."""
        found: _PeersColumns | None = self._peers.get(peers)
        if found is None:
            found = self._new_peers(peers)
        self._connection.put_code(at, found.connection)
        self._connection_number.put(at, found.connection_number)
        self._client_ip.put_code(at, found.client_ip)
        self._broker_ip.put_code(at, found.broker_ip)
        self._client_port.put(at, found.client_port)
        self._broker_port.put(at, found.broker_port)
        self._software_name.put_code(at, found.software_name)
        self._software_version.put_code(at, found.software_version)
        self._principal.put_code(at, found.principal)
        return found

    def _new_peers(self, peers: Peers) -> _PeersColumns:
        if len(self._peers) >= _MOST_PEERS:
            self._peers.clear()
        client, broker, tcp = peers.client, peers.broker, peers.tcp
        found = self._peers[peers] = _PeersColumns(
            tcp.serial,
            (tcp.connection_number, client.port, broker.port),
            [
                self._connection.code(f"{client}>{broker}"),
                self._client_ip.code(client.ip),
                self._broker_ip.code(broker.ip),
                self._software_name.code(peers.software_name),
                self._software_version.code(peers.software_version),
                self._principal.code(peers.principal),
            ],
        )
        return found

    def _put_messages(self, at: int, request: Message | None, response: Message | None) -> None:
        """Put times, sizes and packets: for now their numbers over all captures."""
        if request is not None:
            self._request_start_ns.put(at, request.start_ns)
            if request.last_packet != NO_PACKET:
                self._request_end_ns.put(at, request.last_ns)
            self._request_bytes.put(at, request.length)
            self._request_packet.put(at, request.start_packet)
        if response is None:
            return
        self._response_start_ns.put(at, response.start_ns)
        if response.last_packet != NO_PACKET:
            self._response_end_ns.put(at, response.last_ns)
        self._response_bytes.put(at, response.length)
        self._response_packet.put(at, response.start_packet)
        if request is None:
            return
        if request.last_packet != NO_PACKET:
            self._latency_ns.put(at, _nearest(response.start_ns, request.last_ns))
        if response.last_packet != NO_PACKET:
            self._total_time_ns.put(at, _nearest(response.last_ns, request.start_ns))

    def _put_errors(self, at: int, api: _Api, summary: ExchangeSummary, exchange: Exchange) -> None:
        """Put how it ended, every error code, the first of them, and the throttle time."""
        response = exchange.response
        if summary.errors:
            for topic, topic_id, partition, code in summary.errors:
                self._put_error(api, topic, topic_id, partition, code)
        self._error_ends.put(at, self._errors)
        self._status.put(at, _status(exchange, bool(summary.errors)))
        # Without a response that was read nothing is known of errors; 0 would be a claim.
        if response is None or response.read_as == NO_VERSION:
            return
        first = summary.errors[0][3] if summary.errors else 0
        self._error_code.put_any(at, first)
        self._error_name.put_code(at, self._error_name_code(api, first))
        told = summary.throttle_time_ms
        if told is not None and exchange.key != NO_API:
            version = response.read_as
            tells = api.throttles.get(version)
            if tells is None:
                tells = api.throttles[version] = self._tells_throttle(exchange.key, version)
            if tells:
                self._throttle_time_ms.put_any(at, told)

    def _put_error(
        self, api: _Api, topic: str | None, topic_id: bytes, partition: int | None, code: int
    ) -> None:
        at = self._errors
        if at == self._error_room:
            self._error_room = self._made_room(self._of_errors, at, 0)
        self._error_topic.put(at, topic or self._name_of(topic, topic_id))
        if not topic:
            self._error_topic_id.put(at, self.names.text(topic_id))
        self._error_partition.put_any(at, partition)
        self._error_item_code.put_any(at, code)
        self._error_item_name.put(at, api.error_name(code))
        self._errors = at + 1

    def _error_name_code(self, api: _Api, code: int) -> int:
        """Return the number of the name of an error code, of which there are at most 2^16."""
        found = api.error_codes.get(code)
        if found is None:
            found = api.error_codes[code] = self._error_name.code(api.error_name(code))
        return found

    def _put_anomaly(self, kind: str) -> None:
        at = self._anomalies
        if at == self._anomaly_room:
            self._anomaly_room = self._made_room(["anomalies"], at, 0)
        self._anomaly.put(at, kind)
        self._anomalies = at + 1

    # -- partitions -------------------------------------------------------------------------------

    def _put_parts(self, parts: PartitionColumns) -> None:
        for index in range(parts.count):
            at = self._parts
            if at == self._part_room:
                self._part_room = self._made_room(self._of_parts, at, self._last_parts)
            topic, topic_id = parts.topics[index], parts.topic_ids[index]
            self._part_topic.put(at, topic or self._name_of(topic, topic_id))
            self._part_topic_id.put_code(at, self._topic_id_code(topic_id))
            known = parts.known(index)
            if known & (1 << PARTITION):
                self._part_partition.put(at, parts.number(index, PARTITION))
            if known & (1 << RECORD_COUNT):
                self._part_record_count.put(at, parts.number(index, RECORD_COUNT))
            if known & (1 << RECORD_BYTES):
                self._part_record_bytes.put(at, parts.number(index, RECORD_BYTES))
            if known & (1 << BASE_OFFSET):
                self._part_base_offset.put(at, parts.number(index, BASE_OFFSET))
            if known & (1 << HIGH_WATERMARK):
                self._part_high_watermark.put(at, parts.number(index, HIGH_WATERMARK))
            if known & (1 << CODEC):
                self._part_codec.put_code(at, self._codec_code(parts.number(index, CODEC)))
            if known & (1 << ERROR_CODE):
                self._part_error_code.put(at, parts.number(index, ERROR_CODE))
            self._parts = at + 1

    def _codec_code(self, seen: int) -> int:
        """Return the number of the name of codecs, of which there are 256 sets."""
        code = self._codec_codes[seen]
        if code < 0:
            code = self._codec_codes[seen] = self._part_codec.code(SEEN_CODECS[seen])
        return code

    def _name_of(self, topic: str | None, topic_id: bytes) -> str | None:
        """Return the name of a topic that is named by its id alone, if at all."""
        if self._known_names != self.names.changes:
            self._known_names = self.names.changes
            self._names_by_id.clear()
        found: str | None = self._names_by_id.get(topic_id)
        if found is None:
            found = self.names.name(topic, topic_id)
            if found is not None:
                self._names_by_id[topic_id] = found
        return found

    def _topic_id_code(self, topic_id: bytes) -> int:
        found = self._topic_id_codes.get(topic_id)
        if found is None:
            made = self._part_topic_id.code(self.names.text(topic_id))
            self._topic_id_codes[topic_id] = made
            return made
        return found

    def _put_unnamed(
        self, peers: _PeersColumns, summary: ExchangeSummary, said: FetchSessionUpdate
    ) -> None:
        """Put the partitions of a fetch session that neither request nor response names."""
        session = self._sessions.follow(peers.serial, said)
        if not session.partitions:
            return
        listed = self._session_columns_of((peers.serial, said.session_id), session)
        parts = summary.parts
        if parts.count == 0:
            for index in range(listed.count):
                self._put_session_partition(listed, index)
            return
        named = {parts.key_of(index) for index in range(parts.count)}
        left = MOST_LISTED - len(named)
        for index, place in enumerate(session.partitions):
            if index == listed.count or left <= 0:
                break
            if place not in named:
                self._put_session_partition(listed, index)
                left -= 1

    def _session_columns_of(self, key: tuple[int, int], session: FetchSession) -> _SessionColumns:
        found = self._session_columns.get(key)
        if found is not None and found.session is session and found.changes == session.changes:
            return found
        made = _SessionColumns(session, min(MOST_LISTED, len(session.partitions)))
        are_named = True
        for index, place in enumerate(islice(session.partitions, MOST_LISTED)):
            topic, topic_id, partition = place
            name = topic or self._name_of(topic, topic_id)
            are_named = are_named and name is not None
            made.topics[index] = self._part_topic.code(name)
            made.topic_ids[index] = self._topic_id_code(topic_id)
            made.partitions[index] = partition
        if len(self._session_columns) > 2 * len(self._sessions) + _LEAST_ROOM:
            self._session_columns.clear()  # most of them are of sessions that have ended
        # A name that is not known yet may be told before the next fetch.
        if are_named:
            self._session_columns[key] = made
        return made

    def _put_session_partition(self, listed: _SessionColumns, index: int) -> None:
        at = self._parts
        if at == self._part_room:
            self._part_room = self._made_room(self._of_parts, at, self._last_parts)
        self._part_topic.put_code(at, listed.topics[index])
        self._part_topic_id.put_code(at, listed.topic_ids[index])
        self._part_partition.put(at, listed.partitions[index])
        self._parts = at + 1

    def _put_sums(self, at: int, api: _Api, summary: ExchangeSummary) -> None:
        """Put the sums over partitions; none where there are none, or one is not known."""
        known = count = size = 0
        is_counted = True
        parts = summary.parts
        for index in range(parts.count):
            if not parts.knows(index, RECORD_BYTES):
                continue
            known += 1
            size += parts.number(index, RECORD_BYTES)
            if parts.knows(index, RECORD_COUNT):
                count += parts.number(index, RECORD_COUNT)
            else:
                is_counted = False
        # A fetch that was answered brought something, if only nothing.
        if known == 0 and (api.is_produce or summary.throttle_time_ms is None):
            return
        self._record_bytes.put(at, size)
        if is_counted:
            self._record_count.put(at, count)

    # -- waiting ----------------------------------------------------------------------------------

    def _waited_on_purpose(
        self,
        exchange: Exchange,
        peers: _PeersColumns,
        api: _Api,
        summary: ExchangeSummary,
        request: Message,
        response: Message,
        request_ns: int,
    ) -> bool | None:
        """Tell whether an answer was held back; None where that is not known, or never is done."""
        if api.is_fetch:
            if response.read_as == NO_VERSION:
                return None
            return self._waited_for_data(
                summary, peers.serial, request_ns, response.start_ns, exchange.lost_ns
            )
        if (
            summary.has_assignments is None
            and summary.delivery is None
            and not api.waits_for_members
        ):
            return None
        is_read = request.read_as != NO_VERSION and response.read_as != NO_VERSION
        if api.waits_for_members and is_read:
            code = summary.errors[0][3] if summary.errors else 0
            return waited_for_members(code, has_assignments=summary.has_assignments)
        if summary.delivery is None:
            return None
        return self.long_polls.waited_for_updates(
            (peers.serial, api.like),
            request_ns,
            response.start_ns,
            summary.delivery,
            exchange.lost_ns,
        )

    def _waited_for_data(
        self,
        summary: ExchangeSummary,
        serial: int,
        request_ns: int,
        response_ns: int,
        lost_ns: int | None,
    ) -> bool | None:
        wait_ms, min_bytes = longest_wait_ms(summary), summary.min_bytes
        if wait_ms is None or min_bytes is None:
            return None
        record_bytes = 0
        got: list[tuple[Hashable, int]] = []
        learned: list[tuple[Hashable, int]] = []
        parts = summary.parts
        for index in range(parts.count):
            if not parts.knows(index, ERROR_CODE):
                continue
            if parts.knows(index, RECORD_BYTES):
                record_bytes += parts.number(index, RECORD_BYTES)
            # A log ends before a batch or after it, never within.
            column = BASE_OFFSET if parts.knows(index, BASE_OFFSET) else LAST_OFFSET
            has_offset = parts.knows(index, column)
            has_end = parts.knows(index, HIGH_WATERMARK)
            if not (has_offset or has_end):
                continue
            log = (serial, parts.topics[index], parts.topic_ids[index], parts.get(index, PARTITION))
            if has_offset:
                got.append((log, parts.number(index, column)))
            if has_end:
                learned.append((log, parts.number(index, HIGH_WATERMARK)))
        waited = self.long_polls.waited(
            serial,
            request_ns,
            response_ns,
            wait_ms,
            min_bytes,
            record_bytes,
            bool(summary.errors),
            got,
            lost_ns,
        )
        for one, high_watermark in learned:
            self.long_polls.learn(one, high_watermark, response_ns)
        return waited

    # -- APIs -------------------------------------------------------------------------------------

    def _api_of(self, exchange: Exchange) -> _Api:
        wire = exchange.wire
        last = self._last_api
        if last is not None and exchange.key == self._last_key and wire is self._last_wire:
            return last
        apis = self._apis if wire == "kafka" else self._apis_07
        api_key = None if exchange.key == NO_API else exchange.key
        found: _Api | None = apis.get(api_key)
        if found is None:
            found = apis[api_key] = self._new_api(wire, api_key)
        self._last_key, self._last_wire, self._last_api = exchange.key, wire, found
        return found

    def _new_api(self, wire: str, api_key: int | None) -> _Api:
        """Return what is known of an API; there are at most 2^16 keys."""
        like = api_key
        name: str | None = None
        name_of = error_name
        if wire != "kafka":
            from kanalyze.kafka.v07.messages import error_name_07
            from kanalyze.tables.requests.kafka07 import api_name_07, like_07  # as above

            name, like, name_of = api_name_07(api_key), like_07(api_key), error_name_07
        elif api_key is not None:
            api = self._catalog.api(api_key)
            name = f"Unknown{api_key}" if api is None else api.name
        return _Api(self._wire.code(wire), self._api_name.code(name), like, name_of)

    def _tells_throttle(self, api_key: int, version: int) -> bool:
        """Tell whether an API's responses in a version have a throttle time."""
        field = self._catalog.message(api_key, "response").struct.field("ThrottleTimeMs")
        return field is not None and field.is_present(version)

    # -- blocks -----------------------------------------------------------------------------------

    def take(self, *, with_ids: bool = False) -> RowBlock:
        """Return the rows written since the last time, none maybe, and begin with none.

        ``with_ids`` says that topics without a name are to be named by :func:`with_names`, which
        makes rows of it.
        """
        count = self._rows
        self._number_packets(count)
        made: dict[str, ColumnValues] = {}
        for column in COLUMNS:
            if column.name == "partitions":
                made["partitions"] = self._lists(self._of_parts, self._part_ends, self._parts)
            elif column.name == "errors":
                made["errors"] = self._lists(self._of_errors, self._error_ends, self._errors)
            elif column.name == "anomalies":
                ends = self._anomaly_ends
                made["anomalies"] = self._lists(["anomalies"], ends, self._anomalies)
            else:
                made[column.name] = self._columns[column.name].taken(count)
        if not with_ids:
            _drop_ids(made)
        self._last_rows, self._last_parts = count, self._parts
        self._rows = self._room = 0
        self._parts = self._part_room = self._errors = self._error_room = 0
        self._anomalies = self._anomaly_room = 0
        if self._has_many_words():
            self._forget_words()
        return RowBlock(count, made)

    def _lists(self, names: list[str], ends: IntBuffer, items: int) -> Lists:
        fields: dict[str, Ints | Words] = {
            name.partition(".")[2]: self._columns[name].taken(items) for name in names
        }
        return Lists(array("q", [0]) + ends.taken(self._rows).values, fields)

    def _number_packets(self, count: int) -> None:
        """Turn packet numbers over all captures into captures and numbers in them."""
        asked, answered = self._request_packet, self._response_packet
        low, high = _LARGEST_INT64, -1
        for buffer in (asked, answered):
            low, high = min(low, buffer.least(count)), max(high, buffer.largest(count))
        if high < 0:
            self._capture.fill(count, self._capture.code(""))
            return
        capture, number = self._place(low)
        other, last_number = self._place(high)
        # A packet of another capture between the two would have taken a number.
        is_run = capture == other and number is not None and last_number == number + high - low
        if self._are_all_numbered and is_run and number is not None:
            asked.shift(count, number - low)
            answered.shift(count, number - low)
            self._capture.fill(count, self._capture.code(capture))
            return
        for at in range(count):
            capture = ""
            for buffer in (answered, asked):
                packet = buffer.get(at)
                if packet is not None:
                    capture, number = self._place(packet)
                    buffer.change(at, number)
            self._capture.put(at, capture)

    def _make_row_room(self) -> None:
        self._room = self._made_room(self._of_rows, self._room, self._last_rows)
        for ends in (self._part_ends, self._error_ends, self._anomaly_ends):
            ends.make_room(self._room)

    def _made_room(self, names: list[str], before: int, least: int) -> int:
        """Make room in some columns, at least twice as much as before; return how much there is."""
        room = max(_LEAST_ROOM, 2 * before, least)
        for name in names:
            self._columns[name].make_room(room)
        return room

    def _has_many_words(self) -> bool:
        words = characters = 0
        for column in self._columns.values():
            if isinstance(column, WordBuffer):
                words += len(column.words)
                characters += column.characters
        return words > _MOST_WORDS or characters > _MOST_CHARACTERS

    def _forget_words(self) -> None:
        """Begin with no words, and with nothing that holds their numbers."""
        for column in self._columns.values():
            if isinstance(column, WordBuffer):
                column.forget()
        self._apis: dict[int | None, _Api] = {}
        self._apis_07: dict[int | None, _Api] = {}
        self._last_api = None
        self._peers: dict[Peers, _PeersColumns] = {}
        self._topic_id_codes: dict[bytes, int] = {}
        self._names_by_id: dict[bytes, str] = {}
        self._session_columns: dict[tuple[int, int], _SessionColumns] = {}
        self._codec_codes = memoryview(array("i", [-1] * len(SEEN_CODECS)))


def with_names(block: RowBlock, names: TopicNames) -> RowBlock:
    """Name the topics of a block taken with ids that are known by now; return rows."""
    for column in ("partitions", "errors"):
        lists = block.columns[column]
        assert isinstance(lists, Lists)
        lists.fields["topic"] = _named(lists.fields["topic"], lists.fields["topic_id"], names)
    _drop_ids(block.columns)
    return block


def _drop_ids(columns: dict[str, ColumnValues]) -> None:
    errors = columns["errors"]
    assert isinstance(errors, Lists)
    del errors.fields[_ERROR_IDS.partition(".")[2]]


def _named(topics: Ints | Words, ids: Ints | Words, names: TopicNames) -> Words:
    """Return the topics, those without a name by their ids."""
    assert isinstance(topics, Words)
    assert isinstance(ids, Words)
    if -1 not in topics.codes:
        return topics
    codes, words = array("i", topics.codes), list(topics.words)
    known = {word: code for code, word in enumerate(words)}
    found: dict[int, int] = {-1: -1}
    for at, code in enumerate(codes):
        if code < 0:
            topic_id = ids.codes[at]
            if topic_id not in found:
                name = names.name(None, topic_id_of(ids.words[topic_id]))
                found[topic_id] = -1 if name is None else known.setdefault(name, len(known))
            codes[at] = found[topic_id]
    return Words(codes, list(known))


def _nearest(late_ns: int, early_ns: int) -> int:
    """Return a difference of two times, which may be more than 64 bits hold, as near as they go."""
    if -_FAR < late_ns < _FAR and -_FAR < early_ns < _FAR:
        return late_ns - early_ns
    difference = int(late_ns) - int(early_ns)
    return max(_LEAST_INT64, min(_LARGEST_INT64, difference))


def _status(exchange: Exchange, failed: bool) -> str:
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
