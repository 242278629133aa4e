"""Reads captures once, and deals the segments of their packets to workers.

In: open captures. Out: for each worker the segments of its shard, batch after batch
(:class:`Dealer`), which reads them as it would read captures (:class:`DealtCaptures`).

Headers are read in one process, which writes segments as columns into memory that it shares with
the worker, and tells it by a pipe where they are. The payload of a single capture stays in the
buffers that it was read into, which are shared too; any other is copied beside the columns. A
worker has room for some batches, so it goes on while the process that deals is busy with rows.
"""

from __future__ import annotations

import mmap
from array import array
from collections import deque
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kanalyze.capture.file_metadata import FileMetadata
from kanalyze.capture.merge import PacketIndex
from kanalyze.capture.reader import DEFAULT_BUFFER_BYTES, own_buffer
from kanalyze.common.int_columns import copy_ranges, places_of
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError
from kanalyze.kafka.session.events import ConnectionCounts
from kanalyze.net.headers import HeaderReader
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.segment_columns import SegmentColumns, column_bytes, columns_in
from kanalyze.runtime.counting import count_captures, count_packets
from kanalyze.runtime.table_rows import anomaly_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

    from kanalyze.capture.file_metadata import DecryptionSecrets
    from kanalyze.capture.merge import MergedCaptures, PacketRun, PacketRuns
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.table_rows import Tables
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.tables.quality import CaptureQuality

_PLACES: Final = 3
"""Batches that a worker has room for."""
_PLACE_BYTES: Final = 16 << 20
"""Size of the room for one batch. Those of one capture fit: 8 MiB of packets, and the columns of
32,768 segments, 144 bytes each; their rows follow. What is larger is sent by the pipe."""
_ALIGNMENT: Final = 8
"""Of buffers of numbers, in bytes."""


class SharedMemory:
    """Room for some batches, which a process and those that it forks from now on share."""

    def __init__(self) -> None:
        self._view = memoryview(mmap.mmap(-1, _PLACES * _PLACE_BYTES))

    def place(self, batch: int) -> memoryview:
        """Return the room for a batch, numbered from 0."""
        first = batch % _PLACES * _PLACE_BYTES
        return self._view[first : first + _PLACE_BYTES]


class SharedBuffers:
    """Buffers for a reader of one capture, which a process and those that it forks share.

    Each is used again when all batches in it were read: a buffer has at least one batch.
    """

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, _PLACES * DEFAULT_BUFFER_BYTES))
        self._given: list[memoryview | None] = [None] * _PLACES
        self._next = 0

    def new(self, size: int) -> memoryview:
        """Return the next buffer, or one that is not shared if it must be larger."""
        if size > DEFAULT_BUFFER_BYTES:
            return own_buffer(size)
        buffer = self.at(self._next)[:size]
        self._given[self._next] = buffer
        self._next = (self._next + 1) % _PLACES
        return buffer

    def number_of(self, buffer: memoryview) -> int | None:
        """Return the number of a buffer that is shared; None for any other."""
        return next((n for n, given in enumerate(self._given) if given is buffer), None)

    def at(self, number: int) -> memoryview:
        """Return the buffer with a number."""
        first = number * DEFAULT_BUFFER_BYTES
        return self._memory[first : first + DEFAULT_BUFFER_BYTES]


class _Part(NamedTuple):
    """Where a worker's part of a batch of packets is."""

    segments: int
    """Number of segments."""
    room: int
    """Number of segments whose columns there is room for."""
    payload_end: int
    """Where the payload ends, whose indices count from the beginning of the part; if it is in a
    shared buffer, where the columns end."""
    end: int
    """Of all: what else the worker must know, pickled, follows the payload."""
    sent: bytearray | None
    """All of it, if it is not in the shared memory."""
    buffer: int | None
    """Number of the shared buffer that has the payload; None if it is beside the columns."""


class Packed(NamedTuple):
    """What a worker sends about a batch of packets; its large buffers are in shared memory."""

    data: bytes
    """What :meth:`unpack` returns, pickled without these buffers."""
    batch: int
    ranges: list[tuple[int, int]]
    """Where they begin and end in the batch's place."""

    def unpack(self, memory: SharedMemory) -> Any:
        """Return what was packed; its buffers are in the memory, until that is used again."""
        import pickle  # imported late: only needed for workers

        place = memory.place(self.batch)
        buffers = [place[begin:end] for begin, end in self.ranges]
        return pickle.loads(self.data, buffers=buffers)  # noqa: S301 - our own process wrote it


_Context: TypeAlias = tuple["PacketRuns", list[str], "list[DecryptionSecrets]"]
"""Where the packets are; captures that were opened, and secrets inside them that were read, since
the batch before."""


