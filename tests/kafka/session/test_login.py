"""Logins: raw tokens are distinguished from messages, and the user is known."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.session.login import principal_of
from tests.support import kafka as k
from tests.support.cases import for_each
from tests.support.talk import BROKER, CLIENT, Talk


def handshake(correlation_id: int, version: int, mechanism: str) -> bytes:
    return k.request(k.SASL_HANDSHAKE, version, correlation_id, k.string(mechanism))


def handshake_response(correlation_id: int, mechanism: str, error_code: int = 0) -> bytes:
    return k.response(correlation_id, struct.pack(">hi", error_code, 1) + k.string(mechanism))


def token(raw: bytes) -> bytes:
    return struct.pack(">i", len(raw)) + raw


def test_after_sasl_handshake_v0_come_raw_tokens_and_then_requests_again() -> None:
    talk = greeted("PLAIN")
    talk.client(token(b"\0alice\0secret-word")).broker(token(b""))
    talk.client(k.heartbeat(2)).broker(k.heartbeat_answer(2)).close()
    assert talk.pairs() == [(1, 1, 2), (2, 5, 6)]
    assert talk.exchanges[1].peers.principal == "alice"
    assert talk.anomalies == []


def greeted(mechanism: str, error_code: int = 0, version: int = 0) -> Talk:
    """A handshake and its response, which accepts it unless there is an error."""
    response = handshake_response(1, mechanism, error_code)
    return Talk().client(handshake(1, version, mechanism)).broker(response)


UNREADABLE = struct.pack(">ihhih", 12, 3, 1, 2, -7) + b"??"
"""A request whose client id has an impossible length."""


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


def tokens_of(mechanism: str) -> list[tuple[int, bytes]]:
    """The tokens of a whole login, each with the side that sends it."""
    return [
        (side, token(content))
        for pair in TOKENS[mechanism]
        for side, content in zip((CLIENT, BROKER), pair, strict=True)
        if content is not None
    ]


def logged_in(mechanism: str) -> Talk:
    """An accepted handshake of version 0, and the tokens of a whole login."""
    talk = greeted(mechanism)
    for side, data in tokens_of(mechanism):
        talk.says(side, data)
    return talk


@for_each("mechanism", sorted(TOKENS))
def test_tokens_of_a_login_are_no_messages_and_no_anomalies(mechanism: str) -> None:
    talk = logged_in(mechanism).client(k.heartbeat(2)).broker(k.heartbeat_answer(2)).close()
    assert [pair[0] for pair in talk.pairs()] == [1, 2]
    assert talk.anomalies == []
    assert talk.tracker.counts.undecoded_bytes == 0


@for_each("mechanism", sorted(TOKENS))
def test_tokens_may_come_in_pieces(mechanism: str) -> None:
    talk = greeted(mechanism)
    for side, data in tokens_of(mechanism):
        talk.says(side, data[:4], data[4:])
    talk.client(UNREADABLE[:7], UNREADABLE[7:]).broker(k.response(2, b"whatever")).close()
    assert [exchange.correlation_id for exchange in talk.exchanges] == [1, 2]
    assert talk.kinds() == ["malformed_body", "orphan_response"]
    name = {"PLAIN": "alice", "SCRAM-SHA-256": "bob"}.get(mechanism)
    assert talk.exchanges[1].peers.principal == name


@for_each("mechanism", sorted(TOKENS))
def test_an_unreadable_frame_is_no_token(mechanism: str) -> None:
    """Not after a login, nor after a handshake that was refused, nor in place of a known token."""
    talks = [logged_in(mechanism), greeted(mechanism, error_code=33)]
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"):
        talks.append(greeted(mechanism))
    for talk in talks:
        talk.client(UNREADABLE).broker(k.response(2, b"whatever"))
        talk.client(k.heartbeat(3)).broker(k.heartbeat_answer(3)).close()
        assert [pair[0] for pair in talk.pairs()] == [1, 2, 3]
        assert talk.exchanges[1].request is None
        assert talk.kinds() == ["malformed_body", "orphan_response"]
        unread = len(UNREADABLE) + len(k.response(2, b"whatever"))
        assert talk.tracker.counts.undecoded_bytes == unread


def newer_request(talk: Talk) -> bytes:
    api = talk.catalog.api(k.METADATA)
    assert api is not None
    return k.request(k.METADATA, api.versions.highest + 1, 2, b"\xff" * 9, tags=b"\0")


@for_each("mechanism", sorted(TOKENS))
def test_a_request_in_place_of_a_token_is_a_request(mechanism: str) -> None:
    for frame, kind in (
        (k.request(999, 0, 2, b"whatever"), "unknown_api"),
        (newer_request(Talk()), "unknown_api_version"),
        (k.request(k.HEARTBEAT, 0, 2, b"\x7f\xff"), "malformed_body"),
    ):
        talk = greeted(mechanism).client(frame).broker(k.response(2, b"and so on")).close()
        assert talk.pairs() == [(1, 1, 2), (2, 3, 4)]
        assert kind in talk.exchanges[1].anomalies
        assert talk.tracker.counts.undecoded_bytes >= len(frame)


def test_a_handshake_may_be_accepted_after_another_was_refused() -> None:
    talk = Talk().client(handshake(1, 0, "GSSAPI")).broker(handshake_response(1, "PLAIN", 33))
    talk.client(handshake(2, 0, "PLAIN")).broker(handshake_response(2, "PLAIN"))
    talk.client(token(b"\0alice\0secret-word")).broker(token(b""))
    talk.client(k.heartbeat(3)).broker(k.heartbeat_answer(3)).close()
    assert [pair[0] for pair in talk.pairs()] == [1, 2, 3]
    assert talk.exchanges[2].peers.principal == "alice"
    assert talk.anomalies == []


def test_a_response_that_answers_no_request_is_no_token_of_the_broker() -> None:
    talk = greeted("PLAIN")
    talk.broker(k.heartbeat_answer(99))
    talk.client(token(b"\0alice\0secret-word")).broker(token(b"")).close()
    assert talk.pairs() == [(1, 1, 2), (99, None, 3)]
    assert talk.kinds() == ["orphan_response"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "GSSAPI", "X-OURS"])
def test_a_token_that_is_cut_short_is_an_incomplete_frame(mechanism: str) -> None:
    client_token = token(TOKENS[mechanism][0][0])
    talk = greeted(mechanism)
    talk.client(client_token[:-2]).close()
    assert talk.pairs() == [(1, 1, 2)]
    assert talk.kinds() == ["incomplete_frame"]


@pytest.mark.parametrize("mechanism", sorted(TOKENS))
def test_unreadable_frames_are_reported_the_same_in_large_batches(mechanism: str) -> None:
    login = [(CLIENT, handshake(1, 0, mechanism)), (BROKER, handshake_response(1, mechanism))]
    login += tokens_of(mechanism)
    turns = []
    for number in range(2, 60):
        turns += [(CLIENT, k.heartbeat(number)), (BROKER, k.heartbeat_answer(number))]
    for at in (0, 40):
        turns[at:at] = [(CLIENT, UNREADABLE), (BROKER, k.response(1000 + at, b"whatever"))]
    in_large_batches = (
        Talk().at_once(*login, *turns[:6]).at_once(*turns[6:8]).at_once(*turns[8:]).close()
    )
    one_by_one = Talk()
    for turn in (*login, *turns):
        one_by_one.at_once(turn)
    one_by_one.close()
    assert sorted(in_large_batches.pairs()) == sorted(one_by_one.pairs())
    assert in_large_batches.kinds() == one_by_one.kinds()
    assert [each.packet for each in in_large_batches.anomalies] == [
        each.packet for each in one_by_one.anomalies
    ]
    counts, expected = in_large_batches.tracker.counts, one_by_one.tracker.counts
    assert counts.decoded_bytes == expected.decoded_bytes
    assert counts.undecoded_bytes == expected.undecoded_bytes


def test_tokens_in_sasl_authenticate_give_the_user_and_are_not_kept() -> None:
    raw = b"n,,n=bob,r=fyko+d2lbbFgONRv9qkxdawL"
    body = struct.pack(">i", len(raw)) + raw
    talk = Talk().client(handshake(1, 1, "SCRAM-SHA-256"))
    talk.broker(handshake_response(1, "SCRAM-SHA-256"))
    talk.client(k.request(k.SASL_AUTHENTICATE, 0, 2, body))
    talk.broker(k.response(2, struct.pack(">hhi", 0, -1, 0)))
    exchange = talk.exchanges[1]
    assert exchange.peers.principal == "bob"
    assert exchange.request is not None
    assert b"fyko" not in repr(exchange.request.values).encode()


def test_a_password_is_in_no_exchange_and_no_anomaly() -> None:
    secret = b"correct-horse"
    plain = b"\0alice\0" + secret
    talk = Talk().client(handshake(1, 1, "PLAIN")).broker(handshake_response(1, "PLAIN"))
    body = struct.pack(">i", len(plain)) + plain
    talk.client(k.request(k.SASL_AUTHENTICATE, 0, 2, body))
    talk.broker(k.response(2, struct.pack(">hhi", 0, -1, len(secret)) + secret)).close()
    shown = [[e.peers, e.client_id] for e in talk.exchanges]
    shown += [[m.values, m.data] for e in talk.exchanges for m in (e.request, e.response) if m]
    assert talk.exchanges[1].peers.principal == "alice"
    assert "correct-horse" not in repr([shown, talk.anomalies])


# -- what a token says -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "token", "user"),
    [
        ("PLAIN", b"\0alice\0secret", "alice"),
        ("PLAIN", b"admin\0alice\0secret", "alice"),
        ("PLAIN", b"\0alice\0", "alice"),
        ("PLAIN", "\0ülrike\0x".encode(), "ülrike"),
        ("SCRAM-SHA-256", b"n,,n=bob,r=abc", "bob"),
        ("SCRAM-SHA-512", b"n,a=x,n=b=2Co=3Db,r=abc", "b,o=b"),
        ("SCRAM-SHA-256", b"y,,n=bob,r=abc", "bob"),
    ],
)
def test_the_user_is_read_from_the_token(mechanism: str, token: bytes, user: str) -> None:
    assert principal_of(mechanism, token) == user


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        (None, b"\0alice\0secret"),
        ("GSSAPI", b"\x60\x82\x02"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer token\x01\x01"),
        ("PLAIN", b""),
        ("PLAIN", b"alice"),
        ("PLAIN", b"\0\0secret"),
        ("PLAIN", b"\0" + b"a" * 2000 + b"\0x"),
        ("SCRAM-SHA-256", b"c=biws,r=abc,p=proof"),
        ("SCRAM-SHA-256", b""),
    ],
)
def test_a_token_without_a_user_gives_none(mechanism: str | None, token: bytes) -> None:
    assert principal_of(mechanism, token) is None


@given(st.text("abcdefgh", min_size=1), st.text("STUVWXYZ", min_size=4))
def test_a_password_is_never_in_the_user_name(user: str, password: str) -> None:
    name = principal_of("PLAIN", f"\0{user}\0{password}".encode())
    assert name == user
    assert password not in name


@given(st.sampled_from(["PLAIN", "SCRAM-SHA-256", None]), st.binary(max_size=80))
def test_any_bytes_give_a_user_name_or_none(mechanism: str | None, token: bytes) -> None:
    assert isinstance(principal_of(mechanism, token), str | None)
