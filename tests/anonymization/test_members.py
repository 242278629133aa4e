"""Names in subscriptions and assignments become stand-ins; the rest is blank, or numbers."""

from __future__ import annotations

import struct

from kanalyze.anonymization.members import member_data
from kanalyze.kafka.codec.embedded_protocols import parse_assignment, parse_subscription
from tests.support.anonymous import STAND_INS

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
