"""Turns an archive of captures into tables and a report, in atomic runs.

In: an engine, a plan of the rows, paths of captures and folders. Out: files, and the report.

Below the folder of the archive::

    requests/day=2026-01-31/hour=09/run-000001-00000.zstd.parquet   by the hour a request began
    connections/run-000001-00000.zstd.parquet        likewise anomalies/, groups/, metadata/
    report.json                                      as ``kanalyze report --json`` writes it
    .kanalyze/                                       for this program: the record of the last run

Without a checkpoint each run reads all captures, and its rows replace those of the run before. With
a checkpoint the archive grows: a run reads new captures, and continues the connections that the
last run left open. Many captures are read in steps, each of which is committed as a run, so a load
that dies goes on after the last one (:mod:`kanalyze.batch.steps`). If captures of the same
connections come late, or a capture has grown, the runs of their hour and later ones are undone, and
their captures are read again (:mod:`kanalyze.batch.history`). The rows of connections that are
still open are in ``connections/open-000001-00000.zstd.parquet``, which the next run replaces. In
``anomalies/`` a file of this kind has the captures that the next run tries to read again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kanalyze.batch.archive.planning import buckets_for, sends_segments, tasks_for
from kanalyze.batch.archive.segment_readers import name_in_rows
from kanalyze.batch.archive.table_files import (
    ARCHIVE_TABLES,
    WrittenFile,
    merge_files,
    small_files,
)
from kanalyze.batch.archive.tasks import Job
from kanalyze.batch.archive_report import MAX_RUNS, ArchiveFiles, growing_report
from kanalyze.batch.checkpoint import Checkpoint, Cut
from kanalyze.batch.commit import STAGING, Commit, Commits, only_run
from kanalyze.batch.engine import ReportOptions, other_tables, report_on_files
from kanalyze.batch.history import Stretch, run_before, stretch_of_late, with_run
from kanalyze.batch.rebuild import CapturesRead, saved_states
from kanalyze.batch.run_plan import (
    OPEN_PREFIXES,
    captures_text,
    options_of,
    plan_run,
    run_of,
)
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.batch.spans import SENDS_SPANS, CommittedSpans
from kanalyze.batch.steps import BYTES_A_CORE, StartTimes, first_step, rereads_much
from kanalyze.capture.io.stores import Stores
from kanalyze.errors import KanalyzeError
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.render.json import summary_json
from kanalyze.tables.anomalies import anomaly_row
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.batch.archive.planning import ReadSummary, RebuildSummary
    from kanalyze.batch.engine import Engine
    from kanalyze.batch.read_plan import ReadPlan
    from kanalyze.batch.rebuild import Rebuilt
    from kanalyze.batch.run_plan import InputFile, RunPlan, Settings
    from kanalyze.spec.rows.anomalies import AnomalyRow

REPORT: Final = "report.json"


class NoNewCapturesError(KanalyzeError):
    """A run that follows others has nothing to read."""


def run_batch(
    engine: Engine,
    plan: ReadPlan,
    settings: Settings,
    *,
    warn: Callable[[str], None],
    report_phase: Callable[[str], None],
    options: ReportOptions | None = None,
    spans: CommittedSpans | None = None,
) -> dict[str, Any]:
    """Run a batch, and return the report over the whole archive.

    Args:
        engine: runs the tasks.
        plan: which rows; its captures are those of the settings.
        settings: the captures, the folders, and how the work is divided.
        warn: is called with warnings of one line.
        report_phase: is called with a few words when a phase begins.
        options: which findings the report searches for, and what else is made of it.
        spans: sends the requests of each step after its commit; None to send none.

    Raises:
        KanalyzeError: the run failed. Either no file of the archive has changed, or the run was
            committed, and the next run completes it.
        NoNewCapturesError: there is nothing to read, and the settings are those of a run that
            follows others.
        SpansNotSentError: spans of a committed run were not sent.
    """
    out = SharedFolder(settings.out)
    with only_run(out):
        commits = Commits(out)
        if commits.completed and commits.last is not None:
            warn(f"{out.shown}: run {commits.last.run} had been interrupted, and is complete now")
        if spans is not None and not settings.replace:
            spans.resume(out, commits.last)
        run = plan_run(plan, settings, out, commits, warn)
        if not run.is_needed:
            if settings.follows:
                raise NoNewCapturesError("no new captures")
            warn("no new captures")
        report_options = ReportOptions() if options is None else options
        batch = _BatchRun(
            engine, plan, settings, run, out, warn, report_phase, report_options, spans
        )
        if not run.is_needed:
            return batch.last_report()
        advice = engine.advice(sum(file.total_bytes or 0 for file in run.files))
        if advice is not None:
            warn(advice)
        return _in_steps(batch, commits)


def _in_steps(batch: _BatchRun, commits: Commits) -> dict[str, Any]:
    """Commit one step after another; return the report of the last one."""
    starts, said = StartTimes(), set[str]()
    step_bytes = batch.settings.step_bytes or BYTES_A_CORE * batch.engine.cores

    def warn_once(text: str) -> None:
        if text not in said:
            said.add(text)
            batch.warn(text)

    while True:
        last_commit = commits.last
        try:
            report = batch.execute(commits, starts, step_bytes)
        except (KanalyzeError, OSError, MemoryError, KeyboardInterrupt):
            if commits.last == last_commit:
                commits.discard()
            raise
        if report is not None:
            return report
        settings = batch.settings._replace(replace=False)
        run = plan_run(batch.plan, settings, batch.out, commits, warn_once)
        batch = replace(batch, settings=settings, run=run)


@dataclass(frozen=True)
class _BatchRun:
    """A run of a batch."""

    engine: Engine
    plan: ReadPlan
    settings: Settings
    run: RunPlan
    out: SharedFolder
    warn: Callable[[str], None]
    report_phase: Callable[[str], None]
    options: ReportOptions
    spans: CommittedSpans | None

    def last_report(self) -> dict[str, Any]:
        """Return the report that the last run wrote; with options of a report, make a new one."""
        previous = self.run.previous
        is_enough = previous is not None and self.options == ReportOptions()
        data = self.out.read(REPORT) if is_enough else None
        report = None if data is None else _report_in(data)
        if report is not None:
            return report
        quality = CaptureQuality() if previous is None else previous.whole_quality
        return self._report_of_rows(self._files([]), quality)

    def execute(
        self, commits: Commits, starts: StartTimes, step_bytes: int
    ) -> dict[str, Any] | None:
        """Read, rebuild, write and commit the next step: the earliest captures, of some bytes.

        Returns the report; None if there are more steps.
        """
        step = replace(self, run=first_step(self.run, step_bytes, starts)) if self._grows else self
        job = step._job()
        captures = [file.capture for file in step.run.files]
        tasks = tasks_for(captures, Stores(), self.settings.split_bytes, self.engine.cores)
        self.report_phase(f"reading {captures_text(len(captures))} in {len(tasks)} tasks")
        again: RunPlan | None = None
        with self.engine.scratch(f"{self.out.location}/{STAGING}") as scratch:
            captured = CapturesRead(self.engine, job._replace(block_folder=scratch), tasks)
            read = captured.read_summary
            is_too_small = step.run != self.run and rereads_much(step.run, read)
            if not is_too_small:
                again = step._read_again(read)
                if again is None:
                    return step._rebuild(captured, job, commits)
        if again is None:
            return self.execute(commits, starts, 2 * step_bytes)
        return replace(self, run=again).execute(commits, starts, step_bytes)

    @property
    def _grows(self) -> bool:
        return self.run.checkpoint_folder is not None

    def _rebuild(self, captured: CapturesRead, job: Job, commits: Commits) -> dict[str, Any] | None:
        previous, folder = self.run.previous, self.run.checkpoint_folder
        self._warn_unreadable(captured.read_summary)
        self.report_phase(f"rebuilding connections in {job.buckets} parts")
        saved, names, states = {}, {}, ""
        if folder is not None:
            if previous is not None and not previous.is_finished:
                saved = saved_states(folder.location, [name for name, _ in previous.states])
                names = previous.names
            folder.own(self.run.archive, self.out.url)
            states = folder.begin(self.run.run)
        changed_rows = [_changed_row(file, self.run) for file in self.run.changed]
        rebuilt = captured.rebuild(saved, names, states, changed_rows)
        return self._commit_rows(captured, rebuilt, job, commits)

    def _read_again(self, read: ReadSummary) -> RunPlan | None:
        """Return a run that reads earlier captures again, as these come late; None if none do."""
        previous = self.run.previous
        if previous is None or previous.is_finished:
            return None
        begun = self._taken_before
        seen = [capture for capture in read.seen if capture.capture not in begun]
        index = stretch_of_late(previous.history, seen)
        if index is None:
            return None
        again = self.run.from_earlier(run_before(previous.history, index))
        if again is None:
            self.warn(
                "captures begin before the end of others with the same connections, which are "
                "gone, or too old to be read again: their packets may be reported as lost or as "
                "captured twice"
            )
        else:
            count = captures_text(len(again.files) - len(self.run.files))
            self.warn(f"captures come late: read again with them: {count} of earlier runs")
        return again

    def _job(self) -> Job:
        previous = self.run.previous
        is_last = self.run.until_ns is None and (
            self.settings.finish or (previous is not None and previous.is_finished)
        )
        captures = [file.capture for file in self.run.files]
        if previous is None:
            buckets = self.settings.buckets or buckets_for(captures, self.engine.cores)
        else:
            buckets = previous.buckets
        return Job(
            self.plan,
            buckets,
            prunes_payload=True,
            sends=sends_segments(captures, buckets),
            others=other_tables(),
            run=self.run.run,
            keeps_open=self._grows and not is_last,
            until_ns=self.run.until_ns,
            taken_before=self._taken_before,
            notes_connections=self._grows,
            folder=str(Path.cwd()),
            staging=f"{self.out.location}/{STAGING}",
        )

    @property
    def _taken_before(self) -> dict[str, int]:
        """How many packets of captures the step before took, by their names in rows."""
        begun, files = self.run.begun, self.run.by_name.items()
        return {name: begun[file.identity] for name, file in files if file.identity in begun}

    def _warn_unreadable(self, summary: ReadSummary) -> None:
        unreadable = list(summary.unreadable.values())
        if unreadable:
            self.warn(f"left out: {captures_text(len(unreadable))}, such as {unreadable[0]}")

    def _warn_closed(self, summary: RebuildSummary) -> None:
        previous = self.run.previous
        if previous is None or not summary.closed:
            return
        reason = min(summary.closed.values())
        connections = sum(
            previous.closing[bucket].connections
            for bucket in summary.closed
            if bucket in previous.closing
        )
        text = "1 connection" if connections == 1 else f"{connections:,} connections"
        self.warn(
            f"{text} that run {previous.run} left open could not be continued, and "
            f"{'is' if connections == 1 else 'are'} closed: {reason}"
        )

    def _commit_rows(
        self, captured: CapturesRead, rebuilt: Rebuilt, job: Job, commits: Commits
    ) -> dict[str, Any] | None:
        moved = self._moved(rebuilt.files)
        self._warn_closed(rebuilt.summary)
        checkpoint = self._checkpoint(captured.read_summary, rebuilt.summary, job)
        self.report_phase("summing up")
        summary, sums = self._report(checkpoint.whole_quality, moved)
        self.out.write(f"{STAGING}/{REPORT}", summary_json(summary).encode("ascii"))
        moved.append((f"{STAGING}/{REPORT}", REPORT))
        folder = self.run.checkpoint_folder
        if folder is not None:
            folder.write(checkpoint, rebuilt.states, sums)
        merged, replaced = self._merged_small(checkpoint)
        commit = self._commit([*moved, *merged], [*self.run.removed, *replaced])
        commits.commit(commit)
        if folder is not None:
            folder.keep_only(checkpoint)
        if self.spans is not None:
            self.spans.send(self.out, commit)
        return summary if self.run.until_ns is None else None

    def _checkpoint(self, read: ReadSummary, rebuilt: RebuildSummary, job: Job) -> Checkpoint:
        """Return the state of the archive after this run."""
        previous = self.run.previous
        names, quality = dict(rebuilt.topic_names), CaptureQuality()
        if previous is not None:
            names = {**previous.names, **names}
            quality.merge(previous.quality)
            for bucket in rebuilt.closed:
                quality.merge(previous.closing.get(bucket, CaptureQuality()))
        quality.merge(read.quality)
        quality.merge(rebuilt.quality)
        open_quality = CaptureQuality()
        open_quality.merge(rebuilt.open_quality)
        # The next run reads these captures again, and counts them if that fails.
        (open_quality if job.keeps_open else quality).merge(read.retryable_quality)
        if self.run.changed:
            quality.count_anomaly(AnomalyKind.CAPTURE_UNREADABLE, count=len(self.run.changed))
        # Captures that could not be opened now are new again in the next run.
        by_name = self.run.by_name
        retryable = {by_name[name].identity for name in read.retryable}
        return Checkpoint(
            run=self.run.run,
            archive=self.run.archive,
            buckets=job.buckets,
            is_finished=not job.keeps_open,
            options=options_of(self.plan),
            read={name: size for name, size in self.run.read.items() if name not in retryable},
            names=names,
            quality=quality,
            open_quality=open_quality,
            closing=rebuilt.closing if job.keeps_open else {},
            history=self._history(read) if job.keeps_open else [],
            cut=self._cut(read),
        )

    def _cut(self, read: ReadSummary) -> Cut | None:
        """Return where this step ends; None if it takes all."""
        if self.run.until_ns is None:
            return None
        by_name = self.run.by_name
        taken = {by_name[name].identity: packets for name, packets in read.taken.items()}
        return Cut(self.run.until_ns, taken)

    def _history(self, read: ReadSummary) -> list[Stretch]:
        """Return what was read lately, after this run."""
        previous = self.run.previous
        history = [] if previous is None else previous.history
        first_ns, last_ns = read.quality.first_time_ns, read.last_time_ns
        if self.run.begun and self.run.cut_before is not None:
            first_ns = min(first_ns or self.run.cut_before.time_ns, self.run.cut_before.time_ns)
        if first_ns is None or last_ns is None:
            return history
        if self.run.until_ns is not None:
            last_ns = min(last_ns, self.run.until_ns)
        starts: dict[str, int] = {}
        for seen in read.seen:
            starts.setdefault(seen.capture, seen.first_ns)
        files = {file.identity: starts.get(name_in_rows(file.path)) for file in self.run.files}
        connections = reduce(or_, (seen.connections for seen in read.seen), 0)
        before = 0 if previous is None else previous.run
        return with_run(history, Stretch(before, first_ns, last_ns, connections, files))

    def _report(
        self, quality: CaptureQuality, moved: Sequence[tuple[str, str]]
    ) -> tuple[dict[str, Any], bytes | None]:
        """Return the report on all rows, and what the next run needs to know of them."""
        files = self._files(moved)
        if not self._grows:
            return self._report_of_rows(files, quality), None
        options = self.options
        if self.run.until_ns is not None:
            # The page is that of the last step.
            options = options._replace(make_page=None)
        last_report = _report_in(self.out.read(REPORT) or b"") or {}
        return growing_report(
            *(self.engine, files, self._last_sums(), last_report.get("findings", ())),
            *(quality, self.plan.row_filter.conditions, options),
        )

    def _last_sums(self) -> bytes | None:
        previous, folder = self.run.previous, self.run.checkpoint_folder
        return None if previous is None or folder is None else folder.sums(previous.run)

    def _report_of_rows(self, files: ArchiveFiles, quality: CaptureQuality) -> dict[str, Any]:
        tables = files.all_of(files.earlier)
        conditions = self.plan.row_filter.conditions
        return report_on_files(
            *(self.engine, self.out, tables, quality, conditions, self.options, None)
        )

    def _files(self, moved: Sequence[tuple[str, str]]) -> ArchiveFiles:
        """Return the files with rows as they will be when this run is committed."""
        removed = {*self.run.removed}
        earlier: dict[str, list[str]] = {}
        new: dict[str, list[str]] = {}
        continued: dict[str, list[str]] = {}
        for table in ARCHIVE_TABLES:
            kept = (name for name in self.run.rows if name not in removed)
            earlier[table] = sorted(name for name in kept if name.startswith(f"{table}/"))
            staged = [(old, name) for old, name in moved if name.startswith(f"{table}/")]
            is_open = tuple(OPEN_PREFIXES.values())
            new[table] = [old for old, name in staged if not name.startswith(is_open)]
            continued[table] = [old for old, name in staged if name.startswith(is_open)]
        return ArchiveFiles(self.out, earlier, new, continued)

    def _moved(self, staged: Sequence[WrittenFile]) -> list[tuple[str, str]]:
        """Return the staged file and the final name of each file with rows of this run."""
        moved = []
        counts = dict.fromkeys((file.table for file in staged), 0)
        for file in sorted(staged):
            folder = file.name.rpartition("/")[0]
            prefix = OPEN_PREFIXES.get(file.table, f"{folder}/run-")
            name = f"{prefix}{self.run.run:06}-{counts[file.table]:05}.zstd.parquet"
            moved.append((f"{STAGING}/{file.name}", name))
            counts[file.table] += 1
        return moved

    def _merged_small(self, checkpoint: Checkpoint) -> tuple[list[tuple[str, str]], list[str]]:
        """Merge the small files of each hour of requests, as far as they stay.

        Returns the merged files with their final names, and those that they replace. Runs that late
        captures may undo, and those whose rows are searched for findings, keep files of their own.
        """
        if not self.settings.merges_small:
            return [], []
        undone = [one.before for one in checkpoint.history if one.before is not None]
        last = min([*undone, self.run.run - MAX_RUNS])
        kept = {*self.run.rows} - {*self.run.removed}
        groups = small_files(
            WrittenFile("requests", file.name, 0, file.total_bytes)
            for file in self.out.files("requests")
            if file.name in kept and run_of(file.name) <= last
        )
        arguments = [(self.out.location, group, STAGING) for group in groups]
        moved = []
        merged = self.engine.run(merge_files, arguments)
        for index, (group, file) in enumerate(zip(groups, merged, strict=True)):
            folder, run = group[0].name.rpartition("/")[0], max(run_of(one.name) for one in group)
            name = f"{folder}/run-{run:06}-{self.run.run:06}-{index:05}.zstd.parquet"
            moved.append((file.name, name))
        return moved, [file.name for group in groups for file in group]

    def _commit(self, moved: Sequence[tuple[str, str]], removed: list[str]) -> Commit:
        has_checkpoint = self.run.checkpoint_folder is not None
        about = {
            "archive": self.run.archive,
            "has_checkpoint": has_checkpoint,
            SENDS_SPANS: self.spans is not None,
            "captures": [] if has_checkpoint else [file.identity for file in self.run.files],
        }
        return Commit(self.run.run, list(moved), removed, about)


def _report_in(data: bytes) -> dict[str, Any] | None:
    """Return the report that a run wrote; None if the file is damaged."""
    try:
        report = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) else None


def _changed_row(file: InputFile, run: RunPlan) -> AnomalyRow:
    assert run.previous is not None, "it was read before"
    name = name_in_rows(file.path)
    old = run.previous.read[file.identity]
    detail = f"{name}: has changed since it was read ({old} B then, {file.total_bytes} B now)"
    anomaly = Anomaly(AnomalyKind.CAPTURE_UNREADABLE, detail=f"{detail}: left out")
    return anomaly_row(anomaly)._replace(capture=name)
