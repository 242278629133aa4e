import pytest

from kanalyze.api.tables import fill
from kanalyze.errors import UsageError
from kanalyze.queries.database import Database, QueryError
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.columns import TYPES
from kanalyze.spec.rows.tables import ALWAYS, SQL_TABLES, TABLES, choose_tables, stored_columns
from tests.support.captures import path


def test_tables_are_known_by_their_names() -> None:
    assert [table.name for table in TABLES.values()] == list(TABLES)
    assert set(ALWAYS) <= set(TABLES)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_column_has_its_own_name_and_a_meaning(table) -> None:
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    for column in table.columns:
        assert all(part.meaning for part in (column, *column.fields)), column.name


def test_where_rows_are_stored_requests_have_numbers() -> None:
    (number, *columns) = stored_columns("requests")
    assert (number.name, tuple(columns)) == ("request_id", TABLES["requests"].columns)
    assert stored_columns("groups") == TABLES["groups"].columns


def test_selected_tables_are_the_named_ones_and_the_default_ones() -> None:
    assert [table.name for table in choose_tables()] == list(ALWAYS)
    assert [table.name for table in choose_tables(["requests", *TABLES])] == list(TABLES)


def test_an_unknown_table_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"^unknown table: 'nope'; there are requests, "):
        choose_tables(["nope"])


def test_declared_columns_of_tables_and_views_are_those_of_sql() -> None:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([path("groups")]), TABLES)
        for table in SQL_TABLES.values():
            found = database.ask(f"DESCRIBE {table.name}").to_pylist()
            names = [column.name for column in table.columns]
            assert [line["column_name"] for line in found] == names
            for line, column in zip(found, table.columns, strict=True):
                if column.fields:
                    assert line["column_type"].startswith("STRUCT(")
                elif column.type == "list<string>":
                    assert line["column_type"] == "VARCHAR[]"
                else:
                    assert line["column_type"] == TYPES[column.type].sql, column.name
                if not column.nullable:
                    empty = f'SELECT count(*) AS n FROM {table.name} WHERE "{column.name}" IS NULL'
                    assert database.ask(empty).to_pylist() == [{"n": 0}], column.name


def test_a_table_that_is_not_selected_does_not_exist() -> None:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([path("groups")]), ["groups"])
        assert database.ask("SELECT count(*) > 0 AS some FROM groups").to_pylist() == [
            {"some": True}
        ]
        with pytest.raises(QueryError, match="metadata does not exist"):
            database.ask("FROM metadata")
