"""The library: captures in, typed rows, pandas, Polars, Arrow, plain dicts or a report out.

In: what a user writes. Out: rows, decoded messages and summaries. This module must not know how
anything is done; it puts the pipeline and the exports together for people who call them from
Python. What the functions take stands in :mod:`kanalyze.api.options`.
"""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from itertools import chain, islice
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kanalyze.api.filters import api_names, keeps_bytes
from kanalyze.api.key_logs import read_key_logs
from kanalyze.api.topic_ids import read_topic_ids
from kanalyze.common.argument_values import (
    count,
    parsed,
    path_text,
    path_texts,
    size_bytes,
    texts,
    truth,
)
from kanalyze.common.saved_files import saved_files
from kanalyze.errors import UsageError
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.stages import MemoryBounds
from kanalyze.tables.columns.block import RowBlock, columns_of_rows
from kanalyze.tables.row import COLUMNS, with_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeAlias, Unpack

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from kanalyze.api.options import (
        AnomalyOptions,
        Captures,
        CompareOptions,
        ConnectionOptions,
        MessageOptions,
        RecordOptions,
        RequestOptions,
    )
    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.tables.anomalies import AnomalyRow
    from kanalyze.tables.connections import ConnectionRow
    from kanalyze.tables.quality import CaptureQuality
    from kanalyze.tables.records.row import RecordRow
    from kanalyze.tables.row import Column, Row

    _AnyAnalysis: TypeAlias = Analysis | SavedAnalysis

__all__ = [
    "Results",
    "Rows",
    "anomalies",
    "compare",
    "connections",
    "decode",
    "groups",
    "metadata",
    "records",
    "report",
    "requests",
    "save",
]

ItemT = TypeVar("ItemT")
RowT = TypeVar("RowT", bound=tuple[Any, ...])
_Batch = TypeVar("_Batch")

_MOST_JOBS = 256
_MOST_RECORDS = 2**31 - 1
"""A batch's header has 32 bits for their number."""


class Results(Generic[ItemT]):
    """What is found in captures, one after the other. Each iteration reads the captures anew.

    Nothing is opened before, and no more is held than open connections need. What came through a
    pipe or an open file can be read once.
    """

    def __init__(
        self,
        analysis: Callable[[], _AnyAnalysis],
        batches: Callable[[Any], Iterator[Iterable[ItemT]]],
    ) -> None:
        """Keep what is to be read; nothing is opened yet.

        Args:
            analysis: makes an analysis of the captures.
            batches: runs one.
        """
        self._analysis = analysis
        self._batches = batches
        self.quality: CaptureQuality | None = None
        """What the captures were like; None until they were read to their end."""
        self.conditions: dict[str, Any] = {}
        """By what is filtered, known as :attr:`quality` is."""

    def __iter__(self) -> Iterator[ItemT]:
        """Give them one by one; raises CaptureError where an input is missing or no capture."""
        for batch in self._run(self._batches):
            yield from batch

    def _run(self, batches: Callable[[Any], Iterator[_Batch]]) -> Iterator[_Batch]:
        with closing(self._analysis()) as analysis:
            yield from batches(analysis)
        self.quality, self.conditions = analysis.quality, analysis.row_filter.conditions


