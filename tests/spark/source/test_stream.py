"""A stream gives each row exactly once, and the same rows as reading all captures together."""

from __future__ import annotations

import os
import pickle
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

import kanalyze
from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.spark.schema import arrow_schema, spark_schema
from kanalyze.spark.source.datasource import KanalyzeDataSource
from kanalyze.spark.source.stream import CaptureStream
from kanalyze.spec.rows.requests import COLUMNS
from tests.support.captures import NAMES
from tests.support.disorder import packets_of
from tests.support.disorder.formats import pcap
from tests.support.spark import own_session
from tests.support.spark_tables import as_on_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

OPEN_AT_THE_END = {"unanswered", "orphan_response"}


class Rotation:
    """A capture that is written to a folder file by file, as capture programs rotate files."""

    def __init__(self, name: str, root: Path, *, files: int = 7, seed: int = 1) -> None:
        self.inbox = root / "in"
        self.inbox.mkdir()
        packets = packets_of(name)
        cuts = sorted(Random(seed).sample(range(1, len(packets)), files - 1))
        ends = zip([0, *cuts], [*cuts, len(packets)], strict=True)
        self._unwritten = [pcap(packets[first:last]) for first, last in ends]
        self._written = 0

    def write(self, count: int = 1_000_000) -> None:
        """Write the next files."""
        for data in self._unwritten[:count]:
            # Sorted as text, the names are in another order than their numbers.
            (self.inbox / f"capture.pcap{self._written}").write_bytes(data)
            self._written += 1
        del self._unwritten[:count]

    def expected(self) -> Counter[str]:
        """The rows of all written files, read together."""
        return counted(as_on_spark(kanalyze.requests(str(self.inbox)).to_arrow()).to_pylist())


def counted(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    """Count rows, whatever their order."""
    return Counter(map(repr, rows))


def assert_all_but_open(found: Counter[str], expected: Counter[str]) -> None:
    """Expect all rows, except requests and responses that are open when the last file ends."""
    assert found - expected == Counter()
    for row in expected - found:
        assert any(f"'status': '{status}'" in row for status in OPEN_AT_THE_END)


class Query:
    """Does what Spark does with a stream, without Spark: batches, tasks, commits."""

    def __init__(self, rotation: Rotation, state: Path, **options: Any) -> None:
        self._options = {
            "path": str(rotation.inbox),
            "stateLocation": str(state),
            "settleSeconds": "0",
            **{name: str(value) for name, value in options.items()},
        }
        self.start()
        self.offset = self.stream.initialOffset()
        self.rows: list[dict[str, Any]] = []

    def start(self) -> None:
        """Start, or restart as another process would."""
        self.stream = CaptureStream([self._options["path"]], self._options, spark_schema(COLUMNS))

    def plan(self) -> tuple[dict[str, int], list[Any]]:
        """Return the end of the next batch, and its tasks as executors receive them."""
        limit = self.stream.getDefaultReadLimit()
        end = self.stream.latestOffset(self.offset, limit)
        return end, pickle.loads(pickle.dumps(self.stream.partitions(self.offset, end)))

    def run(self, tasks: Iterable[Any]) -> list[dict[str, Any]]:
        """Run tasks, each with its own copy of the stream."""
        rows = []
        for task in tasks:
            executor = pickle.loads(pickle.dumps(self.stream))
            for batch in executor.read(task):
                assert batch.schema == arrow_schema(COLUMNS)
                rows += batch.to_pylist()
        return rows

    def commit_batch(self, end: dict[str, int], rows: list[dict[str, Any]]) -> None:
        """Keep the rows of a batch, and commit it."""
        self.rows += rows
        self.offset = end
        self.stream.commit(end)

    def process(self) -> None:
        """Process all files that exist."""
        while True:
            end, tasks = self.plan()
            if end == self.offset:
                return
            self.commit_batch(end, self.run(tasks))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["cluster", "sasl", "snaplen", "waits"])
def test_rows_match_reading_all_captures_together(name: str, tmp_path: Path) -> None:
    rotation = Rotation(name, tmp_path)
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=2)
    for _ in range(4):
        rotation.write(2)
        query.process()
    assert len(query.rows) > 20
    assert_all_but_open(counted(query.rows), rotation.expected())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_rows_of_every_capture_match_reading_all_files_together(
    name: str, seed: int, tmp_path: Path
) -> None:
    rotation = Rotation(name, tmp_path, files=12, seed=seed)
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=1)
    rotation.write()
    query.process()
    assert_all_but_open(counted(query.rows), rotation.expected())


@pytest.mark.parametrize("name", ["groups", "transactions"])
def test_several_tasks_share_the_connections(name: str, tmp_path: Path) -> None:
    rotation = Rotation(name, tmp_path)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=3, numPartitions=3)
    end, tasks = query.plan()
    rows = [query.run([task]) for task in tasks]
    assert sum(1 for task_rows in rows if task_rows) > 1
    query.commit_batch(end, [row for task_rows in rows for row in task_rows])
    query.process()
    assert_all_but_open(counted(query.rows), rotation.expected())


