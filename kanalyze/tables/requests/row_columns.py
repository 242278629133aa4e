"""Writes groups of columns of the table of requests: peers, APIs, errors, partitions, times.

In: values, and the buffers of their columns. Out: the buffers, filled.

Texts that repeat with the same peers, API, topic id or fetch session are looked up only once.
Packets are numbered over all captures at first; :class:`PacketNumbers` replaces these numbers by a
capture and the numbers in it. :class:`PartsWriter` divides the time of a request.

The parts of a latency
----------------------

A capture sees packets at one point. At this point, the time from the request's first packet to the
response's last packet (``total_time_ns``) consists of:

- ``request_send_ns``: from the request's first packet to its last;
- ``latency_ns``: to the response's first packet, which consists of
  ``broker_network_ns``: the round trip to the broker;
  ``retransmission_wait_ns``: until bytes of the request were retransmitted for the last time;
  ``pipeline_wait_ns``: until the previous response of the connection was sent, because a broker
  handles one request of a connection at a time and does not read the next one before; 0 if
  responses come in another order than requests;
  ``waited_ns``: as long as the broker held the response back on purpose;
  ``broker_time_ns``: the rest, in the broker;
- ``response_send_ns``: from the response's first packet to its last.

They add up to ``total_time_ns``. One part is not included, because the capture point does not see
it: ``client_network_ns``, the round trip to the client, which is close to 0 if the capture was
taken at the client. So the client waited ``total_time_ns + client_network_ns``.

The ways to the broker and back are one figure: no packet shows how a round trip is divided.

How they are measured
---------------------

A round trip is the time from a packet to its acknowledgment. Receivers may delay acknowledgments,
so the minimum over the connection so far is used, handshake included
(:mod:`kanalyze.net.tcp.half_stream` excludes samples that are not valid). The network takes at
least this time. Additional time in network queues counts as the broker's, unless packets
were retransmitted. The columns are null if no round trip was measured: for example if only one
direction was captured, or if the capture began late and all acknowledgments came with responses.

A packet that was retransmitted and captured twice shows that its first copy was lost after the
capture point. There is an exception: if it was the last packet, and came again sooner than
receivers acknowledge, then it is most likely a probe (``NetworkPath.last_resent_ns``). A response
that came sooner after a copy than the round trip is not a response to that copy. A loss before the
capture point leaves only a hole in the stream. In a decrypted stream it is unknown which request
such bytes belong to: the parts that depend on it are null.

If the network card splits or merges segments, a captured segment may have up to 64 kB; its time is
then that of the whole. If packets arrived in another order than their bytes, so that the last byte
of a message seems to come before the first, the parts are null.

Waiting on purpose
------------------

A request has a longest wait: ``max_wait_ms`` of a Fetch, the rebalance timeout of a JoinGroup. Up
to this time the broker held the response back on purpose. If data ended the wait earlier, all of
the rest counts as waiting, because no packet shows when the data came. If the rest is longer than
the longest wait by more than ``MAX_LATE_NS``, the broker was slow too: the request did not wait as
a whole, and its broker time is what exceeds the longest wait.

Where the capture was taken
---------------------------

An end answers from its own kernel in far less than 1 ms. So the capture was taken at an end if the
round trip to it is below 1 ms and below a quarter of the round trip to the other end. If both are
1 ms or more, it was taken between the ends. Otherwise the point is unknown.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.values import SEEN_CODECS
from kanalyze.kafka.other_wires import other_wire
from kanalyze.kafka.schema.error_codes import error_name
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import Lists, drained
from kanalyze.tables.columns.buffers import IntBuffer, WordBuffer, ints_of, words_of
from kanalyze.tables.requests.extract import FETCH, PRODUCE, SHARE_FETCH
from kanalyze.tables.requests.long_polls import MAX_LISTED, MAY_WAIT_APIS, MEMBER_APIS
from kanalyze.tables.requests.summaries import FIELD_NUMBERS

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import cython  # addresses of structs are the structs
    from kanalyze.kafka.codec.machine import doubled
    from kanalyze.kafka.framing.frame import NO_PACKET
    from kanalyze.kafka.session.exchange import NO_API
    from kanalyze.model.packets import NO_TIME
    from kanalyze.tables.requests.summaries import (
        BASE_OFFSET,
        BASE_SEQUENCE,
        CELLS,
        CODEC,
        ERROR_CODE,
        FIRST_TEXT,
        HIGH_WATERMARK,
        PARTITION,
        PREFERRED_READ_REPLICA,
        PRODUCER_EPOCH,
        PRODUCER_ID,
        RECORD_BYTES,
        RECORD_COUNT,
        TOPIC,
        TOPIC_ID,
    )
    from kanalyze.tables.requests.topics import KEY_CELLS, NO_TOPIC

NEAR_NS = 1_000_000
MIN_RATIO = 4
MAX_LATE_NS = 100_000_000  # a busy broker ends a wait some 10 to 50 ms late

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kanalyze.capture.merge import PacketLocations
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.exchange import Exchange, Peers
    from kanalyze.model.tcp import NetworkPath
    from kanalyze.tables.requests.long_polls import FetchSession
    from kanalyze.tables.requests.summaries import ExchangeSummary, PartitionColumns
    from kanalyze.tables.requests.topic_names import TopicNames
    from kanalyze.tables.requests.topics import KeyTable, TopicTable

ERROR_IDS = "errors.topic_id"
"""Not a column of rows: the ids of topics whose name was unknown when their error was written."""

_MIN_ROOM = 64
_MAX_PEERS = 256
"""Size of the cache of peers: the number of connections whose exchanges are usually interleaved."""
_HAVE_RECORDS = frozenset({PRODUCE, FETCH, SHARE_FETCH})


# -- peers ----------------------------------------------------------------------------------------


class RowPeers:
    """The cells that all rows with the same peers share: numbers, and texts as numbers.

    Attributes:
        path: measurements of the network between the peers, from TCP.
        client_index: index of the client in the connection.
        is_one_host: whether both have the same address.
        capture_point: number of the text for the round trips ``client_ns`` and ``broker_ns``.
        is_proxied: whether there is a proxy; without one, its cells are null.
    """

    def __init__(self, peers: Peers) -> None:
        tcp, client, broker = peers.tcp, peers.client, peers.broker
        self.serial, self.path = tcp.serial, tcp.path
        self.client_index = int(tcp.endpoints[0] != client)
        self.is_one_host = client.ip == broker.ip
        self.client_ns = self.broker_ns = -2
        self.capture_point = -1
        self.connection_number = tcp.connection_number
        self.client_port, self.broker_port = client.port, broker.port
        self.connection = self.client_ip = self.broker_ip = -1
        self.software_name = self.software_version = self.principal = -1
        self.proxy = self.proxied_client_ip = self.proxied_target = -1
        proxy = tcp.proxy
        self.is_proxied = proxy is not None
        self.proxied_client_port = -1
        if proxy is not None and proxy.client_port is not None:
            self.proxied_client_port = proxy.client_port


class PeersWriter:
    """Writes the columns of the two ends of a connection."""

    def __init__(self, buffers: Mapping[str, IntBuffer | WordBuffer]) -> None:
        self._known: dict[Peers, RowPeers] = {}
        self._connection: WordBuffer = words_of(buffers, "connection")
        self._connection_number: IntBuffer = ints_of(buffers, "connection_number")
        self._client_ip: WordBuffer = words_of(buffers, "client_ip")
        self._broker_ip: WordBuffer = words_of(buffers, "broker_ip")
        self._client_port: IntBuffer = ints_of(buffers, "client_port")
        self._broker_port: IntBuffer = ints_of(buffers, "broker_port")
        self._software_name: WordBuffer = words_of(buffers, "client_software_name")
        self._software_version: WordBuffer = words_of(buffers, "client_software_version")
        self._principal: WordBuffer = words_of(buffers, "principal")
        self._proxy: WordBuffer = words_of(buffers, "proxy")
        self._proxied_client_ip: WordBuffer = words_of(buffers, "proxied_client_ip")
        self._proxied_client_port: IntBuffer = ints_of(buffers, "proxied_client_port")
        self._proxied_target: WordBuffer = words_of(buffers, "proxied_target")

    def put(self, at: int, peers: Peers) -> RowPeers:
        """Write the columns of the two ends of a row; return their shared cells."""
        cells: RowPeers | None = self._known.get(peers)
        if cells is None:
            cells = self._look_up(peers)
        self._connection.put_code(at, cells.connection)
        self._connection_number.put(at, cells.connection_number)
        self._client_ip.put_code(at, cells.client_ip)
        self._broker_ip.put_code(at, cells.broker_ip)
        self._client_port.put(at, cells.client_port)
        self._broker_port.put(at, cells.broker_port)
        self._software_name.put_code(at, cells.software_name)
        self._software_version.put_code(at, cells.software_version)
        self._principal.put_code(at, cells.principal)
        if cells.is_proxied:
            self._proxy.put_code(at, cells.proxy)
            self._proxied_client_ip.put_code(at, cells.proxied_client_ip)
            if cells.proxied_client_port >= 0:
                self._proxied_client_port.put(at, cells.proxied_client_port)
            self._proxied_target.put_code(at, cells.proxied_target)
        return cells

    def _look_up(self, peers: Peers) -> RowPeers:
        if len(self._known) >= _MAX_PEERS:
            self._known.clear()
        client, broker, proxy = peers.client, peers.broker, peers.tcp.proxy
        cells = self._known[peers] = RowPeers(peers)
        cells.connection = self._connection.code(f"{client!s}>{broker!s}")
        cells.client_ip = self._client_ip.code(client.ip)
        cells.broker_ip = self._broker_ip.code(broker.ip)
        cells.software_name = self._software_name.code(peers.software_name)
        cells.software_version = self._software_version.code(peers.software_version)
        cells.principal = self._principal.code(peers.principal)
        if proxy is not None:
            cells.proxy = self._proxy.code(proxy.kind)
            cells.proxied_client_ip = self._proxied_client_ip.code(proxy.client_ip)
            cells.proxied_target = self._proxied_target.code(proxy.target)
        return cells

    def forget(self) -> None:
        """Discard cached numbers of texts, because the buffers number their texts again."""
        self._known = {}


# -- APIs -----------------------------------------------------------------------------------------


class RowApi:
    """What rows need to know about an API.

    Attributes:
        wire: number of the text of ``wire``; ``name``: number of the API's name.
        like: the API's key; for Kafka 0.7, the key of the corresponding later API.
        error_name: returns the names of its error codes.
        error_codes: for each code seen, the number of its name's text; ``no_error``: that of code
            0, -1 before it was seen.
        never_waits: whether no broker holds back its responses on purpose; false if the API is not
            known.
    """

    def __init__(
        self,
        wire: int,
        name: int,
        like: int | None,
        error_name: Callable[[int], str],
        *,
        never_waits: bool,
    ) -> None:
        self.wire = wire
        self.name = name
        self.like = like
        self.has_records = like in _HAVE_RECORDS
        self.is_produce, self.is_fetch = like == PRODUCE, like == FETCH
        self.waits_for_members = like in MEMBER_APIS
        self.never_waits = never_waits
        self.error_name = error_name
        self.error_codes: dict[int, int] = {}
        self.no_error = -1


class ApiDirectory:
    """The APIs of the rows so far; at most 2^16 keys of each wire."""

    def __init__(self, catalog: Catalog, buffers: Mapping[str, IntBuffer | WordBuffer]) -> None:
        self._catalog = catalog
        self._wire: WordBuffer = words_of(buffers, "wire")
        self._api_name: WordBuffer = words_of(buffers, "api_name")
        self._error_name: WordBuffer = words_of(buffers, "error_name")
        self.forget()

    def forget(self) -> None:
        """Discard cached numbers of texts, because the buffers number their texts again."""
        self._apis: dict[int | None, RowApi] = {}
        self._other_apis: dict[int | None, RowApi] = {}
        self._last: RowApi | None = None
        self._last_key, self._last_wire = NO_API, ""

    def of(self, exchange: Exchange) -> RowApi:
        """Return the API of an exchange; it is often that of the exchange before."""
        wire = exchange.wire
        last = self._last
        if last is not None and exchange.key == self._last_key and wire is self._last_wire:
            return last
        apis = self._apis if wire == "kafka" else self._other_apis
        api_key = None if exchange.key == NO_API else exchange.key
        api: RowApi | None = apis.get(api_key)
        if api is None:
            api = apis[api_key] = self._new(wire, api_key)
        self._last_key, self._last_wire, self._last = exchange.key, wire, api
        return api

    def _new(self, wire: str, api_key: int | None) -> RowApi:
        like = api_key
        name: str | None = None
        name_of: Callable[[int], str] = error_name
        # Brokers of other wires hold nothing back.
        never_waits = api_key is not None
        if wire != "kafka":
            name, like, name_of = other_wire(wire).api(api_key)[:3]
        elif api_key is not None:
            api = self._catalog.api(api_key)
            name = f"Unknown{api_key}" if api is None else api.name
            never_waits = api is not None and api_key not in MAY_WAIT_APIS
        codes = self._wire.code(wire), self._api_name.code(name)
        return RowApi(*codes, like, name_of, never_waits=never_waits)

    def error_name_code(self, api: RowApi, code: int) -> int:
        """Return the number of the text of an error code's name; there are at most 2^16 codes."""
        word_code = api.error_codes.get(code)
        if word_code is None:
            word_code = api.error_codes[code] = self._error_name.code(api.error_name(code))
        return word_code

    def no_error_code(self, api: RowApi) -> int:
        """Return the number of the text of the name of code 0."""
        if api.no_error < 0:
            api.no_error = self.error_name_code(api, 0)
        return api.no_error


