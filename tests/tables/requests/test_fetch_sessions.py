"""Fetch sessions: the partitions that an incremental fetch does not name (KIP-227)."""

from __future__ import annotations

from kanalyze.tables.requests.fetch_sessions import (
    FetchSessions,
    FetchSessionUpdate,
    SessionPartition,
)

BROKER = ("10.0.0.2", 9092)


def place(topic: str, partition: int = 0) -> SessionPartition:
    return (topic, bytes(16), partition)


A, B, C = place("a"), place("b"), place("c", 5)


def fetch(
    session_id: int,
    epoch: int,
    requested: list[SessionPartition] | None = None,
    *,
    forgotten: list[SessionPartition] | None = None,
    response_session_id: int | None = None,
    error_code: int = 0,
) -> FetchSessionUpdate:
    answered = session_id if response_session_id is None else response_session_id
    return FetchSessionUpdate(
        session_id, epoch, requested or [], forgotten or [], answered, error_code
    )


def open_session(requested: list[SessionPartition], **bounds: int) -> FetchSessions:
    sessions = FetchSessions(**bounds)
    assert list(sessions.follow(BROKER, fetch(0, 0, requested, response_session_id=7))) == []
    return sessions


def test_an_incremental_fetch_reads_from_all_partitions_of_its_session() -> None:
    sessions = open_session([A, B])
    assert list(sessions.follow(BROKER, fetch(7, 1))) == [A, B]
    assert list(sessions.follow(BROKER, fetch(7, 2))) == [A, B]


def test_partitions_are_added_and_forgotten_as_requests_name_them() -> None:
    sessions = open_session([A, B])
    assert list(sessions.follow(BROKER, fetch(7, 1, [C], forgotten=[A]))) == [B, C]
    assert list(sessions.follow(BROKER, fetch(7, 2))) == [B, C]


def test_forgetting_a_partition_outside_the_session_is_not_an_error() -> None:
    assert list(open_session([A]).follow(BROKER, fetch(7, 1, forgotten=[C]))) == [A]


def test_a_session_that_began_before_the_capture_is_not_known() -> None:
    assert list(FetchSessions().follow(BROKER, fetch(7, 30, [C]))) == []


def test_a_missed_epoch_makes_the_session_unknown() -> None:
    sessions = open_session([A, B])
    assert list(sessions.follow(BROKER, fetch(7, 2))) == []
    assert list(sessions.follow(BROKER, fetch(7, 3))) == []


def test_a_refused_fetch_ends_the_session() -> None:
    sessions = open_session([A])
    assert list(sessions.follow(BROKER, fetch(7, 1, error_code=71))) == []
    assert len(sessions) == 0


def test_epoch_0_replaces_the_session() -> None:
    sessions = open_session([A])
    sessions.follow(BROKER, fetch(7, 0, [B], response_session_id=8))
    assert list(sessions.follow(BROKER, fetch(8, 1))) == [B]
    assert list(sessions.follow(BROKER, fetch(7, 1))) == []


def test_the_final_epoch_ends_the_session() -> None:
    sessions = open_session([A])
    assert list(sessions.follow(BROKER, fetch(7, -1, [A], response_session_id=0))) == []
    assert len(sessions) == 0


def test_a_response_without_a_session_id_opens_no_session() -> None:
    sessions = FetchSessions()
    sessions.follow(BROKER, fetch(0, 0, [A], response_session_id=0))
    sessions.follow(BROKER, FetchSessionUpdate(0, 0, [A], [], None, 0))
    assert len(sessions) == 0


def test_ids_belong_to_one_broker() -> None:
    assert list(open_session([A]).follow(("10.0.0.3", 9092), fetch(7, 1))) == []


def test_epochs_continue_at_1_after_the_highest() -> None:
    sessions = open_session([A])
    sessions._sessions[BROKER, 7].next_epoch = 2**31 - 1
    assert list(sessions.follow(BROKER, fetch(7, 2**31 - 1))) == [A]
    assert list(sessions.follow(BROKER, fetch(7, 1))) == [A]


def test_sessions_are_bounded_and_the_least_recently_used_is_dropped_first() -> None:
    sessions = open_session([A], most_sessions=2)
    sessions.follow(BROKER, fetch(0, 0, [B], response_session_id=8))
    sessions.follow(BROKER, fetch(7, 1))
    sessions.follow(BROKER, fetch(0, 0, [C], response_session_id=9))
    assert list(sessions.follow(BROKER, fetch(8, 1))) == []
    assert list(sessions.follow(BROKER, fetch(7, 2))) == [A]


def test_partitions_in_all_sessions_are_bounded() -> None:
    sessions = open_session([A, B], most_partitions=3)
    sessions.follow(BROKER, fetch(0, 0, [A, B], response_session_id=8))
    assert len(sessions) == 1
    sessions.follow(BROKER, fetch(8, 1, [place("t", n) for n in range(9)]))
    sessions.follow(BROKER, fetch(0, 0, [place("t", n) for n in range(9)], response_session_id=9))
    assert len(sessions) == 0
