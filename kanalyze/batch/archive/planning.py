"""Divides the work of a job among tasks, and combines their reports, in the driver.

In: captures with their sizes; then reports of captures, of parts of captures, and of buckets. Out:
parts of captures for each task, a number of buckets; which captures are valid, which parts must be
read again, the segments of IP datagrams whose fragments are in several captures; and the combined
reports of all buckets.
"""

from __future__ import annotations

from itertools import count
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kanalyze.batch.archive.blocks import BlockFile, CapturePart, WrittenBlocks, sent_block
from kanalyze.batch.archive.partitioner import reassemble_fragments
from kanalyze.batch.history import SeenCapture, connections_of
from kanalyze.capture.inputs import FoundCapture, has_compressed_name, reading_order
from kanalyze.capture.io.stores import local_path
from kanalyze.capture.splits import Split, check_splits, plan_splits
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.tables.anomalies import anomaly_row
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from kanalyze.batch.archive.blocks import BlockGroup, BucketReport, CaptureReport
    from kanalyze.capture.io.stores import Stores
    from kanalyze.capture.splits import SplitEnds
    from kanalyze.spec.rows.anomalies import AnomalyRow

TASKS_A_CORE: Final = 2
"""More than one, as tasks take different times."""
_MAX_READINGS: Final = 4
"""How many tasks may read all captures, if these are plain files. CPU seconds of reading and of
making rows, by 1, 4, 5, 8 and 16 tasks that read all, then with segments in files: Java clients, 45
MB, 3.1, 3.4, 3.3, 3.5, 4.9, 3.5; large batches, 174 MB, 0.7, 1.6, 1.9, 2.4, 4.0, 1.9; small
requests, 45 MB, 0.8, 1.0, 1.0, 1.2, 2.0, 1.0. Files need as much disk as up to half of the
captures."""
_MAX_SLOW_READINGS: Final = 2
"""The same if a capture is compressed, or is read through a network."""
_MIN_BUCKETS: Final = 8
_MAX_BUCKETS: Final = 512
_BYTES_A_BUCKET: Final = 256 << 20
_MIN_BYTES_A_TASK: Final = 1 << 20
_MAX_BYTES_A_TASK: Final = 1 << 30
"""Messages that began before a task's first packet are not pruned. So few tasks are better, if
every core has some."""