class Rows(Results[RowT]):
    """The rows of a table. Each iteration, and each conversion, reads the captures anew.

    The conversions make columns of columns, without an object for each row or value; their types
    are those of :attr:`columns`, and beside each point in time in ns stands the same as a timestamp
    (``request_start_time`` beside ``request_start_ns``). As any object with ``__arrow_c_stream__``
    it can be given to what reads Arrow: ``pyarrow.table(rows)``, ``polars.DataFrame(rows)``,
    DuckDB, ...

    All of them raise CaptureError where an input is missing or is no capture, and
    ModuleNotFoundError, which says what to install, where the library is not there.
    """

    def __init__(
        self,
        analysis: Callable[[], _AnyAnalysis],
        rows: Callable[[Any], Iterator[list[RowT]]],
        columns: tuple[Column, ...],
        blocks: Callable[[Any], Iterator[RowBlock]] | None = None,
    ) -> None:
        """Keep what is to be read; nothing is opened yet.

        Args:
            analysis: makes an analysis of the captures.
            rows: runs one.
            columns: those of its rows.
            blocks: runs one that gives the rows by column; None where there is none.
        """
        super().__init__(analysis, rows)
        self._rows = rows
        self._blocks = blocks
        self.columns = columns
        """Name, type, unit and meaning of each column of the table."""

    def batches(self) -> Iterator[list[RowT]]:
        """Give the rows in lists, as they are found; none is empty."""
        yield from self._run(self._rows)

    def _row_blocks(self) -> Iterator[RowBlock]:
        """Give the rows by column, as they are found."""
        if self._blocks is not None:
            yield from self._run(self._blocks)
            return
        for rows in self.batches():
            yield RowBlock(len(rows), columns_of_rows(rows, self.columns))

    def to_arrow(self) -> pa.Table:
        """Return all rows as a ``pyarrow.Table``."""
        from kanalyze.export.arrow import table_of

        return table_of(self._row_blocks(), self.columns)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Give the rows as ``pyarrow.RecordBatch``, as they are found; memory stays bounded."""
        from kanalyze.export.arrow import batches_of

        return batches_of(self._row_blocks(), self.columns)

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame; integers that may be null are ``Int64``."""
        from kanalyze.export.arrow import frame_of

        return frame_of(self._row_blocks(), self.columns)

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame."""
        from kanalyze.export.arrow import polars_of

        return polars_of(self._row_blocks(), self.columns)

    def __arrow_c_schema__(self) -> object:
        """Return the schema as a capsule of the Arrow PyCapsule interface."""
        from kanalyze.export.schema import arrow_schema

        return arrow_schema(with_times(self.columns)).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a capsule of the Arrow PyCapsule interface: a stream of batches.

        Captures are read while the stream is. ``requested_schema`` is a capsule too; None for that
        of :attr:`columns`.
        """
        from kanalyze.export.arrow import reader_of

        blocks = self._row_blocks()
        # An input that is missing is said here: through the stream it would come as an error of
        # the library that reads it, with all of a traceback for its text.
        first = list(islice(blocks, 1))
        reader = reader_of(chain(first, blocks), self.columns)
        return reader.__arrow_c_stream__(requested_schema)


def requests(*captures: Captures, **options: Unpack[RequestOptions]) -> Rows[Row]:
    """Return the requests in captures, one row each, as ``kanalyze requests`` writes them.

    All conditions given must hold; of several values for one, any may. None, and what is left out,
    is no condition. A text stands for one value, and so do lists, sets and the like for several.

    Args:
        *captures: paths, folders, globs, URLs, ``-``, or open binary files; or lists and the like
            of these. Several are one capture, in the order of their packets' times.
        **options: any of

            - ``api``: names in any case, or keys (0 is Produce).
            - ``client_id``, ``topic``, ``group``: globs; they heed case.
            - ``partition``: numbers of partitions, of one of ``topic`` where that is given too; or
              texts such as ``"orders-3"``.
            - ``status``: ``"ok"``, ``"error"``, ``"one_way"``, ``"unanswered"``,
              ``"orphan_response"`` or ``"malformed"``.
            - ``error``: codes, as numbers or names such as ``"NOT_LEADER_OR_FOLLOWER"``; 0 is for
              answers without an error.
            - ``client_ip``: addresses, or networks such as ``10.0.0.0/8``; as texts, or as values
              of Python's ``ipaddress``.
            - ``broker``: ``IP`` or ``IP:PORT``; these ends are also taken for brokers whatever
              their bytes look like.
            - ``port``: the TCP ports of brokers, 1 to 65535; ends with one of them are also taken
              for brokers whatever their bytes look like.
            - ``errors``: True for rows with an error code alone.
            - ``slower_than``: only rows with a latency above it; a timedelta, or a text such as
              ``"10ms"``. What waited on purpose is not slow.
            - ``since``, ``until``: only requests that began at the one or later, and before the
              other. A datetime (without a zone it is UTC), a date (its first moment, in UTC), a
              number of Unix seconds, ISO 8601; or a time of day, as ``time`` or ``"22:46"``, in UTC
              and of the day of the first packet.
            - ``topic_ids``: a file with names of topics by id, for those that the captures tell
              none: a line ``ID NAME`` each, or a JSON object; None for no file.
            - ``definitions``: a folder of message definitions to add to the built-in ones; None
              for those alone.
            - ``keylog``: files with secrets in the format of ``SSLKEYLOGFILE``, one or several:
              what they open of TLS is decrypted, which needs ``kanalyze[tls]``. The variable itself
              is not read.
            - ``max_memory_bytes``: how much may be held of open connections, in bytes or such as
              ``"2G"``; None for 1 GiB. What has to be dropped is an anomaly.
            - ``jobs``: how many processes may read files of some size, 1 (the default) to 256; the
              rows are the same. They are forked: leave it at 1 in a program with threads.

    Raises:
        DefinitionError: a definition breaks a rule, or the folder cannot be read.
        UsageError: an argument makes no sense; the text begins with its name.
    """
    make = _maker_of_rows(_request_arguments("requests", captures, options))
    return Rows(make, methodcaller("row_batches"), COLUMNS, methodcaller("batches"))


