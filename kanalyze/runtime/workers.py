"""Several processes that read the same captures, each for its shard of the connections.

In: open captures, settings, the number of workers. Out: the rows of all workers, merged into the
order in which one process would yield them.

This process reads packets and their headers, and deals them (:mod:`.dealing`). A worker follows the
connections of its shard, and sends their rows as columns. The name of a topic may be on a
connection of another shard; the process that merges the rows fills in such names.

Workers are forked, so they begin with all modules loaded. If the system has no fork there are no
workers (see :func:`~kanalyze.common.forked.usable_processes`).

They are processes, not threads: a message that is in order makes few Python objects, but rows and
sessions still hold the interpreter's lock for three quarters of the time. What takes the rows may
be called in a thread (:mod:`kanalyze.common.behind`): however many workers there are, this process
does all of that, and would be what they wait for.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.common.forked import Forked
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.net.segment_columns import Shard
from kanalyze.runtime.dealing import Dealer, DealtCaptures, Packed, SharedMemory
from kanalyze.runtime.one_pass import OnePass
from kanalyze.runtime.table_rows import TableRows
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.requests.row_assembler import with_names
from kanalyze.tables.requests.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection

    from kanalyze.capture.merge import MergedCaptures
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.table_rows import Tables
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.cluster.reader import ClusterFacts


class _RowsSent(NamedTuple):
    """Some of the rows of a batch of packets."""

    block: RowBlock
    latest: array[int]
    """For each row, the packet that completed its exchange; ascending."""
    names: list[tuple[bytes, str]]
    """Ids and names of topics that were learned together with the rows."""
    facts: Sequence[ClusterFacts]
    """The facts in the messages of the requests, by row."""


class _BatchEnd(NamedTuple):
    """Marks that all rows of a batch of packets were sent."""

    connections: list[ConnectionRow]
    anomalies: list[AnomalyRow]


_END: Final = (1 << 63) - 1
"""A number that no packet has: they are all before it."""
_Sent: TypeAlias = "Packed | _BatchEnd | CaptureQuality"
"""``Packed`` are :class:`_RowsSent`."""


class Workers:
    """The workers of one pass. Their creator must close them, or read to the end."""

    def __init__(
        self,
        captures: MergedCaptures,
        settings: AnalysisSettings,
        tables: Tables,
        count: int,
        names: TopicNames,
        quality: CaptureQuality,
    ) -> None:
        """Start the workers.

        Args:
            captures: the open captures.
            settings: the settings of the run; each worker gets a shard.
            tables: the tables to make.
            count: number of workers.
            names: topic names. Names that workers learn are added, and complete rows without name.
            quality: the counts of the workers are added here when all rows were yielded.

        Raises:
            OSError: the system cannot start the processes.
        """
        self._names = names
        self._quality = quality
        self._tables = tables
        self._dealer = Dealer(captures, settings, tables, quality)
        self._workers: list[Forked[_Sent]] = []
        self._memories: list[SharedMemory] = []
        self._ends: list[Connection] = []
        """Pipes to the workers."""
        try:
            for index in range(count):
                self._start(captures, settings._replace(shard=Shard(index, count)))
        except OSError:
            self.close()
            raise

    def _start(self, captures: MergedCaptures, settings: AnalysisSettings) -> None:
        from multiprocessing import Pipe  # imported late: only needed for workers

        memory = SharedMemory()
        self._memories.append(memory)
        their_end, our_end = Pipe(duplex=False)
        self._ends.append(our_end)
        buffers = self._dealer.buffers
        dealt = DealtCaptures(memory, buffers, their_end, is_alone=captures.is_alone)
        unneeded = [*self._ends, *(worker.pipe for worker in self._workers)]
        self._workers.append(Forked(partial(_sent, dealt, settings, self._tables), unneeded))
        their_end.close()
        self._dealer.add_worker(memory, our_end)

    def rows(self) -> Iterator[TableRows]:
        """Yield the rows of all tables and workers, merged, once.

        Raises:
            KanalyzeError: an error of a worker; or a worker process died.
            MemoryError: a worker ran out of memory.
        """
        for batch in self._batches():
            for rows in batch.merged():
                yield TableRows((rows.block,), facts=rows.facts)
            if batch.connections or batch.anomalies:
                yield TableRows((), batch.connections, batch.anomalies)

    def _batches(self) -> Iterator[_BatchMerge]:
        """Yield the merge of each batch, which must be read before the next; then close."""
        dealer = self._dealer
        try:
            while True:
                dealer.deal_ahead()
                if dealer.error is not None and not dealer.unfinished:
                    raise dealer.error
                batch = _BatchMerge(self._workers, self._memories, self._names)
                if dealer.unfinished:
                    batch.anomalies += dealer.unfinished[0]
                yield batch
                if batch.qualities:
                    break
                dealer.unfinished.popleft()
            for quality in batch.qualities:
                self._quality.merge(quality)
            dealer.count_all()
        finally:
            self.close()

    def close(self) -> None:
        """End the workers, even if they are not finished."""
        for end in self._ends:
            end.close()
        for worker in self._workers:
            worker.close()


class _BatchMerge:
    """Merges the rows of all workers for one batch of packets."""

    def __init__(
        self,
        workers: Sequence[Iterator[_Sent]],
        memories: Sequence[SharedMemory],
        names: TopicNames,
    ) -> None:
        self._workers = workers
        self._memories = memories
        self._names = names
        self._unmerged: dict[int, _RowsSent] = {}
        """Rows that were received but not merged yet, by number of the worker."""
        self._following: dict[int, _RowsSent | None] = {}
        """What each worker sent after them; None if they are its last of this batch."""
        self.connections: list[ConnectionRow] = []
        self.anomalies: list[AnomalyRow] = []
        self.qualities: list[CaptureQuality] = []
        """The qualities that workers sent instead of a batch: there are no more batches."""

    def merged(self) -> Iterator[_RowsSent]:
        """Yield the rows in the order of the packets that completed them, with topics named."""
        for index in range(len(self._workers)):
            self._following[index] = self._receive(index)
            self._take_following(index)
        while self._unmerged:
            until = self._complete_until()
            complete = []
            for index, rows in list(self._unmerged.items()):
                count = bisect_right(rows.latest, until)
                if count:
                    complete.append(_slice(rows, 0, count))
                if count < len(rows.latest):
                    self._unmerged[index] = _slice(rows, count, len(rows.latest))
                else:
                    del self._unmerged[index]
                    self._take_following(index)
            rows = _merged(complete)
            with_names(rows.block, self._names)
            yield rows

    def _complete_until(self) -> int:
        """Return the last packet whose rows were all received.

        The packets of a worker ascend, so it sends nothing more before those that were received.
        """
        return min(
            (rows.latest[-1] for index, rows in self._unmerged.items() if self._following[index]),
            default=_END,
        )

    def _take_following(self, index: int) -> None:
        """Take the rows that follow those that were merged, and receive what follows them."""
        rows = self._following[index]
        if rows is not None:
            self._unmerged[index] = rows
            for topic_id, name in rows.names:
                self._names.learn(topic_id, name)
            self._following[index] = self._receive(index)

    def _receive(self, index: int) -> _RowsSent | None:
        """Return the next rows of a worker in this batch; None if there are no more."""
        message = next(self._workers[index])
        if isinstance(message, Packed):
            rows: _RowsSent = message.unpack(self._memories[index])
            return rows
        if isinstance(message, _BatchEnd):
            self.connections += message.connections
            self.anomalies += message.anomalies
        else:
            self.qualities.append(message)
        return None


def _slice(rows: _RowsSent, first: int, end: int) -> _RowsSent:
    if (first, end) == (0, len(rows.latest)):
        return rows
    facts = [fact._replace(row=fact.row - first) for fact in rows.facts if first <= fact.row < end]
    return _RowsSent(rows.block.part(first, end), rows.latest[first:end], [], facts)


def _merged(rows: list[_RowsSent]) -> _RowsSent:
    """Return the rows of some workers, in the order of the packets that completed them.

    They are copied: what was received is in memory that is used again for a later batch.
    """
    # All exchanges that one packet completed belong to one connection, and so to one worker.
    block, latest, order = RowBlock.merged(
        [part.block for part in rows], [part.latest for part in rows]
    )
    facts, first = [], 0
    for part in rows:
        facts += [fact._replace(row=first + fact.row) for fact in part.facts]
        first += len(part.latest)
    if facts:
        new_rows = {old_row: new_row for new_row, old_row in enumerate(order)}
        facts = sorted([fact._replace(row=new_rows[fact.row]) for fact in facts], key=_row_of)
    return _RowsSent(block, latest, [], facts)


def _row_of(facts: ClusterFacts) -> int:
    return facts.row


# -- inside a worker ------------------------------------------------------------------------------


class _LearnedNames(TopicNames):
    """Names of topics, with a list of new ones for the merging process; it never searches."""

    def __init__(self, names_before: Mapping[bytes, str]) -> None:
        super().__init__()
        for topic_id, name in names_before.items():
            self.learn(topic_id, name)
        self._learned: list[tuple[bytes, str]] = []

    def learn(self, topic_id: bytes, name: str) -> None:
        changes_before = self.changes
        super().learn(topic_id, name)
        if self.changes != changes_before:
            self._learned.append((topic_id, name))

    def drain(self) -> list[tuple[bytes, str]]:
        learned, self._learned = self._learned, []
        return learned


def _sent(captures: DealtCaptures, settings: AnalysisSettings, tables: Tables) -> Iterator[_Sent]:
    """Yield what a worker sends: the rows of its shard, batch after batch; then its counts."""
    names, quality = _LearnedNames(settings.topic_ids), CaptureQuality()
    run = OnePass(captures, settings, tables, names, quality, with_ids=True)
    for step, step_rows in run.steps():
        first = 0
        connections: list[ConnectionRow] = []
        anomalies: list[AnomalyRow] = []
        for rows in step_rows:
            for block in rows.requests:
                latest = array("q", step.completion_packets[first : first + len(block)])
                first += len(block)
                yield captures.packed(_RowsSent(block, latest, names.drain(), rows.facts))
            connections += rows.connections
            anomalies += rows.anomalies
        yield _BatchEnd(connections, anomalies)
    yield quality