# -- fields of messages ---------------------------------------------------------------------------


class FieldWriter:
    """Writes the columns that are declared as fields of messages."""

    def __init__(self, buffers: Mapping[str, IntBuffer | WordBuffer]) -> None:
        names = [column.name for column in COLUMNS if column.field is not None]
        fields = {FIELD_NUMBERS[name]: buffers[name] for name in names}
        numbers = {at: ints for at, ints in fields.items() if isinstance(ints, IntBuffer)}
        texts = {at: words for at, words in fields.items() if isinstance(words, WordBuffer)}
        self._number_fields = memoryview(array("q", numbers))
        self._text_fields = memoryview(array("q", texts))
        self._number_buffers, self._text_buffers = [*numbers.values()], [*texts.values()]

    def put(self, at: int, summary: ExchangeSummary) -> None:
        """Write the fields of an exchange that have a value."""
        known = summary.known
        for index in range(len(self._number_fields)):
            field = self._number_fields[index] - FIRST_TEXT
            if known >> field & 1:
                ints: IntBuffer = self._number_buffers[index]
                ints.put(at, summary.numbers[field])
        for index in range(len(self._text_fields)):
            field = self._text_fields[index] - FIRST_TEXT
            if known >> field & 1:
                words: WordBuffer = self._text_buffers[index]
                words.put(at, summary.texts[field])


