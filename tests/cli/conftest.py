from __future__ import annotations

import pytest

from kanalyze.analysis.quality import CaptureQuality
from kanalyze.cli import analyze
from tests.support.rows import START_NS, failed, fetch, row


class FakeAnalysis:
    """Stands in for the pipeline: gives fixed rows, through the filter it was given."""

    batches = ([row(), fetch()], [failed("orders", 6, "NOT_LEADER_OR_FOLLOWER")])
    error: BaseException | None = None
    made: list[FakeAnalysis]

    def __init__(
        self, captures, *, row_filter, ports, brokers, topic_ids=None, catalog=None
    ) -> None:
        self.captures, self.ports, self.brokers = captures, ports, brokers
        self.row_filter, self.topic_ids = row_filter, topic_ids
        self.catalog = catalog
        self.quality = CaptureQuality(
            list(captures), packets=12, first_time_ns=START_NS, last_time_ns=START_NS + 10**9
        )
        self.progress = (10, 100)
        self.made.append(self)

    def row_batches(self):
        for batch in self.batches:
            yield self.row_filter.select(batch)
        if self.error is not None:
            raise self.error


@pytest.fixture
def fake(monkeypatch) -> type[FakeAnalysis]:
    """Replace the pipeline; the class's attributes say what it does."""
    kind = type("Fake", (FakeAnalysis,), {"made": []})
    monkeypatch.setattr(analyze, "Analysis", kind)
    return kind
