"""All stages in a row: captures in, rows out.

In: names of captures (or open binary files). Out: batches of rows (of requests, of connections, or
of anomalies), then what the capture was like. This module must not know what becomes of the rows;
it is the one place where the stages are put together.

    bytes -> PacketBatch -> StreamUpdate -> Exchange -> Row

Nothing is held but what open connections need: a capture ten times as long takes no more memory.

A topic's name holds for the whole capture, also where it is told after its id was used. Where all
inputs are files, the first id without a name starts a search through them that reads names and
nothing else; a capture that begins with its connections never needs one. What comes through a pipe
or an open file is read once, and there a name holds from where it is told.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from kanalyze.capture.inputs import find_inputs, look_at
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.listing import FoundCapture
from kanalyze.capture.merge import MergedCaptures
from kanalyze.common.argument_values import shown
from kanalyze.errors import UsageError
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.connection_summary import ConnectionCounts
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.net.shard import EVERYTHING, Share
from kanalyze.runtime.one_pass import quality_of_end, read_steps
from kanalyze.runtime.stages import DEFAULT_MEMORY_BYTES, MemoryBounds, Stages
from kanalyze.runtime.workers import Task, Workers, usable_workers
from kanalyze.statistics.in_flight import InFlight, in_flight
from kanalyze.tables.filters import RowFilter, parse_broker
from kanalyze.tables.quality import DOUBTS, CaptureQuality
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.long_polls import HELD_BACK_APIS, may_be_held_back
from kanalyze.tables.requests.name_search import NameReader
from kanalyze.tables.requests.row_assembler import RowBuilder
from kanalyze.tables.requests.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kanalyze.capture.merge import MergeInput
    from kanalyze.kafka.session.connection_summary import ConnectionSummary
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.message_bodies import KeepsBytes
    from kanalyze.kafka.session.undecided import BrokerSide
    from kanalyze.model.anomalies import Anomaly, AnomalyKind
    from kanalyze.model.streams import TokenBytes
    from kanalyze.runtime.stages import BatchEvents, Captures
    from kanalyze.tables.anomalies import AnomalyRow
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.connections import ConnectionRow
    from kanalyze.tables.row import Row

__all__ = ["Analysis", "CaptureInput", "broker_side"]

CaptureInput: TypeAlias = str | os.PathLike[str] | FoundCapture | BinaryIO
"""A path, a folder, a glob, a URL, ``-`` for standard input; a capture that was found before; or a
binary file, read from where it is."""


class Analysis:
    """One pass over captures that are one stream of packets.

    Iterate one of :meth:`row_batches`, :meth:`exchange_batches`, :meth:`connection_batches` and
    :meth:`anomaly_batches`, once; then ``quality`` is complete.
    """

    def __init__(
        self,
        captures: Sequence[CaptureInput],
        *,
        row_filter: RowFilter | None = None,
        ports: Sequence[int] = (),
        brokers: Sequence[str] = (),
        keep: KeepsBytes | None = None,
        topic_ids: Mapping[bytes, str] | None = None,
        catalog: Catalog | None = None,
        max_memory_bytes: int = DEFAULT_MEMORY_BYTES,
        jobs: int = 1,
        share: Share = EVERYTHING,
        source: Captures | None = None,
        idle_ns: int | None = None,
        leave_out: Callable[[Anomaly], object] | None = None,
        on_tokens: Callable[[Sequence[TokenBytes]], None] | None = None,
    ) -> None:
        """Set up the stages; nothing is opened yet.

        Args:
            captures: what to read; several are one stream of packets in the order of their times.
            row_filter: which rows to give; None gives all.
            ports: an end with one of these TCP ports is a broker, whatever its bytes look like.
            brokers: ``IP`` or ``IP:PORT`` of ends that are brokers.
            keep: tells of an API key whether ``Message.data`` is to hold the bytes of its
                messages; for those who read more of them than a row needs. Those of Kafka 0.7
                are never kept.
            topic_ids: names of topics by their 16-byte id, for those that the capture tells none.
            catalog: what Kafka speaks; None for what is built in.
            max_memory_bytes: how much may be held of connections; see
                :class:`~kanalyze.runtime.stages.MemoryBounds`.
            jobs: how many processes may read for :meth:`batches`; the rows are the same. Used for
                files that are large enough for it to pay.
            share: which connections to give rows of. The rows of all shares together are those of
                one analysis, also where a connection goes on in another capture: each share reads
                all packets. What belongs to no connection comes with the first. One process reads
                a share, whatever ``jobs`` is.
            source: what is read in place of ``captures``.
            idle_ns: silence after which a connection is given up, and its requests without a
                response with it; None for never. For what has no end. One process heeds it.
            leave_out: is told of each file in a folder that cannot be read, as
                :func:`~kanalyze.capture.inputs.find_inputs` does. It is counted in any case.
            on_tokens: is told by :meth:`batches`, before the rows of the same packets, where in
                streams there are tokens that somebody logs in with. By one process.

        Raises:
            UsageError: a port, a broker, the memory or the jobs make no sense.
        """
        self._given = tuple(map(_capture, captures))
        self._filter = RowFilter() if row_filter is None else row_filter
        self._catalog = Catalog() if catalog is None else catalog
        self._extractors = Extractors(self._catalog)
        self._is_broker = broker_side(ports, brokers)
        self._keep = keep
        if not isinstance(jobs, int) or jobs < 1:
            raise UsageError(f"not a number of jobs: {shown(jobs)}")
        self._jobs = jobs if share.count == 1 else 1
        self._share = share
        self._source = source
        self._idle_ns = idle_ns
        self._leave_out = leave_out
        self._left_out: list[Anomaly] = []
        """Files in folders that cannot be read."""
        self._on_tokens = on_tokens
        self._workers: Workers | None = None
        self._running: Stages | None = None
        self._memory = MemoryBounds.of(max_memory_bytes)
        self._topic_ids = dict(topic_ids or {})
        self._stores = Stores()
        self._inputs: list[MergeInput] = []
        self._captures: Captures | None = None
        self._started: Captures | None = None
        """What :meth:`batches` is to read, where that was started before."""
        self.quality = CaptureQuality()
        self.carried = b""
        """What stayed open; see :meth:`found_batches`."""
        self._kept: Stages | None = None
        """With what stayed open."""
        self.names = TopicNames()
        """What topic ids were called, and which nobody named; complete with the rows."""

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all; None where an input is a pipe."""
        # Once each: a progress bar asks from another thread.
        captures, workers = self._captures, self._workers
        if workers is not None:
            return workers.progress
        return (0, None) if captures is None else captures.progress

    def batches(self) -> Iterator[RowBlock]:
        """Give the rows by column, in blocks, each in the order in which its exchanges ended.

        Raises:
            CaptureError: an input is missing or is no capture.
        """
        if self._started is None:
            self.start()
        captures, self._started = self._started, None
        assert captures is not None
        if self._workers is None:
            found = self._own_blocks(captures)
        else:
            found = self._workers_blocks(self._workers)
        yield from self._wanted(found)

    def _own_blocks(self, captures: Captures) -> Iterator[RowBlock]:
        """Give all rows, read by this process."""
        self.names = self._new_names()
        builder = self._row_builder(captures.place, self.names)
        stages = self._running = self._share_stages(self._share)
        for step in read_steps(stages, captures, self.quality, self._share):
            if self._on_tokens is not None and step.token_bytes:
                self._on_tokens(step.token_bytes)
            yield from self._blocks(step, builder)
        # What it counted is in the quality now.
        self._running = None

    def _workers_blocks(self, workers: Workers) -> Iterator[RowBlock]:
        """Give all rows, read by workers."""
        self.names = self._new_names()
        yield from workers.blocks(self.names)
        self.quality.merge(workers.quality)

    def found_batches(
        self, carried: bytes | None = None, *, keeps_open: bool = False
    ) -> Iterator[tuple[list[RowBlock], list[AnomalyRow]]]:
        """Give the rows with the anomalies, those of captures left out; as :meth:`batches`.

        Args:
            carried: what an analysis before this one, of captures before these, left open.
            keeps_open: let connections stay open at the end, in :attr:`carried`.

        Raises:
            StateError: ``carried`` is not from an analysis like this one.
        """
        from kanalyze.runtime.state import (  # not for those who read captures to their end
            freeze,
            thaw,
        )

        captures = self._begin()
        self.names = self._new_names()
        builder = self._row_builder(captures.place, self.names)
        stages = self._stages(every_anomaly=True, share=self._share)
        if carried is not None:
            thaw(carried, stages, builder)
            stages.count_anew()
        steps = read_steps(stages, captures, self.quality, self._share, ends=not keeps_open)
        for step in steps:
            for block in self._wanted(self._blocks(step, builder)):
                yield [block], []
            yield [], self._anomaly_rows(step.anomalies, stages, captures)
        if keeps_open:
            self.carried = freeze(stages, builder)
            self._kept = stages

    def take_open_quality(self) -> CaptureQuality:
        """Return what would be added to ``quality`` if all that stayed open ended now; once."""
        kept, self._kept = self._kept, None
        return CaptureQuality() if kept is None else quality_of_end(kept)

    def _wanted(self, blocks: Iterable[RowBlock]) -> Iterator[RowBlock]:
        """Give the rows that are wanted; no block is empty."""
        for block in blocks:
            wanted = block if self.row_filter.passes_all else self.row_filter.matching(block)
            if len(wanted):
                yield wanted

    @staticmethod
    def _blocks(step: BatchEvents, builder: RowBuilder) -> Iterator[RowBlock]:
        """Give the rows of a step, no more at a time than may be held."""
        first = 0
        while first < len(step.exchanges):
            first = builder.add_until_full(step.exchanges, first)
            yield builder.take()

    def start(self) -> None:
        """Begin with :meth:`batches`, which does this itself where it was not done before.

        Where there are to be workers they begin to read now.

        Raises:
            CaptureError: an input is missing.
            OSError: the system does not give as many processes.
        """
        captures = self._started = self._begin()
        total_bytes = captures.progress[1] if captures.can_be_read_again else None
        count = usable_workers(self._jobs, total_bytes)
        if count > 1:
            stages, builder = self._share_stages, self._row_builder
            task = Task(self._inputs, self._stores, stages, builder, self._topic_ids)
            self._workers = Workers(task, count)

    def close(self) -> None:
        """End what :meth:`start` began, wherever it is; to be called any time."""
        if self._workers is not None:
            self._workers.close()

    def _share_stages(self, share: Share) -> Stages:
        return self._stages(share=share)

    @property
    def open_connections(self) -> int:
        """TCP connections that are open where :meth:`batches` stands, in one process."""
        return 0 if self._running is None else self._running.open_connections

    @property
    def begun_connections(self) -> int:
        """TCP connections seen up to where :meth:`batches` stands, in one process."""
        return self.quality.connections + self.open_connections

    @property
    def held_bytes(self) -> int:
        """Bytes held of open connections where :meth:`batches` stands, in one process."""
        return 0 if self._running is None else self._running.held_bytes

    def in_flight(self, before_ns: int) -> InFlight:
        """Return which requests wait for their response where :meth:`batches` stands.

        In one process; with several it is not known, and none do. What a broker may hold back on
        purpose is not among the oldest: a fetch as long as it says itself, and what waits for the
        members of a group.

        Args:
            before_ns: Unix time; of later requests some may be left out.
        """
        exchanges = () if self._running is None else self._running.in_flight(before_ns)
        return in_flight(
            exchanges, self._api_name, lambda exchange: self._may_be_waiting(exchange, before_ns)
        )

    def _may_be_waiting(self, exchange: Exchange, now_ns: int) -> bool:
        """Tell whether a broker may hold back the answer to a request at a time."""
        request, api_key = exchange.request, exchange.api_key
        if request is None or exchange.wire != "kafka" or api_key not in HELD_BACK_APIS:
            return False
        if request.start_ns >= now_ns:  # as nearly all; the others are looked into
            return True
        facts = self._extractors.facts(api_key, request.taped, None)
        return may_be_held_back(api_key, facts, start_ns=request.start_ns, now_ns=now_ns)

    def _api_name(self, api_key: int) -> str | None:
        api = self._catalog.api(api_key)
        return None if api is None else api.name

    def doubts(self) -> dict[str, Any]:
        """Return which connections came to nothing or are not read, and what data was discarded.

        Up to where :meth:`batches` stands, in one process, open connections among them: the fields
        of the quality whose names are in :data:`DOUBTS`.
        """
        so_far = CaptureQuality()
        so_far.merge(self.quality)
        if self._running is not None:
            unknown = ConnectionCounts()
            for tcp in self._running.open_tcp():
                so_far.count_attempt(tcp)
                if self._running.is_unknown(tcp):
                    unknown.count_unknown(tcp)
            so_far.count_ports(self._running.counts)
            so_far.count_ports(unknown)
            so_far.count_discarded(self._running.net)
        told = so_far.to_dict()
        return {name: told[name] for name in DOUBTS}

    def count_anomalies(self) -> dict[AnomalyKind, int]:
        """Return how often each kind was met up to where :meth:`batches` stands, in one process.

        Those of the captures themselves are among them at the end.
        """
        counts = {kind: total.count for kind, total in self.quality.anomalies.items()}
        if self._running is not None:
            for kind, count in self._running.net.anomalies.items():
                counts[kind] = counts.get(kind, 0) + count
        return counts

    def row_batches(self) -> Iterator[list[Row]]:
        """Give the rows as objects; otherwise as :meth:`batches`."""
        for block in self.batches():
            for piece in block.pieces():
                yield piece.rows()

    def exchange_batches(self) -> Iterator[list[tuple[Exchange, Row]]]:
        """Give the exchanges with their rows, all as objects; otherwise as :meth:`batches`."""
        for exchanges, block in self.exchange_blocks():
            yield list(zip(exchanges, block.rows(), strict=True))

    def exchange_blocks(self) -> Iterator[tuple[list[Exchange], RowBlock]]:
        """Give the exchanges with the block of their rows; otherwise as :meth:`batches`.

        No more rows at a time than may be held as objects.
        """
        captures = self._begin()
        self.names = self._new_names()
        builder = self._row_builder(captures.place, self.names)
        stages = self._stages(share=self._share)
        for step in read_steps(stages, captures, self.quality, self._share):
            exchanges = iter(step.exchanges)
            for block in self._blocks(step, builder):
                for piece in block.pieces():
                    of_piece = list(islice(exchanges, len(piece)))
                    numbers = self.row_filter.numbers(piece)
                    if len(numbers) == len(piece):
                        yield of_piece, piece
                    elif numbers:
                        yield [of_piece[number] for number in numbers], piece.take(numbers)

    def _new_names(self) -> TopicNames:
        names = TopicNames(self._search_names)
        for topic_id, name in self._topic_ids.items():
            names.learn(topic_id, name)
        return names

    def _row_builder(
        self, place: Callable[[int], tuple[str, int | None]], names: TopicNames
    ) -> RowBuilder:
        # Who stands for captures may leave out packets, and number the others.
        are_all_numbered = self._source is None
        return RowBuilder(
            self._catalog, self._extractors, place, names, are_all_numbered=are_all_numbered
        )

    def connection_batches(self) -> Iterator[list[ConnectionRow]]:
        """Give a row for each TCP connection, in batches, in the order in which they ended.

        Of the filter, what concerns clients, brokers and times holds. Raises as
        :meth:`row_batches`.
        """
        captures = self._begin()
        stages = self._stages(connections=True, share=self._share)
        for step in read_steps(stages, captures, self.quality, self._share):
            rows = [self._connection_row(ended, captures) for ended in step.summaries]
            wanted = [row for row in rows if self.row_filter.matches_connection(row)]
            if wanted:
                yield wanted

    def anomaly_batches(self) -> Iterator[list[AnomalyRow]]:
        """Give a row for each anomaly, in batches, as they are found.

        Of the filter, what concerns clients, brokers and times holds. Raises as
        :meth:`row_batches`.
        """
        captures = self._begin()
        stages = self._stages(every_anomaly=True, share=self._share)
        if self._left_out:
            rows = self._anomaly_rows(self._left_out, stages, captures)
            yield from [rows] if rows else []
        said = 0
        for step in read_steps(stages, captures, self.quality, self._share):
            of_captures = captures.anomalies[said:] if self._share.is_first else []
            said = len(captures.anomalies)
            wanted = self._anomaly_rows([*of_captures, *step.anomalies], stages, captures)
            if wanted:
                yield wanted

    def _anomaly_rows(
        self, anomalies: Sequence[Anomaly], stages: Stages, captures: Captures
    ) -> list[AnomalyRow]:
        rows = [self._anomaly_row(anomaly, stages, captures) for anomaly in anomalies]
        return [row for row in rows if self.row_filter.matches_anomaly(row)]

    @property
    def row_filter(self) -> RowFilter:
        """Which rows are given; where it has times of day, on the day of the first packet."""
        if self._filter.needs_day and (first_ns := self._first_time_ns()) is not None:
            self._filter = self._filter.on_day_of(first_ns)
        return self._filter

    def _first_time_ns(self) -> int | None:
        """Return the time of the first packet; None where there is none, or none so far."""
        if self._captures is None or not self._captures.can_be_read_again:
            return self.quality.first_time_ns
        named = (each for each in self._inputs if isinstance(each, FoundCapture))
        times = (look_at(each, self._stores).first_time_ns for each in named)
        return next((time_ns for time_ns in times if time_ns is not None), None)

    # -- stages -----------------------------------------------------------------------------------

    def _begin(self) -> Captures:
        """Find the inputs; to be done once."""
        if self._captures is not None:
            raise UsageError("an analysis can be run once; make another one")
        if self._source is not None:
            self._captures = self._source
            return self._source
        self._inputs = self._find_inputs()
        self._captures = MergedCaptures(self._inputs, stores=self._stores)
        return self._captures

    def _find_inputs(self) -> list[MergeInput]:
        if not self._given:
            raise UsageError("no capture given")
        names = [item for item in self._given if isinstance(item, str)]
        files = [item for item in self._given if not isinstance(item, str)]
        found = find_inputs(names, self._stores, self._pass_over) if names else []
        return [*found, *files]

    def _pass_over(self, anomaly: Anomaly) -> None:
        """Take note of a file that is not read; who reads a share leaves that to the first one."""
        if self._share.is_first:
            self._left_out.append(anomaly)
            self.quality.count_anomaly(anomaly.kind)
            if self._leave_out is not None:
                self._leave_out(anomaly)

    def _stages(
        self,
        *,
        connections: bool = False,
        every_anomaly: bool = False,
        share: Share = EVERYTHING,
    ) -> Stages:
        return Stages(
            MessageReader(self._catalog, Decoders(self._catalog), self._extractors.wanted),
            self._catalog,
            is_broker=self._is_broker,
            keep=self._keep,
            memory=self._memory.of_share(share.count),
            connections=connections,
            every_anomaly=every_anomaly,
            share=share,
            idle_ns=self._idle_ns,
        )

    def _search_names(self) -> Iterator[tuple[bytes, str]]:
        """Give all that the inputs call topic ids, if they can be read twice."""
        if self._captures is None or not self._captures.can_be_read_again:
            return
        names = NameReader(self._catalog)
        reader = MessageReader(self._catalog, Decoders(self._catalog), names.wanted)
        stages = Stages(reader, self._catalog, is_broker=self._is_broker, memory=self._memory)
        with MergedCaptures(self._inputs, stores=self._stores) as again:
            for _, step in stages.run(again):
                for exchange in step.exchanges:
                    yield from names.names(exchange)

    # -- rows -------------------------------------------------------------------------------------

    @staticmethod
    def _connection_row(ended: ConnectionSummary, captures: Captures) -> ConnectionRow:
        from kanalyze.tables.connections import connection_row  # a large table

        tcp = ended.tcp
        capture, packet = captures.place(tcp.first_packet or 0)
        is_kafka = ended.protocol.startswith("kafka")
        return connection_row(
            tcp,
            capture=capture,
            first_packet=packet,
            client_side=tcp.opened_by if ended.client_side is None else ended.client_side,
            protocol=ended.protocol,
            client_id=ended.client_id,
            client_software_name=ended.software_name,
            client_software_version=ended.software_version,
            principal=ended.principal,
            requests=ended.requests if is_kafka else None,
            decoded_bytes=ended.decoded_bytes if is_kafka else None,
            skipped_bytes=ended.skipped_bytes if is_kafka else None,
        )

    def _anomaly_row(self, anomaly: Anomaly, stages: Stages, captures: Captures) -> AnomalyRow:
        from kanalyze.tables.anomalies import anomaly_row  # as above

        tcp = anomaly.connection
        client_side = None
        if tcp is not None:
            client_side = stages.client_side(tcp)
            client_side = tcp.opened_by if client_side is None else client_side
        api = None if anomaly.api_key is None else self._catalog.api(anomaly.api_key)
        return anomaly_row(
            anomaly,
            place=captures.place,
            client_side=client_side,
            api_name=None if api is None else api.name,
        )


def _capture(given: object) -> str | FoundCapture | BinaryIO:
    """Return a capture as it may be given; raises UsageError for what is none."""
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if isinstance(given, str | FoundCapture) or hasattr(given, "read"):
        return cast("str | FoundCapture | BinaryIO", given)
    raise UsageError(f"not a capture: {shown(given)} (a path, a folder, a glob, an open file)")


def broker_side(ports: Sequence[int], brokers: Sequence[str]) -> BrokerSide | None:
    """Return what tells whether an end is a broker, by what a user says; None for nothing said.

    Arguments as those of :class:`Analysis`; raises UsageError where they make no sense.
    """
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
