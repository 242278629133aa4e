"""The memory limit of a database: low while its tables are filled, then as high as queries need it.

In: limits in bytes. Out: settings of a DuckDB connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

__all__ = ["MemoryLimit"]

_Result = TypeVar("_Result")
_NO_ROOM = "failed to pin block"
"""Part of DuckDB's messages if a block does not fit into memory. A commit that fails for that
reason is another kind of error than a query that does."""

_FILLING_BYTES = 32 << 20
"""The limit while tables are filled. DuckDB would use more memory only to cache rows that are in
the file already. The analysis needs memory at that time, and has freed it when queries begin."""


_TIMES_INCOMING = 6
"""How much memory rows take while they are compressed, as a multiple of their size. Lists with
thousands of items in each row need it; usual rows are so small that the limit stays."""


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

    def begin_insert(self, connection: duckdb.DuckDBPyConnection, incoming_bytes: int) -> None:
        """Set a limit that is enough to write rows of this size.

        A commit that lacks memory makes the file invalid, so it cannot be tried again.
        """
        needed_bytes = min(_TIMES_INCOMING * incoming_bytes, self._most_bytes)
        if needed_bytes > self.limit_bytes:
            self._set(connection, needed_bytes)

    def begin_queries(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Set the usual limit for queries, unless it is set."""
        if self.limit_bytes < self._usual_bytes:
            import pyarrow as pa

            pa.default_memory_pool().release_unused()
            self._set(connection, self._usual_bytes)

    def run(self, connection: duckdb.DuckDBPyConnection, run: Callable[[], _Result]) -> _Result:
        """Return what ``run`` returns; it runs again with more memory as long as it lacks some.

        Raises DuckDB's error if the most that is allowed is not enough, or if it is another one.
        """
        import duckdb

        while True:
            try:
                return run()
            except duckdb.Error as error:
                lacks_memory = isinstance(error, duckdb.OutOfMemoryException)
                if not ((lacks_memory or _NO_ROOM in str(error)) and self.allow_more(connection)):
                    raise

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
