"""The run that yields the rows of every table: requests, connections, anomalies, and others.

In: the events of a run. Out: rows, as they are found.

The lines of some tables belong to rows of requests: facts in messages (``groups``, ``metadata``),
and the records in them. They are made only for requests that match the filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.runtime.anomaly_run import StepAnomalyRows
from kanalyze.runtime.connection_run import row_of_connection
from kanalyze.runtime.request_runs import step_blocks
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS
from kanalyze.tables.cluster.reader import ClusterLines
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.net.shard import Shard
    from kanalyze.runtime.request_runs import MonitoredSteps
    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.stages import BatchEvents, Captures, Stages
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.cluster.reader import ClusterFacts
    from kanalyze.tables.records.rows import RecordReader
    from kanalyze.tables.requests.row_assembler import RowAssembler

__all__ = [
    "RECORDS",
    "OtherRows",
    "SelectedRows",
    "StepRows",
    "TableRows",
    "TableRun",
    "Tables",
    "first_request_id",
]


RECORDS = "records"
"""The table of records, for which messages must keep their bytes."""


_IDS_PER_PART = 1 << 33


def first_request_id(part: int) -> int:
    """Return the number of the first request in a part of the connections.

    Numbers of requests (``request_id``) are unique over all parts.
    """
    return part * _IDS_PER_PART + 1


class Tables(NamedTuple):
    """The tables of a run, in addition to that of requests."""

    others: bool
    """Whether to make connections and anomalies."""
    more: frozenset[str]
    """Names of tables whose lines belong to requests."""


class TableRows(NamedTuple):
    """Some rows of each table."""

    requests: list[RowBlock]
    connections: list[ConnectionRow]
    anomalies: list[AnomalyRow]
    facts: Sequence[ClusterFacts] = ()
    """The facts from which lines are made; then ``requests`` is a single block."""
    exchanges: Sequence[Exchange] = ()
    """The exchanges from which lines of records are made; then ``requests`` is a single block."""
    lines: Sequence[tuple[str, RowBlock]] = ()
    """Rows of other tables, by name."""
    first_id: int = 0
    """Number of the first request; set by :class:`SelectedRows`."""

    def blocks(self) -> Iterator[tuple[str, RowBlock]]:
        """Yield (table, block) for the rows by column; no block is empty."""
        for block in self.requests:
            yield "requests", block
        if self.connections:
            yield "connections", RowBlock.of_rows(self.connections, CONNECTION_COLUMNS)
        if self.anomalies:
            yield "anomalies", RowBlock.of_rows(self.anomalies, ANOMALY_COLUMNS)
        yield from self.lines


class TableRun:
    """Rows of all tables, read in this process."""

    def __init__(self, steps: MonitoredSteps, tables: Tables) -> None:
        self._steps = steps
        self._tables = tables

    def rows(self) -> Iterator[TableRows]:
        """Yield all rows, once; files that cannot be read have no rows."""
        context, captures, tables = self._steps.context, self._steps.captures, self._tables
        settings = context.settings
        others = tables.others
        stages = settings.stages(connections=others, every_anomaly=others, checks_crc=others)
        step_rows = StepRows(settings, tables, stages, captures, context.row_assembler(captures))
        for step in self._steps.of(stages):
            yield from step_rows.of(step)


class StepRows:
    """Makes the rows of every table for each batch of events, before filtering."""

    def __init__(
        self,
        settings: AnalysisSettings,
        tables: Tables,
        stages: Stages,
        captures: Captures,
        assembler: RowAssembler,
    ) -> None:
        self._assembler = assembler
        self._reader = settings.cluster_reader(tables.more)
        self._keeps_exchanges = RECORDS in tables.more
        self._others: OtherRows | None = None
        if tables.others:
            self._others = OtherRows(settings, stages, captures, settings.shard)

    def of(self, step: BatchEvents) -> Iterator[TableRows]:
        """Yield the rows of a batch of events: requests block by block, then the others."""
        first = 0
        for block in step_blocks(step, self._assembler):
            exchanges = step.exchanges[first : first + len(block)]
            first += len(block)
            record_exchanges = exchanges if self._keeps_exchanges else ()
            yield TableRows([block], [], [], self._reader.read(exchanges, block), record_exchanges)
        if self._others is not None:
            yield TableRows([], *self._others.of(step))


class OtherRows:
    """Rows of connections and anomalies; anomalies of captures belong to the first shard."""

    def __init__(
        self, settings: AnalysisSettings, stages: Stages, captures: Captures, shard: Shard
    ) -> None:
        self._captures = captures
        self._anomalies = StepAnomalyRows(settings, stages, captures, shard)

    def of(self, step: BatchEvents) -> tuple[list[ConnectionRow], list[AnomalyRow]]:
        """Return the rows of a batch of events."""
        connections = [row_of_connection(summary, self._captures) for summary in step.summaries]
        return connections, self._anomalies.of(step)


class SelectedRows:
    """The rows that match the filter of an analysis, with the lines that belong to them."""

    def __init__(self, context: RunContext, tables: Tables, first_id: int | None = None) -> None:
        """``first_id`` is the number of the first request; None for that of the shard."""
        self._context = context
        self.cluster_lines = ClusterLines(context.names)
        self._records: RecordReader | None = None
        if RECORDS in tables.more:
            self._records = _record_reader(context)
        shard = context.settings.shard
        self._next_id = first_request_id(shard.index) if first_id is None else first_id

    def of(self, rows: TableRows) -> TableRows:
        """Return the matching rows; blocks of requests must come in the order of their numbers."""
        row_filter = self._context.row_filter
        first_id = self._next_id
        blocks: list[RowBlock] = []
        lines: list[tuple[str, RowBlock]] = []
        for block in rows.requests:
            numbers: Sequence[int] = range(len(block))
            if not row_filter.passes_all:
                numbers = row_filter.numbers(block)
            if not numbers:
                continue
            selected = block if len(numbers) == len(block) else block.take(numbers)
            blocks.append(selected)
            lines += self._lines(selected, numbers, rows)
            self._next_id += len(selected)
        return TableRows(
            blocks,
            [row for row in rows.connections if row_filter.matches_connection(row)],
            [row for row in rows.anomalies if row_filter.matches_anomaly(row)],
            lines=lines,
            first_id=first_id,
        )

    def _lines(
        self, selected: RowBlock, numbers: Sequence[int], rows: TableRows
    ) -> Iterator[tuple[str, RowBlock]]:
        facts = rows.facts
        if facts and len(selected) != len(rows.requests[0]):
            new_rows = {old_row: new_row for new_row, old_row in enumerate(numbers)}
            facts = [
                fact._replace(row=new_rows[fact.row]) for fact in facts if fact.row in new_rows
            ]
        if facts:
            yield from self.cluster_lines.blocks(selected, facts, self._next_id)
        if self._records is not None and rows.exchanges:
            exchanges = [rows.exchanges[old_row] for old_row in numbers]
            for block in self._records.blocks(exchanges, selected):
                yield RECORDS, block


def _record_reader(context: RunContext) -> RecordReader:
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.records.types import DecompressionLimits
    from kanalyze.tables.records.rows import RecordReader  # imported late: a large module

    catalog, limits = context.settings.catalog, DecompressionLimits()
    return RecordReader(catalog, Decoders(catalog), limits=limits, row_filter=context.row_filter)
