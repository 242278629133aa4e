from __future__ import annotations

import duckdb
import pytest

from kanalyze.queries import database
from kanalyze.queries.database import DerivedViews
from kanalyze.queries.files import Query


def query(name: str, sql: str, description: str = "") -> Query:
    return Query(name, "", description, (), sql)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> duckdb.DuckDBPyConnection:
    tables = {
        "errors": query("errors", "SELECT * FROM answered WHERE twice(n) > 2"),
        "answered": query("answered", "SELECT n FROM rows", "kept: it is read twice"),
        "unused": query("unused", "SELECT * FROM nowhere"),
    }
    macros = {"twice": query("twice", "CREATE TEMP MACRO twice(x) AS x * 2")}
    folders = {"tables": tables, "macros": macros}
    monkeypatch.setattr(database, "built_in", folders.__getitem__)
    made = duckdb.connect()
    made.execute("CREATE TABLE rows AS FROM range(4) AS r(n)")
    return made


def tables_and_views(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    sql = "SELECT table_name, table_type FROM information_schema.tables WHERE table_name <> 'rows'"
    return dict(connection.execute(sql).fetchall())


def test_only_views_that_a_statement_names_are_created(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    views = DerivedViews(connection)
    views.make("SELECT 1 FROM rows")
    assert tables_and_views(connection) == {}
    views.make("SELECT 1 FROM errors")
    assert tables_and_views(connection) == {"errors": "VIEW", "answered": "LOCAL TEMPORARY"}
    assert connection.execute("FROM errors ORDER BY n").fetchall() == [(2,), (3,)]


def test_views_are_computed_again_after_rows_were_added(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    views = DerivedViews(connection)
    views.make("FROM errors")
    views.drop()
    assert tables_and_views(connection) == {}
    connection.execute("INSERT INTO rows VALUES (9)")
    views.make("SELECT twice(max(n)) FROM errors")
    assert connection.execute("SELECT twice(max(n)) FROM errors").fetchall() == [(18,)]