def test_topic_names_seen_by_one_task_are_known_to_all_in_the_next_batch(tmp_path: Path) -> None:
    rotation = Rotation("cluster", tmp_path, files=12)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=1, numPartitions=2)
    query.process()
    later = query.rows[len(query.rows) // 2 :]
    named = [part["topic"] for row in later for part in row["partitions"] if part["topic_id"]]
    assert len(named) > 10
    assert None not in named
    rows_without_partitions = [{**row, "partitions": [], "errors": []} for row in query.rows]
    rows = kanalyze.requests(str(rotation.inbox)).to_arrow()
    expected = as_on_spark(rows).to_pylist()
    expected_rows = counted({**row, "partitions": [], "errors": []} for row in expected)
    assert_all_but_open(counted(rows_without_partitions), expected_rows)


def test_a_task_may_fail_and_run_again(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=2, numPartitions=2)
    while True:
        end, tasks = query.plan()
        if end == query.offset:
            break
        for task in tasks:
            next(iter(query.stream.read(task)), None)  # fails in the middle
        first = query.run(tasks)
        written = contents(tmp_path / "state" / "states")
        assert counted(query.run(tasks[::-1])) == counted(first)
        assert contents(tmp_path / "state" / "states") == written
        query.commit_batch(end, first)
    assert_all_but_open(counted(query.rows), rotation.expected())


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def test_a_query_continues_after_a_restart_wherever_it_stopped(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=2)
    rotation.write(3)
    end, tasks = query.plan()
    query.run(tasks)  # its batch was not committed
    query.start()
    rotation.write(2)
    assert end == {"files": 2}
    tasks = list(query.stream.partitions(query.offset, end))
    query.commit_batch(end, query.run(tasks))
    query.start()
    rotation.write()
    query.process()
    assert_all_but_open(counted(query.rows), rotation.expected())


def test_states_that_no_batch_needs_are_removed(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=1)
    query.process()
    assert [path.name for path in (tmp_path / "state" / "states").iterdir()] == ["000000000007"]


def test_packets_have_the_name_of_their_file(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path, files=40)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=1)
    query.process()
    over_edges = [row for row in query.rows if row["response_packet"] and row["request_packet"]]
    assert any(row["response_packet"] < row["request_packet"] for row in over_edges)
    assert len({row["capture"] for row in query.rows}) > 10
    assert_all_but_open(counted(query.rows), rotation.expected())


def test_a_removed_file_is_skipped_and_noted(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=3)
    end = query.stream.latestOffset(query.offset, ReadMaxFiles(3))
    (rotation.inbox / "capture.pcap1").unlink()
    query.commit_batch(end, query.run(query.stream.partitions(query.offset, end)))
    query.process()
    (note,) = (tmp_path / "state" / "quarantine").iterdir()
    assert b"capture.pcap1" in note.read_bytes()
    assert_all_but_open(counted(query.rows), rotation.expected())


def test_columns_and_filters_are_applied(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    rotation.write()
    names = ("api_name", "latency_ns")
    chosen = spark_schema([column for column in COLUMNS if column.name in names])
    options = {"stateLocation": str(tmp_path / "state"), "settleSeconds": "0", "api": "Fetch"}
    stream = CaptureStream([str(rotation.inbox)], options, chosen)
    end = stream.latestOffset({"files": 0}, ReadAllAvailable())
    (task,) = stream.partitions({"files": 0}, end)
    rows = [row for batch in stream.read(task) for row in batch.to_pylist()]
    assert {tuple(row) for row in rows} == {names}
    assert {row["api_name"] for row in rows} == {"Fetch"}


def test_without_new_files_there_is_no_batch(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    query = Query(rotation, tmp_path / "state")
    assert query.plan() == ({"files": 0}, [])
    rotation.write(2)
    query.process()
    assert query.plan() == ({"files": 2}, [])
    assert query.stream.reportLatestOffset() == {"files": 2}


def test_available_now_reads_no_files_that_come_later(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    rotation.write(3)
    query = Query(rotation, tmp_path / "state")
    query.stream.prepareForTriggerAvailableNow()
    rotation.write()
    assert query.stream.latestOffset({"files": 0}, ReadMaxFiles(2)) == {"files": 2}
    assert query.stream.latestOffset({"files": 2}, ReadAllAvailable()) == {"files": 3}
    assert query.stream.latestOffset({"files": 5}, ReadAllAvailable()) == {"files": 5}


# -- errors ---------------------------------------------------------------------------------------


def started(tmp_path: Path) -> Query:
    rotation = Rotation("waits", tmp_path)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=2)
    end, tasks = query.plan()
    query.commit_batch(end, query.run(tasks))
    return query


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Path.unlink, "missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "damaged"),
        (lambda path: path.write_bytes(b""), "damaged"),
    ],
)
@pytest.mark.parametrize("name", ["0", "0.names"])
def test_a_missing_or_damaged_state_ends_the_query(
    tmp_path: Path, name: str, change: Callable[[Path], object], message: str
) -> None:
    query = started(tmp_path)
    change(tmp_path / "state" / "states" / "000000000002" / name)
    _, tasks = query.plan()
    with pytest.raises(KanalyzeError, match=message) as caught:
        query.run(tasks)
    assert "\n" not in str(caught.value)


