"""The report of an archive that grows: sums of earlier runs, and the rows of the latest ones.

In: what a run wrote, what earlier runs left. Out: the report over the whole archive, and the sums
for the next run.

Tables of the report are made of sums (:mod:`kanalyze.batch.sums`), and every figure is that of all
rows. A finding compares rows with each other, in ways of its own, so it needs rows: those of the
latest runs, up to :data:`MAX_ROWS` and :data:`MAX_RUNS`, and at least those of this run. Findings
of earlier runs stay in the report as they were found. So a run takes the same time however many
there were before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from kanalyze.batch.commit import STAGING
from kanalyze.batch.engine import Past, report_on_files
from kanalyze.batch.run_plan import run_of
from kanalyze.batch.sums import (
    MAX_SLOWEST_KEPT,
    add_connections,
    dump_sums,
    load_sums,
    sums_database,
    sums_in,
    sums_of,
)
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kanalyze.batch.engine import Engine, ReportOptions
    from kanalyze.batch.shared_folder import SharedFolder
    from kanalyze.tables.quality import CaptureQuality

MAX_ROWS: Final = 100_000
"""Up to how many requests the latest runs may have that findings are searched in together."""
MAX_RUNS: Final = 24
"""How many runs at most: each has files in every table."""
_SUMMED: Final = ("requests", "connections")


class ArchiveFiles(NamedTuple):
    """The files with rows of an archive, as they will be when a run is committed."""

    out: SharedFolder
    earlier: Mapping[str, Sequence[str]]
    """Names of files of earlier runs, by table."""
    new: Mapping[str, Sequence[str]]
    """Names of those that the run has staged."""
    open: Mapping[str, Sequence[str]]
    """Names of those staged that the next run replaces."""

    def all_of(self, earlier: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Return the staged files with some of earlier runs."""
        return {
            table: sorted([*earlier[table], *self.new[table], *self.open[table]])
            for table in self.earlier
        }


def growing_report(
    engine: Engine,
    files: ArchiveFiles,
    previous: bytes | None,
    earlier_findings: Iterable[Mapping[str, Any]],
    quality: CaptureQuality,
    conditions: Mapping[str, Any],
    options: ReportOptions,
) -> tuple[dict[str, Any], bytes]:
    """Return the report over an archive, and the sums for the next run.

    Args:
        engine: runs tasks.
        files: the files of the archive.
        previous: the sums of earlier runs; None, or those of another version, if their rows have to
            be read again.
        earlier_findings: those of the last report.
        quality: the quality of the captures.
        conditions: the filter of the rows.
        options: which findings to search for, and what else to make of the report.
    """
    before = load_sums(previous)
    summed = _sum_up(engine, files.out, files.new)
    if before is None:
        summed += _sum_up(engine, files.out, files.earlier)
    report = partial(report_on_files, engine, files.out)
    parts = [part for part in (before, *map(load_sums, summed)) if part is not None]
    with sums_database(parts) as database:
        sums = dump_sums(sums_in(database))
        if options.make_page is not None or options.most_slowest > MAX_SLOWEST_KEPT:
            tables = files.all_of(files.earlier)
            return report(tables, quality, conditions, options, None), sums
        if files.open["connections"]:
            add_connections(database, files.out, files.open["connections"])
        latest = _latest(files.out, files)
        past = Past(database, None if latest == files.earlier else tuple(earlier_findings))
        return report(files.all_of(latest), quality, conditions, options, past), sums


def _sum_up(engine: Engine, out: SharedFolder, files: Mapping[str, Sequence[str]]) -> list[bytes]:
    """Sum up the rows of files, in as many tasks as these are worth."""
    if not any(files[table] for table in _SUMMED):
        return []
    sizes = {entry.name: entry.total_bytes for entry in out.files(STAGING)}
    total_bytes = sum(sizes.get(name, 0) for table in _SUMMED for name in files[table])
    count = min(engine.cores, 1 + total_bytes // _BYTES_A_TASK)
    groups = [{table: files[table][index::count] for table in _SUMMED} for index in range(count)]
    if count == 1:
        return [sums_of(out.location, groups[0])]
    return engine.run(sums_of, [(out.location, group) for group in groups])


_BYTES_A_TASK: Final = 16 << 20
"""Bytes of files that are worth a task: one takes 0.3 s besides."""


def _latest(folder: SharedFolder, files: ArchiveFiles) -> Mapping[str, Sequence[str]]:
    """Return the files of the latest of the earlier runs that findings are searched in."""
    by_run: dict[int, list[str]] = {}
    for name in files.earlier["requests"]:
        by_run.setdefault(run_of(name), []).append(name)
    room = MAX_ROWS - _rows(folder, files.new["requests"])
    first = 1
    for place, run in enumerate(sorted(by_run, reverse=True), start=2):
        room -= _rows(folder, by_run[run])
        if room < 0 or place > MAX_RUNS:
            first = run + 1
            break
    return {
        table: [name for name in names if run_of(name) >= first]
        for table, names in files.earlier.items()
    }


def _rows(folder: SharedFolder, names: Iterable[str]) -> int:
    """Return the number of rows of files, from their footers."""
    rows = 0
    for name in names:
        with folder.open_file(name) as file:
            rows += pq.read_metadata(file).num_rows
    return rows
