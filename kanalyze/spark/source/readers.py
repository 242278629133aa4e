"""The tables of the data source: which parts tasks read, and the rows of each part.

In: options. Out: a :class:`Plan`, its parts, and of each part Arrow batches. Must not know: Spark,
to which :mod:`kanalyze.spark.source.datasource` speaks.

Connections go on from one capture to the next, and a data source in Python cannot send anything
from one task to another. So each task reads all packets, and follows its share of the connections
alone: the rows of all parts together are those of one process, wherever files begin and end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from kanalyze.api.library import make_filter, read_topic_ids
from kanalyze.capture.inputs import find_inputs, find_readable, look_at
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.listing import check_many_may_read
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.times import parse_time_of_day_ns
from kanalyze.errors import UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.export.schema import choose_columns
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.records.types import DecompressionLimits
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.net.shard import EVERYTHING, Share
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.stages import DEFAULT_MEMORY_BYTES
from kanalyze.spark.source.options import (
    CONNECTION_OPTIONS,
    REQUEST_OPTIONS,
    TIME_OPTIONS,
    parse_options,
)
from kanalyze.spark.source.packets import PACKET_COLUMNS, packet_batches
from kanalyze.tables.anomalies import ANOMALY_COLUMNS, anomaly_row
from kanalyze.tables.columns.block import RowBlock, columns_of_rows
from kanalyze.tables.columns.numpy_arrays import ints_of
from kanalyze.tables.connections import CONNECTION_COLUMNS
from kanalyze.tables.records.rows import RECORD_COLUMNS, VALUE_COLUMNS, RecordReader, has_records
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kanalyze.capture.listing import FoundCapture
    from kanalyze.kafka.session.message_bodies import KeepsBytes
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.runtime.stages import Captures
    from kanalyze.spark.source.options import Options
    from kanalyze.tables.filters import RowFilter
    from kanalyze.tables.row import AnyRow, Column

__all__ = ["TABLES", "Part", "Plan", "Table", "captures_of", "make_plan", "parts_of", "read_part"]

_BYTES_A_PART: Final = 256 << 20
_MOST_PARTS: Final = 4
"""Unless more are asked for: every part is one more reading of all packets."""


class Part(NamedTuple):
    """What one task reads."""

    captures: tuple[FoundCapture, ...]
    share: Share = EVERYTHING
    """Of the connections in the captures."""
    unreadable: tuple[Anomaly, ...] = ()
    """Captures that were left out, and are told of with this part."""
    arrived: Captures | None = None
    """What is read in place of captures, where others read those."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return not self.captures and self.arrived is None


@dataclass(frozen=True)
class Plan:
    """What every task is to know.

    It can be pickled, and of the user's files a task needs the captures alone.
    """

    options: Options
    columns: tuple[Column, ...]
    """Those asked for."""
    row_filter: RowFilter
    topic_ids: dict[bytes, str] | None
    catalog: Catalog

    def __post_init__(self) -> None:
        """Raise UsageError for a time of day: no task knows on which day an archive begins."""
        if self.row_filter.needs_day:
            given = [self.options.filters.get(name) for name in ("since", "until")]
            text = next(each for each in given if each and parse_time_of_day_ns(each) is not None)
            raise UsageError(
                f"an archive may have many days: give {text!r} with a date "
                "(such as 2026-01-31T22:46)"
            )

    @property
    def table(self) -> Table:
        """The table asked for."""
        return TABLES[self.options.table]

    def analysis(self, part: Part, keep: KeepsBytes | None = None) -> Analysis:
        """Return what reads a part; ``keep`` as there. Raises UsageError."""
        options = self.options
        most = options.max_memory_bytes
        return Analysis(
            part.captures,
            row_filter=self.row_filter,
            ports=options.ports,
            brokers=options.filters.get("brokers", ()),
            keep=keep,
            topic_ids=self.topic_ids,
            catalog=self.catalog,
            max_memory_bytes=DEFAULT_MEMORY_BYTES if most is None else most,
            share=part.share,
            source=part.arrived,
        )


