"""What is special to the process engine; test_batch.py tests batches as such."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.batch import rebuild
from kanalyze.batch.archive.topic_name_scan import TopicNameScan
from kanalyze.batch.process_engine import ProcessEngine
from kanalyze.cli.main import main
from kanalyze.errors import KanalyzeError
from tests.batch.test_batch import counted, report, rows
from tests.support.captures import ROOT, path
from tests.support.cut_captures import cut
from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


def batch(*arguments: object) -> int:
    return main(["batch", "--engine", "process", *map(str, arguments)])


@pytest.mark.few(1)
@pytest.mark.parametrize("buckets", [7, 17])
def test_several_processes_write_the_same_tables(buckets: int, tmp_path: Path) -> None:
    """Both when each task reads all captures, and when segments are sent in files."""
    files = cut(path("groups"), tmp_path, 5)
    for jobs in (1, 3):
        out = tmp_path / f"out-{jobs}"
        assert batch("--jobs", jobs, "--buckets", buckets, *files, "--out", out) == 0
    single, parallel = tmp_path / "out-1", tmp_path / "out-3"
    for table in ("requests", "connections", "groups", "metadata", "anomalies"):
        assert rows(single, table) == rows(parallel, table)
    assert rows(single) == counted(kanalyze.requests(*map(str, files)).to_arrow())
    assert report(single) == report(parallel)


@pytest.mark.few(1)
@pytest.mark.parametrize("buckets", [2, 17])
def test_captures_keep_the_names_they_were_given(
    buckets: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.pcap").write_bytes(path("waits").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert batch("--jobs", 1, "--buckets", buckets, "a.pcap", "--out", "out") == 0
    assert report(tmp_path / "out")["capture"]["captures"] == ["a.pcap"]


def test_no_process_loads_pandas(tmp_path: Path) -> None:
    """In each process it would take a quarter of a second, and 50 MB."""
    (tmp_path / "pandas.py").write_text("raise AssertionError('pandas is imported')")
    words = [sys.executable, "-m", "kanalyze", "batch", "--engine", "process", "--jobs", "2"]
    options = ["--checkpoint", str(tmp_path / "checkpoint"), "--out", str(tmp_path / "out")]
    subprocess.run(
        [*words, *map(str, cut(path("groups"), tmp_path, 2)), *options, "--settle", "0"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        check=True,
        capture_output=True,
    )


def test_the_name_of_the_archive_may_look_like_a_pattern(tmp_path: Path) -> None:
    for name in ("out", "out[1]*"):
        assert batch("--jobs", 1, path("waits"), "--out", tmp_path / name) == 0
    assert report(tmp_path / "out[1]*") == report(tmp_path / "out")


def test_buckets_are_rebuilt_for_topic_names_of_other_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is if there is no Metadata response, or an encrypted one."""
    rebuilt = []
    rebuild_task = rebuild._rebuild_task

    def counting(*arguments: Any) -> Any:
        rebuilt.append(arguments)
        return rebuild_task(*arguments)

    monkeypatch.setattr(rebuild, "_rebuild_task", counting)
    arguments = ["--jobs", 1, "--buckets", 4, path("cluster")]
    assert batch(*arguments, "--out", tmp_path / "found") == 0
    first_count = len(rebuilt)
    monkeypatch.setattr(TopicNameScan, "feed", lambda *_: None)
    assert batch(*arguments, "--out", tmp_path / "late") == 0
    assert len(rebuilt) == 3 * first_count
    assert rows(tmp_path / "late") == rows(tmp_path / "found")
    assert report(tmp_path / "late") == report(tmp_path / "found")


def test_a_process_that_dies_is_reported_in_one_line() -> None:
    with ProcessEngine(2) as engine:
        with pytest.raises(KanalyzeError, match="a process of the batch died"):
            engine.run(os.kill, [(0, signal.SIGCONT), (_own_pid(), signal.SIGKILL)])
        assert engine.run(abs, [(-1,), (-2,)]) == [1, 2]


def test_a_process_that_dies_before_all_tasks_are_submitted_is_reported_too() -> None:
    class Slowly(list[tuple[object, int]]):
        def __iter__(self) -> Iterator[tuple[object, int]]:
            yield self[0]
            wait_until(lambda: not multiprocessing.active_children(), "the process has died")
            yield self[1]

    with ProcessEngine(2) as engine, pytest.raises(KanalyzeError, match="process of the batch"):
        engine.run(os.kill, Slowly([(_own_pid(), signal.SIGKILL), (0, signal.SIGCONT)]))


class _own_pid:  # noqa: N801 - unpickled to a value
    """The id of the process that loads this from a pickle."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return os.getpid, ()


def test_an_error_in_a_task_ends_the_batch(tmp_path: Path) -> None:
    with ProcessEngine(2) as engine:
        with pytest.raises(FileNotFoundError):
            engine.run(os.stat, [(tmp_path,), (tmp_path / "none",)])
        assert engine.run(abs, [(-1,), (-2,)]) == [1, 2]


def test_processes_are_used_again_until_the_engine_is_closed() -> None:
    with ProcessEngine(2) as engine:
        workers = {pid for _ in range(3) for pid in engine.run(os.getpid, [()] * 4)}
        assert len(workers) <= 2
        engine.close()
        assert workers.isdisjoint(engine.run(os.getpid, [()] * 4))
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, time\n"
        "from kanalyze.batch.process_engine import ProcessEngine\n"
        "from tests.batch.test_process_engine import waiting\n"
        f"ProcessEngine(2).run(waiting, [({str(tmp_path)!r},), ({str(tmp_path)!r},)])\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as parent:
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        parent.kill()
    workers = [int(file.name) for file in tmp_path.iterdir()]
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def waiting(folder: str) -> None:
    """A task that does not end within the time of a test."""
    Path(folder, str(os.getpid())).touch()
    time.sleep(10 * LONG_S)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--engine", "process", "--master", "local[2]"],
            "--scratch are for Spark",
        ),
        (["--engine", "process", "--conf", "a=b"], "--scratch are for Spark"),
        (["--engine", "process", "--scratch", "/s"], "--scratch are for Spark"),
        (["--jobs", "2"], "--jobs needs --engine process"),
    ],
)
def test_options_of_the_other_engine_are_refused(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command_line = ["batch", str(path("mock")), "--out", str(tmp_path / "out"), *arguments]
    assert main(command_line) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_failing_query_is_reported_before_captures_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.sql").write_text(
        "-- Wrong.\n--\n-- severity: 1\n-- sure: yes\n-- why: x\n-- repair: x\n"
        "SELECT nosuchcolumn AS what, 1 AS weight FROM requests\n"
    )
    out = tmp_path / "out"
    arguments = (path("mock"), "--out", out, "--queries", tmp_path)
    assert batch(*arguments) == 2
    assert "nosuchcolumn" in capsys.readouterr().err
    assert not out.exists()
