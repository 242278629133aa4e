"""A stream admits each capture once, in order, when it is complete.

A task of a stream saves its state for the next one.

A stream gives each row exactly once, and the same rows as reading all captures together.
"""

from __future__ import annotations

import json
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
from kanalyze.batch.archive import segment_readers
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.merge import UNKNOWN_CAPTURE
from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.net.segment_columns import Shard
from kanalyze.spark.schema import arrow_schema, spark_schema
from kanalyze.spark.source.datasource import KanalyzeDataSource
from kanalyze.spark.source.readers import make_plan
from kanalyze.spark.source.stream import (
    AdmittedCaptures,
    CaptureStream,
    StreamPartition,
    _with_checksum,
    read_stream_partition,
)
from kanalyze.spec.rows.requests import COLUMNS
from tests.support import kafka as k
from tests.support.captures import NAMES
from tests.support.disorder import packets_of
from tests.support.disorder.formats import pcap
from tests.support.packets import START_NS, Packet, pcap_file, segment, timed
from tests.support.spark import own_session
from tests.support.spark_tables import as_on_spark
from tests.support.traffic import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from kanalyze.spec.rows.requests import Row

SETTLE_S = 60
SECOND_NS = 1_000_000_000


class Watched:
    """A folder that captures are written to, and the list of admitted captures."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inbox = root / "in"
        self.inbox.mkdir()
        self.now_s = 1000
        self.state = SharedFolder(str(root / "state"))
        self.admitted = self.reopened()

    def reopened(self, settle_s: float = SETTLE_S) -> AdmittedCaptures:
        """Return the list as another process would read it."""
        return AdmittedCaptures([str(self.inbox)], self.state, settle_s=settle_s)

    def write(self, name: str, data: bytes, *, at_s: int) -> None:
        path = self.inbox / name
        path.write_bytes(data)
        os.utime(path, (at_s, at_s))

    def capture(self, name: str, first_s: int | None, *, at_s: int) -> None:
        packet = segment(to_broker=True, seq=1, ack=1, payload=k.heartbeat(1))
        packets = [] if first_s is None else [Packet(packet, START_NS + first_s * SECOND_NS)]
        self.write(name, pcap_file(packets), at_s=at_s)

    def names(self, now_s: int) -> list[str]:
        """Admit what is complete at a time; return the names of all captures admitted so far."""
        self.admitted.admit(now_s * SECOND_NS)
        found = self.admitted.between(0, len(self.admitted))
        return [capture.path.rpartition("/")[2] for capture in found]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_capture_is_complete_when_a_later_one_exists(watched: Watched) -> None:
    watched.capture("b", 10, at_s=1010)
    assert watched.names(1011) == []
    watched.capture("a", 20, at_s=1012)
    assert watched.names(1012) == ["b"]
    watched.capture("c", None, at_s=1030)  # just created: no packet was written yet
    assert watched.names(1030) == ["b", "a"]


def test_a_capture_is_complete_when_it_was_not_written_to_for_a_while(watched: Watched) -> None:
    watched.capture("a", 10, at_s=1010)
    assert watched.names(1010 + SETTLE_S - 1) == []
    assert watched.names(1010 + SETTLE_S) == ["a"]


def test_a_capture_written_to_after_a_later_one_began_is_not_complete(watched: Watched) -> None:
    watched.capture("a", 10, at_s=1050)
    watched.capture("b", 20, at_s=1020)
    assert watched.names(1051) == []


def test_without_a_settle_time_every_capture_is_complete(watched: Watched) -> None:
    watched.admitted = watched.reopened(settle_s=0)
    watched.capture("a", 10, at_s=1010)
    assert watched.names(0) == ["a"]


def test_captures_are_read_in_the_order_of_their_first_packets(watched: Watched) -> None:
    for name, first_s in (("x", 30), ("y", 10), ("z", None), ("w", 20)):
        watched.capture(name, first_s, at_s=0)
    assert watched.names(1000) == ["y", "w", "x", "z"]
    assert watched.admitted.notes == []


def test_a_late_capture_is_read_late_and_noted(watched: Watched) -> None:
    watched.capture("b", 20, at_s=0)
    assert watched.names(1000) == ["b"]
    watched.capture("a", 10, at_s=0)
    watched.capture("c", 30, at_s=0)
    assert watched.names(1000) == ["b", "a", "c"]
    (note,) = watched.admitted.notes
    assert (note.kind, note.path) == ("reorder_limit", str(watched.inbox / "a"))
    assert watched.reopened().notes == [note]


def test_a_file_that_is_no_capture_is_skipped_once_it_is_complete(watched: Watched) -> None:
    watched.write("a.pcap", b"no capture", at_s=1010)
    watched.write("empty.cap", b"", at_s=1010)
    watched.capture("b", 20, at_s=0)
    assert watched.names(1011) == ["b"]
    assert watched.admitted.notes == []
    assert watched.names(1010 + SETTLE_S) == watched.names(9999) == ["b"]
    kinds = [(note.path.rpartition("/")[2], note.kind) for note in watched.admitted.notes]
    assert kinds == [("a.pcap", "capture_unreadable"), ("empty.cap", "capture_unreadable")]


def test_later_captures_do_not_change_the_admitted_ones(watched: Watched) -> None:
    for number in range(3):
        watched.capture(f"{number}", number, at_s=0)
        watched.names(1000)
    first = watched.admitted.between(0, 3)
    watched.capture("before", -100, at_s=0)
    watched.admitted = watched.reopened()
    assert watched.names(1000) == ["0", "1", "2", "before"]
    assert watched.admitted.between(0, 3) == first
    assert watched.admitted.between(1, 2) == first[1:2]


def test_a_removed_capture_is_noted_once(watched: Watched) -> None:
    for name in "abc":
        watched.capture(name, ord(name), at_s=0)
    assert watched.names(1000) == ["a", "b", "c"]
    (watched.inbox / "b").unlink()
    assert watched.names(1000) == watched.names(1000) == ["a", "c"]
    assert [note.kind for note in watched.reopened().notes] == ["capture_unreadable"]


def test_a_capture_written_to_after_admission_is_noted_once(watched: Watched) -> None:
    watched.capture("a", 1, at_s=0)
    watched.capture("b", 2, at_s=0)
    assert watched.names(1000) == ["a", "b"]
    with (watched.inbox / "a").open("ab") as file:
        file.write(bytes(16))
    assert watched.names(1000) == watched.names(1000) == ["a", "b"]
    (note,) = watched.admitted.notes
    assert (note.kind, note.path) == ("capture_truncated", str(watched.inbox / "a"))


def test_a_missing_folder_may_appear_later(tmp_path: Path) -> None:
    paths = [str(tmp_path / "later"), str(tmp_path / "*.pcap"), "nosuchscheme://host/x"]
    admitted = AdmittedCaptures(paths, SharedFolder(str(tmp_path / "state")), settle_s=0)
    admitted.admit(0)
    assert len(admitted) == 0
    (tmp_path / "one.pcap").write_bytes(pcap_file([]))
    admitted.admit(0)
    assert len(admitted) == 1


def test_a_damaged_list_is_refused(watched: Watched) -> None:
    watched.capture("a", 1, at_s=0)
    watched.names(1000)
    for line in (b"{no json\n", b'{"no": "capture"}\n', b"3\n"):
        watched.state.write("files/000000000001.jsonl", line)
        with pytest.raises(UsageError, match="damaged"):
            watched.reopened()
    watched.state.write("files/000000000001.jsonl", b"")
    watched.state.write("files/000000000007.jsonl", b"")
    with pytest.raises(UsageError, match="out of place"):
        watched.reopened()


class Stream:
    """Runs one task after another, each with the next captures."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = SharedFolder(str(root / "state"))
        self.read = 0

    def read_batch(self, *contents: bytes, shard: Shard | None = None) -> list[Row]:
        """Read captures as the next batch; return its rows."""
        paths = []
        for data in contents:
            path = self.root / f"{self.read + len(paths)}"
            path.write_bytes(data)
            paths.append(FoundCapture(str(path)))
        end = self.read + len(paths)
        task = StreamPartition(self.read, end, shard or Shard(0, 1), tuple(paths))
        rows = [
            row
            for block in read_stream_partition(make_plan({}), task, self.folder)
            for row in block.rows()
        ]
        self.read = end
        return rows