_Choose: TypeAlias = "Callable[[RowBlock], RowBlock]"
"""Given rows by column, returns those that are wanted."""
_Blocks: TypeAlias = "Callable[[Plan, Part], Iterator[RowBlock]]"
_Batches: TypeAlias = "Callable[[Plan, Part, _Choose], Iterator[pa.RecordBatch]]"
_Parts: TypeAlias = "Callable[[Options, Sequence[FoundCapture]], list[Part]]"


class Table(NamedTuple):
    """A table of the data source."""

    columns: tuple[Column, ...]
    options: tuple[str, ...]
    """Besides those that every table has."""
    parts: _Parts
    batches: _Batches
    on_request: frozenset[str] = frozenset()
    """Columns that are there with ``values=true`` alone: they hold what users wrote."""
    is_by_capture: bool = False
    """A capture has its rows by itself: those of others do not depend on it."""


def make_plan(given: Mapping[str, str], names: Sequence[str] | None = None) -> Plan:
    """Return what options ask for. Files with names of topics and definitions are read now.

    Args:
        given: the options.
        names: columns, in this order; None for those of the option, or all.

    Raises:
        DefinitionError: a definition breaks a rule, or the folder cannot be read.
        UsageError: an option makes no sense.
    """
    options = parse_options(given, {name: table.options for name, table in TABLES.items()})
    table = TABLES[options.table]
    asked = options.columns if names is None else names
    catalog = Catalog(options.definitions)
    plan = Plan(
        options=options,
        columns=choose_columns(asked, _columns(table, options, asked or ())),
        row_filter=make_filter(catalog, ports=options.ports, **options.filters),
        topic_ids=None if options.topic_ids is None else read_topic_ids(options.topic_ids),
        catalog=catalog,
    )
    plan.analysis(Part(()))  # says what else makes no sense
    return plan


def _columns(table: Table, options: Options, asked: Sequence[str]) -> tuple[Column, ...]:
    if options.values:
        return table.columns
    for name in asked:
        if name in table.on_request:
            raise UsageError(f"column {name!r} holds what users wrote: it takes values=true")
    return tuple(column for column in table.columns if column.name not in table.on_request)


def captures_of(options: Options, stores: Stores) -> tuple[list[FoundCapture], list[Anomaly]]:
    """Return the captures that options name, by the times of their first packets, each opened once.

    The anomalies are of those that were left out: of folders, or where that is asked for of all.

    Raises:
        CaptureError: one is missing, or is none; the text names it.
        UsageError: no capture is named.
    """
    if not options.paths:
        raise UsageError("no capture given: load(PATH), or option path")
    if options.leave_out_unreadable:
        return find_readable(options.paths, stores)
    left_out: list[Anomaly] = []
    found = find_inputs(options.paths, stores, left_out.append)
    for each in found:
        check_many_may_read(each.path)
    return [look_at(each, stores) for each in found], left_out


def parts_of(
    plan: Plan, found: Sequence[FoundCapture], unreadable: Sequence[Anomaly]
) -> list[Part]:
    """Divide captures among tasks; where there is none, there is one part of no capture."""
    first, *others = plan.table.parts(plan.options, found) or [Part(())]
    return [first._replace(unreadable=tuple(unreadable)), *others]


def read_part(plan: Plan, part: Part, choose: _Choose) -> Iterator[pa.RecordBatch]:
    """Give the rows of a part that ``choose`` lets pass, with the columns of the plan.

    Raises:
        CaptureError: a capture cannot be opened or read on.
    """
    yield from plan.table.batches(plan, part, choose)


# -- parts ----------------------------------------------------------------------------------------


def _shares(options: Options, found: Sequence[FoundCapture]) -> list[Part]:
    """Give each task a share of the connections in all captures."""
    count = options.partitions or _worthwhile_parts(found)
    return [Part(tuple(found), Share(index, count)) for index in range(count)]


