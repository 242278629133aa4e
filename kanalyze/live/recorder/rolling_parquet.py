"""Writes rows to a series of Parquet files, limited by time and size.

In: blocks of rows; the time. Out: files in a folder, each complete once it has its name.

The current file has a hidden name. If the program is killed it is lost, because a Parquet file
cannot be read without its footer; the next run removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kanalyze.common.closing import ClosedAtEnd
from kanalyze.errors import KanalyzeError, UsageError, reason_of
from kanalyze.export.parquet import ParquetWriter
from kanalyze.live.recorder.numbered_files import (
    numbered_files,
    remove_oldest,
    sync_file,
    sync_folder,
)
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["RollingParquet"]

_NS_PER_S: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAME: Final = re.compile(r"kanalyze-\d{8}T\d{6}Z-(?P<number>\d{6,18})\.parquet", re.ASCII)
_PARTIAL: Final = re.compile(
    # The name of the open file here, and that of its OutputFile while it is written.
    r"\.\.?kanalyze-\d{8}T\d{6}Z-(?P<number>\d{6,18})\.parquet\.open(\.[0-9a-f]{8}\.partial)?",
    re.ASCII,
)


class RollingParquet(ClosedAtEnd):
    """Writes rows to ``kanalyze-BEGIN-NUMBER.parquet``: BEGIN is a time in UTC, NUMBER rises.

    A file is created with its first row: without rows there is no file. All methods raise OSError,
    for example if the disk is full; then the open file is lost with its rows, and the next row
    starts another one.

    There are two times. ``now_ns``, the Unix time of packets, may jump. ``clock_ns`` is the time of
    a monotonic clock, which ends a file in any case.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        every_s: int = 300,
        max_bytes: int = 256 << 20,
        max_files: int = 288,
        columns: Sequence[Column] = COLUMNS,
    ) -> None:
        """Create the folder if needed; remove unfinished files of earlier runs.

        Args:
            folder: the folder, which is locked against other runs.
            every_s: a file is closed at this age in seconds, by either time.
            max_bytes: a file is closed at this size; it may be one row group larger.
            max_files: the maximum number of files, with those of earlier runs; the oldest are
                removed.
            columns: the columns of the rows.

        Raises:
            UsageError: a limit is below 1.
            KanalyzeError: the folder cannot be created or written to, or another run writes to it.
        """
        if min(every_s, max_bytes, max_files) < 1:
            raise UsageError("files of rows need limits of at least 1")
        self._every_ns = every_s * _NS_PER_S
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._columns = columns
        self._folder = Path(folder)
        self.target = str(folder)
        """The folder as the user named it."""
        self._writer: ParquetWriter | None = None
        self._partial = self._target = self._folder
        self._begun_ns = self._begun_clock_ns = 0
        self._rows = 0
        """Number of rows in the open file."""
        self.files = 0
        """Finished files."""
        self.lost_rows = 0
        """Rows of files that could not be finished."""
        self._lock = -1
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self._folder)
            for _, path in numbered_files(self._folder, _PARTIAL):
                path.unlink(missing_ok=True)
            remove_oldest(self._folder, _NAME, max_files)
            files = numbered_files(self._folder, _NAME)
        except OSError as error:
            self._unlock()
            raise KanalyzeError(f"cannot write to {folder}: {reason_of(error)}") from None
        self._number = files[-1][0] if files else 0

    def add(self, block: RowBlock, now_ns: int, clock_ns: int) -> None:
        """Write rows."""
        self.tick(now_ns, clock_ns)
        if not len(block):
            return
        self._rows += len(block)
        try:
            writer = self._create(now_ns, clock_ns) if self._writer is None else self._writer
            writer.write_block(block)
            is_full = writer.output.file.tell() >= self._max_bytes
        except BaseException:
            self._discard()
            raise
        if is_full:
            self.roll()

    def tick(self, now_ns: int, clock_ns: int) -> None:
        """Close the open file if it is old enough; call this also if there are no rows."""
        if self._writer is None:
            return
        # Clocks of two machines may be an hour apart; a time before the begin counts as no age.
        age_ns = max(now_ns - self._begun_ns, clock_ns - self._begun_clock_ns)
        if age_ns >= self._every_ns:
            self.roll()

    def roll(self) -> None:
        """Close the open file, if any, and give it its name; the next row starts another."""
        if self._writer is None:
            return
        try:
            self._writer.close()
            sync_file(self._partial)
            self._partial.replace(self._target)
        except BaseException:
            self._discard()
            raise
        self._writer = None
        self._rows = 0
        self.files += 1
        sync_folder(self._folder)
        remove_oldest(self._folder, _NAME, self._max_files)

    def close(self) -> None:
        """Close the open file and unlock the folder; may be called again.

        After an error elsewhere these rows are still complete.
        """
        try:
            self.roll()
        finally:
            self._unlock()

    def abort(self) -> None:
        """Discard the open file and unlock the folder."""
        self._discard()
        self._unlock()

    def _create(self, now_ns: int, clock_ns: int) -> ParquetWriter:
        self._number += 1
        begin = _EPOCH + timedelta(seconds=now_ns // _NS_PER_S)
        self._target = self._folder / f"kanalyze-{begin:%Y%m%dT%H%M%SZ}-{self._number:06}.parquet"
        self._partial = self._folder / f".{self._target.name}.open"
        self._begun_ns, self._begun_clock_ns = now_ns, clock_ns
        # A symbolic link of that name would be followed.
        self._partial.unlink(missing_ok=True)
        self._writer = ParquetWriter(str(self._partial), with_times(self._columns))
        return self._writer

    def _discard(self) -> None:
        self.lost_rows += self._rows
        self._rows = 0
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abort()
            self._partial.unlink(missing_ok=True)

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _locked(folder: Path) -> int:
    """Lock a folder; return the descriptor that has the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise KanalyzeError(f"cannot write to {folder}: another run writes to it") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
