"""Which rows a batch makes (table, columns, filters), and how each table is made.

In: what a user asks for, and captures or a source of segments. Out: a :class:`ReadPlan`, which all
tasks share, and Arrow batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kanalyze.batch.key_sources import read_keys, shared_keys
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.times import parse_relative_ns, parse_time_of_day_ns, split_zone
from kanalyze.errors import UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.records.types import DecompressionLimits
from kanalyze.net.segment_columns import ALL_CONNECTIONS, Shard
from kanalyze.runtime.memory import DEFAULT_MEMORY_BYTES
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.anomalies import anomaly_row
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.records.rows import RecordReader, has_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from kanalyze.batch.key_sources import KeySources
    from kanalyze.capture.inputs import FoundCapture
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.message_reader import KeepsBytes
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.runtime.stages import Captures
    from kanalyze.spec.columns import Column
    from kanalyze.tables.filters import RowFilter


def _depends_on_captures(text: str) -> bool:
    """Return true for a time of day, and for a time by the beginning or the end."""
    text, _ = split_zone(text)
    return parse_time_of_day_ns(text) is not None or parse_relative_ns(text) is not None


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

    table: str
    columns: tuple[Column, ...]
    """The selected columns."""
    row_filter: RowFilter
    filters: Mapping[str, Any]
    """What the filter was made of: arguments of :func:`kanalyze.api.inputs.make_filter`."""
    catalog: Catalog
    ports: tuple[int, ...] = ()
    topic_ids: dict[bytes, str] | None = None
    definitions: str | None = None
    """The folder of definitions that the catalog has in addition to its own."""
    keys: KeySources | None = None
    """Where the secrets of TLS are, besides those inside captures."""
    max_memory_bytes: int | None = None
    """Limit for open connections, for all tasks together; None for the default."""
    leave_out_unreadable: bool = True
    """Whether a file that is not a capture, or cannot be opened, is an anomaly and not an error."""
    values: bool = False
    """Whether records have keys, values and headers."""
    max_records: int | None = None
    """Limit for one batch of records; None for as many as its bytes may contain."""

    def __post_init__(self) -> None:
        """Raise UsageError for times by the captures: no task knows when an archive begins."""
        if self.row_filter.needs_day:
            times = [self.filters.get(name) for name in ("since", "until")]
            text = next(time for time in times if time and _depends_on_captures(time))
            raise UsageError(
                f"an archive may have many days: give {text!r} with a date "
                "(such as 2026-01-31T22:46)"
            )

    @property
    def brokers(self) -> tuple[str, ...]:
        """The brokers of the filter, which also say which ends of connections are brokers."""
        return tuple(self.filters.get("broker", ()))

    def with_names(self, topic_ids: Mapping[bytes, str]) -> ReadPlan:
        """Return the plan with more names of topics; names that the user gave have priority."""
        return replace(self, topic_ids={**topic_ids, **(self.topic_ids or {})})

    def check(self) -> None:
        """Raise UsageError for an option that no analysis takes."""
        self.analysis(TablePartition(()))

    def analysis(self, partition: TablePartition, keep: KeepsBytes | None = None) -> Analysis:
        """Return the analysis of a partition; for ``keep`` see :class:`Analysis`.

        Reads the secrets of TLS, unless the partition is empty. Raises KanalyzeError.
        """
        limit = self.max_memory_bytes
        keylog = None
        if self.keys is not None and not partition.is_empty:
            # Reading captures adds the secrets inside them, so the key log must not be shared.
            keylog = (read_keys if partition.segments is None else shared_keys)(self.keys)
        return Analysis(
            partition.captures,
            row_filter=self.row_filter,
            ports=self.ports,
            brokers=self.brokers,
            keep=keep,
            topic_ids=self.topic_ids,
            catalog=self.catalog,
            max_memory_bytes=DEFAULT_MEMORY_BYTES if limit is None else limit,
            shard=partition.shard,
            source=partition.segments,
            keylog=keylog,
        )


_Blocks: TypeAlias = "Callable[[ReadPlan, TablePartition], Iterator[RowBlock]]"


def table_batches(plan: ReadPlan, partition: TablePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, with the columns of the plan.

    Raises:
        CaptureError: a capture cannot be opened or read.
    """
    maker = BatchMaker(plan.columns)
    for block in _BLOCKS[plan.table](plan, partition):
        if len(block):
            yield maker.of_block(block)


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
        values_as="base64" if plan.values else None,
        limits=DecompressionLimits(most_records=plan.max_records),
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


def _rows_of_requests(plan: ReadPlan, partition: TablePartition) -> Iterator[RowBlock]:
    """Yield the rows of a table whose rows belong to requests."""
    if not partition.is_empty:
        yield from plan.analysis(partition).line_blocks(plan.table)


_BLOCKS: Final[dict[str, _Blocks]] = {
    "requests": _requests,
    "records": _records,
    "connections": _connections,
    "anomalies": _anomalies,
    "groups": _rows_of_requests,
    "metadata": _rows_of_requests,
    "changes": _rows_of_requests,
    "client_metrics": _rows_of_requests,
}
"""What makes the rows of each table."""
