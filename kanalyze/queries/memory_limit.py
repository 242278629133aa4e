"""The memory limit of a database: low while its tables are filled, then as high as queries need it.

In: limits in bytes. Out: settings of a DuckDB connection. This module must not know any query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

__all__ = ["MemoryLimit"]

_FILLING_BYTES = 32 << 20
"""The limit while tables are filled. DuckDB would use more memory only to cache rows that are in
the file already. The analysis needs memory at that time, and has freed it when queries begin."""


class MemoryLimit:
    """The limit of a connection, which must be opened with ``limit_bytes``."""

    def __init__(self, usual_bytes: int | None, most_bytes: int) -> None:
        """Begin with the limit for filling.

        Args:
            usual_bytes: the limit for queries, as long as it is enough; None for ``most_bytes``.
            most_bytes: the limit that is never exceeded.
        """
        self._usual_bytes = min(usual_bytes or most_bytes, most_bytes)
        self._most_bytes = most_bytes
        self.limit_bytes = min(self._usual_bytes, _FILLING_BYTES)

    def begin_queries(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Set the usual limit for queries, unless it is set."""
        if self.limit_bytes < self._usual_bytes:
            import pyarrow as pa

            pa.default_memory_pool().release_unused()
            self._set(connection, self._usual_bytes)

    def allow_more(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Raise the limit; return False if that is not possible."""
        if self.limit_bytes == self._most_bytes:
            return False
        self._set(connection, min(2 * self.limit_bytes, self._most_bytes))
        return True

    def allow_all(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Set the highest limit."""
        self._set(connection, self._most_bytes)

    def _set(self, connection: duckdb.DuckDBPyConnection, limit_bytes: int) -> None:
        connection.execute(f"SET memory_limit = '{limit_bytes}B'")
        self.limit_bytes = limit_bytes
