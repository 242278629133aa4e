from __future__ import annotations

import pytest
from rich.cells import cell_len

from kanalyze.live.view.tables import TABLES, sorted_entries, table_lines
from kanalyze.live.window.row_measures import text_matches
from tests.live.snapshots import hostile, usual
from tests.support.cases import for_each

BY_NAME = {table.name: table for table in TABLES}


@for_each(
    "case",
    [
        ("", None, True),
        ("app", "my-app-1", True),
        ("APP", "my-app-1", True),
        ("app", None, False),
        ("app", "other", False),
        ("app*", "my-app-1", False),
        ("*app*", "my-app-1", True),
        ("app-?", "app-1", True),
        ("app-[12]", "app-2", True),
        ("app-[12]", "app-3", False),
        ("[", "[", True),
    ],
)
def test_text_matches_parts_and_globs(case):
    pattern, text, matches = case
    assert text_matches(pattern, (text,)) is matches


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@pytest.mark.parametrize("make", [usual, hostile])
def test_every_column_can_be_sorted_in_both_directions(table, make):
    snapshot = make()
    for by, column in enumerate(table.columns):
        forwards = sorted_entries(table, snapshot, by=by)
        backwards = sorted_entries(table, snapshot, by=by, reverse=True)
        named = [entry for entry in forwards if isinstance(entry, dict) or not entry.other]
        keys = [column.order(entry) for entry in named]
        is_text = bool(keys) and isinstance(keys[0], str)
        assert keys == sorted(keys, reverse=not is_text)
        assert keys[::-1] == [column.order(entry) for entry in backwards[: len(named)]]
        assert forwards[len(named) :] == backwards[len(named) :]


@pytest.mark.parametrize("name", ["clients", "topics", "groups"])
def test_the_entry_of_other_names_is_last(name):
    for reverse in (False, True):
        table = BY_NAME[name]
        entries = sorted_entries(table, hostile(), by=table.sorted_by, reverse=reverse)
        assert [entry.other for entry in entries] == [False] * 20 + [True]


def test_a_pattern_filters_by_the_names_in_a_table():
    clients = sorted_entries(BY_NAME["clients"], usual(), pattern="CLIENT-3", by=0)
    assert [entry.client_id for entry in clients] == ["client-3"]
    clients = sorted_entries(BY_NAME["clients"], usual(), pattern="10.0.1.5", by=0)
    assert [entry.client_id for entry in clients] == ["client-5"]
    slowest = sorted_entries(BY_NAME["slow"], usual(), pattern="Heart*", by=0)
    assert {entry["api_name"] for entry in slowest} == {"Heartbeat"}
    errors = sorted_entries(BY_NAME["errors"], usual(), pattern="payments", by=0)
    assert {entry.topic for entry in errors} == {"payments"}
    assert sorted_entries(BY_NAME["groups"], usual(), pattern="nothing", by=0) == []


@pytest.mark.parametrize("width", [1, 10, 30, 60, 80, 140])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@pytest.mark.parametrize("make", [usual, hostile])
def test_every_line_is_printable_and_fits_the_width(table, make, width):
    snapshot = make()
    lines = list(table_lines(table, table.entries(snapshot), snapshot, width, by=0))
    assert len(lines) == len(table.entries(snapshot)) + 1
    for line in lines:
        assert cell_len(line.plain) <= width
        assert line.plain.isprintable()


def test_the_column_sorted_by_has_an_arrow():
    table, snapshot = BY_NAME["clients"], usual()
    title, *_ = table_lines(table, [], snapshot, 80, by=2)
    assert "requests\u2193" in title.plain
    title, *_ = table_lines(table, [], snapshot, 80, by=2, reverse=True)
    assert "requests\u2191" in title.plain


def test_every_entry_has_a_unique_key():
    for make in (usual, hostile):
        # In these snapshots, the slow requests are the same in every second.
        for name in BY_NAME.keys() - {"slow"}:
            keys = [BY_NAME[name].key(entry) for entry in BY_NAME[name].entries(make())]
            assert len(set(keys)) == len(keys)
    slowest = BY_NAME["slow"]
    entries = [entry | {"request_packet": n} for n, entry in enumerate(usual().slowest)]
    assert len({slowest.key(entry) for entry in entries}) == len(entries)


def test_a_narrow_terminal_shows_fewer_columns_of_apis():
    table, snapshot = BY_NAME["APIs"], usual()
    titles = [
        next(iter(table_lines(table, snapshot.apis, snapshot, width))).plain.split()
        for width in (80, 60, 50, 42)
    ]
    assert titles[0] == ["API", "requests", "errors", "sent", "received", "p50", "p99"]
    assert titles[-1] == ["API", "requests", "errors", "p99"]
    assert sorted(map(len, titles), reverse=True) == [*map(len, titles)]


def test_counts_that_newer_group_protocols_lack_are_dashes():
    table, snapshot = BY_NAME["groups"], usual()
    entry = snapshot.groups[0]._replace(joins=0, leaves=0, told=0, rebalances=2, members=3)
    for protocol, shown in (("classic", "0"), ("consumer", "-")):
        _, line = table_lines(table, [entry._replace(protocol=protocol)], snapshot, 140)
        assert line.plain.split()[-4:-1] == [shown] * 3


def test_long_polls_and_orphan_responses_have_their_own_lines():
    table, snapshot = BY_NAME["APIs"], usual()
    names = [line.plain.split("  ")[0] for line in table_lines(table, snapshot.apis, snapshot, 80)]
    assert {"Fetch", "Fetch (waited)", "(response alone)"} <= set(names)
