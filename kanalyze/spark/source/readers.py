"""The tables of the data source: their partitions, and the rows of each.

In: options. Out: a :class:`~kanalyze.batch.read_plan.ReadPlan`, its partitions, and Arrow batches.

A connection may continue in the next capture, and a Python data source cannot shuffle. So each task
reads all packets, but follows only the connections of its shard: the rows of all partitions
together are those of one process, wherever files begin and end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.api.files import read_topic_ids
from kanalyze.api.filters import make_filter
from kanalyze.batch.key_sources import find_key_files
from kanalyze.batch.read_plan import ReadPlan, TablePartition, table_batches
from kanalyze.capture.inputs import check_many_may_read, find_inputs, find_readable, look_at
from kanalyze.capture.io.stores import Stores
from kanalyze.common.garbage_collection import collecting_rarely
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.export.schema import choose_columns
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.net.shard import Shard
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
from kanalyze.tables.columns.numpy_arrays import ints_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from kanalyze.capture.inputs import FoundCapture
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.spark.source.options import Options
    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import RowBlock

__all__ = [
    "TABLES",
    "SourceTable",
    "captures_of",
    "make_plan",
    "partitions_of",
    "plan_of",
    "read_partition",
    "source_options",
]

_BYTES_A_TASK: Final = 256 << 20
_MAX_TASKS: Final = 4
"""Default limit of partitions: each of them reads all packets."""


class SourceTable(NamedTuple):
    """A table of the data source."""

    columns: tuple[Column, ...]
    options: tuple[str, ...]
    """Its options in addition to those that every table has."""
    on_request: frozenset[str] = frozenset()
    """Columns that need ``values=true``: they have users' data."""


def source_options(raw_options: Mapping[str, str]) -> Options:
    """Parse options as Spark has them; raises UsageError for an invalid one."""
    return parse_options(raw_options, {name: table.options for name, table in TABLES.items()})


def make_plan(raw_options: Mapping[str, str]) -> ReadPlan:
    """Return the plan for options as Spark has them; otherwise as :func:`plan_of`."""
    return plan_of(source_options(raw_options))


def plan_of(options: Options, names: Sequence[str] | None = None) -> ReadPlan:
    """Return the plan for options. Files with names of topics and definitions are read now.

    Args:
        options: what to read.
        names: columns, in this order; None for those of option ``columns``, or else all.

    Raises:
        DefinitionError: a definition breaks a rule, or the folder cannot be read.
        UsageError: an option has an invalid value.
    """
    requested = options.columns if names is None else names
    catalog = Catalog(options.definitions)
    plan = ReadPlan(
        table=options.table,
        columns=choose_columns(requested, _columns(options, requested or ())),
        row_filter=make_filter(catalog, port=options.ports, **options.filters),
        filters=options.filters,
        catalog=catalog,
        ports=options.ports,
        topic_ids=None if options.topic_ids is None else read_topic_ids(options.topic_ids),
        definitions=options.definitions,
        keys=find_key_files(options.keylog),
        max_memory_bytes=options.max_memory_bytes,
        leave_out_unreadable=options.leave_out_unreadable,
        values=options.values,
        max_records=options.max_records,
    )
    plan.check()
    return plan


def _columns(options: Options, requested: Sequence[str]) -> tuple[Column, ...]:
    table = TABLES[options.table]
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
    options: Options, captures: Sequence[FoundCapture], unreadable: Sequence[Anomaly]
) -> list[TablePartition]:
    """Divide captures among tasks; if there are none, there is one empty partition."""
    divide = _whole_captures if options.table == _PACKETS else _shards
    first, *others = divide(options, captures) or [TablePartition(())]
    return [first._replace(unreadable=tuple(unreadable)), *others]


def read_partition(plan: ReadPlan, partition: TablePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, with the columns of the plan.

    Raises:
        CaptureError: a capture cannot be opened or read.
    """
    batches = _packets if plan.table == _PACKETS else table_batches
    with collecting_rarely():
        yield from batches(plan, partition)


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


# -- packets --------------------------------------------------------------------------------------


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


_PACKETS: Final = "packets"
TABLES: Final[dict[str, SourceTable]] = {
    "requests": SourceTable(COLUMNS, REQUEST_OPTIONS),
    "records": SourceTable(
        columns_of_records(values=True, is_table=True),
        (*REQUEST_OPTIONS, "values", "maxRecords"),
        on_request=VALUE_COLUMNS,
    ),
    "connections": SourceTable(CONNECTION_COLUMNS, (*CONNECTION_OPTIONS, "clientId")),
    "anomalies": SourceTable(ANOMALY_COLUMNS, CONNECTION_OPTIONS),
    **{
        table: SourceTable(TABLE_SPECS[table].columns, REQUEST_OPTIONS)
        for table in ("groups", "metadata")
    },
    _PACKETS: SourceTable(PACKET_COLUMNS, TIME_OPTIONS),
}
"""The tables by name."""
