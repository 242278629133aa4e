"""All stages in a row: captures in, rows out.

In: names of captures (or open binary files). Out: batches of rows, then what the capture was like.
This module must not know what becomes of the rows; it is the one place where the stages are put
together.

    bytes -> PacketBatch -> StreamUpdate -> Exchange -> Row

Nothing is held but what open connections need: a capture ten times as long takes no more memory.

A topic's name holds for the whole capture, also where it is told after its id was used. Where all
inputs are files, the first id without a name starts a search through them that reads names and
nothing else; a capture that begins with its connections never needs one. What comes through a pipe
or an open file is read once, and there a name holds from where it is told.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from kanalyze.analysis.extract import Extractors
from kanalyze.analysis.filters import RowFilter, parse_broker
from kanalyze.analysis.name_search import NameReader
from kanalyze.analysis.quality import CaptureQuality
from kanalyze.analysis.rows import RowMaker
from kanalyze.analysis.topics import TopicNames
from kanalyze.capture.inputs import find_captures
from kanalyze.capture.reader import open_capture
from kanalyze.connection.reader import MessageReader
from kanalyze.connection.tracker import BrokerSide, ConnectionTracker
from kanalyze.errors import UsageError
from kanalyze.net.reassembly import Reassembler
from kanalyze.protocol.catalog import Catalog
from kanalyze.protocol.compiler import Decoders

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.analysis.row import Row
    from kanalyze.capture.reader import CaptureReader
    from kanalyze.connection.exchange import Exchange
    from kanalyze.connection.kafka import Keep
    from kanalyze.model import Anomaly, PacketBatch, StreamUpdate

__all__ = ["Analysis", "CaptureInput"]

_ROWS_AT_ONCE = 2048
"""A row is some kilobytes of Python objects; a batch of small packets holds ten thousand."""

CaptureInput: TypeAlias = str | BinaryIO
"""A path, a folder, a glob, ``-`` for standard input; or a binary file, read from where it is."""


class Analysis:
    """One pass over captures that are one stream of packets.

    Iterate :meth:`row_batches` once; then ``quality`` is complete.
    """

    def __init__(
        self,
        captures: Sequence[CaptureInput],
        *,
        row_filter: RowFilter | None = None,
        ports: Sequence[int] = (),
        brokers: Sequence[str] = (),
        keep: Keep | None = None,
        topic_ids: Mapping[bytes, str] | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        """Set up the stages; nothing is opened yet.

        Args:
            captures: what to read; several are taken in the order of their first packets.
            row_filter: which rows to give; None gives all.
            ports: an end with one of these TCP ports is a broker, whatever its bytes look like.
            brokers: ``IP`` or ``IP:PORT`` of ends that are brokers.
            keep: tells of an API key whether ``Message.data`` is to hold the bytes of its
                messages; for those who read more of them than a row needs. Those of Kafka 0.7
                are never kept.
            topic_ids: names of topics by their 16-byte id, for those that the capture tells none.
            catalog: what Kafka speaks; None for what is built in.

        Raises:
            UsageError: a port or a broker makes no sense.
        """
        self._captures = tuple(captures)
        self._filter = RowFilter() if row_filter is None else row_filter
        catalog = Catalog() if catalog is None else catalog
        extractors = Extractors(catalog)
        self._places = _Places()
        self._catalog = catalog
        self._inputs: list[CaptureInput] = []
        self._is_broker = _broker_side(ports, brokers)
        names = TopicNames(self._search_names)
        for topic_id, name in (topic_ids or {}).items():
            names.learn(topic_id, name)
        self._rows = RowMaker(catalog, extractors, self._places, names)
        self._reassembler = Reassembler()
        self._tracker = ConnectionTracker(
            MessageReader(catalog, Decoders(catalog), extractors.wanted),
            catalog,
            is_broker=self._is_broker,
            keep=keep,
        )
        self._reader: CaptureReader | None = None
        self._read_before = 0
        self._total_bytes: int | None = None
        self._started = False
        self.quality = CaptureQuality()

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all; None where an input is a pipe."""
        reader = self._reader  # once: a progress bar asks from another thread
        here = 0 if reader is None else reader.bytes_read
        return self._read_before + here, self._total_bytes

    def row_batches(self) -> Iterator[list[Row]]:
        """Give the rows, in batches, each in the order in which its exchanges ended.

        Raises:
            CaptureError: an input is missing or is no capture.
        """
        for pairs in self.exchange_batches():
            yield [row for _, row in pairs]

    def exchange_batches(self) -> Iterator[list[tuple[Exchange, Row]]]:
        """Give the exchanges with their rows; otherwise as :meth:`row_batches`."""
        if self._started:
            raise UsageError("an analysis can be run once; make another one")
        self._started = True
        self._inputs = _inputs(self._captures)
        self._total_bytes = _total_bytes(self._inputs)
        for item in self._inputs:
            yield from self._capture(item)
        yield from self._emit(self._reassembler.finish())
        self._finish()

    # -- stages -----------------------------------------------------------------------------------

    def _capture(self, item: CaptureInput) -> Iterator[list[tuple[Exchange, Row]]]:
        with open_capture(item) as reader:
            self._reader = reader
            name = item if isinstance(item, str) else reader.name
            self.quality.captures.append(name)
            first_number = self._places.begin(name)
            for batch in reader.batches(first_number):
                self._places.packets += len(batch)
                self._count_packets(batch)
                yield from self._emit(self._reassembler.feed(batch))
            self._count(reader.anomalies)
            if reader.dropped_packets is not None:
                before = self.quality.dropped_packets or 0
                self.quality.dropped_packets = before + reader.dropped_packets
            self._read_before += reader.bytes_read
            self._reader = None

    def _emit(self, updates: Iterable[StreamUpdate]) -> Iterator[list[tuple[Exchange, Row]]]:
        exchanges: list[Exchange] = []
        for update in updates:
            exchanges.extend(self._tracker.feed(update))
            if update.closed:
                self._count_connection(update)
        self._count(self._tracker.take_anomalies())
        self._count(self._reassembler.take_anomalies())
        # Connections are worked on one after the other; their exchanges are given in the order
        # in which they ended on the wire.
        exchanges.sort(key=_ended)
        for first in range(0, len(exchanges), _ROWS_AT_ONCE):
            some = exchanges[first : first + _ROWS_AT_ONCE]
            pairs = [(exchange, self._rows.row(exchange)) for exchange in some]
            if not self._filter.passes_all:
                pairs = [pair for pair in pairs if self._filter.matches(pair[1])]
            if pairs:
                yield pairs

    def _search_names(self) -> Iterator[tuple[bytes, str]]:
        """Give all that the inputs call topic ids, if they can be read twice."""
        if self._total_bytes is None:
            return
        names, reassembler = NameReader(self._catalog), Reassembler()
        reader = MessageReader(self._catalog, Decoders(self._catalog), names.wanted)
        tracker = ConnectionTracker(reader, self._catalog, is_broker=self._is_broker)
        for update in _updates(self._inputs, reassembler):
            for exchange in tracker.feed(update):
                yield from names.names(exchange)
            tracker.take_anomalies()

    # -- counting ---------------------------------------------------------------------------------

    def _count_packets(self, batch: PacketBatch) -> None:
        quality = self.quality
        quality.packets += len(batch)
        quality.captured_bytes += int(batch.captured_bytes.sum())
        quality.wire_bytes += int(batch.wire_bytes.sum())
        first, last = int(batch.time_ns.min()), int(batch.time_ns.max())
        if quality.first_time_ns is None or first < quality.first_time_ns:
            quality.first_time_ns = first
        if quality.last_time_ns is None or last > quality.last_time_ns:
            quality.last_time_ns = last

    def _count_connection(self, update: StreamUpdate) -> None:
        tcp = update.connection
        again = sum(tcp.retransmitted_bytes)
        self.quality.connections += 1
        self.quality.payload_bytes += sum(tcp.payload_bytes) - again
        self.quality.retransmitted_bytes += again
        self.quality.out_of_order_packets += sum(tcp.out_of_order_packets)

    def _count(self, anomalies: Iterable[Anomaly]) -> None:
        for anomaly in anomalies:
            self.quality.count_anomaly(anomaly.kind, anomaly.length or 0)

    def _finish(self) -> None:
        quality, net, seen = self.quality, self._reassembler.counters, self._tracker.counts
        quality.tcp_packets = net.tcp_segments
        unreadable = net.cut_headers + net.bad_ip_headers + net.bad_tcp_headers
        quality.unreadable_packets = unreadable + sum(net.unknown_link_type.values())
        quality.not_tcp_packets = quality.packets - net.tcp_segments - quality.unreadable_packets
        quality.kafka_connections = seen.kafka
        quality.tls_connections = seen.tls
        quality.other_connections = seen.other
        quality.kafka_bytes = seen.kafka_bytes
        quality.decoded_bytes = seen.decoded_bytes
        quality.undecoded_bytes = seen.undecoded_bytes
        quality.skipped_bytes = seen.skipped_bytes
        quality.lost_bytes = net.lost_bytes


