from __future__ import annotations

from random import Random

from kanalyze.live.window import windows as windows_module
from kanalyze.live.window.row_measures import RowChoice
from kanalyze.live.window.snapshot import CaptureState
from kanalyze.live.window.windows import FilteredWindows, Windows
from kanalyze.tables.columns.block import RowBlock
from tests.support.rows import START_NS, plain_traffic

SECOND_NS = 1_000_000_000
ONE_CLIENT = RowChoice(naming="client-3")


def traffic(second: int, count: int = 200):
    later_ns = second * SECOND_NS
    return [
        item._replace(
            request_start_ns=item.request_start_ns + later_ns,
            response_start_ns=item.response_start_ns + later_ns,
        )
        for item in plain_traffic(count)
        if item.response_start_ns is not None and item.request_start_ns is not None
    ]


def add_traffic(seconds: range, windows: Windows) -> None:
    random = Random(1)
    for second in seconds:
        now_ns = START_NS + (second + 1) * SECOND_NS - 1
        rows = traffic(second)
        while rows:
            count = random.randrange(1, 90)
            windows.add(RowBlock.of_rows(rows[:count]), now_ns)
            rows = rows[count:]


def started() -> Windows:
    windows = Windows(keeps_rows=True)
    windows.tick(START_NS)
    return windows


def figures(snapshot):
    """Return the fields of a snapshot that are about requests."""
    return (
        *(snapshot.traffic, snapshot.p50_ns, snapshot.p99_ns, snapshot.window_ns),
        *(snapshot.history, snapshot.p99_history),
        *(snapshot.apis, snapshot.clients, snapshot.brokers, snapshot.topics, snapshot.slowest),
        *(snapshot.errors, snapshot.groups),
    )


def figures_of_chosen_rows(windows: Windows, end_ns: int):
    """Return the figures of windows to which only the selected rows were added."""
    chosen_windows = Windows()
    chosen_windows.tick(START_NS)
    for kept in windows.recent_rows.after(0):
        numbers = [n for n, is_chosen in enumerate(ONE_CLIENT(kept.block)) if is_chosen]
        chosen_windows.add(kept.block.take(numbers), kept.step * SECOND_NS)
    return figures(chosen_windows.snapshot(end_ns))


def test_sums_are_those_of_the_matching_rows_as_more_rows_come():
    windows = started()
    add_traffic(range(5), windows)
    windows.snapshot(START_NS + 5 * SECOND_NS - 1)
    filtered = FilteredWindows(windows.recent_rows, ONE_CLIENT)
    for seconds in (5, 12):
        add_traffic(range(5, seconds), windows)
        whole = windows.snapshot(START_NS + seconds * SECOND_NS - 1)
        snapshot = filtered.snapshot(whole)
        assert 0 < snapshot.traffic.requests < whole.traffic.requests
        assert {client.client_id for client in snapshot.clients} == {"client-3"}
        assert figures(snapshot) == figures_of_chosen_rows(windows, whole.time_ns)


def test_counts_of_the_capture_are_not_filtered():
    windows = started()
    add_traffic(range(2), windows)
    end_ns = START_NS + 2 * SECOND_NS
    windows.add_capture(CaptureState("eth0", 500, 60_000, 7, 3, SECOND_NS), end_ns)
    whole = windows.snapshot(end_ns)
    snapshot = FilteredWindows(windows.recent_rows, ONE_CLIENT).snapshot(whole)
    assert (snapshot.packets, snapshot.wire_bytes, snapshot.dropped_packets) == (500, 60_000, 7)
    assert (snapshot.capture, snapshot.idle_ns, snapshot.unfiltered) == (
        whole.capture,
        whole.idle_ns,
        whole,
    )


def test_a_step_with_dropped_rows_is_left_out(monkeypatch):
    monkeypatch.setattr(windows_module, "MAX_ROWS", 450)
    windows = started()
    add_traffic(range(6), windows)
    whole = windows.snapshot(START_NS + 6 * SECOND_NS - 1)
    snapshot = FilteredWindows(windows.recent_rows, RowChoice()).snapshot(whole)
    seconds = snapshot.window_ns / SECOND_NS
    assert seconds < whole.window_ns / SECOND_NS
    per_second = whole.traffic.requests / (whole.window_ns / SECOND_NS)
    assert abs(snapshot.traffic.requests / seconds - per_second) < per_second / 2


def test_rows_from_before_the_first_time_are_counted():
    """A pipe may deliver a whole capture at once; the time is then that of its last packet."""
    windows = Windows(keeps_rows=True)
    end_ns = START_NS + 5 * SECOND_NS
    rows = [item for second in range(5) for item in traffic(second)]
    windows.add(RowBlock.of_rows(rows), end_ns)
    whole = windows.snapshot(end_ns)
    unfiltered = FilteredWindows(windows.recent_rows, RowChoice()).snapshot(whole)
    assert figures(unfiltered) == figures(whole)


def test_clearing_the_windows_clears_the_filtered_sums():
    windows = started()
    add_traffic(range(3), windows)
    whole = windows.snapshot(START_NS + 3 * SECOND_NS)
    filtered = FilteredWindows(windows.recent_rows, ONE_CLIENT)
    assert filtered.snapshot(whole).traffic.requests
    windows.clear()
    assert filtered.snapshot(windows.snapshot(START_NS + 3 * SECOND_NS)).traffic.requests == 0
