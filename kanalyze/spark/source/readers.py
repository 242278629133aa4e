"""The tables of the data source: their partitions, and the rows of each.

In: options. Out: a :class:`ReadPlan`, its partitions, and Arrow batches of each.

A connection may continue in the next capture, and a Python data source cannot shuffle. So each task
reads all packets, but follows only the connections of its shard: the rows of all partitions
together are those of one process, wherever files begin and end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from kanalyze.api.files import read_topic_ids
from kanalyze.api.filters import make_filter
from kanalyze.capture.inputs import find_inputs, find_readable, look_at
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.listing import check_many_may_read
from kanalyze.common.garbage_collection import collecting_rarely
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.times import parse_time_of_day_ns
from kanalyze.errors import UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.export.schema import choose_columns
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.records.types import DecompressionLimits
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.net.shard import ALL_CONNECTIONS, Shard
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.stages import DEFAULT_MEMORY_BYTES
from kanalyze.spark.key_sources import find_key_files, read_keys, shared_keys
from kanalyze.spark.source.options import (
    CONNECTION_OPTIONS,
    REQUEST_OPTIONS,
    TIME_OPTIONS,
    parse_options,
)
from kanalyze.spark.source.packets import PACKET_COLUMNS, packet_batches
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS
from kanalyze.spec.rows.records import VALUE_COLUMNS, columns_of_records
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.spec.rows.tables import TABLES as TABLE_SPECS
from kanalyze.tables.anomalies import anomaly_row
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.columns.numpy_arrays import ints_of
from kanalyze.tables.records.rows import RecordReader, has_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kanalyze.capture.listing import FoundCapture
    from kanalyze.kafka.session.message_bodies import KeepsBytes
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.runtime.stages import Captures
    from kanalyze.spark.key_sources import KeySources
    from kanalyze.spark.source.options import Options
    from kanalyze.spec.columns import Column
    from kanalyze.tables.filters import RowFilter

__all__ = [
    "TABLES",
    "ReadPlan",
    "SourceTable",
    "TablePartition",
    "captures_of",
    "make_plan",
    "partitions_of",
    "read_partition",
]

_BYTES_A_TASK: Final = 256 << 20
_MAX_TASKS: Final = 4
"""Default limit of partitions: each of them reads all packets."""


class TablePartition(NamedTuple):
    """What one task reads."""

    captures: tuple[FoundCapture, ...]
    shard: Shard = ALL_CONNECTIONS
    """The shard of the connections in the captures."""
    unreadable: tuple[Anomaly, ...] = ()
    """Captures that were left out; their anomalies are rows of this partition."""
    segments: Captures | None = None
    """A source to read instead of captures, in an archive."""

    @property
    def is_empty(self) -> bool:
        """Return true if there is nothing to read."""
        return not self.captures and self.segments is None


@dataclass(frozen=True)
class ReadPlan:
    """What every task needs in addition to captures; can be pickled."""

    options: Options
    columns: tuple[Column, ...]
    """The selected columns."""
    row_filter: RowFilter
    topic_ids: dict[bytes, str] | None
    catalog: Catalog
    keys: KeySources | None = None
    """Where the secrets of TLS are, besides those inside captures."""

    def __post_init__(self) -> None:
        """Raise UsageError for a time of day: no task knows on which day an archive begins."""
        if self.row_filter.needs_day:
            times = [self.options.filters.get(name) for name in ("since", "until")]
            text = next(time for time in times if time and parse_time_of_day_ns(time) is not None)
            raise UsageError(
                f"an archive may have many days: give {text!r} with a date "
                "(such as 2026-01-31T22:46)"
            )

    @property
    def table(self) -> SourceTable:
        """The table of the options."""
        return TABLES[self.options.table]

    def with_names(self, topic_ids: Mapping[bytes, str]) -> ReadPlan:
        """Return the plan with more names of topics; names that the user gave have priority."""
        return replace(self, topic_ids={**topic_ids, **(self.topic_ids or {})})

    def analysis(self, partition: TablePartition, keep: KeepsBytes | None = None) -> Analysis:
        """Return the analysis of a partition; for ``keep`` see :class:`Analysis`.

        Reads the secrets of TLS, unless the partition is empty. Raises KanalyzeError.
        """
        options = self.options
        limit = options.max_memory_bytes
        keylog = None
        if self.keys is not None and not partition.is_empty:
            # Reading captures adds the secrets inside them, so the key log must not be shared.
            keylog = (read_keys if partition.segments is None else shared_keys)(self.keys)
        return Analysis(
            partition.captures,
            row_filter=self.row_filter,
            ports=options.ports,
            brokers=options.filters.get("broker", ()),
            keep=keep,
            topic_ids=self.topic_ids,
            catalog=self.catalog,
            max_memory_bytes=DEFAULT_MEMORY_BYTES if limit is None else limit,
            shard=partition.shard,
            source=partition.segments,
            keylog=keylog,
        )


_Blocks: TypeAlias = "Callable[[ReadPlan, TablePartition], Iterator[RowBlock]]"
_Batches: TypeAlias = "Callable[[ReadPlan, TablePartition], Iterator[pa.RecordBatch]]"
_Divide: TypeAlias = "Callable[[Options, Sequence[FoundCapture]], list[TablePartition]]"


class SourceTable(NamedTuple):
    """A table of the data source."""

    columns: tuple[Column, ...]
    options: tuple[str, ...]
    """Its options in addition to those that every table has."""
    divide: _Divide
    batches: _Batches
    on_request: frozenset[str] = frozenset()
    """Columns that need ``values=true``: they have users' data."""


