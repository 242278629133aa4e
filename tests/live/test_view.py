from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from kanalyze.live.tables import TABLES
from kanalyze.live.view import Effect, ViewState, render, view_lines
from tests.live.snapshots import hostile, lossy, nothing, usual
from tests.support.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
NAMES = [table.name for table in TABLES]
KEYS = [
    "q",
    "c",
    "p",
    "h",
    "?",
    "/",
    "s",
    "r",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "tab",
    "shift-tab",
    "left",
    "right",
    "up",
    "down",
    "pageup",
    "pagedown",
    "home",
    "end",
    "escape",
    "enter",
    "backspace",
    "ctrl-u",
    "ctrl-c",
    "x",
    "*",
    "漢",
    "[",
]


def after(*keys: str, state: ViewState | None = None) -> ViewState:
    """Return the state after some keys, none of which asks for anything."""
    state = ViewState() if state is None else state
    for key in keys:
        state, effect = state.key(key)
        assert effect is Effect.NONE
    return state


def text(snapshot, state: ViewState, width: int, height: int) -> str:
    return "".join(f"{line.plain}\n" for line in view_lines(snapshot, state, width, height))


# -- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["q", "ctrl-c"])
def test_quitting(key):
    assert ViewState().key(key) == (ViewState(), Effect.QUIT)


def test_clearing():
    assert ViewState().key("c") == (ViewState(), Effect.CLEAR)


def test_choosing_a_table():
    assert after("3").table == 2
    assert after("tab", "tab").table == 2
    assert after("right", "left").table == 0
    assert after("shift-tab").table == len(TABLES) - 1
    assert after("tab", state=ViewState(table=len(TABLES) - 1)).table == 0
    assert after("7") == ViewState()
    assert after("0") == ViewState()


def test_each_table_has_an_order_of_its_own():
    first = TABLES[0].sorted_by
    state = after("s", "r", "2", "s")
    assert state.orders[0] == (first + 1, True)
    assert state.orders[1] == (TABLES[1].sorted_by + 1, False)
    assert state.orders[2:] == ViewState().orders[2:]


def test_sorting_goes_round():
    columns = len(TABLES[0].columns)
    assert after(*["s"] * columns) == ViewState()
    assert after("r", "r") == ViewState()


def test_pausing():
    assert after("p").paused
    assert after(" ").paused
    assert not after("p", " ").paused


def test_typing_a_filter():
    typing = after("/", "a", "q", "1", "p", " ", "backspace")
    assert typing.typed == "aq1p"
    assert typing.shown_pattern() == "aq1p"
    assert (typing.table, typing.paused) == (0, False)
    assert after("enter", state=typing) == ViewState(pattern="aq1p")
    assert after("escape", state=typing) == ViewState()
    assert after("ctrl-u", state=typing).typed == ""
    assert typing.key("ctrl-c")[1] is Effect.QUIT


def test_a_filter_can_be_changed_dropped_and_taken_away():
    state = ViewState(pattern="ab")
    assert after("/", "c", "enter", state=state).pattern == "abc"
    assert after("/", "c", "escape", state=state).pattern == "ab"
    assert after("escape", state=state).pattern == ""


def test_a_filter_has_a_longest_length():
    assert len(after("/", *"x" * 1000).typed) == 80


def test_help_goes_with_any_key():
    assert after("h").helping
    assert after("?", "s") == ViewState()
    assert after("?").key("q")[1] is Effect.QUIT


def test_scrolling_begins_anew_in_another_table():
    assert after("down", "j", "pagedown").first == 12
    assert after("down", "up", "up", "k").first == 0
    assert after("pagedown", "home").first == 0
    assert after("pagedown", "tab").first == 0


@given(st.lists(st.sampled_from(KEYS), max_size=30), st.integers(1, 130), st.integers(1, 50))
def test_whatever_is_pressed_the_view_fits_the_terminal(keys, width, height):
    state = ViewState()
    for key in keys:
        state, _ = state.key(key)
    for snapshot in SNAPSHOTS:
        lines = view_lines(snapshot, state, width, height)
        assert len(lines) == height
        assert max(cell_len(line.plain) for line in lines) <= width


