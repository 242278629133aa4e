"""A response that is delayed on purpose is not slow; what a fetch session reads."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.tables.requests.long_polls import (
    FetchSessions,
    LongPollDetector,
    longest_wait_ms,
    may_be_held_back,
)
from kanalyze.tables.requests.summaries import (
    FIELD_NUMBERS,
    ExchangeSummary,
    FetchSessionUpdate,
    PartitionColumns,
    PartitionSummary,
    SessionPartition,
)
from kanalyze.tables.requests.topics import TopicTable
from tests.support.cases import examples, for_each

if TYPE_CHECKING:
    from collections.abc import Sequence

MS = 1_000_000
NOW = 1_700_000_000_000 * MS


def columns(topics: TopicTable, *places: SessionPartition) -> PartitionColumns:
    """Return the columns of partitions without values."""
    found = PartitionColumns(topics)
    for topic, topic_id, partition in places:
        found.add_partition(PartitionSummary(topic, topic_id, partition))
    return found


class Fetches:
    """Fetches of a connection, as the detector sees them."""

    def __init__(self) -> None:
        self.topics = TopicTable()
        self.detector = LongPollDetector(self.topics)

    def answered(
        self,
        latency_ms: float,
        *,
        request_ns: int = 0,
        connection: int = 1,
        code: int = 0,
        logs: Sequence[tuple[str, int | None, int | None, int]] = (),
        size: int = 0,
        session: FetchSessionUpdate | None = None,
        lost_ns: int | None = None,
        **limits: int,
    ) -> bool | None:
        """Feed a fetch: per log its topic, base offset, high watermark and error code."""
        summary = ExchangeSummary(self.topics)
        for name, value in {"max_wait_ms": 500, "min_bytes": 1, **limits}.items():
            summary.set_number(FIELD_NUMBERS[name], value)
        summary.code, summary.session = code, session
        summary.partitions = PartitionColumns(self.topics)
        for topic, offset, end, error in logs:
            part = PartitionSummary(topic, bytes(16), 0, 1, size, offset, end, None, error)
            summary.partitions.add_partition(part)
        sent_ns = request_ns or NOW
        came_ns = sent_ns + int(latency_ms * MS)
        lost = lost_ns is not None, lost_ns or 0
        found = self.detector.fetch_waited(summary, connection, sent_ns, came_ns, *lost)
        return None if found < 0 else found == 1


RECENT, LATER, LONG_AGO = NOW - MS, NOW + 200 * MS, NOW - 10_000 * MS


def read(*news: tuple[str, int]) -> dict[str, Any]:
    """Return what a response with records from these offsets on has."""
    return {"size": 900, "logs": [(log, offset, None, 0) for log, offset in news]}


@for_each(
    "case",
    [
        # An empty response, after the longest wait and before it.
        (501, {}, [], True),
        (499.5, {}, [], True),
        (3, {}, [], False),
        # Without a wait, or with an error, the response is sent at once.
        (600, {"max_wait_ms": 0}, [], False),
        (600, {"min_bytes": 0}, [], False),
        (600, {"code": 71}, [], False),
        (600, {"logs": [("t", None, None, 29)]}, [], False),
        # Too few bytes, after the longest wait.
        (501, {"min_bytes": 1000, **read(("t", 5))}, [], True),
        # Data from before a known log end was there before the request.
        (400, read(("t", 40)), [("t", 100, RECENT)], False),
        (300, read(("a", 100), ("b", 40)), [("a", 100, RECENT), ("b", 100, RECENT)], False),
        # Data beyond it came later; if long ago, most likely before the request.
        (300, read(("t", 100)), [("t", 100, RECENT)], True),
        (4, read(("t", 100)), [("t", 100, LONG_AGO)], False),
        # A log without a known end proves nothing, nor one that was learned after the request.
        (300, read(("t", 100)), [], False),
        (300, read(("t", 100)), [("t", 100, RECENT), ("t", 180, LATER)], True),
        # An error that may arise meanwhile ends the wait, as data does.
        (300, {"logs": [("t", None, None, 6)]}, [("t", 100, RECENT)], True),
    ],
)
def test_a_fetch_waits_for_its_time_or_for_data_beyond_the_log_end(case: Any) -> None:
    latency_ms, changes, log_ends, expected = case
    fetches = Fetches()
    fetches.detector._ends = {
        (1, topic, bytes(16), 0): [
            (time_ns, end) for other, end, time_ns in log_ends if other == topic
        ]
        for topic, _, _ in log_ends
    }
    assert fetches.answered(latency_ms, **changes) is expected


def test_a_fetch_sent_while_another_is_delayed_is_delayed_with_it() -> None:
    fetches = Fetches()
    assert fetches.answered(501)
    inside = NOW + 400 * MS
    assert fetches.answered(103, request_ns=inside)
    assert not fetches.answered(103, request_ns=inside, connection=2)
    assert not fetches.answered(3, request_ns=NOW + 504 * MS)


ERROR: dict[str, Any] = {"logs": [("t", None, None, 6)]}


def test_an_error_that_a_later_response_of_the_session_does_not_have_is_over() -> None:
    fetches = Fetches()
    assert fetches.answered(3, session=update(0, 0, response_session_id=7), **ERROR) is False
    # What came between the two was not captured.
    assert fetches.answered(501, request_ns=LATER, session=update(7, 3)) is True
    later = LATER + 502 * MS
    assert fetches.answered(300, request_ns=later, session=update(7, 4), **ERROR) is True
    assert fetches.answered(3, request_ns=later + 301 * MS, session=update(7, 5), **ERROR) is False


@pytest.mark.parametrize(("lost_ns", "expected"), [(RECENT, False), (NOW + 4 * MS, None)])
def test_an_error_may_have_been_over_where_responses_are_lost(
    lost_ns: int, expected: bool | None
) -> None:
    fetches = Fetches()
    fetches.answered(3, **ERROR)
    fetches.answered(3, request_ns=LATER, **read(("other", 5)))
    found = fetches.answered(300, request_ns=LATER + 4 * MS, lost_ns=lost_ns, **ERROR)
    assert found is expected


def test_the_last_four_ends_of_a_log_are_known_of_any_connection_and_number() -> None:
    fetches = Fetches()
    rng = Random(1)
    expected: dict[Any, list[tuple[int, int]]] = {}
    for number in range(3000):
        connection, topic, end = rng.choice([1, 2**40]), f"t{rng.randrange(99)}", rng.choice(ENDS)
        at = NOW + number * MS
        fetches.answered(1, request_ns=at, connection=connection, logs=[(topic, None, end, 0)])
        log = expected.setdefault((connection, topic, bytes(16), 0), [])
        log.append((at + MS, end))
        del log[:-4]
    assert fetches.detector._ends == expected


ENDS = [0, 1, 2**31, 2**62 - 1, -(2**63) + 2, 2**63 - 1]


def summary_with(
    session: FetchSessionUpdate | None = None, **values: int | None
) -> ExchangeSummary:
    """Return the summary of a request with these values."""
    summary = ExchangeSummary(TOPICS)
    summary.session = session
    for name, value in {"max_wait_ms": 500, "min_bytes": 1, **values}.items():
        if name == "has_assignments":
            summary.has_assignments = bool(value)
        elif value is not None:
            summary.set_number(FIELD_NUMBERS[name], value)
    return summary


TOPICS = TopicTable()


def place(topic: str, partition: int = 0) -> SessionPartition:
    return (topic, bytes(16), partition)


A, B, C = place("a"), place("b"), place("c", 5)


def update(
    session_id: int,
    epoch: int,
    requested: Sequence[SessionPartition] = (),
    *,
    forgotten: Sequence[SessionPartition] = (),
    response_session_id: int | None = None,
    error_code: int = 0,
) -> FetchSessionUpdate:
    """Return what a fetch changes in its session; ``response_session_id`` is that of the request
    if it is not given."""
    answered = session_id if response_session_id is None else response_session_id
    change = FetchSessionUpdate(columns(TOPICS, *requested), columns(TOPICS, *forgotten))
    change.set(session_id, epoch, answered, error_code)
    return change


NOT_DECODED = 1 << 40
ENDING = update(7, -1, response_session_id=NOT_DECODED)
ENDING_WITH_A_LAST_FETCH = update(7, -1, [A], response_session_id=NOT_DECODED)


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


# -- fetch sessions (KIP-227) ----------------------------------------------------------------------

CONNECTION, OTHER = 1, 2


def open_session(requested: list[SessionPartition], **bounds: int) -> FetchSessions:
    sessions = FetchSessions(TOPICS, **bounds)
    assert (
        list(sessions.follow(CONNECTION, update(0, 0, requested, response_session_id=7)).partitions)
        == []
    )
    return sessions


@for_each(
    "steps",
    [
        [(update(7, 1), [A, B]), (update(7, 2), [A, B])],
        [(update(7, 1, [C], forgotten=[A]), [B, C]), (update(7, 2), [B, C])],
        [(update(7, 1, forgotten=[C]), [A, B])],
        # A missed epoch, and a refused fetch, make the session unknown.
        [(update(7, 2), []), (update(7, 3), [])],
        [(update(7, 1, error_code=71), []), (update(7, 2), [])],
        # Epoch 0 replaces the session, -1 ends it.
        [(update(7, 0, [B], response_session_id=8), []), (update(8, 1), [B]), (update(7, 1), [])],
        [(update(7, -1, [A], response_session_id=0), []), (update(7, 1), [])],
        # A response without a session id opens none.
        [(update(0, 0, [C], response_session_id=0), []), (update(0, 1), [])],
        [(update(0, 0, [C], response_session_id=NOT_DECODED), []), (update(0, 1), [])],
        # A session that began before the capture.
        [(update(9, 30, [C]), [])],
    ],
)
def test_a_session_has_the_partitions_that_its_fetches_named(steps: Any) -> None:
    sessions = open_session([A, B])
    for change, expected in steps:
        assert list(sessions.follow(CONNECTION, change).partitions) == expected


def test_ids_belong_to_one_connection() -> None:
    assert list(open_session([A]).follow(OTHER, update(7, 1)).partitions) == []


def test_epochs_continue_at_1_after_the_highest() -> None:
    ((connection, session_id, session),) = open_session([A]).state([CONNECTION])
    state = connection, session_id, (2**31 - 1, *session[1:])
    sessions = FetchSessions.from_state((state,), TOPICS)
    assert list(sessions.follow(CONNECTION, update(7, 2**31 - 1)).partitions) == [A]
    assert list(sessions.follow(CONNECTION, update(7, 1)).partitions) == [A]


def test_sessions_are_bounded_and_the_least_recently_used_is_dropped_first() -> None:
    sessions = open_session([A], most_sessions=2)
    sessions.follow(CONNECTION, update(0, 0, [B], response_session_id=8))
    sessions.follow(CONNECTION, update(7, 1))
    sessions.follow(CONNECTION, update(0, 0, [C], response_session_id=9))
    assert list(sessions.follow(CONNECTION, update(8, 1)).partitions) == []
    assert list(sessions.follow(CONNECTION, update(7, 2)).partitions) == [A]


def test_partitions_in_all_sessions_are_bounded() -> None:
    sessions = open_session([A, B], most_partitions=3)
    sessions.follow(CONNECTION, update(0, 0, [A, B], response_session_id=8))
    assert len(sessions) == 1
    sessions.follow(CONNECTION, update(8, 1, [place("t", n) for n in range(9)]))
    sessions.follow(
        CONNECTION, update(0, 0, [place("t", n) for n in range(9)], response_session_id=9)
    )
    assert len(sessions) == 0


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.tuples(st.sampled_from("bfc"), st.integers(1, 2), st.integers(1, 40), st.booleans()),
        max_size=200,
    ),
    st.integers(1, 6),
)
def test_the_least_recently_used_sessions_are_dropped_whatever_came_before(steps, most):
    sessions = FetchSessions(TOPICS, most_sessions=most)
    epochs: dict[tuple[int, int], int] = {}  # the next one of each, in the order of use
    for kind, connection, session_id, goes_on in steps:
        key = connection, session_id
        if kind == "b":
            sessions.follow(connection, update(0, 0, [A], response_session_id=session_id))
            epochs.pop(key, None)
            epochs[key] = 1
            if len(epochs) > most:
                del epochs[next(iter(epochs))]
        elif kind == "c":
            sessions.follow(connection, update(session_id, -1, response_session_id=0))
            epochs.pop(key, None)
        else:
            is_followed = goes_on and key in epochs
            epoch = epochs.pop(key, 1)
            change = update(session_id, epoch if goes_on else epoch + 1)
            followed = sessions.follow(connection, change)
            assert list(followed.partitions) == ([A] if is_followed else [])
            if is_followed:
                epochs[key] = epoch + 1
        assert len(sessions) == len(epochs)
        assert [tuple(state[:2]) for state in sessions.state([1, 2])] == list(epochs)
    assert sessions.state([3]) == ()
    restored = FetchSessions.from_state(sessions.state([1, 2]), TOPICS)
    assert restored.state([1, 2]) == sessions.state([1, 2])