def _request_arguments(
    function: str, captures: tuple[Captures, ...], options: RequestOptions
) -> dict[str, Any]:
    from kanalyze.api.options import RequestOptions

    arguments = _arguments(function, captures, options, RequestOptions.__optional_keys__)
    arguments["jobs"] = count("jobs", options.get("jobs", 1), _MOST_JOBS)
    return arguments


def report(*captures: Captures, **options: Unpack[RequestOptions]) -> dict[str, Any]:
    """Return the summary that ``kanalyze report --json`` writes, but for ``kanalyze_version``.

    Arguments as in :func:`requests`. Times are ISO 8601 or in ns, sizes in bytes, as the names say.

    Raises:
        CaptureError: an input is missing or is no capture.
        DefinitionError: as :func:`requests`.
        UsageError: as :func:`requests`.
    """
    # Loaded late: the command line loads this module for rows too, which take no queries.
    from kanalyze.api.reports import report_on, tables_of
    from kanalyze.api.tables import opened_tables
    from kanalyze.queries.database import REPORT_MEMORY_BYTES
    from kanalyze.queries.findings import finding_kinds

    arguments = _request_arguments("report", captures, options)
    kinds = finding_kinds()
    with opened_tables(
        _maker_of_rows(arguments)(),
        tables_of(kinds),
        max_memory_bytes=REPORT_MEMORY_BYTES,
        threads=arguments["jobs"],
    ) as tables:
        return report_on(tables, kinds)


def compare(
    a: Captures | dict[str, Any], b: Captures | dict[str, Any], **options: Unpack[CompareOptions]
) -> dict[str, Any]:
    """Return what differs between A (before) and B (after), as ``kanalyze compare --json`` has it.

    A difference is listed if it matters and is beyond chance, by a test that deals slices of time
    to A and B anew; :mod:`kanalyze.queries.compare.chance` says how. Of reports nothing is tested.

    Args:
        a: captures or saved files as in :func:`requests`, a file that ``kanalyze report --json``
            wrote, or what :func:`report` returned.
        b: likewise.
        **options: those of :func:`requests`, which hold for both; conditions are not for reports.
            And

            - ``at_least``: times as slow, or as often (1.2, by default): more than 1.
            - ``least_ms``: least difference of a latency, in ms (1).
            - ``least_percent``: least difference of the part of requests that fail, in percent of
              all (0.1).

    Raises:
        CaptureError: an input is missing, or is no capture, saved file or report.
        DefinitionError: as :func:`requests`.
        UsageError: as :func:`requests`.
    """
    from kanalyze.api.comparing import compare_inputs, report_in
    from kanalyze.api.options import CompareOptions, check_names
    from kanalyze.queries.compare.comparison import Thresholds

    check_names("compare", options, CompareOptions.__optional_keys__)
    given: dict[str, Any] = dict(options)
    thresholds = Thresholds.of(
        *(given.pop(name, None) for name in ("at_least", "least_ms", "least_percent"))
    )
    arguments = [
        None
        if report_in(each) is not None
        else _arguments("compare", (each,), given, CompareOptions.__optional_keys__)
        for each in (a, b)
    ]
    jobs = count("jobs", given.pop("jobs", 1), _MOST_JOBS)
    limit = size_bytes("max_memory_bytes", given.pop("max_memory_bytes", None))
    if None in arguments and any(given.values()):
        raise UsageError(
            "conditions are for captures and saved files: a report has no rows to leave out"
        )

    def analysis_of(captures: Any) -> _AnyAnalysis:
        found = arguments[0 if captures is a else 1]
        assert found is not None
        return _maker_of_rows({**found, "jobs": jobs})()

    return compare_inputs(a, b, analysis_of, thresholds, max_memory_bytes=limit, threads=jobs)