# -- lists ----------------------------------------------------------------------------------------


class ListWriter:
    """Writes a column of lists: all items, and the index at which each row's items end.

    Attributes:
        count: number of items written.
    """

    def __init__(self, buffers: Mapping[str, IntBuffer | WordBuffer], column: str) -> None:
        names = [name for name in buffers if name.partition(".")[0] == column]
        self._fields = {name.partition(".")[2]: buffers[name] for name in names}
        self._ends = IntBuffer()
        self.count = 0
        self._room = self._last_count = 0

    def next_item(self) -> int:
        """Return the index of a new item, and make room for it in the buffers."""
        at = self.count
        if at == self._room:
            # This block will most likely have as many items as the one before.
            self._room = max(_MIN_ROOM, 2 * at, self._last_count)
            for buffer in self._fields.values():
                buffer.make_room(self._room)
        self.count = at + 1
        return at

    def make_row_room(self, rows: int) -> None:
        """Make room for ``rows`` rows."""
        self._ends.make_room(rows)

    def end_row(self, at: int) -> None:
        """End the items of a row."""
        self._ends.put(at, self.count)

    def drain(self, rows: int) -> Lists:
        """Return the lists of the first ``rows`` rows, and begin an empty column."""
        fields = {name: drained(buffer, self.count) for name, buffer in self._fields.items()}
        self._last_count = self.count
        self.count = self._room = 0
        return Lists(array("q", [0]) + self._ends.drain(rows)[0], fields)


