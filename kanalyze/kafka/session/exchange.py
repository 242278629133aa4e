"""A request with its response: the output of the connection stage.

In: nothing. Out: :class:`Exchange`, :class:`Message` and :class:`Peers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved, load, save
from kanalyze.model.anomalies import kind_of

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import nothing_kept as untrack
    from kanalyze.kafka.codec.values import new_fields
    from kanalyze.kafka.framing.frame import NO_PACKET

    NO_VERSION = -1  # in place of the version a body was read as
    NO_API = -32769  # in place of an API key or version: those have 16 bits

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.codec.machine import Tape
    from kanalyze.kafka.codec.values import BodyDecoder, EncodedFields, Shape, TapeReader
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.model.anomalies import AnomalyKind
    from kanalyze.model.tcp import Endpoint, TcpConnection

NO_ID = 1 << 40
"""In place of a correlation id, which has 32 bits."""


class BodyStates(Protocol):
    """Saves and loads decoded bodies as plain values."""

    def body_state(
        self, message: Message, api_key: int | None, kind: Literal["request", "response"]
    ) -> State | None:
        """Return the decoded body of a message of an API; None if it was not decoded."""
        ...

    def load_body_state(
        self,
        message: Message,
        state: object,
        api_key: int | None,
        kind: Literal["request", "response"],
    ) -> None:
        """Load a decoded body into its message; raises ValueError for any other value."""
        ...


class ExchangeOwner(Protocol):
    """What saves and loads the exchanges of a connection."""

    @property
    def peers(self) -> Peers:
        """The ends of the connection."""
        ...

    @property
    def body_states(self) -> BodyStates:
        """What saves and loads the bodies of its messages."""
        ...


class Peers:
    """The two ends of a Kafka connection, with the names and versions that are known so far.

    It is immutable: when more becomes known, the exchanges from then on get a new object.
    """

    _NOT_SAVED = ("broker", "client", "tcp")
    _SAVED = Saved("software_name:str? software_version:str? principal:str?")

    def __init__(
        self,
        tcp: TcpConnection,
        client: Endpoint,
        broker: Endpoint,
        software_name: str | None = None,
        software_version: str | None = None,
        principal: str | None = None,
    ) -> None:
        self.tcp = tcp
        self.client = client
        self.broker = broker
        self.software_name = software_name
        """``ClientSoftwareName`` of ApiVersions v3+ (KIP-511)."""
        self.software_version = software_version
        self.principal = principal
        """The user of SASL/PLAIN or SCRAM; never a secret."""

    def named(self, state: object) -> Peers:
        """Return the same ends with the names in a state; itself if they are the same.

        Raises ValueError for any other value.
        """
        if state == save(self):
            return self
        peers = Peers(self.tcp, self.client, self.broker)
        load(peers, state)
        return peers

    def with_software(self, name: str, version: str) -> Peers:
        """Return the same with the name and version of the client's software."""
        return Peers(self.tcp, self.client, self.broker, name, version, self.principal)

    def with_principal(self, principal: str) -> Peers:
        """Return the same with the user that logged in."""
        software = self.software_name, self.software_version
        return Peers(self.tcp, self.client, self.broker, *software, principal)


