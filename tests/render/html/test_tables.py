from __future__ import annotations

from kanalyze.render.html.tables import TABLES

MAX_TITLE_LENGTH = 30


def test_titles_are_short_and_notes_are_sentences() -> None:
    for table in TABLES:
        assert len(table.title) <= MAX_TITLE_LENGTH, table.title
        assert not table.title.endswith(".")
        assert table.note == "" or (table.note[0].isupper() and table.note.endswith("."))


def test_names_of_tables_and_of_their_columns_are_unique() -> None:
    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names)
    for table in TABLES:
        titles = [column.title for column in table.columns]
        assert len(set(titles)) == len(titles), table.name
