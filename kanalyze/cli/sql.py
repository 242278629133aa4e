"""``kanalyze sql``, ``flows`` and ``save``: queries over the tables of captures; these in a file.

An answer may have any columns, so DuckDB itself writes it to files.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kanalyze.cli.analyze import (
    analysis_of,
    filters_of,
    names_in,
    opened_tables_of,
    query_folders,
    report_undecrypted,
    report_unread,
    rows_of,
    worker_count,
)
from kanalyze.cli.console import plain_width, print_message
from kanalyze.cli.output import TABLE, Output, default_format
from kanalyze.cli.progress import progress_of
from kanalyze.common import paths
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES
from kanalyze.queries.files import find_query, questions

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pyarrow as pa

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.api.tables import OpenedTables
    from kanalyze.cli.progress import Progress
    from kanalyze.queries.database import Database
    from kanalyze.queries.files import Query
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.names import AddressNames

_MEANINGS_AT = 47
"""The text column at which meanings begin in the list of tables."""
_NARROW_INDENT = 4


def split_query(arguments: argparse.Namespace) -> None:
    """Separate the query from the end of the captures.

    Without one, on a terminal, the command asks for queries; elsewhere that is a UsageError.
    """
    arguments.sql = None
    if arguments.query is None and not _only_lists(arguments):
        if not arguments.captures:
            raise UsageError(
                'no query given: add one, such as "SELECT api_name, count(*) FROM requests ..."'
            )
        if _has_query(arguments.captures):
            arguments.sql = arguments.captures.pop()
    if not arguments.captures and not _only_lists(arguments):
        raise UsageError("no capture given")


def _has_query(words: list[str]) -> bool:
    """Return whether the last argument is a query; false if a prompt can ask for one.

    Raises UsageError if the query is not the last, or if it is missing and there is no prompt.
    """
    *others, last = words
    # A glob or a URL is no file of that name; no query is a single word.
    can_ask = sys.stdin is not None and sys.stdin.isatty()
    if not paths.exists(last) and not (can_ask and len(last.split()) == 1):
        return True
    misplaced = next((text for text in others if " " in text and not paths.exists(text)), None)
    if misplaced is not None:
        raise UsageError(f"the query comes last, after the captures: {misplaced}")
    if not can_ask:
        raise UsageError(
            f'{last} is a file, not a query: add a query, such as "FROM requests LIMIT 10"'
        )
    return False


def _only_lists(arguments: argparse.Namespace) -> bool:
    """Return true if the command only lists queries or tables."""
    return bool(arguments.list or arguments.tables)


def sql(arguments: argparse.Namespace) -> None:
    """Run a query over captures; raises KanalyzeError and OSError."""
    folders = query_folders(arguments)
    if arguments.list:
        _list(folders)
        return
    if arguments.tables:
        from kanalyze.spec.rows.tables import SQL_TABLES  # imported late: large tables

        _write_tables(SQL_TABLES)
        return
    if arguments.sql is None and arguments.query is None:
        from kanalyze.cli.prompt import ask_again_and_again  # imported late: for people alone

        row_format = arguments.format or TABLE
        ask_again_and_again(arguments, partial(_show_answer, row_format=row_format), _write_tables)
        return
    _answer(arguments, *_query(arguments, folders))


def flows(arguments: argparse.Namespace) -> None:
    """Write who sends how much to whom; raises KanalyzeError and OSError."""
    from kanalyze.queries.flows import flows_query, read_prices

    prices = read_prices(arguments.price) if arguments.price else None
    query = flows_query(arguments.by.split(","), prices, has_names=bool(arguments.names))
    _answer(arguments, *query, left_out=_LEFT_OUT_OF_FLOWS)


_LEFT_OUT_OF_FLOWS = ("traffic", "record_count", "errors", "request_bytes", "response_bytes")
"""Columns that a narrow terminal does not show; the last ones are left out first."""


def _answer(
    arguments: argparse.Namespace,
    query: str,
    parameters: dict[str, Any],
    left_out: Sequence[str] = (),
) -> None:
    """Write the answer to a query over captures; for ``left_out`` see :func:`answer_columns`."""
    row_format = arguments.format or default_format(arguments.output)
    # Imported late: large tables.
    from kanalyze.api.tables import name_tables_of

    progress = progress_of(arguments, arguments.output)
    names = names_in(arguments)
    with ExitStack() as stack:
        # What is wrong with the arguments is reported before the work.
        tables = _tables_of(arguments, query, names, progress)
        output = None if row_format == TABLE else stack.enter_context(OutputFile(arguments.output))
        with progress.shown():
            database = stack.enter_context(tables)
            if names is not None:
                name_tables_of(database, names)
            progress.begin("querying")
            if output is None:
                answer_table = database.ask(query, parameters)
                write = partial(_show, answer_table, arguments.output, left_out)
            else:
                answer = stack.enter_context(database.answer_file(query, parameters, row_format))
                write = partial(shutil.copyfileobj, answer, output.file)
        write()


@contextmanager
def _of_captures(
    analysis: Analysis | SavedAnalysis, opened: AbstractContextManager[OpenedTables]
) -> Iterator[Database]:
    with opened as tables:
        yield tables.database
    report_undecrypted(analysis)


def _tables_of(
    arguments: argparse.Namespace, query: str, names: AddressNames | None, progress: Progress
) -> AbstractContextManager[Database]:
    """Return a database of what is queried: captures, saved files, or what a batch wrote."""
    from kanalyze.api.tables import tables_for
    from kanalyze.batch.commit import archive_among

    tables = tables_for(query, names)
    archive = archive_among(arguments.captures)
    if archive is None:
        analysis = rows_of(arguments)
        return _of_captures(analysis, opened_tables_of(arguments, analysis, progress, tables))
    from kanalyze.batch.archive_tables import archive_database  # imported late: it imports DuckDB

    if any(filters_of(arguments).values()):
        raise UsageError(f"{archive}: is what kanalyze batch wrote: filter it by WHERE")
    progress.begin("reading the archive")
    return archive_database(
        archive,
        # Those of captures always have connections, whose ends have names too.
        tables if names is None else {*tables, "connections"},
        max_memory_bytes=arguments.max_memory or DEFAULT_MEMORY_BYTES,
        threads=worker_count(arguments),
    )


def _list(folders: list[Path]) -> None:
    """Write the name and title of each query."""
    titles = {
        name + "".join(f" --param {each}=..." for each in query.parameters): query.title
        for name, query in sorted(questions(*folders).items())
    }
    width = max(map(len, titles))
    for name, title in titles.items():
        sys.stdout.write(f"{name:{width}}  {title}\n")


def _write_tables(names: Iterable[str]) -> None:
    """Write tables that can be queried: the meaning of a line, and the columns."""
    from kanalyze.spec.rows.tables import SQL_TABLES  # imported late: large tables

    width = plain_width() if sys.stdout.isatty() else None
    indent = _MEANINGS_AT if width is not None and width >= 2 * _MEANINGS_AT else _NARROW_INDENT
    for table in map(SQL_TABLES.__getitem__, names):
        _write_wrapped(f"{table.name}: {table.line}", width, _NARROW_INDENT)
        for column in table.columns:
            kind = f"{column.type}{' or null' if column.nullable else ''}"
            unit = f" ({column.unit})" if column.unit else ""
            items = "".join(f"; {each.name}: {each.meaning}" for each in column.fields)
            text = f"  {column.name:28} {kind:15} {column.meaning}{unit}{items}"
            _write_wrapped(text, width, indent)


def _write_wrapped(text: str, width: int | None, indent: int) -> None:
    """Write a text in lines of at most ``width``, all but the first indented.

    If ``width`` is None, write it in one line.
    """
    lines = [text]
    if width is not None:
        margin = " " * indent
        lines = textwrap.wrap(text, width, subsequent_indent=margin, break_on_hyphens=False)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _query(arguments: argparse.Namespace, folders: list[Path]) -> tuple[str, dict[str, Any]]:
    """Return the SQL, and the values of its parameters."""
    values = {name: _value(text) for name, text in arguments.param}
    if arguments.query is None:
        return arguments.sql, values
    query: Query = find_query(arguments.query, *folders)
    for name in query.parameters:
        if name not in values:
            raise UsageError(f"query {query.name!r} needs a parameter: add --param {name}=...")
    for name in values:
        if name not in query.parameters:
            raise UsageError(f"query {query.name!r} has no parameter {name!r}")
    return query.sql, values


def _value(text: str) -> int | float | str:
    """Return a number if the text is one, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _show_answer(database: Database, query: str, *, row_format: str) -> None:
    """Write the answer to a query to standard output."""
    if row_format == TABLE:
        _show(database.ask(query), STANDARD_OUTPUT)
        return
    with database.answer_file(query, {}, row_format) as answer:
        sys.stdout.flush()
        shutil.copyfileobj(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _show(answer: pa.Table, destination: str, left_out: Sequence[str] = ()) -> None:
    import pyarrow as pa

    from kanalyze.render.answers import answer_columns

    are_numbers = [
        pa.types.is_integer(field.type)
        or pa.types.is_floating(field.type)
        or pa.types.is_decimal(field.type)
        for field in answer.schema
    ]
    are_times = [pa.types.is_temporal(field.type) for field in answer.schema]
    readable = answer_columns(answer.column_names, are_numbers, are_times, left_out)
    style = {"readable": readable, "status_of": lambda _: ""}
    with Output(destination, TABLE, None, table_style=style).opened() as sink:
        for batch in answer.to_batches(max_chunksize=1000):
            columns = [column.to_pylist() for column in batch.columns]
            sink.write(list(zip(*columns, strict=True)))
    if not answer.num_rows:
        print_message("the answer has no rows")


def save(arguments: argparse.Namespace) -> None:
    """Write the tables of captures to a file; raises KanalyzeError and OSError."""
    from kanalyze.api.tables import save_tables, tables_to_save
    from kanalyze.tables.cluster.reader import CLIENT_METRICS

    analysis = analysis_of(arguments)
    progress = progress_of(arguments)
    with closing(analysis), progress.shown(), progress.reading(analysis):
        requests = save_tables(
            analysis,
            arguments.output,
            {name: getattr(arguments, name) for name in ("port", "topic_ids", "definitions")},
            records=arguments.records,
            max_memory_bytes=arguments.max_memory or DEFAULT_MEMORY_BYTES,
        )
    left_out = (
        "keys, values and headers of records"
        if arguments.records
        else "records (--records keeps them, without keys and values)"
    )
    if CLIENT_METRICS not in tables_to_save(records=arguments.records):
        left_out += f", {CLIENT_METRICS} (kanalyze[otlp] reads them)"
    print_message(f"{arguments.output}: leaves out {left_out}, and packets")
    report_unread(requests, arguments, analysis)
