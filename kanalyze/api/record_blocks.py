"""The rows of records of a run, for Python and the command line.

In: an analysis whose messages keep their bytes, options. Out: blocks of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.records.types import DecompressionLimits
from kanalyze.tables.records.fetched import ProducedOffsets
from kanalyze.tables.records.rows import RecordReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.columns.block import RowBlock


def record_blocks(
    analysis: Analysis,
    catalog: Catalog,
    most_records: int | None,
    **options: Any,
) -> Iterator[RowBlock]:
    """Yield the rows of records that match the filter.

    A batch has at most ``most_records``, if that is set; for ``options`` see
    :class:`.RecordReader`. Raises what :meth:`.Analysis.batches` does.
    """
    produced = ProducedOffsets()
    reader = RecordReader(
        catalog,
        Decoders(catalog),
        row_filter=analysis.row_filter,
        limits=DecompressionLimits(most_records=most_records),
        produced=produced,
        **options,
    )
    for exchanges, block in analysis.exchange_blocks(produced.note, checks_crc=False):
        yield from reader.blocks(exchanges, block)