def conversation() -> list[bytes]:
    packets: list[bytes] = []
    Line(packets).open().client(k.heartbeat(1), k.heartbeat(2)).broker(
        k.heartbeat_answer(1), k.heartbeat_answer(2)
    )
    return packets


def one_by_one() -> list[bytes]:
    """A capture for each packet."""
    packets = timed(conversation())
    return [pcap_file([packet]) for packet in packets]


def test_a_row_locates_packets_in_captures_of_earlier_tasks(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    captures = one_by_one()
    assert [stream.read_batch(capture) for capture in captures[:-2]] == [[]] * (len(captures) - 2)
    (row,) = stream.read_batch(captures[-2])
    assert (row.capture, row.request_packet, row.response_packet) == (str(tmp_path / "3"), 1, 1)
    (row,) = stream.read_batch(captures[-1])
    assert (row.capture, row.request_packet, row.response_packet) == (str(tmp_path / "4"), 1, 1)
    assert row.latency_ns == 2000


def test_one_batch_may_have_several_captures(tmp_path: Path) -> None:
    captures = one_by_one()
    stream = Stream(tmp_path)
    rows = stream.read_batch(*captures[:4]) + stream.read_batch(*captures[4:])
    assert [row.capture for row in rows] == [str(tmp_path / "3"), str(tmp_path / "4")]


def test_old_packet_locations_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_readers, "_MAX_RUNS", 1)
    stream = Stream(tmp_path)
    rows = [row for capture in one_by_one() for row in stream.read_batch(capture)]
    assert {(row.capture, row.request_packet) for row in rows} == {(UNKNOWN_CAPTURE, None)}
    assert [row.response_packet for row in rows] == [1, 1]


