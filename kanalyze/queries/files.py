"""Files of SQL: one query each, with its title and description in the comment at the top.

In: a folder. Out: :class:`Query`.

A file has the name of its query, and begins with comment lines: the first is the title, the others
are the description. A parameter is written ``$name``. If a line of a table's description begins
with ``kept:``, the table is computed once and stored. For lines ``only if TABLE: CONDITION`` see
``conditions.py``. What follows ``-- sessions:`` is SQL where requests refer to lists of their fetch
sessions; it is a comment elsewhere, because planning it takes time.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import known_or_similar
from kanalyze.errors import UsageError, reason_of

_BUILT_IN = Path(__file__).with_name("sql")
_SUFFIX = ".sql"
_PARAMETER = re.compile(r"\$([a-z_][a-z_0-9]*)")
_STORED = re.compile(r"^kept: ", re.MULTILINE)
_TEXT = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""The parts of SQL without parameters: string literals and comments."""
_WORD = re.compile(r"\w+")
_ROWS = re.compile(r"-- rows: ")
_SESSIONS = re.compile(r"-- sessions: ")
_SOURCES = re.compile(
    r"\b(?:from|join|describe|summarize|table)\b([^();]*?)(?=[();]|\b(?:where|group|order|select|"
    r"limit|having|window|union|on|using|qualify|intersect|except|join|inner|left|right|full|cross|"
    r"natural|asof|anti|semi|positional|pivot|unpivot|tablesample)\b|$)"
)
"""What SQL in lower case reads from: tables, their aliases, and functions of tables."""
_OWN = re.compile(r"(\w+)\s+as\s+(?:(?:not\s+)?materialized\s+)?\(")
"""A name that a query defines itself, such as by WITH."""
_LARGEST_BYTES = 1 << 20


class Query(NamedTuple):
    """A query as SQL in DuckDB's dialect."""

    name: str
    title: str
    description: str
    parameters: tuple[str, ...]
    """Names of the parameters, sorted."""
    sql: str

    @property
    def is_stored(self) -> bool:
        """Whether the result is stored as a table."""
        return _STORED.search(self.description) is not None

    @property
    def names_rows(self) -> bool:
        """Whether the query, or a table that it reads, can say which rows it means."""
        tables = built_in("tables")
        texts = [self.sql, *(tables[name].sql for name in words_of(self.sql) & tables.keys())]
        return any(map(_ROWS.search, texts))

    def with_rows(self) -> Query:
        """Return the query with the parts of SQL that say which rows it means."""
        return self._replace(sql=_ROWS.sub("", self.sql))

    def with_sessions(self) -> Query:
        """Return the query with the parts of SQL that read ``session_lists``."""
        return self._replace(sql=_SESSIONS.sub("", self.sql))


def read_queries(folder: Path) -> dict[str, Query]:
    """Return the queries of a folder by name; raises UsageError for one that cannot be read."""
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix == _SUFFIX)
    except OSError as error:
        raise UsageError(f"{folder}: {reason_of(error)}") from None
    return {file.stem: _read(file) for file in files}


@cache
def built_in(kind: str) -> dict[str, Query]:
    """Return the queries of kanalyze in a folder of ``sql``, such as ``tables`` or ``report``."""
    return read_queries(_BUILT_IN / kind)


@cache
def derived() -> dict[str, Query]:
    """Return the views of kanalyze by name: those of reports, and those that only SQL users read.

    The latter are in a folder of their own, so that reports need none of their columns.
    """
    return {**built_in("tables"), **built_in("views")}


@lru_cache(maxsize=256)
def derived_in(sql: str) -> frozenset[str]:
    """Return the names of :func:`derived` that SQL may read.

    Names of the views of users are words that a query may use for something else, such as ``lag``.
    """
    words = words_of(sql)
    found, views = words & built_in("tables").keys(), words & built_in("views").keys()
    if views:  # seldom: the search below takes 0.3 ms
        text = _TEXT.sub(" ", sql).lower()
        sources = {word for part in _SOURCES.findall(text) for word in _WORD.findall(part)}
        found |= views & sources - {*_OWN.findall(text)}
    return found


def words_below(sql: str) -> frozenset[str]:
    """Return the words of SQL and of all views that it reads, directly or through other views."""
    words, views, new = words_of(sql), frozenset[str](), derived_in(sql)
    while new:
        views |= new
        texts = [derived()[name].sql for name in new]
        words = words.union(*map(words_of, texts))
        new = frozenset[str]().union(*map(derived_in, texts)) - views
    return words


def questions(*folders: Path) -> dict[str, Query]:
    """Return the built-in questions and those in a user's folders; later ones replace earlier."""
    queries = dict(built_in("questions"))
    for folder in folders:
        queries.update(read_queries(folder))
    return queries


def find_query(name: str, *folders: Path) -> Query:
    """Return one of the :func:`questions` by name; raises UsageError if there is none."""
    queries = questions(*folders)
    if name not in queries:
        raise UsageError(f"unknown query: {name!r}{known_or_similar(name, sorted(queries))}")
    return queries[name]


def parameters_of(sql: str) -> tuple[str, ...]:
    """Return the names of the parameters in SQL, sorted."""
    return tuple(sorted(set(_PARAMETER.findall(_TEXT.sub(" ", sql)))))


@lru_cache(maxsize=256)  # a report needs the words of each text twice: this saves 20 ms
def words_of(sql: str) -> frozenset[str]:
    """Return the words of SQL in lower case, which include the names of all tables it reads."""
    return frozenset(_WORD.findall(_TEXT.sub(" ", sql).lower()))


def _read(file: Path) -> Query:
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            raise UsageError(f"{file}: an SQL file may have at most 1 MiB")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: {reason_of(error)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: not UTF-8 text") from None
    lines = text.splitlines()
    head = []
    for line in lines:
        if not line.startswith("--"):
            break
        head.append(line.removeprefix("--").strip())
    title, _, description = "\n".join(head).partition("\n")
    return Query(file.stem, title, description.strip(), parameters_of(text), text)
