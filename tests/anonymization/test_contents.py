"""Tokens and data of members keep their form; names in them become stand-ins, secrets are blank."""

from __future__ import annotations

import struct

from kanalyze.anonymization.contents import member_data, raw_token, token
from kanalyze.kafka.codec.embedded_protocols import parse_assignment, parse_subscription
from kanalyze.kafka.session.gssapi import looks_like_gssapi
from kanalyze.kafka.session.login import principal_of
from tests.support.anonymous import STAND_INS
from tests.support.cases import for_each

USER = STAND_INS.name(b"alice")


def test_the_user_of_plain_is_a_stand_in() -> None:
    found = token(b"\0alice\0secret!", STAND_INS)
    assert found == b"\0" + USER + b"\0xxxxxxx"
    assert principal_of("PLAIN", found) == USER.decode()


def test_the_user_of_scram_is_a_stand_in() -> None:
    found = token(b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL", STAND_INS)
    assert found == b"n,,n=" + USER + b",r=" + b"x" * 24
    assert principal_of("SCRAM-SHA-256", found) == USER.decode()
    server = token(b"r=fyko3rfcN,s=QSXCR+Q6sek8bf92,i=4096", STAND_INS)
    assert server == b"r=xxxxxxxxx,s=xxxxxxxxxxxxxxxx,i=4096"


@for_each(
    "content",
    [
        b"n,a=alice,\x01auth=Bearer eyJhbGciOiJub25l\x01\x01",
        b'{"status":"invalid_token"}',
        b"\x05\x04\x04\xff secret wrapped",
        b"some other token entirely",
        b"n,,n=ali=2Cce,r=abc",
        b"n,,n=alice",
        b"",
    ],
)
def test_everything_else_in_a_token_is_blanked(content: bytes) -> None:
    found = token(content, STAND_INS)
    assert len(found) == len(content)
    for word in (b"alice", b"ali=", b"Bearer", b"eyJ", b"status", b"invalid", b"secret", b"token"):
        assert word not in found
    assert found.count(b"x") >= len(content) // 2 or len(content) < 12


def test_gssapi_is_still_recognized() -> None:
    inside = b"\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02" + b"ticket of alice@EXAMPLE.COM"
    content = b"\x60" + bytes((len(inside),)) + inside
    found = token(content, STAND_INS)
    assert looks_like_gssapi(found, len(found))
    assert b"alice" not in found


def test_tokens_of_unknown_content_have_the_form_of_their_mechanism() -> None:
    made = raw_token(b"PLAIN", USER, 0, 20, is_clients=True)
    assert principal_of("PLAIN", made) == USER.decode()
    assert len(made) == 20
    made = raw_token(b"SCRAM-SHA-512", USER, 0, 40, is_clients=True)
    assert principal_of("SCRAM-SHA-512", made) == USER.decode()
    assert raw_token(b"SCRAM-SHA-512", USER, 1, 8, is_clients=True) == b"c=xxxxxx"
    assert raw_token(b"SCRAM-SHA-512", USER, 0, 8, is_clients=False) == b"r=xxxxxx"
    assert raw_token(b"OAUTHBEARER", None, 1, 1, is_clients=True) == b"\x01"
    assert raw_token(b"GSSAPI", None, 0, 4, is_clients=True) == b"\x05\x04xx"
    assert raw_token(None, None, 0, 4, is_clients=False) == b"xxxx"
    assert raw_token(b"PLAIN", USER, 0, 3, is_clients=True) == b"xxx"


TOPIC = STAND_INS.name(b"orders").decode()


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def partitions(topic: str, *numbers: int) -> bytes:
    return string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


SUBSCRIPTION = (
    *(struct.pack(">hi", 3, 1), string("orders"), struct.pack(">i", 4), b"data"),
    *(struct.pack(">i", 1), partitions("orders", 3, 4), struct.pack(">i", 7), string("rack-1")),
)
ASSIGNMENT = (struct.pack(">hi", 1, 1), partitions("orders", 0, 5), struct.pack(">i", -1))


def test_names_in_a_subscription_are_stand_ins() -> None:
    content = b"".join(SUBSCRIPTION)
    found = member_data(content, STAND_INS, is_subscription=True)
    assert len(found) == len(content)
    read = parse_subscription(found)
    assert read.topics == (TOPIC,)
    assert read.user_data == b"xxxx"
    assert read.owned == ((TOPIC, (3, 4)),)
    assert read.generation_id == 7
    assert read.rack_id == STAND_INS.name(b"rack-1").decode()


def test_names_in_an_assignment_are_stand_ins() -> None:
    content = b"".join(ASSIGNMENT)
    found = member_data(content, STAND_INS, is_subscription=False)
    assert len(found) == len(content)
    assert parse_assignment(found).assigned == ((TOPIC, (0, 5)),)


def test_content_of_another_format_is_blank() -> None:
    for is_subscription, pieces in ((True, SUBSCRIPTION), (False, ASSIGNMENT)):
        content = b"".join(pieces)
        for cut in range(1, len(content)):
            found = member_data(content[:cut], STAND_INS, is_subscription=is_subscription)
            assert found == b"x" * cut
        longer = member_data(content + b"more", STAND_INS, is_subscription=is_subscription)
        assert longer == b"x" * (len(content) + 4)
        newer = struct.pack(">h", 9) + content[2:]
        found = member_data(newer + b"more", STAND_INS, is_subscription=is_subscription)
        assert b"more" not in found
        assert b"orders" not in found
    assert member_data(b"", STAND_INS, is_subscription=False) == b""
