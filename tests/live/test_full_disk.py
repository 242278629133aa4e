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
from kanalyze.capture.reader import open_capture
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


class Ran:
    """The result of a run."""

    def __init__(self, namespace: Namespace, folder: Path, size: str, *arguments: str) -> None:
        self.left = folder / "left"
        disk = folder / "disk"
        disk.mkdir()
        self.left.mkdir()
        words = ["sh", "-c", ON_A_SMALL_DISK, "sh", size, str(disk), str(self.left)]
        words += [*KANALYZE, "live", "-", "--format", "rows", *arguments]
        with Asked(namespace, words, subprocess.PIPE) as asked:
            feed(asked)
            said, told = asked.end(None)
        self.rows = [json.loads(line) for line in said]
        self.told = told.splitlines()


def feed(asked: Asked) -> None:
    """Return a capture in pieces, each of which is read as one batch."""
    packets = [Packet(packet.data, packet.time_ns) for packet in packets_of("errors")]
    header = pcap_file([])
    asked.give(header)
    for number in range(PIECES):
        first, behind = (len(packets) * at // PIECES for at in (number, number + 1))
        asked.give(pcap_file(packets[first:behind])[len(header) :])
        asked.wait_for(behind)
    asked.give_no_more()


@pytest.fixture(scope="module")
def total() -> int:
    return len(list(kanalyze.requests(path("errors"))))


def test_files_of_rows_end_and_all_else_goes_on(
    namespace: Namespace, tmp_path: Path, total: int
) -> None:
    ran = Ran(namespace, tmp_path, "128k", "--write", "rows", "--write-every", "1")
    assert len(ran.rows) == total
    files = sorted((ran.left / "rows").iterdir())
    assert all(file.suffix == ".parquet" for file in files)
    kept = sum(pq.read_table(file).num_rows for file in files)
    assert 0 < kept < total
    assert (
        ran.told[0] == "kanalyze: cannot write rows to rows: No space left on device; trying again"
    )
    assert ran.told[-1] == f"kanalyze: missing in rows: {total - kept} rows"


@pytest.mark.long
def test_packets_that_were_kept_can_be_read(
    namespace: Namespace, tmp_path: Path, total: int
) -> None:
    ran = Ran(namespace, tmp_path, "48k", "--save", "kept.pcapng", "--save-size", "8k")
    assert len(ran.rows) == total
    assert (
        ran.told[0]
        == "kanalyze: cannot write packets to kept.pcapng: No space left on device; trying again"
    )
    assert "packets that could not be written" in ran.told[-1]
    files = sorted(ran.left.iterdir())
    assert len(files) > 1
    for file in files:
        with open_capture(str(file)) as capture:
            assert sum(map(len, capture.batches())) > 0
            assert capture.anomalies == []
    found = list(kanalyze.requests(*files, errors=True))
    assert 0 < len(found) < sum(row["status"] == "error" for row in ran.rows)


@pytest.mark.long
def test_no_room_at_all(namespace: Namespace, tmp_path: Path, total: int) -> None:
    """There is no space for the folder, nor for the first file."""
    ran = Ran(namespace, tmp_path, "4k", "--save", "kept.pcapng", "--write", "rows")
    assert len(ran.rows) == total
    assert sorted(told.split(":")[1] for told in ran.told) == [
        " cannot write packets to kept.pcapng",
        " cannot write rows to rows",
        " missing in kept.pcapng",
        " missing in rows",
    ]
    assert list((ran.left / "rows").iterdir()) == []
