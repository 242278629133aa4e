"""Bytes inside of Kafka's messages that have a format of their own."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.codec.embedded_protocols import (
    MemberAssignment,
    Subscription,
    TopicPartitions,
    parse_assignment,
    parse_subscription,
)
from kanalyze.kafka.wire import Truncated, WireError
from tests.support.kafka import string

TOPICS = struct.pack(">i", 2) + string("orders") + string("clicks")
NO_DATA = struct.pack(">i", -1)
OWNED = struct.pack(">i", 1) + string("orders") + struct.pack(">iii", 2, 0, 3)
OWNED_PARTITIONS = (TopicPartitions("orders", (0, 3)),)


def subscription(version: int) -> bytes:
    data = struct.pack(">h", version) + TOPICS + NO_DATA
    data += OWNED if version >= 1 else b""
    data += struct.pack(">i", 7) if version >= 2 else b""
    return data + (string("rack-1") if version >= 3 else b"")


@pytest.mark.parametrize(
    ("version", "more"),
    [
        (0, ()),
        (1, (OWNED_PARTITIONS,)),
        (2, (OWNED_PARTITIONS, 7)),
        (3, (OWNED_PARTITIONS, 7, "rack-1")),
    ],
)
def test_a_subscription_says_more_in_later_versions(version: int, more: tuple[object, ...]) -> None:
    expected = Subscription(version, ("orders", "clicks"), None, *more)  # type: ignore[arg-type]
    assert parse_subscription(subscription(version)) == expected


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    data = struct.pack(">h", 9) + subscription(3)[2:] + b"something new"
    assert parse_subscription(data)._replace(version=3) == parse_subscription(subscription(3))


def test_generation_minus_one_is_none() -> None:
    data = struct.pack(">h", 2) + TOPICS + NO_DATA + OWNED + struct.pack(">i", -1)
    assert parse_subscription(data).generation_id is None


def test_an_assignment_lists_partitions_by_topic() -> None:
    data = struct.pack(">h", 1) + OWNED + struct.pack(">i", 2) + b"ab"
    assert parse_assignment(data) == MemberAssignment(1, OWNED_PARTITIONS, b"ab")
    assert parse_assignment(b"") == MemberAssignment(0, (), None)


@pytest.mark.parametrize("version", range(4))
def test_every_prefix_of_a_subscription_is_truncated(version: int) -> None:
    data = subscription(version)
    for end in range(len(data)):
        with pytest.raises(Truncated):
            parse_subscription(data[:end])


@pytest.mark.parametrize("count", [2**31 - 1, -1, 10_000])
def test_an_impossible_count_is_refused(count: int) -> None:
    with pytest.raises(WireError):
        parse_assignment(struct.pack(">hi", 0, count) + bytes(100))


@given(st.binary(max_size=100))
def test_random_bytes_give_a_value_or_a_wire_error(data: bytes) -> None:
    for read in (parse_subscription, parse_assignment):
        with suppress(WireError):
            assert read(data)
