"""A stream of captures gives the rows of one reading of all of them, each exactly once."""

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
from kanalyze.tables.row import COLUMNS
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
    """A capture, as a rotation writes it into a folder: file by file."""

    def __init__(self, name: str, root: Path, *, files: int = 7, seed: int = 1) -> None:
        self.inbox = root / "in"
        self.inbox.mkdir()
        packets = packets_of(name)
        cuts = sorted(Random(seed).sample(range(1, len(packets)), files - 1))
        ends = zip([0, *cuts], [*cuts, len(packets)], strict=True)
        self._left = [pcap(packets[first:last]) for first, last in ends]
        self._written = 0

    def write(self, count: int = 1_000_000) -> None:
        """Write the next files."""
        for data in self._left[:count]:
            # The number comes last, and is no number as texts compare.
            (self.inbox / f"capture.pcap{self._written}").write_bytes(data)
            self._written += 1
        del self._left[:count]

    def expected(self) -> Counter[str]:
        """The rows of one reading of all that was written."""
        return counted(as_on_spark(kanalyze.requests(str(self.inbox)).to_arrow()).to_pylist())


def counted(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    """Rows in no order."""
    return Counter(map(repr, rows))


def assert_all_but_open(found: Counter[str], expected: Counter[str]) -> None:
    """All rows, but for those of what is open when the last file ends."""
    assert found - expected == Counter()
    for row in expected - found:
        assert any(f"'status': '{status}'" in row for status in OPEN_AT_THE_END)


class Query:
    """What Spark does with a stream, without Spark: batches, tasks, commits."""

    def __init__(self, rotation: Rotation, state: Path, **options: Any) -> None:
        self._given = {
            "path": str(rotation.inbox),
            "stateLocation": str(state),
            "settleSeconds": "0",
            **{name: str(value) for name, value in options.items()},
        }
        self.start()
        self.offset = self.stream.initialOffset()
        self.rows: list[dict[str, Any]] = []

    def start(self) -> None:
        """Begin, or begin again in another process."""
        self.stream = CaptureStream([self._given["path"]], self._given, spark_schema(COLUMNS))

    def plan(self) -> tuple[dict[str, int], list[Any]]:
        """Where the next batch ends, and its tasks as they come to executors."""
        limit = self.stream.getDefaultReadLimit()
        end = self.stream.latestOffset(self.offset, limit)
        return end, pickle.loads(pickle.dumps(self.stream.partitions(self.offset, end)))

    def run(self, tasks: Iterable[Any]) -> list[dict[str, Any]]:
        """Run tasks, each in a process of its own."""
        rows = []
        for task in tasks:
            executor = pickle.loads(pickle.dumps(self.stream))
            for batch in executor.read(task):
                assert batch.schema == arrow_schema(COLUMNS)
                rows += batch.to_pylist()
        return rows

    def end(self, end: dict[str, int], rows: list[dict[str, Any]]) -> None:
        """Take a batch's rows for good."""
        self.rows += rows
        self.offset = end
        self.stream.commit(end)

    def process(self) -> None:
        """Process all that is there."""
        while True:
            end, tasks = self.plan()
            if end == self.offset:
                return
            self.end(end, self.run(tasks))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["cluster", "sasl", "snaplen", "waits"])
def test_rows_are_those_of_one_reading(name: str, tmp_path: Path) -> None:
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
def test_so_they_are_of_every_capture(name: str, seed: int, tmp_path: Path) -> None:
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
    assert sum(1 for each in rows if each) > 1
    query.end(end, [row for each in rows for row in each])
    query.process()
    assert_all_but_open(counted(query.rows), rotation.expected())


def test_what_one_task_was_told_of_topics_others_know_in_the_next_batch(tmp_path: Path) -> None:
    rotation = Rotation("cluster", tmp_path, files=12)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=1, numPartitions=2)
    query.process()
    later = query.rows[len(query.rows) // 2 :]
    named = [part["topic"] for row in later for part in row["partitions"] if part["topic_id"]]
    assert len(named) > 10
    assert None not in named
    unnamed = [{**row, "partitions": [], "errors": []} for row in query.rows]
    rows = kanalyze.requests(str(rotation.inbox)).to_arrow()
    expected = as_on_spark(rows).to_pylist()
    blanked = counted({**row, "partitions": [], "errors": []} for row in expected)
    assert_all_but_open(counted(unnamed), blanked)


def test_a_task_may_run_again_and_in_part(tmp_path: Path) -> None:
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
        query.end(end, first)
    assert_all_but_open(counted(query.rows), rotation.expected())


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def test_a_query_goes_on_after_a_restart_wherever_it_stopped(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=2)
    rotation.write(3)
    end, tasks = query.plan()
    query.run(tasks)  # its rows were not taken for good
    query.start()
    rotation.write(2)
    assert end == {"files": 2}
    tasks = list(query.stream.partitions(query.offset, end))
    query.end(end, query.run(tasks))
    query.start()
    rotation.write()
    query.process()
    assert_all_but_open(counted(query.rows), rotation.expected())


def test_states_that_no_batch_begins_with_are_removed(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=1)
    query.process()
    assert [path.name for path in (tmp_path / "state" / "states").iterdir()] == ["000000000007"]


def test_packets_are_named_by_the_file_that_they_are_in(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path, files=40)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=1)
    query.process()
    over_edges = [row for row in query.rows if row["response_packet"] and row["request_packet"]]
    assert any(row["response_packet"] < row["request_packet"] for row in over_edges)
    assert len({row["capture"] for row in query.rows}) > 10
    assert_all_but_open(counted(query.rows), rotation.expected())


