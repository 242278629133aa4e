from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.cells import cell_len

from kanalyze.render.table import RowTable
from kanalyze.spec.rows.requests import COLUMNS
from tests.support.golden import assert_golden
from tests.support.rows import failed, fetch, orphan, partition, plain_traffic, row, unanswered

GOLDEN = Path(__file__).parent / "golden"
MIXED = [
    row(),
    fetch(waited=True, client_id="a-consumer-with-a-rather-long-name", group_id="billing"),
    failed("orders", 6, "NOT_LEADER_OR_FOLLOWER"),
    unanswered(),
    orphan(),
    row(client_id="\x1b[31mred[bold]x[/]\u202e\n", api_name=None, api_key=999),
    row(partitions=[partition("orders"), partition("clicks"), partition(None, topic_id="id")]),
]


def columns(*names):
    by_name = {column.name: column for column in COLUMNS}
    return [by_name[name] for name in names]


def written(*batches, width=None, colour=False, columns_chosen=None) -> str:
    stream = io.StringIO()
    table = RowTable(stream, width=width, colour=colour, columns=columns_chosen)
    for batch in batches:
        table.write(batch)
    table.close()
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_equals_its_golden_file(width):
    assert_golden(written(MIXED, width=width), GOLDEN / f"table-{width}.txt")


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_every_line_fits_the_width(width):
    lines = written(MIXED + plain_traffic(100), width=width).splitlines()
    assert max(cell_len(line) for line in lines) <= width


def test_there_is_a_line_of_titles_and_a_line_for_each_row():
    assert len(written(MIXED[:3], MIXED[3:], width=80).splitlines()) == len(MIXED) + 1


def test_without_rows_the_table_has_only_titles():
    assert written(width=80).split()[:2] == ["time", "client"]
    assert written([]) == written()


def test_control_characters_are_escaped():
    text = written(MIXED)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\\u001b[31mred[bold]x[/]\\u202e\\n" in text


def test_colour_marks_failures_only_if_enabled():
    lines = written([row(), failed("orders", 6, "X")], colour=True).splitlines()
    assert lines[2].startswith("\x1b[31m")
    assert "\x1b" not in lines[1]
    assert "\x1b" not in written(MIXED)


def test_values_of_chosen_columns_are_not_formatted():
    columns_chosen = columns("client_id", "latency_ns", "waited", "errors", "anomalies")
    text = written([failed("orders", 6, "X", anomalies=["a", "b"])], columns_chosen=columns_chosen)
    assert text.splitlines()[1].split() == ["app", "2000000", "-", "orders:0:6:X", "a,", "b"]
    assert written([fetch(waited=False)], columns_chosen=columns("waited")) == "waited\nfalse\n"


def test_every_column_can_be_shown():
    text = written(MIXED, columns_chosen=COLUMNS)
    assert text.splitlines()[0].split() == [column.name for column in COLUMNS]


def test_a_later_longer_number_is_not_cut():
    columns_chosen = columns("request_packet", "client_id")
    batches = [row(request_packet=1)] * 1000, [row(request_packet=10**15)]
    assert str(10**15) in written(*batches, columns_chosen=columns_chosen, width=80)


def test_a_later_longer_text_is_cut_only_on_a_terminal():
    columns_chosen = columns("client_id", "status")
    batches = [row()] * 1000, [row(client_id="x" * 40)]
    assert written(*batches, columns_chosen=columns_chosen, width=80).endswith(
        "\nxxxxxxxx\u2026  ok\n"
    )
    assert written(*batches, columns_chosen=columns_chosen).endswith("\n" + "x" * 40 + "  ok\n")


def test_widths_depend_on_many_rows_even_with_small_batches():
    batches = [[row(client_id="x" * number)] for number in range(1, 30)]
    assert "x" * 29 in written([], *batches, width=80, columns_chosen=columns("client_id"))


def test_rows_are_buffered_until_the_widths_are_known():
    stream = io.StringIO()
    table = RowTable(stream, width=80, colour=False)
    table.write([row()] * 999)
    assert stream.getvalue() == ""
    table.write([row()])
    assert len(stream.getvalue().splitlines()) == 1001


def test_times_have_microseconds():
    assert "00:00:00.000000" in written([row()])
