from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import shutil
import struct
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.errors import UsageError
from kanalyze.spark.batch.commit import RECORD, STAGING
from kanalyze.spark.batch.hadoop_folder import HadoopFolder
from kanalyze.spark.batch.run_lock import only_run
from kanalyze.spark.shared_folder import SharedFolder
from kanalyze.tables.anomalies import ANOMALY_COLUMNS
from kanalyze.tables.cluster.carried import CARRIED_NAMES
from kanalyze.tables.row import COLUMNS
from tests.support.captures import NAMES, path
from tests.support.cut_captures import cut, packets_of, write_pcap
from tests.support.packets import ACK, RST, SYN, pcap_file, segment, timed
from tests.support.spark_tables import as_on_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

LONG_AGO_S = 1_000_000_000


class Killed(BaseException):
    pass


class Ran(NamedTuple):
    status: int
    err: str
    out: str


@pytest.fixture(scope="module")
def engine() -> list[str]:
    """Options of the engine; test_batch_on_spark.py has its own."""
    return ["--engine", "process", "--jobs", "1"]


@pytest.fixture
def run(engine: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command in this process."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        status = main(["batch", *engine, "--buckets", "3", *map(str, arguments)])
        out, err = capsys.readouterr()
        return Ran(status, err, out)

    return run


def rows(out: Path, table: str = "requests") -> Counter[str]:
    """The rows of a table, without numbers of requests: these are those of an archive."""
    found: Counter[str] = Counter()
    for file in (out / table).rglob("*.parquet"):
        found.update(counted(pq.ParquetFile(file).read()))
    return found


def counted(table: pa.Table) -> Counter[str]:
    names = [name for name in table.column_names if name != "request_id"]
    return Counter(map(repr, as_on_spark(table.select(names)).to_pylist()))


def names(out: Path) -> list[str]:
    """Files with rows, as the tables' readers see them."""
    return sorted(
        str(file.relative_to(out))
        for file in out.rglob("*.parquet")
        if not any(part.startswith(".") for part in file.relative_to(out).parts)
    )


def everything(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def dicts(out: Path, table: str) -> list[dict[str, Any]]:
    files = (out / table).rglob("*.parquet")
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


FAULTS = {
    "fault-connection-storm": "connection_storm",
    "fault-heartbeats": "late_heartbeats",
    "fault-lag": "growing_lag",
    "fault-next-rebalances": "rebalances",
    "fault-wrong-listener": "wrong_listener",
}
"""Captures with a fault, each with a finding that asks for connections, groups or metadata."""


class Expected:
    """What one process says of captures."""

    def __init__(self, folder: Path, captures: Iterable[Path]) -> None:
        given = [str(each) for each in captures]
        assert main(["report", "--json", str(folder / "report.json"), *given]) == 0
        self.tables = {
            "requests": counted(kanalyze.requests(*given).to_arrow()),
            "connections": counted(kanalyze.connections(*given).to_arrow()),
            "anomalies": counted(kanalyze.anomalies(*given).to_arrow()),
            "groups": counted(kanalyze.groups(*given).to_arrow()),
            "metadata": counted(kanalyze.metadata(*given).to_arrow()),
        }
        self.requests, self.anomalies = self.tables["requests"], self.tables["anomalies"]
        self.report = report(folder)


def settled(files: Iterable[Path]) -> None:
    """Let files have been written long ago."""
    for file in files:
        os.utime(file, (LONG_AGO_S, LONG_AGO_S))


# -- one run --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with captures cut into files, some damaged or with faults, and files that are none.

    One broker is down: a client gets nothing but a refusal.
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
def good(captures: Path) -> list[Path]:
    return [file for file in captures.glob("*.pcap") if file.name not in ("gone.pcap", "text.pcap")]


@pytest.fixture(scope="module")
def expected(good: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return Expected(tmp_path_factory.mktemp("expected"), good)


class Once(NamedTuple):
    """One run."""

    out: Path
    err: str


@pytest.fixture(scope="module")
def one_run(engine: list[str], captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Once:
    """A run over all captures; what it wrote is not to be changed."""
    out = tmp_path_factory.mktemp("archive") / "out of one run"
    with contextlib.redirect_stderr(io.StringIO()) as err:
        assert main(["batch", *engine, "--buckets", "3", str(captures), "--out", str(out)]) == 0
    return Once(out, err.getvalue())


@pytest.fixture(scope="module")
def once(one_run: Once) -> Path:
    """The folder that one run wrote; not to be changed."""
    return one_run.out


def test_rows_are_those_of_one_process(once, expected):
    for table in ("requests", "connections", "groups", "metadata"):
        assert rows(once, table) == expected.tables[table]
    columns = pq.ParquetFile(once / names(once)[-1]).schema_arrow.names
    assert columns == ["request_id", *(column.name for column in COLUMNS)]


def test_lines_name_their_request_by_its_number(once):
    requests = {row["request_id"]: row for row in dicts(once, "requests")}
    assert len(requests) == sum(rows(once).values())
    lines = [*dicts(once, "groups"), *dicts(once, "metadata")]
    assert lines
    for line in lines:
        request = requests[line["request_id"]]
        assert {name: request[name] for name in CARRIED_NAMES} == {
            name: line[name] for name in CARRIED_NAMES
        }


def test_rows_are_by_day_and_hour(once):
    for name in names(once):
        table, *folders, file = Path(name).parts
        assert file.startswith("run-000001-")
        if table != "requests":
            continue
        for row in pq.ParquetFile(once / name).read().to_pylist():
            start_ns = row["request_start_ns"]
            if start_ns is None:
                start_ns = row["response_start_ns"]
            began = datetime.datetime.fromtimestamp(start_ns // 10**9, datetime.UTC)
            assert folders == [f"day={began:%Y-%m-%d}", f"hour={began:%H}"]


def test_the_report_is_that_of_one_process(once, expected):
    found = report(once)
    unreadable = found["quality"]["anomalies"].pop("capture_unreadable")
    assert unreadable == {"count": 2, "bytes": 0}
    assert found == expected.report
    assert found["quality"]["refused_by"]["10.0.0.2:9092"] == 1


def test_findings_are_those_of_one_process(once, expected):
    found = report(once)
    assert found["findings"] == expected.report["findings"]
    assert "findings_left_out" not in found
    assert {each["name"] for each in found["findings"]} >= set(FAULTS.values())


def test_captures_that_cannot_be_read_are_told(one_run, captures):
    told = f"kanalyze: left out: 2 captures, such as {captures}/gone.pcap: no such file"
    assert told in one_run.err


HEAD = "-- {}.\n--\n-- severity: 99\n-- sure: yes\n-- why: it is\n-- repair: none\n"


def test_queries_thresholds_and_filters_are_those_of_a_user(run, tmp_path):
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
    given = ["--queries", folder, "--threshold", "growing_lag.least_records=1000000"]
    given += [word for api in apis for word in ("--api", api)]
    out, capture = tmp_path / "out", path("fault-lag")
    assert run(capture, "--out", out, *given).status == 0
    told = ["report", *map(str, given), "--json", str(tmp_path / "one.json"), str(capture)]
    assert main(told) == 0
    of_one = json.loads((tmp_path / "one.json").read_text())
    expected = of_one["findings"]
    assert [each["name"] for each in expected] == ["members", "of_records"]
    found = report(out)
    assert found["findings"] == [each for each in expected if each["name"] != "of_records"]
    assert found["findings_left_out"] == sorted(["of_records", *of_one["findings_left_out"]])
    assert found["filter"] == {"api": apis}
    assert {row["api_name"] for row in dicts(out, "requests")} == set(apis)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_so_they_are_of_every_capture(name, run, tmp_path):
    assert run(path(name), "--out", tmp_path / "out").status == 0
    assert report(tmp_path / "out") == Expected(tmp_path, [path(name)]).report


def test_anomalies_tell_what_is_wrong_with_files(once, captures, expected):
    found = rows(once, "anomalies")
    more = found - expected.anomalies
    assert not expected.anomalies - found
    of_link, row = sorted(more.elements(), key=lambda row: "text.pcap" in row)
    assert "gone.pcap: no such file" in of_link
    text = captures / "text.pcap"
    assert repr("capture_unreadable") in row
    assert f"'capture': {str(text)!r}" in row
    assert f"{text}: is not a pcap or pcapng file" in row
    kinds = Counter(
        row["kind"]
        for name in names(once)
        if name.startswith("anomalies")
        for row in pq.ParquetFile(once / name).read().to_pylist()
    )
    assert kinds["capture_truncated"] == 1
    assert kinds["capture_corrupt"] == 1
    columns = pq.ParquetFile(once / names(once)[0]).schema_arrow.names
    assert columns == [column.name for column in ANOMALY_COLUMNS]


def test_nothing_else_is_left(once):
    files = {name for name in everything(once) if not name.endswith((".crc", ".parquet"))}
    assert files == {"report.json", RECORD}


@pytest.mark.long
@pytest.mark.usefixtures("few_findings")
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
def out(once: Path, tmp_path: Path) -> Path:
    """A copy of the folder, for a test to change."""
    return Path(shutil.copytree(once, tmp_path / "out"))


def test_the_same_again_replaces_what_was_there(run, captures, out):
    before, found = rows(out), report(out)
    ran = run(captures, "--out", out)
    assert ran.status == 0
    assert f"kanalyze: {out}: the rows of run 1 are replaced\n" in ran.err
    assert rows(out) == before
    assert report(out) == found
    assert all("/run-000002-" in name for name in names(out))


def test_other_captures_are_refused(run, out):
    before = everything(out)
    ran = run(path("mock"), "--out", out)
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert "has rows of captures that are not among these, such as" in ran.err
    assert everything(out) == before


@pytest.mark.long
@pytest.mark.usefixtures("few_findings")
def test_other_captures_replace_what_was_there(run, out, tmp_path):
    assert run(path("mock"), "--out", out, "--replace").status == 0
    assert rows(out) == Expected(tmp_path, [path("mock")]).requests


def test_rows_of_somebody_else_are_not_touched(run, out):
    (out / RECORD).unlink()
    before = everything(out)
    ran = run(path("mock"), "--out", out, "--replace")
    assert ran.status == 2
    assert "has rows that this command did not write" in ran.err
    assert everything(out) == before


@pytest.mark.few(1)
@pytest.mark.usefixtures("few_findings")
@pytest.mark.parametrize(
    ("operation", "after"),
    [
        ("write_report", 0),
        ("move", 1),
        ("write_record", 0),
        ("mark", 0),
    ],
)
def test_a_run_that_is_killed_is_completed_or_forgotten(
    operation, after, run, out, tmp_path, monkeypatch
):
    mock = path("mock")
    before = everything(out)
    kill(monkeypatch, operation, after)
    with pytest.raises(Killed):
        run(mock, "--out", out, "--replace")
    monkeypatch.undo()
    is_recorded = operation not in ("write_report", "write_record")
    if not is_recorded:
        left = everything(out)
        assert {name: left[name] for name in before} == before
    # Other captures are refused: this run does nothing but complete the one before.
    ran = run(path("codecs"), "--out", out)
    assert ran.status == 2
    assert ("run 2 had been interrupted, and is complete now" in ran.err) == is_recorded
    if is_recorded:
        expected = Expected(tmp_path, [mock])
        assert rows(out) == expected.requests
        assert rows(out, "anomalies") == expected.anomalies
        assert report(out) == expected.report
        assert all("/run-000002-" in name for name in names(out))
    else:
        assert everything(out) == before
    assert not (out / STAGING).exists()


def kill(monkeypatch: pytest.MonkeyPatch, operation: str, after: int) -> None:
    """Let an operation on files, after some of its kind, be the end."""
    left = [after]

    def count(kind: str) -> None:
        if kind == operation:
            if not left[0]:
                raise Killed
            left[0] -= 1

    for folder_type in (HadoopFolder, SharedFolder):
        monkeypatch.setattr(folder_type, "write", counted_write(folder_type.write, count))
        monkeypatch.setattr(folder_type, "move", counted_move(folder_type.move, count))


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
    """A folder that files are added to."""

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
    settled(files)
    return Growing(files, tmp_path / "folder", tmp_path / "out", tmp_path / "state")


@pytest.mark.long
@pytest.mark.usefixtures("few_findings")
def test_an_archive_may_begin_with_nothing_that_can_be_read(run, growing, tmp_path):
    """What is no capture is left out for good, what could not be read is read by the next run."""
    (growing.folder / "text.pcap").write_text("this is no capture\n")
    unreadable = growing.folder / growing.files[0].name
    unreadable.symlink_to("/proc/self/mem")  # reading it is an I/O error
    ran = run(*growing.arguments, "--settle", 0)
    assert ran.status == 0
    assert "left out: 2 captures, such as" in ran.err
    for _ in range(2):  # each run tries again what could not be read, and counts it anew
        ran = run(*growing.arguments, "--settle", 0)
        assert "left out: 1 capture, such as" in ran.err
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
@pytest.mark.usefixtures("few_findings")
def test_runs_that_are_killed_add_and_lose_nothing(run, growing, tmp_path, monkeypatch):
    growing.add(0, 1, 2)
    for operation in ("write_record", "move"):
        kill(monkeypatch, operation, 1 if operation == "move" else 0)
        with pytest.raises(Killed):
            run(*growing.arguments)
        monkeypatch.undo()
    growing.add(3, 4, 5)
    assert run(*growing.arguments, "--finish").status == 0
    expected = Expected(tmp_path, growing.folder.iterdir())
    assert rows(growing.out) == expected.requests
    assert report(growing.out) == expected.report
    assert {name.split("/run-")[1][:6] for name in names(growing.out)} == {"000001", "000002"}


@pytest.fixture(scope="module")
def begun(engine: list[str], tmp_path_factory: pytest.TempPathFactory) -> Growing:
    """An archive after its first run; not to be changed."""
    base = tmp_path_factory.mktemp("begun")
    for name in ("aside", "folder"):
        (base / name).mkdir()
    files = cut(path("groups"), base / "aside", 4, seed=3)
    settled(files)
    growing = Growing(files, base / "folder", base / "out", base / "state")
    growing.add(0)
    arguments = [*engine, *growing.arguments, "--buckets", 2]
    assert main(["batch", *map(str, arguments)]) == 0
    return growing


@pytest.fixture
def archive(begun: Growing, tmp_path: Path) -> Growing:
    """A copy of it, of which the captures are the same files."""
    out = Path(shutil.copytree(begun.out, tmp_path / "out"))
    state = Path(shutil.copytree(begun.state, tmp_path / "state"))
    return begun._replace(out=out, state=state)


def go_on(run: Any, archive: Growing, *more: object, upto: int = 2) -> Ran:
    """Run it with more captures than the first time."""
    ran: Ran = run("--buckets", 2, *archive.files[1:upto], *archive.arguments, *more)
    return ran


@pytest.mark.few(1)
@pytest.mark.usefixtures("few_findings")
@pytest.mark.parametrize("is_killed", [True, False])
def test_an_archive_that_grows_has_in_the_end_what_one_run_has(
    is_killed, run, archive, tmp_path, monkeypatch
):
    check_growing(is_killed, run, archive, tmp_path, monkeypatch)


def check_growing(
    is_killed: bool, run: Any, archive: Growing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a run is killed while it moves its files: the next one completes it, and goes on."""
    first = rows(archive.out)
    assert first
    if is_killed:
        kill(monkeypatch, "move", 1)
        with pytest.raises(Killed):
            go_on(run, archive, upto=3)
        monkeypatch.undo()
    else:
        assert go_on(run, archive, upto=3).status == 0
        assert not first - rows(archive.out)
        before = everything(tmp_path)
        ran = go_on(run, archive, "--json", "-", upto=3)
        assert (ran.status, ran.err) == (0, "kanalyze: no new captures\n")
        assert json.loads(ran.out) == report(archive.out)
        assert everything(tmp_path) == before
    ran = go_on(run, archive, "--finish", upto=4)
    assert ran.status == 0
    assert ("run 2 had been interrupted, and is complete now" in ran.err) == is_killed
    expected = Expected(tmp_path, [*archive.files[1:], *archive.folder.iterdir()])
    for table, of_one in expected.tables.items():
        assert rows(archive.out, table) == of_one
    assert report(archive.out) == expected.report
    assert {name.name for name in archive.state.glob("run-*")} == {"run-000003"}
    numbers = {name.split("/run-")[1][:6] for name in names(archive.out)}
    assert numbers == {"000001", "000002", "000003"}
    before = everything(tmp_path)
    ran = go_on(run, archive, "--json", "-", upto=4)
    assert (ran.status, ran.err) == (0, "kanalyze: no new captures\n")
    assert json.loads(ran.out) == report(archive.out)
    assert everything(tmp_path) == before
    mock = tmp_path / "mock.pcap"
    shutil.copy(path("mock"), mock)
    settled([mock])
    ran = go_on(run, archive, mock, upto=4)
    assert ran.status == 2
    assert "the archive was finished before 1 capture came; --replace starts over" in ran.err


@pytest.mark.usefixtures("few_findings")
def test_changed_files_are_left_out_and_files_that_were_just_written_wait(run, archive, tmp_path):
    fresh = tmp_path / "fresh.pcap"
    shutil.copy(archive.files[1], fresh)
    arguments = ["--buckets", 2, fresh, *archive.arguments]
    # However long it takes until it is looked at.
    os.utime(fresh, (time.time() + 3600, time.time() + 3600))
    ran = run(*arguments)
    assert ran.status == 0
    assert f"may still be written: 1 capture, such as {fresh}\n" in ran.err
    assert "no new captures" in ran.err
    os.utime(fresh)

    (file,) = archive.folder.iterdir()
    # The same identity: what is there now is longer.
    data = file.read_bytes()
    before = rows(archive.out)
    try:
        file.write_bytes(data + bytes(40))
        settled([file])
        ran = run(*arguments, "--settle", 0)
        assert ran.status == 0
        assert f"kanalyze: {file}: has changed since it was read: left out\n" in ran.err
        assert not before - rows(archive.out)
        (told,) = (row for row in rows(archive.out, "anomalies") if "has changed" in row)
        assert f"({len(data)} B then, {len(data) + 40} B now): left out" in told
        found = report(archive.out)
        assert found["quality"]["anomalies"]["capture_unreadable"]["count"] == 1
        assert str(fresh) in found["capture"]["captures"]
        after = everything(archive.out)
        assert run(*arguments, "--settle", 0).err == "kanalyze: no new captures\n"
        assert everything(archive.out) == after
    finally:
        file.write_bytes(data)
        settled([file])


@pytest.mark.long
@pytest.mark.usefixtures("few_findings")
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


def test_a_damaged_checkpoint_is_one_line(run, archive):
    name = archive.state / "run-000001" / "checkpoint"
    whole = name.read_bytes()
    before = everything(archive.out)
    for damaged in (b"", whole[:-1], whole.replace(b'"buckets": 2', b'"buckets": 3'), b"\0" * 99):
        write_raw(name, damaged)
        ran = go_on(run, archive)
        assert ran[:2] == (
            2,
            f"kanalyze: {archive.state}: run-000001/checkpoint is damaged; --replace starts over\n",
        )
    name.unlink()
    assert "run-000001/checkpoint is missing; --replace starts over" in go_on(run, archive).err
    write_raw(name, whole)
    states = sorted(archive.state.glob("run-000001/states/*.parquet"))
    data, middle = states[0].read_bytes(), middle_of_states(states[0])
    states[0].unlink()
    assert "run-000001/states is damaged; --replace starts over" in go_on(run, archive).err
    write_raw(states[0], data[: middle - 40] + bytes(80) + data[middle + 40 :])
    ran = go_on(run, archive)
    assert ran.status == 2
    assert ran.err.count("kanalyze: ") == 1
    assert everything(archive.out) == before


def middle_of_states(file: Path) -> int:
    """Return where the middle of the bytes of states is in a file: much of it is metadata."""
    states = pq.read_metadata(file).row_group(0).column(1)
    return int(states.data_page_offset + states.total_compressed_size // 2)


def write_raw(file: Path, data: bytes) -> None:
    """Write a file as a disk that errs: without the checksum that Hadoop keeps beside it."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_bytes(data)


def test_rows_and_checkpoints_belong_together(run, archive, once, tmp_path):
    def refused(*arguments: object) -> str:
        ran: Ran = run(archive.folder, "--buckets", 2, *arguments)
        assert ran.status == 2
        assert ran.err.count("\n") == 1
        return ran.err

    state, out = archive.state, archive.out
    assert "is written with --checkpoint; --replace starts over without" in refused("--out", out)
    told = refused("--out", out, "--checkpoint", tmp_path / "none")
    assert "none: run-000001/checkpoint is missing; --replace starts over" in told
    told = refused("--out", tmp_path / "none", "--checkpoint", state)
    assert "is the checkpoint of another archive, file:" in told
    assert "is the checkpoint of another archive, file:" in refused(
        "--out", tmp_path / "none", "--checkpoint", state, "--replace"
    )
    told = refused("--out", once, "--checkpoint", tmp_path / "none")
    assert "is written without --checkpoint; --replace starts over" in told
    told = refused("--out", out, "--checkpoint", state, "--api", "Fetch")
    assert "the archive was begun with other filters, ports, definitions or limits" in told
    told = refused("--out", out, "--checkpoint", state, "--buckets", 5)
    assert "the archive was begun with --buckets 2" in told


@pytest.mark.long
@pytest.mark.usefixtures("few_findings")
def test_an_archive_begins_anew_when_asked_to(run, archive, tmp_path):
    write_raw(archive.state / "run-000001" / "checkpoint", b"")
    assert go_on(run, archive, "--replace", "--finish").status == 0
    expected = Expected(tmp_path, [archive.files[1], *archive.folder.iterdir()])
    assert rows(archive.out) == expected.requests
    assert report(archive.out) == expected.report


@pytest.mark.long
@pytest.mark.usefixtures("few_findings")
def test_an_archive_that_was_not_begun_anew_goes_on(run, archive, tmp_path, monkeypatch):
    kill(monkeypatch, "write_record", 0)
    with pytest.raises(Killed):
        go_on(run, archive, "--replace")
    monkeypatch.undo()
    assert go_on(run, archive, "--finish").status == 0
    expected = Expected(tmp_path, [archive.files[1], *archive.folder.iterdir()])
    assert rows(archive.out) == expected.requests
    assert {name.split("/run-")[1][:6] for name in names(archive.out)} == {"000001", "000002"}


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["{folder}/none.pcap"], "none.pcap: no such file or directory"),
        (["{folder}/*.pcap"], "*.pcap: no file has such a name"),
        (["{folder}"], ": no capture in this folder"),
        (["-"], "standard input: cannot be read by several tasks"),
    ],
)
def test_captures_that_are_not_there_are_one_line(arguments, told, run, tmp_path):
    given = [text.format(folder=tmp_path) for text in arguments]
    ran = run(*given, "--out", tmp_path / "out")
    assert ran.status == 2
    assert ran.err.endswith(f"{told}\n")
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_archive_may_begin_without_captures(run, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    ran = run(folder, "--out", tmp_path / "out", "--checkpoint", tmp_path / "state")
    assert ran[:2] == (0, "kanalyze: no new captures\n")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


@pytest.mark.usefixtures("few_findings")
def test_a_page_is_made_of_what_is_there(run, archive, tmp_path):
    page = tmp_path / "page.html"
    before = everything(archive.out)
    ran = run("--buckets", 2, *archive.arguments, "--html", page)
    assert (ran.status, ran.err) == (0, "kanalyze: no new captures\n")
    assert page.read_text().startswith("<!doctype html>")
    assert everything(archive.out) == before


def test_a_report_that_is_gone_is_made_again(run, archive):
    name = archive.out / "report.json"
    before = report(archive.out)
    name.unlink()
    ran = run("--buckets", 2, *archive.arguments, "--json", "-")
    assert (ran.status, ran.err) == (0, "kanalyze: no new captures\n")
    assert json.loads(ran.out) == before
    assert not name.exists()


def test_a_place_that_cannot_be_written_is_one_line(run, tmp_path):
    (tmp_path / "file").write_text("x")
    ran = run(path("mock"), "--out", tmp_path / "file" / "out")
    assert ran.status == 2
    assert ran.err.count("\n") == 1


@pytest.mark.usefixtures("few_findings")
def test_nothing_but_files_that_are_no_captures(run, tmp_path):
    (tmp_path / "text.pcap").write_text("this is no capture\n")
    ran = run(tmp_path, "--out", tmp_path / "out", "--json", "-")
    assert ran.status == 0
    assert json.loads(ran.out) == report(tmp_path / "out")
    assert "left out: 1 capture, such as" in ran.err
    assert len(rows(tmp_path / "out", "anomalies")) == 1
    assert report(tmp_path / "out")["totals"]["rows"] == 0


@pytest.mark.usefixtures("few_findings")
def test_filters_that_no_row_passes_hold(run, tmp_path):
    out = tmp_path / "out"
    given = ["--api", "Heartbeat", "--client-ip", "10.0.0.0/8"]
    assert run(path("groups"), "--out", out, *given).status == 0
    assert not rows(out)


# -- what must not happen -------------------------------------------------------------------------


def test_a_second_run_at_the_same_time_is_refused(run, archive):
    before = everything(archive.out)
    with only_run(SharedFolder(str(archive.out))):
        ran = go_on(run, archive)
    assert ran[:2] == (2, f"kanalyze: {archive.out}: another run is writing to it\n")
    assert everything(archive.out) == before


def test_a_folder_that_was_not_there_is_not_made_for_a_run_that_is_refused(tmp_path):
    folder = tmp_path / "a" / "b"
    one, other = only_run(SharedFolder(str(folder))), only_run(SharedFolder(str(folder)))
    with one, pytest.raises(UsageError, match="another run"), other:
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError])
def test_after_a_failure_nothing_is_left_of_a_run(error, run, archive, monkeypatch):
    before = everything(archive.out)

    def fail(*_: object) -> None:
        assert any((archive.out / STAGING).rglob("*.parquet"))
        raise error

    monkeypatch.setattr("kanalyze.spark.batch.batch._BatchRun._checkpoint", fail)
    with contextlib.suppress(error):
        go_on(run, archive)
    assert everything(archive.out) == before


def test_the_report_has_what_captures_say_of_themselves(run, tmp_path):
    assert run(path("errors"), "--out", tmp_path / "out").status == 0
    found = report(tmp_path / "out")
    assert found["quality"]["interfaces"] == {"lo, filter: tcp port 9092": 1}
    assert found == Expected(tmp_path, [path("errors")]).report


@pytest.mark.long
def test_a_capture_may_have_a_name_that_is_not_unicode(run, tmp_path):
    name = os.fsencode(tmp_path) + b"/x\xff.pcap"
    shutil.copy(os.fsencode(path("mock")), name)
    assert run(tmp_path / "x*.pcap", "--out", tmp_path / "out").status == 0
    captures = {row["capture"] for row in dicts(tmp_path / "out", "requests")}
    assert captures == {f"{tmp_path}/x\\udcff.pcap"}


@pytest.mark.long
def test_a_damaged_report_is_made_again(run, archive):
    before = report(archive.out)
    (archive.out / "report.json").write_text("{")
    ran = run("--buckets", 2, *archive.arguments, "--json", "-")
    assert ran.status == 0
    assert json.loads(ran.out) == before


def test_rows_are_no_place_for_a_checkpoint(run, archive, tmp_path):
    out = tmp_path / "new"
    ran = run(archive.folder, "--out", out, "--checkpoint", out / "connections" / "state")
    assert ran.status == 2
    assert "is a folder of rows, and no place for a checkpoint" in ran.err


def test_rows_are_not_replaced_by_nothing(run, archive, tmp_path):
    before = everything(archive.out)
    (tmp_path / "none").mkdir()
    arguments = ("--out", archive.out, "--checkpoint", archive.state, "--replace")
    ran = run(tmp_path / "none", *arguments)
    assert (ran.status, ran.err.count("there are no captures to read yet")) == (2, 1)
    assert everything(archive.out) == before
