"""Functions for a notebook: an archive of captures, or a table of packets, as DataFrames.

In: a session, paths or a DataFrame, options. Out: DataFrames.

With many buckets, tasks send each other segments in files, below a folder that they all can write;
with few, each of these tasks reads all captures again, which takes less time. The functions work
through Spark Connect too. kanalyze must be installed where tasks run. Captures are read when a
function is called, not when its rows are.
"""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kanalyze.batch.archive.planning import (
    buckets_for,
    most_readings,
    sends_segments,
    tasks_for,
)
from kanalyze.batch.archive.tasks import Job
from kanalyze.batch.engine import other_tables
from kanalyze.batch.packets import PACKET_COLUMNS
from kanalyze.batch.run_plan import find_files
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.batch.table_options import make_plan, option_texts
from kanalyze.capture.io.stores import Stores
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.errors import UsageError
from kanalyze.spark.answers import report_on
from kanalyze.spark.archive import (
    anomaly_table,
    new_block_folder,
    read_captures,
    read_packets,
)
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.spark.archive import ArchiveSegments, RebuiltConnections

_SPLIT_BYTES: Final = 256 << 20
_CORES: Final = 16
"""Assumed number of cores: Spark Connect does not tell it. A number too high costs little."""
_PACKETS_BUCKETS: Final = 64


class Archive(ClosedAtEnd):
    """Captures that were read; what was sent between tasks is kept until :meth:`close`.

    A context manager. Each table is rebuilt when it is requested, and cached too.
    """

    def __init__(
        self, spark: SparkSession, captured: ArchiveSegments, options: dict[str, Any]
    ) -> None:
        """Use :func:`open_archive` or :func:`open_packets`."""
        self._spark = spark
        self._captured = captured
        self._options = options
        self._rebuilt_tables: list[RebuiltConnections] = []

    @property
    def unreadable(self) -> dict[str, str]:
        """Captures that were left out, and why; empty unless ``mode="quarantine"``."""
        return dict(self._captured.read_summary.unreadable)

    def requests(self, **options: Any) -> DataFrame:
        """Return the requests like :func:`kanalyze.requests`: one row each, with nested columns.

        Args:
            options: ``columns``, and the filters of :func:`kanalyze.requests`.

        Raises:
            UsageError: an option is invalid.
        """
        return self._rebuild("requests", options).rows

    def connections(self, **options: Any) -> DataFrame:
        """Return the TCP connections like :func:`kanalyze.connections`; see :meth:`requests`."""
        return self._rebuild("connections", options).rows

    def records(self, **options: Any) -> DataFrame:
        """Return the records in Produce requests and Fetch responses, like ``kanalyze records``.

        ``values=True`` adds keys, values and headers. Raises UsageError if the archive was opened
        without ``payload``; otherwise like :meth:`requests`.
        """
        if self._captured.job.prunes_payload:
            raise UsageError("records: open the archive with payload=True")
        # The name of a record's topic may be in a request on another connection.
        names = self._rebuild("requests", {}).summary.topic_names
        return self._rebuild("records", options, names).rows

    def anomalies(self, **options: Any) -> DataFrame:
        """Return the anomalies like :func:`kanalyze.anomalies`; see :meth:`requests`.

        Captures that were left out are included, as ``capture_unreadable``.
        """
        plan = make_plan(self._texts("anomalies", options))
        rebuilt = self._rebuild("requests", {}, others=frozenset({"anomalies"}))
        retryable = self._captured.read_summary.retryable_rows
        table = anomaly_table(self._spark, self._captured, rebuilt, plan.row_filter, retryable)
        return table.select(*(column.name for column in plan.columns))

    def groups(self, **options: Any) -> DataFrame:
        """Return the events of consumer groups: the table ``groups`` of ``kanalyze sql``.

        Otherwise like :meth:`requests`.
        """
        return self._cluster_table("groups", options)

    def metadata(self, **options: Any) -> DataFrame:
        """Return brokers, leaders and coordinators: the table ``metadata`` of ``kanalyze sql``.

        Otherwise like :meth:`requests`.
        """
        return self._cluster_table("metadata", options)

    def changes(self, **options: Any) -> DataFrame:
        """Return what administrators' requests ask for: the table ``changes`` of ``kanalyze sql``.

        Otherwise like :meth:`requests`.
        """
        return self._cluster_table("changes", options)

    def client_metrics(self, **options: Any) -> DataFrame:
        """Return the metrics that clients push, like :func:`kanalyze.client_metrics`.

        Otherwise like :meth:`requests`.
        """
        return self._cluster_table("client_metrics", options)

    def tables(self, **options: Any) -> dict[str, DataFrame]:
        """Return all tables but ``records`` by name, made in one pass.

        Requests have numbers, ``request_id``, to which ``groups``, ``metadata``, ``changes`` and
        ``client_metrics`` refer. For connections and anomalies, only filters on clients, brokers
        and times apply.
        """
        return self._tables_of(self._rebuild("requests", options, others=other_tables()))

    def report(self, **options: Any) -> dict[str, Any]:
        """Return the report that ``kanalyze report --json`` writes, over all captures.

        It includes ``findings``.
        """
        rebuilt = self._rebuild("requests", options, others=other_tables())
        quality = CaptureQuality()
        quality.merge(self._captured.read_summary.quality)
        quality.merge(self._captured.read_summary.retryable_quality)
        quality.merge(rebuilt.summary.quality)
        conditions = rebuilt.job.plan.row_filter.conditions
        return report_on(self._tables_of(rebuilt), quality, conditions)

    def close(self) -> None:
        """Remove all from Spark's cache; DataFrames from here cannot be used after that."""
        for rebuilt in self._rebuilt_tables:
            rebuilt.close()
        self._rebuilt_tables.clear()
        self._captured.close()

    def _tables_of(self, rebuilt: RebuiltConnections) -> dict[str, DataFrame]:
        """Return all tables of a pass that made them."""
        row_filter = rebuilt.job.plan.row_filter
        retryable = self._captured.read_summary.retryable_rows
        return {
            "requests": rebuilt.rows,
            **rebuilt.others(),
            "anomalies": anomaly_table(self._spark, self._captured, rebuilt, row_filter, retryable),
        }

    def _cluster_table(self, table: str, options: dict[str, Any]) -> DataFrame:
        """Return a table whose rows belong to requests."""
        names = [column.name for column in make_plan(self._texts(table, options)).columns]
        filters = {name: value for name, value in options.items() if name != "columns"}
        rebuilt = self._rebuild("requests", filters, others=frozenset({table}))
        return rebuilt.table(table).select(*names)

    def _rebuild(
        self,
        table: str,
        options: dict[str, Any],
        names: dict[bytes, str] | None = None,
        *,
        others: frozenset[str] = frozenset(),
    ) -> RebuiltConnections:
        plan = make_plan(self._texts(table, options))
        job = self._captured.job._replace(plan=plan, others=others)
        rebuilt = self._captured.rebuild(job, names)
        self._rebuilt_tables.append(rebuilt)
        return rebuilt

    def _texts(self, table: str, options: dict[str, Any]) -> dict[str, str]:
        return option_texts({**self._options, **options, "table": table})


