"""Several captures as one stream of packets in time order.

In: captures in the order of their first packets, rotated (one after the other) or overlapping (two
capture points, a ring of files for each interface). Out: :class:`kanalyze.model.PacketBatch`,
numbered over all of them.

If only one capture has the next packets, its own batch, or a part of it, is passed on without a
copy. If several have, packets are merged up to a time that no unread packet is expected before. One
batch of each open capture is in memory.

Within one capture, packets keep their order, also if their times go back: a packet is sorted by the
earliest time of it and the later packets of its batch (its key).
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kanalyze.capture.file_metadata import FileMetadata
from kanalyze.capture.inputs import FoundCapture, can_be_read_twice, look_at
from kanalyze.capture.io.source import BinaryFile, PathLike, capture_name
from kanalyze.capture.io.stores import Stores, is_url
from kanalyze.capture.reader import DEFAULT_BUFFER_BYTES, open_capture
from kanalyze.common import paths
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.common.int_columns import earliest_from, picked, rising, shifted, take_turns
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packets import NO_TIME, PacketBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.capture.reader import CaptureReader, NewBuffer

MAX_RUNS: Final = 1_000_000
UNKNOWN_CAPTURE: Final = "(unknown)"
"""Name of the capture of a packet whose run was dropped."""


class PacketRun(NamedTuple):
    """Consecutive packets that are consecutive in one capture."""

    first: int
    """Number of the first packet over all captures."""
    shift: int
    """What is added to these numbers for those in the capture."""
    capture: str
    """Name of the capture."""


class PacketLocations(Protocol):
    """Where packets are that have numbers over all captures."""

    def locate(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet, and the packet's number in it; None if not known."""
        ...

    def runs_between(self, low: int, high: int, most: int) -> Sequence[PacketRun] | None:
        """Return the runs of packets from ``low`` to ``high``, each in one capture.

        None if there are more than ``most``, or if a packet has no number in its capture.
        """
        ...


PacketRuns: TypeAlias = tuple["array[int]", "array[int]", "array[int]", int]
"""What :meth:`PacketIndex.add_runs` takes: where runs begin, their captures, the numbers of their
first packets there; and the number of packets."""


