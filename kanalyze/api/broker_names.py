"""Reads requests together with what responses say of brokers, for columns of names.

In: an analysis. Out: its rows of requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.runtime.table_rows import RowSource
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.name_columns import NameColumns

_METADATA = "metadata"


def told(analysis: RowSource, names: NameColumns) -> Iterator[RowBlock]:
    """Yield the requests of an analysis; ``names`` learns what responses up to each block say.

    What a saved file says is known before its first row.
    """
    if analysis.is_saved:
        for block in analysis.line_blocks(_METADATA):
            names.learn(block)
    for rows in analysis.table_rows([_METADATA], others=False):
        for _, block in rows.lines:
            names.learn(block)
        yield from rows.requests