class Message:
    """One request or response: its times, its size, and its decoded fields.

    For compiled modules a number stands in place of None; Python sees None. The fields that were
    read stay where the machine wrote them; ``encoded_fields`` and ``values`` are made of them when
    somebody asks.

    Attributes:
        start_ns, start_packet: of the packet with the first byte.
        last_ns, last_packet: of the packet with the last byte; if that one was lost,
            ``last_packet`` is ``NO_PACKET``. For Python: ``end_ns``, ``end_packet``.
        length: bytes with the 4-byte size prefix.
        stream_offset: of the first byte.
        read_as: API version that the body was read as, ``NO_VERSION`` when it was not read. For
            Python: ``version``.
        tape, reader, shape: where the fields are that were read, and what makes values of them.
        cells_at, cells: which cells of the tape they are; ``cells`` is -1 if there are none.
        arena_at, arena_bytes: which bytes of the tape's arena.
        data: the whole frame from its size prefix on, if it is to be kept and is complete.
        pieces: the captured bytes of the frame, if it is to be kept and is incomplete, as
            :meth:`~kanalyze.kafka.framing.frame.FramePieces.state` returns them.
    """

    _NOT_SAVED = (
        *("_values", "pieces", "tape", "reader", "shape"),
        *("cells_at", "cells", "arena_at", "arena_bytes"),
    )

    def __init__(self, frame: Frame) -> None:
        self._begin(
            frame.start_time_ns,
            frame.start_packet,
            frame.last_time_ns,
            frame.last_packet,
            frame.length,
            frame.stream_offset,
        )

    def _begin(
        self,
        start_ns: int,
        start_packet: int,
        last_ns: int,
        last_packet: int,
        length: int,
        stream_offset: int,
    ) -> None:
        self.start_ns, self.start_packet = start_ns, start_packet
        self.last_ns, self.last_packet = last_ns, last_packet
        self.length, self.stream_offset = length, stream_offset
        self.read_as, self.cells = NO_VERSION, -1
        if not cython.compiled:
            self.tape: Tape | None = None
            self.reader: TapeReader | None = None
            self.shape: Shape | None = None
            self._values: Any = None
            self.data: bytes | None = None
            self.pieces: tuple[tuple[int, ...], tuple[bytes, ...]] | None = None

    @staticmethod
    def read(
        start_ns: int,
        start_packet: int,
        end_ns: int | None,
        end_packet: int | None,
        length: int,
        values: Any,
        version: int | None,
        stream_offset: int = 0,
    ) -> Message:
        """Make one from its parts; raises ValueError for an end without time or packet."""
        if (end_ns is None) != (end_packet is None):
            raise ValueError("end time and end packet must come together")
        last_ns, last_packet = end_ns or 0, NO_PACKET if end_packet is None else end_packet
        message = _message(start_ns, start_packet, last_ns, last_packet, length, stream_offset)
        message.version = version
        message.values = values
        return message

    @property
    def end_ns(self) -> int | None:
        """Time of the packet with the last byte; None if that packet was lost."""
        return None if self.last_packet == NO_PACKET else self.last_ns

    @property
    def end_packet(self) -> int | None:
        """Number of the packet with the last byte; None if that packet was lost."""
        return None if self.last_packet == NO_PACKET else self.last_packet

    @property
    def version(self) -> int | None:
        """API version that the body was read as; None when it was not read."""
        return None if self.read_as == NO_VERSION else self.read_as

    @version.setter
    def version(self, version: int | None) -> None:
        self.read_as = NO_VERSION if version is None else version

    # -- what was read of the body ----------------------------------------------------------------

    @property
    def encoded_fields(self) -> EncodedFields | None:
        """The selected fields; None when the body was not decoded, or its values were set."""
        return self._encoded()

    @encoded_fields.setter
    def encoded_fields(self, encoded: EncodedFields | None) -> None:
        self.set_fields(encoded)

    def _encoded(self) -> EncodedFields | None:
        if self.cells < 0:
            return None
        assert self.reader is not None
        assert self.shape is not None
        assert self.tape is not None
        encoded = new_fields(self.reader, self.shape, self.tape)
        encoded.at, encoded.cells = self.cells_at, self.cells
        encoded.arena_at, encoded.arena_bytes = self.arena_at, self.arena_bytes
        return encoded

    def set_fields(self, encoded: EncodedFields | None) -> None:
        """Set :attr:`encoded_fields`; fast from compiled modules."""
        if encoded is None:
            self.cells = -1
            return
        self.tape, self.reader, self.shape = encoded.tape, encoded.reader, encoded.shape
        self.cells_at, self.cells = encoded.at, encoded.cells
        self.arena_at, self.arena_bytes = encoded.arena_at, encoded.arena_bytes

    def take(self, decode: BodyDecoder, read_as: int) -> None:
        """Note the fields that a decoder has left on its tape, and the version it is for."""
        machine = decode.machine
        self.tape, self.reader, self.shape = machine.tape, decode.reader, decode.shape
        self.cells_at, self.cells = machine.begin_at, machine.used
        self.arena_at, self.arena_bytes = machine.arena_begin, machine.arena_used
        self.read_as = read_as

    def move(self, tape: Tape) -> None:
        """Move what was read to another tape, which has room for it."""
        assert self.tape is not None
        at, arena_at = tape.used, tape.arena_used
        tape.add(self.tape.cells, self.cells_at, self.cells)
        tape.add_bytes(self.tape.arena, self.arena_at, self.arena_bytes)
        self.cells_at, self.arena_at, self.tape = at, arena_at, tape

    @property
    def values(self) -> Any:
        """The values of the selected fields; None when the body was not read."""
        if self._values is None:
            encoded = self.encoded_fields
            self._values = None if encoded is None else encoded.values()
        return self._values

    @values.setter
    def values(self, values: Any) -> None:
        self._values = values

    def state(self) -> State:
        """Return what :meth:`from_state` takes, without the body: see :class:`BodyStates`."""
        return (
            *(self.start_ns, self.start_packet, self.end_ns, self.end_packet, self.length),
            *(self.version, self.data, self.stream_offset),
        )

    @staticmethod
    def from_state(state: object) -> Message:
        """Make one from a state; raises ValueError for any other value."""
        start_ns, start_packet, end_ns, end_packet, length, *others = fields(state, "inINnNYi")
        version, data, offset = others
        message = Message.read(
            start_ns, start_packet, end_ns, end_packet, length, None, version, offset
        )
        message.data = data
        return message