class Dealer:
    """Reads captures, and deals them to workers."""

    def __init__(
        self,
        captures: MergedCaptures,
        settings: AnalysisSettings,
        tables: Tables,
        quality: CaptureQuality,
    ) -> None:
        """Set up; nothing is read yet.

        Args:
            captures: the open captures.
            settings: the settings of the run.
            tables: the tables that workers make.
            quality: packets are counted here, and by :meth:`count_all` all that workers don't see.
        """
        self._captures = captures
        self._settings = settings
        self._has_anomalies = tables.anomalies
        self._quality = quality
        self._stats = LayerStats(every_anomaly=tables.anomalies)
        self._headers = HeaderReader(self._stats)
        self.buffers = SharedBuffers()
        captures.new_buffer = self.buffers.new
        self._batches = captures.batches()
        self._workers: list[tuple[SharedMemory, Connection]] = []
        self._dealt = 0
        """Number of batches dealt so far."""
        self._held: list[_Part] = []
        """The parts of the last batch that was read, if they are too large for the shared memory:
        they are sent when the rows of all batches before were taken."""
        self._names_sent = self._secrets_sent = self._anomalies_reported = 0
        self.unfinished: deque[list[AnomalyRow]] = deque()
        """For each batch that was dealt, and for the end of the captures, the rows of the anomalies
        of captures and packets. Who has taken the workers' rows removes them."""
        self.error: KanalyzeError | OSError | None = None
        """Why the captures cannot be read on."""
        self._is_over = False

    def add_worker(self, memory: SharedMemory, pipe: Connection) -> None:
        """Deal to one more worker, which has this memory and the other end of this pipe."""
        self._workers.append((memory, pipe))

    def deal_ahead(self) -> None:
        """Deal batches as long as workers have room; at the end of the captures, tell them.

        A batch takes room from here until its rows were taken (:attr:`unfinished`).
        """
        while not self._is_over and len(self.unfinished) < _PLACES:
            if self._held and self.unfinished:
                return
            if self._held or self._read_next():
                self._tell_all(self._held)
                self._held = []

    def count_all(self) -> None:
        """Count what workers do not see: captures, headers. Call it at the end, once."""
        count_captures(self._quality, self._captures)
        self._quality.count_stages(self._stats.counters, ConnectionCounts())

    def _read_next(self) -> bool:
        """Read the next batch; return true if its parts may be sent now, false at the end too."""
        try:
            batch = next(self._batches, None)
        except (KanalyzeError, OSError) as error:
            # The rows of the batches before it come first.
            self.error, self._is_over = error, True
            return False
        if batch is None:
            self._headers.finish()
            self._is_over = True
            self._tell_all([None] * len(self._workers))
            return False
        count_packets(self._quality, batch)
        self._held = self._parts(batch)
        # A worker that is busy does not empty its pipe, so what is large has to wait.
        return not self.unfinished or all(part.sent is None for part in self._held)

    def _parts(self, batch: PacketBatch) -> list[_Part]:
        """Write the parts of a batch into shared memory, or into memory of their own."""
        columns_bytes = column_bytes(len(batch))
        places = []
        for memory, _ in self._workers:
            place = memory.place(self._dealt)
            fits = columns_bytes <= len(place)
            places.append(place if fits else own_buffer(columns_bytes))
        counts, buffer = self._headers.deal(batch, [place[:columns_bytes] for place in places])
        context, shared = self._context(batch.number[0]), self.buffers.number_of(buffer)
        self._dealt += 1
        return [
            _part(place, len(batch), segments, context, buffer, shared)
            for place, segments in zip(places, counts, strict=True)
        ]

    def _context(self, first_packet: int) -> bytes:
        import pickle  # imported late: only needed for workers

        captures = self._captures
        names = captures.names[self._names_sent :]
        secrets = captures.description.decryption_secrets[self._secrets_sent :]
        self._names_sent += len(names)
        self._secrets_sent += len(secrets)
        context: _Context = captures.runs_from(first_packet), names, secrets
        return pickle.dumps(context, pickle.HIGHEST_PROTOCOL)

    def _tell_all(self, parts: Sequence[_Part | None]) -> None:
        for part, (_, pipe) in zip(parts, self._workers, strict=True):
            # Where a worker has died, its rows end, which whoever takes them notices.
            with suppress(BrokenPipeError):
                pipe.send(part)
        self.unfinished.append(self._new_anomalies())

    def _new_anomalies(self) -> list[AnomalyRow]:
        of_packets = self._stats.drain_anomalies()
        if not self._has_anomalies:
            return []
        of_captures = self._captures.anomalies[self._anomalies_reported :]
        self._anomalies_reported += len(of_captures)
        return anomaly_rows([*of_captures, *of_packets], self._settings, self._captures)


