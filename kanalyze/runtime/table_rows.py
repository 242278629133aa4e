"""Makes the rows of a run: requests, connections, anomalies, and lines that belong to requests.

In: the events of a batch of packets. Out: :class:`TableRows`, first of all exchanges and
connections (:class:`RowMaker`), then those that match the filter (:class:`SelectedRows`).

The lines of some tables belong to rows of requests: facts in messages (``groups``, ``metadata``),
and the records in them. They are made only for requests that match the filter.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from kanalyze.kafka.session.events import ConnectionSummary
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.runtime.settings import AnalysisSettings, RunContext
    from kanalyze.runtime.stages import BatchEvents, Captures, Stages
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.cluster.reader import ClusterFacts, ClusterLines, ClusterReader
    from kanalyze.tables.records.rows import RecordReader
    from kanalyze.tables.requests.row_assembler import RowAssembler

RECORDS = "records"
"""The table of records, for which messages must keep their bytes."""


_IDS_PER_PART = 1 << 33


def first_request_id(part: int) -> int:
    """Return the number of the first request in a part of the connections.

    Numbers of requests (``request_id``) are unique over all parts.
    """
    return part * _IDS_PER_PART + 1


class Tables(NamedTuple):
    """The tables that a run makes."""

    requests: bool = True
    connections: bool = False
    anomalies: bool = False
    more: frozenset[str] = frozenset()
    """Names of tables whose lines belong to requests."""
    commits: bool = True
    """Whether ``groups`` has a line for each partition of a commit."""
    session_lists: bool = False
    """Whether rows of requests have :data:`~kanalyze.spec.rows.requests.SESSION_COLUMNS`."""
    exchanges: bool = False
    """Whether rows of requests come with their exchanges, in blocks that are small enough for all
    of their rows to be in memory as objects."""
    exchanges_have_crcs: bool = True
    """Whether exchanges say which of their batches of records have wrong CRCs."""

    @property
    def can_be_shared(self) -> bool:
        """True if workers can make the tables: exchanges and records are read in one process.

        Those without requests keep the order in which connections close.
        """
        return self.requests and not self.exchanges and RECORDS not in self.more


class TableRows(NamedTuple):
    """Some rows of each table."""

    requests: Sequence[RowBlock] = ()
    connections: Sequence[ConnectionRow] = ()
    anomalies: Sequence[AnomalyRow] = ()
    facts: Sequence[ClusterFacts] = ()
    """The facts from which lines are made; then ``requests`` is a single block."""
    exchanges: Sequence[Exchange] = ()
    """The exchanges of the requests; then ``requests`` is a single block."""
    lines: Sequence[tuple[str, RowBlock]] = ()
    """Rows of other tables, by name."""
    first_id: int = 0
    """Number of the first request; set by :class:`SelectedRows`."""

    def blocks(self) -> Iterator[tuple[str, RowBlock]]:
        """Yield (table, block) for the rows by column; no block is empty."""
        for block in self.requests:
            yield "requests", block
        if self.connections:
            from kanalyze.spec.rows.connections import CONNECTION_COLUMNS

            yield "connections", RowBlock.of_rows(self.connections, CONNECTION_COLUMNS)
        if self.anomalies:
            from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS

            yield "anomalies", RowBlock.of_rows(self.anomalies, ANOMALY_COLUMNS)
        yield from self.lines


class RowMaker:
    """Makes the rows of some tables for each batch of events, before filtering."""

    def __init__(
        self,
        settings: AnalysisSettings,
        tables: Tables,
        stages: Stages,
        captures: Captures,
        assembler: RowAssembler,
        reader: ClusterReader | None,
        *,
        with_ids: bool = False,
    ) -> None:
        """For ``with_ids`` see :meth:`.RowAssembler.drain`.

        ``reader`` reads the facts of the tables whose lines belong to requests, if there are any.
        """
        self._settings = settings
        self._tables = tables
        self._stages = stages
        self._captures = captures
        self._assembler = assembler
        self._with_ids = with_ids
        self._reader = reader
        self._reported_anomalies = 0
        """Number of the anomalies of captures that have rows."""

    def rows(self, step: BatchEvents) -> Iterator[TableRows]:
        """Yield the rows of a batch of events: requests block by block, then the others."""
        tables = self._tables
        if tables.requests:
            yield from self._requests(step)
        if tables.connections or tables.anomalies:
            summaries = step.summaries if tables.connections else ()
            connections = [row_of_connection(summary, self._captures) for summary in summaries]
            yield TableRows((), connections, self._anomalies(step) if tables.anomalies else ())

    def _requests(self, step: BatchEvents) -> Iterator[TableRows]:
        keeps_exchanges = self._tables.exchanges or RECORDS in self._tables.more
        first = 0
        for block in request_blocks(step, self._assembler, with_ids=self._with_ids):
            for piece in block.pieces() if self._tables.exchanges else (block,):
                exchanges = step.exchanges[first : first + len(piece)]
                first += len(piece)
                facts = () if self._reader is None else self._reader.read(exchanges, piece)
                kept = exchanges if keeps_exchanges else ()
                yield TableRows((piece,), facts=facts, exchanges=kept)

    def _anomalies(self, step: BatchEvents) -> list[AnomalyRow]:
        """Return the rows of the stages' anomalies, after those of the captures so far.

        Those of captures belong to the first shard of the connections.
        """
        captures = self._captures
        anomalies = step.anomalies
        if self._settings.shard.is_first:
            anomalies = [*captures.anomalies[self._reported_anomalies :], *anomalies]
            self._reported_anomalies = len(captures.anomalies)
        client_index = partial(self._stages.client_index, events=step)
        return anomaly_rows(anomalies, self._settings, captures, client_index)


def request_blocks(
    step: BatchEvents, assembler: RowAssembler, *, with_ids: bool = False
) -> Iterator[RowBlock]:
    """Yield the rows of the exchanges in a batch of events, in blocks of bounded size."""
    first = 0
    while first < len(step.exchanges):
        first = assembler.add_until_full(step.exchanges, first)
        yield assembler.drain(with_ids=with_ids)


def row_of_connection(summary: ConnectionSummary, captures: Captures) -> ConnectionRow:
    """Return the row of a connection, which is complete if it has closed."""
    from kanalyze.tables.connections import connection_row  # imported late: a large table

    return connection_row(summary, captures.locate)


def anomaly_rows(
    anomalies: Iterable[Anomaly],
    settings: AnalysisSettings,
    captures: Captures,
    client_index: Callable[[TcpConnection], int | None] | None = None,
) -> list[AnomalyRow]:
    """Return the rows of anomalies.

    ``client_index`` returns which end of a connection is the client, None if unknown; it is needed
    for anomalies of connections.
    """
    from kanalyze.tables.anomalies import anomaly_row  # imported late: a large table

    rows = []
    for anomaly in anomalies:
        tcp = anomaly.connection
        index = None if tcp is None or client_index is None else client_index(tcp)
        if tcp is not None and index is None:
            index = tcp.opened_by
        api = None if anomaly.api_key is None else settings.catalog.api(anomaly.api_key)
        rows.append(
            anomaly_row(
                anomaly,
                locate=captures.locate,
                client_index=index,
                api_name=None if api is None else api.name,
            )
        )
    return rows


class SelectedRows:
    """The rows that match the filter of an analysis, with the lines that belong to them."""

    def __init__(
        self,
        context: RunContext,
        tables: Tables,
        first_id: int | None = None,
        cluster_lines: ClusterLines | None = None,
    ) -> None:
        """Select rows of some tables.

        Args:
            context: has the filter, and the names of topics.
            tables: the tables.
            first_id: the number of the first request; None for that of the shard.
            cluster_lines: makes the lines of groups and metadata; None for a new one if needed.
        """
        self._context = context
        self._cluster_lines = cluster_lines
        self._records = _record_reader(context) if RECORDS in tables.more else None
        shard = context.settings.shard
        self._next_id = first_request_id(shard.index) if first_id is None else first_id

    def of(self, rows: TableRows) -> TableRows:
        """Return the matching rows; blocks of requests must come in the order of their numbers."""
        row_filter = self._context.row_filter
        first_id = self._next_id
        blocks: list[RowBlock] = []
        exchanges: Sequence[Exchange] = ()
        lines: list[tuple[str, RowBlock]] = []
        for block in rows.requests:
            numbers: Sequence[int] = range(len(block))
            if not row_filter.passes_all:
                numbers = row_filter.numbers(block)
            if not numbers:
                continue
            selected = block if len(numbers) == len(block) else block.take(numbers)
            if not row_filter.passes_all:
                self._context.names.note_shown(selected)
            blocks.append(selected)
            if rows.exchanges:
                exchanges = [rows.exchanges[number] for number in numbers]
            lines += self._lines(block, selected, numbers, rows.facts)
            if self._records is not None:
                lines += ((RECORDS, part) for part in self._records.blocks(exchanges, selected))
            self._next_id += len(selected)
        return TableRows(
            blocks,
            [row for row in rows.connections if row_filter.matches_connection(row)],
            [row for row in rows.anomalies if row_filter.matches_anomaly(row)],
            exchanges=exchanges,
            lines=lines,
            first_id=first_id,
        )

    def _lines(
        self,
        block: RowBlock,
        selected: RowBlock,
        numbers: Sequence[int],
        facts: Sequence[ClusterFacts],
    ) -> Iterator[tuple[str, RowBlock]]:
        if facts and len(selected) != len(block):
            new_rows = {old_row: new_row for new_row, old_row in enumerate(numbers)}
            facts = [
                fact._replace(row=new_rows[fact.row]) for fact in facts if fact.row in new_rows
            ]
        if facts:
            if self._cluster_lines is None:
                self._cluster_lines = new_cluster_lines(self._context)
            yield from self._cluster_lines.blocks(selected, facts, self._next_id)


def new_cluster_lines(context: RunContext) -> ClusterLines:
    """Return what makes the lines of groups and metadata, with the names of topics of a run."""
    from kanalyze.tables.cluster.reader import ClusterLines  # imported late: for other tables

    return ClusterLines(context.names)


def _record_reader(context: RunContext) -> RecordReader:
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.records.types import DecompressionLimits
    from kanalyze.tables.records.rows import RecordReader  # imported late: a large module

    catalog, limits = context.settings.catalog, DecompressionLimits()
    return RecordReader(catalog, Decoders(catalog), limits=limits, row_filter=context.row_filter)


class RowSource:
    """A source of rows, such as an analysis of captures or of saved files."""

    is_saved = False
    """Whether all rows are known before they are read."""
    has_workers = False
    """Whether other processes make the rows that :meth:`batches` or others have returned."""

    def batches(self) -> Iterator[RowBlock]:
        """Return rows of requests by column, in blocks."""
        raise NotImplementedError

    def table_rows(
        self, more: Collection[str] = (), *, others: bool = True, commits: bool = True
    ) -> Iterator[TableRows]:
        """Return the rows of several tables in one pass."""
        raise NotImplementedError

    def row_batches(self) -> Iterator[list[Row]]:
        """Yield the rows as objects; otherwise like :meth:`batches`."""
        for block in self.batches():
            for piece in block.pieces():
                yield piece.rows()

    def line_blocks(self, table: str) -> Iterator[RowBlock]:
        """Yield the lines of one table, such as ``groups``, whose lines belong to requests."""
        for rows in self.table_rows([table], others=False):
            for _, block in rows.lines:
                yield block
