"""Puts the tables of a run into a database, for queries.

In: an analysis, and an empty database. Out: the database, filled. This module must not know the
queries.
"""

from __future__ import annotations

from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from kanalyze.api.saved import SavedAnalysis
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.arrow import BatchMaker
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.tables.quality_facts import QUALITY, quality_facts
from kanalyze.tables.registry import ALWAYS, choose_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.quality import CaptureQuality

__all__ = ["OpenedTables", "fill", "opened_tables"]


class OpenedTables(NamedTuple):
    """The tables of captures or saved files, and facts about them."""

    database: Database
    quality: CaptureQuality
    conditions: dict[str, Any]
    """The active filter."""


@contextmanager
def opened_tables(
    analysis: Analysis | SavedAnalysis,
    tables: Iterable[str] = (),
    *,
    max_memory_bytes: int = DEFAULT_MEMORY_BYTES,
    threads: int = 1,
    progress: AbstractContextManager[None] | None = None,
) -> Iterator[OpenedTables]:
    """Run an analysis, and provide its tables in a database inside a ``with`` block.

    Args:
        analysis: an analysis of captures or of saved files.
        tables: see :func:`fill`.
        max_memory_bytes: memory in bytes for tables and queries.
        threads: number of threads of a query.
        progress: a context manager that is entered while the analysis runs.

    Raises what :func:`fill` raises.
    """
    with (
        Database(max_memory_bytes=max_memory_bytes, threads=threads) as database,
        closing(analysis),
    ):
        with progress or nullcontext():
            fill(database, analysis, tables)
        yield OpenedTables(database, analysis.quality, analysis.row_filter.conditions)


def fill(
    database: Database, analysis: Analysis | SavedAnalysis, tables: Iterable[str] = ()
) -> None:
    """Put the rows of an analysis into tables.

    The tables of :data:`kanalyze.tables.registry.ALWAYS` are always filled; ``tables`` names
    additional ones. Raises UsageError for an unknown table, and KanalyzeError if a capture cannot
    be read.
    """
    chosen = choose_tables(tables)
    if isinstance(analysis, SavedAnalysis):
        chosen = analysis.tables([table.name for table in chosen])
        if analysis.is_whole:
            database.attach(analysis.files)
            return
    # DuckDB reads dictionary-encoded texts in half the time.
    makers = {table.name: BatchMaker(table.columns, coded=True) for table in chosen}
    for name, maker in makers.items():
        database.create(name, maker.schema)
    for rows in analysis.table_rows(set(makers).difference((*ALWAYS, QUALITY))):
        for name, block in rows.blocks():
            database.insert(name, makers[name].of_block(block))
    if QUALITY in makers:
        facts = list(quality_facts(analysis.quality))
        database.insert(QUALITY, makers[QUALITY].of_rows(facts))
