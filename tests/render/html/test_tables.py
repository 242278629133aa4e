from __future__ import annotations

from kanalyze.render.html.tables import TABLES

MOST_LETTERS = 30


def test_a_title_names_a_table_and_a_note_explains_it() -> None:
    for table in TABLES:
        assert len(table.title) <= MOST_LETTERS, table.title
        assert not table.title.endswith(".")
        assert table.note == "" or (table.note[0].isupper() and table.note.endswith("."))


def test_each_table_has_a_name_and_columns_of_its_own() -> None:
    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names)
    for table in TABLES:
        titles = [column.title for column in table.columns]
        assert len(set(titles)) == len(titles), table.name
