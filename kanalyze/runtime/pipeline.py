"""An analysis: captures and settings in, rows out. Begin reading here.

In: names of captures, or open binary files; settings. Out: batches of rows of one table, then the
quality of the captures.

    bytes -> PacketBatch -> StreamUpdate -> Exchange -> Row

An :class:`Analysis` checks its settings, opens the captures and yields the rows that match its
filter. What reads the captures is one loop, whatever the rows are: :class:`.OnePass`, in this
process or in several :class:`.Workers`. It hands the events of each batch of packets to a
:class:`.RowMaker`. A :class:`.ResumableRun` is the same loop between two saved states.

Memory is bounded by what open connections need: a capture ten times as long takes no more.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from kanalyze.capture.merge import MergedCaptures
from kanalyze.common.forked import usable_processes
from kanalyze.errors import UsageError
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.net.segment_columns import ALL_CONNECTIONS, Shard
from kanalyze.runtime.counting import count_captures
from kanalyze.runtime.memory import DEFAULT_MEMORY_BYTES, MemoryBounds
from kanalyze.runtime.monitor import RunMonitor
from kanalyze.runtime.settings import (
    AnalysisInputs,
    AnalysisSettings,
    CaptureInput,
    RunContext,
    broker_side,
)
from kanalyze.runtime.table_rows import (
    RowSource,
    SelectedRows,
    TableRows,
    Tables,
    anomaly_rows,
    row_of_connection,
)
from kanalyze.tables.filters import RowFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kanalyze.common.paths import FileIdentity
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.message_reader import KeepsBytes
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.streams import TokenBytes
    from kanalyze.runtime.stages import Captures
    from kanalyze.runtime.state import ResumableRun
    from kanalyze.runtime.workers import Workers
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.requests.topic_names import TopicNames
    from kanalyze.tls.keylog import KeyLog

__all__ = ["Analysis", "CaptureInput"]


class Analysis(RowSource):
    """One pass over captures that are read as one stream of packets.

    Iterate exactly one of :meth:`batches`, :meth:`row_batches`, :meth:`exchange_blocks`,
    :meth:`connection_batches`, :meth:`anomaly_batches` and :meth:`resumable`, once; then
    ``quality`` is complete.
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
        shard: Shard = ALL_CONNECTIONS,
        source: Captures | None = None,
        idle_ns: int | None = None,
        leave_out: Callable[[Anomaly], object] | None = None,
        on_tokens: Callable[[Sequence[TokenBytes]], None] | None = None,
        keylog: KeyLog | None = None,
        outputs: Collection[FileIdentity] = (),
    ) -> None:
        """Check the settings; nothing is opened yet.

        Args:
            captures: the inputs; several are one stream of packets in the order of their times.
            row_filter: selects rows; None for all.
            ports: an end with one of these TCP ports is a broker, whatever its bytes look like.
            brokers: ``IP`` or ``IP:PORT`` of ends that are brokers, whatever their bytes look like.
            keep: true for an API key if ``Message.data`` must keep the bytes of its messages, for
                callers that decode more fields than a row needs. Messages of Kafka 0.7 never keep
                their bytes.
            topic_ids: names of topics by 16-byte id, for ids that the capture does not name.
            catalog: the known APIs; None for the built-in ones.
            max_memory_bytes: memory in bytes for connections; see
                :class:`~kanalyze.runtime.stages.MemoryBounds`.
            jobs: how many processes may read for :meth:`batches`; the rows are the same. Small
                files are read by one process.
            shard: which connections get rows. The rows of all shards together are those of one
                analysis, even if a connection goes on in another capture: each shard reads all
                packets. Rows without a connection are with the first shard. One process reads a
                shard, whatever ``jobs`` is.
            source: is read in place of ``captures``.
            idle_ns: silence in ns after which a connection is given up, and with it its requests
                without a response; None for never. For captures without an end, in one process.
            leave_out: is called with the anomaly of each file that is left out, as
                :func:`~kanalyze.capture.inputs.find_inputs` calls it. The file is counted in any
                case.
            on_tokens: is called by :meth:`batches`, before the rows of the same packets, with the
                positions in streams of the tokens that a client logs in with. Only in one process.
                Tokens of decrypted connections are left out: packets have them encrypted.
            keylog: the secrets to decrypt TLS with, besides those inside captures; None for none.
            outputs: files that are written meanwhile; folders and globs leave them out.

        Raises:
            UsageError: a port, a broker, the memory or the number of jobs is invalid.
        """
        leave_out = leave_out if shard.is_first else None
        inputs = AnalysisInputs(captures, source, leave_out, outputs)
        catalog = Catalog() if catalog is None else catalog
        is_broker = broker_side(ports, brokers)
        if not isinstance(jobs, int) or jobs < 1:
            from kanalyze.common.argument_values import shown  # imported late: for the message

            raise UsageError(f"not a number of jobs: {shown(jobs)}")
        settings = AnalysisSettings(
            catalog=catalog,
            is_broker=is_broker,
            keep=keep,
            memory=MemoryBounds.of(max_memory_bytes),
            shard=shard,
            idle_ns=idle_ns,
            topic_ids=dict(topic_ids or {}),
            keylog=keylog,
        )
        row_filter = RowFilter() if row_filter is None else row_filter
        self._context = RunContext(settings, inputs, row_filter)
        self._jobs = jobs if shard.count == 1 else 1
        self._on_tokens = on_tokens
        self._workers: Workers | None = None
        self.has_workers = False
        self.quality = self._context.quality
        self.monitor = RunMonitor(self.quality)
        """The state of :meth:`batches` while it runs."""

    @property
    def names(self) -> TopicNames:
        """Names of topics by id, and ids without a name; complete when all rows were yielded."""
        return self._context.names

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all; the latter is None if an input is a pipe."""
        return self._context.inputs.progress

    @property
    def key_logs(self) -> list[str]:
        """The names of the key logs that TLS is decrypted with, without their folders."""
        keylog = self._context.settings.keylog
        return [] if keylog is None else list(keylog.names)

    @property
    def row_filter(self) -> RowFilter:
        """The filter of rows; times of day are replaced by times on the first packet's day."""
        return self._context.row_filter

    @property
    def has_several_captures(self) -> bool:
        """Return true if there are several captures, so that packets need their file's name."""
        return len(self._context.inputs.captures) > 1

    def placed(self, row_filter: RowFilter, first_ns: int) -> RowFilter:
        """Return a filter whose times depend on no capture; ``first_ns`` is the first packet's."""
        return self._context.placed(row_filter, first_ns)

    @property
    def first_time_ns(self) -> int | None:
        """Unix time of the first packet in ns; None if there is none, or it is not read yet."""
        return self._context.first_time_ns

    def captures_again(self) -> MergedCaptures | None:
        """Return the captures for another pass; None before the first, or if they are a pipe."""
        return self._context.inputs.open_again()

    def close(self) -> None:
        """End the workers, if there are any; may be called at any time."""
        if self._workers is not None:
            self._workers.close()

    def batches(self) -> Iterator[RowBlock]:
        """Return rows of requests by column, in blocks, in the order in which exchanges completed.

        The captures are opened at once, and workers begin to read; all else happens as the rows
        are read. No block is empty.

        Raises:
            CaptureError: an input is missing or is not a capture.
            OSError: the system cannot start the processes.
        """
        return (block for rows in self._rows(Tables()) for block in rows.requests)

    def table_rows(
        self,
        more: Collection[str] = (),
        *,
        others: bool = True,
        anomalies: bool = True,
        commits: bool = True,
        session_lists: bool = False,
    ) -> Iterator[TableRows]:
        """Return the rows of several tables in one pass, as they are found.

        These are requests and, with ``others``, connections and ``anomalies``, to which the
        filter's conditions on clients, brokers and times apply. ``more`` names tables whose lines
        belong to requests (``groups``, ``metadata``, ``records``); a line comes together with its
        request. Without anomalies, CRCs of batches of records are not checked. Without
        ``commits``, ``groups`` has no lines of commits. With ``session_lists``, rows of requests
        have :data:`~kanalyze.spec.rows.requests.SESSION_COLUMNS`; no filter may leave out a row
        that others refer to.
        Opens and raises what :meth:`batches` does.
        """
        tables = _tables(more, others=others)
        return self._rows(
            tables._replace(
                anomalies=others and anomalies, commits=commits, session_lists=session_lists
            )
        )

    def exchange_blocks(
        self, note: Callable[[RowBlock], object] | None = None, *, checks_crc: bool = True
    ) -> Iterator[tuple[Sequence[Exchange], RowBlock]]:
        """Yield the exchanges with the block of their rows; otherwise like :meth:`row_batches`.

        Blocks are small enough for all of their rows to be in memory as objects. ``note`` is called
        with blocks of the rows of all exchanges, whatever the filter, before their exchanges are
        yielded: if no input is a pipe, also with the next block. Without ``checks_crc``, exchanges
        don't say which batches of records have wrong CRCs, for callers that read the batches.
        """
        pairs = self._exchange_blocks(note, Tables(exchanges=True, exchanges_have_crcs=checks_crc))
        return pairs if note is None else _one_later(pairs, self._context.inputs)

    def connection_batches(self) -> Iterator[list[ConnectionRow]]:
        """Yield a row for each TCP connection, in the order in which they closed.

        The filter's conditions on clients, brokers and times apply. No batch is empty. Raises what
        :meth:`batches` raises, with the first row.
        """
        for rows in self._rows(Tables(requests=False, connections=True)):
            if rows.connections:
                yield list(rows.connections)

    def open_connections(self, most: int) -> list[ConnectionRow]:
        """Return rows of up to ``most`` connections that are open now; call it between two blocks.

        The rows are those that there would be if the capture ended now. For a run in this process.
        """
        captures = self._context.inputs.opened
        summaries = islice(self.monitor.open_summaries(), most)
        rows = [row_of_connection(summary, captures) for summary in summaries]
        return list(filter(self.row_filter.matches_connection, rows))

    def anomaly_batches(self) -> Iterator[list[AnomalyRow]]:
        """Yield a row for each anomaly, as they are found.

        The filter's conditions on clients, brokers and times apply. No batch is empty. Raises what
        :meth:`batches` raises, with the first row.
        """
        for rows in self._rows(Tables(requests=False, anomalies=True)):
            if rows.anomalies:
                yield list(rows.anomalies)

    def resumable(
        self,
        saved_state: bytes | None,
        *,
        keeps_open: bool = False,
        more: Collection[str] = (),
        others: bool = False,
        first_id: int | None = None,
    ) -> ResumableRun:
        """Return a run that continues from a saved state, and that can save its own state.

        Args:
            saved_state: state of a run over earlier captures, with the same tables; None if there
                was none.
            keeps_open: whether connections stay open at the end, and their state is saved.
            more: see :meth:`table_rows`; but ``records`` is not possible.
            others: see :meth:`table_rows`.
            first_id: number of the first row of requests; None for that of the shard.
        """
        from kanalyze.runtime.state import ResumableRun  # imported late: rarely needed

        return ResumableRun(
            self._context,
            _tables(more, others=others),
            saved_state,
            keeps_open=keeps_open,
            first_id=first_id,
        )

    def _rows(self, tables: Tables, *, selected: bool = True) -> Iterator[TableRows]:
        """Open the captures, start workers; return all rows, or those that match the filter."""
        context = self._context
        captures, settings = context.open(), context.settings
        jobs = usable_processes(self._jobs, captures.progress[1]) if tables.can_be_shared else 1
        if jobs > 1 and isinstance(captures, MergedCaptures) and captures.can_be_read_again:
            from kanalyze.runtime.workers import Workers  # imported late: for large captures

            self._workers = Workers(
                captures, settings, tables, jobs, context.names, context.quality
            )
            self.has_workers = True
            rows = self._workers.rows()
        else:
            rows = self._read(captures, tables)
        rows = chain(_left_out_rows(context, captures, tables), rows)
        return map(SelectedRows(context, tables).of, rows) if selected else rows

    def _read(self, captures: Captures, tables: Tables) -> Iterator[TableRows]:
        """Yield the rows of a run in this process, which the monitor follows."""
        context = self._context
        settings = context.settings
        # What a key log would have been good for is counted by the stages.
        if settings.keylog is None and _are_without_packets(captures):
            if settings.shard.is_first:
                count_captures(context.quality, captures)
                if tables.anomalies:
                    yield TableRows(anomalies=anomaly_rows(captures.anomalies, settings, captures))
            return
        # Imported late: where there are no packets, it is a third of the time.
        from kanalyze.runtime.one_pass import OnePass

        run = OnePass(captures, settings, tables, context.names, context.quality)
        self.monitor.begin(run.stages, settings.catalog, run.extractors)
        for step, rows in run.steps():
            tokens = [*step.token_bytes, *step.proxy_credentials]
            if self._on_tokens is not None and tokens:
                self._on_tokens(tokens)
            yield from rows
        self.monitor.end()

    def _exchange_blocks(
        self, note: Callable[[RowBlock], object] | None, tables: Tables
    ) -> Iterator[tuple[Sequence[Exchange], RowBlock]]:
        all_rows = self._rows(tables, selected=False)
        selected = SelectedRows(self._context, tables)
        for rows in all_rows:
            if note is not None:
                note(rows.requests[0])
            matching = selected.of(rows)
            if matching.requests:
                yield matching.exchanges, matching.requests[0]