def open_archive(
    spark: SparkSession,
    *paths: str,
    payload: bool = False,
    buckets: int | None = None,
    scratch: str | None = None,
    split_bytes: int = _SPLIT_BYTES,
    **options: Any,
) -> Archive:
    """Read captures now: each in a task, a large pcap file in several.

    Args:
        spark: the session; kanalyze must be installed where its tasks run.
        paths: files, folders, globs, URLs of any of these, that all tasks can open.
        payload: send the payload of records too. It is most of a capture's bytes, and only
            :meth:`Archive.records` needs it.
        buckets: the number of parts that connections are divided into, each rebuilt by a task; None
            for as many as may read all captures each (4, or 2 if captures are compressed or
            remote), or with ``scratch`` one for 256 MiB, from 32 to 512.
        scratch: a folder or a URL that all tasks can write, for segments that they send each other;
            more buckets than may read all captures need it. Segments are as sensitive as the
            captures, and are there until :meth:`Archive.close`, or else until Python ends.
        split_bytes: several tasks may read a pcap file, in parts of at least this size.
        options: ``port``, ``broker``, ``definitions``, ``max_memory`` as :func:`kanalyze.requests`
            has them (the memory of all buckets together); ``keylog``: files, folders, globs or
            URLs of TLS secrets, which all tasks can open; and ``mode``: ``"failfast"``, or
            ``"quarantine"`` to leave out files that are no captures.

    Raises:
        CaptureError: a capture is missing, or a file is not a capture and must not be left out.
        UsageError: an option is invalid.
    """
    plan = make_plan(option_texts({**options, "table": "requests"}))
    captures = [file.capture for file in find_files(paths, may_be_none=False).values()]
    most = most_readings(captures)
    cores = most if scratch is None else _CORES
    count = _valid_buckets(buckets_for(captures, cores) if buckets is None else buckets)
    sends = sends_segments(captures, count)
    if sends and scratch is None:
        raise UsageError(
            f"{count} buckets: name a folder that all workers can write, scratch=..., or use at "
            f"most {most}"
        )
    tasks = tasks_for(captures, Stores(), split_bytes, _CORES)
    job = Job(
        plan,
        count,
        prunes_payload=not payload,
        sends=sends,
        folder=str(Path.cwd()),
        block_folder=_block_folder(scratch) if sends and scratch is not None else None,
    )
    return Archive(spark, read_captures(spark, job, tasks), options)


