"""Long polls: a response that is delayed on purpose is not slow."""

from __future__ import annotations

from typing import Any

import pytest

from kanalyze.tables.requests.fetch_sessions import FetchSessionUpdate
from kanalyze.tables.requests.long_polls import LongPollDetector, longest_wait_ms, may_be_held_back
from kanalyze.tables.requests.summaries import FIELD_NUMBERS, ExchangeSummary

MS = 1_000_000
NOW = 1_700_000_000_000 * MS


def fetch(detector: LongPollDetector, latency_ms: float, **changes: Any) -> bool:
    known: dict[str, Any] = {
        "request_ns": NOW,
        "response_ns": NOW + int(latency_ms * MS),
        "max_wait_ms": 500,
        "min_bytes": 1,
        "record_bytes": 0,
        "failed": False,
        "news": [],
    }
    return detector.waited(changes.pop("connection", 1), **known | changes)


def test_an_empty_response_after_max_wait_waited() -> None:
    assert fetch(LongPollDetector(), 501)
    assert fetch(LongPollDetector(), 499.5)


def test_an_empty_response_before_max_wait_did_not_wait() -> None:
    assert not fetch(LongPollDetector(), 3)


def test_a_fetch_with_a_limit_of_0_or_an_error_does_not_wait() -> None:
    assert not fetch(LongPollDetector(), 600, max_wait_ms=0)
    assert not fetch(LongPollDetector(), 600, min_bytes=0)
    assert not fetch(LongPollDetector(), 600, failed=True)


def test_too_few_bytes_after_max_wait_waited() -> None:
    assert fetch(LongPollDetector(), 501, min_bytes=1000, record_bytes=900, news=[("t", 5, -1)])


def test_a_slow_response_with_earlier_data_did_not_wait() -> None:
    detector = LongPollDetector()
    detector.learn("t", 100, NOW - 5 * MS)
    assert not fetch(detector, 400, record_bytes=900, news=[("t", 40, -1)])


def test_data_beyond_a_recent_log_end_was_waited_for() -> None:
    detector = LongPollDetector()
    detector.learn("t", 100, NOW - 1 * MS)
    assert fetch(detector, 300, record_bytes=900, news=[("t", 100, -1)])


def test_data_that_probably_came_before_the_request_was_not_waited_for() -> None:
    detector = LongPollDetector()
    detector.learn("t", 100, NOW - 10_000 * MS)
    assert not fetch(detector, 4, record_bytes=900, news=[("t", 100, -1)])


def test_a_log_without_a_known_end_proves_no_wait() -> None:
    assert not fetch(LongPollDetector(), 300, record_bytes=900, news=[("t", 100, -1)])


def test_a_log_end_learned_after_the_request_does_not_count() -> None:
    detector = LongPollDetector()
    detector.learn("t", 100, NOW - 1 * MS)
    detector.learn("t", 180, NOW + 200 * MS)
    assert fetch(detector, 300, record_bytes=900, news=[("t", 100, -1)])


def test_one_partition_with_earlier_data_means_no_wait() -> None:
    detector = LongPollDetector()
    for partition in ("a", "b"):
        detector.learn(partition, 100, NOW - 1 * MS)
    assert not fetch(detector, 300, record_bytes=900, news=[("a", 100, -1), ("b", 40, -1)])


def test_a_fetch_sent_while_another_is_delayed_is_delayed_with_it() -> None:
    detector = LongPollDetector()
    assert fetch(detector, 501)
    inside = NOW + 400 * MS
    assert fetch(detector, 0, request_ns=inside, response_ns=inside + 103 * MS)
    assert not fetch(detector, 0, request_ns=inside, response_ns=inside + 103 * MS, connection=2)
    after = NOW + 502 * MS
    assert not fetch(detector, 0, request_ns=after, response_ns=after + 3 * MS)


def summary_with(
    session: FetchSessionUpdate | None = None, **values: int | None
) -> ExchangeSummary:
    """Return the summary of a request with these values."""
    summary = ExchangeSummary()
    summary.session = session
    for name, value in {"max_wait_ms": 500, "min_bytes": 1, **values}.items():
        if name == "has_assignments":
            summary.has_assignments = bool(value)
        elif value is not None:
            summary.set_number(FIELD_NUMBERS[name], value)
    return summary


ENDING = FetchSessionUpdate(7, -1, [], [], None, 0)
ENDING_WITH_A_LAST_FETCH = FetchSessionUpdate(7, -1, [("t", None, 0)], [], None, 0)


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        (summary_with(), 500),
        (summary_with(max_wait_ms=None), None),
        (summary_with(min_bytes=None), None),
        (summary_with(max_wait_ms=-1), 0),
        (summary_with(min_bytes=0), 0),
        (summary_with(share_epoch=3), 500),
        (summary_with(share_epoch=-1), 0),
        (summary_with(ENDING), 0),
        (summary_with(ENDING_WITH_A_LAST_FETCH), 500),
    ],
)
def test_the_longest_wait_of_a_fetch(summary: ExchangeSummary, expected: int | None) -> None:
    assert longest_wait_ms(summary) == expected


@pytest.mark.parametrize("api_key", [1, 78])
def test_an_unanswered_fetch_may_be_delayed_up_to_its_longest_wait(api_key: int) -> None:
    def may_be(summary: ExchangeSummary, age_ms: int) -> bool:
        return may_be_held_back(api_key, summary, start_ns=NOW, now_ns=NOW + age_ms * MS)

    assert may_be(summary_with(), 500)
    assert not may_be(summary_with(), 501)
    # Brokers answer these at once, so one without a response is late.
    assert not may_be(summary_with(min_bytes=0), 1)
    assert not may_be(summary_with(share_epoch=-1), 1)


def test_group_members_except_the_leader_wait_without_a_limit() -> None:
    def may_be(api_key: int, **values: bool) -> bool:
        return may_be_held_back(api_key, summary_with(**values), start_ns=NOW, now_ns=NOW * 2)

    assert may_be(11)
    assert may_be(14, has_assignments=False)
    assert not may_be(14, has_assignments=True)
    assert not may_be(0)
