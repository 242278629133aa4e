"""A dialogue between a client and a broker, as TCP streams: the messages of both, in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.model.streams import Gap, StreamUpdate
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.tables.requests.extract import Extractors
from tests.support.streams import TIME_NS, chunk

if TYPE_CHECKING:
    from kanalyze.kafka.session.detection import BrokerSide
    from kanalyze.kafka.session.events import ConnectionSummary
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.streams import StreamItem

CLIENT, BROKER = 0, 1


class Talk:
    """One TCP connection fed to a tracker; packet n is sent at TIME_NS + n.

    ``exchanges``, ``anomalies`` and ``summaries`` hold the results so far.
    """

    def __init__(
        self,
        *,
        opened_by: int | None = CLIENT,
        tracker: ConnectionTracker | None = None,
        is_broker: BrokerSide | None = None,
    ) -> None:
        self.catalog = Catalog()
        extractors = Extractors(self.catalog)
        self.reader = MessageReader(self.catalog, Decoders(self.catalog), extractors.needed_fields)
        self.tracker = tracker or ConnectionTracker(self.reader, self.catalog, is_broker=is_broker)
        ends = (Endpoint("10.0.0.1", 50000), Endpoint("10.0.0.2", 9092))
        self.tcp = TcpConnection(1, ends, 1, opened_by, TIME_NS, TIME_NS)
        self.tcp.start_seen = (opened_by is not None,) * 2
        self.packet = 0
        self.offsets = [0, 0]
        self.exchanges: list[Exchange] = []
        self.anomalies: list[Anomaly] = []
        self.summaries: list[ConnectionSummary] = []
        self.closed_clients: dict[int, int | None] = {}

    def says(self, side: int, *messages: bytes, snap: int | None = None) -> Talk:
        """One side sends each message as a packet; they come in one batch."""
        data = b"".join(messages)
        item = chunk(
            messages, stream_offset=self.offsets[side], first_packet=self.packet + 1, snap=snap
        )
        self.packet += len(messages)
        self.tcp.packets = counted(self.tcp.packets, side, len(messages))
        self.tcp.payload_bytes = counted(self.tcp.payload_bytes, side, len(data))
        self.offsets[side] += len(data)
        return self.feed(side, item)

    def client(self, *messages: bytes, snap: int | None = None) -> Talk:
        return self.says(CLIENT, *messages, snap=snap)

    def broker(self, *messages: bytes, snap: int | None = None) -> Talk:
        return self.says(BROKER, *messages, snap=snap)

    def loses(self, side: int, length: int) -> Talk:
        """Bytes of one side are not in the capture."""
        gap = Gap(self.offsets[side], length, TIME_NS + self.packet, self.packet + 1)
        self.offsets[side] += length
        return self.feed(side, gap)

    def at_once(self, *turns: tuple[int, bytes]) -> Talk:
        """All of this comes in one batch, in this order."""
        items: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        for side, data in turns:
            self.packet += 1
            item = chunk([data], stream_offset=self.offsets[side], first_packet=self.packet)
            items[side].append(item)
            self.offsets[side] += len(data)
        return self._update(StreamUpdate(self.tcp, items, closed=False))

    def feed(self, side: int, item: StreamItem) -> Talk:
        items: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        items[side].append(item)
        return self._update(StreamUpdate(self.tcp, items, closed=False))

    def close(self) -> Talk:
        return self._update(StreamUpdate(self.tcp, ([], []), closed=True))

    def pairs(self) -> list[tuple[int | None, int | None, int | None]]:
        """(correlation id, request packet, response packet) of every exchange so far."""
        return [
            (
                exchange.correlation_id,
                exchange.request.start_packet if exchange.request else None,
                exchange.response.start_packet if exchange.response else None,
            )
            for exchange in self.exchanges
        ]

    def kinds(self) -> list[str]:
        """The kinds of the anomalies so far."""
        return [anomaly.kind.value for anomaly in self.anomalies]

    def _update(self, update: StreamUpdate) -> Talk:
        events = self.tracker.feed([update])
        self.exchanges += events.exchanges
        self.anomalies += events.anomalies
        self.summaries += events.summaries
        self.closed_clients |= events.closed_clients
        return self


def counted(numbers: tuple[int, int], side: int, more: int) -> tuple[int, int]:
    """Return the numbers of both ends with more of one side."""
    first, second = numbers
    return (first, second + more) if side else (first + more, second)
