"""Several workers give the same as one process."""

from __future__ import annotations

import os
import signal

import pytest

from benchmarks.repeat import repeat
from kanalyze.api.files import read_key_logs
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.merge import MergedCaptures
from kanalyze.errors import CaptureError, KanalyzeError, UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.net.shard import Shard
from kanalyze.runtime import workers as workers_module
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.workers import Workers, WorkerTask, usable_workers
from kanalyze.tables.registry import TABLES
from tests.support import tls_captures
from tests.support.captures import NAMES, in_turn, path
from tests.support.summaries import summary_of_blocks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no workers here")


@pytest.fixture
def allow_small(monkeypatch):
    """Use workers for small captures too."""
    monkeypatch.setattr(workers_module, "_MIN_BYTES", 0)


def read(*captures: str, **settings):
    run = Analysis(captures, **settings)
    rows = [row for batch in run.batches() for row in batch.rows()]
    return rows, run.quality.to_dict()


CHOSEN = ("errors", "old-0-8-2-2", "snaplen")
"""One capture of each kind; the test of the report below reads all of them together."""
EVERY = [name if name in CHOSEN else pytest.param(name, marks=pytest.mark.long) for name in NAMES]


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "jobs"), in_turn(NAMES, [2, 5], CHOSEN))
def test_rows_and_quality_match_one_process(name, jobs, allow_small):
    assert read(str(path(name)), jobs=jobs) == read(str(path(name)), jobs=1)


def test_workers_merge_several_captures(allow_small):
    captures = [str(path(name)) for name in ("basics", "mock", "errors")]
    rows, quality = read(*captures, jobs=3)
    assert (rows, quality) == read(*captures)
    assert {row.capture for row in rows} == set(captures)
    assert quality["captures"] == read(*captures)[1]["captures"]


def test_the_report_matches_one_process(allow_small):
    def summary(jobs: int):
        run = Analysis([str(path(name)) for name in CHOSEN], jobs=jobs)
        return summary_of_blocks(list(run.batches()), run.quality)

    assert summary(2) == summary(1)


def test_a_file_that_is_no_capture_gives_the_same_error(tmp_path, allow_small):
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"this is no capture at all")
    with pytest.raises(CaptureError) as error_of_one:
        read(str(bad), jobs=1)
    with pytest.raises(CaptureError) as error_of_workers:
        read(str(bad), jobs=2)
    assert str(error_of_workers.value) == str(error_of_one.value)


def test_a_capture_that_becomes_unreadable_gives_the_rows_of_one_process(tmp_path, allow_small):
    bad = tmp_path / "z.pcap"
    bad.write_bytes(path("basics").read_bytes()[:24] + b"no capture any more")
    captures = [str(path("mock")), str(bad)]
    rows, quality = read(*captures, jobs=2)
    assert (rows, quality) == read(*captures)


def test_a_worker_without_memory_raises_memory_error(monkeypatch, allow_small):
    def steps(*arguments):
        raise MemoryError

    monkeypatch.setattr(workers_module, "read_steps", steps)
    with pytest.raises(MemoryError):
        read(str(path("mock")), jobs=2)


def test_a_package_missing_in_a_worker_is_named(monkeypatch, allow_small):
    def steps(*arguments):
        raise ModuleNotFoundError("No module named 'lz4.frame'", name="lz4.frame")

    monkeypatch.setattr(workers_module, "read_steps", steps)
    with pytest.raises(ModuleNotFoundError) as caught:
        read(str(path("mock")), jobs=2)
    assert caught.value.name == "lz4.frame"


def test_a_killed_worker_is_an_error(monkeypatch, allow_small):
    read_steps = workers_module.read_steps

    def steps(stages, captures, quality, shard):
        yield from read_steps(stages, captures, quality, shard)
        if not shard.is_first:
            # The worker kills itself: with few packets it ends soon, so the test might be too late.
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(workers_module, "read_steps", steps)
    with pytest.raises(KanalyzeError, match="worker process died"):
        read(str(path("mock")), jobs=2)


def test_stopping_early_ends_all_workers(allow_small):
    run = Analysis([str(path("basics"))], jobs=2)
    batches = run.batches()
    next(batches)
    assert run._workers is not None
    processes = run._workers._processes
    assert len(processes) == 2
    batches.close()
    assert not any(process.is_alive() for process in processes)


def test_closing_a_started_analysis_ends_its_workers(allow_small):
    run = Analysis([str(path("basics"))], jobs=2)
    run.start()
    assert run._workers is not None
    run.close()
    run.close()
    assert not any(process.is_alive() for process in run._workers._processes)


def test_progress_ends_at_the_size_of_the_captures(allow_small):
    run = Analysis([str(path("mock"))], jobs=2)
    list(run.batches())
    size = path("mock").stat().st_size
    assert run.progress == (size, size)