def open_packets(
    packets: DataFrame,
    *,
    scratch: str,
    payload: bool = False,
    buckets: int = _PACKETS_BUCKETS,
    **options: Any,
) -> Archive:
    """Read packets from a table; otherwise as :func:`open_archive`.

    Args:
        packets: a DataFrame with the columns of the data source's table ``packets``:
            ``capture``, ``packet``, ``time_ns``, ``link_type``, ``wire_bytes`` and ``data``;
            others are ignored.
        scratch: see :func:`open_archive`; it is always needed.
        payload: see :func:`open_archive`.
        buckets: see :func:`open_archive`.
        options: see :func:`open_archive`.

    Raises:
        UsageError: a column is missing, or an option is invalid.
    """
    needed = [column.name for column in PACKET_COLUMNS if column.name != "captured_bytes"]
    missing = [name for name in needed if name not in packets.columns]
    if missing:
        raise UsageError(f"packets: column {missing[0]!r} is missing")
    job = Job(
        make_plan(option_texts({**options, "table": "requests"})),
        _valid_buckets(buckets),
        prunes_payload=not payload,
        block_folder=_block_folder(scratch),
    )
    spark = packets.sparkSession
    return Archive(spark, read_packets(spark, job, packets.select(*needed)), options)


def requests(spark: SparkSession, *paths: str, **options: Any) -> DataFrame:
    """Return the requests in captures, like :func:`kanalyze.requests`, one row each.

    Args:
        spark: the session.
        paths: see :func:`open_archive`.
        options: those of :func:`open_archive` and of :meth:`Archive.requests`.

    Raises:
        CaptureError, UsageError: see :func:`open_archive`.
    """
    return _table(spark, "requests", paths, options)


def connections(spark: SparkSession, *paths: str, **options: Any) -> DataFrame:
    """Return the TCP connections in captures; otherwise as :func:`requests`."""
    return _table(spark, "connections", paths, options)


def anomalies(spark: SparkSession, *paths: str, **options: Any) -> DataFrame:
    """Return the anomalies in captures; otherwise like :func:`requests`."""
    return _table(spark, "anomalies", paths, options)


def groups(spark: SparkSession, *paths: str, **options: Any) -> DataFrame:
    """Return the events of consumer groups; otherwise like :func:`requests`."""
    return _table(spark, "groups", paths, options)


def metadata(spark: SparkSession, *paths: str, **options: Any) -> DataFrame:
    """Return brokers, leaders and coordinators; otherwise like :func:`requests`."""
    return _table(spark, "metadata", paths, options)


def changes(spark: SparkSession, *paths: str, **options: Any) -> DataFrame:
    """Return what administrators' requests ask for; otherwise like :func:`requests`."""
    return _table(spark, "changes", paths, options)


def client_metrics(spark: SparkSession, *paths: str, **options: Any) -> DataFrame:
    """Return the metrics that clients push; otherwise like :func:`requests`."""
    return _table(spark, "client_metrics", paths, options)


def records(spark: SparkSession, *paths: str, **options: Any) -> DataFrame:
    """Return the records in Produce and Fetch; otherwise like :func:`requests`."""
    return _table(spark, "records", paths, options)


_READ_OPTIONS: Final = frozenset(
    {
        "buckets",
        "scratch",
        "split_bytes",
        "port",
        "broker",
        "definitions",
        "keylog",
        "max_memory",
        "mode",
    }
)
"""Options of :func:`open_archive`; the other options select rows."""


def _table(
    spark: SparkSession, table: str, paths: tuple[str, ...], options: dict[str, Any]
) -> DataFrame:
    """Open an archive, and return a table of it, which has the method of this name."""
    read_options = {name: options.pop(name) for name in _READ_OPTIONS & options.keys()}
    archive = open_archive(spark, *paths, payload=table == "records", **read_options)
    frame: DataFrame = getattr(archive, table)(**options)
    return frame


def _block_folder(scratch: str) -> str:
    """Return a folder for blocks, which is removed when Python ends, if not before."""
    folder = new_block_folder(scratch)
    atexit.register(SharedFolder(folder).remove, "")
    return folder


def _valid_buckets(buckets: int) -> int:
    if buckets < 1:
        raise UsageError(f"not a number of buckets: {buckets}")
    return buckets
