"""How work is divided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.capture.io.stores import Stores
from kanalyze.capture.listing import FoundCapture
from kanalyze.spark.archive.division import buckets_for, shuffles, tasks_for
from tests.support.packets import pcap_file, segment, timed

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


PLAIN, COMPRESSED, REMOTE = "a.pcap", "a.pcapng.ZST", "s3://captures/a.pcap"


@pytest.mark.parametrize(
    ("name", "total_bytes", "cores", "buckets", "is_shuffled"),
    [
        (PLAIN, 0, 1, 2, False),
        (PLAIN, 1 << 50, 2, 4, False),
        ("file:///a.pcap", 1 << 50, 2, 4, False),
        (PLAIN, 0, 8, 16, False),
        (PLAIN, 0, 9, 9, False),
        (PLAIN, 0, 16, 16, False),
        (PLAIN, 0, 17, 34, True),
        (PLAIN, 10 << 30, 17, 160, True),
        (PLAIN, 1 << 50, 17, 512, True),
        *((name, 0, 1, 2, False) for name in (COMPRESSED, REMOTE)),
        *((name, 1 << 50, 2, 2, False) for name in (COMPRESSED, REMOTE)),
        *((name, 0, 3, 8, True) for name in (COMPRESSED, REMOTE)),
        *((name, 640 * MIB, 4, 10, True) for name in (COMPRESSED, REMOTE)),
    ],
)
def test_buckets(name: str, total_bytes: int, cores: int, buckets: int, is_shuffled: bool) -> None:
    captures = [FoundCapture(PLAIN), FoundCapture(name, total_bytes=total_bytes)]
    assert buckets_for(captures, cores) == buckets
    assert shuffles(captures, buckets) == is_shuffled


def test_small_files_are_read_together(tmp_path: Path) -> None:
    found = []
    for index in range(40):
        file = tmp_path / f"{index:02}.pcap"
        file.write_bytes(pcap_file(timed([segment(payload=b"x" * 1000)] * 100)))
        found.append(FoundCapture(str(file), total_bytes=file.stat().st_size))
    tasks = tasks_for(found, Stores(), 64 * MIB, 2)
    assert 2 <= len(tasks) <= 8
    assert [split.path for task in tasks for split in task] == [each.path for each in found]


def test_a_large_file_is_read_by_several(tmp_path: Path) -> None:
    file = tmp_path / "large.pcap"
    file.write_bytes(pcap_file(timed([segment(payload=b"x" * 60_000)] * 100)))
    found = FoundCapture(str(file), total_bytes=file.stat().st_size)
    tasks = tasks_for([found], Stores(), MIB, 1)
    assert [len(task) for task in tasks] == [2, 2, 1]


def test_a_file_that_is_gone_is_a_task_that_will_tell_why(tmp_path: Path) -> None:
    gone = FoundCapture(str(tmp_path / "gone.pcap"), total_bytes=100 * MIB)
    ((split,),) = tasks_for([gone], Stores(), MIB, 1)
    assert (split.path, split.is_whole) == (gone.path, True)


def test_captures_are_divided_among_tasks() -> None:
    def tasks(*sizes: int | None, cores: int = 1) -> list[list[str]]:
        found = [
            FoundCapture(f"{index}.pcap", total_bytes=size) for index, size in enumerate(sizes)
        ]
        made = tasks_for(found, Stores(), 64 * MIB, cores)
        return [[split.path.removesuffix(".pcap") for split in task] for task in made]

    assert tasks() == []
    assert tasks(10, 20, 30) == [["0", "1", "2"]]
    assert tasks(*[40 * MIB] * 4) == [["0", "1"], ["2", "3"]]
    assert [len(task) for task in tasks(*[300 * MIB] * 20)] == [3] * 6 + [2]
    assert tasks(*[MIB] * 8, cores=2) == [["0", "1"], ["2", "3"], ["4", "5"], ["6", "7"]]
    # Nothing is known of one, and another cannot be looked at: both are for tasks to tell of.
    assert tasks(10, None, 200 * MIB) == [["0", "1"], ["2"]]
