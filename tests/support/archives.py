"""Captures cut into files, and the results of the tasks of an archive, without Spark."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from kanalyze.batch.archive.blocks import (
    from_arrow_stream,
    load_report,
)
from kanalyze.batch.archive.planning import ReadSummary, splits_to_reread, without_splits
from kanalyze.batch.archive.tasks import (
    Job,
    read_splits,
    rebuilding,
)
from kanalyze.batch.engine import other_tables
from kanalyze.batch.table_options import make_plan
from kanalyze.capture.splits import Split
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.spec.rows.requests import COLUMNS, ErrorItem, PartitionItem, Row
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import path
from tests.support.disorder.capture_files import read_packets
from tests.support.packets import Packet, pcap_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kanalyze.batch.archive.blocks import CaptureReport, Told


Sent: TypeAlias = Literal["written", "read again"]
"""How segments come to the task of their bucket: in files, or from captures once more."""
WAYS: Final[tuple[Sent, ...]] = get_args(Sent)
_A_FOLDER = "a folder"
"""Stands for a folder for blocks that :func:`rebuilt` makes."""


class Cut(NamedTuple):
    """A capture in several files."""

    files: list[str]
    """In the order of their packets, which is not that of their names."""
    first: list[int]
    """Number, in the capture, of the packet before each file's first one."""


def cut(name: str, count: int, folder: Path, seed: int = 1) -> Cut:
    """Cut a capture at random packets into ``count`` files, with names in random order."""
    packets = [
        Packet(one.data, one.time_ns, one.wire_bytes, one.link_type)
        for one in read_packets(path(name).read_bytes())
    ]
    noise = random.Random(f"{name} {count} {seed}")
    places = sorted(noise.sample(range(1, len(packets)), count - 1))
    starts, ends = [0, *places], [*places, len(packets)]
    names = noise.sample(range(10_000), count)
    files = []
    for number, start, end in zip(names, starts, ends, strict=True):
        file = folder / f"{number:04}.pcap"
        file.write_bytes(pcap_file(packets[start:end], link_type=packets[0].link_type))
        files.append(str(file))
    return Cut(files, starts)


def placed(rows: Iterable[Row], cut_files: Cut) -> list[Row]:
    """Return rows of the whole capture with the places of their packets in the files."""

    def place(number: int) -> tuple[str, int]:
        index = max(i for i, first in enumerate(cut_files.first) if first < number)
        return cut_files.files[index], number - cut_files.first[index]

    found = []
    for row in rows:
        asked = None if row.request_packet is None else place(row.request_packet)
        answered = None if row.response_packet is None else place(row.response_packet)
        capture = asked or answered
        found.append(
            row._replace(
                capture=capture[0] if capture else row.capture,
                request_packet=asked[1] if asked else None,
                response_packet=answered[1] if answered else None,
            )
        )
    return found


class Rebuilt(NamedTuple):
    """The results of an archive."""

    rows: list[Row]
    anomalies: list[AnomalyRow]
    quality: CaptureQuality
    states: dict[int, bytes]
    """The states of open connections, if the job keeps them."""
    names: dict[bytes, str]
    tables: dict[str, list[dict[str, object]]]
    """Rows of other tables, and of connections left open, by what tasks call them."""
    request_ids: list[int]


def a_job(
    buckets: int = 4,
    *,
    sent: Sent = "read again",
    folder: Path | str = _A_FOLDER,
    prunes_payload: bool = True,
    keeps_open: bool = False,
    run: int = 0,
    **options: str,
) -> Job:
    return Job(
        make_plan(options),
        buckets,
        prunes_payload,
        sends=sent == "written",
        others=other_tables(),
        run=run,
        keeps_open=keeps_open,
        block_folder=str(folder) if sent == "written" else None,
    )


def read_all(
    job: Job, files: Sequence[str], parts: int = 1
) -> tuple[list[Told], list[CaptureReport]]:
    """Read files, each in parts; return what tasks tell besides reports, in no order."""
    splits = [split for file in files for split in _divided(file, parts)]
    sent, reports = _read(job, list(enumerate(splits)))
    while again := splits_to_reread(reports):
        more, said = _read(job, list(enumerate(again, len(splits))))
        splits += again
        sent += more
        reports = [*without_splits(reports, again), *said]
    random.Random(1).shuffle(sent)
    return sent, reports


