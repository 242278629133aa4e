from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.cli import analyze
from kanalyze.runtime.table_rows import TableRows
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.columns.block import RowBlock
from tests.support.piped import Done, run_piped
from tests.support.quality import capture_quality
from tests.support.rows import START_NS, failed, fetch, row, without_sessions

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeAnalysis:
    """A fake pipeline: yields fixed rows, filtered."""

    rows = ([row(), fetch()], [failed("orders", 6, "NOT_LEADER_OR_FOLLOWER")])
    error: BaseException | None = None
    has_workers = False
    instances: list[FakeAnalysis]

    def __init__(
        self,
        captures,
        *,
        row_filter,
        ports,
        brokers,
        topic_ids=None,
        catalog=None,
        jobs=1,
        outputs=frozenset(),
        leave_out=None,
    ) -> None:
        self.captures, self.ports, self.brokers = captures, ports, brokers
        self.row_filter, self.topic_ids = row_filter, topic_ids
        self.catalog, self.jobs = catalog, jobs
        self.is_closed = False
        self.quality = capture_quality(
            list(captures), packets=12, first_time_ns=START_NS, last_time_ns=START_NS + 10**9
        )
        self.progress = (10, 100)
        self.has_several_captures = len(captures) > 1
        self.instances.append(self)

    def start(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def batches(self):
        for rows in self.rows:
            block = RowBlock.of_rows(rows)
            yield block.take(self.row_filter.numbers(block))
        if self.error is not None:
            raise self.error

    def table_rows(self, tables=(), *, session_lists=False, **others):
        assert not set(tables) - TABLES.keys()
        for given in self.batches():
            block = without_sessions(given) if session_lists else given
            yield TableRows([block], [], [])


@pytest.fixture
def fake(monkeypatch) -> type[FakeAnalysis]:
    """Replace the pipeline by a fake; the attributes of the class set its behaviour."""
    kind = type("Fake", (FakeAnalysis,), {"instances": []})
    monkeypatch.setattr(analyze, "Analysis", kind)
    return kind


@pytest.fixture
def run(monkeypatch, capfdbinary) -> Callable[..., Done]:
    """Run a command with bytes on its standard input."""

    def run(*argv: str, data: bytes = b"") -> Done:
        return run_piped(*argv, data=data, monkeypatch=monkeypatch, captured=capfdbinary)

    return run


@pytest.fixture
def run_live(run: Callable[..., Done]) -> Callable[..., Done]:
    """Run ``kanalyze live`` with a capture on its standard input, to the end of both."""
    return lambda *argv, data=b"": run("live", *argv, data=data)
