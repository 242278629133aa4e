"""The library: captures in; typed rows, pandas, Polars, Arrow, plain dicts or a report out.

In: arguments from a user. Out: rows, decoded messages and reports. :mod:`kanalyze.api.options` has
the types of the arguments.
"""

from __future__ import annotations

import os
from collections import namedtuple
from contextlib import closing
from functools import partial
from itertools import chain, islice
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kanalyze.api.inputs import (
    api_names,
    check_output,
    keeps_bytes,
    read_key_logs,
    read_schemas,
    read_topic_ids,
)
from kanalyze.api.options import (
    AnomalyOptions,
    AnonymizeOptions,
    CompareOptions,
    ConnectionOptions,
    ExtractOptions,
    MessageOptions,
    RecordOptions,
    RequestOptions,
    captures_of,
    filter_of,
    read_options,
)
from kanalyze.common import paths
from kanalyze.common.argument_values import parsed, shown
from kanalyze.common.paths import saved_files
from kanalyze.common.times import parse_duration_ns
from kanalyze.errors import UsageError
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.memory import MemoryBounds
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS
from kanalyze.spec.rows.names import NAME_COLUMNS, NAMED_ROWS
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import TypeAlias, Unpack

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from kanalyze.anonymization.anonymize import Anonymized
    from kanalyze.api.notebooks import Report
    from kanalyze.api.options import Captures
    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.api.tables import OpenedTables
    from kanalyze.extraction.extract import Extracted
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.records import RecordRow
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.name_columns import NameColumns
    from kanalyze.tables.quality import CaptureQuality

    _AnyAnalysis: TypeAlias = Analysis | SavedAnalysis

ItemT = TypeVar("ItemT")
RowT = TypeVar("RowT", bound=tuple[Any, ...])
_Batch = TypeVar("_Batch")


class Results(Generic[ItemT]):
    """Iterable results of reading captures. Each iteration reads the captures again.

    No file is opened before the first iteration, and memory is bounded by what open connections
    need. A pipe or an open file can be read only once.
    """

    def __init__(
        self,
        analysis: Callable[[], _AnyAnalysis],
        batches: Callable[[Any], Iterator[Iterable[ItemT]]],
    ) -> None:
        """Store the arguments; nothing is opened yet.

        Args:
            analysis: makes an analysis of the captures.
            batches: runs an analysis.
        """
        self._analysis = analysis
        self._batches = batches
        self.quality: CaptureQuality | None = None
        """The quality of the captures; None until an iteration has read them to the end."""
        self.conditions: dict[str, Any] = {}
        """The active filter; empty until :attr:`quality` is known."""

    def __iter__(self) -> Iterator[ItemT]:
        """Yield the items; raises CaptureError if an input is missing or is not a capture."""
        for batch in self._run(self._batches):
            yield from batch

    def _run(self, batches: Callable[[Any], Iterator[_Batch]]) -> Iterator[_Batch]:
        with closing(self._analysis()) as analysis:
            yield from batches(analysis)
        self.quality, self.conditions = analysis.quality, analysis.row_filter.conditions


