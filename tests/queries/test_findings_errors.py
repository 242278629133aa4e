"""Findings about errors that come again and again, in captures made for them.

Each fault is provoked in two ways that differ, with a healthy workload beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support import kafka as k
from tests.support.timeline import Timeline
from tests.support.traffic import (
    Part,
    answers,
    asks,
    body,
    fetch,
    fetch_answer,
    produce,
    produce_answer,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.traffic import Line

HEARTBEAT, COMMIT, LIST_OFFSETS, JOIN, TRANSACTION_END = 12, 8, 2, 11, 26


def exchange(
    line: Line,
    api_key: int,
    version: int,
    asked: dict[str, Any],
    answered: dict[str, Any],
    client_id: str = "billing",
) -> None:
    """A request and its response, with these values."""
    line.client(asks(api_key, version, 1, body(api_key, "request", version, **asked), client_id))
    line.broker(answers(api_key, version, 1, body(api_key, "response", version, **answered)))


# --- offsets that are not there ---

FETCH_VERSION = 12


def read(line: Line, error_code: int = 0, end: int = 500) -> None:
    part = Part(topic="payments", error_code=error_code, high_watermark=end, records=None)
    line.client(fetch(1, FETCH_VERSION, [part], client_id="billing"))
    line.broker(fetch_answer(1, FETCH_VERSION, [part]))


def ask_offset(line: Line, offset: int) -> None:
    plain = {"partitionIndex": 0, "errorCode": 0, "timestamp": -1, "offset": offset}
    answered = plain | {"leaderEpoch": 0}
    asked = {"partitionIndex": 0, "currentLeaderEpoch": 0, "timestamp": -1}
    exchange(
        line,
        LIST_OFFSETS,
        7,
        {"topics": [{"name": "payments", "partitions": [asked]}]},
        {"topics": [{"name": "payments", "partitions": [answered]}]},
    )


def commit(line: Line, offset: int) -> None:
    part = {"partitionIndex": 0, "committedOffset": offset, "committedLeaderEpoch": -1}
    exchange(
        line,
        COMMIT,
        8,
        {
            "groupId": "g",
            "topics": [{"name": "payments", "partitions": [part | {"committedMetadata": ""}]}],
        },
        {"topics": [{"name": "payments", "partitions": [{"partitionIndex": 0, "errorCode": 0}]}]},
    )


def misreading(told_offset: int | None, committed: int | None = None, times: int = 1) -> Timeline:
    """A consumer whose offset is not there, and what it does next; others read on."""
    timeline = Timeline()
    read(timeline.line(40001, "10.0.0.6").open())
    line = timeline.line(40000, "10.0.0.5").open()
    for number in range(times):
        timeline.at(number)
        read(line, error_code=1, end=-1)
        timeline.at(number + 0.1)
        if told_offset is not None:
            ask_offset(line, told_offset)
        if committed is not None:
            commit(line, committed)
    timeline.at(times + 4)
    read(line)
    return timeline


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            misreading(None, committed=999_999, times=4),
            (
                "4 of 5 Fetch requests refused, of 1 partition, over 3.0 s; the client asks for no "
                "other offset then, as with auto.offset.reset=none; it commits offset 999999, "
                "beyond the end at 500"
            ),
        ),
        (misreading(500), "; then the client goes to the end (auto.offset.reset=latest)"),
        (misreading(120), "; then the client goes back (auto.offset.reset=earliest)"),
        (
            misreading(120, committed=70),
            "; then the client goes back (auto.offset.reset=earliest)",
        ),
    ],
)
def test_an_offset_that_is_not_there_is_told_with_the_next_step(
    timeline: Timeline, words: str, tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "offset_out_of_range")
    assert finding.what.endswith(words)
    assert finding.concerns == {
        "client_id": "billing",
        "client_ip": "10.0.0.5",
        "api_name": "Fetch",
        "topic": "payments",
        "error_name": "OFFSET_OUT_OF_RANGE",
    }


def test_where_the_capture_ends_the_next_step_is_unknown(tmp_path: Path) -> None:
    timeline = Timeline()
    read(timeline.line(40000).open(), error_code=1)
    [finding] = timeline.findings(tmp_path, "offset_out_of_range")
    assert finding.what.endswith("; the capture ends before the client's next step")


def test_readers_at_the_end_have_no_finding(tmp_path: Path) -> None:
    timeline = Timeline()
    line = timeline.line(40000).open()
    ask_offset(line, 500)
    read(line)
    assert timeline.findings(tmp_path, "offset_out_of_range", "error_storm", "fenced") == []


# --- topics that are not there ---


def asking_for(
    topic: str,
    codes: list[int],
    apart_s: float = 1,
    known: str | None = None,
    client_id: str = "billing",
) -> Timeline:
    """A client that asks for a topic, with these answers; others may know a topic."""
    timeline = Timeline()
    if known is not None:
        ask_topic(timeline.line(41000, "10.0.0.6").open(), known, 0, "other")
    line = timeline.line(40000, "10.0.0.5").open()
    for number, code in enumerate(codes):
        timeline.at(1 + number * apart_s)
        ask_topic(line, topic, code, client_id)
    return timeline


def ask_topic(line: Line, topic: str, code: int, client_id: str = "billing") -> None:
    answered = {"errorCode": code, "name": topic, "isInternal": False, "partitions": []}
    exchange(
        line,
        k.METADATA,
        9,
        {"topics": [{"name": topic}]},
        {"topics": [answered | {"topicAuthorizedOperations": 0}]},
        client_id,
    )


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            asking_for("oders", [3] * 5, known="orders"),
            (
                "5 requests refused (Metadata: UNKNOWN_TOPIC_OR_PARTITION), over 4.0 s; the topic "
                "is nowhere in this capture; a name like it is orders"
            ),
        ),
        (
            asking_for("invoices", [0, 3, 3, 3], apart_s=10, known="orders"),
            (
                "3 requests refused (Metadata: UNKNOWN_TOPIC_OR_PARTITION), over 20.0 s; until "
                "10.0 s before, the topic was there"
            ),
        ),
        (
            # One broker hears of the deletion before another.
            asking_for("invoices", [0, 3, 0, 3, 3, 3, 3], apart_s=0.9),
            (
                "5 requests refused (Metadata: UNKNOWN_TOPIC_OR_PARTITION), over 4.5 s; until "
                "then, the topic was there"
            ),
        ),
        (
            asking_for("invoices", [3, 3, 3, 3, 0], apart_s=2),
            (
                "4 requests refused (Metadata: UNKNOWN_TOPIC_OR_PARTITION), over 6.0 s; 2.0 s "
                "later, the topic is there"
            ),
        ),
    ],
)
def test_a_topic_that_is_not_there_is_told_with_what_is_known_of_it(
    timeline: Timeline, words: str, tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "unknown_topic")
    assert finding.what == words
    assert finding.concerns["client_id"] == "billing"


@pytest.mark.parametrize(
    "timeline",
    [
        asking_for("orders", [0] * 9),
        # A topic that is made now.
        asking_for("orders", [3, 3, 3, 0], apart_s=0.5),
        asking_for("orders", [3, 3], apart_s=20),
        # A broker that copies it hears of it late, when it is made and when it is deleted.
        asking_for("orders", [3, 0, 3, 3], apart_s=9, client_id="broker-2-fetcher-0"),
    ],
)
def test_a_topic_that_becomes_known_is_no_finding(timeline: Timeline, tmp_path: Path) -> None:
    assert timeline.findings(tmp_path, "unknown_topic", "error_storm") == []


def test_a_broker_that_goes_on_copying_a_topic_that_is_not_there_is_a_finding(
    tmp_path: Path,
) -> None:
    timeline = asking_for("orders", [3] * 9, client_id="broker-2-fetcher-0")
    [finding] = timeline.findings(tmp_path, "unknown_topic")
    assert finding.concerns["client_id"] == "broker-2-fetcher-0"


def test_a_storm_of_metadata_requests_comes_behind_the_topic_that_is_not_there(
    tmp_path: Path,
) -> None:
    timeline = asking_for("oders", [3] * 40, known="orders")
    [topic, storm] = timeline.findings(tmp_path, "unknown_topic", "metadata_storm", "error_storm")
    assert topic.what.endswith("; a name like it is orders")
    assert (topic.name, storm.name) == ("unknown_topic", "metadata_storm")
    assert storm.cause is not None
    assert storm.cause.name == "unknown_topic"


# --- identities that two clients have ---

UUID = "39ad70e2-71ce-40ca-bd6b-55c1a8edef2d"


def beat(line: Line, client_id: str, member: str, code: int = 0, instance: str = "inst-1") -> None:
    exchange(
        line,
        HEARTBEAT,
        4,
        {"groupId": "g", "generationId": 1, "memberId": member, "groupInstanceId": instance},
        {"errorCode": code},
        client_id,
    )


def join(line: Line, client_id: str, member: str, instance: str = "inst-1") -> None:
    asked = {
        "groupId": "g",
        "memberId": "",
        "groupInstanceId": instance,
        "protocolType": "consumer",
    }
    exchange(line, JOIN, 5, asked, {"memberId": member, "generationId": 1}, client_id)


def end_transaction(line: Line, client_id: str, code: int = 0, name: str = "payer") -> None:
    asked = {"transactionalId": name, "producerId": 7, "producerEpoch": 1, "committed": True}
    exchange(line, TRANSACTION_END, 3, asked, {"errorCode": code}, client_id)


def test_members_with_one_static_id_are_both_named(tmp_path: Path) -> None:
    timeline = Timeline()
    older = timeline.line(40000, "10.0.0.5").open()
    newer = timeline.line(40001, "10.0.0.6").open()
    join(older, "pod-a", "m1")
    timeline.at(1)
    join(newer, "pod-b", "m2")
    timeline.at(3)
    beat(older, "pod-a", "m1", code=82)
    beat(newer, "pod-b", "m2")
    [finding] = timeline.findings(tmp_path, "fenced")
    assert finding.what == (
        "1 request refused (Heartbeat); its group.instance.id inst-1 is also that of "
        "pod-b at 10.0.0.6"
    )
    assert finding.concerns["client_id"] == "pod-a"
    assert finding.concerns["group_id"] == "g"


def test_a_member_whose_join_is_not_captured_is_named_by_its_member_id(tmp_path: Path) -> None:
    timeline = Timeline()
    beat(timeline.line(40001, "10.0.0.6").open(), "pod-b", f"inst-1-{UUID}")
    beat(timeline.line(40000, "10.0.0.5").open(), "pod-a", f"inst-1-{UUID[:-1]}f", code=82)
    [finding] = timeline.findings(tmp_path, "fenced")
    assert finding.what.endswith("group.instance.id inst-1 is also that of pod-b at 10.0.0.6")


def test_one_client_with_one_static_id_twice_is_told_as_it_is(tmp_path: Path) -> None:
    timeline = Timeline()
    line = timeline.line(40000, "10.0.0.5").open()
    join(line, "pod", "m1")
    join(timeline.line(40001, "10.0.0.5").open(), "pod", "m2")
    beat(line, "pod", "m1", code=82)
    [finding] = timeline.findings(tmp_path, "fenced")
    assert finding.what.endswith(
        "; no other client in this capture has its group.instance.id inst-1, with which it joined "
        "as 2 members"
    )


@pytest.mark.parametrize(
    ("code", "name"), [(90, "PRODUCER_FENCED"), (47, "INVALID_PRODUCER_EPOCH")]
)
def test_producers_with_one_transactional_id_are_both_named(
    code: int, name: str, tmp_path: Path
) -> None:
    timeline = Timeline()
    line = timeline.line(40000, "10.0.0.5").open()
    for number in range(3):
        timeline.at(number)
        end_transaction(line, "payer-1", code)
    end_transaction(timeline.line(40001, "10.0.0.6").open(), "payer-2")
    end_transaction(timeline.line(40002, "10.0.0.7").open(), "another", name="refunds")
    [finding] = timeline.findings(tmp_path, "fenced")
    assert finding.what == (
        "3 requests refused (EndTxn), over 2.0 s; its transactional.id payer is also that of "
        "payer-2 at 10.0.0.6"
    )
    assert finding.concerns["error_name"] == name


def test_a_producer_that_is_alone_with_its_id_is_told_so(tmp_path: Path) -> None:
    timeline = Timeline()
    end_transaction(timeline.line(40000, "10.0.0.5").open(), "payer-1", 90)
    [finding] = timeline.findings(tmp_path, "fenced")
    assert finding.what.endswith("no other client in this capture has its transactional.id payer")


def test_members_and_producers_with_ids_of_their_own_have_no_finding(tmp_path: Path) -> None:
    timeline = Timeline()
    for number in range(3):
        line = timeline.line(40000 + number, f"10.0.0.{number + 5}").open()
        beat(line, f"pod-{number}", f"m{number}", instance=f"inst-{number}")
        end_transaction(line, f"pod-{number}", name=f"payer-{number}")
    assert timeline.findings(tmp_path, "fenced") == []


# --- any error, for long ---


def failing(
    code: int, times: int, apart_s: float = 1, *, api: int = TRANSACTION_END, good: int = 0
) -> Timeline:
    """A client most of whose requests fail, and one whose requests do not."""
    timeline = Timeline()
    line = timeline.line(40000, "10.0.0.5").open()
    other = timeline.line(40001, "10.0.0.6").open()
    for number in range(times + good):
        timeline.at(number * apart_s)
        of_this = code if number < times else 0
        if api == TRANSACTION_END:
            end_transaction(line, "payer-1", of_this)
            end_transaction(other, "payer-2")
        else:
            beat(line, "payer-1", "m1", of_this)
            beat(other, "payer-2", "m2")
    return timeline


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            failing(48, 15),
            (
                "15 of 15 EndTxn requests refused, over 14.0 s; no other client has this error",
                "INVALID_TXN_STATE",
            ),
        ),
        (
            failing(16, 126, 0.2, api=HEARTBEAT, good=57),
            (
                (
                    "126 of 183 Heartbeat requests refused, over 25.0 s; no other client has this "
                    "error"
                ),
                "NOT_COORDINATOR",
            ),
        ),
        (
            # Nothing else is answered: it is not only for a while.
            failing(51, 40, 0.5),
            (
                "40 of 40 EndTxn requests refused, over 19.5 s; no other client has this error",
                "CONCURRENT_TRANSACTIONS",
            ),
        ),
        (
            failing(-1, 30, 0.5),
            (
                "30 of 30 EndTxn requests refused, over 14.5 s; no other client has this error",
                "UNKNOWN_SERVER_ERROR",
            ),
        ),
    ],
)
def test_a_client_most_of_whose_requests_fail_for_long_is_found(
    timeline: Timeline, words: tuple[str, str], tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "error_storm")
    assert (finding.what, finding.concerns["error_name"]) == words
    assert finding.concerns["client_id"] == "payer-1"


@pytest.mark.parametrize(
    "timeline",
    [
        failing(0, 40),
        failing(48, 14),
        failing(48, 20, 0.4),
        failing(48, 20, good=21),
        failing(27, 40, api=HEARTBEAT),  # members that are told to join again
        failing(51, 40, 0.5, good=20),  # a transaction that is still being ended
        failing(46, 40, 0.5),  # what is there already is not written again
        failing(48, 20, 15),  # now and then
    ],
)
def test_errors_that_pass_are_no_storm(timeline: Timeline, tmp_path: Path) -> None:
    assert timeline.findings(tmp_path, "error_storm") == []


# --- batches whose CRC is wrong ---

SOUND = k.record_batch(3, size=5000)
DAMAGED = SOUND[:-1] + b"\2"


def producing(batches: list[bytes], codes: list[int]) -> Timeline:
    timeline = Timeline()
    line = timeline.line(40000, "10.0.0.5").open()
    for number, (records, code) in enumerate(zip(batches, codes, strict=True)):
        timeline.at(number)
        line.client(produce(number, 9, [Part(records=records)], client_id="billing"))
        line.broker(produce_answer(number, 9, [Part(error_code=code)]))
    return timeline


def fetching(batches: list[bytes]) -> Timeline:
    timeline = Timeline()
    line = timeline.line(40000, "10.0.0.5").open()
    for number, records in enumerate(batches):
        timeline.at(number)
        part = Part(topic="payments", records=records)
        line.client(fetch(number, FETCH_VERSION, [part], client_id="billing"))
        line.broker(fetch_answer(number, FETCH_VERSION, [part]))
    return timeline


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            producing([SOUND, DAMAGED, SOUND], [0, 2, 0]),
            (
                "1 of 3 Produce requests with batches whose CRC is wrong; the broker refused 1 and "
                "accepted 0"
            ),
        ),
        (
            producing([DAMAGED, DAMAGED + SOUND], [0, 0]),
            (
                "2 of 2 Produce requests with batches whose CRC is wrong; the broker accepted all, "
                "so the capture is damaged, not the records"
            ),
        ),
        (
            fetching([SOUND, SOUND + DAMAGED, DAMAGED]),
            "2 of 3 Fetch responses with batches whose CRC is wrong",
        ),
    ],
)
def test_a_wrong_crc_is_told_with_what_the_broker_said(
    timeline: Timeline, words: str, tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "wrong_crc")
    assert finding.what == words
    assert finding.concerns["client_id"] == "billing"
    assert finding.concerns["broker"] == "10.0.0.2:9092"


@pytest.mark.parametrize(
    "timeline",
    [producing([SOUND] * 3, [0, 2, 0]), fetching([SOUND + SOUND, SOUND + SOUND[:1000]])],
)
def test_sound_batches_have_no_finding(timeline: Timeline, tmp_path: Path) -> None:
    assert timeline.findings(tmp_path, "wrong_crc") == []