class _Places:
    """Which capture a packet is in: numbers rise over all inputs, Wireshark's begin anew."""

    def __init__(self) -> None:
        self._first_numbers: list[int] = []
        self._names: list[str] = []
        self.packets = 0

    def begin(self, name: str) -> int:
        """Begin the next capture; return the number of its first packet over the whole input."""
        self._names.append(name)
        self._first_numbers.append(self.packets + 1)
        return self.packets + 1

    def __call__(self, number: int) -> tuple[str, int]:
        """Return the capture of a packet and its number in it, from 1."""
        index = bisect_right(self._first_numbers, number) - 1
        return self._names[index], number - self._first_numbers[index] + 1


def _updates(inputs: Iterable[CaptureInput], reassembler: Reassembler) -> Iterator[StreamUpdate]:
    """Give what the packets of all inputs add to their connections."""
    packets = 0
    for item in inputs:
        with open_capture(item) as reader:
            for batch in reader.batches(packets + 1):
                packets += len(batch)
                yield from reassembler.feed(batch)
                reassembler.take_anomalies()
    yield from reassembler.finish()


def _ended(exchange: Exchange) -> int:
    message = exchange.response or exchange.request
    if message is None:
        return 0
    return message.start_packet if message.end_packet is None else message.end_packet


def _inputs(captures: Sequence[CaptureInput]) -> list[CaptureInput]:
    if not captures:
        raise UsageError("no capture given")
    names = [item for item in captures if isinstance(item, str)]
    files: list[CaptureInput] = [item for item in captures if not isinstance(item, str)]
    return [*(find_captures(names) if names else []), *files]


def _total_bytes(inputs: Sequence[CaptureInput]) -> int | None:
    """Return the size of all inputs; None when one is not a file."""
    total = 0
    for item in inputs:
        if not isinstance(item, str) or not Path(item).is_file():
            return None
        total += Path(item).stat().st_size
    return total


def _broker_side(ports: Sequence[int], brokers: Sequence[str]) -> BrokerSide | None:
    for port in ports:
        if not 0 < port < 65536:
            raise UsageError(f"not a TCP port: {port}")
    if not ports and not brokers:
        return None
    wanted_ports = frozenset(ports)
    addresses = [parse_broker(text) for text in brokers]

    def is_broker(ip: str, port: int) -> bool:
        return port in wanted_ports or any(
            ip == address.ip and address.port in (None, port) for address in addresses
        )

    return is_broker