class Rows(Results[RowT]):
    """The rows of a table. Each iteration and each conversion reads the captures again.

    Conversions work on columns, without a Python object for each row or value. The types are
    those of :attr:`columns`. Each column of Unix times in ns gets a column of timestamps beside it
    (``request_start_time`` beside ``request_start_ns``). The object has ``__arrow_c_stream__``, so
    libraries that read Arrow accept it: ``pyarrow.table(rows)``, ``polars.DataFrame(rows)``,
    DuckDB, ...

    All conversions raise CaptureError if an input is missing or is not a capture, and
    ModuleNotFoundError, whose text says what to install, if a library is missing.
    """

    def __init__(
        self,
        analysis: Callable[[], _AnyAnalysis],
        found: Callable[[Any], Iterator[RowBlock | list[RowT]]],
        columns: tuple[Column, ...],
        names: Callable[[], NameColumns] | None = None,
        as_objects: Callable[[RowBlock], list[RowT]] | None = None,
    ) -> None:
        """Store the arguments; nothing is opened yet.

        Args:
            analysis: makes an analysis of the captures.
            found: runs an analysis and yields rows, by column or in lists.
            columns: the columns of the rows.
            names: makes what adds the names of addresses; None for no names.
            as_objects: makes rows of those that are found by column; None if they are in lists.
        """
        super().__init__(analysis, self._lists)
        self._found = found
        self._as_objects = as_objects
        self._row_columns = columns
        self._names = names
        self.columns = columns if names is None else (*columns, *NAME_COLUMNS)
        """Name, type, unit and meaning of each column of the table."""

    def batches(self) -> Iterator[list[RowT]]:
        """Yield the rows in lists, as they are found; no list is empty."""
        yield from self._run(self._lists)

    def _lists(self, analysis: _AnyAnalysis) -> Iterator[list[RowT]]:
        for found in self._found(analysis):
            if isinstance(found, RowBlock):
                assert self._as_objects is not None
                yield from map(self._as_objects, found.pieces())
            else:
                yield found

    def _row_blocks(self) -> Iterator[RowBlock]:
        """Yield the rows by column, as they are found."""
        names = None if self._names is None else self._names()
        found: Callable[[Any], Iterator[RowBlock | list[RowT]]] = self._found
        if names is not None and self._row_columns is COLUMNS:
            from kanalyze.api.broker_names import told  # imported late: few calls have names

            found = partial(told, names=names)
        for rows in self._run(found):
            if not isinstance(rows, RowBlock):
                rows = RowBlock.of_rows(rows, self._row_columns)  # noqa: PLW2901 - the same rows
            yield rows if names is None else names.named(rows)

    def to_arrow(self) -> pa.Table:
        """Return all rows as a ``pyarrow.Table``."""
        from kanalyze.export.arrow import table_of

        return table_of(self._row_blocks(), self.columns)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as ``pyarrow.RecordBatch``, as they are found; memory is bounded."""
        from kanalyze.export.arrow import batches_of

        return batches_of(self._row_blocks(), self.columns)

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame.

        Nullable integers are ``Int64``; texts are ``str`` from pandas 3 on, else ``object``.
        """
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

        Captures are read while the stream is read. ``requested_schema`` is a capsule with a schema;
        None for the schema of :attr:`columns`.
        """
        from kanalyze.export.arrow import reader_of

        blocks = self._row_blocks()
        # Read the first block here, so that a missing input raises our error. Inside the stream it
        # would be reported by the library that reads it, with a whole traceback as its text.
        first = list(islice(blocks, 1))
        reader = reader_of(chain(first, blocks), self.columns)
        return reader.__arrow_c_stream__(requested_schema)


def requests(*captures: Captures, **options: Unpack[RequestOptions]) -> Rows[Row]:
    """Return the requests in captures, one row each, as ``kanalyze requests`` writes them.

    A row must meet every condition. If a condition has several values, one of them must match. An
    option that is None or left out is no condition. Options with several values take a single
    value, or a list, set or other iterable.

    Args:
        *captures: paths, folders, globs, URLs, ``-`` for standard input, or open binary files; or
            lists of these. Several are read as one capture, in the order of packet times.
        **options: any of

            - ``api``: names in any case, or keys (0 is Produce).
            - ``client_id``, ``principal``, ``topic``, ``group``: globs, case-sensitive.
            - ``partition``: numbers of partitions; if ``topic`` is given too, of those topics. Or
              texts such as ``"orders-3"``.
            - ``connection``: connections, such as ``"10.0.0.7:51812>10.0.0.2:9092"``, or their
              clients' ends, such as ``"10.0.0.7:51812"``.
            - ``packet``: numbers of packets, from 1, in which a request or its response begins.
            - ``correlation_id``: numbers.
            - ``anomaly``: kinds of anomalies, such as ``"malformed_body"``.
            - ``status``: ``"ok"``, ``"error"``, ``"one_way"``, ``"unanswered"``,
              ``"orphan_response"`` or ``"malformed"``.
            - ``error``: error codes, as numbers or names such as ``"NOT_LEADER_OR_FOLLOWER"``; 0
              selects responses without an error.
            - ``client_ip``: addresses, or networks such as ``10.0.0.0/8``; as texts, or as values
              of Python's ``ipaddress``.
            - ``broker``: ``IP`` or ``IP:PORT``. These ends are also treated as brokers, whatever
              their bytes look like.
            - ``port``: TCP ports of brokers, 1 to 65535. Ends with one of them are also treated
              as brokers, whatever their bytes look like.
            - ``names``: one or several files with names of addresses: a hosts file; CSV with some
              of address, name, app, zone, since, until in its first line; the output of ``kubectl
              get pods,services,nodes -A -o json``; a pcapng file. Tables get the columns
              ``client_name``, ``client_app``, ``client_zone``, ``broker_name``, ``broker_id`` and
              ``broker_zone``; rows as objects don't.
            - ``client_app``, ``zone``: globs for the application and the zone of the client, which
              need ``names``.
            - ``errors``: True for only rows with an error code, or whose response was not read.
            - ``slower_than``: only rows with a latency above it; a timedelta, or a text such as
              ``"10ms"``. Responses that were held back on purpose do not match.
            - ``since``, ``until``: only requests that began at ``since`` or later, and before
              ``until``. A datetime (UTC if it has no zone), a date (its first moment in UTC), a
              number of Unix seconds, or ISO 8601 text. Or a time of day, as a ``time`` or
              ``"22:46"``: in UTC, on the day of the first packet.
            - ``topic_ids``: a file with names of topics, for topic ids that the captures do not
              name: lines ``ID NAME``, or a JSON object; None for no file.
            - ``definitions``: a folder of message definitions to add to the built-in ones; None
              for only the built-in ones.
            - ``keylog``: one or several files with secrets in the format of ``SSLKEYLOGFILE``.
              TLS connections with these secrets are decrypted, which needs ``kanalyze[tls]``.
              The environment variable itself is not read.
            - ``max_memory_bytes``: memory for open connections, in bytes or as a text such as
              ``"2G"``; None for 1 GiB. If connections are dropped, there is an anomaly.
            - ``jobs``: number of processes that may read large files, 1 (the default) to 256; the
              rows are the same. The processes are forked: use 1 in a program with threads.

    Raises:
        DefinitionError: a definition breaks a rule, or the folder cannot be read.
        UsageError: an argument is invalid; the text begins with its name.
    """
    given = read_options("requests", RequestOptions, options)
    return _rows("requests", captures, given, methodcaller("batches"), COLUMNS, RowBlock.rows)


def report(*captures: Captures, **options: Unpack[RequestOptions]) -> Report:
    """Return the report: a dict, which a notebook shows as a page.

    Arguments are those of :func:`requests`.

    Raises:
        CaptureError: an input is missing or is not a capture.
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`.
    """
    # Imported late: rows need no queries.
    from kanalyze.api.notebooks import Report
    from kanalyze.api.reports import names_of, page_of, report_on, tables_of
    from kanalyze.api.tables import opened_tables
    from kanalyze.common.zones import UTC
    from kanalyze.queries.database import REPORT_MEMORY_BYTES
    from kanalyze.queries.findings import finding_kinds

    given = read_options("report", RequestOptions, options)
    arguments = _arguments(captures, given)
    make_analysis = _maker_of_rows(arguments)
    kinds = finding_kinds()

    def opened(*, has_page: bool) -> AbstractContextManager[OpenedTables]:
        return opened_tables(
            make_analysis(),
            tables_of(kinds),
            names_of(kinds, has_page=has_page),
            usual_memory_bytes=REPORT_MEMORY_BYTES,
            threads=given.get("jobs", 1),
            session_lists=not has_page,
        )

    def summary(tables: OpenedTables) -> dict[str, Any]:
        return report_on(tables, kinds, names=given.get("names"))

    def page() -> bytes:
        with opened(has_page=True) as tables:
            return page_of(tables.database, summary(tables), UTC)

    is_read_once = any(map(_is_read_once, arguments["captures"]))
    with opened(has_page=False) as tables:
        return Report(summary(tables), None if is_read_once else page)


def _is_read_once(capture: Any) -> bool:
    """Return whether a capture is an open file, standard input or a pipe."""
    from kanalyze.capture.inputs import can_be_read_twice

    if hasattr(capture, "read"):
        return True
    path = os.fspath(getattr(capture, "path", capture))
    return not (paths.is_folder(path) or can_be_read_twice(path))


def compare(
    a: Captures | dict[str, Any], b: Captures | dict[str, Any], **options: Unpack[CompareOptions]
) -> dict[str, Any]:
    """Return the differences between A (before) and B (after), as ``kanalyze compare --json``.

    A difference is listed if it is large enough and unlikely to be chance. The test reassigns
    slices of time to A and B at random (see :mod:`kanalyze.queries.compare.chance`). Differences
    between reports cannot be tested.

    Args:
        a: captures or saved files as in :func:`requests`, a file that ``kanalyze report --json``
            wrote, or the result of :func:`report`.
        b: the same.
        **options: those of :func:`requests`, for both sides; a report takes no conditions. And

            - ``at_least``: smallest ratio of latencies, or of shares of failures: above 1 (1.2 by
              default).
            - ``least_ms``: smallest difference of a latency, in ms (1).
            - ``least_percent``: smallest difference of the share of failed requests, in percent
              of all requests (0.1).

    Raises:
        CaptureError: an input is missing, or is not a capture, saved file or report.
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`.
    """
    from kanalyze.api.reports import compare_inputs, report_in
    from kanalyze.queries.compare.comparison import Thresholds
    from kanalyze.queries.report_names import add_names

    given = read_options("compare", CompareOptions, options)
    thresholds = Thresholds.of(
        *(given.pop(name, None) for name in ("at_least", "least_ms", "least_percent"))
    )
    arguments = [
        None if report_in(source) is not None else _arguments((source,), given) for source in (a, b)
    ]
    jobs, limit = given.pop("jobs", 1), given.pop("max_memory_bytes", None)
    if None in arguments and any(value for name, value in given.items() if name != "names"):
        raise UsageError("filters need captures or saved files: a report has no rows to filter")

    def analysis_of(captures: Any) -> _AnyAnalysis:
        side_arguments = arguments[0 if captures is a else 1]
        assert side_arguments is not None
        return _maker_of_rows(side_arguments)()

    comparison = compare_inputs(a, b, analysis_of, thresholds, max_memory_bytes=limit, threads=jobs)
    add_names(comparison, given.get("names"))
    return comparison


def save(
    *captures: Captures,
    output: str | os.PathLike[str],
    records: bool = False,
    **options: Unpack[MessageOptions],
) -> None:
    """Write the tables of captures to a file that can be read in their place (``kanalyze save``).

    :func:`requests`, :func:`connections`, :func:`anomalies` and :func:`report` accept the file like
    captures, and return the same. Every filter except ``port`` works on it. The file is a DuckDB
    database.

    Args:
        *captures: see :func:`requests`.
        output: the file. An existing file is replaced when the new one is complete; a capture is
            never replaced.
        records: True for a line of each record too, without key, value and headers.
        **options: those of :func:`requests` except ``jobs``; only rows that match are saved.

    Raises:
        CaptureError: an input is missing or is not a capture.
        DefinitionError: see :func:`requests`.
        KanalyzeError: the file cannot be written.
        UsageError: see :func:`requests`; or ``output`` is an input, a capture or a stream.
    """
    from kanalyze.api.tables import save_tables  # imported late: it imports DuckDB

    given = read_options("save", MessageOptions, options)
    arguments = _arguments(captures, given)
    arguments["outputs"] = check_output(output, arguments["captures"])
    names = {name: given.get(name) for name in ("topic_ids", "definitions")}
    with closing(Analysis(**arguments)) as analysis:
        save_tables(
            analysis,
            os.fspath(output),
            {"port": arguments["ports"], **names},
            records=records,
            **_given(arguments, "max_memory_bytes"),
        )


def sql(
    captures: Captures,
    query: str,
    parameters: Mapping[str, object] | None = None,
    **options: Unpack[RequestOptions],
) -> pa.Table:
    """Return the answer to an SQL query over the tables of captures (``kanalyze sql``).

    The answer is a ``pyarrow.Table``, which has ``to_pandas()`` and ``to_pylist()``;
    ``polars.from_arrow`` and DuckDB read it too. ``kanalyze sql --tables`` lists the tables.

    Args:
        captures: a capture or a saved file, or a list of these; see :func:`requests`.
        query: SQL in DuckDB's dialect, or the name of a query of ``kanalyze sql --list``.
        parameters: values by name, for parameters that are written ``$name``.
        **options: those of :func:`requests`; they select the requests, and all that belongs to
            them.

    Raises:
        CaptureError: an input is missing or is not a capture.
        DefinitionError: see :func:`requests`.
        KanalyzeError: the query is invalid, or fails.
        UsageError: see :func:`requests`.
    """
    # Imported late: it imports DuckDB.
    from kanalyze.api.tables import name_tables_of, opened_tables, tables_for
    from kanalyze.queries.files import questions

    text = questions()[query].sql if query in questions() else query
    given = read_options("sql", RequestOptions, options)
    arguments = _arguments((captures,), given)
    known = given.get("names")
    with opened_tables(
        _maker_of_rows(arguments)(),
        tables_for(text, known),
        threads=arguments.get("jobs", 1),
        **_given(arguments, "max_memory_bytes"),
    ) as tables:
        if known is not None:
            name_tables_of(tables.database, known)
        return tables.database.ask(text, parameters)


def extract(
    *captures: Captures, output: str | os.PathLike[str], **options: Unpack[ExtractOptions]
) -> Extracted:
    """Write the packets of requests to a pcapng file (``kanalyze extract``); return counts.

    The packets are copied unchanged, in their order. The packets of each request and response get a
    comment that Wireshark shows. Only the owner can read the file.

    Args:
        *captures: see :func:`requests`. They are read twice: open files and pipes are refused.
        output: the file. A capture is not replaced, unless with ``force``.
        **options: those of :func:`requests`, and any of

            - ``around``: also the packets of the same connections up to this long before and after
              each request: a timedelta, or a text such as ``"2s"``.
            - ``with_handshake``: True to add the beginning of these connections: TCP and TLS
              handshake, ApiVersions, SASL.
            - ``whole_connections``: True for all packets of these connections.
            - ``with_secrets``: True to add the TLS secrets of the extracted sessions to the file:
              everyone who has the file can then decrypt it.
            - ``force``: True to replace a capture.

    Raises:
        CaptureError: an input is missing or is not a capture.
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`; or ``output`` is an input or a capture, or an input can be
            read only once.
        OSError: the file cannot be written.
    """
    from kanalyze.export.files import OutputFile
    from kanalyze.extraction.extract import Extent, Selected, extract_packets
    from kanalyze.tls.keylog import KeyLog

    given = read_options("extract", ExtractOptions, options)
    arguments = _arguments(captures, given)
    arguments["outputs"] = check_output(output, arguments["captures"])
    selected = Selected([arguments.pop("row_filter")])
    extent = Extent(
        parsed("around", parse_duration_ns, given.get("around") or "0s"),
        given.get("with_handshake", False),
        given.get("whole_connections", False),
    )
    own_keys = None
    if given.get("with_secrets"):
        own_keys = read_key_logs(given.get("keylog", ())) or KeyLog()
    opened = partial(
        OutputFile, os.fspath(output), private=True, replaces_captures=given.get("force", False)
    )
    with closing(Analysis(**arguments)) as analysis:
        return extract_packets(analysis, selected, opened, extent, own_keys)


def anonymize(
    *captures: Captures, output: str | os.PathLike[str], **options: Unpack[AnonymizeOptions]
) -> Anonymized:
    """Write captures without names, addresses and contents (``kanalyze anonymize``); return counts.

    Names, ids and addresses become stand-ins of the same length; records, tokens, configurations,
    error messages, and everything that is not plaintext Kafka are blanked. Times, lengths, versions
    and error codes stay, and so do the names of Kafka's internal topics. Only the owner can read
    the file. It is read again and compared with the captures: ``differences`` has a line for each
    table in which more than names differs.

    Args:
        *captures: see :func:`requests`. They are read twice: open files and pipes are refused.
        output: the file. A capture is not replaced, unless with ``force``.
        **options: any of

            - ``key``: a secret text; captures with the same key have the same stand-ins. None for a
              random key.
            - ``strip_records``: True to leave out records at the end of packets.
            - ``force``: True to replace a capture.
            - ``jobs``, ``port``, ``definitions``, ``max_memory_bytes``: see :func:`requests`.

    Raises:
        CaptureError: an input is missing or is not a capture.
        DefinitionError: see :func:`requests`.
        UsageError: an option is invalid; or ``output`` is an input or a capture, or an input can be
            read only once.
        OSError: the file cannot be written.
    """
    from kanalyze.anonymization.anonymize import Anonymization, key_of
    from kanalyze.export.files import OutputFile

    given = read_options("anonymize", AnonymizeOptions, options)
    arguments = _arguments(captures, given)
    outputs = check_output(output, arguments["captures"])
    key = given.get("key")
    if not (key is None or isinstance(key, str | bytes)):
        raise UsageError(f"key: not a text: {shown(key)}")
    opened = partial(
        OutputFile, os.fspath(output), private=True, replaces_captures=given.get("force", False)
    )
    anonymization = Anonymization(
        arguments["captures"],
        key_of(key.encode() if isinstance(key, str) else key),
        strips_records=given.get("strip_records", False),
        outputs=outputs,
        **_given(arguments, "catalog", "ports", "max_memory_bytes", "jobs"),
    )
    done = anonymization.run(opened)
    written = os.fspath(output)
    if paths.regular_bytes(written) is None:
        return done
    return done._replace(differences=anonymization.check(written).differences())


def records(*captures: Captures, **options: Unpack[RecordOptions]) -> Rows[RecordRow]:
    """Return the records in Produce requests and Fetch responses, one row each.

    A batch that cannot be decoded to its end has a row of its own, with a ``problem`` and without a
    record. Keys, values and headers are included only if asked for; credentials in the controllers'
    metadata log are hidden even then.

    Args:
        *captures: see :func:`requests`.
        **options: those of :func:`requests` except ``jobs``; they select requests. With ``topic``
            or ``partition``, only records of these are returned. And

            - ``values``: True to include keys, values and headers; bytes that are not text are
              base64.
            - ``max_records``: number of records to read of one batch, 1 to 2**31 - 1; the rest of
              the batch is a row with the problem ``too_many_records``. None for 4 per byte of the
              batch on the wire, but at least 1000.
            - ``search``: bytes, a text, or ``hex:`` and hexadecimal digits: only records with them
              in the key, the value or a header's value; ``found_in`` says where. Rows with a
              ``problem`` stay.
            - ``schemas``: a folder of schemas of a registry, which name subjects and versions and,
              with ``values``, write Avro, Protobuf and JSON as JSON (see
              :func:`~kanalyze.tables.records.schemas.parse_schemas`). Needs ``kanalyze[schemas]``.

    Raises:
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`.
    """
    from kanalyze.api.record_blocks import record_blocks
    from kanalyze.spec.rows.records import RECORD_COLUMNS, RecordRow, columns_of_records
    from kanalyze.tables.records.rows import has_records
    from kanalyze.tables.records.values import search_of

    given = read_options("records", RecordOptions, options)
    arguments = _arguments(captures, given)
    catalog = arguments["catalog"] = arguments["catalog"] or Catalog()
    arguments["keep"] = has_records
    values = given.get("values", False)
    search = search_of("search", given.get("search"))
    folder = given.get("schemas")
    schemas = None if folder is None else parsed("schemas", read_schemas, folder)

    def blocks(analysis: Analysis) -> Iterator[RowBlock]:
        return record_blocks(
            analysis,
            catalog,
            given.get("max_records"),
            values_as="base64" if values else None,
            search=search,
            schemas=schemas,
        )

    names = _name_columns("records", given)
    columns = columns_of_records(values=values)
    return Rows(
        _maker(arguments), blocks, columns, names, methodcaller("rows", RecordRow, RECORD_COLUMNS)
    )


def groups(*captures: Captures, **options: Unpack[RequestOptions]) -> Rows[tuple[Any, ...]]:
    """Return the events of consumer groups, one row each: the table ``groups`` of ``kanalyze sql``.

    Events are joins, syncs, leaves, heartbeats that failed or changed something, and each partition
    of a commit or of fetched offsets. Rows are named tuples. Arguments are those of
    :func:`requests`; they select the requests with the events. ``request_id`` is the number of the
    request.

    Raises:
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`.
    """
    return _cluster_rows("groups", captures, options)


def metadata(*captures: Captures, **options: Unpack[RequestOptions]) -> Rows[tuple[Any, ...]]:
    """Return brokers, leaders of partitions and coordinators as responses name them.

    There is one row for each that is new on its connection or has changed. This is the table
    ``metadata`` of ``kanalyze sql``. Otherwise like :func:`groups`.

    Raises:
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`.
    """
    return _cluster_rows("metadata", captures, options)


def changes(*captures: Captures, **options: Unpack[RequestOptions]) -> Rows[tuple[Any, ...]]:
    """Return what administrators' requests ask to change: topics, configurations, ACLs, and so on.

    There is one row for each setting; secrets are hidden. This is the table ``changes`` of
    ``kanalyze sql``. Otherwise like :func:`groups`.

    Raises:
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`.
    """
    return _cluster_rows("changes", captures, options)


def client_metrics(*captures: Captures, **options: Unpack[RequestOptions]) -> Rows[tuple[Any, ...]]:
    """Return the metrics that clients push to brokers (KIP-714), one number per row.

    This is the table ``client_metrics`` of ``kanalyze sql``. Otherwise like :func:`groups`.

    Raises:
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`; or opentelemetry-proto is not installed.
    """
    return _cluster_rows("client_metrics", captures, options)


def _cluster_rows(
    table: str, captures: tuple[Captures, ...], options: RequestOptions
) -> Rows[tuple[Any, ...]]:
    from kanalyze.spec.rows.tables import TABLES  # imported late: it takes a third of all imports

    columns = TABLES[table].columns
    row_type: Any = namedtuple(  # type: ignore[misc]
        f"{table.capitalize()}Row", [column.name for column in columns]
    )
    given = read_options(table, RequestOptions, options)
    found, as_objects = methodcaller("line_blocks", table), methodcaller("rows", row_type, columns)
    return _rows(table, captures, given, found, columns, as_objects)


def decode(*captures: Captures, **options: Unpack[MessageOptions]) -> Results[dict[str, Any]]:
    """Return every field of every message, one dict per request, as ``kanalyze decode``.

    Each dict is an entry of Kafka's own request log (KIP-673): ``requestHeader``, ``request`` and
    ``response``, with additional values from the capture (Unix times in ns, sizes in bytes). bytes
    are base64, records are their size in bytes. None means: not in the capture. Secrets are
    ``"[hidden]"``.

    Args:
        *captures: see :func:`requests`.
        **options: those of :func:`requests` except ``jobs``.

    Raises:
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`.
    """
    import json

    from kanalyze.decoding.bodies import BodyReader
    from kanalyze.export.kip673 import LogLines
    from kanalyze.kafka.codec.compiler import Decoders

    arguments = _arguments(captures, read_options("decode", MessageOptions, options))
    catalog = arguments["catalog"] = arguments["catalog"] or Catalog()
    arguments["keep"] = keeps_bytes(arguments["row_filter"], catalog)

    def messages(analysis: Analysis) -> Iterator[Iterator[dict[str, Any]]]:
        reader, log = BodyReader(catalog, Decoders(catalog)), LogLines(catalog)
        for exchanges, block in analysis.exchange_blocks():
            # Parsing the command's own lines guarantees the same forms and the same hidden fields.
            yield map(json.loads, log.lines(exchanges, block, reader.exchanges(exchanges)))

    return Results(_maker(arguments), messages)


def connections(*captures: Captures, **options: Unpack[ConnectionOptions]) -> Rows[ConnectionRow]:
    """Return the TCP connections in captures, Kafka or not, one row each.

    Args:
        *captures: see :func:`requests`.
        **options: ``client_id`` (of the first request), ``principal``, ``client_ip``, ``broker``,
            ``port``, ``since``, ``until``, ``definitions``, ``keylog`` and ``max_memory_bytes`` of
            :func:`requests`. A connection matches ``since`` and ``until`` if any part of it does.

    Raises:
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`.
    """
    given = read_options("connections", ConnectionOptions, options)
    found = methodcaller("connection_batches")
    return _rows("connections", captures, given, found, CONNECTION_COLUMNS)


def anomalies(*captures: Captures, **options: Unpack[AnomalyOptions]) -> Rows[AnomalyRow]:
    """Return the anomalies in captures: what is missing or wrong, one row each.

    Args:
        *captures: see :func:`requests`.
        **options: ``client_ip``, ``broker``, ``port``, ``since``, ``until``, ``definitions``,
            ``keylog`` and ``max_memory_bytes`` of :func:`requests`. An anomaly without a time or
            a connection does not match conditions on these. And ``kind``: one or several kinds,
            such as ``"lost_bytes"``.

    Raises:
        DefinitionError: see :func:`requests`.
        UsageError: see :func:`requests`.
    """
    from kanalyze.tables.anomalies import parse_kinds

    given = read_options("anomalies", AnomalyOptions, options)
    kinds = parsed("kind", parse_kinds, given.get("kind", ()))

    def found(analysis: _AnyAnalysis) -> Iterator[list[AnomalyRow]]:
        for batch in analysis.anomaly_batches():
            if selected := [row for row in batch if not kinds or row.kind in kinds]:
                yield selected

    return _rows("anomalies", captures, given, found, ANOMALY_COLUMNS)


def _rows(
    table: str,
    captures: tuple[Captures, ...],
    given: Mapping[str, Any],
    found: Callable[[Any], Iterator[Any]],
    columns: tuple[Column, ...],
    as_objects: Callable[[RowBlock], list[Any]] | None = None,
) -> Rows[Any]:
    """Return the rows of a table of captures or saved files; for the others see :class:`Rows`."""
    make = _maker_of_rows(_arguments(captures, given))
    return Rows(make, found, columns, _name_columns(table, given), as_objects)


def _arguments(captures: tuple[Captures, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an analysis; raises UsageError and DefinitionError.

    Args:
        captures: the inputs.
        given: the options of the call, as :func:`~kanalyze.api.options.read_options` returns them.
    """
    folder, file = given.get("definitions"), given.get("topic_ids")
    catalog = None if folder is None else Catalog(folder)
    row_filter = filter_of(given, lambda: api_names(catalog or Catalog()), given.get("names"))
    arguments: dict[str, Any] = {
        "captures": captures_of(captures),
        "catalog": catalog,
        "row_filter": row_filter,
        "ports": sorted(row_filter.get("port", ())),
        "brokers": list(map(str, row_filter.get("broker", ()))),
        "topic_ids": None if file is None else parsed("topic_ids", read_topic_ids, file),
        "keylog": parsed("keylog", read_key_logs, given.get("keylog", ())),
        **_given(given, "jobs"),
    }
    memory_bytes = given.get("max_memory_bytes")
    if memory_bytes is not None:
        parsed("max_memory_bytes", MemoryBounds.of, memory_bytes)
        arguments["max_memory_bytes"] = memory_bytes
    return arguments