class TopicLookup:
    """The names of topics by their numbers; for those with an id alone, the name known for it."""

    def __init__(self, names: TopicNames, topics: TopicTable) -> None:
        self._names = names
        self._topics = topics
        self.changes = 0
        """How many times a topic had got a name when the cache was cleared."""
        # By number of an id: one more than the number of its name; 0 while that is not known.
        self._by_id = memoryview(array("q", bytes(8 * 64)))

    def refresh(self) -> None:
        """Clear the cache if a topic got a name, or another one."""
        if self.changes != self._names.changes:
            self.changes = self._names.changes
            self.forget()

    def forget(self) -> None:
        """Clear the cache."""
        self._by_id = memoryview(array("q", bytes(8 * len(self._by_id))))

    def number(self, topic: int, topic_id: int) -> int:
        """Return the number of a topic's name; ``NO_TOPIC`` if no name is known."""
        if topic > 0:
            return topic
        if topic_id == 0:
            return NO_TOPIC
        while topic_id >= len(self._by_id):
            self._by_id = doubled(self._by_id)
        number = self._by_id[topic_id] - 1
        if number < 0:
            number = self._topics.number_of(self._names.name(None, self._topics.id(topic_id)))
            self._by_id[topic_id] = number + 1
        return number


class ErrorWriter(ListWriter):
    """Writes the column ``errors``."""

    def __init__(self, buffers: Mapping[str, IntBuffer | WordBuffer], names: TopicNames) -> None:
        super().__init__(buffers, "errors")
        self._names = names
        self._topic: WordBuffer = words_of(buffers, "errors.topic")
        self._topic_id: WordBuffer = words_of(buffers, ERROR_IDS)
        self._partition: IntBuffer = ints_of(buffers, "errors.partition")
        self._code: IntBuffer = ints_of(buffers, "errors.code")
        self._name: WordBuffer = words_of(buffers, "errors.name")

    def put(
        self, topic: str | None, topic_id: bytes, partition: int | None, code: int, name: str
    ) -> None:
        """Write an error code with its name."""
        at = self.next_item()
        self._topic.put(at, self._names.name(topic, topic_id))
        if not topic:
            self._topic_id.put(at, self._names.text(topic_id))
        self._partition.put_any(at, partition)
        self._code.put_any(at, code)
        self._name.put(at, name)


