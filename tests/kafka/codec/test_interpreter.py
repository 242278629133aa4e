from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.codec.interpreter import failure_of, read_message
from kanalyze.kafka.wire import Malformed, Truncated

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog


def produce_v3(index: int = 4, records: bytes = b"rec") -> bytes:
    """Write a Produce request by hand: the layout as Kafka documents it."""
    return (
        struct.pack(">h3s", 3, b"txn")
        + struct.pack(">hi", -1, 30_000)
        + struct.pack(">ih5s", 1, 5, b"topic")
        + struct.pack(">ii", 1, index)
        + struct.pack(">i", len(records))
        + records
    )


def produce_v9() -> bytes:
    return (
        b"\x00"
        + struct.pack(">hi", 1, 100)
        + b"\x02\x06topic"
        + b"\x02"
        + struct.pack(">i", 4)
        + b"\x04rec"
        + b"\x00\x00"
        + b"\x01\x63\x02hi"
    )


def test_a_message_written_by_hand_is_read(catalog: Catalog) -> None:
    message = catalog.message(0, "request")
    partition = {"index": 4, "records": b"rec"}
    topics = [{"name": "topic", "partitionData": [partition]}]
    body = produce_v3()
    assert read_message(message, 3, b"--" + body, 2) == (
        {"transactionalId": "txn", "acks": -1, "timeoutMs": 30_000, "topicData": topics},
        2 + len(body),
    )
    expected = {"transactionalId": None, "acks": 1, "timeoutMs": 100, "topicData": topics}
    assert read_message(message, 9, produce_v9()) == (
        {**expected, "_taggedFields": [(99, b"hi")]},
        len(produce_v9()),
    )


def test_text_that_is_not_utf8_is_escaped(catalog: Catalog) -> None:
    body = produce_v3().replace(b"topic", b"t\xffp\xc3c")
    values, _ = read_message(catalog.message(0, "request"), 3, body)
    assert values["topicData"][0]["name"] == "t\\xffp\\xc3c"


@pytest.mark.parametrize(
    ("cut", "path"),
    [
        (0, "TransactionalId"),
        (4, "TransactionalId"),
        (6, "Acks"),
        (10, "TimeoutMs"),
        (14, "TopicData"),
        (20, "TopicData[0].Name"),
        (23, "TopicData[0].PartitionData"),
        (28, "TopicData[0].PartitionData[0].Index"),
        (34, "TopicData[0].PartitionData[0].Records"),
        (36, "TopicData[0].PartitionData[0].Records"),
    ],
)
def test_a_failure_names_the_field(catalog: Catalog, cut: int, path: str) -> None:
    # Where the rest is too short for one element, the array fails; otherwise the element does.
    message = catalog.message(0, "request")
    failure = failure_of(message, 3, produce_v3()[:cut])
    assert failure is not None
    assert failure.path == path
    with pytest.raises(Truncated, match=f"^{path}".replace("[", r"\[")):
        read_message(message, 3, produce_v3()[:cut])


def test_a_valid_message_has_no_failure_even_with_trailing_bytes(catalog: Catalog) -> None:
    message = catalog.message(0, "request")
    assert failure_of(message, 3, produce_v3()) is None
    assert failure_of(message, 9, produce_v9() + b"\0\0\0\0") is None


def test_a_failure_in_a_tag_section_names_it(catalog: Catalog) -> None:
    fetch = catalog.message(1, "request")
    body = struct.pack(">iiiibii", -1, 1, 1, 1, 0, 0, 0) + b"\x01\x01\x01"
    for section, path in (
        (b"\x01\x00\x02\x05a", "_taggedFields.ClusterId"),
        (b"\x02\x09\x00\x08\x00", "_taggedFields"),
        (b"\x01\x00\x02\x02a", None),
    ):
        failure = failure_of(fetch, 12, body + section)
        assert (None if failure is None else failure.path) == path


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe",
        b"\xff\xff\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff",
        b"\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff" + bytes(20),
    ],
)
def test_a_negative_length_is_malformed(catalog: Catalog, body: bytes) -> None:
    with pytest.raises(Malformed, match="negative length"):
        read_message(catalog.message(0, "request"), 3, body)


def test_a_count_beyond_the_bytes_is_refused_at_once(catalog: Catalog) -> None:
    body = b"\xff\xff" + struct.pack(">hii", 1, 0, 2**31 - 1) + bytes(50)
    with pytest.raises(Truncated, match="more elements than there are bytes"):
        read_message(catalog.message(0, "request"), 3, body)


def test_a_nullable_struct_is_null_or_present(catalog: Catalog) -> None:
    message = catalog.message(75, "request")
    before = b"\x01" + struct.pack(">i", 5)
    assert read_message(message, 0, before + b"\xff\x00")[0]["cursor"] is None
    present, _ = read_message(message, 0, before + b"\x01\x02t\x00\x00\x00\x07\x00\x00")
    assert present["cursor"] == {"topicName": "t", "partitionIndex": 7}
    with pytest.raises(Malformed, match=r"^Cursor at byte 6: neither null nor present"):
        read_message(message, 0, before + b"\x05\x00")
