"""What runs of a batch that are not about reports can do without."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.batch.run import _BatchRun
from kanalyze.batch.sums import sums_database
from kanalyze.queries.report import report_of
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Iterator


@functools.cache
def _empty_report() -> dict[str, Any]:
    with sums_database([]) as database:
        return report_of(database, CaptureQuality())


@pytest.fixture
def last_report() -> Iterator[None]:
    """Let only the last step of an archive make a report, which takes four fifths of a run.

    The others leave no sums, so the last one makes them of all rows.
    """
    usual = _BatchRun._report

    def report(batch: _BatchRun, *arguments: Any) -> tuple[dict[str, Any], bytes | None]:
        is_last = batch.settings.finish and batch.run.until_ns is None
        return usual(batch, *arguments) if is_last else (_empty_report(), None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_BatchRun, "_report", report)
        yield