def test_a_batch_without_captures_keeps_the_state(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    captures = one_by_one()
    stream.read_batch(*captures[:5])
    task = StreamPartition(5, 6, Shard(0, 1), ())  # the capture was removed
    assert list(read_stream_partition(make_plan({}), task, stream.folder)) == []
    stream.read = 6
    (row,) = stream.read_batch(captures[5])
    assert (row.capture, row.request_packet, row.status) == (str(tmp_path / "3"), 1, "ok")


def test_connections_whose_state_is_of_another_version_are_closed(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    captures = one_by_one()
    assert stream.read_batch(*captures[:5]) == []
    name = "states/000000000005/0"
    data = stream.folder.read(name)
    assert data is not None
    body = data.partition(b"\n")[2]
    before, magic, state = body.partition(b"kanalyze-state ")
    stream.folder.write(name, _with_checksum(before + magic + b"99" + state[2:]))
    assert stream.folder.names("closed") == []
    first, second, *rest = stream.read_batch(*captures[5:])
    assert [row.capture for row in (first, second)] == [str(tmp_path / "3"), str(tmp_path / "4")]
    assert {row.status for row in (first, second)} == {"unanswered"}
    assert all(row.status == "orphan_response" for row in rest)
    reason = stream.folder.read("closed/000000000007-0.txt")
    assert reason is not None
    assert b"another version of kanalyze" in reason


def test_only_the_first_shard_reports_anomalies_of_a_capture(tmp_path: Path) -> None:
    whole = pcap_file(timed([segment(to_broker=True, seq=1, ack=1, payload=k.heartbeat(1))] * 2))
    for index in (0, 1):
        (tmp_path / f"{index}").mkdir()
        stream = Stream(tmp_path / f"{index}")
        stream.read_batch(whole[:-5], shard=Shard(index, 2))
        names = stream.folder.names("anomalies")
        assert names == (["000000000001.jsonl"] if index == 0 else [])
    data = SharedFolder(str(tmp_path / "0" / "state")).read("anomalies/000000000001.jsonl")
    assert data is not None
    kind, detail = json.loads(data)
    assert kind == "capture_truncated"
    assert detail.startswith(str(tmp_path / "0"))


def test_the_state_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    before = os.umask(0)
    try:
        for capture in one_by_one():
            stream.read_batch(capture)
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "state" / "states").rglob("*") if path.is_file()]
    assert files
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


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
