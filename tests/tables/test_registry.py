import pytest

from kanalyze.errors import UsageError
from kanalyze.tables.registry import ALWAYS, TABLES, choose_tables


def test_tables_are_known_by_their_names() -> None:
    assert [table.name for table in TABLES.values()] == list(TABLES)
    assert set(ALWAYS) <= set(TABLES)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_column_has_a_name_of_its_own_and_a_meaning(table) -> None:
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    for column in table.columns:
        assert all(each.meaning for each in (column, *column.fields)), column.name


def test_chosen_are_those_that_are_named_and_those_that_are_always_there() -> None:
    assert [table.name for table in choose_tables()] == list(ALWAYS)
    assert [table.name for table in choose_tables(["requests", *TABLES])] == list(TABLES)


def test_a_table_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=r"^unknown table: 'nope'; there are requests, "):
        choose_tables(["nope"])
