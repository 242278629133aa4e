from __future__ import annotations

from random import Random

from kanalyze.live.window import recent_rows
from kanalyze.live.window.filtered_windows import FilteredWindows
from kanalyze.live.window.row_choice import RowChoice
from kanalyze.live.window.snapshot import CaptureState
from kanalyze.live.window.windows import Windows
from kanalyze.tables.columns.block import RowBlock
from tests.support.rows import START_NS, plain_traffic

SECOND = 1_000_000_000
CHOICE = RowChoice(naming="client-3")


def traffic(second: int, count: int = 200):
    later = second * SECOND
    return [
        item._replace(
            request_start_ns=item.request_start_ns + later,
            response_start_ns=item.response_start_ns + later,
        )
        for item in plain_traffic(count)
        if item.response_start_ns is not None and item.request_start_ns is not None
    ]


def fed(seconds: range, windows: Windows, *, only: str | None = None) -> None:
    dice = Random(1)
    for second in seconds:
        now_ns = START_NS + (second + 1) * SECOND - 1
        made = [item for item in traffic(second) if only is None or item.client_id == only]
        while made:
            first, made = made[: dice.randrange(1, 90)], made[90:]
            windows.add(RowBlock.of_rows(first), now_ns)


def begun() -> Windows:
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


def chosen_alone(blocks: Windows, end_ns: int):
    """Return the figures of windows to which only the selected rows were added."""
    alone = Windows()
    alone.tick(START_NS)
    for each in blocks.recent_rows.after(0):
        numbers = [n for n, is_so in enumerate(CHOICE(each.block)) if is_so]
        alone.add(each.block.take(numbers), each.step * SECOND)
    return figures(alone.snapshot(end_ns))


def test_the_sums_are_those_of_the_rows_that_match_and_go_on():
    windows = begun()
    fed(range(5), windows)
    windows.snapshot(START_NS + 5 * SECOND - 1)
    filtered = FilteredWindows(windows.recent_rows, CHOICE)
    for seconds in (5, 12):
        fed(range(5, seconds), windows)
        whole = windows.snapshot(START_NS + seconds * SECOND - 1)
        made = filtered.snapshot(whole)
        assert 0 < made.traffic.requests < whole.traffic.requests
        assert {client.client_id for client in made.clients} == {"client-3"}
        assert figures(made) == chosen_alone(windows, whole.time_ns)


def test_counts_of_the_capture_are_those_of_all_rows():
    windows = begun()
    fed(range(2), windows)
    end_ns = START_NS + 2 * SECOND
    windows.add_capture(CaptureState("eth0", 500, 60_000, 7, 3, SECOND), end_ns)
    whole = windows.snapshot(end_ns)
    made = FilteredWindows(windows.recent_rows, CHOICE).snapshot(whole)
    assert (made.packets, made.wire_bytes, made.dropped_packets) == (500, 60_000, 7)
    assert (made.capture, made.idle_ns, made.unfiltered) == (whole.capture, whole.idle_ns, whole)


def test_a_step_with_dropped_rows_does_not_count(monkeypatch):
    monkeypatch.setattr(recent_rows, "MOST_ROWS", 450)
    windows = begun()
    fed(range(6), windows)
    whole = windows.snapshot(START_NS + 6 * SECOND - 1)
    made = FilteredWindows(windows.recent_rows, RowChoice()).snapshot(whole)
    seconds = made.window_ns / SECOND
    assert seconds < whole.window_ns / SECOND
    per_second = whole.traffic.requests / (whole.window_ns / SECOND)
    assert abs(made.traffic.requests / seconds - per_second) < per_second / 2


def test_rows_from_before_the_first_look_at_the_time_count():
    """A pipe may deliver a whole capture at once; the time is then that of its last packet."""
    windows = Windows(keeps_rows=True)
    end_ns = START_NS + 5 * SECOND
    made = [item for second in range(5) for item in traffic(second)]
    windows.add(RowBlock.of_rows(made), end_ns)
    whole = windows.snapshot(end_ns)
    every = FilteredWindows(windows.recent_rows, RowChoice()).snapshot(whole)
    assert figures(every) == figures(whole)


def test_clearing_the_windows_clears_the_filtered_sums():
    windows = begun()
    fed(range(3), windows)
    whole = windows.snapshot(START_NS + 3 * SECOND)
    filtered = FilteredWindows(windows.recent_rows, CHOICE)
    assert filtered.snapshot(whole).traffic.requests
    windows.clear()
    assert filtered.snapshot(windows.snapshot(START_NS + 3 * SECOND)).traffic.requests == 0
