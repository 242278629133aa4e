"""Writes the rows of tables to Parquet files in a shared folder, from within a task.

In: blocks of rows. Out: files, and their names and sizes.

Spark may run a task twice, also at the same time. So two attempts never write a file of the same
name, and only the files that the report of a successful task names are committed; the others are
removed with the staging folder. Each hour (UTC) has a folder, with the requests that began in it.
"""

from __future__ import annotations

import contextlib
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.parquet import ParquetRows
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.tables import stored_columns
from kanalyze.tables.columns.numpy_arrays import all_began_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import RowBlock

ARCHIVE_TABLES: Final = (
    *("requests", "connections", "anomalies", "groups", "metadata", "changes", "client_metrics"),
)
"""The tables of an archive; the files of each are in a folder of its name."""

OPEN_CONNECTIONS: Final = "open_connections"
"""Connections that continue in later captures, with the values known so far."""
OPEN_ANOMALIES: Final = "open_anomalies"
"""Captures that could not be read, and that the next run tries again."""
OPEN_TABLES: Final = {OPEN_CONNECTIONS: "connections", OPEN_ANOMALIES: "anomalies"}
"""Tables whose files the next run replaces, and the tables whose columns they have."""
_REQUESTS: Final = "requests"
_HOUR_NS: Final = 3_600_000_000_000
_NS_PER_S: Final = 1_000_000_000
_MAX_OPEN: Final = 8
"""Files that are open at a time; each buffers a row group, some 10 MB."""


_MAX_SMALL_FILES: Final = 8
"""How many small files a folder may have. Others are merged: rows are read and written again."""
_SMALL_BYTES: Final = 16 << 20
_MERGED_BYTES: Final = 128 << 20


class WrittenFile(NamedTuple):
    """A file with rows."""

    table: str
    name: str
    """Relative to the folder."""
    rows: int
    total_bytes: int


def columns_of(table: str) -> Sequence[Column]:
    """Return the columns of a table's files without timestamps; requests have their numbers."""
    return stored_columns(OPEN_TABLES.get(table, table))


def hour_folder(hour: int) -> str:
    """Return the folder of an hour, counted from the beginning of 1970 in UTC."""
    start = datetime.fromtimestamp(hour * (_HOUR_NS // _NS_PER_S), UTC)
    return f"day={start:%Y-%m-%d}/hour={start:%H}"


class TableFiles:
    """The files that one attempt of a task writes."""

    def __init__(self, location: str) -> None:
        """``location`` is the folder, as a path or a URL; nothing is written yet."""
        self._folder = SharedFolder(location)
        self._attempt = uuid.uuid4().hex
        self._open: dict[tuple[str, str], _OpenFile] = {}
        self._written: list[WrittenFile] = []

    def __enter__(self) -> TableFiles:
        """Write files in a ``with`` block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close all files after a failure; they are not to be committed."""
        if kind is not None:
            self._written.clear()
            for file in self._open.values():
                file.abort()
            self._open.clear()

    def add(self, table: str, block: RowBlock) -> None:
        """Write rows of a table; raises UsageError if that fails."""
        if not len(block):
            return
        if table != _REQUESTS:
            self._file(table, "").write(block)
            return
        for hour, rows in _by_hour(block):
            self._file(table, hour_folder(hour)).write(rows)

    def finish(self) -> list[WrittenFile]:
        """Complete all files, and return them; raises UsageError if that fails."""
        for key in list(self._open):
            self._close(key)
        return self._written

    def _file(self, table: str, folder: str) -> _OpenFile:
        """Return the open file of a folder; for a new file, the least recently used is closed."""
        key = (table, folder)
        file = self._open.pop(key, None)
        if file is None:
            if len(self._open) >= _MAX_OPEN:
                self._close(next(iter(self._open)))
            base_name = f"{self._attempt}-{len(self._written) + len(self._open):05}.parquet"
            name = "/".join(filter(None, (table, folder, base_name)))
            file = _OpenFile(self._folder, name, columns_of(table))
        self._open[key] = file
        return file

    def _close(self, key: tuple[str, str]) -> None:
        file = self._open[key]
        total_bytes = file.close()
        del self._open[key]
        self._written.append(WrittenFile(key[0], file.name, file.rows, total_bytes))


def small_files(files: Iterable[WrittenFile]) -> list[list[WrittenFile]]:
    """Return groups of files to merge: the small files of each folder that has many of them.

    Each task writes a file for each hour, so an archive of many tasks and hours has many.
    """
    by_folder: dict[str, list[WrittenFile]] = {}
    for file in sorted(files):
        if file.total_bytes < _SMALL_BYTES:
            by_folder.setdefault(file.name.rpartition("/")[0], []).append(file)
    groups: list[list[WrittenFile]] = []
    for small in by_folder.values():
        if len(small) <= _MAX_SMALL_FILES:
            continue
        room_bytes = 0
        for file in small:
            if file.total_bytes > room_bytes:
                groups.append([])
                room_bytes = _MERGED_BYTES
            groups[-1].append(file)
            room_bytes -= file.total_bytes
    return [group for group in groups if len(group) > 1]


def with_small_merged(
    files: Sequence[WrittenFile],
    merge: Callable[[Sequence[Sequence[WrittenFile]]], Sequence[WrittenFile]],
) -> list[WrittenFile]:
    """Return files with the same rows, after ``merge`` has merged each group of small files."""
    groups = small_files(files)
    small = {file for group in groups for file in group}
    return [*merge(groups), *(file for file in files if file not in small)]


def merge_files(location: str, group: Sequence[WrittenFile], below: str = "") -> WrittenFile:
    """Write the rows of files of one table and folder to a new file; the old files stay.

    The new one is in the same folder ``below`` another. Raises UsageError if a file cannot be read
    or written.
    """
    folder = SharedFolder(location)
    table, parent = group[0].table, group[0].name.rpartition("/")[0]
    name = "/".join(filter(None, (below, parent, f"{uuid.uuid4().hex}.parquet")))
    merged = _OpenFile(folder, name, columns_of(table))
    try:
        for file in group:
            with folder.open_file(file.name) as source:
                merged.write_file(source)
        total_bytes = merged.close()
    except BaseException:
        merged.abort()
        raise
    return WrittenFile(table, merged.name, sum(file.rows for file in group), total_bytes)


class _OpenFile:
    """A file that is being written."""

    def __init__(self, folder: SharedFolder, name: str, columns: Sequence[Column]) -> None:
        self.name = name
        self.rows = 0
        self._folder = folder
        self._stream: Any = folder.new_file(name)
        self._parquet = ParquetRows(self._stream, with_times(columns), for_spark=True)

    def write(self, block: RowBlock) -> None:
        with self._folder.errors():
            self._parquet.write_block(block)
        self.rows += len(block)

    def write_file(self, source: Any) -> None:
        with self._folder.errors():
            self._parquet.write_file(source)

    def close(self) -> int:
        """Complete the file; return its size in bytes."""
        with self._folder.errors():
            self._parquet.close()
            total_bytes = int(self._stream.tell())
            self._stream.close()
        return total_bytes

    def abort(self) -> None:
        self._parquet.abort()
        with contextlib.suppress(OSError):  # the failure before is the one to report
            self._stream.close()


def _by_hour(block: RowBlock) -> Iterator[tuple[int, RowBlock]]:
    """Divide requests by the hour that they began in, orphan responses by their own time."""
    hours = all_began_ns(block) // _HOUR_NS
    first = int(hours[0])
    if (hours == first).all():
        yield first, block
        return
    for hour in np.unique(hours).tolist():
        yield hour, block.take(np.flatnonzero(hours == hour).tolist())
