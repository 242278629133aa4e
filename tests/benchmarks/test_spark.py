from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import spark
from benchmarks.errors import BenchmarkError
from tests.support.captures import FOLDER
from tests.support.waiting import LONG_S


def test_the_number_of_cores_is_read_from_the_master() -> None:
    assert spark.cores_of("local[2]") == 2
    assert spark.cores_of("local[*]") == os.cpu_count()
    for master in ("local", "local[0]", "spark://host:7077", "local[2,3]"):
        with pytest.raises(BenchmarkError, match="not a master of this machine"):
            spark.cores_of(master)


def test_bad_arguments_are_refused() -> None:
    assert spark.parse([]).times == [10, 50]
    assert spark.parse(["--sets", "small-64"]).sets == ["small-64"]
    for arguments in (["--times", "0"], ["--masters", "yarn"]):
        with pytest.raises(BenchmarkError):
            spark.parse(arguments)


def test_tshark_is_run_once_for_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    program = tmp_path / "tshark"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{log}"\n')
    program.chmod(0o755)
    monkeypatch.setattr(spark.programs, "TSHARK", str(program))
    files = [tmp_path / "one.pcap", tmp_path / "it's two.pcap"]

    for command, cores in spark.tshark_commands(files, [9092]).values():
        subprocess.run(command, check=True, timeout=LONG_S)
        lines = log.read_text().splitlines()
        log.unlink()
        assert cores >= 1
        assert sorted(line.partition(" -T ")[0] for line in lines) == sorted(
            f"-n -r {file}" for file in files
        )
        assert all("tcp.port==9092,kafka" in line for line in lines)


def test_batch_writes_its_log_beside_its_rows(tmp_path: Path) -> None:
    command = spark.batch_command(Path("in"), tmp_path / "out", "local[2]", tmp_path / "log")
    assert command[1:7] == ["batch", "in", "--out", str(tmp_path / "out"), "--master", "local[2]"]
    assert f"spark.eventLog.dir={(tmp_path / 'log').as_uri()}" in command


def test_rotated_files_are_deleted_afterwards(tmp_path: Path) -> None:
    with spark.rotated(FOLDER / "mock.pcap", 2, 1, tmp_path) as folder:
        assert [file.name for file in folder.iterdir()] == ["mock-00000.pcap"]
    assert list(tmp_path.iterdir()) == []
