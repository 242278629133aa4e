"""What the view shows, and when it is drawn."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from kanalyze.common.zones import zone_of
from kanalyze.live.view.tables import TABLES
from kanalyze.live.view.view import REFRESH_NS, ViewController, filters_text, render, view_of
from kanalyze.live.view.view_state import ViewState
from kanalyze.live.window.snapshot import LatestFindings, OpenedRows
from kanalyze.model.tcp import Endpoint
from kanalyze.queries.files import built_in
from kanalyze.queries.finding import Finding
from kanalyze.queries.findings import kind_of_finding
from kanalyze.runtime.monitor import InFlight, InFlightRequest, TlsConnections
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.names import AddressNames, NamedAddress
from tests.live.snapshots import CAPTURE, HOSTILE, hostile, lossy, nothing, usual, usual_windows
from tests.live.view.test_view_state import KEYS, after
from tests.support.golden import assert_golden
from tests.support.rows import failed, partition, plain_traffic, row


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
    assert view.tick(CAPTURE, end_ns, 0)
    return view, terminal, end_ns


def test_the_view_is_drawn_at_once_and_then_at_each_interval():
    view, terminal, end_ns = started()
    for clock_ns in range(0, REFRESH_NS, REFRESH_NS // 5):
        assert view.tick(CAPTURE, end_ns, clock_ns)
    assert len(terminal.drawn) == 1
    assert view.tick(CAPTURE, end_ns, REFRESH_NS)
    assert len(terminal.drawn) == 2


def test_keys_and_a_new_size_redraw_the_view_at_once():
    view, terminal, end_ns = started()
    terminal.pressed = ["2"]
    assert view.tick(CAPTURE, end_ns, 1)
    assert len(terminal.drawn) == 2
    assert view.state.table == 1
    terminal.size = (60, 15)
    assert view.tick(CAPTURE, end_ns, 2)
    assert len(terminal.drawn[2].split("\n")) == 15
    terminal.pressed = ["1", "p", "c"]
    assert view.tick(CAPTURE, end_ns, 3)
    assert terminal.drawn[3].startswith("PAUSED")
    assert "nothing yet" in terminal.drawn[3]
    terminal.pressed = ["2", "q", "3"]
    assert not view.tick(CAPTURE, end_ns, 4)
    assert view.state.table == 1


def test_keys_that_come_together_are_processed_one_by_one():
    view, terminal, end_ns = started()
    terminal.pressed = ["2", *["down"] * 200, "up"]
    assert view.tick(CAPTURE, end_ns, 1)
    last = view.state.index
    terminal.pressed = ["end"]
    assert view.tick(CAPTURE, end_ns, 2)
    assert view.state.index == last + 1


def test_names_stand_beside_addresses_in_every_table_and_alert():
    windows, end_ns = usual_windows(keeps_rows=True)
    terminal = FakeTerminal()
    terminal.size = (200, 50)
    known = [NamedAddress("10.0.0.0/8", f"shop{HOSTILE}"), NamedAddress("10.0.0.2", "kafka-1")]
    view = ViewController(windows, terminal, names=AddressNames(known))
    oldest = InFlightRequest(0, 0, "Produce", "c", Endpoint("10.1.1.1", 7), Endpoint("10.0.0.2", 9))
    state = CAPTURE._replace(in_flight=InFlight(1, (oldest,)))
    for key, expected in (("2", "shop"), ("7", "kafka-1 (10.0.0.2:"), ("4", "kafka-1 (10.0.0.2:")):
        terminal.pressed = [key]
        assert view.tick(state, end_ns, int(key))
        assert expected in terminal.drawn[-1]
        assert "to kafka-1 (10.0.0.2:9)" in terminal.drawn[-1]
        assert "\x1b" not in terminal.drawn[-1]


@pytest.mark.parametrize("keeps_rows", [False, True])
def test_a_pattern_finds_names_of_addresses(keeps_rows):
    windows, end_ns = usual_windows(keeps_rows=keeps_rows)
    clients = sorted({entry.client_ip for entry in windows.snapshot(end_ns).clients} - {None})
    known = [NamedAddress(clients[0], "checkout-7", "shop"), NamedAddress(clients[1], "other")]
    terminal = FakeTerminal()
    terminal.size = (200, 50)
    view = ViewController(windows, terminal, names=AddressNames(known))
    for pattern, number in (("checkout", 0), ("SHO?", 0), ("oth*", 1), ("nobody", None)):
        terminal.pressed = ["2", "escape", "/", *pattern, "enter"]
        view.tick(CAPTURE, end_ns, 0)
        shown = [ip for ip in clients if f"({ip})" in terminal.drawn[-1]]
        assert shown == ([] if number is None else [clients[number]]), pattern


def test_drawing_continues_after_the_clock_of_packets_jumps():
    view, terminal, end_ns = started()
    for interval, jump_s in enumerate([3600, -7200, 10**6, -(10**9)], start=1):
        assert view.tick(CAPTURE, end_ns + jump_s * 1_000_000_000, interval * REFRESH_NS)
    assert len(terminal.drawn) == 5


def started_with_rows():
    """Return the view of windows that keep rows."""
    windows, end_ns = usual_windows(keeps_rows=True)
    terminal = FakeTerminal()
    return windows, ViewController(windows, terminal), terminal, end_ns


def test_a_pattern_filters_the_figures_and_the_charts():
    windows, view, terminal, end_ns = started_with_rows()
    view.tick(CAPTURE, end_ns, 0)
    unfiltered = terminal.drawn[-1].split("\n")
    terminal.pressed = ["/", *"client-3", "enter"]
    view.tick(CAPTURE, end_ns, 1)
    filtered = terminal.drawn[-1].split("\n")
    assert filtered[0] == unfiltered[0]
    requests = [float(lines[1].split()[1].removesuffix("/s")) for lines in (unfiltered, filtered)]
    clients = [c for c in windows.snapshot(end_ns).clients if c.client_id == "client-3"]
    assert requests[1] == pytest.approx(clients[0].requests / 10, rel=0.01)
    assert requests[1] < requests[0] / 2
    assert filtered[3] != unfiltered[3]  # a chart
    terminal.pressed = ["escape"]
    view.tick(CAPTURE, end_ns, 2)
    assert terminal.drawn[-1].split("\n") == unfiltered


def test_a_line_opens_the_requests_that_it_counts():
    windows, view, terminal, end_ns = started_with_rows()
    view.tick(CAPTURE, end_ns, 0)
    terminal.pressed = ["2", "down", "enter"]
    view.tick(CAPTURE, end_ns, 1)
    client = windows.snapshot(end_ns).clients[0]
    assert f"from {client.client_ip}: {client.requests:,} requests in 10 s" in terminal.drawn[-1]
    terminal.pressed = ["down", "enter"]
    view.tick(CAPTURE, end_ns, REFRESH_NS + 1)
    assert view.state.request is not None
    assert view.state.request.client_id == client.client_id
    assert "request_start_ns" in terminal.drawn[-1]


def test_a_paused_view_of_opened_requests_does_not_change():
    windows, view, terminal, end_ns = started_with_rows()
    view.tick(CAPTURE, end_ns, 0)
    terminal.pressed = ["2", "down", "enter", "p"]
    view.tick(CAPTURE, end_ns, 1)
    view.tick(CAPTURE, end_ns, REFRESH_NS)
    before = terminal.drawn[-1]
    later_ns = end_ns + 5_000_000_000
    windows.add(RowBlock.of_rows(plain_traffic(50)), later_ns)
    view.tick(CAPTURE, later_ns, 2 * REFRESH_NS)
    assert terminal.drawn[-1] == before
    terminal.pressed = ["p"]
    view.tick(CAPTURE, later_ns, 2 * REFRESH_NS + 1)
    assert terminal.drawn[-1] != before


GOLDEN = Path(__file__).parent / "golden"
NAMES = [table.name for table in TABLES]


def text(snapshot, state: ViewState, width: int, height: int) -> str:
    return "".join(f"{line.plain}\n" for line in view_of(snapshot, state, width, height).lines)


@given(st.lists(st.sampled_from(KEYS), max_size=30), st.integers(1, 130), st.integers(1, 50))
def test_the_view_fits_the_terminal_after_any_keys(keys, width, height):
    state = ViewState()
    for key in keys:
        state, _ = state.key(key)
    for snapshot in (usual(), hostile(), nothing()):
        lines = view_of(snapshot, state, width, height).lines
        assert len(lines) == height
        assert max(cell_len(line.plain) for line in lines) <= width


# -- contents -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 15)])
@pytest.mark.parametrize("make", [usual, hostile])
def test_the_view_equals_its_golden_file(make, width, height):
    name = f"{make.__name__}-{width}x{height}.txt"
    assert_golden(text(make(), ViewState(), width, height), GOLDEN / name)


@pytest.mark.parametrize("table", range(len(TABLES)), ids=NAMES)
def test_every_table_equals_its_golden_file(table):
    name = f"table-{NAMES[table]}.txt"
    assert_golden(text(usual(), ViewState(table=table), 80, 20), GOLDEN / name)


def test_control_characters_in_tables_are_escaped():
    for table in range(len(TABLES)):
        shown = text(hostile(), ViewState(table=table, pattern="\x1b[2J"), 120, 40)
        assert all(char.isprintable() or char == "\n" for char in shown)
    assert "\\u001b[31mred[bold]x[/]\\u202egnp\\n:smile:" in text(hostile(), ViewState(), 140, 40)


def test_the_number_of_dropped_packets_is_red_above_0():
    styles = [dict(view_of(make(), ViewState(), 80, 24).lines[0].parts) for make in (usual, lossy)]
    assert styles[0]["dropped 0"] == "dim"
    assert styles[1]["dropped 1,234"] == "bold red"
    assert "dropped unknown" in text(hostile(), ViewState(), 120, 24)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((0, 5, None), "TLS 5 encrypted"),
        ((3, 2, 0), "TLS 3/5 decrypted"),
        ((3, 0, 0), "TLS 3 decrypted"),
        ((0, 0, 0), None),
    ],
)
def test_the_first_line_counts_tls_connections(counts, expected):
    capture = usual().capture._replace(source="live:eth0", tls=TlsConnections(*counts))
    snapshot = usual()._replace(capture=capture)
    for width in (80, 200):
        first = view_of(snapshot, ViewState(), width, 24).lines[0].plain
        assert ("TLS" in first) == (expected is not None)
        assert expected is None or expected in first


def test_alerts_are_above_the_charts():
    lines = text(lossy()._replace(dropped_packets=840), ViewState(), 80, 24).splitlines()
    assert lines[2].startswith("84.0/s packets dropped before they were read")
    assert "most with" in lines[3]
    assert lines[4].startswith("requests")
    # With little room, only the most severe alert is shown.
    lines = text(lossy()._replace(dropped_packets=840), ViewState(), 100, 12).splitlines()
    assert lines[2].endswith("figures are too low (+1 more)")
    assert lines[3].startswith(" 1 APIs ")


def test_a_client_named_as_the_line_of_others_is_quoted():
    snapshot = usual()
    client = snapshot.clients[0]._replace(client_id="(other clients)")
    others = client._replace(other=True, client_id=None, client_ip=None)
    shown = text(snapshot._replace(clients=(client, others)), ViewState(table=1), 80, 24)
    names = [line.split("  ")[0] for line in shown.splitlines() if "other clients" in line]
    assert names == ['"(other clients)"', "(other clients)"]


def test_a_filter_is_applied_while_it_is_typed():
    state = replace(ViewState(table=1), typed="client-3")
    shown = text(usual(), state, 80, 18)
    assert "client-3" in shown
    assert "client-4" not in shown
    assert shown.splitlines()[-1].startswith("/client-3\u2588")
    shown = text(usual(), ViewState(table=1, pattern="client-3"), 80, 18)
    assert "only client-3" in shown
    assert "Requests by API: nothing matches" in text(usual(), ViewState(pattern="no"), 80, 24)
    assert "Requests by API: nothing yet" in text(nothing(), ViewState(), 80, 24)


def pressed(snapshot, *keys: str, width: int = 80, height: int = 15) -> tuple[str, ViewState]:
    """Press keys one by one, and lay out the view after each; return its text and state."""
    state = ViewState()
    for key in keys:
        state = view_of(snapshot, after(key, state=state), width, height).state
    return text(snapshot, state, width, height), state


def test_entries_that_do_not_fit_can_be_scrolled_to():
    first, _ = pressed(hostile(), "2")
    assert "1 to 8 of 21" in first
    last, state = pressed(hostile(), "2", *["pagedown"] * 10)
    assert "14 to 21 of 21" in last
    assert "(other clients)" in last
    back = view_of(hostile(), after("pageup", "up", state=state), 80, 15).state
    assert (state.index, back.index) == (20, 11)


def test_the_selected_line_is_marked_and_followed():
    snapshot = usual()
    view = view_of(snapshot, pressed(snapshot, "2", "down", "down")[1], 80, 24)
    (line,) = [
        line
        for line in view.lines
        if line.parts and all("reverse" in style for _, style in line.parts)
    ]
    assert line.plain.startswith("client-1 ")
    assert cell_len(line.plain) == 80
    clients = tuple(
        entry._replace(requests=10**6) if entry == snapshot.clients[-1] else entry
        for entry in snapshot.clients
    )
    moved = view_of(snapshot._replace(clients=clients), view.state, 80, 24)
    assert (view.state.index, moved.state.index) == (1, 2)
    assert moved.state.selected == view.state.selected


def test_the_end_of_a_long_filter_is_shown_while_it_is_typed():
    state = replace(ViewState(), typed="x" * 79 + "\u6f22")
    line = view_of(usual(), state, 40, 10).lines[-1].plain
    assert line == "/\u2026" + "x" * 35 + "\u6f22\u2588"


def test_the_unfinished_step_is_not_in_the_chart():
    snapshot = usual()
    most_requests = max(step.requests for step in snapshot.history[:-1])
    with_high_last_step = snapshot._replace(
        history=(*snapshot.history[:-1], snapshot.history[-1]._replace(requests=10**6))
    )
    assert text(with_high_last_step, ViewState(), 80, 24) == text(snapshot, ViewState(), 80, 24)
    assert f"{most_requests / 1000:.2f}k/s" in text(snapshot, ViewState(), 80, 24)


def test_a_console_prints_the_lines_unchanged():
    stream = io.StringIO()
    console = Console(file=stream, width=80, height=24, no_color=True)
    console.print(render(view_of(hostile(), ViewState(), 80, 24).lines), end="")
    shown = [line.rstrip() for line in stream.getvalue().split("\n")]
    assert shown == [line.plain.rstrip() for line in view_of(hostile(), ViewState(), 80, 24).lines]


# -- opened lines ---------------------------------------------------------------------------------


def opened(snapshot, table: int, number: int, rows=(), *more: str) -> ViewState:
    """Open a line of a table, then press more keys; return the state."""
    state = after(str(table), *["down"] * number)
    state = view_of(snapshot, state, 100, 30).state
    state = after("enter", state=state)
    snapshot = with_rows(snapshot, rows)
    for key in more:
        state = view_of(snapshot, state, 100, 30).state
        state = after(key, state=state)
    return state


def with_rows(snapshot, rows):
    return snapshot._replace(opened=OpenedRows(tuple(rows), len(rows) + 5))


SLOW = row(client_id="billing", latency_ns=9_000_000, group_id="g", partitions=[partition("t")])
FAST = row(client_id="billing", latency_ns=1_000, throttle_time_ms=0)


def test_a_line_opens_its_requests_and_a_request_opens_its_fields():
    snapshot = usual()
    state = opened(snapshot, 2, 1)
    assert state.opened == TABLES[1].key(snapshot.clients[0])
    assert "no requests in this time" in text(usual(), state, 80, 24)
    shown = text(with_rows(snapshot, [SLOW, FAST]), state, 100, 30)
    client = snapshot.clients[0]
    title = (
        f"clients: {client.client_id} from {client.client_ip}: 7 requests in 10 s, slowest first"
    )
    assert title in shown
    assert "9 ms  Produce v9" in shown
    assert "latency\u2193" in shown

    state = opened(snapshot, 2, 1, [SLOW, FAST], "down", "enter")
    assert state.request == SLOW
    shown = text(snapshot, state, 100, 30)
    assert "latency_ns" in shown
    assert "9 ms" in shown
    back = after("escape", state=state)
    assert (back.request, back.selected, back.opened) == (None, SLOW, state.opened)
    above = after("escape", state=back)
    assert (above.opened, above.index, above.outer) == (None, 0, ())
    elsewhere = after("3", state=state)
    assert (elsewhere.table, elsewhere.opened, elsewhere.request) == (2, None, None)


def test_requests_are_sorted_by_latency_or_by_time():
    state = opened(usual(), 2, 1, (), "s")
    assert state.latest
    shown = text(with_rows(usual(), [FAST]), state, 100, 30)
    assert "latest first" in shown
    assert "at (UTC)\u2193" in shown
    there = with_rows(usual(), [FAST])._replace(zone=zone_of("Asia/Kolkata"))
    in_india = text(there, state, 100, 30)
    assert "at (IST)\u2193" in in_india
    hours = [re.findall(r"\b(\d\d):\d\d:\d\d\.\d{3}", screen) for screen in (shown, in_india)]
    assert len(hours[0]) == len(hours[1]) > 0
    assert hours[0] != hours[1]
    assert not after("s", state=state).latest


def test_every_line_except_that_of_others_opens():
    for snapshot in (usual(), hostile(), with_hostile_finding()):
        for number, table in enumerate(TABLES):
            for entry in table.entries(snapshot):
                line = table.opened(table.key(entry))
                assert (line is None) == getattr(entry, "other", False)
                assert line is None or line.name.isprintable()
                state = view_of(snapshot, ViewState(table=number, index=0), 80, 24).state
                assert state.selected is not None
    state = view_of(hostile(), after("2", "end"), 80, 24).state
    assert hostile().clients[-1].other
    assert after("enter", state=state) == state
    # Nothing is selected yet: the first line is, then it opens.
    assert after("enter") == replace(ViewState(), index=0)


def test_the_tab_of_findings_says_how_many_there_are():
    assert "8 findings 9 lag\n" in text(usual(), ViewState(), 80, 24)
    assert "8 findings! 9 lag\n" in text(with_hostile_finding(), ViewState(), 80, 24)
    assert " 8 findings: 1   9 lag\n" in text(with_hostile_finding(), ViewState(), 120, 24)


def with_hostile_finding():
    """Return a snapshot with a finding whose texts have control sequences."""
    kind = kind_of_finding(built_in("findings")["slow_broker"])
    finding = Finding(
        *("slow_broker", kind.query.title.rstrip("."), kind.severity, HOSTILE, 30.0),
        *(kind.sure, kind.why, kind.repair),
        {"client_id": HOSTILE, "broker": "[::1]:9092", "topic": HOSTILE, "error_name": "X"},
        *(usual().time_ns, usual().time_ns, 7, "requests", ("--client-id", HOSTILE)),
    )
    return usual()._replace(findings=LatestFindings(usual().time_ns, 1234, 10**10, (finding,), {}))


def test_a_finding_opens_its_explanation_and_its_repair():
    snapshot = with_hostile_finding()
    shown = text(with_rows(snapshot, [SLOW]), opened(snapshot, 8, 1), 100, 40)
    kind = kind_of_finding(built_in("findings")["slow_broker"])
    assert f"why: {kind.why}" in shown
    assert "repair: Look at that broker" in shown
    assert "rows: kanalyze requests CAPTURE --client-id '\\u001b" in shown
    assert "9 ms  Produce v9" in shown
    assert all(line.isprintable() for line in shown.splitlines())


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("width", "height"),
    [
        *((20, 5), (80, 24)),
        *(pytest.param(*size, marks=pytest.mark.long) for size in ((60, 15), (140, 40))),
    ],
)
def test_an_opened_line_fits_any_size(width, height):
    hostile_row = failed(HOSTILE, 3, HOSTILE, client_id=HOSTILE, group_id="\u6f22" * 90)
    partitions = [partition(HOSTILE, number) for number in range(300)]
    for snapshot in (usual(), hostile(), with_hostile_finding()):
        for table in range(1, len(TABLES) + 1):
            rows = [hostile_row, SLOW._replace(partitions=partitions), *[FAST] * 50]
            for keys in ((), ("down", "enter"), ("down", "down", "enter", "end")):
                state = opened(snapshot, table, 1, rows, *keys)
                view = view_of(with_rows(snapshot, rows), state, width, height)
                assert len(view.lines) == height
                assert all(cell_len(line.plain) <= width for line in view.lines)
                assert all(line.plain.isprintable() for line in view.lines)


def test_an_empty_table_of_findings_says_which_requests_were_searched():
    snapshot = usual()._replace(findings=LatestFindings(usual().time_ns, 1234, 83 * 10**9, (), {}))
    shown = text(snapshot, ViewState(table=7), 80, 24)
    assert "Findings: none in the last 1,234 requests, of 83 s\n" in shown
    later = snapshot._replace(time_ns=snapshot.time_ns + 14 * 10**9)
    shown = text(later, ViewState(table=7), 80, 24)
    assert "Findings: none in the last 1,234 requests, of 83 s, 14 s ago\n" in shown


def test_the_filters_of_the_run_and_the_typed_filter_are_shown_together():
    conditions = {"api": ["Fetch"], "client_id": ["a*", HOSTILE], "errors": True}
    filters = filters_text({**conditions, "slower_than_ns": 10_000_000})
    assert filters.startswith("--api Fetch --client-id a* --client-id \\u001b[31m")
    assert filters.endswith("--errors --slower-than 10ms")
    shown = text(usual()._replace(filters="--api Fetch"), ViewState(pattern="web"), 100, 24)
    assert "only --api Fetch web" in shown
    assert all(cell_len(line) <= 60 for line in text(usual(), ViewState(), 60, 24).splitlines())


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("make", [usual, lossy, hostile])
def test_requests_in_flight_are_shown_at_every_width(make, width):
    snapshot = make()
    assert snapshot.capture is not None
    waiting = snapshot.capture._replace(in_flight=InFlight(12_345, ()))
    snapshot = snapshot._replace(capture=waiting, unfiltered=None)
    first = view_of(snapshot, ViewState(), width, 24).lines[0].plain
    assert "in flight 12,345" in first
