"""Rows of records, as objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.spec.rows.records import RECORD_COLUMNS, RecordRow
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.records.rows import RecordReader


def record_batches(
    reader: RecordReader, pairs: Iterable[tuple[Exchange, Row]]
) -> Iterator[list[RecordRow]]:
    """Yield the rows of the records in exchanges, by block."""
    exchanges = list(pairs)
    rows = RowBlock.of_rows([row for _, row in exchanges])
    for block in reader.blocks((exchange for exchange, _ in exchanges), rows):
        yield block.rows(RecordRow, RECORD_COLUMNS)
