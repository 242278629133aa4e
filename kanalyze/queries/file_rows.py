"""Puts the rows of Parquet files into a table, also of files that an earlier kanalyze wrote.

In: local files, files that are read elsewhere, a table. Out: the table with their rows.

Columns that the table lacks are left out. Those that a file lacks, and fields of structs in lists,
are null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError
from kanalyze.queries.saved import ROWS, fits, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb
    import pyarrow as pa


class StoreFile(NamedTuple):
    """The rows of a file that DuckDB does not open itself."""

    shown: str
    """The name of the file for messages."""
    rows: pa.RecordBatchReader


class FileInserter:
    """Inserts into one table; methods raise DuckDB's errors, and KanalyzeError for other types."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str]
    ) -> None:
        """Insert into ``columns``, all of a table."""
        self._connection = connection
        self._table = table
        self._columns = columns

    def require(self, columns: Iterable[str]) -> None:
        """Make a null in some columns of the table an error from now on."""
        for name in columns:
            self._connection.execute(
                f"ALTER TABLE {ROWS}.{self._table} ALTER COLUMN {quoted(name)} SET NOT NULL"
            )

    def insert(self, files: Sequence[str] | Iterable[StoreFile]) -> None:
        """Insert the rows of files: paths of local ones, or others."""
        paths: list[str] = []
        for file in files:
            if isinstance(file, str):
                paths.append(file)
                continue
            rows = self._connection.from_arrow(file.rows)
            self._check_types(rows, file.shown)
            self._insert(rows)
        if paths:
            rows = self._local(paths)
            if self._other_type(rows):
                for path in paths:
                    self._check_types(self._local([path]), path)
            self._insert(rows)

    def _local(self, paths: list[str]) -> duckdb.DuckDBPyRelation:
        return self._connection.read_parquet(paths, union_by_name=True, hive_partitioning=False)

    def _check_types(self, rows: duckdb.DuckDBPyRelation, shown: str) -> None:
        if reason := self._other_type(rows):
            raise KanalyzeError(f"{shown}: {reason}")

    def _other_type(self, rows: duckdb.DuckDBPyRelation) -> str | None:
        """Return which column of rows has another type than that of the table; None if none has."""
        stored = self._connection.table(f"{ROWS}.{self._table}")
        kinds = dict(zip(stored.columns, stored.types, strict=True))
        for name, kind in zip(rows.columns, rows.types, strict=True):
            if name in kinds and not fits(kind, kinds[name]):
                return f"column {name} of {self._table} is {kind}, not {kinds[name]}"
        return None

    def _insert(self, rows: duckdb.DuckDBPyRelation) -> None:
        known = set(rows.columns)
        names = [
            quoted(name) if name in known else f"NULL AS {quoted(name)}" for name in self._columns
        ]
        rows.project(", ".join(names)).insert_into(f"{ROWS}.{self._table}")
