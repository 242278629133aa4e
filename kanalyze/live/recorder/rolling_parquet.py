"""Rows in Parquet files that follow each other, by time and by size.

In: rows by column; the time. Out: files in a folder, each whole from the moment it has its name,
at most so many. This module must not know the clocks, nor where rows come from.

The file that is being written has a hidden name. When the program is killed that one is lost, for
a Parquet file cannot be read without its end; the next start removes what is left of it.
"""

from __future__ import annotations

import fcntl
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.export.parquet import ParquetWriter
from kanalyze.live.recorder.numbered_files import (
    numbered_files,
    remove_oldest,
    sync_file,
    sync_folder,
)
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.row import Column

__all__ = ["RollingParquet"]

_NS_PER_S: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAME: Final = re.compile(r"kanalyze-\d{8}T\d{6}Z-(?P<number>\d{6,18})\.parquet", re.ASCII)
_PARTIAL: Final = re.compile(
    # As it is named here, and as an OutputFile of that name is while it is written.
    r"\.\.?kanalyze-\d{8}T\d{6}Z-(?P<number>\d{6,18})\.parquet\.open(\.[0-9a-f]{8}\.partial)?",
    re.ASCII,
)


class RollingParquet:
    """Writes rows to ``kanalyze-BEGIN-NUMBER.parquet``: BEGIN is a time in UTC, NUMBER rises.

    Numbers sort as the files were begun. A file begins with its first row: without rows there is
    none. All methods raise OSError where the system does, as when the disk is full; then the file
    that was open is gone with its rows, and the next row begins another one.

    There are two times: ``now_ns``, Unix time by the packets, may jump any way; ``clock_ns``, of a
    clock that does not, sees to it that files end nevertheless.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        every_s: int = 300,
        most_bytes: int = 256 << 20,
        most_files: int = 288,
        columns: Sequence[Column] = COLUMNS,
    ) -> None:
        """Make the folder where there is none; remove what an earlier run did not finish.

        Args:
            folder: is locked: no other run may write to it meanwhile.
            every_s: a file is closed when it is so old by one of the two times.
            most_bytes: a file is closed when it is so large; it may be one row group larger.
            most_files: when there are more, the oldest are removed, those of earlier runs too.
            columns: of the rows.

        Raises:
            UsageError: a limit is below 1.
            KanalyzeError: the folder cannot be made or written to, or another run writes to it.
        """
        if min(every_s, most_bytes, most_files) < 1:
            raise UsageError("files of rows need limits of at least 1")
        self._every_ns = every_s * _NS_PER_S
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._columns = columns
        self._folder = Path(folder)
        self.place = str(folder)
        """As it was named."""
        self._writer: ParquetWriter | None = None
        self._partial = self._target = self._folder
        self._begun_ns = self._begun_clock_ns = 0
        self._rows = 0
        """In the file that is open."""
        self.files = 0
        """Finished so far."""
        self.lost_rows = 0
        """Of files that had to be given up."""
        self._lock = -1
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self._folder)
            for _, path in numbered_files(self._folder, _PARTIAL):
                path.unlink(missing_ok=True)
            remove_oldest(self._folder, _NAME, most_files)
            files = numbered_files(self._folder, _NAME)
        except OSError as error:
            self._unlock()
            raise KanalyzeError(f"cannot write to {folder}: {error.strerror or error}") from None
        self._number = files[-1][0] if files else 0

    def add(self, block: RowBlock, now_ns: int, clock_ns: int) -> None:
        """Write rows."""
        self.tick(now_ns, clock_ns)
        if not len(block):
            return
        self._rows += len(block)
        try:
            writer = self._begun(now_ns, clock_ns) if self._writer is None else self._writer
            writer.write_block(block)
            is_full = writer.output.file.tell() >= self._most_bytes
        except BaseException:
            self._give_up()
            raise
        if is_full:
            self.roll()

    def tick(self, now_ns: int, clock_ns: int) -> None:
        """Close the file that is open if it is old enough; call this also when nothing comes."""
        if self._writer is None:
            return
        # Packets of two machines may be an hour apart: a time before the begin is no new age.
        age_ns = max(now_ns - self._begun_ns, clock_ns - self._begun_clock_ns)
        if age_ns >= self._every_ns:
            self.roll()

    def roll(self) -> None:
        """Close the file that is open, if any, and let it appear; the next row begins another."""
        if self._writer is None:
            return
        try:
            self._writer.close()
            sync_file(self._partial)
            self._partial.replace(self._target)
        except BaseException:
            self._give_up()
            raise
        self._writer = None
        self._rows = 0
        self.files += 1
        sync_folder(self._folder)
        remove_oldest(self._folder, _NAME, self._most_files)

    def close(self) -> None:
        """Close the file that is open and leave the folder. Does nothing the second time."""
        try:
            self.roll()
        finally:
            self._unlock()

    def abort(self) -> None:
        """Leave the folder without the file that is open."""
        self._give_up()
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Whatever went wrong elsewhere, these rows are whole.
        self.close()

    def _begun(self, now_ns: int, clock_ns: int) -> ParquetWriter:
        self._number += 1
        begin = _EPOCH + timedelta(seconds=now_ns // _NS_PER_S)
        self._target = self._folder / f"kanalyze-{begin:%Y%m%dT%H%M%SZ}-{self._number:06}.parquet"
        self._partial = self._folder / f".{self._target.name}.open"
        self._begun_ns, self._begun_clock_ns = now_ns, clock_ns
        # A link of that name, which is none of ours, would be followed.
        self._partial.unlink(missing_ok=True)
        self._writer = ParquetWriter(str(self._partial), self._columns)
        return self._writer

    def _give_up(self) -> None:
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
    """Return a descriptor that holds the lock on a folder."""
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
