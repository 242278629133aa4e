"""Writes the rows of one records field: batch by batch, record by record.

In: the batches, and the cells that all their rows share. Out: rows in
:class:`~kanalyze.tables.records.columns.RecordColumns`.

A batch that cannot be decoded to its end adds a row with a problem and without a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.records.types import RecordProblem, control_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kanalyze.kafka.records.batches import RecordBatch
    from kanalyze.kafka.records.types import Record
    from kanalyze.tables.records.columns import RecordColumns
    from kanalyze.tables.records.offset_ranges import OffsetRanges
    from kanalyze.tables.records.transactions import Transactions

__all__ = ["OF_BATCH", "FetchedField", "RecordFieldRows", "add_problem"]

OF_BATCH = (
    *("timestamp_type", "codec", "magic", "batch_base_offset", "batch_bytes"),
    *("batch_record_count", "partition_leader_epoch", "producer_id", "producer_epoch"),
    *("is_transactional", "is_control", "delete_horizon_ms", "crc_ok", "is_aborted", "problem"),
)
"""Columns whose values come from the batch."""
_NO_BATCH_CELLS = (None,) * (len(OF_BATCH) - 2)
_NO_SHOWN_CELLS: tuple[Any, ...] = (None, None, None, None, ())


class FetchedField:
    """What a response, and the capture before it, show about the records of one field.

    Attributes:
        transactions: which batches are of aborted transactions; None if it is not known.
        fetched_ns, produced, acquired: see ``OffsetColumns.match``.
    """

    __slots__ = ("acquired", "fetched_ns", "produced", "transactions")

    def __init__(
        self,
        transactions: Transactions | None,
        fetched_ns: int,
        produced: list[OffsetRanges],
        acquired: OffsetRanges | None,
    ) -> None:
        self.transactions = transactions
        self.fetched_ns = fetched_ns
        self.produced = produced
        self.acquired = acquired


class RecordFieldRows:
    """Writes the rows of one records field."""

    __slots__ = (
        *("_assigned", "_batch", "_batches", "_cells", "_cursor", "_fetched", "_has_base_offsets"),
        *("_index", "_is_aborted", "_is_produce", "_problems", "_records", "_records_left"),
        *("_search", "_shown"),
    )

    def __init__(
        self,
        batches: Iterable[RecordBatch],
        problems: list[RecordProblem],
        cells: tuple[Any, ...],
        shown: Callable[[Record, RecordBatch], tuple[Any, ...]] | None,
        assigned: int | None,
        fetched: FetchedField | None,
        has_base_offsets: bool,
        search: Callable[[Record, RecordBatch], str | None] | None,
    ) -> None:
        """Begin before the first batch.

        Args:
            batches: the batches of the field.
            problems: problems outside batches; filled while ``batches`` is iterated.
            cells: the cells that all rows share, in the order of the columns' ``shared``.
            shown: returns a record's cells from ``key`` to ``headers``; None to leave them out.
            assigned: offset that the broker assigned to the first record.
            fetched: what is known of fetched records; None if the field is in a request.
            has_base_offsets: whether batches have a base offset.
            search: returns where a record has the bytes of a search; records without them are left
                out. None for no search.
        """
        self._batches = iter(batches)
        self._problems = problems
        self._cells = cells
        self._shown = shown
        self._assigned = assigned
        self._fetched: Any = fetched
        self._is_produce = fetched is None
        self._has_base_offsets = has_base_offsets
        self._search = search
        self._is_aborted: bool | None = None
        self._index = 0
        self._records_left = 0
        self._batch: RecordBatch | None = None
        self._cursor: Any = None
        self._records: Any = None

    def add_to(self, columns: RecordColumns) -> bool:
        """Add rows until the columns are full; return true if all rows were added."""
        while self._batch is not None or self._begin_batch(columns):
            if not self._add_records(columns):
                return False
            self._end_batch(columns)
            if columns.is_full:
                return False
        for problem in self._problems:
            # A broker fills a response up to its limit and cuts the last batch; that is legal.
            if self._is_produce or problem is not RecordProblem.CUT_BATCH:
                add_problem(columns, self._cells, problem.value, _NO_BATCH_CELLS)
        return True

    def _begin_batch(self, columns: RecordColumns) -> bool:
        """Go to the next batch; return false if there is none."""
        batch: RecordBatch | None = next(self._batches, None)
        self._batch = batch
        if batch is None:
            return False
        self._is_aborted = self._aborted(batch)
        batch_cells = (*self._batch_cells(batch), None)
        columns.begin(
            (*self._cells, batch.timestamp_type, *batch_cells),
            batch,
            self._assigned,
            self._is_produce,
        )
        if self._fetched is not None:
            fetched = self._fetched
            columns.by_offset.match(fetched.fetched_ns, fetched.produced, fetched.acquired)
        self._cursor = None
        if self._shown is None and self._search is None and not batch.is_control:
            self._cursor = batch.cursor()
            self._records_left = batch.most_records
        if self._cursor is None:
            self._records = iter(batch.records())
        return True

    def _add_records(self, columns: RecordColumns) -> bool:
        """Add records of the batch until the columns are full; return whether all were added."""
        batch = self._batch
        assert batch is not None
        if self._cursor is not None:
            count = columns.add_all(self._cursor, self._index, self._records_left)
            self._index += count
            self._records_left -= count
            if columns.is_full:
                return False
            batch.end(self._cursor)
            return True
        for record in self._records:
            found_in = None if self._search is None else self._search(record, batch)
            if self._search is None or found_in is not None:
                kind = control_type(record.key) if batch.is_control else None
                shown = _NO_SHOWN_CELLS if self._shown is None else self._shown(record, batch)
                columns.add(self._index, record, kind, shown, found_in)
            self._index += 1
            if columns.is_full:
                return False
        return True

    def _end_batch(self, columns: RecordColumns) -> None:
        batch = self._batch
        assert batch is not None
        self._batch = None
        for problem in batch.problems:
            add_problem(columns, self._cells, problem.value, self._batch_cells(batch))

    def _batch_cells(self, batch: RecordBatch) -> tuple[Any, ...]:
        """Return the cells of :data:`OF_BATCH` except the first and the last."""
        return (
            batch.codec,
            batch.magic,
            batch.base_offset if self._has_base_offsets else None,
            batch.batch_bytes,
            batch.record_count,
            batch.partition_leader_epoch,
            batch.producer_id,
            batch.producer_epoch,
            batch.is_transactional,
            batch.is_control,
            batch.delete_horizon_ms,
            batch.crc_ok,
            self._is_aborted,
        )

    def _aborted(self, batch: RecordBatch) -> bool | None:
        """Return true if the records of a batch belong to an aborted transaction.

        None if unknown, and for control batches.
        """
        if self._fetched is not None and self._fetched.transactions is not None:
            is_aborted: bool | None = self._fetched.transactions.is_aborted(batch)
            return is_aborted
        return None if batch.is_control or batch.is_transactional else False


def add_problem(
    columns: RecordColumns,
    cells: tuple[Any, ...],
    problem: str,
    batch_cells: tuple[Any, ...] = _NO_BATCH_CELLS,
) -> None:
    """Add a row with a problem and without a record."""
    columns.begin((*cells, None, *batch_cells, problem))
    columns.add_none()