def _one_later(
    pairs: Iterator[tuple[Sequence[Exchange], RowBlock]], inputs: AnalysisInputs
) -> Iterator[tuple[Sequence[Exchange], RowBlock]]:
    """Yield each pair when the next one was read; not if an input is a pipe, which may wait."""
    delayed = None
    for pair in pairs:
        if inputs.progress[1] is None:
            yield pair
            continue
        if delayed is not None:
            yield delayed
        delayed = pair
    if delayed is not None:
        yield delayed


def _left_out_rows(context: RunContext, captures: Captures, tables: Tables) -> list[TableRows]:
    """Return the rows of captures that are not read."""
    settings, left_out = context.settings, context.inputs.left_out
    if not (tables.anomalies and settings.shard.is_first and left_out):
        return []
    return [TableRows(anomalies=anomaly_rows(left_out, settings, captures))]


def _are_without_packets(captures: Captures) -> bool:
    """Return true if captures have no packets; opens them as far as that takes."""
    return isinstance(captures, MergedCaptures) and not captures.have_packets()


def _tables(more: Collection[str], *, others: bool) -> Tables:
    """Return the tables to make; raises UsageError for one that needs a package."""
    if "client_metrics" in more:
        from kanalyze.tables.cluster.reader import push_reader  # imported late: for other tables

        push_reader()
    return Tables(connections=others, anomalies=others, more=frozenset(more))
