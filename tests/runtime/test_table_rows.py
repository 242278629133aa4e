"""Rows as objects and the lines of one table are views of rows by column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.runtime.table_rows import RowSource, TableRows
from kanalyze.tables.columns.block import RowBlock
from tests.support.captures import analysis

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ROWS = analysis("basics")[0]


class Blocks(RowSource):
    def batches(self) -> Iterator[RowBlock]:
        yield RowBlock.of_rows(ROWS[:3])
        yield RowBlock.of_rows(ROWS[3:5])

    def table_rows(self, more: Collection[str] = (), *, others: bool = True) -> Iterator[TableRows]:
        assert not others
        for first, block in enumerate(self.batches()):
            lines = [(table, block.part(first, first + 1)) for table in more]
            yield TableRows([block], [], [], lines=lines)


def test_rows_are_those_of_the_blocks() -> None:
    assert [row for rows in Blocks().row_batches() for row in rows] == list(ROWS[:5])


def test_a_large_block_is_made_into_objects_in_pieces() -> None:
    class Large(Blocks):
        def batches(self) -> Iterator[RowBlock]:
            yield RowBlock.of_rows(list(ROWS) * 100)

    sizes = [len(rows) for rows in Large().row_batches()]
    assert len(sizes) > 1
    assert sum(sizes) == 100 * len(ROWS)


def test_lines_of_a_table_are_without_other_rows() -> None:
    lines = [block.rows() for block in Blocks().line_blocks("groups")]
    assert lines == [[ROWS[0]], [ROWS[4]]]