class PartitionWriter(ListWriter):
    """Writes the column ``partitions``, or another of such lists."""

    def __init__(
        self,
        buffers: Mapping[str, IntBuffer | WordBuffer],
        topics: TopicTable,
        lookup: TopicLookup,
        names: TopicNames,
        column: str = "partitions",
    ) -> None:
        super().__init__(buffers, column)
        self._topics = topics
        self._lookup = lookup
        self._names = names
        self._topic: WordBuffer = words_of(buffers, f"{column}.topic")
        self._topic_id: WordBuffer = words_of(buffers, f"{column}.topic_id")
        self._partition: IntBuffer = ints_of(buffers, f"{column}.partition")
        self._record_count: IntBuffer = ints_of(buffers, f"{column}.record_count")
        self._record_bytes: IntBuffer = ints_of(buffers, f"{column}.record_bytes")
        self._base_offset: IntBuffer = ints_of(buffers, f"{column}.base_offset")
        self._high_watermark: IntBuffer = ints_of(buffers, f"{column}.high_watermark")
        self._codec: WordBuffer = words_of(buffers, f"{column}.codec")
        self._error_code: IntBuffer = ints_of(buffers, f"{column}.error_code")
        self._producer_id: IntBuffer = ints_of(buffers, f"{column}.producer_id")
        self._producer_epoch: IntBuffer = ints_of(buffers, f"{column}.producer_epoch")
        self._base_sequence: IntBuffer = ints_of(buffers, f"{column}.base_sequence")
        self._preferred: IntBuffer = ints_of(buffers, f"{column}.preferred_read_replica")
        self.forget()

    def forget(self) -> None:
        """Discard cached numbers of texts, because the buffers number their texts again."""
        # By number of a topic, and of an id: one more than the number of its text; 0 if not known.
        self._topic_codes = memoryview(array("q", bytes(8 * 64)))
        self._topic_id_codes = memoryview(array("q", bytes(8 * 64)))
        self._codec_codes = memoryview(array("i", [-1] * len(SEEN_CODECS)))

    def put_all(self, partitions: PartitionColumns) -> None:  # noqa: C901 - a value each
        """Write the partitions of an exchange."""
        for index in range(partitions.count):
            begin = index * CELLS
            at = self._put_topic(
                partitions.cells[begin + TOPIC], partitions.cells[begin + TOPIC_ID]
            )
            columns = partitions.cells[begin]
            if columns & (1 << PARTITION):
                self._partition.put(at, partitions.cells[begin + PARTITION])
            if columns & (1 << RECORD_COUNT):
                self._record_count.put(at, partitions.cells[begin + RECORD_COUNT])
            if columns & (1 << RECORD_BYTES):
                self._record_bytes.put(at, partitions.cells[begin + RECORD_BYTES])
            if columns & (1 << BASE_OFFSET):
                self._base_offset.put(at, partitions.cells[begin + BASE_OFFSET])
            if columns & (1 << HIGH_WATERMARK):
                self._high_watermark.put(at, partitions.cells[begin + HIGH_WATERMARK])
            if columns & (1 << CODEC):
                self._codec.put_code(at, self._codec_code(partitions.cells[begin + CODEC]))
            if columns & (1 << ERROR_CODE):
                self._error_code.put(at, partitions.cells[begin + ERROR_CODE])
            if columns >> PRODUCER_ID == 0:
                continue
            if columns & (1 << PRODUCER_ID):
                self._producer_id.put(at, partitions.cells[begin + PRODUCER_ID])
            if columns & (1 << PRODUCER_EPOCH):
                self._producer_epoch.put(at, partitions.cells[begin + PRODUCER_EPOCH])
            if columns & (1 << BASE_SEQUENCE):
                self._base_sequence.put(at, partitions.cells[begin + BASE_SEQUENCE])
            if columns & (1 << PREFERRED_READ_REPLICA):
                self._preferred.put(at, partitions.cells[begin + PREFERRED_READ_REPLICA])

    def put_session(self, session: FetchSession, partitions: PartitionColumns) -> None:
        """Write the partitions of a fetch session that neither request nor response names.

        ``partitions`` are those that request or response names.
        """
        keys: KeyTable = session.keys
        most, listed, named = MAX_LISTED, 0, partitions.count
        room = most
        if named + keys.count > most:  # otherwise there is room for all
            room -= partitions.note_all()
        for entry in range(keys.count):
            if keys.is_removed(entry):
                continue
            if listed == most or room <= 0:
                break
            listed += 1
            at = entry * KEY_CELLS
            topic, topic_id, partition = keys.keys[at + 1], keys.keys[at + 2], keys.keys[at + 3]
            if partitions.index_of_key(topic, topic_id, partition, named) >= 0:
                continue
            self._partition.put(self._put_topic(topic, topic_id), partition)
            room -= 1

    def _put_topic(self, topic: int, topic_id: int) -> int:
        """Begin an item with a topic; return its number."""
        at = self.next_item()
        self._topic.put_code(at, self._topic_code(self._lookup.number(topic, topic_id)))
        self._topic_id.put_code(at, self._topic_id_code(topic_id))
        return at

    def _codec_code(self, codec: int) -> int:
        """Return the number of the text of a set of codecs; there are 256 sets."""
        code = self._codec_codes[codec]
        if code < 0:
            code = self._codec_codes[codec] = self._codec.code(SEEN_CODECS[codec])
        return code

    def _topic_code(self, topic: int) -> int:
        """Return the number of the text of a topic; -1 for ``NO_TOPIC``."""
        if topic < 0:
            return -1
        while topic >= len(self._topic_codes):
            self._topic_codes = doubled(self._topic_codes)
        if self._topic_codes[topic] == 0:
            self._topic_codes[topic] = self._topic.code(self._topics.name(topic)) + 1
        return self._topic_codes[topic] - 1

    def _topic_id_code(self, topic_id: int) -> int:
        """Return the number of the text of a topic id; -1 for zeros."""
        if topic_id == 0:
            return -1
        while topic_id >= len(self._topic_id_codes):
            self._topic_id_codes = doubled(self._topic_id_codes)
        if self._topic_id_codes[topic_id] == 0:
            text = self._names.text(self._topics.id(topic_id))
            self._topic_id_codes[topic_id] = self._topic_id.code(text) + 1
        return self._topic_id_codes[topic_id] - 1


