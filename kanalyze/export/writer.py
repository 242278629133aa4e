"""The interface of row writers.

In: rows. Out: rows in a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from kanalyze.common.closing import ClosedOrAborted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.export.files import OutputFile
    from kanalyze.spec.columns import AnyRow
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["FileWriter", "RowWriter"]


class RowWriter(Protocol):
    """A destination for rows.

    At the end of its ``with`` block it is closed; after an exception it is aborted. ``write``,
    ``close`` and opening a writer raise OSError if the system does.
    """

    def write(self, rows: Sequence[AnyRow], /) -> None:
        """Write rows in this order."""

    def write_block(self, block: RowBlock, /) -> None:
        """Write the rows of a block like ``write``."""

    def close(self) -> None:
        """Finish the output. Nothing can be written afterwards."""

    def abort(self) -> None:
        """Discard the output: a file leaves nothing behind."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class FileWriter(ClosedOrAborted):
    """Base of writers: closes and aborts the output file."""

    def __init__(self, output: OutputFile) -> None:
        self.output = output

    def close(self) -> None:
        """Finish the file."""
        self.output.close()

    def abort(self) -> None:
        """Remove the file."""
        self.output.abort()
