"""How captures are divided among tasks.

The reports of tasks that read captures are put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.archive.blocks import CaptureReport
from kanalyze.batch.archive.partitioner import UnmatchedFragment
from kanalyze.batch.archive.planning import (
    ReadSummary,
    buckets_for,
    read_in_tasks,
    sends_segments,
    splits_to_reread,
    tasks_for,
    without_splits,
)
from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.splits import Split, SplitEnds
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.tables.quality import CaptureQuality
from tests.batch.archive.test_partitioner import fragments_of
from tests.support.packets import START_NS, pcap_file, segment, timed

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


PLAIN, COMPRESSED, REMOTE = "a.pcap", "a.pcapng.ZST", "s3://captures/a.pcap"


@pytest.mark.parametrize(
    ("name", "total_bytes", "cores", "buckets", "is_sent"),
    [
        (PLAIN, 0, 1, 1, False),
        (PLAIN, 1 << 50, 2, 2, False),
        ("file:///a.pcap", 1 << 50, 2, 2, False),
        (PLAIN, 0, 4, 4, False),
        (PLAIN, 0, 5, 10, True),
        (PLAIN, 40 << 30, 17, 160, True),
        (PLAIN, 1 << 50, 17, 512, True),
        *((name, 0, 1, 1, False) for name in (COMPRESSED, REMOTE)),
        *((name, 1 << 50, 2, 2, False) for name in (COMPRESSED, REMOTE)),
        *((name, 0, 3, 8, True) for name in (COMPRESSED, REMOTE)),
        *((name, 2560 * MIB, 4, 10, True) for name in (COMPRESSED, REMOTE)),
    ],
)
def test_number_of_buckets_and_choice_of_sending(
    name: str, total_bytes: int, cores: int, buckets: int, is_sent: bool
) -> None:
    captures = [FoundCapture(PLAIN), FoundCapture(name, total_bytes=total_bytes)]
    assert buckets_for(captures, cores) == buckets
    assert sends_segments(captures, buckets) == is_sent


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


def report_of_part(
    part: int, index: int, ends: tuple[int, int], packets: int, *, broken: bool = False
) -> CaptureReport:
    """The report on one third of a file of 300 bytes."""
    split = Split("a.pcap", index, 3, 100 * index, 100 * index + 100, index == 0)
    quality = CaptureQuality(["a.pcap"])
    quality.packets = packets
    return CaptureReport(
        part, "a.pcap", 10 * index, quality, [], SplitEnds(split, *ends, packets, broken), None
    )


def report_of_file(
    part: int, name: str, unmatched: list[UnmatchedFragment], time_ns: int = 0
) -> CaptureReport:
    return CaptureReport(part, name, time_ns, CaptureQuality([name]), unmatched, None, None)


def report_of_unreadable(name: str, reason: str, *, is_foreign: bool = True) -> CaptureReport:
    quality = CaptureQuality()
    quality.count_anomaly(AnomalyKind.CAPTURE_UNREADABLE)
    return CaptureReport(0, name, 0, quality, [], None, reason, is_foreign)


def test_packets_are_counted_before_each_part() -> None:
    reports = [
        report_of_part(2, 2, (230, 300), 7),
        report_of_part(0, 0, (24, 110), 5),
        report_of_part(1, 1, (110, 230), 6),
    ]
    assert splits_to_reread(reports) == []
    read_summary = ReadSummary(reports, 4)
    assert read_summary.packets_before == {("a.pcap", 0): 0, ("a.pcap", 1): 5, ("a.pcap", 2): 11}
    assert read_summary.quality.packets == 18
    assert read_summary.quality.captures == ["a.pcap"]


def test_a_part_that_began_at_a_wrong_offset_is_read_again() -> None:
    reports = [
        report_of_part(0, 0, (24, 110), 5),
        report_of_part(1, 1, (130, 230), 6),
        report_of_part(2, 2, (230, 300), 7),
    ]
    (again,) = splits_to_reread(reports)
    assert (again.split_index, again.start, again.is_exact) == (1, 110, True)

    reports = [*without_splits(reports, [again]), report_of_part(3, 1, (110, 230), 8)]
    assert splits_to_reread(reports) == []
    read_summary = ReadSummary(reports, 4)
    assert read_summary.packets_before == {("a.pcap", 0): 0, ("a.pcap", 3): 5, ("a.pcap", 2): 13}
    assert read_summary.quality.packets == 20


def test_parts_are_numbered_in_the_order_in_which_tasks_read_them() -> None:
    ends = {0: (24, 110), 1: (130, 230), 2: (230, 300), 3: (110, 230)}
    tasks_run = []

    def read(groups: list[list[tuple[int, Split]]]) -> list[CaptureReport]:
        tasks_run.append([[part for part, _ in group] for group in groups])
        return [
            report_of_part(part, split.split_index, ends[part], 5)
            for group in groups
            for part, split in group
        ]

    splits = [Split("a.pcap", index, 3, 100 * index, 100 * index + 100, True) for index in range(3)]
    reports = read_in_tasks([splits[:2], splits[2:]], read, leaves_out_unreadable=False)
    assert tasks_run == [[[0, 1], [2]], [[3]]]
    assert sorted(report.part for report in reports) == [0, 2, 3]


def test_a_capture_that_cannot_be_read_is_an_error_unless_it_is_left_out() -> None:
    reports = [report_of_unreadable("b.pcap", "b.pcap: is no capture")]
    assert read_in_tasks([], lambda _: reports, leaves_out_unreadable=True) == reports
    with pytest.raises(CaptureError, match=r"^b\.pcap: is no capture$"):
        read_in_tasks([], lambda _: reports, leaves_out_unreadable=False)


def test_parts_after_a_broken_one_do_not_count() -> None:
    reports = [
        report_of_part(0, 0, (24, 110), 5),
        report_of_part(1, 1, (110, 180), 3, broken=True),
        report_of_part(2, 2, (210, 300), 7),
    ]
    read_summary = ReadSummary(reports, 4)
    assert set(read_summary.packets_before) == {("a.pcap", 0), ("a.pcap", 1)}
    assert read_summary.quality.packets == 8


def test_an_unreadable_capture_is_reported() -> None:
    read_summary = ReadSummary(
        [report_of_file(0, "a", []), report_of_unreadable("b", "b: is no capture")], 4
    )
    assert read_summary.unreadable == {"b": "b: is no capture"}
    assert set(read_summary.packets_before) == {("a", 0)}
    (row,) = read_summary.anomaly_rows
    assert (row.kind, row.stage, row.capture, row.detail) == (
        "capture_unreadable",
        "capture",
        "b",
        "b: is no capture",
    )
    assert read_summary.quality.captures == ["a"]
    assert read_summary.quality.anomalies[AnomalyKind.CAPTURE_UNREADABLE].count == 1


def test_captures_with_read_errors_may_be_read_later() -> None:
    reports = [
        report_of_unreadable("a", "a: is no capture"),
        report_of_unreadable("b", "b: I/O", is_foreign=False),
    ]
    read_summary = ReadSummary(reports, 4)
    assert read_summary.retryable == {"b"}
    assert [row.capture for row in read_summary.anomaly_rows] == ["a"]
    assert [row.capture for row in read_summary.retryable_rows] == ["b"]
    for quality in (read_summary.quality, read_summary.retryable_quality):
        assert quality.anomalies[AnomalyKind.CAPTURE_UNREADABLE].count == 1


def test_a_file_with_an_unreadable_part_does_not_count() -> None:
    broken = report_of_part(1, 1, (110, 230), 6)._replace(ends=None, unreadable="a.pcap: gone")
    read_summary = ReadSummary(
        [report_of_part(0, 0, (24, 110), 5), broken, report_of_part(2, 2, (230, 300), 7)], 4
    )
    assert read_summary.packets_before == {}
    assert read_summary.quality.packets == 0
    assert read_summary.retryable_quality.packets == broken.quality.packets
    assert list(read_summary.unreadable) == ["a.pcap"]


def test_fragments_of_two_captures_are_reassembled() -> None:
    parts = fragments_of(b"0123456789" * 10)
    unmatched = [
        UnmatchedFragment(START_NS + at, START_NS + at, 1 + at, len(data), 1, data)
        for at, data in enumerate(parts)
    ]
    # Captures are ordered by time, not by the order of reports.
    later, earlier = (
        report_of_file(1, "b", unmatched[2:], START_NS + 2),
        report_of_file(0, "a", unmatched[:2], START_NS),
    )
    read_summary = ReadSummary([later, earlier], 4)
    ((sent),) = read_summary.reassembled
    assert (sent.capture, sent.part, sent.first_packet) == ("b", 1, 3)
    assert read_summary.anomaly_rows == []
    alone = ReadSummary([earlier], 4)
    assert alone.reassembled == []
    (row,) = alone.anomaly_rows
    assert (row.kind, row.capture, row.packet) == ("ip_fragment", "a", 1)
    assert alone.quality.lost_datagrams == 1
