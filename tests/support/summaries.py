"""Reports on made-up rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.queries.database import Database
from kanalyze.queries.report import MAX_KEYS, report_of
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.quality import CaptureQuality
from tests.support.filled import report_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kanalyze.spec.rows.requests import Row


def summary_of(
    rows: Sequence[Row] = (), quality: CaptureQuality | None = None, most_keys: int = MAX_KEYS
) -> dict[str, Any]:
    """Return the report on rows."""
    return summary_of_blocks([RowBlock.of_rows(rows)] if rows else [], quality, most_keys)


def summary_of_blocks(
    blocks: Iterable[RowBlock], quality: CaptureQuality | None = None, most_keys: int = MAX_KEYS
) -> dict[str, Any]:
    """Return the report on blocks of rows; ``quality`` may be known only after the last one."""
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        maker = report_tables(database, "requests")["requests"]
        for block in blocks:
            database.insert("requests", maker.of_block(block))
        return report_of(database, quality or CaptureQuality(), most_keys=most_keys)
