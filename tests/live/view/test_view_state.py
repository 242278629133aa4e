from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.view.tables import TABLES
from kanalyze.live.view.view_state import Effect, ViewState
from tests.support.cases import for_each

KEYS = [
    *"qcph?/sr12345679",
    *("tab", "shift-tab", "left", "right", "up", "down", "pageup", "pagedown", "home", "end"),
    *("escape", "enter", "backspace", "ctrl-u", "ctrl-c", "x", "*", "漢", "["),
]


def after(*keys: str, state: ViewState | None = None) -> ViewState:
    """Return the state after some keys, none of which has an effect on the controller."""
    state = ViewState() if state is None else state
    for key in keys:
        state, effect = state.key(key)
        assert effect is Effect.NONE
    return state


def test_keys_quit_clear_and_pause():
    assert ViewState().key("q") == ViewState().key("ctrl-c") == (ViewState(), Effect.QUIT)
    assert ViewState().key("c") == (ViewState(), Effect.CLEAR)
    assert after("p").paused
    assert after(" ").paused
    assert not after("p", " ").paused


def test_digits_tab_and_arrows_choose_a_table():
    assert after("3").table == 2
    assert after("tab", "tab").table == 2
    assert after("right", "left").table == 0
    assert after("shift-tab").table == len(TABLES) - 1
    assert after("tab", state=ViewState(table=len(TABLES) - 1)).table == 0
    assert after("8").table == 7
    assert after("9").table == 8
    assert after("0") == ViewState()


def test_each_table_has_its_own_order():
    first = TABLES[0].sorted_by
    state = after("s", "r", "2", "s")
    assert state.orders[0] == (first + 1, True)
    assert state.orders[1] == (TABLES[1].sorted_by + 1, False)
    assert state.orders[2:] == ViewState().orders[2:]
    assert after("r", "r") == after(*["s"] * len(TABLES[0].columns)) == ViewState()


def test_a_filter_can_be_typed():
    typing = after("/", "a", "q", "1", "p", " ", "backspace")
    assert typing.typed == "aq1p"
    assert typing.shown_pattern() == "aq1p"
    assert (typing.table, typing.paused) == (0, False)
    assert after("enter", state=typing) == ViewState(pattern="aq1p")
    assert after("escape", state=typing) == ViewState()
    assert after("ctrl-u", state=typing).typed == ""
    assert typing.key("ctrl-c")[1] is Effect.QUIT
    assert len(after("/", *"x" * 1000).typed) == 80


def test_a_filter_can_be_changed_and_removed():
    state = ViewState(pattern="ab")
    assert after("/", "c", "enter", state=state).pattern == "abc"
    assert after("/", "c", "escape", state=state).pattern == "ab"
    assert after("escape", state=state).pattern == ""


def test_any_key_closes_the_help():
    assert after("h").helping
    assert after("?", "s") == ViewState()
    assert after("?").key("q")[1] is Effect.QUIT


# -- the selected entry ---------------------------------------------------------------------------

HEIGHT = 5
NAMES = [f"c{number:02}" for number in range(12)]


def at(names, *keys: str, state: ViewState | None = None, height: int = HEIGHT) -> ViewState:
    """Press keys one by one on a table of these entries, and return the state."""
    state = (ViewState() if state is None else state).settled(names, height)
    for key in keys:
        state = after(key, state=state).settled(names, height)
    return state


def test_no_entry_is_selected_at_first():
    state = at(NAMES)
    assert (state.index, state.selected, state.first, state.page) == (-1, None, 0, HEIGHT)
    for keys in (["up", "k", "pageup", "home"], ["down", "up"], ["end", "home"], ["end", "escape"]):
        assert at(NAMES, *keys) == state
    assert at(NAMES, "end", "tab").index == -1


def test_the_selected_entry_is_always_shown():
    assert at(NAMES, "down").selected == "c00"
    assert at(NAMES, "j", "j", "k").selected == "c00"
    state = at(NAMES, *["down"] * 6)
    assert (state.selected, state.first) == ("c05", 1)
    assert at(NAMES, *["up"] * 4, state=state).first == 1
    assert at(NAMES, *["up"] * 5, state=state).first == 0
    assert at(NAMES, "down", "pagedown").selected == "c05"
    assert at(NAMES, "down", "pagedown", "pageup").selected == "c00"


@for_each("keys", [["down"] * 1000, ["pagedown"] * 50, ["end"], ["end"] * 3])
def test_one_key_moves_back_from_the_end(keys):
    state = at(NAMES, *keys)
    assert (state.selected, state.first) == ("c11", 7)
    assert at(NAMES, "up", state=state).selected == "c10"


def test_the_selected_entry_is_followed_after_sorting():
    state = at(NAMES, "down", "down")
    state = state.settled(NAMES[::-1], HEIGHT)
    assert (state.selected, state.index, state.first) == ("c01", 10, 6)
    assert at(NAMES[::-1], "s", state=state).selected == "c01"
    assert at(NAMES, "r", state=state).index == 1


def test_entries_with_equal_names_can_be_passed():
    assert at(["a", "a", "a", "b"], *["down"] * 4).selected == "b"


def test_the_entry_at_the_index_of_a_removed_entry_is_selected():
    state = at(NAMES, "down", "down", "down")
    assert state.settled([name for name in NAMES if name != "c02"], HEIGHT).selected == "c03"
    assert at(NAMES, "end").settled(NAMES[:4], HEIGHT).selected == "c03"


def test_a_filter_that_matches_nothing_keeps_the_selected_entry():
    state = at(NAMES, "down", "down")
    nothing = state.settled([], HEIGHT)
    assert nothing.first == 0
    assert nothing.settled(NAMES, HEIGHT).selected == "c01"
    assert at([], "down", "end", "up").first == 0


@given(
    # test_view.py tests opening, with entries of tables.
    st.lists(st.sampled_from([key for key in KEYS if key != "enter"]), max_size=40),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=5),
)
def test_no_keys_move_beyond_the_ends_of_a_table(keys, tables):
    state = ViewState()
    for number, key in enumerate(keys):
        state, _ = state.key(key)
        count, height = tables[number % len(tables)]
        names = [f"e{entry}" for entry in range(count)]
        state = state.settled(names, height)
        assert 0 <= state.first <= max(count - 1, 0)
        assert state == state.settled(names, height)
        if state.index >= 0 and names:
            assert names[state.index] == state.selected
            assert state.first <= state.index < state.first + max(height, 1)
