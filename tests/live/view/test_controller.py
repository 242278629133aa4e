from __future__ import annotations

from kanalyze.live.view.controller import REFRESH_NS, ViewController
from tests.live.snapshots import usual_windows


class FakeTerminal:
    def __init__(self) -> None:
        self.size = (80, 24)
        self.pressed: list[str] = []
        self.drawn: list[str] = []

    def keys(self) -> list[str]:
        pressed, self.pressed = self.pressed, []
        return pressed

    def show(self, renderable) -> None:
        self.drawn.append(renderable.plain)


def begun():
    windows, end_ns = usual_windows()
    terminal = FakeTerminal()
    view = ViewController(windows, terminal)
    assert view.tick(end_ns, 0)
    return view, terminal, end_ns


def test_it_is_drawn_at_first_and_then_when_it_is_time_to():
    view, terminal, end_ns = begun()
    for clock_ns in range(0, REFRESH_NS, REFRESH_NS // 5):
        assert view.tick(end_ns, clock_ns)
    assert len(terminal.drawn) == 1
    assert view.tick(end_ns, REFRESH_NS)
    assert len(terminal.drawn) == 2


def test_a_key_is_heeded_at_once():
    view, terminal, end_ns = begun()
    terminal.pressed = ["2"]
    assert view.tick(end_ns, 1)
    assert len(terminal.drawn) == 2
    assert view.state.table == 1


def test_another_size_is_heeded_at_once():
    view, terminal, end_ns = begun()
    terminal.size = (60, 15)
    assert view.tick(end_ns, 1)
    assert len(terminal.drawn[1].split("\n")) == 15


def test_keys_that_come_together_count_one_by_one():
    view, terminal, end_ns = begun()
    terminal.pressed = ["2", *["down"] * 200, "up"]
    assert view.tick(end_ns, 1)
    last = view.state.index
    terminal.pressed = ["end"]
    assert view.tick(end_ns, 2)
    assert view.state.index == last + 1


def test_quitting_ends_it_and_keys_behind_are_not_heeded():
    view, terminal, end_ns = begun()
    terminal.pressed = ["2", "q", "3"]
    assert not view.tick(end_ns, 1)
    assert view.state.table == 1


def test_while_paused_the_same_is_shown_and_counting_goes_on():
    view, terminal, end_ns = begun()
    terminal.pressed = ["p"]
    assert view.tick(end_ns, 1)
    later_ns = end_ns + 5_000_000_000
    assert view.tick(later_ns, REFRESH_NS + 1)
    assert terminal.drawn[2] == terminal.drawn[1]
    assert terminal.drawn[1].startswith("PAUSED")
    terminal.pressed = ["p"]
    assert view.tick(later_ns, REFRESH_NS + 2)
    assert terminal.drawn[3] != terminal.drawn[0]


def test_clearing_shows_even_while_paused():
    view, terminal, end_ns = begun()
    terminal.pressed = ["p", "c"]
    assert view.tick(end_ns, 1)
    assert "nothing yet" in terminal.drawn[1]


def test_a_clock_of_packets_that_jumps_does_not_stop_drawing():
    view, terminal, end_ns = begun()
    for turn, jump_s in enumerate([3600, -7200, 10**6, -(10**9)], start=1):
        assert view.tick(end_ns + jump_s * 1_000_000_000, turn * REFRESH_NS)
    assert len(terminal.drawn) == 5
