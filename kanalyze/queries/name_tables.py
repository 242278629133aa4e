"""Names of addresses in a database: two tables, and queries whose tables have names as columns.

In: :class:`~kanalyze.tables.names.AddressNames`, a filled database, queries of users. Out: queries
in which tables have :data:`~kanalyze.spec.rows.names.NAME_COLUMNS`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kanalyze.queries.files import words_of
from kanalyze.spec.rows.names import BROKER_COLUMNS, NAMED_TABLES
from kanalyze.tables.names import BrokerFact

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

    from kanalyze.tables.names import AddressNames

_CLIENTS, _BROKERS = "client_names", "broker_names"
_ADDRESSES = "FROM requests SELECT {0} UNION FROM connections SELECT {0}"
_KEYWORD = re.compile(
    r"\s*(?:(with)\s+(recursive\s+)?|(?:select|from|values|pivot|unpivot)\b|\()", re.IGNORECASE
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


class NameTables:
    """The tables with names in a database, once there are any."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Begin without names."""
        self._connection = connection
        self._are_made = False

    def make(
        self, names: AddressNames, values: Callable[[str], list[Any]], *, has_metadata: bool
    ) -> None:
        """Make the tables for the addresses in the database.

        Args:
            names: what is known of addresses.
            values: returns the rows of a statement, when all rows are in their tables.
            has_metadata: whether there is the table ``metadata``, which knows ids of brokers.
        """
        clients = values(_ADDRESSES.format("client_ip"))
        brokers = values(_ADDRESSES.format("broker_ip, broker_port"))
        facts: list[BrokerFact] = []
        if has_metadata:
            told = "FROM metadata SELECT DISTINCT node_id, host, port, rack"
            facts = [BrokerFact(*line) for line in values(told) if None not in line[:3]]
        self._create(_CLIENTS, names.client_rows(address for (address,) in clients))
        self._create(_BROKERS, names.broker_rows([(ip, port) for ip, port in brokers], facts))
        self._are_made = True

    def named(self, sql: str) -> str:
        """Return a query in which tables have names, if there are any."""
        return with_names(sql) if self._are_made else sql

    def _create(self, table: str, rows: list[tuple[object, ...]]) -> None:
        import pyarrow as pa

        whole, text = pa.int64(), pa.string()
        columns = [("address", text), ("since_ns", whole), ("until_ns", whole), ("name", text)]
        columns += [("app", text)] if table == _CLIENTS else [("port", whole), ("id", pa.int32())]
        schema = pa.schema([*columns, ("zone", text)])
        lines = [dict(zip(schema.names, row, strict=True)) for row in rows]
        self._connection.register("incoming_names", pa.Table.from_pylist(lines, schema))
        self._connection.execute(f"CREATE TEMP TABLE {table} AS FROM incoming_names")
        self._connection.unregister("incoming_names")


def names_brokers(sql: str) -> bool:
    """Return true if SQL names a column of brokers' names, for which metadata is needed."""
    return not words_of(sql).isdisjoint(BROKER_COLUMNS)


def with_names(sql: str) -> str:
    """Return a query in which tables have the names of their addresses as columns."""
    words = words_of(sql)
    named = [name for name in NAMED_TABLES if name in words]
    start = _KEYWORD.match(_blanked(sql))
    if not named or start is None:
        return sql
    tables = ",\n".join(f"{name} AS ({_named(name)})" for name in named)
    begin, is_recursive = start.groups()
    if begin is None:
        return f"WITH {tables}\n{sql}"
    return f"WITH {is_recursive or ''}{tables}, {sql[start.end() :]}"


def _blanked(sql: str) -> str:
    """Return SQL with blanks in place of comments, so that places stay."""
    return _COMMENT.sub(lambda match: " " * len(match[0]), sql)


def _named(table: str) -> str:
    """Return a query for a table with the names of its addresses."""
    time = NAMED_TABLES[table]
    return f"""
        FROM {table} AS t
        LEFT JOIN {_CLIENTS} AS c
            ON t.client_ip = c.address AND coalesce(t.{time}, 0) >= c.since_ns
            AND coalesce(t.{time}, 0) < c.until_ns
        LEFT JOIN {_BROKERS} AS b
            ON t.broker_ip = b.address AND t.broker_port = b.port
            AND coalesce(t.{time}, 0) >= b.since_ns AND coalesce(t.{time}, 0) < b.until_ns
        SELECT t.*, c.name AS client_name, c.app AS client_app, c.zone AS client_zone,
            b.name AS broker_name, b.id AS broker_id, b.zone AS broker_zone
    """