def save(
    *captures: Captures, output: str | os.PathLike[str], **options: Unpack[MessageOptions]
) -> None:
    """Write the tables of captures to a file that is read in their place, as ``kanalyze save``.

    :func:`requests`, :func:`connections`, :func:`anomalies` and :func:`report` take the file as
    they take captures, and give the same; any filter but ``port`` holds there too. It is a database
    of DuckDB.

    Args:
        *captures: as in :func:`requests`.
        output: the file. One that is there is replaced once the new one is whole; a capture never.
        **options: those of :func:`requests` but ``jobs``; rows that are filtered out are not saved.

    Raises:
        CaptureError: an input is missing or is no capture.
        DefinitionError: as :func:`requests`.
        KanalyzeError: the file cannot be written.
        UsageError: as :func:`requests`; or ``output`` is a capture or a stream.
    """
    from kanalyze.api.options import MessageOptions
    from kanalyze.api.saving import save_tables  # with DuckDB

    arguments = _arguments("save", captures, options, MessageOptions.__optional_keys__)
    limits = {}
    if "max_memory_bytes" in arguments:
        limits["max_memory_bytes"] = arguments["max_memory_bytes"]
    names = {
        "topic_ids": path_text("topic_ids", options.get("topic_ids")),
        "definitions": path_text("definitions", options.get("definitions")),
    }
    with closing(Analysis(**arguments)) as analysis:
        save_tables(
            analysis,
            os.fspath(output),
            {"port": arguments["ports"], **names},
            **limits,
        )


def records(*captures: Captures, **options: Unpack[RecordOptions]) -> Rows[RecordRow]:
    """Return the records inside Produce and Fetch, one row each, as ``kanalyze records``.

    A batch that cannot be read to its end has a row of its own, without a record but with a
    ``problem``. Keys, values and headers are left out unless they are asked for; credentials in the
    log of the controllers are hidden then too.

    Args:
        *captures: as in :func:`requests`.
        **options: those of :func:`requests` but ``jobs``, of the requests that the records are in;
            with ``topic`` or ``partition`` only records of these. And

            - ``values``: True for keys, values and headers too; bytes that are no text as base64.
            - ``max_records``: how many records of one batch are read, 1 to 2**31 - 1; a row with
              the problem ``too_many_records`` stands for what is beyond. None for 4 for each byte
              that the batch has on the wire, at least 1000.

    Raises:
        DefinitionError: as :func:`requests`.
        UsageError: as :func:`requests`.
    """
    from kanalyze.api.options import RecordOptions
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.records.types import DecompressionLimits
    from kanalyze.tables.records.row import columns_of_records, rows_of
    from kanalyze.tables.records.rows import RecordReader, has_records

    arguments = _arguments("records", captures, options, RecordOptions.__optional_keys__)
    catalog = arguments["catalog"] = arguments["catalog"] or Catalog()
    arguments["keep"] = has_records
    values = truth("values", options.get("values", False))
    most = options.get("max_records")
    most = None if most is None else count("max_records", most, _MOST_RECORDS)

    def blocks(analysis: Analysis) -> Iterator[RowBlock]:
        reader = RecordReader(
            catalog,
            Decoders(catalog),
            row_filter=arguments["row_filter"],
            values_as="base64" if values else None,
            limits=DecompressionLimits(most_records=most),
        )
        for exchanges, block in analysis.exchange_blocks():
            yield from reader.blocks(exchanges, block)

    def rows(analysis: Analysis) -> Iterator[list[RecordRow]]:
        return map(rows_of, blocks(analysis))

    return Rows(_maker(arguments), rows, columns_of_records(values=values), blocks)