SNAPSHOTS = [usual(), hostile(), nothing()]


# -- what is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 15)])
@pytest.mark.parametrize("make", [usual, hostile])
def test_the_view_looks_as_it_did(make, width, height):
    name = f"{make.__name__}-{width}x{height}.txt"
    assert_golden(text(make(), ViewState(), width, height), GOLDEN / name)


@pytest.mark.parametrize("table", range(len(TABLES)), ids=NAMES)
def test_every_table_looks_as_it_did(table):
    name = f"table-{NAMES[table]}.txt"
    assert_golden(text(usual(), ViewState(table=table), 80, 20), GOLDEN / name)


def test_nothing_from_the_wire_drives_the_terminal():
    for table in range(len(TABLES)):
        shown = text(hostile(), ViewState(table=table, pattern="\x1b[2J"), 120, 40)
        assert all(char.isprintable() or char == "\n" for char in shown)
    assert "\\u001b[31mred[bold]x[/]\\u202egnp\\n:smile:" in text(hostile(), ViewState(), 140, 40)


def test_drops_are_red_when_there_are_any():
    styles = [dict(view_lines(make(), ViewState(), 80, 24)[0].parts) for make in (usual, lossy)]
    assert styles[0]["dropped 0"] == "dim"
    assert styles[1]["dropped 1,234"] == "bold red"
    assert "dropped unknown" in text(hostile(), ViewState(), 120, 24)


def test_a_pause_shows():
    assert text(usual(), ViewState(paused=True), 60, 15).startswith("PAUSED  eth0")


def test_help_names_every_key():
    shown = text(usual(), ViewState(helping=True), 80, 24)
    for words in ("tab, 1 to 6", "p, space", "q, ctrl-c", "sort by the next column", "counting"):
        assert words in shown


def test_a_filter_as_it_is_typed_counts_at_once():
    state = replace(ViewState(table=1), typed="client-3")
    shown = text(usual(), state, 80, 18)
    assert "client-3" in shown
    assert "client-4" not in shown
    assert shown.splitlines()[-1].startswith("/client-3\u2588")
    shown = text(usual(), ViewState(table=1, pattern="client-3"), 80, 18)
    assert "only client-3" in shown


def test_what_does_not_fit_can_be_scrolled_to():
    first = text(hostile(), ViewState(table=1), 80, 15)
    assert "1 to 9 of 21" in first
    last = text(hostile(), ViewState(table=1, first=1000), 80, 15)
    assert "13 to 21 of 21" in last
    assert "(other clients)" in last


def test_nothing_yet():
    assert "Requests by API: nothing yet" in text(nothing(), ViewState(), 80, 24)
    shown = text(usual(), ViewState(pattern="no such"), 80, 24)
    assert "Requests by API: nothing matches" in shown


def test_the_newest_step_is_not_in_the_chart_for_it_is_not_over():
    snapshot = usual()
    top = max(step.requests for step in snapshot.history[:-1])
    high = snapshot._replace(
        history=(*snapshot.history[:-1], snapshot.history[-1]._replace(requests=10**6))
    )
    assert (
        text(high, ViewState(), 80, 24).splitlines()[2:4]
        == (text(snapshot, ViewState(), 80, 24).splitlines()[2:4])
    )
    assert f"{top / 1000:.2f}k/s" in text(snapshot, ViewState(), 80, 24)


def test_a_console_shows_the_lines_as_they_are():
    stream = io.StringIO()
    console = Console(file=stream, width=80, height=24, no_color=True)
    console.print(render(hostile(), ViewState(), 80, 24), end="")
    shown = [line.rstrip() for line in stream.getvalue().split("\n")]
    assert shown == [line.plain.rstrip() for line in view_lines(hostile(), ViewState(), 80, 24)]
