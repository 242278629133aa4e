"""Pairing: who answers whom. Each test is a line of what others get wrong."""

from __future__ import annotations

import gc
import struct
import weakref

import pytest

from tests.support import kafka as k
from tests.support.kafka import string
from tests.support.talk import BROKER, CLIENT, Talk


def test_a_response_answers_the_request_with_its_correlation_id() -> None:
    talk = Talk().client(k.heartbeat(1)).client(k.heartbeat(2))
    talk.broker(k.heartbeat_answer(2)).broker(k.heartbeat_answer(1))
    assert talk.pairs() == [(2, 2, 3), (1, 1, 4)]


@pytest.mark.parametrize("correlation_id", [0, -1, -(2**31), 2**31 - 1])
def test_any_correlation_id_is_as_good_as_another(correlation_id: int) -> None:
    talk = Talk().client(k.heartbeat(correlation_id)).broker(k.heartbeat_answer(correlation_id))
    assert talk.pairs() == [(correlation_id, 1, 2)]


def test_an_id_is_used_again_after_its_response() -> None:
    talk = Talk().at_once(
        (CLIENT, k.heartbeat(0)),
        (BROKER, k.heartbeat_answer(0)),
        (CLIENT, k.heartbeat(0)),
        (BROKER, k.heartbeat_answer(0)),
    )
    assert talk.pairs() == [(0, 1, 2), (0, 3, 4)]


def test_of_two_requests_with_one_id_the_oldest_is_answered_first() -> None:
    talk = Talk().client(k.heartbeat(5), k.heartbeat(5)).broker(k.heartbeat_answer(5))
    assert talk.pairs() == [(5, 1, 3)]
    talk.broker(k.heartbeat_answer(5))
    assert talk.pairs()[1] == (5, 2, 4)


def test_a_response_captured_before_its_request_is_paired_and_said_so() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.broker(k.heartbeat_answer(2)).client(k.heartbeat(2))
    assert talk.pairs()[1] == (2, 4, 3)
    assert talk.kinds() == ["response_before_request"]


def test_a_response_without_a_request_is_an_orphan() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.broker(k.heartbeat_answer(99)).close()
    assert talk.pairs()[1] == (99, None, 3)
    assert talk.exchanges[1].api_key is None
    assert talk.kinds() == ["orphan_response"]


def test_after_a_loss_among_requests_an_orphan_is_not_kept_for_a_later_request() -> None:
    # A client that always uses id 0: the lost request's answer must not be paired with the next.
    talk = Talk().client(k.heartbeat(0)).broker(k.heartbeat_answer(0))
    talk.loses(CLIENT, len(k.heartbeat(0)))
    talk.broker(k.heartbeat_answer(0))
    talk.client(k.heartbeat(0)).broker(k.heartbeat_answer(0)).close()
    assert talk.pairs() == [(0, 1, 2), (0, None, 3), (0, 4, 5)]


def test_a_request_without_a_response_is_unanswered_when_the_connection_ends() -> None:
    talk = Talk().client(k.heartbeat(1), k.heartbeat(2)).broker(k.heartbeat_answer(1)).close()
    assert talk.pairs() == [(1, 1, 3), (2, 2, None)]
    assert talk.kinds() == ["unanswered_request"]


@pytest.mark.parametrize("version", [0, 2, 3, 7])
def test_produce_with_acks_0_gets_no_response(version: int) -> None:
    talk = Talk().client(k.produce(1, acks=0, version=version), k.heartbeat(2))
    talk.broker(k.heartbeat_answer(2)).close()
    assert [exchange.one_way for exchange in talk.exchanges] == [True, False]
    assert talk.anomalies == []


@pytest.mark.parametrize("version", [0, 2, 3, 7])
def test_an_answer_to_produce_with_acks_0_is_paired_and_said_so(version: int) -> None:
    talk = Talk().client(k.produce(1, acks=0, version=version))
    talk.broker(k.produce_answer(1, version=version))
    assert talk.pairs() == [(1, 1, 2)]
    (exchange,) = talk.exchanges
    assert exchange.one_way
    assert exchange.response is not None
    assert exchange.response.version == version
    assert exchange.anomalies == ["unsolicited_response"]
    assert talk.close().kinds() == ["unsolicited_response"]


