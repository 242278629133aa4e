"""Assembles the rows of requests from exchanges, by column.

In: :class:`~kanalyze.kafka.session.exchange.Exchange`, in the order in which they were completed.
Out: :class:`~kanalyze.tables.columns.block.RowBlock`.

An exchange is written directly into columns. Neither a row nor a partition becomes a Python object.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from kanalyze.common.plain_values import fields
from kanalyze.common.saved import load, save
from kanalyze.kafka.other_wires import other_wire
from kanalyze.spec.rows.requests import COLUMNS, SESSION_COLUMNS
from kanalyze.tables.columns.block import BUFFERED_BYTES, Lists, RowBlock, Words, drained
from kanalyze.tables.columns.buffers import (
    IntBuffer,
    WordBuffer,
    buffers_of,
    ints_of,
    words_of,
)
from kanalyze.tables.requests.long_polls import (
    FetchSessions,
    LongPollDetector,
    longest_wait_ms,
    waited_for_members,
)
from kanalyze.tables.requests.row_columns import (
    ERROR_IDS,
    ApiDirectory,
    ErrorWriter,
    FieldWriter,
    ListWriter,
    PacketNumbers,
    PartitionWriter,
    PartsWriter,
    PeersWriter,
    RowApi,
    RowPeers,
    SessionListWriter,
    TopicLookup,
)
from kanalyze.tables.requests.summaries import summary_without_ids
from kanalyze.tables.requests.topic_names import TopicNames, topic_id_of

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import cython  # addresses of structs are the structs
    from kanalyze.common.compiled import nothing_kept as prefetch_object
    from kanalyze.kafka.framing.frame import AHEAD, NO_PACKET
    from kanalyze.kafka.session.exchange import NO_API, NO_ID, NO_VERSION
    from kanalyze.model.packets import NO_TIME
    from kanalyze.tables.requests.long_polls import NOT_KNOWN
    from kanalyze.tables.requests.summaries import RECORD_BYTES, RECORD_COUNT

if TYPE_CHECKING:
    from collections.abc import Collection

    from kanalyze.capture.merge import PacketLocations
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.tables.columns.block import ColumnValues, Ints
    from kanalyze.tables.requests.extract import Extractors
    from kanalyze.tables.requests.summaries import ExchangeSummary

_ROW_BYTES = 420
_ITEM_BYTES = 106
"""Bytes of a row as columns, and of each item of its lists, without its texts."""
_MAX_BYTES = BUFFERED_BYTES // 4
"""Estimated bytes of rows at which they should be drained; readers need several times as much."""
_MIN_ROOM = 64
_MAX_WORDS = 50_000
_MAX_CHARACTERS = 4 << 20
"""Limit of the words of all columns together; beyond it, blocks begin with empty lists of words."""

_NS_PER_MS = 1_000_000
_MIN_INT64, _LARGEST_INT64 = -(2**63), 2**63 - 1
_FAR = 1 << 62
"""Differences of numbers nearer to 0 than this fit in 64 bits."""


class RowAssembler:
    """Turns exchanges into rows, in the order in which they come.

    It keeps the facts of earlier exchanges that later rows need: topic names, log ends and fetch
    sessions. All of these are bounded.
    """

    def __init__(
        self,
        catalog: Catalog,
        extractors: Extractors,
        locations: PacketLocations,
        names: TopicNames | None = None,
        first_list: int | None = None,
    ) -> None:
        """Begin without rows.

        Args:
            catalog: names of APIs.
            extractors: summarize decoded bodies.
            locations: where the packets of the whole input are.
            names: the known names of topic ids; None if none are known.
            first_list: if given, rows have :data:`~kanalyze.spec.rows.requests.SESSION_COLUMNS`
                too, with lists that are numbered from there on.
        """
        self._most_bytes = _MAX_BYTES
        self._extractors = extractors
        self.names = TopicNames() if names is None else names
        """Names of topics by topic id."""
        topics = self._topics = extractors.topics
        self._generation = topics.generation
        self.long_polls = LongPollDetector(topics)
        self._sessions = FetchSessions(topics)
        self._rows = self._room = self._last_rows = 0
        columns = COLUMNS if first_list is None else (*COLUMNS, *SESSION_COLUMNS)
        self._names_of_columns = [column.name for column in columns]
        buffers = self._columns = buffers_of(columns)
        buffers[ERROR_IDS] = WordBuffer()
        lists = {column.name for column in columns if column.type.startswith("list<")}
        self._of_rows = [name for name in buffers if name.partition(".")[0] not in lists]
        self._lookup = TopicLookup(self.names, topics)
        self._peers = PeersWriter(buffers)
        self._apis = ApiDirectory(catalog, buffers)
        self._fields = FieldWriter(buffers)
        writes = buffers, topics, self._lookup, self.names
        self._partitions = PartitionWriter(*writes)
        self._session_lists = None if first_list is None else SessionListWriter(*writes, first_list)
        self._partition_writers = [
            writer for writer in (self._partitions, self._session_lists) if writer is not None
        ]
        self._errors = ErrorWriter(buffers, self.names)
        self._anomalies = ListWriter(buffers, "anomalies")
        self._latency_parts = PartsWriter(buffers)
        self._packets = PacketNumbers(buffers, locations)
        self._name_columns()

    def state(self, connections: Collection[int]) -> State:
        """Return what :meth:`known_from_state` takes: long polls and fetch sessions of connections.

        Topic names are not included; they belong to the creator of the assembler.
        """
        return save(self.long_polls.of_connections(connections)), self._sessions.state(connections)

    def known_from_state(self, state: object) -> tuple[LongPollDetector, FetchSessions]:
        """Return long polls and fetch sessions of a state; raises ValueError for other values."""
        long_polls, sessions = fields(state, "tt")
        detector = LongPollDetector(self._topics)
        load(detector, long_polls)
        return detector, FetchSessions.from_state(sessions, self._topics)

    def load_state(self, detectors: tuple[LongPollDetector, FetchSessions]) -> None:
        """Continue with long polls and fetch sessions from a state, before the first row."""
        self.long_polls, self._sessions = detectors

    def _name_columns(self) -> None:
        """Make an attribute for each column, which is faster than access by name."""
        columns = self._columns
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
        self._record_count: IntBuffer = ints_of(columns, "record_count")
        self._record_bytes: IntBuffer = ints_of(columns, "record_bytes")
        self._waited: IntBuffer = ints_of(columns, "waited")
        self._anomaly: WordBuffer = words_of(columns, "anomalies")

    def __len__(self) -> int:
        """Return the number of rows that :meth:`drain` would return."""
        return self._rows

    def _buffered_bytes(self) -> int:
        items = self._partitions.count + self._errors.count + self._anomalies.count
        return self._rows * _ROW_BYTES + items * _ITEM_BYTES

    # -- one row ----------------------------------------------------------------------------------

    def add(self, exchange: Exchange) -> None:
        """Write the row of an exchange."""
        if self._rows == self._room:
            # This block will most likely have as many rows as the one before.
            self._make_row_room(max(_MIN_ROOM, 2 * self._room, self._last_rows))
        at = self._rows
        request, response = exchange.request, exchange.response
        api = self._apis.of(exchange)
        summary: ExchangeSummary = self.summary(exchange)
        if summary.pairs:
            for topic_id, name in summary.names:
                self.names.learn(topic_id, name)
            self._lookup.refresh()
        peers: RowPeers = self._peers.put(at, exchange.peers)
        serial = peers.serial
        self._put_head(at, api, exchange)
        self._put_messages(at, request, response)
        if request is not None:
            self._latency_parts.put(at, peers, exchange, request, response)
        self._put_errors(at, api, summary, response)
        self._status.put(at, _status(exchange, request, response, bool(summary.errors)))
        if summary.partitions.count:
            self._partitions.put_all(summary.partitions)
        if summary.session is not None:
            session = self._sessions.follow(serial, summary.session)
            lists = self._session_lists
            # What an anomaly is about may be any of the partitions of the row.
            if len(session.keys) and (
                lists is None
                or exchange._anomalies
                or not lists.put(at, session, summary.partitions)
            ):
                self._partitions.put_session(session, summary.partitions)
        self._partitions.end_row(at)
        if self._session_lists is not None:
            self._session_lists.end_row(at)
        if api.has_records:
            self._put_sums(at, api, summary, response)
        self._fields.put(at, summary)
        self._put_waited(at, exchange, serial, api, summary, request, response)
        if exchange._anomalies:
            for kind in exchange._anomalies:
                self._anomaly.put(self._anomalies.next_item(), kind.value)
        self._anomalies.end_row(at)
        self._rows = at + 1

    def _put_head(self, at: int, api: RowApi, exchange: Exchange) -> None:
        """Write the columns from the request's header."""
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
        """Write rows from exchange number ``first`` on; return the number of the next exchange."""
        if self._generation != self._topics.generation:
            self._forget_topics()
        self._lookup.refresh()
        if self._room == 0:
            self._make_row_room(min(len(exchanges) - first, self._most_bytes // _ROW_BYTES + 1))
        index = first
        while index < len(exchanges):
            _prefetch(exchanges, index)
            self.add(exchanges[index])
            index += 1
            if self._buffered_bytes() >= self._most_bytes:
                break
        return index

    def summary(self, exchange: Exchange) -> ExchangeSummary:
        """Return the summary of the bodies of an exchange; it is valid until the next call."""
        if exchange.wire != "kafka":
            partitions = other_wire(exchange.wire).partitions(exchange)
            return summary_without_ids(self._topics, partitions)
        return self._extractors.of_exchange(exchange)

    def _put_messages(self, at: int, request: Any, response: Any) -> None:
        """Write times, sizes and packets; packet numbers are still those over all captures."""
        if request is not None:
            if request.start_ns != NO_TIME:
                self._request_start_ns.put(at, request.start_ns)
            if request.last_packet != NO_PACKET and request.last_ns != NO_TIME:
                self._request_end_ns.put(at, request.last_ns)
            self._request_bytes.put(at, request.length)
            self._request_packet.put(at, request.start_packet)
        if response is None:
            return
        if response.start_ns != NO_TIME:
            self._response_start_ns.put(at, response.start_ns)
        if response.last_packet != NO_PACKET and response.last_ns != NO_TIME:
            self._response_end_ns.put(at, response.last_ns)
        self._response_bytes.put(at, response.length)
        self._response_packet.put(at, response.start_packet)
        if request is None:
            return
        sent_ns, answered_ns = request.last_ns, response.start_ns
        if request.last_packet != NO_PACKET and sent_ns != NO_TIME and answered_ns != NO_TIME:
            self._latency_ns.put(at, _nearest(answered_ns, sent_ns))
        began_ns, ended_ns = request.start_ns, response.last_ns
        if response.last_packet != NO_PACKET and began_ns != NO_TIME and ended_ns != NO_TIME:
            self._total_time_ns.put(at, _nearest(ended_ns, began_ns))

    def _put_errors(self, at: int, api: RowApi, summary: ExchangeSummary, response: Any) -> None:
        """Write every error code, and the first of them."""
        if summary.errors:
            for topic, topic_id, partition, code in summary.errors:
                self._errors.put(topic, topic_id, partition, code, api.error_name(code))
        self._errors.end_row(at)
        # Errors are unknown without a decoded response. A 0 would claim that there were none.
        if response is None or response.read_as == NO_VERSION:
            return
        if summary.errors:
            first = summary.errors[0][3]
            self._error_code.put_any(at, first)
            self._error_name.put_code(at, self._apis.error_name_code(api, first))
        else:
            self._error_code.put(at, 0)
            self._error_name.put_code(at, self._apis.no_error_code(api))

    def _put_sums(self, at: int, api: RowApi, summary: ExchangeSummary, response: Any) -> None:
        """Write the sums over partitions; null if there are no partitions, or one is unknown."""
        with_bytes = count = size = 0
        is_counted = True
        partitions = summary.partitions
        for index in range(partitions.count):
            if not partitions.has(index, RECORD_BYTES):
                continue
            with_bytes += 1
            size += partitions.number(index, RECORD_BYTES)
            if partitions.has(index, RECORD_COUNT):
                count += partitions.number(index, RECORD_COUNT)
            else:
                is_counted = False
        # An answered fetch has a known number of records, even if that is 0.
        is_read = response is not None and response.cells >= 0
        if with_bytes == 0 and (api.is_produce or not is_read):
            return
        self._record_bytes.put(at, size)
        if is_counted:
            self._record_count.put(at, count)

    def _put_waited(
        self,
        at: int,
        exchange: Exchange,
        serial: int,
        api: RowApi,
        summary: ExchangeSummary,
        request: Any,
        response: Any,
    ) -> None:
        """Write whether the broker delayed the response on purpose, and for how long.

        A request that took longer than it asked for did not wait as a whole.
        """
        if api.never_waits:
            self._waited.put(at, 0)
            self._latency_parts.put_no_wait(at)
            return
        if request is None or response is None:
            return
        if request.last_packet == NO_PACKET:
            return
        long_polls = self.long_polls
        was_held = _was_held_back(long_polls, exchange, serial, api, summary, request, response)
        if was_held == NOT_KNOWN:
            return
        is_within = True
        if was_held == 1:
            if api.waits_for_members:
                limit_ms = long_polls.member_limit_ms(serial, summary)
            else:
                limit_ms = longest_wait_ms(summary)
            limit_ns = -1 if limit_ms is None else limit_ms * _NS_PER_MS
            is_within = self._latency_parts.put_wait(at, exchange, request, response, limit_ns)
        else:
            self._latency_parts.put_no_wait(at)
        self._waited.put(at, was_held == 1 and is_within)

    # -- blocks -----------------------------------------------------------------------------------

    def drain(self, *, with_ids: bool = False) -> RowBlock:
        """Return the rows written since the last call, possibly none.

        With ``with_ids``, the block keeps the topic ids that :func:`with_names` needs.
        """
        count = self._rows
        self._packets.number(count)
        lists = {
            "partitions": self._partitions.drain(count),
            "errors": self._errors.drain(count),
            "anomalies": self._anomalies.drain(count),
        }
        if self._session_lists is not None:
            lists["session_partitions"] = self._session_lists.drain(count)
        columns: dict[str, ColumnValues] = {
            name: lists.get(name) or drained(self._columns[name], count)
            for name in self._names_of_columns
        }
        if not with_ids:
            _drop_ids(columns)
        self._last_rows = count
        self._rows = self._room = 0
        if self._has_many_words():
            self._forget_words()
        if self._topics.is_full:
            self._topics.clear()
        return RowBlock(count, columns)

    def _make_row_room(self, rows: int) -> None:
        self._room = rows
        for name in self._of_rows:
            self._columns[name].make_room(self._room)
        self._partitions.make_row_room(self._room)
        self._errors.make_row_room(self._room)
        self._anomalies.make_row_room(self._room)
        if self._session_lists is not None:
            self._session_lists.make_row_room(self._room)

    def _has_many_words(self) -> bool:
        words = characters = 0
        for column in self._columns.values():
            if isinstance(column, WordBuffer):
                words += len(column.words)
                characters += column.characters
        return words > _MAX_WORDS or characters > _MAX_CHARACTERS

    def _forget_words(self) -> None:
        """Discard all words, and every cache of their numbers."""
        for column in self._columns.values():
            if isinstance(column, WordBuffer):
                column.forget()
        self._apis.forget()
        self._peers.forget()
        for writer in self._partition_writers:
            writer.forget()

    def _forget_topics(self) -> None:
        """Discard all that has the numbers of topics, which mean others now."""
        self._generation = self._topics.generation
        for writer in self._partition_writers:
            writer.forget()
        self._lookup.forget()
        self.long_polls.forget_topics()
        self._sessions.forget_topics()


def _prefetch(exchanges: list[Exchange], index: int) -> None:
    """Bring exchanges that are read soon into the cache, nearer ones with their messages.

    Those of a batch of packets take as much memory as fits in the cache of a processor.
    """
    if index + AHEAD < len(exchanges):
        prefetch_object(exchanges[index + AHEAD])
        soon = exchanges[index + AHEAD // 2]
        prefetch_object(soon.request)
        prefetch_object(soon.response)


def with_names(block: RowBlock, names: TopicNames) -> RowBlock:
    """Name the topics in a block that was drained with ids; return the same block."""
    for column in ("partitions", "errors"):
        lists = block.columns[column]
        assert isinstance(lists, Lists)
        lists.fields["topic"] = _named(lists.fields["topic"], lists.fields["topic_id"], names)
    _drop_ids(block.columns)
    return block


def _drop_ids(columns: dict[str, ColumnValues]) -> None:
    errors = columns["errors"]
    assert isinstance(errors, Lists)
    del errors.fields[ERROR_IDS.partition(".")[2]]


def _named(topics: Ints | Words, ids: Ints | Words, names: TopicNames) -> Words:
    """Return the topics; those without a name get the name known for their id."""
    assert isinstance(topics, Words)
    assert isinstance(ids, Words)
    if -1 not in topics.codes:
        return topics
    codes, words = array("i", topics.codes), list(topics.words)
    new_codes = {word: code for code, word in enumerate(words)}
    by_id: dict[int, int] = {-1: -1}
    for at, code in enumerate(codes):
        if code < 0:
            topic_id = ids.codes[at]
            if topic_id not in by_id:
                name = names.name(None, topic_id_of(ids.words[topic_id]))
                by_id[topic_id] = -1 if name is None else new_codes.setdefault(name, len(new_codes))
            codes[at] = by_id[topic_id]
    return Words(codes, list(new_codes))


def _was_held_back(
    long_polls: LongPollDetector,
    exchange: Exchange,
    serial: int,
    api: RowApi,
    summary: ExchangeSummary,
    request: Any,
    response: Any,
) -> int:
    """Return 1 if the broker delayed the response on purpose, else 0; ``NOT_KNOWN`` if unknown."""
    request_ns, response_ns = request.last_ns, response.start_ns
    if request_ns == NO_TIME or response_ns == NO_TIME:
        return NOT_KNOWN
    if api.is_fetch:
        if response.read_as == NO_VERSION:
            return NOT_KNOWN
        has_lost = exchange.lost_ns is not None
        lost_ns = exchange.lost_ns if exchange.lost_ns is not None else 0
        return long_polls.fetch_waited(summary, serial, request_ns, response_ns, has_lost, lost_ns)
    is_read = request.read_as != NO_VERSION and response.read_as != NO_VERSION
    if api.waits_for_members and is_read:
        code = summary.errors[0][3] if summary.errors else 0
        return int(waited_for_members(code, has_assignments=summary.has_assignments))
    if summary.delivery is None:
        return NOT_KNOWN
    waited = long_polls.waited_for_updates(
        (serial, api.like), request_ns, response_ns, summary.delivery, exchange.lost_ns
    )
    return NOT_KNOWN if waited is None else int(waited)


def _nearest(late_ns: int, early_ns: int) -> int:
    """Return the difference of two times in ns, limited to 64 bits."""
    if -_FAR < late_ns < _FAR and -_FAR < early_ns < _FAR:
        return late_ns - early_ns
    difference = int(late_ns) - int(early_ns)
    return max(_MIN_INT64, min(_LARGEST_INT64, difference))


def _status(exchange: Exchange, request: Any, response: Any, failed: bool) -> str:
    if request is None:
        return "orphan_response"
    if failed:
        # The error code of the response counts, even if the request is incomplete.
        return "error"
    if exchange.malformed:
        return "malformed"
    if response is None:
        return "one_way" if exchange.one_way else "unanswered"
    # Whatever the reason is that a body was not read: without its codes nothing is known to be ok.
    return "malformed" if response.read_as == NO_VERSION else "ok"