def make_plan(raw_options: Mapping[str, str], names: Sequence[str] | None = None) -> ReadPlan:
    """Return the plan for options. Files with names of topics and definitions are read now.

    Args:
        raw_options: options as Spark has them.
        names: columns, in this order; None for those of option ``columns``, or else all.

    Raises:
        DefinitionError: a definition breaks a rule, or the folder cannot be read.
        UsageError: an option has an invalid value.
    """
    options = parse_options(raw_options, {name: table.options for name, table in TABLES.items()})
    table = TABLES[options.table]
    requested = options.columns if names is None else names
    catalog = Catalog(options.definitions)
    plan = ReadPlan(
        options=options,
        columns=choose_columns(requested, _columns(table, options, requested or ())),
        row_filter=make_filter(catalog, port=options.ports, **options.filters),
        topic_ids=None if options.topic_ids is None else read_topic_ids(options.topic_ids),
        catalog=catalog,
        keys=find_key_files(options.keylog),
    )
    plan.analysis(TablePartition(()))  # checks the other options
    return plan


def _columns(table: SourceTable, options: Options, requested: Sequence[str]) -> tuple[Column, ...]:
    if options.values:
        return table.columns
    for name in requested:
        if name in table.on_request:
            raise UsageError(f"column {name!r} has users' data: use values=true")
    return tuple(column for column in table.columns if column.name not in table.on_request)


def captures_of(options: Options, stores: Stores) -> tuple[list[FoundCapture], list[Anomaly]]:
    """Return the captures that options name, sorted by the times of their first packets.

    Each is opened once. The anomalies are of files that were left out: files in folders, or with
    mode ``quarantine`` any file.

    Raises:
        CaptureError: a capture is missing, or a file is no capture; the text names it.
        UsageError: no capture is named.
    """
    if not options.paths:
        raise UsageError("no capture given: load(PATH), or option path")
    if options.leave_out_unreadable:
        return find_readable(options.paths, stores)
    left_out: list[Anomaly] = []
    captures = find_inputs(options.paths, stores, left_out.append, needs_all=True)
    for capture in captures:
        check_many_may_read(capture.path)
    return [look_at(capture, stores) for capture in captures], left_out


def partitions_of(
    plan: ReadPlan, captures: Sequence[FoundCapture], unreadable: Sequence[Anomaly]
) -> list[TablePartition]:
    """Divide captures among tasks; if there are none, there is one empty partition."""
    first, *others = plan.table.divide(plan.options, captures) or [TablePartition(())]
    return [first._replace(unreadable=tuple(unreadable)), *others]


