"""`kanalyze live` on a full disk: a small file system made for the test.

Without root these tests are not selected (see tests/conftest.py, which says so).
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import kanalyze
from tests.support.captures import path
from tests.support.disorder import packets_of
from tests.support.few_findings import WITH_FEW_FINDINGS
from tests.support.listening import COMMAND, Asked
from tests.support.packets import Packet, pcap_file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.netns import Namespace

KANALYZE = [sys.executable, "-c", WITH_FEW_FINDINGS + COMMAND]
ON_A_SMALL_DISK = """
mount -t tmpfs -o size=$1 none "$2" || exit 9
cd "$2" && left=$3 && shift 3
"$@"
status=$?
cp -a . "$left"
exit $status
"""
"""Runs a command on a private disk of some size, and copies the files that it left."""
PIECES = 16


class Run:
    """The result of a run."""

    def __init__(self, namespace: Namespace, folder: Path, size: str, *arguments: str) -> None:
        self.files_folder = folder / "left"
        disk = folder / "disk"
        disk.mkdir()
        self.files_folder.mkdir()
        words = ["sh", "-c", ON_A_SMALL_DISK, "sh", size, str(disk), str(self.files_folder)]
        words += [*KANALYZE, "live", "-", "--format", "rows", *arguments]
        with Asked(namespace, words, subprocess.PIPE) as command:
            feed(command)
            lines, messages = command.end(None)
        self.rows = [json.loads(line) for line in lines]
        self.messages = messages.splitlines()


def feed(command: Asked) -> None:
    """Write a capture to the command in pieces, each of which it reads as one batch."""
    packets = [Packet(packet.data, packet.time_ns) for packet in packets_of("errors")]
    header = pcap_file([])
    command.give(header)
    for number in range(PIECES):
        first, end = (len(packets) * part // PIECES for part in (number, number + 1))
        command.give(pcap_file(packets[first:end])[len(header) :])
        command.wait_for(end)
    command.give_no_more()


@pytest.fixture(scope="module")
def total() -> int:
    return len(list(kanalyze.requests(path("errors"))))


def test_the_run_continues_without_files_of_rows(
    namespace: Namespace, tmp_path: Path, total: int
) -> None:
    run = Run(namespace, tmp_path, "128k", "--write", "rows", "--write-every", "1")
    assert len(run.rows) == total
    files = sorted((run.files_folder / "rows").iterdir())
    assert all(file.suffix == ".parquet" for file in files)
    kept = sum(pq.read_table(file).num_rows for file in files)
    assert 0 < kept < total
    assert (
        run.messages[0]
        == "kanalyze: cannot write rows to rows: No space left on device; trying again"
    )
    assert run.messages[-1] == f"kanalyze: missing in rows: {total - kept} rows"


@pytest.mark.long
def test_the_run_continues_if_no_file_can_be_created(
    namespace: Namespace, tmp_path: Path, total: int
) -> None:
    """There is no space for the folder, nor for the first file."""
    run = Run(namespace, tmp_path, "4k", "--save", "saved.pcapng", "--write", "rows")
    assert len(run.rows) == total
    assert sorted(message.split(":")[1] for message in run.messages) == [
        " cannot write packets to saved.pcapng",
        " cannot write rows to rows",
        " missing in rows",
        " missing in saved.pcapng",
    ]
    assert list((run.files_folder / "rows").iterdir()) == []