def test_an_open_file_is_read_by_one_process():
    assert usable_workers(4, None) == 1
    with path("mock").open("rb") as file:
        run = Analysis([file], jobs=4)
        run.start()
        assert run._workers is None
        assert sum(len(batch) for batch in run.batches()) == len(read(str(path("mock")))[0])


def test_small_captures_have_no_workers():
    assert usable_workers(4, 50_000_000) == 1
    assert usable_workers(4, 100_000_000) == 4
    assert usable_workers(1, 100_000_000) == 1


@pytest.mark.parametrize("jobs", [0, -1])
def test_jobs_below_one_are_refused(jobs):
    with pytest.raises(UsageError, match="not a number of jobs"):
        Analysis(["x.pcap"], jobs=jobs)


def test_every_connection_is_in_exactly_one_shard(allow_small):
    """A worker closes the connections of its shard, and no others."""
    by_shard = []
    for shard in (Shard(0, 3), Shard(1, 3), Shard(2, 3)):
        run = Analysis([str(path("cluster"))])
        captures = run._context.open()
        stages = run._context.settings.stages(shard)
        by_shard.append(
            {
                (tcp.endpoints, tcp.connection_number, tcp.serial)
                for _, step in stages.run(captures)
                for tcp in step.closed_connections
            }
        )
    assert all(by_shard)
    all_connections = set().union(*by_shard)
    assert sum(map(len, by_shard)) == len(all_connections)
    assert len({serial for *_, serial in all_connections}) == len(all_connections)
    assert len(all_connections) == read(str(path("cluster")))[1]["connections"]


def test_started_workers_end_if_another_cannot_be_started(monkeypatch):
    started = []
    start = Workers._start

    def fail_at_second(self, task, shard):
        if shard.index == 1:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(self, task, shard)
        started.extend(self._processes)

    monkeypatch.setattr(Workers, "_start", fail_at_second)
    analysis = Analysis([str(path("mock"))])
    context = analysis._context
    task = WorkerTask([str(path("mock"))], Stores(), context.settings)
    with pytest.raises(BlockingIOError):
        Workers(task, 2, context.names, context.quality)
    assert len(started) == 1
    assert not started[0].is_alive()


def test_workers_read_the_same_batches_as_one_process(tmp_path, allow_small):
    # Unanswered requests come when their connection ends, among the rows of that batch: rows have
    # the same order only if batches are the same.
    long = tmp_path / "long.pcap"
    repeat(path("basics"), 24, long)
    with MergedCaptures([str(long)]) as captures:
        batches = sum(1 for _ in captures.batches())
    assert batches > 2
    assert read(str(long), jobs=2) == read(str(long), jobs=1)


def test_topic_names_seen_by_another_worker_are_used(allow_small):
    # Some Fetches have only the topic id; the metadata of another connection has the name.
    alone, _ = read(str(path("cluster")), jobs=1)
    together, _ = read(str(path("cluster")), jobs=4)
    by_id = [part for row in together for part in row.partitions if part.topic_id is not None]
    assert by_id
    assert all(part.topic is not None for part in by_id)
    assert together == alone
    errors = [item for row in together for item in row.errors]
    assert errors == [item for row in alone for item in row.errors]


@pytest.mark.parametrize(
    "name",
    [
        "tls13-sasl",
        *(
            pytest.param(capture, marks=pytest.mark.long)
            for capture in ("tls12-aes256cbc-sha1", *tls_captures.LATE)
        ),
    ],
)
def test_all_workers_decrypt(name, allow_small):
    def tables_of(jobs: int, **keys):
        run = Analysis([str(tls_captures.path(name))], jobs=jobs, **keys)
        tables: dict[str, list[str]] = {}
        for rows in run.table_rows():
            for table, block in rows.blocks():
                columns = TABLES[table].columns
                lines = BatchMaker(columns).of_block(block).to_pylist()
                tables.setdefault(table, []).extend(map(repr, lines))
        return {table: sorted(lines) for table, lines in tables.items()}, run.quality.to_dict()

    keys = {"keylog": read_key_logs([str(tls_captures.keylog(name))])}
    alone = tables_of(1, **keys)
    requests = len(alone[0].get("requests", []))
    if name in tls_captures.LATE:
        # tshark needs both hellos; TLS 1.2 has no keys without the server's hello.
        assert (requests > 0) == name.startswith("tls13")
    else:
        assert requests == len(tls_captures.read_by_tshark(name))
    assert tables_of(2, **keys) == tables_of(4, **keys) == alone


def test_all_workers_use_the_secrets_inside_captures(allow_small):
    name = str(tls_captures.path(tls_captures.WITH_SECRETS[0]))
    alone = read(name, jobs=1)
    assert alone[0]
    assert read(name, jobs=4) == alone