def test_a_state_folder_belongs_to_one_query(tmp_path: Path) -> None:
    query = started(tmp_path)
    with pytest.raises(UsageError, match="another query"):
        Query(Rotation("waits", new_folder(tmp_path / "b")), tmp_path / "state").plan()
    query.stream.partitions({"files": 0}, {"files": 7})
    with pytest.raises(UsageError, match="different queries"):
        query.stream.partitions({"files": 0}, {"files": 8})


def test_an_error_makes_spark_hide_its_stack_trace(tmp_path: Path) -> None:
    query = started(tmp_path)
    assert not os.environ["SPARK_HIDE_TRACEBACK"]
    with pytest.raises(UsageError, match="different queries"):
        query.stream.partitions({"files": 0}, {"files": 8})
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"


def new_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "stateLocation"),
        ({"stateLocation": "s", "table": "connections"}, "option table"),
        ({"stateLocation": "s", "nosuch": "1"}, "unknown option"),
        ({"stateLocation": "s", "maxFilesPerTrigger": "x"}, "maxFilesPerTrigger"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CaptureStream(["in"], options, spark_schema(COLUMNS[:1]))


def test_a_stream_without_paths_is_refused() -> None:
    with pytest.raises(UsageError, match="no capture"):
        CaptureStream([], {"stateLocation": "s"}, spark_schema(COLUMNS[:1]))


# -- with Spark -----------------------------------------------------------------------------------


class SparkQuery:
    """A query of Spark that writes Parquet files; it can be stopped and restarted."""

    def __init__(self, spark: SparkSession, root: Path, **options: Any) -> None:
        self._spark = own_session(spark)
        self._spark.dataSource.register(KanalyzeDataSource)
        self._root = root
        self._options = {
            "stateLocation": str(root / "state"),
            "settleSeconds": 0,
            **options,
        }

    def start(self, **trigger: Any) -> StreamingQuery:
        frame = self._spark.readStream.format("kanalyze").options(**self._options)
        writer = frame.load(str(self._root / "in")).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self._root / "checkpoint"))
        return writer.trigger(**trigger).start(str(self._root / "out"))

    def run(self) -> None:
        """Process all files that exist, and end."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(120)
        assert query.exception() is None

    def rows(self) -> Counter[str]:
        return counted(self._spark.read.parquet(str(self._root / "out")).toArrow().to_pylist())


def test_spark_reads_new_files_while_it_runs_and_continues_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    rotation = Rotation("groups", tmp_path, files=5)
    rotation.write(2)
    query = SparkQuery(spark, tmp_path, numPartitions=2, maxFilesPerTrigger=2)
    running = query.start(processingTime="0 seconds")
    try:
        running.processAllAvailable()
        rotation.write(2)
        running.processAllAvailable()
    finally:
        running.stop()
    rotation.write()
    query.run()
    assert_all_but_open(query.rows(), rotation.expected())
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) == 3


def damage_state(root: Path) -> None:
    (root / "state" / "states" / "000000000003" / "0").write_bytes(b"damaged")


def change_settings(root: Path) -> None:
    (root / "state" / "settings.json").write_text("{}")


@pytest.mark.long
def test_an_error_that_ends_a_query_of_spark_is_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both for an error of a task, and of the process that plans tasks."""
    rotation = Rotation("waits", tmp_path)
    query = SparkQuery(spark, tmp_path)
    rotation.write(3)
    query.run()
    rotation.write()
    for change, message in (
        (damage_state, "is damaged: begin with another checkpoint"),
        (change_settings, "is that of another query: {}"),
    ):
        change(tmp_path)
        with pytest.raises(StreamingQueryException) as caught:
            query.run()
        text = str(caught.value)
        lines = [line.strip() for line in text.splitlines() if message in line]
        assert lines
        assert all("kanalyze.errors." in line for line in lines)
        assert "Traceback" not in text
        assert '.py"' not in text


@pytest.mark.long
def test_spark_repeats_a_batch_whose_task_failed(spark: SparkSession, tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    query = SparkQuery(spark, tmp_path)
    rotation.write(3)
    query.run()
    states = tmp_path / "state" / "states"
    kept = tmp_path / "kept"
    shutil.copytree(states, kept)
    (states / "000000000003" / "0").write_bytes(b"damaged")
    rotation.write()
    with pytest.raises(StreamingQueryException, match="damaged"):
        query.run()
    shutil.rmtree(states)
    shutil.copytree(kept, states)
    query.run()
    assert_all_but_open(query.rows(), rotation.expected())
