"""What the readers of captures said, put together: what one of them cannot know.

In: reports of captures, and of parts of captures. Out: what counts of them, which parts have to be
read again, and the segments of IP datagrams whose fragments were in several captures. Must not
know: who reads, nor Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.capture.splits import check_splits
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.spark.archive.partitioner import join_fragments
from kanalyze.spark.archive.shuffle_schema import Sent
from kanalyze.tables.anomalies import anomaly_row
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kanalyze.capture.splits import Split, SplitEnds
    from kanalyze.spark.archive.shuffle_schema import CaptureReport
    from kanalyze.tables.anomalies import AnomalyRow

__all__ = ["Readings", "parts_to_read_again", "without_parts"]


class Readings:
    """What all captures were like; complete when no part of them has to be read again."""

    def __init__(self, reports: Sequence[CaptureReport], buckets: int) -> None:
        """Put reports together; ``buckets`` is into how many parts connections are divided."""
        self.unreadable = {
            report.capture: report.unreadable for report in reports if report.unreadable is not None
        }
        """Captures that are left out, and why."""
        self.to_try_again = {
            report.capture
            for report in reports
            if report.unreadable is not None and not report.is_foreign
        }
        """Those of them that could not be read now."""
        counted, self.before = _counted(reports)
        counted.sort(key=_when)
        fragments = join_fragments([report.loose for report in counted], buckets)
        self.quality = CaptureQuality()
        """Of packets; those of connections are counted where they are rebuilt."""
        for report in [*counted, *(one for one in reports if one.unreadable is not None)]:
            self.quality.merge(report.quality)
        self.quality.merge(fragments.quality)
        self.joined = [
            Sent(
                block.bucket,
                block.first_key_ns,
                counted[index].file_time_ns,
                counted[index].capture,
                counted[index].part,
                block.first_packet,
                block.data,
            )
            for index, block in fragments.blocks
        ]
        """Segments that were put together of fragments in several captures."""
        self.anomaly_rows = [
            *(_left_out(name, reason) for name, reason in self.unreadable.items()),
            *(self._row(counted[index], anomaly) for index, anomaly in fragments.anomalies),
        ]
        """Captures that are left out, and datagrams that did not become whole."""

    def _row(self, report: CaptureReport, anomaly: Anomaly) -> AnomalyRow:
        before = self.before[report.capture, report.part]

        def place(number: int) -> tuple[str, int | None]:
            return report.capture, number + before

        return anomaly_row(anomaly, place=place)


def _left_out(capture: str, reason: str) -> AnomalyRow:
    anomaly = Anomaly(AnomalyKind.CAPTURE_UNREADABLE, detail=reason)
    return anomaly_row(anomaly)._replace(capture=capture)


def _when(report: CaptureReport) -> tuple[int, str, int]:
    return report.file_time_ns, report.capture, report.part


def _by_file(reports: Iterable[CaptureReport]) -> dict[str, list[CaptureReport]]:
    files: dict[str, list[CaptureReport]] = {}
    for report in reports:
        files.setdefault(report.capture, []).append(report)
    return files


def _ends(reports: Iterable[CaptureReport]) -> list[SplitEnds]:
    return [report.ends for report in reports if report.ends is not None]


def parts_to_read_again(reports: Sequence[CaptureReport]) -> list[Split]:
    """Return the parts of files that have to be read again."""
    again = []
    for file in _by_file(reports).values():
        ends = _ends(file)
        if len(ends) > 1 and len(ends) == len(file):
            split = check_splits(ends).again
            if split is not None:
                again.append(split)
    return again


def without_parts(reports: Sequence[CaptureReport], again: Sequence[Split]) -> list[CaptureReport]:
    """Leave out what was said of parts that are read again."""
    replaced = {(split.path, split.split_index) for split in again}
    return [
        report
        for report in reports
        if report.ends is None
        or (report.ends.split.path, report.ends.split.split_index) not in replaced
    ]


def _counted(
    reports: Sequence[CaptureReport],
) -> tuple[list[CaptureReport], dict[tuple[str, int], int]]:
    """Return the reports that count, and how many packets of its capture are before each part."""
    counted: list[CaptureReport] = []
    before: dict[tuple[str, int], int] = {}
    for capture, file in _by_file(reports).items():
        if any(report.unreadable is not None for report in file):
            continue
        ends = _ends(file)
        kept = check_splits(ends).kept if ends else []
        places = {end.split.split_index: index for index, end in enumerate(kept)}
        packets = 0
        for report in sorted(file, key=_index):
            if report.ends is not None and report.ends.split.split_index not in places:
                continue
            counted.append(report)
            before[capture, report.part] = packets
            packets += report.quality.packets
    return counted, before


def _index(report: CaptureReport) -> int:
    return 0 if report.ends is None else report.ends.split.split_index
