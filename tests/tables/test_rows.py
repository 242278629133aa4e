"""Rows made from exchanges: status, times, sums, and nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.support import kafka as k
from tests.support import topic_ids as t
from tests.support.building import OneCapture, rows_of_exchanges
from tests.support.rows import NOTHING
from tests.support.streams import TIME_NS
from tests.support.talk import BROKER, CLIENT, Talk

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace

    from kanalyze.spec.rows.requests import Row

RowsOf: TypeAlias = "Callable[[Talk], list[Row]]"


@pytest.fixture
def rows_of(core: SimpleNamespace) -> RowsOf:
    """Return a function that makes the rows of a conversation."""

    def rows_of(talk: Talk) -> list[Row]:
        extractors = core.extract.Extractors(talk.catalog)
        builder = core.row_assembler.RowAssembler(talk.catalog, extractors, OneCapture("x.pcap"))
        return rows_of_exchanges(builder, map(core.given, talk.exchanges))

    return rows_of


def test_times_are_of_first_and_last_packets(rows_of: RowsOf) -> None:
    big = k.produce(1, acks=1, records=k.record_batch(3, size=3000))
    answer = k.produce_answer(1)
    talk = Talk().client(big[:1000], big[1000:2000], big[2000:])
    talk.broker(answer[:5], answer[5:])
    (row,) = rows_of(talk)
    assert (row.request_start_ns, row.request_end_ns) == (TIME_NS + 1, TIME_NS + 3)
    assert (row.response_start_ns, row.response_end_ns) == (TIME_NS + 4, TIME_NS + 5)
    assert (row.latency_ns, row.total_time_ns) == (1, 4)
    assert (row.request_bytes, row.response_bytes) == (len(big), len(answer))
    assert (row.request_packet, row.response_packet) == (1, 4)
    assert (row.record_count, row.record_bytes) == (3, 3061)


def test_a_response_without_errors_has_status_ok_and_code_0(rows_of: RowsOf) -> None:
    (row,) = rows_of(Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1)))
    assert (row.status, row.error_code, row.error_name, row.errors) == ("ok", 0, "NONE", [])
    assert (row.api_name, row.api_key, row.api_version) == ("Heartbeat", 12, 0)
    assert (row.group_id, row.member_id, row.client_id) == ("g", "m", "test")
    assert row.connection == "10.0.0.1:50000>10.0.0.2:9092"
    assert row.throttle_time_ms is None  # version 0 has no such field


def test_an_error_deep_inside_is_an_error_of_the_request(rows_of: RowsOf) -> None:
    talk = Talk().client(k.produce(1, acks=1)).broker(k.produce_answer(1, error_code=6))
    (row,) = rows_of(talk)
    assert (row.status, row.error_name) == ("error", "NOT_LEADER_OR_FOLLOWER")
    assert row.errors == [("t", 0, 6, "NOT_LEADER_OR_FOLLOWER")]


def test_one_way_and_unanswered_requests_have_no_error_code(rows_of: RowsOf) -> None:
    talk = Talk().client(k.produce(1, acks=0), k.heartbeat(2)).close()
    one_way, unanswered = rows_of(talk)
    assert (one_way.status, unanswered.status) == ("one_way", "unanswered")
    for row in (one_way, unanswered):
        assert row.error_code is row.error_name is row.latency_ns is row.response_bytes is None
    assert one_way.record_count == 1
    assert unanswered.anomalies == ["unanswered_request"]


def test_the_status_of_a_one_way_request_with_a_response_is_that_of_the_response(
    rows_of: RowsOf,
) -> None:
    talk = Talk().client(k.produce(1, acks=0), k.produce(2, acks=0))
    talk.broker(k.produce_answer(1), k.produce_answer(2, error_code=6)).close()
    good, bad = rows_of(talk)
    assert (good.status, bad.status, bad.error_name) == ("ok", "error", "NOT_LEADER_OR_FOLLOWER")
    for row in (good, bad):
        assert row.anomalies == ["unsolicited_response"]
        assert (row.acks, row.response_packet) == (0, row.request_packet + 2)  # type: ignore[operator]


def test_an_orphan_has_no_api(rows_of: RowsOf) -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1), k.heartbeat_answer(9))
    row = rows_of(talk.close())[1]
    assert row.status == "orphan_response"
    assert row.api_key is row.api_version is row.api_name is row.request_packet is None
    assert row.correlation_id == 9


def test_a_malformed_body_gives_only_header_times_and_sizes(rows_of: RowsOf) -> None:
    talk = Talk().client(k.heartbeat(1), k.heartbeat(2))
    talk.broker(k.heartbeat_answer(1), k.response(2, b"\0"))
    row = rows_of(talk)[1]
    assert (row.status, row.error_code) == ("malformed", None)
    assert row.latency_ns == 2
    assert row.anomalies == ["malformed_body"]


def test_a_request_whose_end_was_lost_has_no_latency(rows_of: RowsOf) -> None:
    big = k.produce(2, acks=1, records=k.record_batch(3, size=3000))
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).client(big[:2000])
    talk.loses(CLIENT, len(big) - 2000).broker(k.produce_answer(2))
    row = rows_of(talk)[1]
    assert row.request_end_ns is row.latency_ns is None
    assert row.total_time_ns == 1
    assert row.record_count == 3


def test_records_without_a_count_make_the_sum_unknown(rows_of: RowsOf) -> None:
    # A compressed message of magic 1 hides how many there are inside.
    message = b"\0\0\0\0" + b"\x01\x01" + bytes(8) + b"\xff\xff\xff\xff" + b"\0\0\0\3abc"
    wrapper = bytes(8) + len(message).to_bytes(4, "big") + message
    talk = Talk().client(k.produce(1, acks=1, version=2, records=wrapper))
    (row,) = rows_of(talk.broker(k.produce_answer(1, version=2)))
    assert (row.record_count, row.record_bytes) == (None, len(wrapper))
    assert row.partitions[0].codec == "gzip"


def test_an_unknown_api_is_named_by_its_number(rows_of: RowsOf) -> None:
    talk = Talk().client(k.heartbeat(1), k.request(999, 5, 2, b"what"))
    talk.broker(k.heartbeat_answer(1), k.response(2, b"ever"))
    row = rows_of(talk)[1]
    assert (row.api_name, row.api_key, row.api_version) == ("Unknown999", 999, 5)
    assert (row.latency_ns, row.error_code) == (2, None)


def test_a_response_that_was_not_read_is_not_ok(rows_of: RowsOf) -> None:
    newest = Talk().catalog.api(k.HEARTBEAT)
    assert newest is not None
    newer = newest.versions.highest + 5
    asked = b"\x02g" + (1).to_bytes(4, "big") + b"\x02m" + b"\0" + b"\0"
    failed = bytes(4) + (25).to_bytes(2, "big")
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.client(k.request(10000, 0, 2, b"\x08cluster")).broker(k.response(2, bytes(6) + b"\x1f\0"))
    talk.client(k.request(k.HEARTBEAT, newer, 3, asked, tags=b"\0"))
    talk.broker(k.response(3, failed + b"\0more", tags=b"\0"))
    # The same version, whose body is that of the newest known one: that is read.
    talk.client(k.request(k.HEARTBEAT, newer, 4, asked, tags=b"\0"))
    talk.broker(k.response(4, failed + b"\0", tags=b"\0"))
    _, unknown_api, unknown_version, read = rows_of(talk)
    for row in (unknown_api, unknown_version):
        assert (row.status, row.error_code, row.error_name) == ("malformed", None, None)
        assert row.errors == []
    assert unknown_api.anomalies == ["unknown_api"]
    assert unknown_version.anomalies == ["unknown_api_version"]
    assert (read.status, read.error_name) == ("error", "UNKNOWN_MEMBER_ID")
    details = [anomaly.detail for anomaly in talk.anomalies if anomaly.direction == BROKER]
    assert details == [
        "no definition has this API; probably error 31 CLUSTER_AUTHORIZATION_FAILED",
        "known are the versions 0-4; probably error 25 UNKNOWN_MEMBER_ID",
        "known are the versions 0-4",
    ]


def fetches(
    rows_of: RowsOf, *turns: tuple[bytes, bytes]
) -> list[list[tuple[str | None, int, int | None]]]:
    """Topic, partition and error code of every partition, by row."""
    talk = Talk()
    for request, response in turns:
        talk.client(request).broker(response)
    return [[(p.topic, p.partition, p.error_code) for p in row.partitions] for row in rows_of(talk)]


def test_an_incremental_fetch_lists_all_partitions_of_its_session(rows_of: RowsOf) -> None:
    _, changed, empty, fewer = fetches(
        rows_of,
        (t.fetch(1, 0, 0, {"a": [0, 1]}), t.fetch_answer(1, 77, {"a": [0, 1]})),
        (t.fetch(2, 77, 1, {"b": [5]}), t.fetch_answer(2, 77, {"a": [1]})),
        (t.fetch(3, 77, 2), t.fetch_answer(3, 77)),
        (t.fetch(4, 77, 3, forgotten={"a": [0, 1]}), t.fetch_answer(4, 77)),
    )
    assert changed == [("a", 1, 0), ("b", 5, None), ("a", 0, None)]
    assert empty == [("a", 0, None), ("a", 1, None), ("b", 5, None)]
    assert fewer == [("b", 5, None)]


def test_a_session_from_before_the_capture_lists_only_named_partitions(rows_of: RowsOf) -> None:
    (row,) = fetches(rows_of, (t.fetch(1, 77, 30), t.fetch_answer(1, 77, {"a": [3]})))
    assert row == [("a", 3, 0)]


def test_partitions_listed_for_their_session_alone_are_bounded(rows_of: RowsOf) -> None:
    many = {"a": list(range(1200))}
    first, empty = fetches(
        rows_of,
        (t.fetch(1, 0, 0, many), t.fetch_answer(1, 77)),
        (t.fetch(2, 77, 1), t.fetch_answer(2, 77)),
    )
    assert (len(first), len(empty)) == (1200, 1000)


def test_throttle_time_is_not_part_of_the_latency(rows_of: RowsOf) -> None:
    # Since KIP-219 the answer is sent at once and the client has to wait.
    answer = k.produce_answer(1)
    talk = Talk().client(k.produce(1, acks=1)).broker(answer[:-4] + (1500).to_bytes(4, "big"))
    (row,) = rows_of(talk)
    assert (row.throttle_time_ms, row.latency_ns, row.status) == (1500, 1, "ok")


def test_every_column_has_its_own_value(rows_of: RowsOf) -> None:
    """Rows are made by position: each value must be in the column that the contract names."""
    talk = Talk().client(k.api_versions(1)).broker(k.api_versions_answer_v0(1, 35))
    talk.client(k.produce(2, acks=1, version=7, records=k.record_batch(2, size=50)))
    talk.broker(k.produce_answer(2, version=7))
    _, row = rows_of(talk)
    request, response = talk.exchanges[1].request, talk.exchanges[1].response
    assert request is not None
    assert response is not None
    (part,) = row.partitions
    assert row._asdict() == NOTHING._asdict() | {
        "capture": "x.pcap",
        "connection": "10.0.0.1:50000>10.0.0.2:9092",
        "connection_number": 1,
        "client_ip": "10.0.0.1",
        "broker_ip": "10.0.0.2",
        "client_port": 50000,
        "broker_port": 9092,
        "client_software_name": talk.exchanges[1].peers.software_name,
        "client_software_version": talk.exchanges[1].peers.software_version,
        "wire": "kafka",
        "api_key": 0,
        "api_version": 7,
        "api_name": "Produce",
        "correlation_id": 2,
        "client_id": "test",
        "request_start_ns": request.start_ns,
        "request_end_ns": request.end_ns,
        "response_start_ns": response.start_ns,
        "response_end_ns": response.end_ns,
        "latency_ns": response.start_ns - request.start_ns,
        "total_time_ns": response.start_ns - request.start_ns,
        "request_bytes": request.length,
        "response_bytes": response.length,
        "request_packet": 3,
        "response_packet": 4,
        "status": "ok",
        "error_code": 0,
        "error_name": "NONE",
        "throttle_time_ms": 0,
        "partitions": [part],
        "record_count": 2,
        "record_bytes": part.record_bytes,
        "acks": 1,
        "waited": False,
        "request_send_ns": 0,
        "response_send_ns": 0,
        "retransmitted_packets": 0,
        "zero_windows": 0,
        "waited_ns": 0,
    }
    assert row.client_software_name != row.client_software_version
