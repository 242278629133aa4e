from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.statistics.time_series import MAX_BUCKETS, ThroughputSeries

MS = 1_000_000
TIMES = st.integers(0, 10**13) | st.integers(-(2**62), 2**62)
EVENTS = st.lists(st.tuples(TIMES, st.integers(0, 10**9)), max_size=30)


def series_of(events) -> ThroughputSeries:
    series = ThroughputSeries()
    add(series, events)
    return series


def add(series: ThroughputSeries, events) -> None:
    times = [time for time, _ in events]
    sizes = [size for _, size in events]
    series.add_requests(times, sizes)
    series.add_responses([time + 5 * MS for time in times], [2 * size for size in sizes])
    series.add_errors(times[::3])


@given(st.lists(EVENTS, max_size=4), st.randoms(use_true_random=False))
def test_merging_parts_in_any_order_equals_adding_everything(parts, dice):
    whole = ThroughputSeries()
    for part in parts:
        add(whole, part)
    pieces = [series_of(part) for part in parts]
    dice.shuffle(pieces)
    merged = ThroughputSeries()
    for piece in pieces:
        merged.merge(piece)
    assert merged.to_dict() == whole.to_dict()


@given(EVENTS)
def test_no_event_is_lost_and_buckets_stay_within_the_limit(events):
    summary = series_of(events).to_dict()
    assert sum(summary["requests"]) == len(events)
    assert sum(summary["request_bytes"]) == sum(size for _, size in events)
    assert sum(summary["response_bytes"]) == 2 * sum(size for _, size in events)
    assert sum(summary["errors"]) == len(events[::3])
    assert len(summary["requests"]) <= MAX_BUCKETS


@given(EVENTS.filter(len))
def test_the_width_is_the_narrowest_that_fits(events):
    summary = series_of(events).to_dict()
    width = summary["bucket_ns"]
    ends = [time for time, _ in events] + [time + 5 * MS for time, _ in events]
    assert max(ends) // width - min(ends) // width < MAX_BUCKETS
    if width > MS:
        narrower = width // 2
        assert max(ends) // narrower - min(ends) // narrower >= MAX_BUCKETS


def test_events_fall_into_the_bucket_of_their_time():
    series = ThroughputSeries()
    series.add_requests([10 * MS, 10 * MS + 1, 12 * MS], [1, 2, 4])
    assert series.to_dict() == {
        "start_ns": 10 * MS,
        "bucket_ns": MS,
        "requests": [2, 0, 1],
        "errors": [0, 0, 0],
        "request_bytes": [3, 0, 4],
        "response_bytes": [0, 0, 0],
    }


def test_an_earlier_event_moves_the_start_back():
    series = ThroughputSeries()
    series.add_requests([10 * MS], [1])
    series.add_requests([7 * MS], [2])
    assert series.to_dict()["start_ns"] == 7 * MS
    assert series.to_dict()["requests"] == [1, 0, 0, 1]


def test_widths_double_until_the_time_fits():
    series = ThroughputSeries()
    series.add_requests([0, 240 * MS], [1, 1])
    assert series.bucket_ns == 2 * MS
    series.add_requests([100_000 * MS], [1])
    assert series.bucket_ns == 512 * MS


def test_nothing_has_no_start():
    series = ThroughputSeries()
    series.add_errors([])
    series.merge(ThroughputSeries())
    assert series.to_dict()["start_ns"] is None
    assert series.to_dict()["requests"] == []


def test_merging_into_nothing_gives_the_other():
    series = ThroughputSeries()
    series.merge(series_of([(0, 5), (10**12, 7)]))
    assert series.to_dict() == series_of([(0, 5), (10**12, 7)]).to_dict()