class SessionListWriter(PartitionWriter):
    """Writes :data:`~kanalyze.spec.rows.requests.SESSION_COLUMNS`.

    A session has far more partitions than its fetches name. In a report's rows, a fetch refers to
    the list of its session, which is written with the first row that does.
    """

    def __init__(
        self,
        buffers: Mapping[str, IntBuffer | WordBuffer],
        topics: TopicTable,
        lookup: TopicLookup,
        names: TopicNames,
        first_number: int,
    ) -> None:
        """Number the lists from ``first_number`` on."""
        super().__init__(buffers, topics, lookup, names, "session_partitions")
        self._list: IntBuffer = ints_of(buffers, "session_list")
        self._next_number = first_number

    def put(self, at: int, session: FetchSession, partitions: PartitionColumns) -> bool:
        """Refer to the list of a session; return false if the row needs a list of its own.

        ``partitions`` are those that request or response names. They are in the session's list,
        too. So nothing may be known of them that makes a partition count in another way if it is
        named than if it is inherited: an error, or records whose number is unknown.
        """
        keys: KeyTable = session.keys
        if partitions.count + keys.count > MAX_LISTED:  # the row may lack some of them
            return False
        for index in range(partitions.count):
            columns = partitions.cells[index * CELLS]
            if columns >> RECORD_COUNT & 1 != columns >> RECORD_BYTES & 1:
                return False
            if columns >> ERROR_CODE & 1 and partitions.cells[index * CELLS + ERROR_CODE] != 0:
                return False
        changes, names = session.changes, self._lookup.changes
        if session.listed_changes != changes or session.listed_names != names:
            self._put_list(session)
        if session.list_number < 0:
            return False
        self._list.put(at, session.list_number)
        return True

    def _put_list(self, session: FetchSession) -> None:
        """Write the list of a session, unless a topic in it has no name, but may get one."""
        session.listed_changes, session.listed_names = session.changes, self._lookup.changes
        session.list_number = -1
        keys: KeyTable = session.keys
        for entry in range(keys.count):
            at = entry * KEY_CELLS
            if self._lookup.number(keys.keys[at + 1], keys.keys[at + 2]) < 0:
                return
        session.list_number = self._next_number
        self._next_number += 1
        for entry in range(keys.count):
            if not keys.is_removed(entry):
                at = entry * KEY_CELLS
                item = self._put_topic(keys.keys[at + 1], keys.keys[at + 2])
                self._partition.put(item, keys.keys[at + 3])


_LARGEST_INT64 = 2**63 - 1
_MAX_RUNS = 64
"""With more runs, for example if captures overlap in time, rows are numbered one by one."""


