"""A run over an archive sends the spans of the rows that it commits, and of no others."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.cli.main import main
from tests.support.captures import path
from tests.support.collector import collecting, spans_of
from tests.support.cut_captures import cut, packets_of, write_pcap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("last_report")
NAMES = ("basics", "groups")
HOUR_NS = 3_600 * 10**9


def run(archive: Path, captures: Path, url: str, *options: str) -> int:
    command = ["batch", str(captures), "--engine", "process", "--jobs", "1", "--out", str(archive)]
    return main([*command, "--otlp", url, *options, "--brief"])


def ids_of(messages: list[bytes]) -> Counter[Any]:
    return Counter(span.span_id for span in spans_of(messages))


def of_captures(captures: Iterable[Path], folder: Path) -> Counter[Any]:
    target = folder / "spans.jsonl"
    command = ["requests", *map(str, captures), "--format", "otlp", "-o", str(target)]
    assert main(command) == 0
    return ids_of(target.read_bytes().splitlines())


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    folder = tmp_path / "captures"
    folder.mkdir()
    return folder


def state_in(folder: Path) -> Sequence[str]:
    return "--checkpoint", str(folder / "state"), "--settle", "0"


def test_each_run_sends_what_it_commits_and_nothing_twice(tmp_path: Path, captures: Path) -> None:
    sent: list[bytes] = []
    for name, options in zip(NAMES, ([], ["--finish"]), strict=True):
        shutil.copy(path(name), captures)
        with collecting() as collector:
            state = [*state_in(tmp_path), *options]
            assert run(tmp_path / "out", captures, collector.url, *state) == 0
        assert collector.messages
        sent += collector.messages
    assert ids_of(sent) == of_captures([path(name) for name in NAMES], tmp_path)


def test_each_step_is_sent(tmp_path: Path, captures: Path) -> None:
    for name in NAMES:
        shutil.copy(path(name), captures)
    options = (*state_in(tmp_path), "--finish", "--step-size", "1k")
    with collecting() as collector:
        assert run(tmp_path / "out", captures, collector.url, *options) == 0
    assert ids_of(collector.messages) == of_captures([path(name) for name in NAMES], tmp_path)


def test_rows_that_are_merged_are_not_sent_again(
    tmp_path: Path, captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kanalyze.batch.archive.table_files._MAX_SMALL_FILES", 1)
    monkeypatch.setattr("kanalyze.batch.run.MAX_RUNS", 1)
    sent: list[bytes] = []
    aside = tmp_path / "aside"
    aside.mkdir()
    files = cut(path("groups"), aside, 7, seed=3)
    for hour, file in zip((0, 0, 0, 1, 2, 3, 4), files, strict=True):
        moved = [one._replace(time_ns=one.time_ns + hour * HOUR_NS) for one in packets_of(file)]
        write_pcap(captures / file.name, moved)
        with collecting() as collector:
            state = [*state_in(tmp_path), "--merge-small"]
            assert run(tmp_path / "out", captures, collector.url, *state) == 0
        sent += collector.messages
    names = [file.name for file in (tmp_path / "out" / "requests").rglob("*.parquet")]
    assert any(name.count("-") == 3 for name in names), "two numbers of runs: merged"
    assert sent
    assert max(ids_of(sent).values()) == 1


def test_what_could_not_be_sent_is_sent_by_the_next_run(
    tmp_path: Path, captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = NAMES
    shutil.copy(path(first), captures)
    with collecting() as collector:
        collector.statuses = [500]
        assert run(tmp_path / "out", captures, collector.url, *state_in(tmp_path)) == 2
    assert "run 1 is committed, and the next one sends its spans" in capsys.readouterr().err
    shutil.copy(path(second), captures)
    with collecting() as collector:
        assert run(tmp_path / "out", captures, collector.url, *state_in(tmp_path)) == 0
    both = ids_of(collector.messages)
    assert both == of_captures([path(first), path(second)], tmp_path)


def test_a_run_that_replaces_all_sends_all(tmp_path: Path) -> None:
    for name, options in ((NAMES[0], ()), (NAMES[1], ("--replace",))):
        with collecting() as collector:
            assert run(tmp_path / "out", path(name), collector.url, *options) == 0
        assert ids_of(collector.messages) == of_captures([path(name)], tmp_path)


def test_a_wrong_url_is_said_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "out", tmp_path / "nothing", "ftp://x") == 2
    assert capsys.readouterr().err.startswith("kanalyze: not the URL of a collector: 'ftp://x'")