def _name_columns(table: str, given: Mapping[str, Any]) -> Callable[[], NameColumns] | None:
    """Return what makes the columns of names of a table; None without names."""
    if given.get("names") is None:
        return None
    from kanalyze.tables.name_columns import NameColumns  # imported late: few calls have names

    return partial(NameColumns, given["names"], NAMED_ROWS[table])


def _given(arguments: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the arguments with these names, as far as there are any."""
    return {name: arguments[name] for name in names if name in arguments}


def _maker(arguments: dict[str, Any]) -> Callable[[], Analysis]:
    """Return a function that makes a new analysis with these arguments at each call."""
    make = partial(Analysis, **arguments)
    make()  # checks the other arguments; nothing is opened
    return make


def _maker_of_rows(arguments: dict[str, Any]) -> Callable[[], _AnyAnalysis]:
    """Return a function like that of :func:`_maker`, for captures or for saved files."""
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
                f"{name}: has no effect on the saved file {files[0]}, whose packets were already "
                "read: use it with save()"
            )
    from kanalyze.api.saved import SavedAnalysis  # imported late: it imports DuckDB

    return partial(
        SavedAnalysis,
        files,
        row_filter=arguments["row_filter"],
        threads=arguments.get("jobs", 1),
        **_given(arguments, "max_memory_bytes"),
    )