def read_partition(plan: ReadPlan, partition: TablePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, with the columns of the plan.

    Raises:
        CaptureError: a capture cannot be opened or read.
    """
    with collecting_rarely():
        yield from plan.table.batches(plan, partition)


# -- partitions -----------------------------------------------------------------------------------


def _shards(options: Options, captures: Sequence[FoundCapture]) -> list[TablePartition]:
    """Give each task a shard of the connections in all captures."""
    count = options.partitions or _worthwhile_tasks(captures)
    return [TablePartition(tuple(captures), Shard(index, count)) for index in range(count)]


def _worthwhile_tasks(captures: Sequence[FoundCapture]) -> int:
    sizes = [capture.total_bytes for capture in captures]
    known_sizes = [size for size in sizes if size is not None]
    if len(known_sizes) < len(sizes):
        return 1
    return max(1, min(_MAX_TASKS, -(-sum(known_sizes) // _BYTES_A_TASK)))


def _whole_captures(options: Options, captures: Sequence[FoundCapture]) -> list[TablePartition]:
    """Give each task whole captures: packets are numbered from the beginning of a capture."""
    count = min(options.partitions or len(captures), len(captures))
    return [TablePartition(tuple(captures[first::count])) for first in range(count)]


# -- rows -----------------------------------------------------------------------------------------


def _of_blocks(blocks: _Blocks) -> _Batches:
    """Make batches from blocks of rows."""

    def batches(plan: ReadPlan, partition: TablePartition) -> Iterator[pa.RecordBatch]:
        maker = BatchMaker(plan.columns)
        for block in blocks(plan, partition):
            if len(block):
                yield maker.of_block(block)

    return batches


def _requests(plan: ReadPlan, partition: TablePartition) -> Iterator[RowBlock]:
    if not partition.is_empty:
        yield from plan.analysis(partition).batches()


def _records(plan: ReadPlan, partition: TablePartition) -> Iterator[RowBlock]:
    if partition.is_empty:
        return
    reader = RecordReader(
        plan.catalog,
        Decoders(plan.catalog),
        row_filter=plan.row_filter,
        values_as="base64" if plan.options.values else None,
        limits=DecompressionLimits(most_records=plan.options.max_records),
    )
    for exchanges, rows in plan.analysis(partition, keep=has_records).exchange_blocks():
        yield from reader.blocks(exchanges, rows)


def _connections(plan: ReadPlan, partition: TablePartition) -> Iterator[RowBlock]:
    if not partition.is_empty:
        for rows in plan.analysis(partition).connection_batches():
            yield RowBlock.of_rows(rows, plan.columns)


def _anomalies(plan: ReadPlan, partition: TablePartition) -> Iterator[RowBlock]:
    left_out = [anomaly_row(anomaly) for anomaly in partition.unreadable]
    matching = [row for row in left_out if plan.row_filter.matches_anomaly(row)]
    yield RowBlock.of_rows(matching, plan.columns)
    if not partition.is_empty:
        for rows in plan.analysis(partition).anomaly_batches():
            yield RowBlock.of_rows(rows, plan.columns)


def _rows_of_requests(table: str) -> _Blocks:
    """Return a function that yields the rows of a table whose rows belong to requests."""

    def blocks(plan: ReadPlan, partition: TablePartition) -> Iterator[RowBlock]:
        if not partition.is_empty:
            yield from plan.analysis(partition).line_blocks(table)

    return blocks


def _packets(plan: ReadPlan, partition: TablePartition) -> Iterator[pa.RecordBatch]:
    stores = Stores()
    since_ns, until_ns = plan.row_filter.get("since"), plan.row_filter.get("until")

    def choose(block: RowBlock) -> RowBlock:
        return _between(block, since_ns, until_ns)

    for capture in partition.captures:
        yield from packet_batches(capture.path, columns=plan.columns, choose=choose, stores=stores)


def _between(block: RowBlock, since_ns: int | None, until_ns: int | None) -> RowBlock:
    times = ints_of(block.columns["time_ns"])
    is_selected = np.ones(len(block), np.bool_)
    if since_ns is not None:
        is_selected &= times.values >= since_ns
    if until_ns is not None:
        is_selected &= times.values < until_ns
    return block if is_selected.all() else block.take(np.flatnonzero(is_selected).tolist())


TABLES: Final[dict[str, SourceTable]] = {
    "requests": SourceTable(COLUMNS, REQUEST_OPTIONS, _shards, _of_blocks(_requests)),
    "records": SourceTable(
        columns_of_records(values=True, is_table=True),
        (*REQUEST_OPTIONS, "values", "maxRecords"),
        _shards,
        _of_blocks(_records),
        on_request=VALUE_COLUMNS,
    ),
    "connections": SourceTable(
        CONNECTION_COLUMNS, (*CONNECTION_OPTIONS, "clientId"), _shards, _of_blocks(_connections)
    ),
    "anomalies": SourceTable(ANOMALY_COLUMNS, CONNECTION_OPTIONS, _shards, _of_blocks(_anomalies)),
    **{
        table: SourceTable(
            TABLE_SPECS[table].columns,
            REQUEST_OPTIONS,
            _shards,
            _of_blocks(_rows_of_requests(table)),
        )
        for table in ("groups", "metadata")
    },
    "packets": SourceTable(PACKET_COLUMNS, TIME_OPTIONS, _whole_captures, _packets),
}
"""The tables by name. A table is added here, and nowhere else."""
