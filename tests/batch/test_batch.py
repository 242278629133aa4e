from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kanalyze
from kanalyze.batch.checkpoint import _first_line
from kanalyze.batch.commit import RECORD, STAGING, only_run
from kanalyze.batch.engine import report_on_files
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.cli.interruption import Interrupted
from kanalyze.cli.main import main
from kanalyze.errors import UsageError
from kanalyze.runtime.state import _digest
from kanalyze.spec.rows.cluster import CARRIED_NAMES
from kanalyze.spec.rows.tables import SQL_TABLES
from tests.support import tls_captures
from tests.support.captures import NAMES, path
from tests.support.cut_captures import cut, packets_of, write_pcap
from tests.support.packets import ACK, RST, SYN, pcap_file, segment, timed
from tests.support.quality import UNCHECKED_BATCHES
from tests.support.spark_tables import as_on_spark
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONG_AGO_S = 1_000_000_000
_HOUR_NS = 3_600 * 10**9


class Killed(BaseException):
    pass


class Result(NamedTuple):
    status: int
    err: str
    out: str


@pytest.fixture(scope="module")
def engine() -> list[str]:
    """Options that select the engine; test_batch_on_spark.py has its own."""
    return ["--engine", "process", "--jobs", "1"]


@pytest.fixture
def run(engine: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command in this process."""

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        status = main(["batch", *engine, "--buckets", "3", *map(str, arguments)])
        out, err = capsys.readouterr()
        return Result(status, err, out)

    return run


def rows(out: Path, table: str = "requests") -> Counter[str]:
    """Count the rows of a table, without request ids, which are numbered per archive."""
    found: Counter[str] = Counter()
    for file in (out / table).rglob("*.parquet"):
        found.update(counted(pq.ParquetFile(file).read()))
    return found


def counted(table: pa.Table) -> Counter[str]:
    names = [
        field.name
        for field in table.schema
        if field.name != "request_id" and not pa.types.is_timestamp(field.type)
    ]
    return Counter(map(repr, as_on_spark(table.select(names)).to_pylist()))


def row_files(out: Path) -> list[str]:
    """The files with rows that readers of the tables see."""
    return sorted(
        str(file.relative_to(out))
        for file in out.rglob("*.parquet")
        if not any(part.startswith(".") for part in file.relative_to(out).parts)
    )


def all_files(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def rows_of_table(out: Path, table: str) -> list[dict[str, Any]]:
    files = (out / table).rglob("*.parquet")
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


FAULTS = {
    "fault-connection-storm": "connection_storm",
    "fault-heartbeats": "late_heartbeats",
    "fault-lag": "growing_lag",
    "fault-next-rebalances": "rebalances",
    "fault-wrong-listener": "wrong_listener",
}
"""Captures with a fault, and its finding, which reads connections, groups or metadata."""


class Expected:
    """The tables and the report that one process makes of captures."""

    def __init__(self, folder: Path, captures: Iterable[Path]) -> None:
        arguments = [str(capture) for capture in captures]
        assert main(["report", "--json", str(folder / "report.json"), *arguments]) == 0
        self.tables = {
            "requests": counted(kanalyze.requests(*arguments).to_arrow()),
            "connections": counted(kanalyze.connections(*arguments).to_arrow()),
            "anomalies": counted(kanalyze.anomalies(*arguments).to_arrow()),
            "groups": counted(kanalyze.groups(*arguments).to_arrow()),
            "metadata": counted(kanalyze.metadata(*arguments).to_arrow()),
            "changes": counted(kanalyze.changes(*arguments).to_arrow()),
        }
        self.requests, self.anomalies = self.tables["requests"], self.tables["anomalies"]
        self.report = report(folder)
        self.report["quality"].update(UNCHECKED_BATCHES)


def make_settled(files: Iterable[Path]) -> None:
    """Set the modification time of files to long ago."""
    for file in files:
        os.utime(file, (LONG_AGO_S, LONG_AGO_S))


# -- one run --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of cut captures, some damaged or with faults, and files that are no captures.

    One broker is down: it refuses the connection of a client.
    """
    folder = tmp_path_factory.mktemp("captures")
    for name in FAULTS:
        shutil.copy(path(name), folder)
    client = ("10.0.0.1", 50_000)
    syn = segment(flags=SYN, seq=1000, client=client)
    refusal = segment(to_broker=False, flags=RST | ACK, ack=1001, client=client)
    (folder / "down.pcap").write_bytes(pcap_file(timed([syn, refusal])))
    (folder / "gone.pcap").symlink_to(folder / "nowhere")
    cut(path("groups"), folder, 4)
    cut(path("codecs"), folder, 3)
    whole = path("basics").read_bytes()
    (folder / "truncated.pcap").write_bytes(whole[: len(whole) * 2 // 3])
    packets = packets_of(path("old-1-1-1"))[:60]
    write_pcap(folder / "corrupt.pcap", packets)
    with (folder / "corrupt.pcap").open("ab") as file:
        file.write(struct.pack("<IIII", 0, 0, 0xFFFFFFF0, 0xFFFFFFF0) + bytes(100))
    (folder / "text.pcap").write_text("this is no capture\n")
    (folder / "README.md").write_text("neither is this\n")
    return folder


@pytest.fixture(scope="module")
def readable(captures: Path) -> list[Path]:
    return [file for file in captures.glob("*.pcap") if file.name not in ("gone.pcap", "text.pcap")]


@pytest.fixture(scope="module")
def expected(readable: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return Expected(tmp_path_factory.mktemp("expected"), readable)


class OneRun(NamedTuple):
    """One run."""

    out: Path
    err: str


@pytest.fixture(scope="module")
def one_run(engine: list[str], captures: Path, tmp_path_factory: pytest.TempPathFactory) -> OneRun:
    """A run over all captures; tests must not change its files."""
    out = tmp_path_factory.mktemp("archive") / "out of one run"
    with contextlib.redirect_stderr(io.StringIO()) as err:
        assert main(["batch", *engine, "--buckets", "3", str(captures), "--out", str(out)]) == 0
    return OneRun(out, err.getvalue())


@pytest.fixture(scope="module")
def one_run_out(one_run: OneRun) -> Path:
    """The folder that one run wrote; tests must not change it."""
    return one_run.out


def test_rows_match_one_process(one_run_out, expected):
    for table in ("requests", "connections", "groups", "metadata", "changes"):
        assert rows(one_run_out, table) == expected.tables[table]


def test_files_have_the_columns_of_the_documentation(one_run_out):
    for name in row_files(one_run_out):
        file = pq.ParquetFile(one_run_out / name)
        columns = SQL_TABLES[name.split("/")[0]].columns
        assert file.schema_arrow.names == [column.name for column in columns]
        rows = file.read()
        for column in columns:
            if column.source:
                # Spark reads no nanoseconds.
                assert file.schema_arrow.field(column.name).type == pa.timestamp("us", "UTC")
                times_us = rows[column.name].cast(pa.int64()).to_pylist()
                times_ns = rows[column.source].to_pylist()
                assert times_us == [time and time // 1000 for time in times_ns]


def test_lines_have_the_id_of_their_request(one_run_out):
    requests = {row["request_id"]: row for row in rows_of_table(one_run_out, "requests")}
    assert len(requests) == sum(rows(one_run_out).values())
    lines = [*rows_of_table(one_run_out, "groups"), *rows_of_table(one_run_out, "metadata")]
    assert lines
    for line in lines:
        request = requests[line["request_id"]]
        assert {name: request[name] for name in CARRIED_NAMES} == {
            name: line[name] for name in CARRIED_NAMES
        }


def test_rows_are_in_folders_by_day_and_hour(one_run_out):
    for name in row_files(one_run_out):
        table, *folders, file = Path(name).parts
        assert file.startswith("run-000001-")
        if table != "requests":
            continue
        for row in pq.ParquetFile(one_run_out / name).read().to_pylist():
            start_ns = row["request_start_ns"]
            if start_ns is None:
                start_ns = row["response_start_ns"]
            began = datetime.datetime.fromtimestamp(start_ns // 10**9, datetime.UTC)
            assert folders == [f"day={began:%Y-%m-%d}", f"hour={began:%H}"]


def test_the_report_matches_one_process(one_run_out, expected):
    found = report(one_run_out)
    unreadable = found["quality"]["anomalies"].pop("capture_unreadable")
    assert unreadable == {"count": 2, "bytes": 0}
    assert found == expected.report
    assert found["quality"]["refused_by"]["10.0.0.2:9092"] == 1


def test_findings_match_one_process(one_run_out, expected):
    found = report(one_run_out)
    assert found["findings"] == expected.report["findings"]
    assert "findings_left_out" not in found
    assert {finding["name"] for finding in found["findings"]} >= set(FAULTS.values())


def test_unreadable_captures_are_reported(one_run, captures):
    message = f"kanalyze: left out: 2 captures, such as {captures}/gone.pcap: no such file"
    assert message in one_run.err


HEAD = "-- {}.\n--\n-- severity: 99\n-- sure: yes\n-- why: it is\n-- repair: none\n"


@pytest.mark.usefixtures("all_findings")
def test_queries_thresholds_and_filters_of_a_user_are_used(run, tmp_path):
    folder = tmp_path / "queries"
    folder.mkdir()
    members = "SELECT * FROM groups JOIN requests USING (request_id)"
    (folder / "members.sql").write_text(
        f"{HEAD.format('Members')}-- tables: groups\n-- parameter least = 1: members\n"
        f"SELECT concat(count(DISTINCT api_key), ' of ', count(*)) AS what, 1 AS weight\n"
        f"FROM ({members}) HAVING count(*) >= $least\n"
    )
    (folder / "of_records.sql").write_text(
        f"{HEAD.format('Records')}-- tables: records\n"
        "SELECT 'x' AS what, 1 AS weight FROM records LIMIT 1\n"
    )
    apis = ["Heartbeat", "JoinGroup", "Produce"]
    options = ["--queries", folder, "--threshold", "growing_lag.least_records=1000000"]
    options += [word for api in apis for word in ("--api", api)]
    out, capture = tmp_path / "out", path("fault-lag")
    assert run(capture, "--out", out, *options).status == 0
    arguments = ["report", *map(str, options), "--json", str(tmp_path / "one.json"), str(capture)]
    assert main(arguments) == 0
    expected_report = json.loads((tmp_path / "one.json").read_text())
    expected = expected_report["findings"]
    assert [finding["name"] for finding in expected] == ["members", "of_records"]
    found = report(out)
    assert found["findings"] == [finding for finding in expected if finding["name"] != "of_records"]
    assert found["findings_left_out"] == sorted(
        ["of_records", *expected_report["findings_left_out"]]
    )
    assert found["filter"] == {"api": apis}
    assert {row["api_name"] for row in rows_of_table(out, "requests")} == set(apis)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("all_findings")
def test_the_report_on_every_capture_matches_one_process(name, run, tmp_path):
    assert run(path(name), "--out", tmp_path / "out").status == 0
    assert report(tmp_path / "out") == Expected(tmp_path, [path(name)]).report


def test_anomalies_describe_damaged_and_unreadable_files(one_run_out, captures, expected):
    found = rows(one_run_out, "anomalies")
    additional = found - expected.anomalies
    assert not expected.anomalies - found
    link_row, row = sorted(additional.elements(), key=lambda row: "text.pcap" in row)
    assert "gone.pcap: no such file" in link_row
    text = captures / "text.pcap"
    assert repr("capture_unreadable") in row
    assert f"'capture': {str(text)!r}" in row
    assert f"{text}: is not a pcap or pcapng file" in row
    kinds = Counter(
        row["kind"]
        for name in row_files(one_run_out)
        if name.startswith("anomalies")
        for row in pq.ParquetFile(one_run_out / name).read().to_pylist()
    )
    assert kinds["capture_truncated"] == 1
    assert kinds["capture_corrupt"] == 1


def test_no_other_files_are_left(one_run_out):
    files = {name for name in all_files(one_run_out) if not name.endswith((".crc", ".parquet"))}
    assert files == {"report.json", RECORD}


@pytest.mark.long
def test_a_large_file_is_read_by_several_tasks(run, tmp_path):
    large = packets_of(path("large"))
    later = [packet._replace(time_ns=packet.time_ns + 3_600 * 10**9) for packet in large]
    write_pcap(tmp_path / "large.pcap", [*large, *later])
    arguments = [tmp_path / "large.pcap", "--out", tmp_path / "out", "--split-size", "1M"]
    assert run(*arguments).status == 0
    expected = Expected(tmp_path, [tmp_path / "large.pcap"])
    assert rows(tmp_path / "out") == expected.requests
    assert report(tmp_path / "out") == expected.report


# -- more runs ------------------------------------------------------------------------------------


@pytest.fixture
def out(one_run_out: Path, tmp_path: Path) -> Path:
    """A copy of the folder, which a test may change."""
    return Path(shutil.copytree(one_run_out, tmp_path / "out"))


@pytest.mark.usefixtures("all_findings")
def test_running_again_replaces_the_rows(run, captures, out):
    before, found = rows(out), report(out)
    result = run(captures, "--out", out)
    assert result.status == 0
    assert f"kanalyze: {out}: the rows of run 1 are replaced\n" in result.err
    assert rows(out) == before
    assert report(out) == found
    assert all("/run-000002-" in name for name in row_files(out))


def test_other_captures_are_refused(run, out):
    before = all_files(out)
    result = run(path("mock"), "--out", out)
    assert result.status == 2
    assert result.err.count("\n") == 1
    assert "has rows of captures that are not among these, such as" in result.err
    assert all_files(out) == before


@pytest.mark.long
def test_other_captures_replace_the_rows_with_replace(run, out, tmp_path):
    assert run(path("mock"), "--out", out, "--replace").status == 0
    assert rows(out) == Expected(tmp_path, [path("mock")]).requests


def test_foreign_rows_are_not_touched(run, out):
    (out / RECORD).unlink()
    before = all_files(out)
    result = run(path("mock"), "--out", out, "--replace")
    assert result.status == 2
    assert "has rows that this command did not write" in result.err
    assert all_files(out) == before


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("operation", "after"),
    [
        ("write_report", 0),
        ("move", 1),
        ("write_record", 0),
        ("mark", 0),
    ],
)
def test_a_killed_run_is_completed_or_discarded(operation, after, run, out, tmp_path, monkeypatch):
    mock = path("mock")
    before = all_files(out)
    kill_at(monkeypatch, operation, after)
    with pytest.raises(Killed):
        run(mock, "--out", out, "--replace")
    monkeypatch.undo()
    is_recorded = operation not in ("write_report", "write_record")
    if not is_recorded:
        remaining = all_files(out)
        assert {name: remaining[name] for name in before} == before
    # Other captures are refused: this run only completes the previous one.
    result = run(path("codecs"), "--out", out)
    assert result.status == 2
    assert ("run 2 had been interrupted, and is complete now" in result.err) == is_recorded
    if is_recorded:
        expected = Expected(tmp_path, [mock])
        assert rows(out) == expected.requests
        assert rows(out, "anomalies") == expected.anomalies
        assert report(out) == expected.report
        assert all("/run-000002-" in name for name in row_files(out))
    else:
        assert all_files(out) == before
    assert not (out / STAGING).exists()


def kill_at(monkeypatch: pytest.MonkeyPatch, operation: str, after: int) -> None:
    """Make the run die at an operation on files, after ``after`` operations of this kind."""
    allowed = [after]

    def count(kind: str) -> None:
        if kind == operation:
            if not allowed[0]:
                raise Killed
            allowed[0] -= 1

    monkeypatch.setattr(SharedFolder, "write", counted_write(SharedFolder.write, count))
    monkeypatch.setattr(SharedFolder, "move", counted_move(SharedFolder.move, count))


def counted_write(write: Any, count: Callable[[str], None]) -> Any:
    def counted(folder: object, name: str, data: bytes) -> None:
        if name == RECORD:
            count("mark" if json.loads(data)["is_done"] else "write_record")
        if name.endswith("report.json"):
            count("write_report")
        write(folder, name, data)

    return counted


def counted_move(move: Any, count: Callable[[str], None]) -> Any:
    def counted(folder: object, old: str, new: str) -> None:
        if old.startswith(STAGING) and not Path(old).name.startswith("."):
            count("move")
        move(folder, old, new)

    return counted


# -- archives that grow ---------------------------------------------------------------------------


class Growing(NamedTuple):
    """An archive whose folder of captures gets more files."""

    files: list[Path]
    folder: Path
    out: Path
    state: Path

    @property
    def arguments(self) -> list[object]:
        return [self.folder, "--out", self.out, "--checkpoint", self.state]

    def add(self, *numbers: int) -> None:
        for number in numbers:
            shutil.move(self.files[number], self.folder)


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    for name in ("aside", "folder"):
        (tmp_path / name).mkdir()
    files = cut(path("groups"), tmp_path / "aside", 6, seed=3)
    make_settled(files)
    return Growing(files, tmp_path / "folder", tmp_path / "out", tmp_path / "state")


@pytest.mark.long
def test_an_archive_may_begin_with_unreadable_files_only(run, growing, tmp_path):
    """A file that is no capture stays left out; the next run reads a file that failed to read."""
    (growing.folder / "text.pcap").write_text("this is no capture\n")
    unreadable = growing.folder / growing.files[0].name
    unreadable.symlink_to("/proc/self/mem")  # reading it is an I/O error
    result = run(*growing.arguments, "--settle", 0)
    assert result.status == 0
    assert "left out: 2 captures, such as" in result.err
    for _ in range(2):  # each run tries the file again, and counts it anew
        result = run(*growing.arguments, "--settle", 0)
        assert "left out: 1 capture, such as" in result.err
        left_out = [row for row in rows(growing.out, "anomalies") if "capture_unreadable" in row]
        assert len(left_out) == 2
        found = report(growing.out)["quality"]["anomalies"]["capture_unreadable"]
        assert found["count"] == 2
    unreadable.unlink()
    growing.add(0, 1)
    assert run(*growing.arguments, "--finish").status == 0
    found = [growing.folder / file.name for file in growing.files[:2]]
    assert rows(growing.out) == Expected(tmp_path, found).requests
    (left_out,) = (row for row in rows(growing.out, "anomalies") if "capture_unreadable" in row)
    assert "text.pcap" in left_out


@pytest.mark.long
def test_killed_runs_neither_add_nor_lose_rows(run, growing, tmp_path, monkeypatch):
    growing.add(0, 1, 2)
    for operation in ("write_record", "move"):
        kill_at(monkeypatch, operation, 1 if operation == "move" else 0)
        with pytest.raises(Killed):
            run(*growing.arguments)
        monkeypatch.undo()
    growing.add(3, 4, 5)
    assert run(*growing.arguments, "--finish").status == 0
    expected = Expected(tmp_path, growing.folder.iterdir())
    assert rows(growing.out) == expected.requests
    assert report(growing.out) == expected.report
    assert {name.split("/run-")[1][:6] for name in row_files(growing.out)} == {"000001", "000002"}


def test_an_archive_grows_whose_segments_are_sent_in_files(
    run: Any, growing: Growing, tmp_path: Path
) -> None:
    assert_segments_in_files_give_the_rows_of_one_process(run, growing, tmp_path)


def assert_segments_in_files_give_the_rows_of_one_process(
    run: Any, growing: Growing, tmp_path: Path
) -> None:
    growing.add(0, 1)
    assert run("--buckets", 17, *growing.arguments).status == 0
    growing.add(2, 3, 4, 5)
    assert run("--buckets", 17, *growing.arguments, "--finish").status == 0
    expected = Expected(tmp_path, growing.folder.iterdir())
    for table, expected_rows in expected.tables.items():
        assert rows(growing.out, table) == expected_rows
    assert report(growing.out) == expected.report
    assert not list(growing.out.rglob("*.blocks"))


@pytest.fixture(scope="module")
def begun(engine: list[str], tmp_path_factory: pytest.TempPathFactory) -> Growing:
    """An archive after its first run; tests must not change it."""
    base = tmp_path_factory.mktemp("begun")
    for name in ("aside", "folder"):
        (base / name).mkdir()
    files = cut(path("groups"), base / "aside", 4, seed=3)
    make_settled(files)
    growing = Growing(files, base / "folder", base / "out", base / "state")
    growing.add(0)
    arguments = [*engine, *growing.arguments, "--buckets", 2]
    assert main(["batch", *map(str, arguments)]) == 0
    return growing


@pytest.fixture
def archive(begun: Growing, tmp_path: Path) -> Growing:
    """A copy of the archive after its first run; it has the same captures."""
    out = Path(shutil.copytree(begun.out, tmp_path / "out"))
    state = Path(shutil.copytree(begun.state, tmp_path / "state"))
    return begun._replace(out=out, state=state)


def run_with_more(run: Any, archive: Growing, *more: object, end: int = 2) -> Result:
    """Run the command with more captures than the first time."""
    result: Result = run("--buckets", 2, *archive.files[1:end], *archive.arguments, *more)
    return result


@pytest.mark.few(1)
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_growing_archive_ends_with_the_rows_of_one_run(
    is_killed, run, archive, tmp_path, monkeypatch
):
    assert_growing_archive_matches_one_run(is_killed, run, archive, tmp_path, monkeypatch)


def assert_growing_archive_matches_one_run(
    is_killed: bool, run: Any, archive: Growing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a run is killed while it moves files: the next run completes it, and continues."""
    first = rows(archive.out)
    assert first
    if is_killed:
        kill_at(monkeypatch, "move", 1)
        with pytest.raises(Killed):
            run_with_more(run, archive, end=3)
        monkeypatch.undo()
    else:
        assert run_with_more(run, archive, end=3).status == 0
        assert not first - rows(archive.out)
        before = all_files(tmp_path)
        result = run_with_more(run, archive, "--json", "-", end=3)
        assert (result.status, result.err) == (0, "kanalyze: no new captures\n")
        assert json.loads(result.out) == report(archive.out)
        assert all_files(tmp_path) == before
    result = run_with_more(run, archive, "--finish", end=4)
    assert result.status == 0
    assert ("run 2 had been interrupted, and is complete now" in result.err) == is_killed
    expected = Expected(tmp_path, [*archive.files[1:], *archive.folder.iterdir()])
    for table, expected_rows in expected.tables.items():
        assert rows(archive.out, table) == expected_rows
    assert report(archive.out) == expected.report
    assert {name.name for name in archive.state.glob("run-*")} == {"run-000003"}
    numbers = {name.split("/run-")[1][:6] for name in row_files(archive.out)}
    assert numbers == {"000001", "000002", "000003"}
    before = all_files(tmp_path)
    result = run_with_more(run, archive, "--json", "-", end=4)
    assert (result.status, result.err) == (0, "kanalyze: no new captures\n")
    assert json.loads(result.out) == report(archive.out)
    assert all_files(tmp_path) == before
    mock = tmp_path / "mock.pcap"
    shutil.copy(path("mock"), mock)
    make_settled([mock])
    result = run_with_more(run, archive, mock, end=4)
    assert result.status == 2
    assert "the archive was finished before 1 capture came; --replace starts over" in result.err


def test_sums_that_are_gone_are_made_again(run, archive, tmp_path):
    """The report is that of the rows of all runs, not of the last one."""
    (sums,) = archive.state.rglob("sums.zip")
    sums.unlink()
    assert run_with_more(run, archive, "--finish").status == 0
    captures = [*archive.folder.iterdir(), archive.files[1]]
    assert report(archive.out) == Expected(tmp_path, captures).report
    assert list(archive.state.rglob("sums.zip"))


class Waits:
    """Stands for the time between runs: does something in each, and ends the run in the last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *actions: Callable[[], object]) -> None:
        self.actions = list(actions)
        self.seconds: list[float] = []
        monkeypatch.setattr("kanalyze.cli.batch.time.sleep", self)

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if not self.actions:
            raise Interrupted(signal.SIGTERM)
        self.actions.pop(0)()


def test_runs_follow_each_other_until_a_signal(run, growing, tmp_path, monkeypatch):
    growing.add(1, 0)
    unsettled = growing.folder / "fresh.pcap"
    unsettled.write_bytes(b"")
    os.utime(unsettled, (time.time() + 3600, time.time() + 3600))
    page, shown = tmp_path / "page.html", tmp_path / "shown.json"
    states: list[bytes] = []

    def remember() -> None:
        states.append(page.read_bytes() + shown.read_bytes())

    def add() -> None:
        remember()
        growing.add(2, 3, 4, 5)

    waits = Waits(monkeypatch, remember, add, remember, lambda: None)
    result = run(*growing.arguments, "--follow", 7, "--html", page, "--json", shown)
    assert (result.status, waits.seconds) == (128 + signal.SIGTERM, [7] * 5)
    # A run without new captures writes nothing, and says nothing that the run before said.
    assert states[0] == states[1] != states[2]
    assert result.err.count("may still be written: 1 capture") == 1
    assert "no new captures" not in result.err
    unsettled.unlink()
    assert run(*growing.arguments, "--finish").status == 0
    expected = Expected(tmp_path, growing.folder.iterdir())
    for table, expected_rows in expected.tables.items():
        assert rows(growing.out, table) == expected_rows
    assert report(growing.out) == expected.report


@pytest.mark.usefixtures("last_report")
def test_only_the_first_of_several_runs_replaces_the_rows(run, archive, monkeypatch):
    Waits(monkeypatch, lambda: None)
    assert run_with_more(run, archive, "--replace", "--follow").status == 128 + signal.SIGTERM
    assert {name.split("/")[-1][:10] for name in row_files(archive.out)} >= {"run-000002"}
    assert not [name for name in row_files(archive.out) if "-000003-" in name]


@pytest.mark.usefixtures("last_report")
def test_key_logs_may_grow_between_runs_that_follow_each_other(run, tmp_path, monkeypatch):
    name = "tls13-sasl"
    keys, inbox, out = tmp_path / "keys", tmp_path / "in", tmp_path / "out"
    for folder in (keys, inbox):
        folder.mkdir()
    lines = tls_captures.keylog(name).read_bytes().splitlines(keepends=True)
    (keys / "first.keys").write_bytes(b"".join(lines[: len(lines) // 2]))

    def add() -> None:
        (keys / "second.keys").write_bytes(b"".join(lines[len(lines) // 2 :]))
        shutil.copy(tls_captures.path(name), inbox)

    Waits(monkeypatch, add)
    options = ["--checkpoint", tmp_path / "state", "--settle", 0, "--keylog", keys]
    assert run(inbox, "--out", out, *options, "--follow").status == 128 + signal.SIGTERM
    expected = counted(kanalyze.requests(str(inbox), keylog=tls_captures.keylog(name)).to_arrow())
    found = rows(out)
    assert found
    assert not found - expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--follow"], "--follow needs --checkpoint"),
        (["--finish"], "--finish needs --checkpoint"),
        (["--checkpoint", "s", "--follow", "1", "--finish"], "--finish is for the last run"),
    ],
)
def test_options_of_growing_archives_that_do_not_go_together(options, message, run, tmp_path):
    result = run(tmp_path, "--out", tmp_path / "out", *options)
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert message in result.err


def test_a_signal_ends_a_run_that_waits(growing, tmp_path):
    growing.add(0)
    arguments = ["--engine", "process", "--jobs", "1", "--follow", "600"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kanalyze", "batch", *map(str, growing.arguments), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: growing.state.exists() and not (growing.out / STAGING).exists())
    process.terminate()
    assert process.communicate()[1] == b""
    assert process.returncode == 128 + signal.SIGTERM
    assert not (growing.out / STAGING).exists()


def assert_archive_is_that_of_one_process(growing: Growing, run: Any, folder: Path) -> None:
    """The archive, finished now, has the tables and the report of one process."""
    assert run(*growing.arguments, "--finish").status == 0
    expected = Expected(folder, growing.folder.iterdir())
    for table, expected_rows in expected.tables.items():
        assert rows(growing.out, table) == expected_rows, table
    assert report(growing.out) == expected.report


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("turns", "times_late"),
    [
        ([[0, 2, 3], [1], [4, 5]], 1),
        ([[1], [0], [2], [4], [5], [3]], 2),
        ([[3, 4], [5], [0, 1, 2]], 1),
        ([[5], [4], [3], [2], [1], [0]], 5),
    ],
    ids=str,
)
def test_captures_that_come_late_are_read_with_those_after_them(
    turns, times_late, run, growing, tmp_path
):
    late = 0
    for turn in turns:
        growing.add(*turn)
        result = run(*growing.arguments)
        assert result.status == 0
        late += result.err.count("captures come late: ")
        assert "may be reported as lost" not in result.err
    assert late == times_late
    assert_archive_is_that_of_one_process(growing, run, tmp_path)
    ids = [row["request_id"] for row in rows_of_table(growing.out, "requests")]
    assert len(ids) == len(set(ids))


@pytest.mark.usefixtures("last_report")
def test_only_the_hours_from_a_late_capture_on_are_read_again(run, growing, tmp_path):
    """Each file is of another hour."""
    for hour, file in enumerate(growing.files):
        shift_ns = hour * 3_600 * 10**9
        moved = [one._replace(time_ns=one.time_ns + shift_ns) for one in packets_of(file)]
        write_pcap(file, moved)
        make_settled([file])
    for number in (0, 1, 2, 4):
        growing.add(number)
        assert run(*growing.arguments).status == 0
    before = row_files(growing.out)
    growing.add(3)
    result = run(*growing.arguments)
    assert "captures come late: read again with them: 1 capture of earlier runs" in result.err
    kept = [name for name in before if "/run-" in name and "/run-000004" not in name]
    assert kept
    assert set(kept) < set(row_files(growing.out))
    assert not [name for name in row_files(growing.out) if "-000004-" in name]
    growing.add(5)
    assert_archive_is_that_of_one_process(growing, run, tmp_path)


@pytest.mark.usefixtures("last_report")
def test_small_files_of_an_hour_are_merged_when_they_stay(run, growing, tmp_path, monkeypatch):
    """A run that merges them may be killed, and one that undoes later runs leaves them."""
    monkeypatch.setattr("kanalyze.batch.archive.table_files._MAX_SMALL_FILES", 1)
    monkeypatch.setattr("kanalyze.batch.run.MAX_RUNS", 1)
    files = cut(path("groups"), tmp_path / "aside", 8, seed=3)
    for hour, file in zip((0, 0, 0, 1, 2, 3, 3, 4), files, strict=True):
        moved = [one._replace(time_ns=one.time_ns + hour * _HOUR_NS) for one in packets_of(file)]
        write_pcap(file, moved)
    make_settled(files)
    growing = growing._replace(files=files)
    arguments = [*growing.arguments, "--merge-small"]
    for number in range(6):
        growing.add(number)
        assert run(*arguments).status == 0
    first_hour = min((growing.out / "requests").rglob("hour=*"))
    assert len(list(first_hour.iterdir())) >= 3
    before = rows(growing.out)
    growing.add(7)
    with pytest.MonkeyPatch.context() as killing:
        kill_at(killing, "move", 3)
        with pytest.raises(Killed):
            run(*arguments)
    assert "had been interrupted, and is complete now" in run(*arguments).err
    (merged,) = first_hour.iterdir()
    assert merged.name.endswith("-000007-00000.zstd.parquet")
    assert not before - rows(growing.out)
    growing.add(6)
    assert "captures come late" in run(*arguments).err
    assert list(first_hour.iterdir()) == [merged]
    assert_archive_is_that_of_one_process(growing, run, tmp_path)


@pytest.mark.usefixtures("last_report")
def test_a_run_that_reads_late_captures_may_be_killed(run, growing, tmp_path, monkeypatch):
    growing.add(0, 2)
    assert run(*growing.arguments).status == 0
    growing.add(3)
    assert run(*growing.arguments).status == 0
    growing.add(1)
    for operation in ("write_record", "move"):
        kill_at(monkeypatch, operation, 1 if operation == "move" else 0)
        with pytest.raises(Killed):
            run(*growing.arguments)
        monkeypatch.undo()
    growing.add(4, 5)
    assert_archive_is_that_of_one_process(growing, run, tmp_path)


@pytest.mark.usefixtures("last_report")
def test_late_captures_of_another_capture_point_are_right_without_more(run, growing, tmp_path):
    """Their connections are others, so nothing is read again."""
    other = packets_of(path("waits"))
    begin_ns = packets_of(growing.files[0])[0].time_ns
    moved = [one._replace(time_ns=one.time_ns - other[0].time_ns + begin_ns) for one in other]
    growing.add(0, 1, 2)
    assert run(*growing.arguments).status == 0
    growing.add(3)
    write_pcap(growing.folder / "other-1.pcap", moved[: len(moved) // 2])
    write_pcap(growing.folder / "other-2.pcap", moved[len(moved) // 2 :])
    make_settled(growing.folder.iterdir())
    result = run(*growing.arguments)
    assert result.status == 0
    assert "late" not in result.err
    assert "lost" not in result.err
    growing.add(4, 5)
    assert_archive_is_that_of_one_process(growing, run, tmp_path)


@pytest.mark.usefixtures("last_report")
def test_captures_that_are_gone_cannot_be_read_again(run, growing, tmp_path):
    growing.add(0, 2)
    assert run(*growing.arguments).status == 0
    (growing.folder / growing.files[2].name).unlink()
    growing.add(1)
    result = run(*growing.arguments)
    assert result.status == 0
    assert "which are gone, or too old to be read again" in result.err
    assert {row["capture"] for row in rows_of_table(growing.out, "requests")} >= {
        str(growing.folder / growing.files[0].name)
    }


@pytest.mark.usefixtures("last_report")
@pytest.mark.few(1)
@pytest.mark.parametrize("place", [5, 60, 140])
def test_a_capture_that_has_grown_is_read_again(place, run, growing, tmp_path):
    grown = growing.folder / "grown.pcap"
    packets = [packet for file in growing.files[:4] for packet in packets_of(file)]
    for end in (place, place + 40, len(packets)):
        write_pcap(grown, packets[:end])
        make_settled([grown])
        result = run(*growing.arguments)
        assert (result.status, "has changed" in result.err) == (0, False)
    growing.add(4, 5)
    assert_archive_is_that_of_one_process(growing, run, tmp_path)


def test_a_report_without_new_captures_has_open_connections(run, growing, monkeypatch):
    """With another option the report is made again, of all rows."""
    growing.add(0, 1)
    assert run(*growing.arguments).status == 0
    reported = []

    def report_on(*arguments, **options):
        reported.append(arguments[2])
        return report_on_files(*arguments, **options)

    monkeypatch.setattr("kanalyze.batch.run.report_on_files", report_on)
    result = run(*growing.arguments, "--limit", 30)
    assert (result.status, result.err) == (0, "kanalyze: no new captures\n")
    (files,) = reported
    assert any(name.startswith("connections/open-") for name in files["connections"])
    assert sorted(name for names in files.values() for name in names) == row_files(growing.out)


@pytest.mark.usefixtures("last_report")
def test_a_capture_that_grows_is_waited_for(run, growing, tmp_path):
    grown = growing.folder / "grown.pcap"
    packets = packets_of(growing.files[0])
    write_pcap(grown, packets[:20])
    make_settled([grown])
    assert run(*growing.arguments).status == 0
    write_pcap(grown, packets)
    os.utime(grown, (time.time() + 3600, time.time() + 3600))
    result = run(*growing.arguments)
    assert f"may still be written: 1 capture, such as {grown}\n" in result.err
    assert "no new captures" in result.err
    assert_archive_is_that_of_one_process(growing, run, tmp_path)


def test_changed_files_are_left_out_and_fresh_files_are_postponed(run, archive, tmp_path):
    fresh = tmp_path / "fresh.pcap"
    shutil.copy(archive.files[1], fresh)
    arguments = ["--buckets", 2, fresh, *archive.arguments]
    # In the future, so that the file is fresh however slow the test is.
    os.utime(fresh, (time.time() + 3600, time.time() + 3600))
    result = run(*arguments)
    assert result.status == 0
    assert f"may still be written: 1 capture, such as {fresh}\n" in result.err
    assert "no new captures" in result.err
    os.utime(fresh)

    (file,) = archive.folder.iterdir()
    # Another file of the same name, as in a ring of files.
    data = file.read_bytes()
    before = rows(archive.out)
    try:
        write_pcap(file, [*packets_of(archive.files[1])[:1], *packets_of(file)])
        more = file.stat().st_size - len(data)
        make_settled([file])
        result = run(*arguments, "--settle", 0)
        assert result.status == 0
        assert f"kanalyze: {file}: has changed since it was read: left out\n" in result.err
        assert not before - rows(archive.out)
        (anomaly,) = (row for row in rows(archive.out, "anomalies") if "has changed" in row)
        assert f"({len(data)} B then, {len(data) + more} B now): left out" in anomaly
        found = report(archive.out)
        assert found["quality"]["anomalies"]["capture_unreadable"]["count"] == 1
        assert str(fresh) in found["capture"]["captures"]
        after = all_files(archive.out)
        assert run(*arguments, "--settle", 0).err == "kanalyze: no new captures\n"
        assert all_files(archive.out) == after
    finally:
        file.write_bytes(data)
        make_settled([file])


@pytest.mark.long
def test_a_file_may_change_after_the_archive_was_finished(run, growing):
    growing.add(0)
    (growing.folder / "text.pcap").write_text("this is no capture\n")
    assert run(*growing.arguments, "--finish").status == 0
    before = rows(growing.out)
    (growing.folder / "text.pcap").write_text("nor is this, which is longer\n")
    assert run(*growing.arguments, "--settle", 0).status == 0
    assert rows(growing.out) == before
    assert len([row for row in rows(growing.out, "anomalies") if "text.pcap" in row]) == 2
    assert run(*growing.arguments).err == "kanalyze: no new captures\n"


def test_a_damaged_checkpoint_is_reported_in_one_line(run, archive):
    name = archive.state / "run-000001" / "checkpoint"
    whole = name.read_bytes()
    before = all_files(archive.out)
    for damaged in (b"", whole[:-1], whole.replace(b'"buckets": 2', b'"buckets": 3'), b"\0" * 99):
        write_raw(name, damaged)
        result = run_with_more(run, archive)
        assert result[:2] == (
            2,
            f"kanalyze: {archive.state}: run-000001/checkpoint is damaged; --replace starts over\n",
        )
    name.unlink()
    assert (
        "run-000001/checkpoint is missing; --replace starts over" in run_with_more(run, archive).err
    )
    write_raw(name, whole)
    states = sorted(archive.state.glob("run-000001/states/*.parquet"))
    data = states[0].read_bytes()
    states[0].unlink()
    assert "run-000001/states is damaged; --replace starts over" in run_with_more(run, archive).err
    write_raw(states[0], data[: len(data) // 2])
    assert "run-000001/states is damaged; --replace starts over" in run_with_more(run, archive).err
    assert all_files(archive.out) == before


def with_other_states(archive: Growing, change: Callable[[bytes], bytes]) -> None:
    """Change the saved state of each bucket in the checkpoint of the first run."""
    folder = archive.state / "run-000001"
    for file in sorted(folder.glob("states/*.parquet")):
        table = pq.ParquetFile(file).read()
        states = pa.array([change(data) for data in table["data"].to_pylist()], pa.binary())
        changed = table.set_column(table.schema.get_field_index("data"), "data", states)
        sink = io.BytesIO()
        pq.write_table(changed, sink)
        write_raw(file, sink.getvalue())
    checkpoint = folder / "checkpoint"
    content = json.loads(checkpoint.read_bytes().partition(b"\n")[2])
    content["states"] = [
        [name, (folder / "states" / name.rpartition("/")[2]).stat().st_size]
        for name, _ in content["states"]
    ]
    text = json.dumps(content).encode()
    write_raw(checkpoint, _first_line(text) + b"\n" + text)


def with_word(data: bytes, at: int, word: bytes) -> bytes:
    """Return the state of a bucket whose format or version is another, with the right checksum."""
    before, magic, rest = data.partition(b"kanalyze-state ")
    line, _, packed = rest.partition(b"\n")
    words = line.split()
    words[at] = word
    head = magic + b" ".join([*words[:-1], b""])
    return before + head + _digest(head, packed) + b"\n" + packed


def flipped(data: bytes) -> bytes:
    """Return the state of a bucket with a wrong bit near its end."""
    return data[:-9] + bytes((data[-9] ^ 4,)) + data[-8:]


def test_an_archive_continues_after_an_upgrade(run, archive, tmp_path):
    """What 0.1.0 wrote is read by what comes after it, and the other way round."""
    with_other_states(archive, lambda data: with_word(with_word(data, 0, b"12"), 1, b"0.0.9"))
    result = run_with_more(run, archive, "--finish")
    assert result.status == 0
    assert "could not be continued" not in result.err
    expected = Expected(tmp_path, [*archive.files[1:2], *archive.folder.iterdir()])
    for table, expected_rows in expected.tables.items():
        assert rows(archive.out, table) == expected_rows
    assert report(archive.out) == expected.report


@pytest.mark.usefixtures("last_report")
@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: with_word(data, 0, b"11"), "another version"),
        (lambda data: with_word(data, 0, b"99"), "another version"),
        (flipped, "the state is damaged"),
    ],
    ids=["older", "newer", "damaged"],
)
def test_connections_whose_state_cannot_be_read_are_closed_and_no_row_is_lost(
    change, reason, run, archive, tmp_path
):
    assert_unreadable_states_lose_no_row(change, reason, run, archive, tmp_path)


def assert_unreadable_states_lose_no_row(
    change: Callable[[bytes], bytes], reason: str, run: Any, archive: Growing, tmp_path: Path
) -> None:
    with_other_states(archive, change)
    result = run_with_more(run, archive)
    assert result.status == 0
    (line,) = [line for line in result.err.splitlines() if "could not be continued" in line]
    assert line.startswith("kanalyze: ")
    assert reason in line
    before, after = (
        Expected(tmp_path, captures) for captures in (archive.folder.iterdir(), archive.files[1:2])
    )
    # The second run left connections open, too.
    result = run_with_more(run, archive, "--finish")
    assert result.status == 0
    assert "could not be continued" not in result.err
    for table in before.tables:
        assert rows(archive.out, table) == before.tables[table] + after.tables[table]
    # Each of them was counted once, with the anomalies of closing them.
    qualities = [found["quality"] for found in (before.report, after.report, report(archive.out))]
    for name, count in qualities[2].items():
        if isinstance(count, int) and not name.endswith("time_ns"):
            assert count == qualities[0][name] + qualities[1][name], name
    kinds = [
        Counter({kind: total["count"] for kind, total in quality["anomalies"].items()})
        for quality in qualities
    ]
    assert kinds[2] == kinds[0] + kinds[1]
    ids = [row["request_id"] for row in rows_of_table(archive.out, "requests")]
    assert len(ids) == len(set(ids))


def write_raw(file: Path, data: bytes) -> None:
    """Write a file, and remove Hadoop's checksum of it, which would reveal the change."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_bytes(data)


def test_rows_and_checkpoints_of_different_archives_are_refused(
    run, archive, one_run_out, tmp_path
):
    def error_of(*arguments: object) -> str:
        result: Result = run(archive.folder, "--buckets", 2, *arguments)
        assert result.status == 2
        assert result.err.count("\n") == 1
        return result.err

    state, out = archive.state, archive.out
    assert "is written with --checkpoint; --replace starts over without" in error_of("--out", out)
    error = error_of("--out", out, "--checkpoint", tmp_path / "none")
    assert "none: run-000001/checkpoint is missing; --replace starts over" in error
    error = error_of("--out", tmp_path / "none", "--checkpoint", state)
    assert "is the checkpoint of another archive, file:" in error
    assert "is the checkpoint of another archive, file:" in error_of(
        "--out", tmp_path / "none", "--checkpoint", state, "--replace"
    )
    error = error_of("--out", one_run_out, "--checkpoint", tmp_path / "none")
    assert "is written without --checkpoint; --replace starts over" in error
    error = error_of("--out", out, "--checkpoint", state, "--api", "Fetch")
    assert "the archive was begun with other filters, ports, definitions or limits" in error
    error = error_of("--out", out, "--checkpoint", state, "--buckets", 5)
    assert "the archive was begun with --buckets 2" in error


@pytest.mark.long
def test_replace_starts_an_archive_over(run, archive, tmp_path):
    write_raw(archive.state / "run-000001" / "checkpoint", b"")
    assert run_with_more(run, archive, "--replace", "--finish").status == 0
    expected = Expected(tmp_path, [archive.files[1], *archive.folder.iterdir()])
    assert rows(archive.out) == expected.requests
    assert report(archive.out) == expected.report


@pytest.mark.long
def test_an_archive_continues_after_a_replace_was_killed(run, archive, tmp_path, monkeypatch):
    kill_at(monkeypatch, "write_record", 0)
    with pytest.raises(Killed):
        run_with_more(run, archive, "--replace")
    monkeypatch.undo()
    assert run_with_more(run, archive, "--finish").status == 0
    expected = Expected(tmp_path, [archive.files[1], *archive.folder.iterdir()])
    assert rows(archive.out) == expected.requests
    assert {name.split("/run-")[1][:6] for name in row_files(archive.out)} == {"000001", "000002"}


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{folder}/none.pcap"], "none.pcap: no such file or directory"),
        (["{folder}/*.pcap"], "*.pcap: no file has such a name"),
        (["{folder}"], ": no capture in this folder"),
        (["-"], "standard input: cannot be read by several tasks"),
    ],
)
def test_missing_captures_are_reported_in_one_line(arguments, message, run, tmp_path):
    options = [text.format(folder=tmp_path) for text in arguments]
    result = run(*options, "--out", tmp_path / "out")
    assert result.status == 2
    assert result.err.endswith(f"{message}\n")
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_archive_may_begin_without_captures(run, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    result = run(folder, "--out", tmp_path / "out", "--checkpoint", tmp_path / "state")
    assert result[:2] == (0, "kanalyze: no new captures\n")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_a_page_is_written_without_new_captures(run, archive, tmp_path):
    page = tmp_path / "page.html"
    before = all_files(archive.out)
    result = run("--buckets", 2, *archive.arguments, "--html", page)
    assert (result.status, result.err) == (0, "kanalyze: no new captures\n")
    assert page.read_text().startswith("<!doctype html>")
    assert all_files(archive.out) == before


def test_a_missing_report_is_computed_again(run, archive):
    name = archive.out / "report.json"
    before = report(archive.out)
    name.unlink()
    result = run("--buckets", 2, *archive.arguments, "--json", "-")
    assert (result.status, result.err) == (0, "kanalyze: no new captures\n")
    assert json.loads(result.out) == before
    assert not name.exists()


def test_an_output_folder_that_cannot_be_written_is_reported_in_one_line(run, tmp_path):
    (tmp_path / "file").write_text("x")
    result = run(path("mock"), "--out", tmp_path / "file" / "out")
    assert result.status == 2
    assert result.err.count("\n") == 1


def test_a_folder_with_no_readable_captures_gives_an_empty_report(run, tmp_path):
    (tmp_path / "text.pcap").write_text("this is no capture\n")
    result = run(tmp_path, "--out", tmp_path / "out", "--json", "-")
    assert result.status == 0
    assert json.loads(result.out) == report(tmp_path / "out")
    assert "left out: 1 capture, such as" in result.err
    assert len(rows(tmp_path / "out", "anomalies")) == 1
    assert report(tmp_path / "out")["totals"]["rows"] == 0


def test_filters_that_no_row_passes_give_no_rows(run, tmp_path):
    out = tmp_path / "out"
    filters = ["--api", "Heartbeat", "--client-ip", "10.0.0.0/8"]
    assert run(path("groups"), "--out", out, *filters).status == 0
    assert not rows(out)


# -- what must not happen -------------------------------------------------------------------------


def test_a_second_run_at_the_same_time_is_refused(run, archive):
    before = all_files(archive.out)
    with only_run(SharedFolder(str(archive.out))):
        result = run_with_more(run, archive)
    assert result[:2] == (2, f"kanalyze: {archive.out}: another run is writing to it\n")
    assert all_files(archive.out) == before


def test_a_refused_run_does_not_create_its_folder(tmp_path):
    folder = tmp_path / "a" / "b"
    first, second = only_run(SharedFolder(str(folder))), only_run(SharedFolder(str(folder)))
    with first, pytest.raises(UsageError, match="another run"), second:
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError])
def test_a_failed_run_leaves_no_files(error, run, archive, monkeypatch):
    before = all_files(archive.out)

    def fail(*_: object) -> None:
        assert any((archive.out / STAGING).rglob("*.parquet"))
        raise error

    monkeypatch.setattr("kanalyze.batch.run._BatchRun._checkpoint", fail)
    with contextlib.suppress(error):
        run_with_more(run, archive)
    assert all_files(archive.out) == before


def test_the_report_has_the_interfaces_and_filters_of_the_captures(run, tmp_path):
    assert run(path("errors"), "--out", tmp_path / "out").status == 0
    found = report(tmp_path / "out")
    assert found["quality"]["interfaces"] == {"lo, filter: tcp port 9092": 1}
    assert found == Expected(tmp_path, [path("errors")]).report


@pytest.mark.long
def test_a_capture_may_have_a_name_that_is_not_unicode(run, tmp_path):
    name = os.fsencode(tmp_path) + b"/x\xff.pcap"
    shutil.copy(os.fsencode(path("mock")), name)
    assert run(tmp_path / "x*.pcap", "--out", tmp_path / "out").status == 0
    captures = {row["capture"] for row in rows_of_table(tmp_path / "out", "requests")}
    assert captures == {f"{tmp_path}/x\\udcff.pcap"}


@pytest.mark.long
def test_a_damaged_report_is_computed_again(run, archive):
    before = report(archive.out)
    (archive.out / "report.json").write_text("{")
    result = run("--buckets", 2, *archive.arguments, "--json", "-")
    assert result.status == 0
    assert json.loads(result.out) == before


def test_a_checkpoint_in_a_folder_of_rows_is_refused(run, archive, tmp_path):
    out = tmp_path / "new"
    result = run(archive.folder, "--out", out, "--checkpoint", out / "connections" / "state")
    assert result.status == 2
    assert "is a folder of rows, and no place for a checkpoint" in result.err


def test_replace_without_captures_is_refused(run, archive, tmp_path):
    before = all_files(archive.out)
    (tmp_path / "none").mkdir()
    arguments = ("--out", archive.out, "--checkpoint", archive.state, "--replace")
    result = run(tmp_path / "none", *arguments)
    assert (result.status, result.err.count("there are no captures to read yet")) == (2, 1)
    assert all_files(archive.out) == before
