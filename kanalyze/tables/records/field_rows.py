"""Writes the rows of one records field: batch by batch, record by record.

In: the batches, and what is known of the place that they stand in. Out: rows in
:class:`~kanalyze.tables.records.columns.RecordColumns`. This module must not know messages.

A batch that cannot be read, or not to its end, gives a row of its own that has no record but a
problem.

Compiled by Cython, with the types in ``field_rows.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.records.types import RecordProblem
from kanalyze.tables.records.control_types import control_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kanalyze.kafka.records.batch import RecordBatch
    from kanalyze.kafka.records.types import Record
    from kanalyze.tables.records.columns import RecordColumns

__all__ = ["OF_BATCH", "RecordFieldRows", "add_problem"]

OF_BATCH = (
    *("timestamp_type", "codec", "magic", "batch_base_offset", "batch_bytes"),
    *("batch_record_count", "partition_leader_epoch", "producer_id", "producer_epoch"),
    *("is_transactional", "is_control", "delete_horizon_ms", "crc_ok", "problem"),
)
"""Columns that say something of the batch."""
_NOTHING = (None,) * (len(OF_BATCH) - 2)
_NOTHING_SHOWN: tuple[Any, ...] = (None, None, None, None, ())


class RecordFieldRows:
    """The rows of one records field, on their way into columns."""

    __slots__ = (
        *("_assigned", "_batch", "_batches", "_cells", "_cursor", "_has_base_offsets", "_index"),
        *("_is_produce", "_left", "_problems", "_records", "_shown"),
    )

    def __init__(
        self,
        batches: Iterable[RecordBatch],
        problems: list[RecordProblem],
        cells: tuple[Any, ...],
        shown: Callable[[Record, RecordBatch], tuple[Any, ...]] | None,
        assigned: int | None,
        is_produce: bool,
        has_base_offsets: bool,
    ) -> None:
        """Begin before the first batch.

        Args:
            batches: those of the field; ``problems`` says what was wrong outside of them, once
                they were read.
            problems: as it was kind.
            cells: what all rows share, in the order in which the columns were told of it.
            shown: gives the cells from ``key`` to ``headers``; None where nothing is shown.
            assigned: offset of the first record as the broker assigned it.
            is_produce: whether the field stands in a request.
            has_base_offsets: whether batches have an offset.
        """
        self._batches = iter(batches)
        self._problems = problems
        self._cells = cells
        self._shown = shown
        self._assigned = assigned
        self._is_produce = is_produce
        self._has_base_offsets = has_base_offsets
        self._index = 0
        self._left = 0
        self._batch: RecordBatch | None = None
        self._cursor: Any = None
        self._records: Any = None

    def add_to(self, made: RecordColumns) -> bool:
        """Add what comes next until that is full, or all was added; tell whether all was."""
        while self._batch is not None or self._begin_batch(made):
            if not self._add_records(made):
                return False
            self._end_batch(made)
            if made.is_full:
                return False
        for problem in self._problems:
            # A broker fills a response as far as it may, and cuts the last batch: that is legal.
            if self._is_produce or problem is not RecordProblem.CUT_BATCH:
                add_problem(made, self._cells, problem.value, _NOTHING)
        return True

    def _begin_batch(self, made: RecordColumns) -> bool:
        """Go to the next batch; tell whether there is one."""
        batch: RecordBatch | None = next(self._batches, None)
        self._batch = batch
        if batch is None:
            return False
        about = (*self._about(batch), None)
        made.begin(
            (*self._cells, batch.timestamp_type, *about), batch, self._assigned, self._is_produce
        )
        self._cursor = None
        if self._shown is None and not batch.is_control:
            self._cursor = batch.cursor()
            self._left = batch.most_records
        if self._cursor is None:
            self._records = iter(batch.records())
        return True

    def _add_records(self, made: RecordColumns) -> bool:
        """Add records of the batch until there are enough, or no more; tell which."""
        batch = self._batch
        assert batch is not None
        if self._cursor is not None:
            count = made.add_all(self._cursor, self._index, self._left)
            self._index += count
            self._left -= count
            if made.is_full:
                return False
            batch.end(self._cursor)
            return True
        for record in self._records:
            kind = control_type(record.key) if batch.is_control else None
            shown = _NOTHING_SHOWN if self._shown is None else self._shown(record, batch)
            made.add(self._index, record, kind, shown)
            self._index += 1
            if made.is_full:
                return False
        return True

    def _end_batch(self, made: RecordColumns) -> None:
        batch = self._batch
        assert batch is not None
        self._batch = None
        for problem in batch.problems:
            add_problem(made, self._cells, problem.value, self._about(batch))

    def _about(self, batch: RecordBatch) -> tuple[Any, ...]:
        """Return what a batch says of itself: the cells of :data:`OF_BATCH` but the two ends."""
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
        )


def add_problem(
    made: RecordColumns,
    cells: tuple[Any, ...],
    problem: str,
    about: tuple[Any, ...] = _NOTHING,
) -> None:
    """Add a row without a record, that says why."""
    made.begin((*cells, None, *about, problem))
    made.add_none()