def _worthwhile_parts(found: Sequence[FoundCapture]) -> int:
    sizes = [each.total_bytes for each in found]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return 1
    return max(1, min(_MOST_PARTS, -(-sum(known) // _BYTES_A_PART)))


def _whole_captures(options: Options, found: Sequence[FoundCapture]) -> list[Part]:
    """Give each task whole captures: a packet's number is known to who reads from the beginning."""
    count = min(options.partitions or len(found), len(found))
    return [Part(tuple(found[first::count])) for first in range(count)]


# -- rows -----------------------------------------------------------------------------------------


def _of_blocks(blocks: _Blocks) -> _Batches:
    """Make batches of what gives rows by column."""

    def batches(plan: Plan, part: Part, choose: _Choose) -> Iterator[pa.RecordBatch]:
        maker = BatchMaker(plan.columns)
        for block in blocks(plan, part):
            chosen = choose(block)
            if len(chosen):
                yield maker.of_block(chosen)

    return batches


def _block(rows: Sequence[AnyRow], plan: Plan) -> RowBlock:
    return RowBlock(len(rows), columns_of_rows(rows, plan.columns))


def _requests(plan: Plan, part: Part) -> Iterator[RowBlock]:
    if not part.is_empty:
        yield from plan.analysis(part).batches()


def _records(plan: Plan, part: Part) -> Iterator[RowBlock]:
    if part.is_empty:
        return
    reader = RecordReader(
        plan.catalog,
        Decoders(plan.catalog),
        topics=plan.options.filters.get("topics", ()),
        values_as="base64" if plan.options.values else None,
        limits=DecompressionLimits(most_records=plan.options.max_records),
    )
    for exchanges, rows in plan.analysis(part, keep=has_records).exchange_blocks():
        yield from reader.blocks(exchanges, rows)


def _connections(plan: Plan, part: Part) -> Iterator[RowBlock]:
    if not part.is_empty:
        for rows in plan.analysis(part).connection_batches():
            yield _block(rows, plan)


def _anomalies(plan: Plan, part: Part) -> Iterator[RowBlock]:
    left_out = [anomaly_row(anomaly) for anomaly in part.unreadable]
    yield _block([row for row in left_out if plan.row_filter.matches_anomaly(row)], plan)
    if not part.is_empty:
        for rows in plan.analysis(part).anomaly_batches():
            yield _block(rows, plan)


def _packets(plan: Plan, part: Part, choose: _Choose) -> Iterator[pa.RecordBatch]:
    stores = Stores()
    since_ns, until_ns = plan.row_filter.since_ns, plan.row_filter.until_ns

    def wanted(block: RowBlock) -> RowBlock:
        return choose(_between(block, since_ns, until_ns))

    for found in part.captures:
        yield from packet_batches(found.path, columns=plan.columns, choose=wanted, stores=stores)


def _between(block: RowBlock, since_ns: int | None, until_ns: int | None) -> RowBlock:
    times = ints_of(block.columns["time_ns"])
    is_wanted = np.ones(len(block), np.bool_)
    if since_ns is not None:
        is_wanted &= times.values >= since_ns
    if until_ns is not None:
        is_wanted &= times.values < until_ns
    return block if is_wanted.all() else block.take(np.flatnonzero(is_wanted).tolist())


TABLES: Final[dict[str, Table]] = {
    "requests": Table(COLUMNS, REQUEST_OPTIONS, _shares, _of_blocks(_requests)),
    "records": Table(
        RECORD_COLUMNS,
        (*REQUEST_OPTIONS, "values", "maxRecords"),
        _shares,
        _of_blocks(_records),
        on_request=VALUE_COLUMNS,
    ),
    "connections": Table(
        CONNECTION_COLUMNS, (*CONNECTION_OPTIONS, "clientId"), _shares, _of_blocks(_connections)
    ),
    "anomalies": Table(ANOMALY_COLUMNS, CONNECTION_OPTIONS, _shares, _of_blocks(_anomalies)),
    "packets": Table(PACKET_COLUMNS, TIME_OPTIONS, _whole_captures, _packets, is_by_capture=True),
}
"""By name. A table is added here, and nowhere else."""