def test_a_file_that_is_gone_is_passed_over_and_noted(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=3)
    end = query.stream.latestOffset(query.offset, ReadMaxFiles(3))
    (rotation.inbox / "capture.pcap1").unlink()
    query.end(end, query.run(query.stream.partitions(query.offset, end)))
    query.process()
    (note,) = (tmp_path / "state" / "quarantine").iterdir()
    assert b"capture.pcap1" in note.read_bytes()
    assert_all_but_open(counted(query.rows), rotation.expected())


def test_columns_and_filters_are_those_asked_for(tmp_path: Path) -> None:
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


def test_with_nothing_new_there_is_no_batch(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    query = Query(rotation, tmp_path / "state")
    assert query.plan() == ({"files": 0}, [])
    rotation.write(2)
    query.process()
    assert query.plan() == ({"files": 2}, [])
    assert query.stream.reportLatestOffset() == {"files": 2}


def test_what_comes_after_a_query_of_what_is_there_began_is_not_read(tmp_path: Path) -> None:
    rotation = Rotation("waits", tmp_path)
    rotation.write(3)
    query = Query(rotation, tmp_path / "state")
    query.stream.prepareForTriggerAvailableNow()
    rotation.write()
    assert query.stream.latestOffset({"files": 0}, ReadMaxFiles(2)) == {"files": 2}
    assert query.stream.latestOffset({"files": 2}, ReadAllAvailable()) == {"files": 3}
    assert query.stream.latestOffset({"files": 5}, ReadAllAvailable()) == {"files": 5}


# -- what is refused ------------------------------------------------------------------------------


def begun(tmp_path: Path) -> Query:
    rotation = Rotation("waits", tmp_path)
    rotation.write()
    query = Query(rotation, tmp_path / "state", maxFilesPerTrigger=2)
    end, tasks = query.plan()
    query.end(end, query.run(tasks))
    return query


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Path.unlink, "missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "damaged"),
        (lambda path: path.write_bytes(b""), "damaged"),
    ],
)
@pytest.mark.parametrize("name", ["0", "0.names"])
def test_a_state_that_is_not_there_ends_the_query(
    tmp_path: Path, name: str, change: Callable[[Path], object], words: str
) -> None:
    query = begun(tmp_path)
    change(tmp_path / "state" / "states" / "000000000002" / name)
    _, tasks = query.plan()
    with pytest.raises(KanalyzeError, match=words) as caught:
        query.run(tasks)
    assert "\n" not in str(caught.value)


def test_a_state_folder_is_that_of_one_query(tmp_path: Path) -> None:
    query = begun(tmp_path)
    with pytest.raises(UsageError, match="another query"):
        Query(Rotation("waits", new(tmp_path / "b")), tmp_path / "state").plan()
    query.stream.partitions({"files": 0}, {"files": 7})
    with pytest.raises(UsageError, match="different queries"):
        query.stream.partitions({"files": 0}, {"files": 8})


def test_so_it_is_told_where_the_line_is_all_that_spark_shows(tmp_path: Path) -> None:
    query = begun(tmp_path)
    assert not os.environ["SPARK_HIDE_TRACEBACK"]
    with pytest.raises(UsageError, match="different queries"):
        query.stream.partitions({"files": 0}, {"files": 8})
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"


def new(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "stateLocation"),
        ({"stateLocation": "s", "table": "connections"}, "option table"),
        ({"stateLocation": "s", "nosuch": "1"}, "unknown option"),
        ({"stateLocation": "s", "maxFilesPerTrigger": "x"}, "maxFilesPerTrigger"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        CaptureStream(["in"], options, spark_schema(COLUMNS[:1]))


def test_so_is_a_stream_of_nothing() -> None:
    with pytest.raises(UsageError, match="no capture"):
        CaptureStream([], {"stateLocation": "s"}, spark_schema(COLUMNS[:1]))


# -- with Spark -----------------------------------------------------------------------------------


class SparkQuery:
    """A query of Spark that writes Parquet files; may be stopped and started again."""

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
        """Process all that is there, and end."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(120)
        assert query.exception() is None

    def rows(self) -> Counter[str]:
        return counted(self._spark.read.parquet(str(self._root / "out")).toArrow().to_pylist())


def test_spark_takes_what_comes_while_it_runs_and_goes_on_after_a_restart(
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


def be_of_another_query(root: Path) -> None:
    (root / "state" / "settings.json").write_text("{}")


@pytest.mark.long
def test_what_ends_a_query_of_spark_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    """Of tasks, and of the process that plans them."""
    rotation = Rotation("waits", tmp_path)
    query = SparkQuery(spark, tmp_path)
    rotation.write(3)
    query.run()
    rotation.write()
    for change, words in (
        (damage_state, "is damaged: begin with another checkpoint"),
        (be_of_another_query, "is that of another query: {}"),
    ):
        change(tmp_path)
        with pytest.raises(StreamingQueryException) as caught:
            query.run()
        text = str(caught.value)
        lines = [line.strip() for line in text.splitlines() if words in line]
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