def _part(
    place: memoryview,
    room: int,
    segments: int,
    context: bytes,
    buffer: memoryview,
    shared: int | None,
) -> _Part:
    """Complete the part of a worker.

    Args:
        place: has its columns.
        room: number of segments whose columns there is room for.
        segments: number of its segments.
        context: what else it must know.
        buffer: has the payload.
        shared: number of the buffer, if the worker has it too; otherwise None.
    """
    columns_end = column_bytes(room)
    payload_places = array("q", [columns_end])
    if shared is None:
        sizes = columns_in(place, room, segments)["captured_bytes"]
        payload_places = places_of(sizes, columns_end)
    payload_end = payload_places[-1]
    end, sent = payload_end + len(context), None
    target = place
    if end > _PLACE_BYTES:
        sent = bytearray(end)
        target = memoryview(sent)
        target[:columns_end] = place[:columns_end]
    if shared is None:
        columns = columns_in(target, room, segments)
        starts = columns["payload_start"]
        copy_ranges(target, payload_places, buffer, starts, columns["captured_bytes"])
        starts[:] = memoryview(payload_places)[:segments]
    target[payload_end:end] = context
    return _Part(segments, room, payload_end, end, sent, shared)


class DealtCaptures:
    """What a worker reads in place of captures: the segments of its shard.

    The process that deals counts packets, captures, and what is wrong with them.
    """

    can_be_read_again = True

    def __init__(
        self, memory: SharedMemory, buffers: SharedBuffers, pipe: Connection, *, is_alone: bool
    ) -> None:
        """Read what is dealt.

        Args:
            memory: the memory that is shared with the process that deals.
            buffers: the buffers that are shared with it.
            pipe: the pipe from there.
            is_alone: whether there is only one capture.
        """
        self.anomalies: list[Anomaly] = []
        self.names: list[str] = []
        self.description = FileMetadata()
        self.dropped_packets: int | None = None
        self.progress: tuple[int, int | None] = (0, None)
        self._memory = memory
        self._buffers = buffers
        self._pipe = pipe
        self._is_alone = is_alone
        self._index = PacketIndex()
        self._opened: list[str] = []
        self._batch = self._used = 0
        """Number of the present batch, and how much of its place is used."""

    def locate(self, number: int) -> tuple[str, int | None]:
        """Return the name of a packet's capture, and the packet's number in it."""
        return self._index.locate(number, self._opened, is_alone=self._is_alone)

    def runs_between(self, low: int, high: int, most: int) -> list[PacketRun] | None:
        """Return the runs of packets from ``low`` to ``high``, each in one capture."""
        return self._index.runs_between(low, high, most, self._opened)

    def batches(self) -> Iterator[SegmentColumns]:
        """Yield the segments of each batch of packets, also if there are none.

        They are valid until the next batch is read. Raises BrokenPipeError if the process that
        deals has ended.
        """
        for self._batch in count():
            part = self._next_part()
            self._used = 0 if part is None or part.sent is not None else part.end
            if part is None:
                return
            place = self._memory.place(self._batch)
            if part.sent is not None:
                place = memoryview(part.sent)
            self._take(place[part.payload_end : part.end])
            buffer = place if part.buffer is None else self._buffers.at(part.buffer)
            yield SegmentColumns(buffer, **columns_in(place, part.room, part.segments))

    def packed(self, value: object) -> Packed:
        """Pack what is sent about the present batch; if there is room, beside its segments."""
        import pickle  # imported late: only needed for workers

        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        place = self._memory.place(self._batch)
        ranges = []
        used = self._used
        for view in views:
            begin = used + -used % _ALIGNMENT
            used = begin + len(view)
            ranges.append((begin, used))
        if used > len(place):
            # All of it goes through the pipe: no place is read.
            return Packed(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), self._batch, [])
        for (begin, end), view in zip(ranges, views, strict=True):
            place[begin:end] = view
        self._used = used
        return Packed(data, self._batch, ranges)

    def _next_part(self) -> _Part | None:
        try:
            part: _Part | None = self._pipe.recv()
        except EOFError as error:
            raise BrokenPipeError from error
        return part

    def _take(self, pickled: memoryview) -> None:
        import pickle  # imported late: only needed for workers

        context: _Context = pickle.loads(pickled)  # noqa: S301 - our own process wrote it
        runs, names, secrets = context
        self._opened += names
        self._index.add_runs(*runs)
        for kind, data in secrets:
            self.description.add_secrets(kind, memoryview(data))
