"""Rows of requests as objects, and the lines of one table, for whatever has rows by column.

In: a class that yields blocks of requests, and the rows of several tables. Out: the same class with
these two views of its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kanalyze.runtime.table_run import TableRows
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["RowSource"]


class RowSource:
    """A source of rows, such as an analysis of captures or of saved files."""

    def batches(self) -> Iterator[RowBlock]:
        """Yield rows of requests by column, in blocks."""
        raise NotImplementedError

    def table_rows(self, more: Collection[str] = (), *, others: bool = True) -> Iterator[TableRows]:
        """Yield the rows of several tables in one pass."""
        raise NotImplementedError

    def row_batches(self) -> Iterator[list[Row]]:
        """Yield the rows as objects; otherwise like :meth:`batches`."""
        for block in self.batches():
            for piece in block.pieces():
                yield piece.rows()

    def line_blocks(self, table: str) -> Iterator[RowBlock]:
        """Yield the lines of one table, such as ``groups``, whose lines belong to requests."""
        for rows in self.table_rows([table], others=False):
            for _, block in rows.lines:
                yield block
