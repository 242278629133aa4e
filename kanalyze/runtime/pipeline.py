"""An analysis: captures and settings in, rows out. Begin reading here.

In: names of captures, or open binary files; settings. Out: batches of rows of one table, then the
quality of the captures.

    bytes -> PacketBatch -> StreamUpdate -> Exchange -> Row

An :class:`Analysis` checks its settings and starts one run. Each kind of run has a class:
:class:`~kanalyze.runtime.request_runs.RequestRun`,
:class:`~kanalyze.runtime.workers.Workers`,
:class:`~kanalyze.runtime.request_runs.ExchangeRun`,
:class:`~kanalyze.runtime.table_run.TableRun`,
:class:`~kanalyze.runtime.connection_run.ConnectionRun`,
:class:`~kanalyze.runtime.anomaly_run.AnomalyRun` and
:class:`~kanalyze.runtime.resumable_run.ResumableRun`. What they share is in
:class:`~kanalyze.runtime.run_context.RunContext`.

Memory is bounded by what open connections need: a capture ten times as long takes no more.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from kanalyze.common.argument_values import shown
from kanalyze.errors import UsageError
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.net.shard import ALL_CONNECTIONS, Shard
from kanalyze.runtime.analysis_inputs import AnalysisInputs, CaptureInput
from kanalyze.runtime.monitor import RunMonitor
from kanalyze.runtime.request_runs import ExchangeRun, MonitoredSteps, RequestRun
from kanalyze.runtime.row_source import RowSource
from kanalyze.runtime.run_context import RunContext
from kanalyze.runtime.settings import AnalysisSettings, broker_side
from kanalyze.runtime.stages import DEFAULT_MEMORY_BYTES, MemoryBounds
from kanalyze.runtime.workers import Workers, WorkerTask, usable_workers
from kanalyze.tables.filters import RowFilter
from kanalyze.tables.requests.extract import Extractors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kanalyze.capture.merge import MergedCaptures
    from kanalyze.common.paths import FileIdentity
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.message_bodies import KeepsBytes
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.streams import TokenBytes
    from kanalyze.runtime.resumable_run import ResumableRun
    from kanalyze.runtime.stages import Captures
    from kanalyze.runtime.table_run import TableRows, TableRun, Tables
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tls.keylog import KeyLog

__all__ = ["Analysis", "CaptureInput"]


class Analysis(RowSource):
    """One pass over captures that are read as one stream of packets.

    Iterate exactly one of :meth:`batches`, :meth:`row_batches`, :meth:`exchange_blocks`,
    :meth:`exchange_batches`, :meth:`connection_batches`, :meth:`anomaly_batches` and
    :meth:`resumable`, once; then ``quality`` is complete.
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
            raise UsageError(f"not a number of jobs: {shown(jobs)}")
        settings = AnalysisSettings(
            catalog=catalog,
            extractors=Extractors(catalog),
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
        self._started: RequestRun | TableRun | Workers | None = None
        """The batches for :meth:`batches`, if :meth:`start` was called before."""
        self._workers: Workers | None = None
        self.quality = self._context.quality
        self.names = self._context.names
        """Names of topics by id, and ids without a name; complete when all rows were yielded."""
        self.monitor = RunMonitor(self.quality)
        """The state of :meth:`batches` while it runs."""

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all; the latter is None if an input is a pipe."""
        workers = self._workers  # read once: a progress bar calls this from another thread
        return self._context.inputs.progress if workers is None else workers.progress

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
    def first_time_ns(self) -> int | None:
        """Unix time of the first packet in ns; None if there is none, or it is not read yet."""
        return self._context.first_time_ns

    def captures_again(self) -> MergedCaptures | None:
        """Return the captures for another pass; None before the first, or if they are a pipe."""
        return self._context.inputs.open_again()

    def start(self, tables: Tables | None = None) -> None:
        """Open the captures for :meth:`batches`, which otherwise does it itself.

        With ``tables``, open them for :meth:`table_rows`. Workers, if there are any, begin to read
        now; records are read in one process.

        Raises:
            CaptureError: an input is missing.
            OSError: the system cannot start the processes.
        """
        context = self._context
        if tables is not None:
            context.settings = context.settings.with_tables(tables.more)
        captures = context.open()
        total_bytes = captures.progress[1] if captures.can_be_read_again else None
        jobs = 1 if tables is not None and "records" in tables.more else self._jobs
        count = usable_workers(jobs, total_bytes)
        if count > 1:
            inputs = context.inputs
            task = WorkerTask(inputs.captures, inputs.stores, context.settings, tables)
            self._workers = Workers(task, count, context.names, context.quality)
            self._started = self._workers
            return
        steps = MonitoredSteps(context, captures, self.monitor, self._on_tokens)
        if tables is None:
            self._started = RequestRun(steps)
        else:
            from kanalyze.runtime.table_run import TableRun  # imported late: large tables

            self._started = TableRun(steps, tables)

    def close(self) -> None:
        """End what :meth:`start` began; may be called at any time."""
        if self._workers is not None:
            self._workers.close()

    def batches(self) -> Iterator[RowBlock]:
        """Yield rows of requests by column, in blocks, in the order in which exchanges completed.

        Raises:
            CaptureError: an input is missing or is not a capture.
        """
        if self._started is None:
            self.start()
        run, self._started = self._started, None
        assert isinstance(run, RequestRun | Workers)
        yield from self._context.matching(run.blocks())

    def table_rows(self, more: Collection[str] = (), *, others: bool = True) -> Iterator[TableRows]:
        """Yield the rows of several tables in one pass, as they are found.

        These are requests and, with ``others``, connections and anomalies, to which the filter's
        conditions on clients, brokers and times apply. ``more`` names tables whose lines belong to
        requests (``groups``, ``metadata``, ``records``); a line comes together with its request.
        Raises what :meth:`batches` raises.
        """
        from kanalyze.runtime.anomaly_run import anomaly_rows  # imported late: large tables
        from kanalyze.runtime.table_run import SelectedRows, TableRows, TableRun, Tables

        tables = Tables(others, frozenset(more))
        if self._started is None:
            self.start(tables)
        run, self._started = self._started, None
        assert isinstance(run, TableRun | Workers)
        context = self._context
        selected = SelectedRows(context, tables)
        if others:
            unreadable = anomaly_rows(
                context.inputs.left_out, context.settings, context.inputs.opened, lambda _: None
            )
            yield selected.of(TableRows([], [], unreadable))
        for rows in run.rows():
            yield selected.of(rows)

    def exchange_blocks(
        self, note: Callable[[RowBlock], object] | None = None
    ) -> Iterator[tuple[list[Exchange], RowBlock]]:
        """Yield the exchanges with the block of their rows; otherwise like :meth:`batches`.

        ``note`` is called with blocks of the rows of all exchanges, whatever the filter, before
        their exchanges are yielded: if no input is a pipe, also with the next block.
        """
        run = ExchangeRun(self._context)
        return run.blocks() if note is None else run.noted(note)

    def exchange_batches(
        self, note: Callable[[RowBlock], object] | None = None
    ) -> Iterator[list[tuple[Exchange, Row]]]:
        """Yield the exchanges with their rows, as objects; otherwise like exchange_blocks."""
        for exchanges, block in self.exchange_blocks(note):
            yield list(zip(exchanges, block.rows(), strict=True))

    def connection_batches(self) -> Iterator[list[ConnectionRow]]:
        """Yield a row for each TCP connection, in the order in which they closed.

        The filter's conditions on clients, brokers and times apply. Raises what :meth:`batches`
        raises.
        """
        from kanalyze.runtime.connection_run import ConnectionRun  # imported late: a large table

        return ConnectionRun(self._context).batches()

    def open_connections(self, most: int) -> list[ConnectionRow]:
        """Return rows of up to ``most`` connections that are open now; call it between two blocks.

        The rows are those that there would be if the capture ended now. For a run in this process.
        """
        from kanalyze.runtime.connection_run import matching_connections  # imported late, as above

        summaries = islice(self.monitor.open_summaries(), most)
        return matching_connections(summaries, self._context.inputs.opened, self.row_filter)

    def anomaly_batches(self) -> Iterator[list[AnomalyRow]]:
        """Yield a row for each anomaly, as they are found.

        The filter's conditions on clients, brokers and times apply. Raises what :meth:`batches`
        raises.
        """
        from kanalyze.runtime.anomaly_run import AnomalyRun  # imported late: large tables

        return AnomalyRun(self._context).batches()

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
        from kanalyze.runtime.resumable_run import ResumableRun  # imported late: rarely needed
        from kanalyze.runtime.table_run import Tables  # imported late, as above

        return ResumableRun(
            self._context,
            Tables(others, frozenset(more)),
            saved_state,
            keeps_open=keeps_open,
            first_id=first_id,
        )
