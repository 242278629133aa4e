"""Sends the requests that runs commit to a collector, as spans of OpenTelemetry.

In: what a run committed. Out: messages of OTLP.

Spans are sent after the commit, so they are those of the archive's rows. If that fails, the next
run sends them before it begins: the record of a commit says that its spans are to be sent, and
:data:`SENT` of which run they were sent last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.batch.run_plan import run_of
from kanalyze.errors import KanalyzeError
from kanalyze.export.arrow import block_of
from kanalyze.export.otlp import SpanWriter
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.batch.commit import Commit
    from kanalyze.batch.shared_folder import SharedFolder

SENT: Final = ".kanalyze/otlp"
"""The file with the number of the run whose spans were sent last."""
SENDS_SPANS: Final = "sends_spans"
"""Whether the spans of a commit are to be sent, in what it says for the next run."""
_ROWS_AT_ONCE: Final = 4096


class SpansNotSentError(KanalyzeError):
    """A run was committed, and its spans could not be sent."""


class CommittedSpans:
    """The spans of runs that were committed."""

    def __init__(self, post: Callable[[bytes], None]) -> None:
        """``post`` sends a message, and raises KanalyzeError."""
        self._post = post

    def resume(self, folder: SharedFolder, last: Commit | None) -> None:
        """Send the spans of the last run if that failed; raises SpansNotSentError."""
        if last is None or not last.about.get(SENDS_SPANS):
            return
        if folder.read(SENT) != _number(last):
            self.send(folder, last)

    def send(self, folder: SharedFolder, commit: Commit) -> None:
        """Send the spans of the requests of a run; raises SpansNotSentError."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        spans = SpanWriter(self._post)
        names = [column.name for column in COLUMNS]
        for _, name in commit.moved:
            # Small files of earlier runs may be merged into others with this commit.
            if not name.startswith("requests/") or run_of(name) != commit.run:
                continue
            data = folder.read(name)
            if data is None:
                raise KanalyzeError(f"{folder.shown}: {name} is gone")
            file = pq.ParquetFile(pa.BufferReader(data))
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names):
                try:
                    spans.write_block(block_of(batch, COLUMNS))
                except KanalyzeError as error:
                    text = (
                        f"{error}: run {commit.run} is committed, and the next one sends its spans"
                    )
                    raise SpansNotSentError(text) from None
        folder.write(SENT, _number(commit))


def _number(commit: Commit) -> bytes:
    return str(commit.run).encode()