def test_so_are_the_answers_to_many_that_are_on_their_way_at_once() -> None:
    talk = Talk().client(*(k.produce(i, acks=0) for i in range(1, 50)), k.heartbeat(50))
    talk.broker(*(k.produce_answer(i) for i in range(1, 50)), k.heartbeat_answer(50))
    talk.client(k.produce(51, acks=0)).broker(k.produce_answer(51)).close()
    assert [(cid, asked is None, answered is None) for cid, asked, answered in talk.pairs()] == [
        (i, False, False) for i in range(1, 52)
    ]
    assert talk.kinds() == ["unsolicited_response"] * 50


def test_an_answer_captured_before_a_produce_with_acks_0_is_paired_too() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.broker(k.produce_answer(2)).client(k.produce(2, acks=0)).close()
    assert talk.pairs()[1] == (2, 4, 3)
    assert talk.kinds() == ["response_before_request", "unsolicited_response"]


def test_what_asked_for_an_answer_comes_before_what_did_not() -> None:
    talk = Talk().client(k.produce(0, acks=0), k.heartbeat(0)).broker(k.heartbeat_answer(0)).close()
    assert sorted(talk.pairs(), key=str) == [(0, 1, None), (0, 2, 3)]
    assert talk.anomalies == []


def test_an_answer_that_does_not_fit_a_produce_is_an_orphan() -> None:
    talk = Talk().client(k.produce(1, acks=0)).broker(k.response(1, b"no such thing")).close()
    assert sorted(talk.pairs(), key=str) == [(1, 1, None), (1, None, 2)]
    assert talk.kinds() == ["orphan_response"]


def test_a_broker_that_passes_over_one_produce_with_acks_0_is_not_waited_for_again() -> None:
    talk = Talk().client(k.produce(1, acks=0))
    assert talk.exchanges == []
    talk.client(k.heartbeat(2)).broker(k.heartbeat_answer(2))
    assert sorted(talk.pairs()) == [(1, 1, None), (2, 2, 3)]
    talk.client(k.produce(3, acks=0))
    assert talk.pairs()[2:] == [(3, 4, None)]
    assert talk.anomalies == []


def test_what_is_waited_for_in_vain_is_told_by_number_and_by_time() -> None:
    talk = Talk().client(*(k.produce(i, acks=0) for i in range(1, 1001)))
    assert talk.exchanges == []
    talk.client(k.produce(1001, acks=0))
    assert [pair[0] for pair in talk.pairs()] == list(range(1, 1002))
    slow = Talk().client(k.produce(1, acks=0))
    slow.packet += 6_000_000_000
    slow.client(k.produce(2, acks=0))
    assert [pair[0] for pair in slow.pairs()] == [1, 2]
    assert [exchange.one_way for exchange in slow.exchanges] == [True, True]


def test_where_answers_are_missing_a_broker_may_answer_yet() -> None:
    talk = Talk().client(k.produce(1, acks=0), k.heartbeat(2))
    talk.loses(BROKER, len(k.produce_answer(1))).broker(k.heartbeat_answer(2))
    talk.client(k.produce(3, acks=0)).broker(k.produce_answer(3)).close()
    assert sorted(talk.pairs()) == [(1, 1, None), (2, 2, 3), (3, 4, 5)]
    assert "orphan_response" not in talk.kinds()


@pytest.mark.parametrize("answers", [True, False])
def test_produce_with_acks_0_between_others_is_told_the_same_many_at_once(answers: bool) -> None:
    turns: list[tuple[int, bytes]] = []
    for number in range(1, 90):
        is_one_way = number % 30 == 7
        turns.append((CLIENT, k.produce(number, acks=0 if is_one_way else 1)))
        if answers or not is_one_way:
            turns.append((BROKER, k.produce_answer(number)))
    many = Talk()
    for at in range(0, len(turns), 40):
        many.at_once(*turns[at : at + 40])
    many.close()
    single = Talk()
    for turn in turns:
        single.at_once(turn)
    single.close()
    assert many.pairs() == single.pairs()
    assert many.kinds() == single.kinds() == ["unsolicited_response"] * (3 * answers)