def _divided(file: str, parts: int) -> list[Split]:
    size = Path(file).stat().st_size
    places = [*(size * index // parts for index in range(parts)), None]
    return [
        Split(file, index, parts, places[index] or 0, places[index + 1], index == 0)
        for index in range(parts)
    ]


def _read(job: Job, parts: list[tuple[int, Split]]) -> tuple[list[Told], list[CaptureReport]]:
    # Some tasks read several parts, which need not be consecutive.
    dice = random.Random(len(parts))
    tasks: list[list[tuple[int, Split]]] = []
    for part in parts:
        if not tasks or dice.random() < 0.4:
            tasks.append([])
        tasks[-1].append(part)
    told = [one for task in tasks for one in read_splits(job, task)]
    reports = [load_report(one.data) for one in told if one.kind == "report"]
    return [one for one in told if one.kind != "report"], reports


def rebuilt(
    job: Job,
    files: Sequence[str],
    *,
    parts: int = 1,
    states: Mapping[int, bytes] = MappingProxyType({}),
    names: Mapping[bytes, str] | None = None,
) -> Rebuilt:
    """Rebuild files as an archive does; see :data:`Sent`."""
    if job.block_folder != _A_FOLDER:
        return _rebuilt_from(job, files, parts, states, names)
    with TemporaryDirectory() as folder:
        return _rebuilt_from(job._replace(block_folder=folder), files, parts, states, names)


def _rebuilt_from(
    job: Job,
    files: Sequence[str],
    parts: int,
    states: Mapping[int, bytes],
    names: Mapping[bytes, str] | None,
) -> Rebuilt:
    told, reports = read_all(job, files, parts)
    read_summary = ReadSummary(reports, job.buckets)
    anomalies = [*read_summary.anomaly_rows, *read_summary.retryable_rows]
    for one in told:
        if one.kind == "anomalies" and (one.capture, one.number) in read_summary.packets_before:
            before = read_summary.packets_before[one.capture, one.number]
            anomalies += [
                row if row.packet is None else row._replace(packet=row.packet + before)
                for row in load_report(one.data)
            ]
    groups = [group for one in told if one.kind == "groups" for group in load_report(one.data)]
    known = dict(names or {})
    while True:
        rebuild_buckets = rebuilding(job, read_summary, job.block_folder or "", groups)
        found = _run_of(_of_each_bucket(partial(rebuild_buckets, known), job, states))
        needed = {
            topic_id: found.names[topic_id] for topic_id in found.unnamed if topic_id in found.names
        }
        if not needed:
            break
        known.update(needed)
    quality = read_summary.quality
    quality.merge(read_summary.retryable_quality)
    quality.merge(found.quality)
    return found.found._replace(anomalies=[*anomalies, *found.found.anomalies], quality=quality)


class _Run(NamedTuple):
    found: Rebuilt
    quality: CaptureQuality
    names: dict[bytes, str]
    unnamed: set[bytes]


def _of_each_bucket(
    rebuild_buckets: Callable[[list[tuple[int, Any]]], Iterator[Told]],
    job: Job,
    states: Mapping[int, bytes],
) -> Iterator[Told]:
    for bucket in range(job.buckets):
        yield from rebuild_buckets([(bucket, states.get(bucket))])


def _run_of(all_told: Iterable[Told]) -> _Run:
    rows: list[Row] = []
    anomalies: list[AnomalyRow] = []
    states: dict[int, bytes] = {}
    tables: dict[str, list[dict[str, object]]] = {}
    request_ids: list[int] = []
    quality, names, unnamed = CaptureQuality(), {}, set()
    for kind, data, bucket, _ in all_told:
        if kind == "requests":
            for sent in from_arrow_stream(data):
                rows += rows_of(sent)
                request_ids += sent.column("request_id").to_pylist()
        elif kind == "anomalies":
            anomalies += _anomaly_rows(data)
        elif kind == "state":
            states[bucket] = data
        elif kind != "report":
            of_table = tables.setdefault(kind, [])
            of_table += [row for sent in from_arrow_stream(data) for row in sent.to_pylist()]
        else:
            report = load_report(data)
            quality.merge(report.quality)
            names.update(report.topic_names)
            unnamed |= report.unresolved_ids
    found = Rebuilt(rows, anomalies, quality, states, names, tables, request_ids)
    return _Run(found, quality, names, unnamed)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Turn Arrow rows into rows of ours."""
    found = []
    for values in batch.select([column.name for column in COLUMNS]).to_pylist():
        values["errors"] = [ErrorItem(**item) for item in values["errors"]]
        values["partitions"] = [PartitionItem(**item) for item in values["partitions"]]
        found.append(Row(**values))
    return found


def _anomaly_rows(data: bytes | memoryview) -> list[AnomalyRow]:
    names = [column.name for column in ANOMALY_COLUMNS]
    return [
        AnomalyRow(**{name: row[name] for name in names})
        for batch in from_arrow_stream(data)
        for row in batch.to_pylist()
    ]
