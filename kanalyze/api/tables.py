"""The tables of a run in a database, for queries.

In: an analysis, and an empty database. Out: the database, filled. This module must not know what is
asked of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.export.arrow import BatchMaker
from kanalyze.tables.quality_facts import QUALITY, quality_facts
from kanalyze.tables.registry import ALWAYS, choose_tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.queries.database import Database
    from kanalyze.runtime.pipeline import Analysis

__all__ = ["fill"]


def fill(database: Database, analysis: Analysis, tables: Iterable[str] = ()) -> None:
    """Put the rows of an analysis into tables.

    Those of :data:`kanalyze.tables.registry.ALWAYS` are filled in any case, ``tables`` names those
    that are wanted too. Raises UsageError for a name that is no table, and KanalyzeError where a
    capture cannot be read.
    """
    chosen = choose_tables(tables)
    makers = {table.name: BatchMaker(table.columns) for table in chosen}
    for name, maker in makers.items():
        database.create(name, maker.schema)
    for rows in analysis.table_rows(set(makers).difference((*ALWAYS, QUALITY))):
        for name, block in rows.blocks():
            database.insert(name, makers[name].of_block(block))
    if QUALITY in makers:
        facts = list(quality_facts(analysis.quality))
        database.insert(QUALITY, makers[QUALITY].of_rows(facts))