class PacketIndex:
    """A table of runs: consecutive packets that are consecutive in one capture.

    Rotated captures need one run per file. Overlapping captures may need one per packet; then the
    oldest runs are dropped.
    """

    def __init__(self, max_runs: int = MAX_RUNS) -> None:
        self._max_runs = max_runs
        self._first = array("q")
        """Number of each run's first packet over all captures, rising."""
        self._capture = array("q")
        """Index of each run's capture."""
        self._within = array("q")
        """Number of each run's first packet in its capture."""
        self._end = 1
        """The number after that of the last packet."""

    def save_state(self) -> tuple[int, array[int], array[int], array[int]]:
        """Return the number of the next packet, and all runs, for :meth:`load_state`.

        For each run: the number of its first packet, its capture, the packet's number there.
        """
        return self._end, self._first, self._capture, self._within

    def load_state(
        self, end: int, first: array[int], capture: array[int], within: array[int]
    ) -> None:
        """Continue where another table ended; this table has to be empty."""
        self._end, self._first, self._capture, self._within = end, first, capture, within

    @property
    def packets(self) -> int:
        """Number of packets so far, including those of dropped runs."""
        return self._end - 1

    @property
    def runs(self) -> int:
        """Number of runs in the table."""
        return len(self._first)

    def add(self, capture: int, within: int, count: int) -> None:
        """Add the next ``count`` packets: of a capture, from its packet number ``within`` on."""
        if not self._continues(capture, within):
            self._first.append(self._end)
            self._capture.append(capture)
            self._within.append(within)
            self._drop_oldest()
        self._end += count

    def add_runs(
        self,
        starts: array[int],
        captures: array[int],
        within: array[int],
        count: int,
    ) -> None:
        """Add the next ``count`` packets, whose runs begin at the indices ``starts``.

        ``captures`` and ``within`` have one entry per run.
        """
        skip = int(len(starts) > 0 and self._continues(captures[0], within[0]))
        self._first += shifted(starts[skip:], self._end)
        self._capture += captures[skip:]
        self._within += within[skip:]
        self._end += count
        self._drop_oldest()

    def runs_from(self, number: int) -> PacketRuns:
        """Return where the packets from a number on are, as :meth:`add_runs` takes it.

        The packet must be in the table.
        """
        index = bisect_right(self._first, number) - 1
        starts = shifted(self._first[index:], -number)
        within = self._within[index:]
        within[0] -= starts[0]
        starts[0] = 0
        return starts, self._capture[index:], within, self._end - number

    def find(self, number: int) -> tuple[int, int] | None:
        """Return the index of a packet's capture and its number there; None when dropped."""
        index = bisect_right(self._first, number) - 1
        if index < 0 or number >= self._end:
            return None
        return self._capture[index], self._within[index] + number - self._first[index]

    def runs_between(
        self, low: int, high: int, most: int, names: Sequence[str]
    ) -> list[PacketRun] | None:
        """Return the runs of packets from ``low`` to ``high``; the first one may begin before.

        None if there are more than ``most``, or if the run of a packet was dropped.
        """
        start = bisect_right(self._first, low) - 1
        end = bisect_right(self._first, high)
        if start < 0 or high >= self._end or end - start > most:
            return None
        return [
            PacketRun(
                self._first[index],
                self._within[index] - self._first[index],
                names[self._capture[index]],
            )
            for index in range(start, end)
        ]

    def locate(
        self, number: int, names: Sequence[str], *, is_alone: bool
    ) -> tuple[str, int | None]:
        """Return the name of a packet's capture, and the packet's number in it.

        If the packet's run was dropped, the number is None, and the capture is
        :data:`UNKNOWN_CAPTURE`, unless there is only one (``is_alone``).
        """
        location = self.find(number)
        if location is not None:
            return names[location[0]], location[1]
        return (names[0] if is_alone and names else UNKNOWN_CAPTURE), None

    def _continues(self, capture: int, within: int) -> bool:
        """Return true if the next packets belong to the last run."""
        if not self._first or self._capture[-1] != capture:
            return False
        return within - self._within[-1] == self._end - self._first[-1]

    def _drop_oldest(self) -> None:
        """Drop the oldest runs, many at once, because each time moves the whole table."""
        surplus = len(self._first) - self._max_runs
        if surplus > self._max_runs // 4:
            for column in (self._first, self._capture, self._within):
                del column[:surplus]


class OpenCapture:
    """A capture being read."""

    __slots__ = ("_last_known_ns", "at", "batch", "batches", "delivered", "index", "keys", "reader")

    def __init__(self, index: int, reader: CaptureReader, batches: Iterator[PacketBatch]) -> None:
        self._last_known_ns: int | None = None
        """Time of the last packet that had one."""
        self.index = index
        """Index in the order of the inputs; the smaller one comes first at equal times."""
        self.reader = reader
        self.batches = batches
        self.batch: PacketBatch | None = None
        self.keys = array("q")
        """For each packet of ``batch``, the earliest time of it and all later ones. This column
        never falls."""
        self.at = 0
        """Number of packets of ``batch`` that were delivered."""
        self.delivered = 0
        """Number of packets of the capture that were delivered."""

    @property
    def next_key(self) -> tuple[int, int]:
        """Key of the next packet, and the capture's index; captures are compared by it."""
        return self.keys[self.at], self.index

    @property
    def last_key(self) -> tuple[int, int]:
        """The key of the last packet of ``batch``; unread packets usually have later keys."""
        return self.keys[-1], self.index

    def count_up_to(self, limit: tuple[int, int]) -> int:
        """Count the next packets whose keys are no later than ``limit``; 0 or less for none."""
        find = bisect_right if self.index <= limit[1] else bisect_left
        return find(self.keys, limit[0]) - self.at

    def advance(self, count: int) -> None:
        """Count the next packets as delivered."""
        self.at += count
        self.delivered += count

    def read_on(self) -> bool:
        """Take the next batch; false at the end."""
        self.at = 0
        self.batch = next(self.batches, None)
        if self.batch is None:
            return False
        # Not the times themselves: a packet with a time far in the future must not hold back all
        # packets after it in its file.
        self.keys = earliest_from(self.batch.time_ns)
        if self.keys[0] == NO_TIME:
            self._fill_times(self.batch.time_ns)
        else:
            self._last_known_ns = self.batch.time_ns[-1]
        return True

    def _fill_times(self, times: array[int]) -> None:
        """Sort packets without a time by that of the packet before, or else of the next."""
        filled = times[:]
        before_ns = self._last_known_ns
        if before_ns is None:
            before_ns = next((time_ns for time_ns in times if time_ns != NO_TIME), 0)
        for at, time_ns in enumerate(times):
            if time_ns == NO_TIME:
                filled[at] = before_ns
            else:
                self._last_known_ns = before_ns = time_ns
        self.keys = earliest_from(filled)


