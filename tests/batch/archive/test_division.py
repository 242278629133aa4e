"""How captures are divided among tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.archive.division import buckets_for, shuffles, tasks_for
from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.io.stores import Stores
from tests.support.packets import pcap_file, segment, timed

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


PLAIN, COMPRESSED, REMOTE = "a.pcap", "a.pcapng.ZST", "s3://captures/a.pcap"


@pytest.mark.parametrize(
    ("name", "total_bytes", "cores", "buckets", "is_shuffled"),
    [
        (PLAIN, 0, 1, 1, False),
        (PLAIN, 1 << 50, 2, 2, False),
        ("file:///a.pcap", 1 << 50, 2, 2, False),
        (PLAIN, 0, 9, 9, False),
        (PLAIN, 0, 16, 16, False),
        (PLAIN, 0, 17, 34, True),
        (PLAIN, 40 << 30, 17, 160, True),
        (PLAIN, 1 << 50, 17, 512, True),
        *((name, 0, 1, 1, False) for name in (COMPRESSED, REMOTE)),
        *((name, 1 << 50, 2, 2, False) for name in (COMPRESSED, REMOTE)),
        *((name, 0, 3, 8, True) for name in (COMPRESSED, REMOTE)),
        *((name, 2560 * MIB, 4, 10, True) for name in (COMPRESSED, REMOTE)),
    ],
)
def test_number_of_buckets_and_choice_of_shuffling(
    name: str, total_bytes: int, cores: int, buckets: int, is_shuffled: bool
) -> None:
    captures = [FoundCapture(PLAIN), FoundCapture(name, total_bytes=total_bytes)]
    assert buckets_for(captures, cores) == buckets
    assert shuffles(captures, buckets) == is_shuffled


def test_small_files_are_read_by_few_tasks(tmp_path: Path) -> None:
    captures = []
    for index in range(40):
        file = tmp_path / f"{index:02}.pcap"
        file.write_bytes(pcap_file(timed([segment(payload=b"x" * 1000)] * 100)))
        captures.append(FoundCapture(str(file), total_bytes=file.stat().st_size))
    tasks = tasks_for(captures, Stores(), 64 * MIB, 2)
    assert 2 <= len(tasks) <= 8
    assert [split.path for task in tasks for split in task] == [
        capture.path for capture in captures
    ]


def test_a_large_file_is_read_by_several_tasks(tmp_path: Path) -> None:
    file = tmp_path / "large.pcap"
    file.write_bytes(pcap_file(timed([segment(payload=b"x" * 60_000)] * 100)))
    capture = FoundCapture(str(file), total_bytes=file.stat().st_size)
    assert [len(task) for task in tasks_for([capture], Stores(), MIB, 1)] == [1, 1]
    assert [len(task) for task in tasks_for([capture], Stores(), MIB, 2)] == [1, 1, 1, 1]
    # Parts of a size that the user wants are not smaller.
    assert [len(task) for task in tasks_for([capture], Stores(), 2 * MIB, 2)] == [1, 1]


def test_a_missing_file_is_left_for_a_task_to_report(tmp_path: Path) -> None:
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
    # One size is unknown, and one file cannot be opened: tasks will report on both.
    assert tasks(10, None, 200 * MIB) == [["0", "1"], ["2"]]
