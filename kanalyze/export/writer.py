"""The interface of row writers.

In: rows. Out: nothing; rows go to a file. This module must not know formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from kanalyze.export.files import OutputFile
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.row import AnyRow

__all__ = ["FileWriter", "RowWriter"]


class RowWriter(Protocol):
    """Something rows are written to.

    Leaving its ``with`` block closes it, or aborts when an exception passes through. ``write``,
    ``close`` and opening one raise OSError where the system does.
    """

    def write(self, rows: Sequence[AnyRow], /) -> None:
        """Write rows, in this order."""

    def write_block(self, block: RowBlock, /) -> None:
        """Write the rows of a block, as ``write`` would."""

    def close(self) -> None:
        """Finish; nothing may be written after."""

    def abort(self) -> None:
        """Give up: a file leaves nothing behind."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class FileWriter:
    """The part of a writer that closes and aborts its file."""

    def __init__(self, output: OutputFile) -> None:
        self.output = output

    def close(self) -> None:
        """Finish the file."""
        self.output.close()

    def abort(self) -> None:
        """Remove the file."""
        self.output.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