def test_acks_is_read_after_the_transactional_id() -> None:
    # Before it, the bytes 00 00 of an empty transactional id look like acks=0.
    body = k.string("") + struct.pack(">hii", 1, 1000, 0)
    talk = Talk().client(k.request(k.PRODUCE, 3, 7, body))
    talk.broker(k.response(7, struct.pack(">ii", 0, 0))).close()
    assert talk.pairs() == [(7, 1, 2)]
    assert not talk.exchanges[0].one_way


def test_an_unsupported_api_versions_request_is_answered_in_version_0() -> None:
    talk = Talk().client(k.api_versions(1, version=4))
    talk.broker(k.api_versions_answer_v0(1, error_code=35))
    (exchange,) = talk.exchanges
    assert exchange.response is not None
    assert exchange.response.version == 0
    assert exchange.response.values is not None
    assert not exchange.malformed


def test_api_versions_newer_than_the_tables_is_still_a_request() -> None:
    newer = Talk().catalog.api(k.API_VERSIONS)
    assert newer is not None
    talk = Talk().client(k.api_versions(1, version=newer.versions.highest + 1))
    talk.broker(k.api_versions_answer_v0(1, error_code=35))
    assert talk.pairs() == [(1, 1, 2)]
    assert talk.exchanges[0].anomalies == ["unknown_api_version"]


def test_api_versions_responses_have_no_tags_in_their_header() -> None:
    body = struct.pack(">h", 0) + b"\x02" + struct.pack(">hhh", 18, 0, 4) + b"\0"
    body += struct.pack(">i", 0) + b"\0"
    talk = Talk().client(k.api_versions(1)).broker(k.response(1, body))
    (exchange,) = talk.exchanges
    assert exchange.anomalies == []
    assert exchange.response is not None
    assert exchange.response.version == 3


def test_the_client_software_is_learnt_from_api_versions() -> None:
    talk = Talk().client(k.api_versions(1, name="librdkafka", number="2.16.0"))
    talk.broker(k.api_versions_answer_v0(1, error_code=35))
    peers = talk.exchanges[0].peers
    assert (peers.software_name, peers.software_version) == ("librdkafka", "2.16.0")


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    frame = struct.pack(">hhi", k.CONTROLLED_SHUTDOWN, 0, 3) + struct.pack(">i", 1)
    talk = Talk().client(k.heartbeat(1), struct.pack(">i", len(frame)) + frame)
    talk.broker(k.heartbeat_answer(1), k.response(3, struct.pack(">hi", 0, 0)))
    assert [(e.api_key, e.client_id) for e in talk.exchanges] == [(12, "test"), (7, None)]
    assert talk.anomalies == []


def test_bytes_left_over_are_an_anomaly_and_no_reason_to_drop_the_message() -> None:
    # librdkafka's ApiVersions v0 requests carry four zero bytes after the body.
    talk = Talk().client(k.request(k.API_VERSIONS, 0, 1, bytes(4)))
    talk.broker(k.api_versions_answer_v0(1))
    assert talk.pairs() == [(1, 1, 2)]
    assert talk.kinds() == ["trailing_bytes"]


def test_a_body_that_breaks_its_grammar_is_malformed_and_the_next_one_is_not() -> None:
    bad = k.request(k.HEARTBEAT, 0, 2, b"\x7f\xff")
    talk = Talk().client(k.heartbeat(1), bad, k.heartbeat(3))
    talk.broker(*(k.heartbeat_answer(i) for i in (1, 2, 3)))
    assert [exchange.malformed for exchange in talk.exchanges] == [False, True, False]
    assert talk.kinds() == ["malformed_body"]


def test_an_unknown_api_key_still_makes_an_exchange() -> None:
    talk = Talk().client(k.heartbeat(1), k.request(999, 0, 2, b"whatever"))
    talk.broker(k.heartbeat_answer(1), k.response(2, b"and so on"))
    assert talk.pairs()[1] == (2, 2, 4)
    assert talk.exchanges[1].anomalies == ["unknown_api"]