class PacketNumbers:
    """The columns of captures and packets of the rows of requests."""

    def __init__(
        self, buffers: dict[str, IntBuffer | WordBuffer], locations: PacketLocations
    ) -> None:
        """Use ``buffers``; see :class:`~kanalyze.tables.requests.row_assembler.RowAssembler`."""
        self._locations = locations
        self._capture: WordBuffer = words_of(buffers, "capture")
        self._requests: IntBuffer = ints_of(buffers, "request_packet")
        self._responses: IntBuffer = ints_of(buffers, "response_packet")

    def number(self, count: int) -> None:
        """Number the packets of the first ``count`` rows."""
        requests, responses = self._requests, self._responses
        low, high = _LARGEST_INT64, -1
        for buffer in (requests, responses):
            low, high = min(low, buffer.least(count)), max(high, buffer.largest(count))
        if high < 0:
            self._capture.fill(count, self._capture.code(""))
        elif not self._number_runs(count, low, high):
            self._number_each(count)

    def _number_runs(self, count: int, low: int, high: int) -> bool:
        """Number the rows by runs of packets; return false if that is not possible."""
        runs = self._locations.runs_between(low, high, _MAX_RUNS)
        if not runs:
            return False
        numbers = [(first, shift, self._capture.code(capture)) for first, shift, capture in runs]
        firsts, shifts, codes = (
            memoryview(array("q", column)) for column in zip(*numbers, strict=True)
        )
        if len(runs) == 1:
            self._requests.shift(count, shifts[0])
            self._responses.shift(count, shifts[0])
            self._capture.fill(count, codes[0])
            return True
        requests, responses = self._requests, self._responses
        last = len(runs) - 1
        none = self._capture.code("")
        for at in range(count):
            code = none
            if responses.valid[at]:
                run = last
                while firsts[run] > responses.values[at]:
                    run -= 1
                responses.values[at] += shifts[run]
                code = codes[run]
            if requests.valid[at]:
                run = last
                while firsts[run] > requests.values[at]:
                    run -= 1
                requests.values[at] += shifts[run]
                code = codes[run]
            self._capture.put_code(at, code)
        return True

    def _number_each(self, count: int) -> None:
        """Number the packets one by one."""
        for at in range(count):
            capture = ""
            for buffer in (self._responses, self._requests):
                packet = buffer.get(at)
                if packet is not None:
                    capture, number = self._locations.locate(packet)
                    buffer.change(at, number)
            self._capture.put(at, capture)


_FAR_NS = 1 << 62
"""Differences of times nearer to 0 than this fit in 64 bits."""


