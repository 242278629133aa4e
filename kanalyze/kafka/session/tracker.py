"""Which connections are Kafka, and which end is the client: decided by content, not by ports.

In: :class:`~kanalyze.model.StreamUpdate`. Out: exchanges, and what each connection was. This
module must not know files, rows or reports, nor what makes bytes Kafka: that is
:class:`~kanalyze.kafka.session.detection.Judge`'s.

Ports decide only where the user says so. What is held of undecided connections is bounded, for
each of them and for all together.

Compiled by Cython, with the types in ``tracker.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields, items
from kanalyze.kafka.session.completion_order import Ended
from kanalyze.kafka.session.connection import PATIENCE_BYTES, KafkaConnection
from kanalyze.kafka.session.connection_summary import ConnectionCounts, EndedConnection
from kanalyze.kafka.session.detection import Judge, Undecided, client_hello_side
from kanalyze.kafka.session.exchange import Peers
from kanalyze.kafka.session.loss import divide, last_packet_about, loss_packet
from kanalyze.kafka.session.resync import RequestLocator
from kanalyze.kafka.session.tls import is_alert, is_client_hello
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.streams import Gap
from kanalyze.model.tcp import end_of_two

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.connection import Keep
    from kanalyze.kafka.session.detection import Found
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.loss import Items
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.v07.connection import Kafka07Connection
    from kanalyze.model.streams import StreamItem, StreamUpdate, TokenBytes
    from kanalyze.model.tcp import TcpConnection

__all__ = ["BrokerSide", "ConnectionCounts", "ConnectionTracker", "EndedConnection"]

BrokerSide: TypeAlias = "Callable[[str, int], bool]"
"""Tells whether a broker listens on an IP address and port."""

_MOST_UNDECIDED_BYTES = 64 * 1024 * 1024
_MOST_KAFKA_BYTES = 192 * 1024 * 1024
_SEGMENTS_ABOUT_A_LOSS = 32
"""Of each direction, looked at before the rest is read; then four times as many."""

_Connection: TypeAlias = "KafkaConnection | Kafka07Connection"


class _Kafka:
    """A Kafka connection, and what its exchanges told of it."""

    __slots__ = (
        *("client_id", "client_side", "connection", "given_up_bytes", "held_bytes"),
        *("protocol", "requests"),
    )

    def __init__(
        self, connection: _Connection, client_side: int, protocol: str, given_up_bytes: int
    ) -> None:
        self.connection = connection
        self.client_side = client_side
        self.protocol = protocol
        self.given_up_bytes = given_up_bytes
        """What went over it that was not held any more when it was known to be Kafka."""
        self.client_id: str | None = None
        self.requests = 0
        self.held_bytes = 0

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return (
            *(self.client_side, self.protocol, self.given_up_bytes, self.client_id),
            *(self.requests, self.held_bytes, self.connection.state()),
        )

    @classmethod
    def from_state(cls, state: object, tcp: TcpConnection, tracker: ConnectionTracker) -> _Kafka:
        """Make one from a state, as a tracker would; raises ValueError where that is none."""
        client_side, protocol, given_up_bytes, *said, read = fields(state, "nsnSnnt")
        end_of_two(client_side)
        made = cls(tracker.connection_from_state(read, tcp, protocol), client_side, protocol, 0)
        made.given_up_bytes = given_up_bytes
        made.client_id, made.requests, made.held_bytes = said
        if made.connection.held_bytes != made.held_bytes:
            raise ValueError("bytes that are not held")
        return made

    def note(self, exchanges: Iterable[Exchange]) -> None:
        for exchange in exchanges:
            if exchange.request is None:
                continue
            self.requests += 1
            if self.client_id is None:
                self.client_id = exchange.client_id


_LONG_UNDECIDED_NS = 10_000_000_000
"""Whatever a connection says of itself it mostly says at once."""


class _Ignored(NamedTuple):
    """A connection that is not Kafka, until it ends."""

    protocol: str
    client_side: int | None = None


_SILENT = "none"
"""The protocol of a connection without a byte of payload (see ``guess.PROTOCOLS``)."""


class ConnectionTracker:
    """Follows every TCP connection: undecided, Kafka, TLS, or something else."""

    _LEFT_OUT = (
        *("_anomalies", "_ended", "_ended_sides", "_ending_sides", "_held_bytes", "_is_broker"),
        *("_judge", "_kafka_bytes", "_keep", "_locate", "_most_kafka_bytes"),
        *("_most_undecided_bytes", "_overdue", "_reader", "_tokens"),
    )

    def __init__(
        self,
        reader: MessageReader,
        catalog: Catalog,
        *,
        is_broker: BrokerSide | None = None,
        keep: Keep | None = None,
        collect_ended: bool = False,
        most_undecided_bytes: int = _MOST_UNDECIDED_BYTES,
        most_kafka_bytes: int = _MOST_KAFKA_BYTES,
    ) -> None:
        """Make a tracker.

        Args:
            reader: reads messages.
            catalog: the known APIs.
            is_broker: tells of an IP address and a port whether a broker is there, whatever the
                bytes look like; None leaves it to the bytes. Where it says so of both ends, the
                one that opened the connection is the client. A TLS handshake is TLS all the same.
            keep: tells of an API key whether the bytes of its messages are wanted.
            collect_ended: whether :meth:`take_ended` is to give anything.
            most_undecided_bytes: how much memory the bytes of undecided connections may take
                together. Above it the oldest ones are given up.
            most_kafka_bytes: how much memory messages that have not ended or have no answer may
                take together. Above it those that take the most let go of it.
        """
        self._reader = reader
        self._is_broker = is_broker
        self._keep = keep
        self._judge = Judge(reader, catalog)
        self._locate = RequestLocator(reader, catalog, patience_bytes=PATIENCE_BYTES)
        self._undecided: dict[int, Undecided] = {}
        self._kafka: dict[int, _Kafka] = {}
        self._ignored: dict[int, _Ignored] = {}
        self._anomalies: list[Anomaly] = []
        self._tokens: list[TokenBytes] = []
        self._ended: list[EndedConnection] | None = [] if collect_ended else None
        self._ending_sides: dict[int, int | None] = {}
        """Clients of the connections that ended since anomalies were last taken."""
        self._ended_sides: dict[int, int | None] = {}
        """Those of which the anomalies last taken may be."""
        self._most_undecided_bytes = most_undecided_bytes
        self._held_bytes = 0
        self._most_kafka_bytes = most_kafka_bytes
        self._kafka_bytes = 0
        self._overdue: list[KafkaConnection] = []
        """Connections that ended exchanges while they were not fed."""
        self.counts = ConnectionCounts()

    @property
    def settings(self) -> State:
        """What has to be the same in the one that takes up its state."""
        asked = self._ended is not None, self._is_broker is not None, self._keep is not None
        return (self._most_undecided_bytes, self._most_kafka_bytes), asked

    def state(self) -> State:
        """Return what :meth:`load_state` takes, between two batches, once all was taken."""
        return (
            self.counts.state(),
            tuple([(serial, state.state()) for serial, state in self._undecided.items()]),
            tuple([(serial, kafka.state()) for serial, kafka in self._kafka.items()]),
            tuple([(serial, tuple(ignored)) for serial, ignored in self._ignored.items()]),
        )

    def load_state(self, state: object, connections: Mapping[int, TcpConnection]) -> None:
        """Go on from a state, before anything was fed.

        Args:
            state: what another one said of itself.
            connections: those that are open, by serial.

        Raises:
            ValueError: it is none; this one is not to be used then.
        """
        counts, undecided, kafka, ignored = fields(state, "tttt")
        self.counts = ConnectionCounts.from_state(counts)
        for each in items(undecided, "t"):
            serial, known = fields(each, "nt")
            held = self._undecided[serial] = Undecided(_connection_of(connections, serial))
            held.load_state(known)
        for each in items(kafka, "t"):
            serial, known = fields(each, "nt")
            tcp = _connection_of(connections, serial)
            self._kafka[serial] = _Kafka.from_state(known, tcp, self)
        for each in items(ignored, "t"):
            serial, known = fields(each, "nt")
            protocol, client_side = fields(known, "sN")
            _connection_of(connections, serial)
            self._ignored[serial] = _Ignored(protocol, end_of_two(client_side))
        parts = len(undecided) + len(kafka) + len(ignored)
        if len(self._undecided.keys() | self._kafka.keys() | self._ignored.keys()) != parts:
            raise ValueError("a connection that is two things at once")
        self._held_bytes = sum([state.held_bytes for state in self._undecided.values()])
        self._kafka_bytes = sum([each.held_bytes for each in self._kafka.values()])
        self._overdue = [
            each.connection
            for each in self._kafka.values()
            if isinstance(each.connection, KafkaConnection) and each.connection.has_done
        ]

    def connection_from_state(
        self, state: object, tcp: TcpConnection, protocol: str
    ) -> KafkaConnection | Kafka07Connection:
        """Make a connection from a state; raises ValueError where that is none."""
        if protocol == "kafka":
            return KafkaConnection.from_state(state, tcp, self._reader, self._locate, self._keep)
        if protocol != "kafka-0.7":
            raise ValueError("no protocol of Kafka")
        from kanalyze.kafka.v07.connection import Kafka07Connection  # as above

        return Kafka07Connection.from_state(state, tcp, self._keep)

    @property
    def held_bytes(self) -> int:
        """Memory that is taken by the bytes of undecided connections, exact."""
        return self._held_bytes

    @property
    def kafka_held_bytes(self) -> int:
        """About how much memory is taken by messages that have not ended or have no answer."""
        return self._kafka_bytes

    def client_side(self, tcp: TcpConnection) -> int | None:
        """Return which end of a connection is the client; None when that is not known (yet).

        Of a connection that has ended it is known until anomalies are taken the next time.
        """
        kafka = self._kafka.get(tcp.serial)
        if kafka is not None:
            return kafka.client_side
        ignored = self._ignored.get(tcp.serial)
        if ignored is not None:
            return ignored.client_side
        return self._ended_sides.get(tcp.serial, self._ending_sides.get(tcp.serial))

    def is_unknown(self, tcp: TcpConnection) -> bool:
        """Tell of an open connection whether nobody knows what it is, nor is to find out soon."""
        ignored = self._ignored.get(tcp.serial)
        if ignored is not None:
            return ignored.protocol == "unknown"
        state = self._undecided.get(tcp.serial)
        if state is None or state.tls_sides:
            return False
        return tcp.last_time_ns - tcp.first_time_ns >= _LONG_UNDECIDED_NS

    def in_flight(self, before_ns: int) -> Iterator[Exchange]:
        """Give the requests that wait for their response, connection by connection.

        All that began before a Unix time, and some of the later ones. Between two batches.
        """
        for kafka in self._kafka.values():
            if isinstance(kafka.connection, KafkaConnection):
                yield from kafka.connection.in_flight(before_ns)
                if kafka.connection.has_done:
                    self._overdue.append(kafka.connection)

    def feed_batch(self, updates: Iterable[StreamUpdate]) -> Ended:
        """Take in what a batch added to connections; return the exchanges it completes."""
        ended = Ended()
        for update in updates:
            ended.add(self.feed(update))
        # A connection that says nothing more would keep them until it ends.
        for connection in self._overdue:
            ended.add(connection.take_done())
        self._overdue.clear()
        return ended

    def feed(self, update: StreamUpdate) -> list[Exchange]:
        """Take in what a batch added to one connection; return the exchanges it completes."""
        serial = update.connection.serial
        kafka = self._kafka.get(serial)
        if kafka is not None:
            self.counts.kafka_bytes += _payload_bytes(update.items)
            exchanges = self._read(kafka, update.items)
        elif serial in self._ignored:
            if update.closed:
                self._end_ignored(update.connection)
            return []
        elif not (update.items[0] or update.items[1]) and serial not in self._undecided:
            # Nothing has been said: there is nothing to hold, and nothing to be decided yet.
            if update.closed:
                self._end_silent(update.connection)
            return []
        else:
            exchanges = self._decide(update)
            kafka = self._kafka.get(serial)
        if kafka is not None:
            return self._go_on(update, kafka, exchanges)
        if update.closed and serial in self._ignored:
            self._end_ignored(update.connection)
        return exchanges

    # -- reading ----------------------------------------------------------------------------------

    def _read(self, kafka: _Kafka, items: Items) -> list[Exchange]:
        """Read what was added to a Kafka connection."""
        connection = kafka.connection
        if not isinstance(connection, KafkaConnection):
            return connection.feed(items)
        if not connection.is_in_step:
            return self._after_loss(connection, items)
        packet = loss_packet(items)
        if packet is None:
            return connection.feed(items)
        before, rest = divide(items, packet - 1)
        return connection.feed(before) + self._after_loss(connection, rest)

    @staticmethod
    def _after_loss(connection: KafkaConnection, items: Items) -> list[Exchange]:
        """Read on where bytes are missing: in a few pieces until it is in step, then as ever.

        What is found after a loss depends on how much is there to look at.
        """
        exchanges: list[Exchange] = []
        segments = _SEGMENTS_ABOUT_A_LOSS
        is_in_step = False
        while any(items) and not is_in_step:
            about, items = divide(items, last_packet_about(items, segments))
            exchanges += connection.feed(about)
            is_in_step = connection.is_in_step
            segments *= 4
        return exchanges + connection.feed(items) if any(items) else exchanges

    def _go_on(
        self, update: StreamUpdate, kafka: _Kafka, exchanges: list[Exchange]
    ) -> list[Exchange]:
        """Do what is to be done after a Kafka connection was read."""
        if self._ended is not None:
            kafka.note(exchanges)
        if update.closed:
            exchanges.extend(self._end_kafka(update.connection, update.closed_packet))
        self._anomalies.extend(kafka.connection.take_anomalies())
        if isinstance(kafka.connection, KafkaConnection):
            self._tokens.extend(kafka.connection.take_tokens())
        self._account(kafka, update.closed)
        return exchanges

    def take_anomalies(self) -> list[Anomaly]:
        """Return the anomalies found since the last call."""
        found, self._anomalies = self._anomalies, []
        self._ended_sides, self._ending_sides = self._ending_sides, {}
        return found

    def take_tokens(self) -> list[TokenBytes]:
        """Return where tokens are, as far as that was found since the last call."""
        found, self._tokens = self._tokens, []
        return found

    def take_ended(self) -> list[EndedConnection]:
        """Return the connections that ended since the last call, if they are collected."""
        if not self._ended:
            return []
        found, self._ended = self._ended, []
        return found

    # -- deciding ---------------------------------------------------------------------------------

    def _decide(self, update: StreamUpdate) -> list[Exchange]:
        tcp = update.connection
        state = self._undecided.get(tcp.serial)
        if state is None:
            found = self._judge.at_first_sight(update, self._forced_client(tcp))
            if found is not None:
                self.counts.kafka_bytes += _payload_bytes(update.items)
                starts = (tcp.start_seen[0], tcp.start_seen[1])
                return self._begin(update, found, starts, update.items)
            state = self._undecided[tcp.serial] = Undecided(tcp)
        before = state.held_bytes
        state.begin(update)
        while state.step():
            exchanges = self._look(state, update)
            if exchanges is not None or tcp.serial not in self._undecided:
                self._held_bytes -= before
                return exchanges or []
            if self._bound(state):
                self._held_bytes -= before
                return []
        state.end_step()
        if update.closed:
            self._held_bytes -= before
            return self._close_undecided(state, update)
        self._held_bytes += state.held_bytes - before
        if self._held_bytes > self._most_undecided_bytes:
            self._give_up_oldest()
        return []

    def _look(self, state: Undecided, update: StreamUpdate) -> list[Exchange] | None:
        """Look at what is held: the exchanges of a Kafka connection, None where it is none."""
        if state.tls_sides:
            return self._tls(state, update)
        found = self._find(state, last=False)
        if found is not None:
            return self._begin_held(state, found, update)
        if not self._is_forced(state.tcp) and self._judge.is_hopeless(state):
            self._ignore(state)
        return None

    def _bound(self, state: Undecided) -> bool:
        """Give up what is too much of one connection; tell whether it is ignored from now on."""
        dropped = sum([side.held.bound() for side in state.sides])
        if dropped and self._judge.is_tls(state):
            self._ignore(state)
            return True
        return False

    def _find(self, state: Undecided, *, last: bool) -> Found | None:
        client_side = self._forced_client(state.tcp)
        if client_side is not None:
            return self._judge.forced(state, client_side, last=last)
        return self._judge.find(state, last=last)

    def _is_forced(self, tcp: TcpConnection) -> bool:
        return self._forced_client(tcp) is not None

    def _forced_client(self, tcp: TcpConnection) -> int | None:
        if self._is_broker is None:
            return None
        brokers = [side for side in (0, 1) if self._is_broker(*tcp.endpoints[side])]
        if len(brokers) == 2:
            return tcp.opened_by
        return 1 - brokers[0] if brokers else None

    def _begin_held(self, state: Undecided, found: Found, update: StreamUpdate) -> list[Exchange]:
        """Go on with a connection that was undecided and is Kafka: read all that is held of it."""
        del self._undecided[state.tcp.serial]
        self.counts.kafka_bytes += state.payload_bytes
        sides = state.sides
        in_sync = (sides[0].from_start, sides[1].from_start)
        items = (state.rest(0), state.rest(1))
        given_up_bytes = state.payload_bytes - _payload_bytes(items)
        return self._begin(update, found, in_sync, items, given_up_bytes)

    def _begin(
        self,
        update: StreamUpdate,
        found: Found,
        in_sync: tuple[bool, bool],
        items: tuple[list[StreamItem], list[StreamItem]],
        given_up_bytes: int = 0,
    ) -> list[Exchange]:
        """Begin with a Kafka connection, of which ``items`` have come."""
        tcp = update.connection
        client_side, wire = found
        peers = Peers(tcp, tcp.endpoints[client_side], tcp.endpoints[1 - client_side])
        from_start = tcp.start_seen[client_side] and in_sync[client_side]
        connection: _Connection
        if wire == "kafka-0.7":
            from kanalyze.kafka.v07.connection import Kafka07Connection  # a protocol long gone

            connection = Kafka07Connection(
                peers, client_side, in_sync=in_sync, from_start=from_start, keep=self._keep
            )
        else:
            connection = KafkaConnection(
                peers,
                client_side,
                self._reader,
                self._locate,
                in_sync=in_sync,
                from_start=from_start,
                keep=self._keep,
                tokens_first=wire == "kafka after tokens",
            )
        protocol = "kafka-0.7" if wire == "kafka-0.7" else "kafka"
        kafka = _Kafka(connection, client_side, protocol, given_up_bytes)
        self._kafka[tcp.serial] = kafka
        self.counts.count_kafka(tcp.endpoints[1 - client_side].port)
        return self._read(kafka, items)

    def _tls(self, state: Undecided, update: StreamUpdate) -> list[Exchange] | None:
        if len(state.tls_sides) == 2:
            self._ignore(state, "tls")
            return None
        (side,) = state.tls_sides
        held = state.sides[side].held
        if not state.sides[1 - side].held.payload_bytes:
            # A handshake without an answer may yet be a TLS client on a plaintext port: wait for
            # the end of the connection, and keep nothing meanwhile.
            if not is_alert(held.head):
                held.clear()
            return None
        client_side = self._judge.clear_client(state)
        if client_side is not None:
            return self._begin_held(state, client_side, update)
        self._ignore(state, "tls")
        return None

    # -- memory -----------------------------------------------------------------------------------

    def _account(self, kafka: _Kafka, is_over: bool) -> None:
        """Keep count of what a connection holds; let go of it where all hold too much."""
        held = 0 if is_over else kafka.connection.held_bytes
        self._kafka_bytes += held - kafka.held_bytes
        kafka.held_bytes = held
        if self._kafka_bytes > self._most_kafka_bytes:
            self._shed()

    def _shed(self) -> None:
        """Let those that hold the most let go, until a quarter of the room is free."""
        enough = self._most_kafka_bytes - self._most_kafka_bytes // 4
        for kafka in sorted(self._kafka.values(), key=lambda each: -each.held_bytes):
            if self._kafka_bytes <= enough or not kafka.held_bytes:
                break
            kafka.connection.shed()
            if isinstance(kafka.connection, KafkaConnection):
                self._overdue.append(kafka.connection)
            held = kafka.connection.held_bytes
            self._kafka_bytes += held - kafka.held_bytes
            kafka.held_bytes = held
            self._anomalies.extend(kafka.connection.take_anomalies())

    # -- ends -------------------------------------------------------------------------------------

    def _close_undecided(self, state: Undecided, update: StreamUpdate) -> list[Exchange]:
        if state.tls_sides:
            self._note_tls_on_plaintext(state)
            self._ignore(state, "tls")
            return []
        found = self._find(state, last=True)
        payload = any(side.held.payload_bytes for side in state.sides)
        if found is not None and payload:
            return self._begin_held(state, found, update)
        self._ignore(state)
        return []

    def _end_silent(self, tcp: TcpConnection) -> None:
        """End a connection in which nothing was said."""
        self.counts.count(_SILENT)
        if self._ended is not None:
            self._ended.append(EndedConnection(tcp, _SILENT))

    def _ignore(self, state: Undecided, protocol: str | None = None) -> None:
        serial = state.tcp.serial
        del self._undecided[serial]
        if protocol is None:
            from kanalyze.kafka.session.signatures import guess_protocol  # not where all is Kafka

            first, second = (side.held.head for side in state.sides)
            protocol = guess_protocol(first, second)
            if protocol == "unknown" and self._judge.is_tls(state):
                protocol = "tls"
        client_side = client_hello_side(state) if protocol == "tls" else None
        self._ignored[serial] = _Ignored(protocol, client_side)
        self.counts.count(protocol)

    def _give_up_oldest(self) -> None:
        """Give up undecided connections, oldest first, until a quarter of the room is free.

        So much at once that the time it takes is in proportion to the bytes.
        """
        most = self._most_undecided_bytes - self._most_undecided_bytes // 4
        left = self._held_bytes
        chosen = []
        for state in self._undecided.values():
            if left <= most:
                break
            if state.held_bytes:
                left -= state.held_bytes
                chosen.append(state)
        for state in chosen:
            tcp = state.tcp
            self._anomalies.append(
                Anomaly(
                    AnomalyKind.MEMORY_LIMIT,
                    time_ns=tcp.last_time_ns,
                    connection=tcp,
                    length=sum(side.held.captured_bytes for side in state.sides),
                    detail="given up before it was known whether this is Kafka",
                )
            )
            self._ignore(state)
        self._held_bytes = left

    def _end_ignored(self, tcp: TcpConnection) -> None:
        ignored = self._ignored.pop(tcp.serial)
        if ignored.protocol == "unknown":
            self.counts.count_unknown(tcp)
        self._ending_sides[tcp.serial] = ignored.client_side
        if self._ended is not None:
            self._ended.append(EndedConnection(tcp, ignored.protocol, ignored.client_side))

    def _end_kafka(self, tcp: TcpConnection, packet: int | None) -> list[Exchange]:
        """End a connection, which ``packet`` closed; return what is left of it."""
        kafka = self._kafka.pop(tcp.serial)
        self._ending_sides[tcp.serial] = kafka.client_side
        connection = kafka.connection
        exchanges = connection.close()
        for exchange in exchanges:
            exchange.settled_packet = packet
        counts, peers = self.counts, connection.peers
        skipped_bytes = connection.skipped_bytes + kafka.given_up_bytes
        counts.decoded_bytes += connection.decoded_bytes
        counts.undecoded_bytes += connection.undecoded_bytes
        counts.skipped_bytes += skipped_bytes
        if self._ended is not None:
            kafka.note(exchanges)
            self._ended.append(
                EndedConnection(
                    tcp,
                    kafka.protocol,
                    kafka.client_side,
                    kafka.client_id,
                    peers.software_name,
                    peers.software_version,
                    peers.principal,
                    kafka.requests,
                    connection.decoded_bytes,
                    connection.undecoded_bytes,
                    skipped_bytes,
                )
            )
        return exchanges

    def _note_tls_on_plaintext(self, state: Undecided) -> None:
        tcp, side = state.tcp, state.tls_sides[0]
        if not is_client_hello(state.sides[side].held.head):
            return
        if tcp.packets[1 - side] and not tcp.payload_bytes[1 - side]:
            self._anomalies.append(
                Anomaly(
                    AnomalyKind.TLS_ON_PLAINTEXT_PORT,
                    time_ns=tcp.first_time_ns,
                    connection=tcp,
                    direction=side,
                    length=state.sides[side].held.payload_bytes,
                    detail=f"{tcp.endpoints[side]} began TLS with {tcp.endpoints[1 - side]}, "
                    "which closed without an answer",
                )
            )


def _connection_of(connections: Mapping[int, TcpConnection], serial: int) -> TcpConnection:
    found = connections.get(serial)
    if found is None:
        raise ValueError(f"no connection {serial} is open")
    return found


def _payload_bytes(items: tuple[list[StreamItem], list[StreamItem]]) -> int:
    total = 0
    for side in items:
        for item in side:
            if not isinstance(item, Gap):
                segments = item.segments
                for index in range(item.first, item.last):
                    total += segments.lengths[index]
    return total