def test_a_snapped_frame_keeps_its_header_and_times() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.client(k.produce(2, acks=1, records=k.record_batch(5, size=900)), snap=40)
    talk.broker(k.produce_answer(2))
    exchange = talk.exchanges[1]
    assert (exchange.api_key, exchange.correlation_id, exchange.malformed) == (0, 2, True)
    assert talk.kinds() == ["missing_bytes"]


def test_a_loss_inside_record_data_costs_nothing_but_the_bytes() -> None:
    big = k.produce(2, acks=1, records=k.record_batch(5, size=9000))
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.client(big[:200]).loses(CLIENT, 5000).client(big[5200:], k.heartbeat(3))
    talk.broker(k.produce_answer(2), k.heartbeat_answer(3))
    assert [exchange.malformed for exchange in talk.exchanges] == [False, False, False]
    assert talk.exchanges[1].request is not None
    ((_, _, partitions),) = talk.exchanges[1].request.values[2]
    assert partitions[0][1].record_count == 5


def test_after_a_lost_boundary_both_directions_are_found_again() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    lost, kept = k.heartbeat(2), k.heartbeat(3)
    talk.client(lost[:10]).loses(CLIENT, len(lost) - 4).client(kept[6:], k.heartbeat(4))
    answers = [k.heartbeat_answer(i) for i in (2, 3, 4)]
    talk.loses(BROKER, len(answers[0]) + 3).broker(answers[1][3:], answers[2]).close()
    assert (4, 5, 7) in talk.pairs()
    assert all(packet != 7 or cid == 4 for cid, _, packet in talk.pairs())
    assert "not_in_sync" in talk.kinds()


def test_a_request_cut_by_the_end_of_the_capture_keeps_its_header() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.client(k.produce(2, acks=1, records=k.record_batch(5, size=900))[:300]).close()
    exchange = talk.exchanges[1]
    assert (exchange.api_key, exchange.correlation_id) == (0, 2)
    assert exchange.request is not None
    assert exchange.request.end_ns is None
    assert "incomplete_frame" in talk.kinds()


def test_more_requests_in_flight_than_are_kept_are_given_up_oldest_first() -> None:
    talk = Talk().client(*(k.heartbeat(i) for i in range(10_001)))
    assert [exchange.correlation_id for exchange in talk.exchanges] == [0]
    assert "pending_limit" in talk.kinds()


# -- SASL -----------------------------------------------------------------------------------------


def handshake(correlation_id: int, version: int, mechanism: str) -> bytes:
    return k.request(k.SASL_HANDSHAKE, version, correlation_id, k.string(mechanism))


def handshake_answer(correlation_id: int, mechanism: str, error_code: int = 0) -> bytes:
    return k.response(correlation_id, struct.pack(">hi", error_code, 1) + k.string(mechanism))


def token(raw: bytes) -> bytes:
    return struct.pack(">i", len(raw)) + raw


def test_after_sasl_handshake_v0_come_raw_tokens_and_then_requests_again() -> None:
    talk = Talk().client(handshake(1, 0, "PLAIN")).broker(handshake_answer(1, "PLAIN"))
    talk.client(token(b"\0alice\0secret-word")).broker(token(b""))
    talk.client(k.heartbeat(2)).broker(k.heartbeat_answer(2)).close()
    assert talk.pairs() == [(1, 1, 2), (2, 5, 6)]
    assert talk.exchanges[1].peers.principal == "alice"
    assert talk.anomalies == []


UNREADABLE = struct.pack(">ihhih", 12, 3, 1, 2, -7) + b"??"
"""A request whose client id has a length that none has."""


def logged_in(mechanism: str) -> Talk:
    """A handshake of version 0 that was accepted, and the tokens of a whole login."""
    talk = Talk().client(handshake(1, 0, mechanism)).broker(handshake_answer(1, mechanism))
    for said, answered in TOKENS[mechanism]:
        talk.client(token(said))
        if answered is not None:
            talk.broker(token(answered))
    return talk


