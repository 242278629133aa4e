"""``kanalyze sql`` without a query, on a terminal: a prompt for queries.

In: lines that a person types. Out: answers; errors in a line each.

The captures are read once, and again when a query is the first to need another table, such as
records. Names are completed, and lines remembered, by readline where Python has it.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kanalyze.cli.analyze import names_in, opened_tables_of, report_undecrypted, rows_of
from kanalyze.cli.console import print_message
from kanalyze.cli.progress import progress_of
from kanalyze.errors import KanalyzeError, UsageError, reason_of
from kanalyze.spec.rows.tables import SQL_TABLES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kanalyze.queries.database import Database

_PROMPT: Final = "kanalyze> "
_CONTINUED: Final = "     ...> "
_HELP: Final = """\
A query ends with ; or an empty line. Tab completes names; ctrl-c drops a query, ctrl-d ends.
.tables          the tables, and what a row of each is
.schema [TABLE]  the columns of all tables, or of one
.quit            the end
"""
_DELIMITERS: Final = " \t\n\"'()=<>,;+-*/"
_MOST_LINES: Final = 1000
"""Lines of history that are kept."""


def ask_again_and_again(
    arguments: argparse.Namespace,
    show: Callable[[Database, str], None],
    schema: Callable[[Sequence[str]], None],
) -> None:
    """Answer queries until the end of the input; raises KanalyzeError if no capture can be read.

    ``show`` writes the answer to a query, ``schema`` the columns of tables.
    """
    if arguments.output != "-" or arguments.param:
        raise UsageError("--output and --param need a query")
    with ExitStack() as stack:
        tables = _Tables(arguments, stack.enter_context(ExitStack()))
        tables.for_query("FROM requests")
        sys.stdout.write("The tables are there: .help says how to ask, .quit ends.\n")
        stack.enter_context(_line_editing(tables.keywords()))
        stack.enter_context(_interrupted_by_exception())
        while True:
            try:
                text = _next_text()
                if text is None or text.split()[0] in (".quit", ".exit"):
                    return
                _answer(text, tables, show, schema)
            except KanalyzeError as error:
                print_message(str(error))
            except KeyboardInterrupt:
                sys.stdout.write("\n")
                print_message("interrupted; .quit ends")


def _answer(
    text: str,
    tables: _Tables,
    show: Callable[[Database, str], None],
    schema: Callable[[Sequence[str]], None],
) -> None:
    """Answer a query, or do what a command with a dot says."""
    if not text.startswith("."):
        show(tables.for_query(text), text)
        return
    command, *names = text.split()
    if command == ".tables":
        width = max(map(len, SQL_TABLES))
        for table in SQL_TABLES.values():
            sys.stdout.write(f"{table.name:{width}}  {table.line}\n")
    elif command == ".schema":
        unknown = next((name for name in names if name not in SQL_TABLES), None)
        if unknown is not None:
            raise UsageError(f"no table {unknown!r}: .tables lists them")
        schema(names or list(SQL_TABLES))
    elif command == ".help":
        sys.stdout.write(_HELP)
    else:
        raise UsageError(f"no command {command!r}: .help lists them")


def _next_text() -> str | None:
    """Return the next query or command, which is not empty; None at the end."""
    lines: list[str] = []
    while True:
        try:
            line = input(_CONTINUED if lines else _PROMPT).rstrip()
        except EOFError:
            sys.stdout.write("\n")
            return None
        if line:
            lines.append(line)
        is_command = line.startswith(".") and len(lines) == 1
        if lines and (not line or line.endswith(";") or is_command):
            text, lines = "\n".join(lines).strip(), []
            if text.strip("; \n"):
                return text


class _Tables:
    """The tables that queries have needed so far."""

    def __init__(self, arguments: argparse.Namespace, stack: ExitStack) -> None:
        """Read nothing yet; ``stack`` holds the open database."""
        self._arguments = arguments
        self._stack = stack
        self._tables: set[str] = set()
        self._database: Database | None = None
        self._names = names_in(arguments)

    def for_query(self, query: str) -> Database:
        """Return a database with the tables of a query, which it may have to read."""
        from kanalyze.api.tables import name_tables_of, tables_for  # imported late: large tables

        needed = tables_for(query, self._names)
        if self._database is not None and needed <= self._tables:
            return self._database
        self._stack.close()
        self._database = None
        analysis = rows_of(self._arguments)
        progress = progress_of(self._arguments)
        opened = opened_tables_of(self._arguments, analysis, progress, self._tables | needed)
        with progress.shown():
            database = self._stack.enter_context(opened).database
        if self._names is not None:
            name_tables_of(database, self._names)
        report_undecrypted(analysis)
        self._tables |= needed
        self._database = database
        return database

    def keywords(self) -> list[str]:
        """Return the words of DuckDB's SQL that cannot be names."""
        sql = "SELECT keyword_name AS word FROM duckdb_keywords() WHERE keyword_category = $kind"
        words = self.for_query("").ask(sql, {"kind": "reserved"})
        return [str(word).upper() for word in words["word"].to_pylist()]


@contextmanager
def _interrupted_by_exception() -> Iterator[None]:
    """Let ctrl-c drop a query, and not end the process."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _line_editing(keywords: Sequence[str]) -> Iterator[None]:
    """Complete names, and remember lines from one run to the next, if Python has readline."""
    try:
        import readline
    except ImportError:  # Windows, and some builds of Python
        yield
        return
    is_editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")
    readline.set_completer_delims(_DELIMITERS)

    def complete(text: str, number: int) -> str | None:
        found = _completed(text, readline.get_line_buffer(), keywords)
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.set_history_length(_MOST_LINES)
    history = _history_file()
    try:
        # Only its owner may read what was asked; readline would follow the umask.
        history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        history.touch(mode=0o600)
        if history.stat().st_size:
            readline.read_history_file(history)
    except OSError as error:
        print_message(f"{history}: lines are not remembered: {reason_of(error)}")
        yield
        return
    try:
        yield
    finally:
        readline.write_history_file(history)


def _history_file() -> Path:
    """Return the file of earlier lines, in the user's folder for states of programs."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    return folder / "kanalyze" / "sql_history"


def _completed(text: str, line: str, keywords: Sequence[str]) -> list[str]:
    """Return what the last word of a line can be: names of tables and columns, words of SQL.

    If the line names tables, the columns are theirs, else those of all.
    """
    if line.lstrip().startswith("."):
        names = list(SQL_TABLES) if " " in line.strip() or line.endswith(" ") else []
        commands = [".tables", ".schema", ".help", ".quit"]
        return [name for name in names or commands if name.startswith(text)]
    table, dot, column = text.rpartition(".")
    if dot and table in SQL_TABLES:
        return [f"{table}.{name}" for name in _columns([table]) if name.startswith(column)]
    words = line.replace(",", " ").replace("(", " ").split()
    named = [name for name in SQL_TABLES if name in words]
    names = sorted({*SQL_TABLES, *_columns(named or SQL_TABLES)})
    found = [name for name in names if name.startswith(text.lower())]
    return found + [word for word in keywords if text and word.startswith(text.upper())]


def _columns(tables: Iterable[str]) -> list[str]:
    return [column.name for table in tables for column in SQL_TABLES[table].columns]
