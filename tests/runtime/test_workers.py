"""Several workers give the same as one process."""

from __future__ import annotations

import os
import signal
from multiprocessing import active_children

import pytest

from benchmarks.repeat import repeat
from kanalyze.api.inputs import read_key_logs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.common import forked as forked_module
from kanalyze.common.forked import usable_processes
from kanalyze.errors import CaptureError, KanalyzeError, UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.net.segment_columns import Shard
from kanalyze.runtime import dealing
from kanalyze.runtime.one_pass import OnePass
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.workers import Workers
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.requests import row_assembler
from tests.support import tls_captures
from tests.support.captures import NAMES, in_turn, path
from tests.support.summaries import summary_of_blocks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no workers here")


@pytest.fixture
def allow_small(monkeypatch):
    """Use workers for small captures too."""
    monkeypatch.setattr(forked_module, "_MIN_BYTES", 0)


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


@pytest.mark.parametrize(
    "error",
    [MemoryError(), ModuleNotFoundError("No module named 'lz4.frame'", name="lz4.frame")],
    ids=["no memory", "no package"],
)
def test_an_error_in_a_worker_is_raised(error, monkeypatch, allow_small):
    def steps(self):
        raise error

    monkeypatch.setattr(OnePass, "steps", steps)
    with pytest.raises(type(error)) as caught:
        read(str(path("mock")), jobs=2)
    assert getattr(caught.value, "name", None) == getattr(error, "name", None)


def test_a_killed_worker_is_an_error(monkeypatch, allow_small):
    read_steps = OnePass.steps

    def steps(self):
        yield from read_steps(self)
        if not self.settings.shard.is_first:
            # The worker kills itself: with few packets it ends soon, so the test might be too late.
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(OnePass, "steps", steps)
    with pytest.raises(KanalyzeError, match="worker process died"):
        read(str(path("mock")), jobs=2)


@pytest.mark.parametrize("reads_rows", [True, False])
def test_stopping_early_ends_all_workers(reads_rows, monkeypatch, allow_small):
    read_steps = OnePass.steps

    def steps(self):
        yield from read_steps(self)
        signal.pause()  # no worker ends by itself

    monkeypatch.setattr(OnePass, "steps", steps)
    run = Analysis([str(path("basics"))], jobs=2)
    rows = run.batches()
    if reads_rows:
        next(rows)
    assert len(active_children()) == 2
    if reads_rows:
        del rows
    else:
        run.close()
    assert active_children() == []
    run.close()


def test_progress_ends_at_the_size_of_the_captures(allow_small):
    run = Analysis([str(path("mock"))], jobs=2)
    list(run.batches())
    size = path("mock").stat().st_size
    assert run.progress == (size, size)


def test_an_open_file_is_read_by_one_process():
    assert usable_processes(4, None) == 1
    with path("mock").open("rb") as file:
        run = Analysis([file], jobs=4)
        batches = run.batches()
        assert active_children() == []
        assert sum(map(len, batches)) == len(read(str(path("mock")))[0])


def test_small_captures_have_no_workers():
    assert usable_processes(4, 5_000_000) == 1
    assert usable_processes(4, 20_000_000) == 4
    assert usable_processes(1, 20_000_000) == 1


@pytest.mark.parametrize("jobs", [0, -1])
def test_jobs_below_one_are_refused(jobs):
    with pytest.raises(UsageError, match="not a number of jobs"):
        Analysis(["x.pcap"], jobs=jobs)


def test_every_connection_is_in_exactly_one_shard(allow_small):
    """A worker closes the connections of its shard, and no others."""
    by_shard = []
    for shard in (Shard(0, 3), Shard(1, 3), Shard(2, 3)):
        run = Analysis([str(path("cluster"))], shard=shard)
        rows = [row for batch in run.connection_batches() for row in batch]
        by_shard.append({(row.connection, row.connection_number) for row in rows})
    assert all(by_shard)
    all_connections = set().union(*by_shard)
    assert sum(map(len, by_shard)) == len(all_connections)
    assert len(all_connections) == read(str(path("cluster")))[1]["connections"]


def test_started_workers_end_if_another_cannot_be_started(monkeypatch, allow_small):
    started = []
    start = Workers._start

    def fail_at_second(self, captures, settings):
        if settings.shard.index == 1:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(self, captures, settings)
        started.extend(active_children())

    monkeypatch.setattr(Workers, "_start", fail_at_second)
    with pytest.raises(BlockingIOError):
        read(str(path("mock")), jobs=2)
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


@pytest.mark.parametrize("place_bytes", [1, 4096, 1 << 16])
def test_batches_for_which_there_is_no_room_are_read_too(place_bytes, tmp_path, monkeypatch):
    # Some of the batches fit, some do not, in every order.
    long = tmp_path / "long.pcap"
    repeat(path("basics"), 24, long)
    alone = read(str(long), str(path("any")))
    monkeypatch.setattr(forked_module, "_MIN_BYTES", 0)
    monkeypatch.setattr(dealing, "_PLACE_BYTES", place_bytes)
    assert read(str(long), str(path("any")), jobs=3) == alone
    assert read(str(long), jobs=3) == read(str(long), jobs=1)


@pytest.mark.parametrize("most_bytes", [1, 40_000])
def test_batches_whose_rows_come_in_many_blocks_are_merged(
    most_bytes, tmp_path, allow_small, monkeypatch
):
    long = tmp_path / "long.pcap"
    repeat(path("basics"), 2, long)
    alone = read(str(long), str(path("errors")))
    monkeypatch.setattr(row_assembler, "_MAX_BYTES", most_bytes)
    for jobs in (1, 2, 3):
        assert read(str(long), str(path("errors")), jobs=jobs) == alone


@pytest.mark.parametrize(("others", "is_shared"), [((), True), (("any",), False)])
def test_the_buffers_of_one_capture_are_shared(
    others, is_shared, tmp_path, allow_small, monkeypatch
):
    """Batches of a buffer are read while the next ones are filled."""
    long = tmp_path / "long.pcap"
    repeat(path("basics"), 24, long)
    captures = [str(long), *(str(path(name)) for name in others)]
    alone = read(*captures, jobs=1)
    new, number_of, numbers = dealing.SharedBuffers.new, dealing.SharedBuffers.number_of, []

    def noted(self, buffer):
        numbers.append(number_of(self, buffer))
        return numbers[-1]

    monkeypatch.setattr(dealing.SharedBuffers, "new", lambda self, size: new(self, 1 << 16))
    monkeypatch.setattr(dealing.SharedBuffers, "number_of", noted)
    assert read(*captures, jobs=2) == alone
    if is_shared:
        assert set(numbers) == {0, 1, 2}
        assert len(numbers) > 100
    else:
        assert set(numbers) == {None}


def test_an_error_after_some_rows_comes_after_them(monkeypatch, allow_small):
    """What was read before a capture became unreadable is not lost."""
    batches = MergedCaptures.batches

    def some(self):
        yield from batches(self)
        raise CaptureError("the disk is gone")

    monkeypatch.setattr(MergedCaptures, "batches", some)
    found = []
    for jobs in (1, 2):
        run, rows = Analysis([str(path("basics"))], jobs=jobs), []
        with pytest.raises(CaptureError, match="the disk is gone"):
            rows.extend(row for batch in run.batches() for row in batch.rows())
        found.append(rows)
    alone, together = found
    assert together == alone != []


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