class PartsWriter:
    """Writes the columns of latency parts."""

    def __init__(self, buffers: Mapping[str, IntBuffer | WordBuffer]) -> None:
        self._capture_point: WordBuffer = words_of(buffers, "capture_point")
        self._request_send_ns: IntBuffer = ints_of(buffers, "request_send_ns")
        self._broker_network_ns: IntBuffer = ints_of(buffers, "broker_network_ns")
        self._retransmission_wait_ns: IntBuffer = ints_of(buffers, "retransmission_wait_ns")
        self._pipeline_wait_ns: IntBuffer = ints_of(buffers, "pipeline_wait_ns")
        self._broker_time_ns: IntBuffer = ints_of(buffers, "broker_time_ns")
        self._waited_ns: IntBuffer = ints_of(buffers, "waited_ns")
        self._rest_ns = -1
        """Broker time of the last row, with the wait; -1 if it is not known."""
        self._network_ns = 0
        """Network time of the last row; 0 if it is not known."""
        self._response_send_ns: IntBuffer = ints_of(buffers, "response_send_ns")
        self._client_network_ns: IntBuffer = ints_of(buffers, "client_network_ns")
        self._retransmitted_packets: IntBuffer = ints_of(buffers, "retransmitted_packets")
        self._zero_windows: IntBuffer = ints_of(buffers, "zero_windows")

    def put(
        self,
        at: int,
        peers: RowPeers,
        exchange: Exchange,
        request: Any,
        response: Any,
    ) -> None:
        """Write the parts of an exchange, all but the wait: see :meth:`put_wait`."""
        self._rest_ns, self._network_ns = -1, 0
        if request.last_packet == NO_PACKET or not _is_near(request, response):
            return
        if request.last_ns >= request.start_ns:
            self._request_send_ns.put(at, request.last_ns - request.start_ns)
        if response is None:
            return
        path: NetworkPath = peers.path
        to_broker, to_client = (
            path.round_trips[peers.client_index],
            path.round_trips[1 - peers.client_index],
        )
        broker_ns = to_broker.least_at(response.start_packet)
        client_ns = to_client.least_at(response.start_packet)
        if client_ns >= 0:
            self._client_network_ns.put(at, client_ns)
        if peers.client_ns != client_ns or peers.broker_ns != broker_ns:
            peers.client_ns, peers.broker_ns = client_ns, broker_ns
            point = "host" if peers.is_one_host else capture_point(client_ns, broker_ns)
            peers.capture_point = self._capture_point.code(point)
        self._capture_point.put_code(at, peers.capture_point)
        is_ended = response.last_packet != NO_PACKET
        if is_ended and response.last_ns >= response.start_ns:
            self._response_send_ns.put(at, response.last_ns - response.start_ns)
        retransmitted = self._put_counts(at, path, request, response)
        if retransmitted < 0 or broker_ns < 0:
            return
        if request.start_ns <= request.last_ns <= response.start_ns and (
            not is_ended or response.start_ns <= response.last_ns
        ):
            self._put_latency(at, peers, exchange, request, response, broker_ns, retransmitted > 0)

    def _put_counts(self, at: int, path: NetworkPath, request: Any, response: Any) -> int:
        """Write the numbers of retransmitted packets and zero windows; return the former.

        Writes nothing and returns a negative number if the path no longer has the events of this
        time, or if the packets are not in the order of the exchange.
        """
        is_ended = response.last_packet != NO_PACKET
        first = request.start_packet
        last = response.last_packet if is_ended else response.start_packet
        span_ns = (response.last_ns if is_ended else response.start_ns) - request.start_ns
        if first > last:
            return -1
        retransmitted, zero_windows = 0, 0
        if path.has_events:
            retransmitted = path.retransmissions(first, last, span_ns)
            zero_windows = path.zero_windows(first, last, span_ns)
        if retransmitted < 0:
            return retransmitted
        self._retransmitted_packets.put(at, retransmitted)
        self._zero_windows.put(at, zero_windows)
        return retransmitted

    def _put_latency(
        self,
        at: int,
        peers: RowPeers,
        exchange: Exchange,
        request: Any,
        response: Any,
        broker_ns: int,
        has_resent: bool,
    ) -> None:
        """Write the parts of the latency; ``broker_ns`` is the round trip to the broker."""
        unexplained_ns = response.start_ns - request.last_ns
        network_ns = min(broker_ns, unexplained_ns)
        self._broker_network_ns.put(at, network_ns)
        self._network_ns = network_ns
        unexplained_ns -= network_ns
        wait_ns = 0
        if has_resent:
            resent_ns = peers.path.last_resent_ns(
                peers.client_index,
                request.stream_offset,
                request.stream_offset + request.length,
                request.start_packet,
                response.start_packet,
                request.last_ns,
                response.start_ns - network_ns,
            )
            if resent_ns < 0:
                return
            wait_ns = min(resent_ns - request.last_ns, unexplained_ns)
        self._retransmission_wait_ns.put(at, wait_ns)
        unexplained_ns -= wait_ns
        lost_ns = exchange.lost_ns
        if lost_ns is not None and lost_ns >= request.start_ns:
            # A response that this one waited for may be among the lost bytes.
            return
        queued_ns = 0
        if exchange.previous_ns > request.last_ns:
            # The previous response's time is near, since it came before this response.
            queued_ns = exchange.previous_ns - request.last_ns - wait_ns - network_ns
            queued_ns = max(0, min(queued_ns, unexplained_ns))
        self._pipeline_wait_ns.put(at, queued_ns)
        self._rest_ns = unexplained_ns - queued_ns
        self._broker_time_ns.put(at, self._rest_ns)

    def put_no_wait(self, at: int) -> None:
        """Write that the broker did not hold the last row's response back."""
        self._waited_ns.put(at, 0)

    def put_wait(
        self, at: int, exchange: Exchange, request: Any, response: Any, limit_ns: int
    ) -> bool:
        """Write how long the broker held the last row's response back.

        Args:
            at: number of the row.
            exchange: its exchange.
            request: its request, which has an end.
            response: its response.
            limit_ns: the longest wait; -1 if it has none.

        Returns:
            False if it took clearly longer than that.
        """
        rest_ns = self._rest_ns
        is_known = rest_ns >= 0
        if not is_known:
            if not _is_near(request, response):
                return True
            # What the broker held back before this request held it back too.
            begin_ns = request.last_ns
            if exchange.previous_ns > begin_ns:
                begin_ns = min(exchange.previous_ns, response.start_ns)
            rest_ns = response.start_ns - begin_ns - self._network_ns
        is_within = limit_ns < 0 or rest_ns - limit_ns <= MAX_LATE_NS
        if is_known or not is_within:
            waited_ns = rest_ns if limit_ns < 0 else min(rest_ns, limit_ns)
            self._waited_ns.put(at, waited_ns)
            if is_known:
                self._broker_time_ns.put(at, rest_ns - waited_ns)
        return is_within


def capture_point(client_ns: int, broker_ns: int) -> str | None:
    """Return the capture point, given the round trips to both ends in ns; -1 is unknown."""
    if client_ns < 0 or broker_ns < 0:
        return None
    near_ns, far_ns = min(client_ns, broker_ns), max(client_ns, broker_ns)
    if near_ns >= NEAR_NS:
        return "between"
    if MIN_RATIO * near_ns >= far_ns:
        return None
    return "client" if near_ns == client_ns else "broker"


def _is_near(request: Any, response: Any) -> bool:
    """Return true if all times are known, and so near to 0 that differences fit in 64 bits."""
    if request.start_ns == NO_TIME or request.last_ns == NO_TIME:
        return False
    if not (-_FAR_NS < request.start_ns < _FAR_NS and -_FAR_NS < request.last_ns < _FAR_NS):
        return False
    if response is None:
        return True
    if response.start_ns == NO_TIME or response.last_ns == NO_TIME:
        return False
    return bool(-_FAR_NS < response.start_ns < _FAR_NS and -_FAR_NS < response.last_ns < _FAR_NS)