def buckets_for(captures: Sequence[FoundCapture], cores: int) -> int:
    """Return the default number of buckets.

    One for each core, if so many tasks may read all captures: each reads all headers, and two for
    each core took no less time by the clock. Otherwise one for 256 MiB of captures, but at least
    two for each core; from 8 to 512.
    """
    if cores <= most_readings(captures):
        return cores
    total_bytes = sum(capture.total_bytes or 0 for capture in captures)
    count = max(total_bytes // _BYTES_A_BUCKET, TASKS_A_CORE * cores)
    return min(max(count, _MIN_BUCKETS), _MAX_BUCKETS)


def sends_segments(captures: Sequence[FoundCapture], buckets: int) -> bool:
    """Return true if segments are sent to the task of their bucket; else it reads all captures."""
    return buckets > most_readings(captures)


def most_readings(captures: Sequence[FoundCapture]) -> int:
    """Return how many tasks may read all captures."""
    return _MAX_READINGS if all(map(_is_plain_file, captures)) else _MAX_SLOW_READINGS


def _is_plain_file(capture: FoundCapture) -> bool:
    return local_path(capture.path) is not None and not has_compressed_name(capture.path)


def tasks_for(
    captures: Sequence[FoundCapture], stores: Stores, split_bytes: int, cores: int
) -> list[list[Split]]:
    """Divide captures among tasks.

    A task has up to 1 GiB of consecutive captures, or less if cores would be idle. A capture that
    is larger than that is divided, into parts of at least ``split_bytes``. A capture that cannot be
    opened is one part; the task that reads it reports why.
    """
    known_bytes = sum(capture.total_bytes or 0 for capture in captures)
    bytes_per_task = known_bytes // (TASKS_A_CORE * cores)
    task_bytes = min(max(bytes_per_task, _MIN_BYTES_A_TASK), _MAX_BYTES_A_TASK)
    tasks: list[list[Split]] = []
    room_bytes = 0
    for capture in captures:
        for split in _splits(capture, stores, max(split_bytes, task_bytes)):
            size = (capture.total_bytes or split_bytes) // split.split_count
            if not tasks or size > room_bytes:
                tasks.append([])
                room_bytes = task_bytes
            tasks[-1].append(split)
            room_bytes -= size
    return tasks


def _splits(capture: FoundCapture, stores: Stores, split_bytes: int) -> list[Split]:
    try:
        return plan_splits(capture, stores, split_bytes)
    except CaptureError:
        return [Split(capture.path, 0, 1, 0, None, True)]


def read_in_tasks(
    tasks: Sequence[Sequence[Split]],
    read: Callable[[list[list[tuple[int, Split]]]], Sequence[CaptureReport]],
    *,
    leaves_out_unreadable: bool,
) -> list[CaptureReport]:
    """Have tasks read captures, and return the reports for :class:`ReadSummary`.

    A part that began within a packet is read once more, from the packet's beginning.

    Args:
        tasks: the parts of captures that each task reads.
        read: runs tasks, given the parts that each of them reads, with their numbers; returns the
            reports of all parts.
        leaves_out_unreadable: whether captures that cannot be read are left out.

    Raises:
        CaptureError: a capture cannot be read, and must not be left out.
    """
    numbers = count()

    def numbered(splits: Sequence[Split]) -> list[tuple[int, Split]]:
        return [(next(numbers), split) for split in splits]

    reports = list(read([numbered(splits) for splits in tasks]))
    while splits := splits_to_reread(reports):
        new_reports = read([numbered([split]) for split in splits])
        reports = [*without_splits(reports, splits), *new_reports]
    unreadable = [report.unreadable for report in reports if report.unreadable is not None]
    if unreadable and not leaves_out_unreadable:
        raise CaptureError(unreadable[0])
    return reports


class ReadSummary:
    """The combined reports of all captures, after :func:`splits_to_reread` returns no part."""

    def __init__(
        self,
        reports: Sequence[CaptureReport],
        buckets: int,
        taken_before: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Combine reports.

        Args:
            reports: of all parts of captures.
            buckets: how many buckets there are.
            taken_before: how many packets of captures earlier jobs took, and counted all of it.
        """
        self._buckets = buckets
        self.unreadable = {
            report.capture: report.unreadable for report in reports if report.unreadable is not None
        }
        """Captures that are left out, and why."""
        self.retryable = {
            report.capture
            for report in reports
            if report.unreadable is not None and not report.is_foreign
        }
        """The unreadable captures that a later job may be able to read."""
        valid, self.packets_before = _valid(reports)
        valid.sort(key=_by_time)
        self.taken = _taken(valid, self.packets_before)
        """How many packets are taken of captures that go on for longer than the job."""
        self.captures = _captures(valid, self.taken)
        """The valid captures, by time; empty for a table of packets."""
        self.seen = [
            SeenCapture(report.capture, report.file_time_ns, connections_of(report.connections))
            for report in valid
            if report.connections is not None and report.quality.packets
        ]
        """The parts of valid captures that have packets, by time, if the job notes connections."""
        self.last_time_ns = max(
            (report.quality.last_time_ns or 0 for report in valid if report.quality.packets),
            default=None,
        )
        """When the last packet was captured."""
        self._parts = {
            report.part: CapturePart(
                *(report.capture, report.file_time_ns),
                self.packets_before[report.capture, report.part],
                taken_before.get(report.capture, 0) + 1,
                self.taken.get(report.capture),
            )
            for report in valid
        }
        # A datagram may be complete in the capture after one that ends, but not before that.
        ended = [report for report in valid if report.capture not in self.taken]
        fragments = reassemble_fragments([report.fragments for report in ended], buckets)
        self.quality = CaptureQuality()
        """Statistics of packets; those of connections are in the reports of buckets."""
        self.retryable_quality = CaptureQuality()
        """The same of captures that a later job may be able to read."""
        for report in [*valid, *(report for report in reports if report.unreadable is not None)]:
            if report.capture in taken_before and report.unreadable is None:
                continue
            is_retryable = report.capture in self.retryable
            (self.retryable_quality if is_retryable else self.quality).merge(report.quality)
        self.quality.merge(fragments.quality)
        self.topic_names: dict[bytes, str] = {}
        """Names of topics, by id, that were found when captures were read; there may be more."""
        for report in valid:
            self.topic_names.update(report.topic_names or {})
        self.keyed = [report.keyed for report in valid if report.keyed is not None]
        """Captures with secrets of TLS inside, by time."""
        self.reassembled = [
            sent_block(block, ended[index].file_time_ns, ended[index].capture, ended[index].part)
            for index, block in fragments.blocks
        ]
        """Blocks of segments that were reassembled from fragments in several captures."""
        left_out_rows = [_left_out(name, reason) for name, reason in self.unreadable.items()]
        self.anomaly_rows = [
            *(row for row in left_out_rows if row.capture not in self.retryable),
            *(self._row(ended[index], anomaly) for index, anomaly in fragments.anomalies),
        ]
        """Anomalies of captures that are left out, and of datagrams that stayed incomplete."""
        self.retryable_rows = [row for row in left_out_rows if row.capture in self.retryable]
        """Anomalies of captures that a later job may be able to read."""

    def written_blocks(self, location: str, groups: Iterable[BlockGroup]) -> WrittenBlocks:
        """Return the blocks of valid captures, and of :attr:`reassembled` segments, in files.

        Args:
            location: the folder of the files.
            groups: the groups that tasks wrote there; not for a table of packets.

        Raises:
            UsageError: the blocks of reassembled segments cannot be written there.
        """
        file = BlockFile(location, self._buckets)
        for block in self.reassembled:
            file.add(block)
        by_time = sorted([*groups, *file.finish()], key=attrgetter("first_key_ns"))
        return WrittenBlocks(location, by_time, self._parts)

    def _row(self, report: CaptureReport, anomaly: Anomaly) -> AnomalyRow:
        packets_before = self.packets_before[report.capture, report.part]

        def locate(number: int) -> tuple[str, int | None]:
            return report.capture, number + packets_before

        return anomaly_row(anomaly, locate=locate)


class RebuildSummary:
    """The combined reports of all buckets."""

    def __init__(self, reports: Sequence[BucketReport]) -> None:
        """Combine reports, in any order."""
        self.quality = CaptureQuality()
        """The quality of all connections."""
        self.open_quality = CaptureQuality()
        """The counts that would be added if all open connections were closed now; without
        anomalies, as the bytes that are missing may be in later captures."""
        self.closing = {
            report.bucket: report.open_quality
            for report in reports
            if report.open_quality.connections
        }
        """The same counts of each bucket with open connections, with anomalies."""
        self.closed = {
            report.bucket: report.closed for report in reports if report.closed is not None
        }
        """Buckets whose saved state could not be read, and why; their connections were closed."""
        self.topic_names: dict[bytes, str] = {}
        """Names of topics by id, including those known before."""
        self._unresolved: set[bytes] = set()
        for report in sorted(reports, key=lambda report: report.bucket):
            self.quality.merge(report.quality)
            self.open_quality.merge(report.open_quality)
            self.topic_names.update(report.topic_names)
            self._unresolved |= report.unresolved_ids
        self.open_quality.anomalies.clear()

    def missing_names(self, known_names: Container[bytes]) -> dict[bytes, str]:
        """Return names that rows of a bucket lack, although another bucket has them."""
        return {
            topic_id: self.topic_names[topic_id]
            for topic_id in self._unresolved
            if topic_id in self.topic_names and topic_id not in known_names
        }


def _left_out(capture: str, reason: str) -> AnomalyRow:
    anomaly = Anomaly(AnomalyKind.CAPTURE_UNREADABLE, detail=reason)
    return anomaly_row(anomaly)._replace(capture=capture)


def _by_time(report: CaptureReport) -> tuple[int, str, int]:
    return report.file_time_ns, report.capture, report.part


def _by_file(reports: Iterable[CaptureReport]) -> dict[str, list[CaptureReport]]:
    files: dict[str, list[CaptureReport]] = {}
    for report in reports:
        files.setdefault(report.capture, []).append(report)
    return files


def _ends(reports: Iterable[CaptureReport]) -> list[SplitEnds]:
    return [report.ends for report in reports if report.ends is not None]


def splits_to_reread(reports: Sequence[CaptureReport]) -> list[Split]:
    """Return the parts of files that have to be read again."""
    splits = []
    for file in _by_file(reports).values():
        ends = _ends(file)
        if len(ends) > 1 and len(ends) == len(file):
            split = check_splits(ends).again
            if split is not None:
                splits.append(split)
    return splits


def without_splits(
    reports: Sequence[CaptureReport], splits: Sequence[Split]
) -> list[CaptureReport]:
    """Return the reports, except of parts that are read again."""
    replaced = {(split.path, split.split_index) for split in splits}
    return [
        report
        for report in reports
        if report.ends is None
        or (report.ends.split.path, report.ends.split.split_index) not in replaced
    ]


def _valid(
    reports: Sequence[CaptureReport],
) -> tuple[list[CaptureReport], dict[tuple[str, int], int]]:
    """Return the valid reports, and the number of packets in its capture before each part."""
    valid: list[CaptureReport] = []
    packets_before: dict[tuple[str, int], int] = {}
    for capture, file in _by_file(reports).items():
        if any(report.unreadable is not None for report in file):
            continue
        ends = _ends(file)
        valid_ends = check_splits(ends).kept if ends else []
        valid_parts = {end.split.split_index: index for index, end in enumerate(valid_ends)}
        packets = 0
        for report in sorted(file, key=_split_index):
            if report.ends is not None and report.ends.split.split_index not in valid_parts:
                continue
            valid.append(report)
            packets_before[capture, report.part] = packets
            packets += report.quality.packets
    return valid, packets_before


def _taken(
    valid: Iterable[CaptureReport], packets_before: Mapping[tuple[str, int], int]
) -> dict[str, int]:
    """Return how many packets the job takes of the captures that it does not take whole."""
    taken: dict[str, int] = {}
    for report in sorted(valid, key=_split_index):
        if report.packets_in_time is not None:
            before = packets_before[report.capture, report.part]
            taken.setdefault(report.capture, before + report.packets_in_time)
    return taken


def _captures(valid: Iterable[CaptureReport], taken: Mapping[str, int]) -> list[FoundCapture]:
    """Return captures by time, each with the packets that the job takes of it."""
    captures: dict[str, FoundCapture] = {}
    for report in sorted(valid, key=_split_index):
        if report.ends is None:
            continue
        path, packets = report.ends.split.path, report.quality.packets
        capture = captures.get(path)
        if capture is not None:
            captures[path] = capture._replace(most_packets=(capture.most_packets or 0) + packets)
            continue
        first_ns = report.file_time_ns if packets else None
        captures[path] = FoundCapture(path, True, first_ns, most_packets=packets)
    for report in valid:
        if report.capture in taken and report.ends is not None:
            path = report.ends.split.path
            captures[path] = captures[path]._replace(most_packets=taken[report.capture])
    return sorted(captures.values(), key=reading_order)


def _split_index(report: CaptureReport) -> int:
    return 0 if report.ends is None else report.ends.split.split_index