def groups(*captures: Captures, **options: Unpack[RequestOptions]) -> Rows[tuple[Any, ...]]:
    """Return what requests tell of consumer groups, one row per event that says something.

    Joins, syncs, leaves, heartbeats that failed or brought something new, and each partition of a
    commit or of offsets fetched: the table ``groups`` of ``kanalyze sql``. Rows are named tuples.
    Arguments as in :func:`requests`, of the requests that tell it; ``request_id`` is the number of
    such a request.

    Raises:
        DefinitionError: as :func:`requests`.
        UsageError: as :func:`requests`.
    """
    from kanalyze.tables.cluster.group_row import GROUP_COLUMNS

    return _cluster_rows("groups", GROUP_COLUMNS, captures, options)


def metadata(*captures: Captures, **options: Unpack[RequestOptions]) -> Rows[tuple[Any, ...]]:
    """Return what brokers say of their cluster: brokers, leaders of partitions, coordinators.

    One row for each that is new on its connection, or has changed: the
    table ``metadata`` of ``kanalyze sql``. Otherwise as :func:`groups`.

    Raises:
        DefinitionError: as :func:`requests`.
        UsageError: as :func:`requests`.
    """
    from kanalyze.tables.cluster.metadata_row import METADATA_COLUMNS

    return _cluster_rows("metadata", METADATA_COLUMNS, captures, options)


def _cluster_rows(
    table: str,
    columns: tuple[Column, ...],
    captures: tuple[Captures, ...],
    options: RequestOptions,
) -> Rows[tuple[Any, ...]]:
    from kanalyze.tables.cluster.carried import rows_maker

    make = rows_maker(f"{table.capitalize()}Row", columns)

    def blocks(analysis: _AnyAnalysis) -> Iterator[RowBlock]:
        return analysis.line_blocks(table)

    def rows(analysis: _AnyAnalysis) -> Iterator[list[tuple[Any, ...]]]:
        return map(make, analysis.line_blocks(table))

    arguments = _request_arguments(table, captures, options)
    return Rows(_maker_of_rows(arguments), rows, columns, blocks)


def decode(*captures: Captures, **options: Unpack[MessageOptions]) -> Results[dict[str, Any]]:
    """Return every field of every message, a dict for each request, as ``kanalyze decode``.

    Each is the JSON object that the command writes, which is that of Kafka's own request log
    (KIP-673): ``requestHeader``, ``request``, ``response``, and what the wire adds (times in Unix
    ns, sizes in bytes). bytes are base64, records their size; None is what was not seen. Secrets
    are ``"[hidden]"``.

    Args:
        *captures: as in :func:`requests`.
        **options: those of :func:`requests` but ``jobs``.

    Raises:
        DefinitionError: as :func:`requests`.
        UsageError: as :func:`requests`.
    """
    import json

    from kanalyze.api.options import MessageOptions
    from kanalyze.decoding.bodies import BodyReader
    from kanalyze.export.kip673 import LogLines
    from kanalyze.kafka.codec.compiler import Decoders

    arguments = _arguments("decode", captures, options, MessageOptions.__optional_keys__)
    catalog = arguments["catalog"] = arguments["catalog"] or Catalog()
    arguments["keep"] = keeps_bytes(arguments["row_filter"], catalog)

    def messages(analysis: Analysis) -> Iterator[Iterator[dict[str, Any]]]:
        reader, log = BodyReader(catalog, Decoders(catalog)), LogLines(catalog)
        for exchanges, block in analysis.exchange_blocks():
            # The forms, and what is hidden, are those of the command to the letter.
            yield map(json.loads, log.lines(exchanges, block, reader.exchanges(exchanges)))

    return Results(_maker(arguments), messages)


def connections(*captures: Captures, **options: Unpack[ConnectionOptions]) -> Rows[ConnectionRow]:
    """Return the TCP connections in captures, Kafka or not, one row each.

    Args:
        *captures: as in :func:`requests`.
        **options: ``client_id`` (of the first request), ``client_ip``, ``broker``, ``port``,
            ``since``, ``until``, ``definitions``, ``keylog`` and ``max_memory_bytes`` of
            :func:`requests`; of the times, a connection that was open between them counts.

    Raises:
        DefinitionError: as :func:`requests`.
        UsageError: as :func:`requests`.
    """
    from kanalyze.api.options import ConnectionOptions
    from kanalyze.tables.connections import CONNECTION_COLUMNS  # a table of its own

    arguments = _arguments("connections", captures, options, ConnectionOptions.__optional_keys__)
    rows = methodcaller("connection_batches")
    return Rows(_maker_of_rows(arguments), rows, CONNECTION_COLUMNS)


