"""``kanalyze batch``."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kanalyze.cli.analyze import filters_of
from kanalyze.cli.messages import print_message
from kanalyze.cli.report import write_report
from kanalyze.spark.session import check_packages, start

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kanalyze.spark.batch.run_plan import Settings
    from kanalyze.spark.source.readers import Plan

__all__ = ["batch"]


def batch(arguments: argparse.Namespace) -> None:
    """Turn captures into tables and a report; raises KanalyzeError and OSError."""
    check_packages()
    # All that can be wrong with arguments is said before Spark is started, which takes seconds.
    plan, settings = _plan(arguments), _settings(arguments)
    write_report(arguments.json, lambda: _run(arguments, plan, settings))


def _run(arguments: argparse.Namespace, plan: Plan, settings: Settings) -> dict[str, Any]:
    from kanalyze.spark.batch.batch import run_batch

    _tell_phase("starting Spark")
    with _session(arguments) as spark:
        return run_batch(spark, plan, settings, warn=print_message, tell_phase=_tell_phase)


def _plan(arguments: argparse.Namespace) -> Plan:
    from kanalyze.api.filters import make_filter
    from kanalyze.api.topic_ids import read_topic_ids
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.spark.source.options import Options
    from kanalyze.spark.source.readers import Part, Plan
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
        max_memory_bytes=arguments.max_memory,
        values=False,
        max_records=None,
    )
    plan = Plan(
        options=options,
        columns=COLUMNS,
        row_filter=make_filter(catalog, **filters),
        topic_ids=read_topic_ids(arguments.topic_ids) if arguments.topic_ids else None,
        catalog=catalog,
    )
    plan.analysis(Part(()))  # says what else makes no sense
    return plan


def _settings(arguments: argparse.Namespace) -> Settings:
    from kanalyze.capture.splits import MIN_SPLIT_BYTES
    from kanalyze.errors import UsageError
    from kanalyze.spark.batch.run_plan import Settings

    if arguments.finish and arguments.checkpoint is None:
        raise UsageError("--finish is for archives that grow: it takes --checkpoint")
    if arguments.split_size < MIN_SPLIT_BYTES:
        raise UsageError(f"--split-size: {MIN_SPLIT_BYTES} bytes are the least")
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
    """Give a session; it is ended if it was started here."""
    from pyspark.sql import SparkSession

    is_there = SparkSession.getActiveSession() is not None
    spark = start(arguments.master, name="kanalyze batch", conf=dict(arguments.conf))
    try:
        yield spark
    finally:
        if not is_there:
            spark.stop()


def _tell_phase(text: str) -> None:
    if sys.stderr.isatty():
        print_message(text)