TICKET = b"\x60\x0f\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00AP"
WRAPPED = b"\x05\x04\x05\xff" + bytes(12) + b"\x01\x00\x00\x00"
TOKENS: dict[str, list[tuple[bytes, bytes | None]]] = {
    "PLAIN": [(b"\0alice\0secret-word", b"")],
    "SCRAM-SHA-256": [
        (b"n,,n=bob,r=fyko+d2lbbFgONRv9qkxdawL", b"r=fyko+d2lbbFgONRv9qkxdawL3r,s=Q,i=4096"),
        (b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3r,p=dHzb", b"v=6rriTRBi23WpRR"),
    ],
    "OAUTHBEARER": [
        (b"n,,\x01auth=Bearer e30.e30.\x01\x01", b'{"status":"invalid_token"}'),
        (b"\x01", None),
    ],
    "GSSAPI": [(TICKET, TICKET), (b"", WRAPPED), (WRAPPED, None)],
    "X-OURS": [(b"hello", b"challenge"), (b"\x80\x81\x82 proof", b"welcome")],
}


@pytest.mark.parametrize("mechanism", sorted(TOKENS))
def test_the_tokens_of_a_login_are_no_messages_and_nothing_is_wrong_with_them(
    mechanism: str,
) -> None:
    talk = logged_in(mechanism).client(k.heartbeat(2)).broker(k.heartbeat_answer(2)).close()
    assert [pair[0] for pair in talk.pairs()] == [1, 2]
    assert talk.anomalies == []
    assert talk.tracker.counts.undecoded_bytes == 0


@pytest.mark.parametrize("mechanism", sorted(TOKENS))
def test_tokens_may_come_in_pieces(mechanism: str) -> None:
    talk = Talk().client(handshake(1, 0, mechanism)).broker(handshake_answer(1, mechanism))
    for said, answered in TOKENS[mechanism]:
        talk.client(token(said)[:4], token(said)[4:])
        if answered is not None:
            talk.broker(token(answered)[:4], token(answered)[4:])
    talk.client(UNREADABLE[:7], UNREADABLE[7:]).broker(k.response(2, b"whatever")).close()
    assert [exchange.correlation_id for exchange in talk.exchanges] == [1, 2]
    assert talk.kinds() == ["malformed_body", "orphan_response"]
    name = {"PLAIN": "alice", "SCRAM-SHA-256": "bob"}.get(mechanism)
    assert talk.exchanges[1].peers.principal == name


@pytest.mark.parametrize("mechanism", sorted(TOKENS))
def test_what_cannot_be_read_after_a_login_is_no_token(mechanism: str) -> None:
    talk = logged_in(mechanism).client(UNREADABLE).broker(k.response(2, b"whatever"))
    talk.client(k.heartbeat(3)).broker(k.heartbeat_answer(3)).close()
    assert [pair[0] for pair in talk.pairs()] == [1, 2, 3]
    assert talk.exchanges[1].request is None
    assert talk.kinds() == ["malformed_body", "orphan_response"]
    assert talk.tracker.counts.undecoded_bytes == len(UNREADABLE) + len(k.response(2, b"whatever"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_what_cannot_be_read_in_place_of_a_token_is_none(mechanism: str) -> None:
    talk = Talk().client(handshake(1, 0, mechanism)).broker(handshake_answer(1, mechanism))
    talk.client(UNREADABLE).broker(k.response(2, b"whatever")).close()
    assert talk.kinds() == ["malformed_body", "orphan_response"]
    assert talk.tracker.counts.undecoded_bytes == len(UNREADABLE) + len(k.response(2, b"whatever"))


def newer_request(talk: Talk) -> bytes:
    api = talk.catalog.api(k.METADATA)
    assert api is not None
    return k.request(k.METADATA, api.versions.highest + 1, 2, b"\xff" * 9, tags=b"\0")


@pytest.mark.parametrize("mechanism", sorted(TOKENS))
@pytest.mark.parametrize("what", ["an unknown API", "a newer version", "a body that breaks"])
def test_a_request_in_place_of_a_token_is_a_request(mechanism: str, what: str) -> None:
    talk = Talk().client(handshake(1, 0, mechanism)).broker(handshake_answer(1, mechanism))
    frame, kind = {
        "an unknown API": (k.request(999, 0, 2, b"whatever"), "unknown_api"),
        "a newer version": (newer_request(talk), "unknown_api_version"),
        "a body that breaks": (k.request(k.HEARTBEAT, 0, 2, b"\x7f\xff"), "malformed_body"),
    }[what]
    talk.client(frame).broker(k.response(2, b"and so on")).close()
    assert talk.pairs() == [(1, 1, 2), (2, 3, 4)]
    assert kind in talk.exchanges[1].anomalies
    assert talk.tracker.counts.undecoded_bytes >= len(frame)


@pytest.mark.parametrize("mechanism", sorted(TOKENS))
def test_a_handshake_that_is_refused_is_followed_by_no_token(mechanism: str) -> None:
    talk = Talk().client(handshake(1, 0, mechanism)).broker(handshake_answer(1, mechanism, 33))
    talk.client(UNREADABLE).broker(k.response(2, b"whatever")).close()
    assert talk.pairs() == [(1, 1, 2), (2, None, 4)]
    assert talk.kinds() == ["malformed_body", "orphan_response"]
    assert talk.tracker.counts.undecoded_bytes == len(UNREADABLE) + len(k.response(2, b"whatever"))


def test_after_a_handshake_that_was_refused_another_may_be_accepted() -> None:
    talk = Talk().client(handshake(1, 0, "GSSAPI")).broker(handshake_answer(1, "PLAIN", 33))
    talk.client(handshake(2, 0, "PLAIN")).broker(handshake_answer(2, "PLAIN"))
    talk.client(token(b"\0alice\0secret-word")).broker(token(b""))
    talk.client(k.heartbeat(3)).broker(k.heartbeat_answer(3)).close()
    assert [pair[0] for pair in talk.pairs()] == [1, 2, 3]
    assert talk.exchanges[2].peers.principal == "alice"
    assert talk.anomalies == []


def test_a_response_that_answers_no_request_is_no_token_of_the_broker() -> None:
    talk = Talk().client(handshake(1, 0, "PLAIN")).broker(handshake_answer(1, "PLAIN"))
    talk.broker(k.heartbeat_answer(99))
    talk.client(token(b"\0alice\0secret-word")).broker(token(b"")).close()
    assert talk.pairs() == [(1, 1, 2), (99, None, 3)]
    assert talk.kinds() == ["orphan_response"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "GSSAPI", "X-OURS"])
def test_a_token_that_is_cut_short_is_shown_nowhere(mechanism: str) -> None:
    said = token(TOKENS[mechanism][0][0])
    talk = Talk().client(handshake(1, 0, mechanism)).broker(handshake_answer(1, mechanism))
    talk.client(said[:-2]).close()
    assert talk.pairs() == [(1, 1, 2)]
    assert talk.kinds() == ["incomplete_frame"]


@pytest.mark.parametrize("mechanism", sorted(TOKENS))
def test_what_is_no_token_is_told_the_same_many_at_once(mechanism: str) -> None:
    login = [(CLIENT, handshake(1, 0, mechanism)), (BROKER, handshake_answer(1, mechanism))]
    for said, answered in TOKENS[mechanism]:
        login.append((CLIENT, token(said)))
        if answered is not None:
            login.append((BROKER, token(answered)))
    turns = []
    for number in range(2, 60):
        turns += [(CLIENT, k.heartbeat(number)), (BROKER, k.heartbeat_answer(number))]
    for at in (0, 40):
        turns[at:at] = [(CLIENT, UNREADABLE), (BROKER, k.response(1000 + at, b"whatever"))]
    many = Talk().at_once(*login, *turns[:6]).at_once(*turns[6:8]).at_once(*turns[8:]).close()
    single = Talk()
    for turn in (*login, *turns):
        single.at_once(turn)
    single.close()
    assert sorted(many.pairs()) == sorted(single.pairs())
    assert many.kinds() == single.kinds()
    assert [each.packet for each in many.anomalies] == [each.packet for each in single.anomalies]
    counts, expected = many.tracker.counts, single.tracker.counts
    assert counts.decoded_bytes == expected.decoded_bytes
    assert counts.undecoded_bytes == expected.undecoded_bytes


def test_tokens_in_sasl_authenticate_give_a_name_and_are_not_kept() -> None:
    raw = b"n,,n=bob,r=fyko+d2lbbFgONRv9qkxdawL"
    body = struct.pack(">i", len(raw)) + raw
    talk = Talk().client(handshake(1, 1, "SCRAM-SHA-256"))
    talk.broker(handshake_answer(1, "SCRAM-SHA-256"))
    talk.client(k.request(k.SASL_AUTHENTICATE, 0, 2, body))
    talk.broker(k.response(2, struct.pack(">hhi", 0, -1, 0)))
    exchange = talk.exchanges[1]
    assert exchange.peers.principal == "bob"
    assert exchange.request is not None
    assert b"fyko" not in repr(exchange.request.values).encode()


def test_a_password_is_in_nothing_that_comes_out() -> None:
    secret = b"correct-horse"
    plain = b"\0alice\0" + secret
    talk = Talk().client(handshake(1, 1, "PLAIN")).broker(handshake_answer(1, "PLAIN"))
    body = struct.pack(">i", len(plain)) + plain
    talk.client(k.request(k.SASL_AUTHENTICATE, 0, 2, body))
    talk.broker(k.response(2, struct.pack(">hhi", 0, -1, len(secret)) + secret)).close()
    shown = [[e.peers, e.client_id] for e in talk.exchanges]
    shown += [[m.values, m.data] for e in talk.exchanges for m in (e.request, e.response) if m]
    assert talk.exchanges[1].peers.principal == "alice"
    assert "correct-horse" not in repr([shown, talk.anomalies])


def test_ids_belong_to_one_connection() -> None:
    first = Talk().client(k.heartbeat(5))
    second = Talk(tracker=first.tracker)
    second.tcp.serial = 2
    second.client(k.heartbeat(6)).broker(k.heartbeat_answer(6), k.heartbeat_answer(5)).close()
    first.broker(k.heartbeat_answer(5))
    assert second.pairs() == [(6, 1, 2), (5, None, 3)]
    assert first.pairs() == [(5, 1, 2)]


def test_a_body_that_is_too_large_to_read_keeps_its_header_times_and_sizes() -> None:
    talk = Talk()
    topics = struct.pack(">i", 5_000_000) + string("t" * 2) * 5_000_000
    request = k.request(k.METADATA, 0, 1, topics)
    assert len(request) > 16 << 20
    for at in range(0, len(request), 4 << 20):
        talk.client(request[at : at + (4 << 20)])
    talk.client(k.heartbeat(2)).broker(k.heartbeat_answer(2)).close()
    (large,) = [exchange for exchange in talk.exchanges if exchange.correlation_id == 1]
    assert large.request is not None
    assert (large.request.length, large.request.values) == (len(request), None)
    assert "memory_limit" in large.anomalies
    assert not large.malformed
    assert (2, 6, 7) in talk.pairs()


def test_a_large_answer_without_its_id_is_passed_over() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    answer = k.response(2, b"x" * 200_000)
    talk.client(k.heartbeat(2), k.heartbeat(3))
    # Of the first packet the size and half of the id were captured.
    talk.broker(answer[:1000], snap=6).broker(answer[1000:150_000])
    talk.broker(answer[150_000:]).broker(k.heartbeat_answer(3)).close()
    assert [pair[0] for pair in talk.pairs() if pair[2] is not None] == [1, 3]
    assert "missing_bytes" in talk.kinds()


def test_a_connection_that_ended_is_let_go_without_a_collection() -> None:
    """Thousands of short ones would be left to the garbage collector."""
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    kafka = weakref.ref(talk.tracker._kafka._by_serial[talk.tcp.serial].connection)
    gc.disable()
    try:
        talk.close()
        assert kafka() is None
    finally:
        gc.enable()
