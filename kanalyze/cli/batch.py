"""``kanalyze batch``."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kanalyze.cli.analyze import filters_of
from kanalyze.cli.batch_progress import BatchProgress
from kanalyze.cli.console import print_message
from kanalyze.cli.report import check_order, most_slowest, show_report, write_report
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.render.report_tables import TableOrder
from kanalyze.spark.session import check_packages, start

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from kanalyze.queries.engine import QueryEngine
    from kanalyze.spark.batch.run_plan import Settings
    from kanalyze.spark.report import ReportOptions
    from kanalyze.spark.source.readers import ReadPlan

__all__ = ["batch"]


def batch(arguments: argparse.Namespace) -> None:
    """Turn captures into tables and a report; raises KanalyzeError and OSError."""
    check_packages()
    # Wrong arguments are reported before Spark is started, which takes seconds.
    plan, settings, options = _plan(arguments), _settings(arguments), _report_options(arguments)
    show = _show_function(arguments)
    with ExitStack() as stack:
        if arguments.html is not None:
            page = stack.enter_context(OutputFile(arguments.html))
            options = options._replace(make_page=partial(_write_page, page.file))
        write_report(arguments.json, lambda: _run(arguments, plan, settings, options), show)


def _run(
    arguments: argparse.Namespace, plan: ReadPlan, settings: Settings, options: ReportOptions
) -> dict[str, Any]:
    from kanalyze.spark.batch.batch import run_batch
    from kanalyze.spark.task_counts import task_counts

    progress = BatchProgress()
    progress.begin("starting Spark")
    with _session(arguments) as spark, progress.shown(partial(task_counts, spark)):
        functions = {"warn": print_message, "report_phase": progress.begin}
        return run_batch(spark, plan, settings, **functions, options=options)


def _write_page(file: BinaryIO, report: dict[str, Any], engine: QueryEngine) -> None:
    from kanalyze.api.reports import page_of

    file.write(page_of(engine, report))


def _show_function(arguments: argparse.Namespace) -> Callable[[dict[str, Any]], None] | None:
    """Return what writes the report to standard output, or None if --json does.

    Raises UsageError for contradicting arguments.
    """
    report_format = arguments.format or "text"
    check_order(arguments, report_format)
    if arguments.json != STANDARD_OUTPUT:
        order = TableOrder(arguments.sort, arguments.limit)
        return partial(show_report, report_format=report_format, order=order)
    if arguments.format:
        raise UsageError(
            f"--json - and --format {report_format} would both use standard output: use --json FILE"
        )
    return None


def _report_options(arguments: argparse.Namespace) -> ReportOptions:
    from kanalyze.queries.findings import finding_kinds, with_thresholds
    from kanalyze.spark.dialect import referenced_tables
    from kanalyze.spark.report import ReportOptions

    options = ReportOptions(most_slowest=most_slowest(arguments))
    if not arguments.threshold and arguments.queries is None:
        return options
    folders = [] if arguments.queries is None else [Path(arguments.queries)]
    kinds, thresholds = finding_kinds(*folders), dict(arguments.threshold)
    with_thresholds(kinds, thresholds)  # raises UsageError for an unknown threshold
    for kind in kinds:
        referenced_tables(kind.query)  # raises UsageError for invalid SQL
    return options._replace(kinds=kinds, thresholds=thresholds)


def _plan(arguments: argparse.Namespace) -> ReadPlan:
    from kanalyze.api.filters import make_filter
    from kanalyze.api.topic_ids import read_topic_ids
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.spark.key_sources import find_key_files
    from kanalyze.spark.source.options import Options
    from kanalyze.spark.source.readers import ReadPlan, TablePartition
    from kanalyze.tables.row import COLUMNS

    catalog = Catalog(arguments.definitions)
    filters = filters_of(arguments)
    options = Options(
        paths=(),
        table="requests",
        columns=None,
        leave_out_unreadable=True,
        partitions=None,
        filters=filters,
        ports=tuple(arguments.port),
        topic_ids=arguments.topic_ids,
        definitions=arguments.definitions,
        keylog=tuple(arguments.keylog or ()),
        max_memory_bytes=arguments.max_memory,
        values=False,
        max_records=None,
    )
    plan = ReadPlan(
        options=options,
        columns=COLUMNS,
        row_filter=make_filter(catalog, **filters),
        topic_ids=read_topic_ids(arguments.topic_ids) if arguments.topic_ids else None,
        catalog=catalog,
        keys=find_key_files(options.keylog),
    )
    plan.analysis(TablePartition(()))  # checks the other arguments
    return plan


def _settings(arguments: argparse.Namespace) -> Settings:
    from kanalyze.capture.splits import MIN_SPLIT_BYTES
    from kanalyze.spark.batch.run_plan import Settings

    if arguments.finish and arguments.checkpoint is None:
        raise UsageError("--finish needs --checkpoint")
    if arguments.split_size < MIN_SPLIT_BYTES:
        raise UsageError(f"--split-size: use at least {MIN_SPLIT_BYTES} bytes")
    return Settings(
        paths=tuple(arguments.captures),
        out=arguments.out,
        checkpoint=arguments.checkpoint,
        finish=arguments.finish,
        replace=arguments.replace,
        settle_s=arguments.settle,
        buckets=arguments.buckets,
        split_bytes=arguments.split_size,
    )


@contextmanager
def _session(arguments: argparse.Namespace) -> Iterator[SparkSession]:
    """Yield a session; it is stopped at the end if it was started here."""
    from pyspark.sql import SparkSession

    is_there = SparkSession.getActiveSession() is not None
    spark = start(arguments.master, name="kanalyze batch", conf=dict(arguments.conf))
    try:
        yield spark
    finally:
        if not is_there:
            spark.stop()