def first_packets(batches: Iterator[PacketBatch], most: int) -> Iterator[PacketBatch]:
    """Yield up to ``most`` packets of a capture; no batch is empty."""
    for batch in batches:
        if len(batch) >= most:
            if most:
                yield batch.part(slice(most))
            return
        yield batch
        most -= len(batch)


class MergedBatch(NamedTuple):
    """Packets of several captures, by time."""

    batch: PacketBatch
    """Without packet numbers: these are assigned later."""
    starts: array[int]
    """Indices in the batch at which a run of consecutive packets of one capture begins."""
    captures: array[int]
    """Index of each run's capture."""
    within: array[int]
    """Number of each run's first packet in its capture, from 1."""


class BatchMerger:
    """Copies packets into one buffer, which is used again."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def merge(self, slices: list[tuple[OpenCapture, int]]) -> MergedBatch:
        """Merge the next packets of captures; ``slices`` has a number of packets for each capture.

        The captures are in the order of the inputs. A capture's packets are copied as one span of
        its buffer, with the bytes between them: that is faster than copying them one by one.
        """
        pieces = [_piece(each, count) for each, count in slices]
        spans = [_span(piece) for piece in pieces]
        begins = list(accumulate((len(span) for _, span in spans), initial=0))
        if begins[-1] > len(self.buffer):
            self.buffer = bytearray(begins[-1])
        buffer = memoryview(self.buffer)
        offset = array("q")
        for piece, (first, span), begin in zip(pieces, spans, begins, strict=False):
            buffer[begin : begin + len(span)] = span
            offset += shifted(piece.offset, begin - first)
        counts = list(accumulate((count for _, count in slices), initial=0))
        keys = _concatenated([each.keys[each.at : each.at + count] for each, count in slices])
        order, starts, owners = take_turns(keys, counts)
        batch = PacketBatch(
            buffer=buffer,
            number=_concatenated([piece.number for piece in pieces]),
            time_ns=_concatenated([piece.time_ns for piece in pieces]),
            offset=offset,
            captured_bytes=_concatenated([piece.captured_bytes for piece in pieces]),
            wire_bytes=_concatenated([piece.wire_bytes for piece in pieces]),
            link_type=_concatenated([piece.link_type for piece in pieces]),
        ).select(order)
        captures = picked(array("q", [each.index for each, _ in slices]), owners)
        numbers = _concatenated([rising(each.delivered + 1, count) for each, count in slices])
        return MergedBatch(batch, starts, captures, picked(numbers, picked(order, starts)))


def _piece(capture: OpenCapture, count: int) -> PacketBatch:
    """Return the next packets of a capture."""
    assert capture.batch is not None
    return capture.batch.part(slice(capture.at, capture.at + count))


def _span(piece: PacketBatch) -> tuple[int, memoryview]:
    """Return where in its buffer the packets of a piece begin, and the bytes of all of them."""
    # In a file they follow each other.
    first, last = piece.offset[0], piece.offset[-1] + piece.captured_bytes[-1]
    return first, piece.buffer[first:last]


def _concatenated(columns: list[array[int]]) -> array[int]:
    """Return columns, at least one, one after another."""
    result = array(columns[0].typecode)
    for column in columns:
        result += column
    return result


MAX_OPEN: Final = 256
_MIN_BUFFER_BYTES: Final = 256 << 10

MergeInput: TypeAlias = FoundCapture | PathLike | BinaryFile
"""A result of :func:`kanalyze.capture.inputs.find_inputs`, a path or URL, or a binary file. The
last is read from its current position, after all inputs with names, and stays open."""


class MergedCaptures(ClosedAtEnd):
    """Captures read as one; a context manager that closes what it opened."""

    def __init__(
        self,
        inputs: Sequence[MergeInput],
        *,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        max_open: int = MAX_OPEN,
        stores: Stores | None = None,
        packet_index: PacketIndex | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """Set up; nothing is opened yet.

        Args:
            inputs: the captures, in the order of their first packets. Inputs that can be read only
                once (a pipe, standard input, a binary file) are read after all others, in the given
                order, and are not merged.
            buffer_bytes: bytes read at once if one capture is open; less if several are.
            max_open: captures that may be open at once. If more overlap, the packets of the others
                come late, and an anomaly says so.
            stores: connected file systems.
            packet_index: records where packets are; None for a new one. Packets are numbered after
                those that it already has.
            names: names of the captures that ``packet_index`` already has.
        """
        self.names: list[str] = list(names)
        """The captures opened so far, in order, as they were given (without credentials)."""
        self.anomalies: list[Anomaly] = []
        """What is wrong with them; texts begin with the capture's name. Complete at the end."""
        self._packet_index = PacketIndex() if packet_index is None else packet_index
        self.packets = self._packet_index.packets
        """The number of the last packet delivered."""
        self.description = FileMetadata()
        """Interfaces, names and comments of the captures, as far as they have been read."""
        self._stores = Stores() if stores is None else stores
        self._buffer_bytes = buffer_bytes
        self._max_open = max_open
        rereadable, single = _split_by_rereading(inputs)
        self._pending = rereadable[::-1]
        """Captures to be merged that are not open yet; the next one is last."""
        self._single = single[::-1]
        """Captures to be read after these that are not open yet; the next one is last."""
        self.is_alone = len(names) + len(rereadable) + len(single) == 1
        """Whether there is only one capture."""
        self.new_buffer: NewBuffer | None = None
        """Gives the buffers if there is only one capture; None for one that is used again."""
        self.can_be_read_again = not single
        """Whether all inputs are files with names, which another object can read again."""
        self._open: list[OpenCapture] = []
        self._merger = BatchMerger()
        self._bytes_closed = 0
        self._total_bytes = _total_bytes(rereadable) if self.can_be_read_again else None
        self._dropped: int | None = None
        self._reported_too_many = False

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and total bytes; the latter is None if not known (a pipe)."""
        readers = [capture.reader for capture in self._open]
        return self._bytes_closed + sum(reader.bytes_read for reader in readers), self._total_bytes

    @property
    def dropped_packets(self) -> int | None:
        """Packets that the capturing machines dropped, so far; None when no capture says it."""
        known_drops = [capture.reader.dropped_packets for capture in self._open]
        known = [drops for drops in (*known_drops, self._dropped) if drops is not None]
        return sum(known) if known else None

    def locate(self, number: int) -> tuple[str, int | None]:
        """Return the name of a packet's capture and the packet's number in it, from 1.

        Only the latest million runs of consecutive packets are kept; rotated captures need one per
        file. For an earlier packet the number is None, and the name is ``UNKNOWN_CAPTURE`` unless
        there is only one capture.
        """
        return self._packet_index.locate(number, self.names, is_alone=self.is_alone)

    def runs_between(self, low: int, high: int, most: int) -> list[PacketRun] | None:
        """Return the runs of packets from ``low`` to ``high``, each in one capture.

        None if there are more than ``most``, or if a packet has no number in its capture.
        """
        return self._packet_index.runs_between(low, high, most, self.names)

    def runs_from(self, number: int) -> PacketRuns:
        """Return where the packets from a number on are, by the index of their capture's name."""
        return self._packet_index.runs_from(number)

    def close(self) -> None:
        """Close all captures; binary files that were passed in stay open."""
        for capture in self._open:
            capture.reader.close()

    def have_packets(self) -> bool:
        """Open captures until one has packets; return false if none has. Before :meth:`batches`.

        Raises what :meth:`batches` raises.
        """
        try:
            self._open_due()
            while not self._open and self._single:
                self._begin(self._single.pop())
        except BaseException:
            self.close()
            raise
        return bool(self._open)

    def batches(self) -> Iterator[PacketBatch]:
        """Yield the packets, numbered from 1; never an empty batch. To be called once.

        A batch's buffer is valid until the next batch is read.

        Raises:
            CaptureError: a capture cannot be opened or read, or is no capture.
        """
        try:
            yield from self._merged()
            while self._single:
                self._begin(self._single.pop())
                while self._open:
                    yield from self._rest_of(self._open[0])
        finally:
            self.close()

    # -- merging ----------------------------------------------------------------------------------

    def _merged(self) -> Iterator[PacketBatch]:
        while self._open or self._pending:
            limit = self._open_due()
            if not self._open:
                continue
            if len(self._open) == 1 and not self._pending:
                yield from self._rest_of(self._open[0])
                continue
            if self._may_open():
                limit = min(limit, *(each.last_key for each in self._open))
            else:
                limit = min(each.last_key for each in self._open)
            slices = [(each, each.count_up_to(limit)) for each in self._open]
            slices = [(each, count) for each, count in slices if count > 0]
            yield self._slice(*slices[0]) if len(slices) == 1 else self._merge(slices)
            self._read_next(slices)

    def _open_due(self) -> tuple[int, int]:
        """Open the captures that begin before all packets in memory.

        Returns the key of the first packet of the next capture that is not open. A capture without
        packets is opened when no other is open, for its metadata.
        """
        while self._pending:
            if self._open:
                start = (self._following_ns(), len(self.names))
                if not self._may_open() or start > min(each.next_key for each in self._open):
                    return start
            following = self._pending.pop()
            self._begin(following.path, following.most_packets)
        return _NEVER, len(self.names)

    def _following_ns(self) -> int:
        """Return the time of the first packet of the capture to be opened next."""
        following = look_at(self._pending[-1], self._stores)
        self._pending[-1] = following
        return _NEVER if following.first_time_ns is None else following.first_time_ns

    def _may_open(self) -> bool:
        """Return true if one more capture may be opened; report it if packets come late if not."""
        if len(self._open) < self._max_open:
            return True
        latest = min(each.last_key for each in self._open)[0]
        if self._pending and not self._reported_too_many and self._following_ns() < latest:
            self._reported_too_many = True
            name = capture_name(self._pending[-1].path)
            detail = (
                f"{name}: more than {self._max_open} captures overlap: "
                "its packets are delivered late"
            )
            self.anomalies.append(Anomaly(AnomalyKind.REORDER_LIMIT, detail=detail))
        return False

    def _begin(self, item: PathLike | BinaryFile, most_packets: int | None = None) -> None:
        """Open a capture and take its first batch."""
        is_only = not self._pending and not self._open
        portion = self._buffer_bytes // (len(self._open) + 1)
        size = self._buffer_bytes if is_only else max(portion, _MIN_BUFFER_BYTES)
        reader = open_capture(
            item,
            buffer_bytes=min(size, self._buffer_bytes),
            description=self.description,
            stores=self._stores,
            new_buffer=self.new_buffer if self.is_alone else None,
        )
        if self.is_alone and self.can_be_read_again:
            self._total_bytes = reader.total_bytes
        batches = reader.batches()
        if most_packets is not None:
            batches = first_packets(batches, most_packets)
        begun = OpenCapture(len(self.names), reader, batches)
        self.names.append(capture_name(item))
        self._open.append(begun)
        if not begun.read_on():
            self._end(begun)

    def _read_next(self, slices: list[tuple[OpenCapture, int]]) -> None:
        """Read the next batch of captures whose packets in memory were all delivered."""
        for capture, _ in slices:
            if capture.at == len(capture.keys) and not capture.read_on():
                self._end(capture)

    def _end(self, capture: OpenCapture) -> None:
        """Close a capture that was read to its end; keep its anomalies and drops."""
        self._open.remove(capture)
        capture.reader.close()
        name = self.names[capture.index]
        self.anomalies += [
            anomaly._replace(detail=f"{name}: {anomaly.detail}")
            for anomaly in capture.reader.anomalies
        ]
        self._bytes_closed += capture.reader.bytes_read
        if capture.reader.dropped_packets is not None:
            self._dropped = (self._dropped or 0) + capture.reader.dropped_packets

    # -- batches ----------------------------------------------------------------------------------

    def _rest_of(self, capture: OpenCapture) -> Iterator[PacketBatch]:
        """Yield all remaining batches of a capture, which is the only one with packets."""
        while capture.batch is not None:
            yield self._slice(capture, len(capture.batch) - capture.at)
            capture.at = 0
            capture.batch = next(capture.batches, None)
        self._end(capture)

    def _slice(self, capture: OpenCapture, count: int) -> PacketBatch:
        """Return the next packets of one capture, over its own buffer."""
        batch = capture.batch
        assert batch is not None
        if count < len(batch):
            batch = batch.part(slice(capture.at, capture.at + count))
        self._packet_index.add(capture.index, capture.delivered + 1, count)
        capture.advance(count)
        batch.number = self._numbers(count)
        return batch

    def _merge(self, slices: list[tuple[OpenCapture, int]]) -> PacketBatch:
        """Return the next packets of several captures, by time."""
        merged = self._merger.merge(slices)
        count = len(merged.batch)
        self._packet_index.add_runs(merged.starts, merged.captures, merged.within, count)
        for capture, delivered in slices:
            capture.advance(delivered)
        merged.batch.number = self._numbers(count)
        return merged.batch

    def _numbers(self, count: int) -> array[int]:
        first = self.packets + 1
        self.packets += count
        return rising(first, count)


_NEVER: Final = 1 << 63
"""Later than any time."""


def _split_by_rereading(
    inputs: Sequence[MergeInput],
) -> tuple[list[FoundCapture], list[PathLike | BinaryFile]]:
    """Separate the inputs that can be merged from those that can be read only once."""
    rereadable: list[FoundCapture] = []
    single: list[PathLike | BinaryFile] = []
    for item in inputs:
        if isinstance(item, FoundCapture):
            named = item
        elif isinstance(item, str | os.PathLike):
            named = FoundCapture(os.fspath(item))
        else:
            single.append(item)
            continue
        if can_be_read_twice(named.path):
            rereadable.append(named)
        else:
            single.append(named.path)
    return rereadable, single


def _total_bytes(captures: Sequence[FoundCapture]) -> int | None:
    """Return the size of all captures together; None if the size of one is not known."""
    total = 0
    for capture in captures:
        size = capture.total_bytes
        if size is None and not is_url(capture.path):
            size = paths.regular_bytes(capture.path)
        if size is None:
            return None
        total += size
    return total
