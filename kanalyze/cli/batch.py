"""``kanalyze batch``."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from kanalyze.cli.analyze import filters_of, names_in, worker_count, zone_named_in
from kanalyze.cli.console import print_message
from kanalyze.cli.progress import Progress, progress_of
from kanalyze.cli.report import (
    ReportLayout,
    check_order,
    finding_settings,
    most_slowest,
    show_report,
    write_report,
)
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.queries.report_names import add_names
from kanalyze.spark.session import check_packages, start

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from kanalyze.batch.engine import Engine, ReportOptions
    from kanalyze.batch.read_plan import ReadPlan
    from kanalyze.batch.run_plan import Settings
    from kanalyze.common.zones import Zone
    from kanalyze.queries.database import Database
    from kanalyze.tables.names import AddressNames

TasksDone: TypeAlias = "Callable[[], tuple[int, int] | None]"
"""Returns how many tasks are done, and how many there are; None if nothing runs."""

_Run: TypeAlias = (
    "Callable[[ReadPlan, Settings, ReportOptions, Callable[[str], None]], dict[str, Any]]"
)
"""Runs a batch, given what warns; returns the report."""

_TASKS = "tasks"


def batch(arguments: argparse.Namespace) -> None:
    """Turn captures into tables and a report; raises KanalyzeError and OSError."""
    from kanalyze.batch.table_formats import check_table_format

    _check_engine(arguments)
    check_table_format(arguments.table_format, arguments.out)
    # Wrong arguments are reported before Spark is started, which takes seconds.
    plan, settings, options = _plan(arguments), _settings(arguments), _report_options(arguments)
    show = _show_function(arguments)
    if arguments.follow is None:
        with _outputs(arguments, options) as options:
            summarize = partial(_run, arguments, plan, settings, options)
            write_report(arguments.json, partial(_named, arguments, summarize), show)
        return
    with _runs(arguments) as run:
        _follow(arguments, settings, options, run, show)


def _follow(
    arguments: argparse.Namespace,
    settings: Settings,
    options: ReportOptions,
    run: _Run,
    show: Callable[[dict[str, Any]], None] | None,
) -> None:
    """Run again and again; only a signal or an error ends it."""
    from kanalyze.batch.run import NoNewCapturesError
    from kanalyze.batch.spans import SpansNotSentError

    warned: set[str] = set()
    while True:
        new_warnings: set[str] = set()

        def warn_once(text: str, new: set[str] = new_warnings, old: set[str] = warned) -> None:
            """Print what the run before did not say already."""
            new.add(text)
            if text not in old:
                print_message(text)

        # A key log grows while captures are written.
        plan = _plan(arguments)
        try:
            with suppress(NoNewCapturesError), _outputs(arguments, options) as options_now:
                summarize = partial(run, plan, settings, options_now, warn_once)
                write_report(arguments.json, partial(_named, arguments, summarize), show)
                settings = settings._replace(replace=False)
        except SpansNotSentError as error:
            settings = settings._replace(replace=False)
            warn_once(str(error))
        warned = new_warnings
        time.sleep(arguments.follow)


@contextmanager
def _outputs(arguments: argparse.Namespace, options: ReportOptions) -> Iterator[ReportOptions]:
    """Provide the options with what writes a page, if one is asked for.

    It is opened first, so that an error is reported before the work.
    """
    if arguments.html is None:
        yield options
        return
    with OutputFile(arguments.html) as page:
        make_page = partial(_write_page, page.file, zone_named_in(arguments), names_in(arguments))
        yield options._replace(make_page=make_page)


def _named(
    arguments: argparse.Namespace, summarize: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Return a report with the names of its addresses."""
    report = summarize()
    add_names(report, names_in(arguments))
    return report


def _check_engine(arguments: argparse.Namespace) -> None:
    """Raise UsageError if Spark is not installed, or for an option of the other engine."""
    if arguments.engine == "spark":
        if arguments.jobs is not None:
            raise UsageError("--jobs needs --engine process; Spark has --master 'local[N]'")
        try:
            check_packages()
        except UsageError as error:
            raise UsageError(f"{error}; or use --engine process") from None
    elif arguments.master is not None or arguments.conf or arguments.scratch is not None:
        raise UsageError("--master, --conf and --scratch are for Spark, not for --engine process")


def _run(
    arguments: argparse.Namespace, plan: ReadPlan, settings: Settings, options: ReportOptions
) -> dict[str, Any]:
    with _runs(arguments) as run:
        return run(plan, settings, options, print_message)


@contextmanager
def _runs(arguments: argparse.Namespace) -> Iterator[_Run]:
    """Provide what runs a batch, any number of times, with one engine."""
    from kanalyze.batch.run import run_batch
    from kanalyze.batch.spans import CommittedSpans
    from kanalyze.batch.table_formats import PARQUET, publish

    collector = None
    if arguments.otlp is not None:
        from kanalyze.export.otlp_http import Collector  # imported late: only to send

        collector = Collector(arguments.otlp)
    spans = None if collector is None else CommittedSpans(collector.post)
    progress = BatchProgress(progress_of(arguments))
    with _engine(arguments, progress) as engine:

        def run(
            plan: ReadPlan,
            settings: Settings,
            options: ReportOptions,
            warn: Callable[[str], None],
        ) -> dict[str, Any]:
            functions = {"warn": warn, "report_phase": progress.begin}
            report = run_batch(engine, plan, settings, **functions, options=options, spans=spans)
            if collector is not None and collector.rejected:
                warn(f"{collector.url}: {collector.rejected}")
            if arguments.table_format != PARQUET:
                publish(arguments.out, arguments.table_format)
            return report

        yield run