def message_of(frame: Any) -> Message:
    """Make the message of a frame that was cut (``CutFrame`` in ``frame.pxd``)."""
    return _message(
        frame.start_ns,
        frame.start_packet,
        frame.last_ns,
        frame.last_packet,
        frame.length,
        frame.stream_offset,
    )


def _message(
    start_ns: int,
    start_packet: int,
    last_ns: int,
    last_packet: int,
    length: int,
    stream_offset: int,
) -> Message:
    message = Message.__new__(Message)
    message._begin(start_ns, start_packet, last_ns, last_packet, length, stream_offset)
    untrack(message)
    return message


class Exchange:
    """One request and its response.

    ``response`` is None if none was expected (``one_way``) and none came, and if it never came.
    ``request`` is None for a response whose request was not seen; then ``api_key`` and
    ``api_version`` are None too.

    Compiled modules read numbers: ``key`` and ``key_version`` (``NO_API`` for None),
    ``correlation`` (``NO_ID`` in Kafka 0.7), ``settled`` (``NO_PACKET`` for None).

    ``_anomalies`` is None while there are none; ``anomalies`` makes the list when first used.
    ``completed`` is the packet with which it counts as complete, once it is in ``SessionEvents``.
    """

    _NOT_SAVED = ("completed", "previous_ns")

    def __init__(
        self,
        peers: Peers,
        request: Message | None,
        response: Message | None,
        api_key: int | None,
        api_version: int | None,
        correlation_id: int | None,
        client_id: str | None,
        one_way: bool = False,
        wire: str = "kafka",
    ) -> None:
        self._begin(
            peers,
            request,
            NO_API if api_key is None else api_key,
            NO_API if api_version is None else api_version,
            NO_ID if correlation_id is None else correlation_id,
            client_id,
        )
        self.response = response
        self.one_way = one_way
        """No response is expected: Produce with acks=0."""
        self.wire = wire
        """``kafka`` or ``kafka-0.7``: which protocol's keys and values these are."""

    def _begin(
        self,
        peers: Peers,
        request: Message | None,
        key: int,
        key_version: int,
        correlation: int,
        client_id: str | None,
    ) -> None:
        self.peers = peers
        """The ends, as known when the request was read; for a response alone, when that was."""
        self.request = request
        self.response = None
        self.key = key
        self.key_version = key_version
        self.correlation = correlation
        self.client_id = client_id
        self.one_way = False
        self.malformed = False
        """A body could not be read: it breaks its grammar, or bytes of it are missing."""
        self._anomalies: list[AnomalyKind] | None = None
        self.lost_ns: int | None = None
        """When bytes were last missing before the request or the response in its stream; None if
        none were, or without a response."""
        self.settled = NO_PACKET
        self.completed = 0
        self.previous_ns = 0
        """When the response before this one ended; 0 if there was none, if its end was lost, or if
        responses do not come in the order of their requests."""
        self.wire = "kafka"

    @property
    def api_key(self) -> int | None:
        """The API; None if it is not known."""
        return None if self.key == NO_API else self.key

    @api_key.setter
    def api_key(self, api_key: int | None) -> None:
        self.key = NO_API if api_key is None else api_key

    @property
    def api_version(self) -> int | None:
        """The version of the request; None if it is not known."""
        return None if self.key_version == NO_API else self.key_version

    @api_version.setter
    def api_version(self, api_version: int | None) -> None:
        self.key_version = NO_API if api_version is None else api_version

    @property
    def correlation_id(self) -> int | None:
        """The id that request and response share; None in Kafka 0.7, which has none."""
        return None if self.correlation == NO_ID else self.correlation

    @property
    def settled_packet(self) -> int | None:
        """The packet that showed that no response comes; None if its own packets completed it."""
        return None if self.settled == NO_PACKET else self.settled

    @settled_packet.setter
    def settled_packet(self, packet: int | None) -> None:
        self.settled = NO_PACKET if packet is None else packet

    @property
    def anomalies(self) -> list[AnomalyKind]:
        """The kinds of the exchange's anomalies."""
        if self._anomalies is None:
            self._anomalies = []
        return self._anomalies

    @anomalies.setter
    def anomalies(self, kinds: list[AnomalyKind]) -> None:
        self._anomalies = kinds

    def state(self, owner: ExchangeOwner) -> State:
        """Return what :meth:`from_state` takes."""
        bodies, api_key = owner.body_states, self.api_key
        request, response = self.request, self.response
        return (
            *(self.wire, api_key, self.api_version, self.correlation_id, self.client_id),
            *(self.one_way, self.malformed, self.lost_ns, self.settled_packet),
            tuple([kind.value for kind in self._anomalies or ()]),
            save(self.peers),
            None if request is None else request.state(),
            None if request is None else bodies.body_state(request, api_key, "request"),
            None if response is None else response.state(),
            None if response is None else bodies.body_state(response, api_key, "response"),
        )

    @classmethod
    def from_state(cls, state: object, owner: ExchangeOwner) -> Exchange:
        """Make one from a state; raises ValueError for any other value."""
        values = fields(state, "sIIISbbINttTTTT")
        wire, api_key, api_version, correlation_id, client_id = values[:5]
        anomalies, names, *messages = values[9:]
        if wire not in _WIRES or not (_is_int16(api_key) and _is_int16(api_version)):
            raise ValueError("no API")
        if not _is_int32(correlation_id):
            raise ValueError("a correlation id of more than 32 bits")
        exchange = cls(
            *(owner.peers.named(names), None, None, api_key, api_version, correlation_id),
            *(client_id, values[5], wire),
        )
        exchange.malformed, exchange.lost_ns, exchange.settled_packet = values[6:9]
        exchange.anomalies = [kind_of(kind) for kind in items(anomalies, "s")]
        if messages[0] is not None:
            request = exchange.request = Message.from_state(messages[0])
            owner.body_states.load_body_state(request, messages[1], api_key, "request")
        if messages[2] is not None:
            response = exchange.response = Message.from_state(messages[2])
            owner.body_states.load_body_state(response, messages[3], api_key, "response")
        return exchange


_WIRES = ("kafka", "kafka-0.7")


def _is_int16(number: int | None) -> bool:
    return number is None or -(1 << 15) <= number < 1 << 15


def _is_int32(number: int | None) -> bool:
    return number is None or -(1 << 31) <= number < 1 << 31


def exchange_of(
    peers: Peers,
    request: Message | None,
    key: int,
    key_version: int,
    correlation: int,
    client_id: str | None,
) -> Exchange:
    """Make an :class:`Exchange` that has no response yet; fast from compiled modules."""
    exchange = Exchange.__new__(Exchange)
    exchange._begin(peers, request, key, key_version, correlation, client_id)
    untrack(exchange)
    return exchange