def anomalies(*captures: Captures, **options: Unpack[AnomalyOptions]) -> Rows[AnomalyRow]:
    """Return what is missing or wrong in captures, one row for each thing.

    Args:
        *captures: as in :func:`requests`.
        **options: ``client_ip``, ``broker``, ``port``, ``since``, ``until``, ``definitions``,
            ``keylog`` and ``max_memory_bytes`` of :func:`requests`; an anomaly without a time or a
            connection meets no condition on these. And ``kind``: one or several, such as
            ``"lost_bytes"``.

    Raises:
        DefinitionError: as :func:`requests`.
        UsageError: as :func:`requests`.
    """
    from kanalyze.api.options import AnomalyOptions
    from kanalyze.tables.anomalies import ANOMALY_COLUMNS, parse_kinds  # a table of its own

    arguments = _arguments("anomalies", captures, options, AnomalyOptions.__optional_keys__)
    kinds = parsed("kind", parse_kinds, texts("kind", options.get("kind")))

    def rows(analysis: _AnyAnalysis) -> Iterator[list[AnomalyRow]]:
        for found in analysis.anomaly_batches():
            wanted = [row for row in found if row.kind in kinds] if kinds else found
            if wanted:
                yield wanted

    return Rows(_maker_of_rows(arguments), rows, ANOMALY_COLUMNS)


def _arguments(
    function: str,
    captures: tuple[Captures, ...],
    options: Mapping[str, Any],
    known: frozenset[str],
) -> dict[str, Any]:
    """Return the arguments of an analysis; raises UsageError and DefinitionError.

    Args:
        function: its name, for what is said of options that it does not have.
        captures: what is to be read.
        options: what it was given.
        known: the names of those that it has.
    """
    from kanalyze.api.options import captures_of, check_names, filter_of  # not for the command line

    check_names(function, options, known)
    folder = path_text("definitions", options.get("definitions"))
    catalog = None if folder is None else Catalog(folder)
    row_filter = filter_of(options, lambda: api_names(catalog or Catalog()))
    file = path_text("topic_ids", options.get("topic_ids"))
    arguments: dict[str, Any] = {
        "captures": captures_of(captures),
        "catalog": catalog,
        "row_filter": row_filter,
        "ports": sorted(row_filter.ports),
        "brokers": list(map(str, row_filter.brokers)),
        "topic_ids": None if file is None else parsed("topic_ids", read_topic_ids, file),
        "keylog": parsed("keylog", read_key_logs, path_texts("keylog", options.get("keylog"))),
    }
    most = size_bytes("max_memory_bytes", options.get("max_memory_bytes"))
    if most is not None:
        parsed("max_memory_bytes", MemoryBounds.of, most)
        arguments["max_memory_bytes"] = most
    return arguments


def _maker(arguments: dict[str, Any]) -> Callable[[], Analysis]:
    """Return what makes the same analysis each time."""
    make = partial(Analysis, **arguments)
    make()  # says what else makes no sense; nothing is opened
    return make


def _maker_of_rows(arguments: dict[str, Any]) -> Callable[[], _AnyAnalysis]:
    """Return what makes the same analysis each time: of captures, or of saved files."""
    files = saved_files(arguments["captures"])
    if not files:
        return _maker(arguments)
    for name, argument in (
        ("port", "ports"),
        ("topic_ids", "topic_ids"),
        ("definitions", "catalog"),
        ("keylog", "keylog"),
    ):
        if arguments[argument] not in (None, []):
            raise UsageError(
                f"{name}: decides how packets are read, and {files[0]} has rows alone: give it to "
                "save()"
            )
    from kanalyze.api.saved import SavedAnalysis  # with DuckDB

    limits = {}
    if "max_memory_bytes" in arguments:
        limits["max_memory_bytes"] = arguments["max_memory_bytes"]
    return partial(
        SavedAnalysis,
        files,
        row_filter=arguments["row_filter"],
        threads=arguments.get("jobs", 1),
        **limits,
    )
