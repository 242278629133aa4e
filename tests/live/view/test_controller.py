from __future__ import annotations

import pytest

from kanalyze.live.view.view import REFRESH_NS, ViewController
from kanalyze.live.window.snapshot import LatestFindings
from kanalyze.tables.columns.block import RowBlock
from tests.live.snapshots import usual_windows
from tests.support.rows import plain_traffic


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


def started():
    windows, end_ns = usual_windows()
    terminal = FakeTerminal()
    view = ViewController(windows, terminal)
    assert view.tick(end_ns, 0)
    return view, terminal, end_ns


def test_the_view_is_drawn_at_once_and_then_at_each_interval():
    view, terminal, end_ns = started()
    for clock_ns in range(0, REFRESH_NS, REFRESH_NS // 5):
        assert view.tick(end_ns, clock_ns)
    assert len(terminal.drawn) == 1
    assert view.tick(end_ns, REFRESH_NS)
    assert len(terminal.drawn) == 2


def test_a_key_redraws_the_view_at_once():
    view, terminal, end_ns = started()
    terminal.pressed = ["2"]
    assert view.tick(end_ns, 1)
    assert len(terminal.drawn) == 2
    assert view.state.table == 1


def test_a_new_size_redraws_the_view_at_once():
    view, terminal, end_ns = started()
    terminal.size = (60, 15)
    assert view.tick(end_ns, 1)
    assert len(terminal.drawn[1].split("\n")) == 15


def test_keys_that_come_together_are_processed_one_by_one():
    view, terminal, end_ns = started()
    terminal.pressed = ["2", *["down"] * 200, "up"]
    assert view.tick(end_ns, 1)
    last = view.state.index
    terminal.pressed = ["end"]
    assert view.tick(end_ns, 2)
    assert view.state.index == last + 1


def test_keys_after_quit_are_ignored():
    view, terminal, end_ns = started()
    terminal.pressed = ["2", "q", "3"]
    assert not view.tick(end_ns, 1)
    assert view.state.table == 1


def test_a_paused_view_shows_the_same_while_counting_continues():
    view, terminal, end_ns = started()
    terminal.pressed = ["p"]
    assert view.tick(end_ns, 1)
    later_ns = end_ns + 5_000_000_000
    assert view.tick(later_ns, REFRESH_NS + 1)
    assert terminal.drawn[2] == terminal.drawn[1]
    assert terminal.drawn[1].startswith("PAUSED")
    terminal.pressed = ["p"]
    assert view.tick(later_ns, REFRESH_NS + 2)
    assert terminal.drawn[3] != terminal.drawn[0]


def test_clearing_redraws_a_paused_view():
    view, terminal, end_ns = started()
    terminal.pressed = ["p", "c"]
    assert view.tick(end_ns, 1)
    assert "nothing yet" in terminal.drawn[1]


def test_drawing_continues_after_the_clock_of_packets_jumps():
    view, terminal, end_ns = started()
    for interval, jump_s in enumerate([3600, -7200, 10**6, -(10**9)], start=1):
        assert view.tick(end_ns + jump_s * 1_000_000_000, interval * REFRESH_NS)
    assert len(terminal.drawn) == 5


def started_with_rows():
    """Return the view of windows that keep rows."""
    windows, end_ns = usual_windows(keeps_rows=True)
    terminal = FakeTerminal()
    return windows, ViewController(windows, terminal), terminal, end_ns


def test_a_pattern_filters_the_figures_and_the_charts():
    windows, view, terminal, end_ns = started_with_rows()
    view.tick(end_ns, 0)
    unfiltered = terminal.drawn[-1].split("\n")
    terminal.pressed = ["/", *"client-3", "enter"]
    view.tick(end_ns, 1)
    filtered = terminal.drawn[-1].split("\n")
    assert filtered[0] == unfiltered[0]
    requests = [float(lines[1].split()[1].removesuffix("/s")) for lines in (unfiltered, filtered)]
    clients = [c for c in windows.snapshot(end_ns).clients if c.client_id == "client-3"]
    assert requests[1] == pytest.approx(clients[0].requests / 10, rel=0.01)
    assert requests[1] < requests[0] / 2
    assert filtered[3] != unfiltered[3]  # a chart
    terminal.pressed = ["escape"]
    view.tick(end_ns, 2)
    assert terminal.drawn[-1].split("\n") == unfiltered


def test_a_line_opens_the_requests_that_it_counts():
    windows, view, terminal, end_ns = started_with_rows()
    view.tick(end_ns, 0)
    terminal.pressed = ["2", "down", "enter"]
    view.tick(end_ns, 1)
    client = windows.snapshot(end_ns).clients[0]
    assert f"from {client.client_ip}: {client.requests:,} requests in 10 s" in terminal.drawn[-1]
    terminal.pressed = ["down", "enter"]
    view.tick(end_ns, REFRESH_NS + 1)
    assert view.state.request is not None
    assert view.state.request.client_id == client.client_id
    assert "request_start_ns" in terminal.drawn[-1]


def test_a_paused_view_of_opened_requests_does_not_change():
    windows, view, terminal, end_ns = started_with_rows()
    view.tick(end_ns, 0)
    terminal.pressed = ["2", "down", "enter", "p"]
    view.tick(end_ns, 1)
    view.tick(end_ns, REFRESH_NS)
    before = terminal.drawn[-1]
    later_ns = end_ns + 5_000_000_000
    windows.add(RowBlock.of_rows(plain_traffic(50)), later_ns)
    view.tick(later_ns, 2 * REFRESH_NS)
    assert terminal.drawn[-1] == before
    terminal.pressed = ["p"]
    view.tick(later_ns, 2 * REFRESH_NS + 1)
    assert terminal.drawn[-1] != before


def test_new_findings_are_shown():
    _, view, terminal, end_ns = started_with_rows()
    terminal.pressed = ["8"]
    view.tick(end_ns, 0)
    assert "Findings: nothing yet" in terminal.drawn[-1]
    view.findings = LatestFindings(end_ns, 77, 10**9, (), {})
    view.tick(end_ns, REFRESH_NS)
    assert "Findings: none in the last 77 requests, of 1 s" in terminal.drawn[-1]