@contextmanager
def _engine(arguments: argparse.Namespace, progress: BatchProgress) -> Iterator[Engine]:
    """Provide the engine; the progress of its tasks is shown inside the ``with`` block."""
    if arguments.engine == "process":
        from kanalyze.batch.process_engine import ProcessEngine

        with (
            ProcessEngine(worker_count(arguments)) as processes,
            progress.shown(processes.tasks_done),
        ):
            yield processes
        return
    from kanalyze.spark.engine import SparkEngine

    progress.begin("starting Spark")
    with _session(arguments) as spark:
        engine = SparkEngine(spark, arguments.scratch)
        with progress.shown(engine.tasks_done):
            yield engine


def _write_page(
    file: BinaryIO,
    zone: Zone,
    names: AddressNames | None,
    report: dict[str, Any],
    engine: Database,
) -> None:
    from kanalyze.api.reports import page_of

    add_names(report, names)
    file.write(page_of(engine, report, zone))


def _show_function(arguments: argparse.Namespace) -> Callable[[dict[str, Any]], None] | None:
    """Return the function that writes the report to standard output; None if --json does.

    Raises UsageError for contradicting arguments.
    """
    report_format = arguments.format or "text"
    check_order(arguments, report_format)
    if arguments.json != STANDARD_OUTPUT:
        return partial(show_report, report_format=report_format, layout=ReportLayout.of(arguments))
    if arguments.format:
        raise UsageError(
            f"--json - and --format {report_format} would both use standard output: use --json FILE"
        )
    return None


def _report_options(arguments: argparse.Namespace) -> ReportOptions:
    from kanalyze.batch.engine import ReportOptions, check_queries

    options = ReportOptions(most_slowest=most_slowest(arguments))
    if not arguments.threshold and arguments.queries is None:
        return options
    kinds, thresholds = finding_settings(arguments)
    options = options._replace(kinds=kinds, thresholds=thresholds)
    if arguments.queries is not None:
        check_queries(options)
    return options


def _plan(arguments: argparse.Namespace) -> ReadPlan:
    from kanalyze.api.inputs import make_filter, read_topic_ids
    from kanalyze.batch.key_sources import find_key_files
    from kanalyze.batch.read_plan import ReadPlan
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.spec.rows.requests import COLUMNS

    catalog = Catalog(arguments.definitions)
    filters = filters_of(arguments)
    plan = ReadPlan(
        table="requests",
        columns=COLUMNS,
        row_filter=make_filter(catalog, names=names_in(arguments), **filters),
        filters=filters,
        catalog=catalog,
        ports=tuple(arguments.port),
        topic_ids=read_topic_ids(arguments.topic_ids) if arguments.topic_ids else None,
        definitions=arguments.definitions,
        keys=find_key_files(tuple(arguments.keylog or ())),
        max_memory_bytes=arguments.max_memory,
    )
    plan.check()
    return plan


def _settings(arguments: argparse.Namespace) -> Settings:
    from kanalyze.batch.run_plan import Settings
    from kanalyze.capture.splits import MIN_SPLIT_BYTES

    if arguments.checkpoint is None:
        for name in ("finish", "follow", "merge_small"):
            if getattr(arguments, name) not in (None, False):
                raise UsageError(f"--{name.replace('_', '-')} needs --checkpoint")
    if arguments.finish and arguments.follow is not None:
        raise UsageError("--finish is for the last run, which --follow does not have")
    if arguments.split_size < MIN_SPLIT_BYTES:
        raise UsageError(f"--split-size: use at least {MIN_SPLIT_BYTES} bytes")
    return Settings(
        paths=tuple(arguments.captures),
        out=arguments.out,
        checkpoint=arguments.checkpoint,
        finish=arguments.finish,
        merges_small=arguments.merge_small,
        replace=arguments.replace,
        step_bytes=arguments.step_size,
        settle_s=arguments.settle,
        follows=arguments.follow is not None,
        buckets=arguments.buckets,
        split_bytes=arguments.split_size,
    )


@contextmanager
def _session(arguments: argparse.Namespace) -> Iterator[SparkSession]:
    """Yield a Spark session; stop it at the end if it was started here."""
    from pyspark.sql import SparkSession

    was_running = SparkSession.getActiveSession() is not None
    spark = start(arguments.master, name="kanalyze batch", conf=dict(arguments.conf))
    try:
        yield spark
    finally:
        if not was_running:
            spark.stop()


class BatchProgress:
    """The phase of a run and its tasks, shown inside the ``with`` block of :meth:`shown`."""

    def __init__(self, progress: Progress | None = None) -> None:
        """Show the phases with ``progress``; None makes one."""
        self._progress = Progress() if progress is None else progress
        self._phase = ""
        self._tasks_done: TasksDone = lambda: None

    def begin(self, phase: str) -> None:
        """Begin a phase; on a terminal, print its name in a line of its own."""
        self._phase = phase
        self._progress.count(phase, self._tasks, _TASKS)
        if self._progress.is_wanted and sys.stderr.isatty():
            print_message(phase)

    @contextmanager
    def shown(self, tasks_done: TasksDone) -> Iterator[None]:
        """Show the progress, in a thread of its own, while the block runs."""
        self._tasks_done = tasks_done
        with self._progress.shown():
            yield

    def _tasks(self) -> tuple[int, int] | None:
        """Return the current counts of tasks.

        ``_tasks_done`` is read at each call, because the first phase begins before Spark runs.
        """
        return self._tasks_done()
