"""The slow reader: values, failures, positions, and where the first records begin."""

from __future__ import annotations

import random
import re
import struct
from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.codec.interpreter import (
    TraceNode,
    first_records,
    read_message,
    trace_message,
)
from kanalyze.kafka.wire import Malformed, Truncated, WireError
from tests.support import kafka as k
from tests.support.messages import Generator, Writer, every_message
from tests.support.traffic import CATALOG, Part, produce

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
    failure = trace_message(message, 3, produce_v3()[:cut]).failure
    assert failure is not None
    assert failure.path == path
    with pytest.raises(Truncated, match=f"^{path}".replace("[", r"\[")):
        read_message(message, 3, produce_v3()[:cut])


def test_a_failure_in_a_tag_section_names_it(catalog: Catalog) -> None:
    fetch = catalog.message(1, "request")
    body = struct.pack(">iiiibii", -1, 1, 1, 1, 0, 0, 0) + b"\x01\x01\x01"
    for section, path in (
        (b"\x01\x00\x02\x05a", "_taggedFields.ClusterId"),
        (b"\x02\x09\x00\x08\x00", "_taggedFields"),
        (b"\x01\x00\x02\x02a", None),
    ):
        failure = trace_message(fetch, 12, body + section).failure
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


def leaves(node: TraceNode) -> list[TraceNode]:
    if not node.children:
        return [node]
    return [leaf for child in node.children for leaf in leaves(child)]


def test_positions_are_those_of_the_bytes(catalog: Catalog) -> None:
    # Heartbeat v0: group, generation, member.
    body = b"\0\3abc" + b"\0\0\0\7" + b"\0\1m"
    trace = trace_message(catalog.message(12, "request"), 0, b"--" + body, 2)
    positions = [
        (node.name, node.start, node.end, node.type, node.value) for node in trace.root.children
    ]
    assert positions == [
        ("GroupId", 2, 7, "string", "abc"),
        ("GenerationId", 7, 11, "int32", 7),
        ("MemberId", 11, 14, "string", "m"),
    ]
    assert trace.failure is None
    assert (trace.root.start, trace.root.end, trace.pos) == (2, 14, 14)


def test_every_message_is_traced_to_its_last_byte_and_children_are_inside_their_parents(
    catalog: Catalog,
) -> None:
    chance = random.Random(7)
    for message, version in every_message(catalog):
        body = Writer(message, version).write(Generator(message, version, chance).values())
        trace = trace_message(message, version, body)
        assert trace.failure is None
        assert trace.pos == trace.root.end == len(body)
        check_nesting(trace.root)


def check_nesting(node: TraceNode) -> None:
    at = node.start
    for child in node.children:
        assert child.end is not None
        assert at <= child.start <= child.end
        at = child.end
        check_nesting(child)
    assert node.end is not None
    assert at <= node.end


def test_elements_past_the_limit_are_read_but_not_kept(catalog: Catalog) -> None:
    message = catalog.message(3, "request")  # Metadata v0: an array of names
    body = b"\0\0\0\x05" + b"".join(b"\0\1" + bytes([97 + i]) for i in range(5))
    trace = trace_message(message, 0, body, most_elements=2)
    (topics,) = trace.root.children
    assert (topics.value, topics.end) == (5, len(body))
    assert [[leaf.value for leaf in leaves(child)] for child in topics.children] == [["a"], ["b"]]


def test_records_are_traced_by_their_size_alone(catalog: Catalog) -> None:
    message = catalog.message(0, "request")
    values = {
        "acks": 1,
        "timeoutMs": 5,
        "topicData": [{"name": "t", "partitionData": [{"index": 0, "records": b"x" * 50}]}],
    }
    trace = trace_message(message, 0, Writer(message, 0).write(values))
    (records,) = [leaf for leaf in leaves(trace.root) if leaf.type == "records"]
    assert records.value == 50


def test_known_and_unknown_tags_have_nodes_and_empty_tag_sections_have_none(
    catalog: Catalog,
) -> None:
    message = catalog.message(18, "response")
    values = {
        "errorCode": 0,
        "apiKeys": [{"apiKey": 1, "minVersion": 0, "maxVersion": 1}],
        "throttleTimeMs": 0,
        "finalizedFeaturesEpoch": 9,
        "_taggedFields": [(77, b"hi")],
    }
    trace = trace_message(message, 3, Writer(message, 3).write(values))
    section = trace.root.children[-1]
    assert section.name == "_taggedFields"
    tags = [(node.name, node.value) for node in section.children]
    assert tags == [("FinalizedFeaturesEpoch", 9), ("tag 77", b"hi")]
    (element,) = trace.root.children[1].children
    assert [node.name for node in element.children] == ["ApiKey", "MinVersion", "MaxVersion"]


def test_a_message_cut_anywhere_keeps_the_fields_that_were_read_and_has_a_failure(
    catalog: Catalog,
) -> None:
    message = catalog.message(3, "response")
    values = Generator(message, 13, random.Random(3)).values()
    body = Writer(message, 13).write(values)
    assert read_message(message, 13, body)[1] == len(body)
    for end in range(len(body)):
        trace = trace_message(message, 13, body[:end])
        assert trace.failure is not None
        with pytest.raises(WireError, match=re.escape(trace.failure.reason)):
            read_message(message, 13, body[:end])
        assert trace.root.end is None
        assert trace.pos <= end


RECORDS = k.record_batch(3, 5000)


@pytest.mark.parametrize("version", range(14))
def test_the_first_records_are_found_in_every_version(version: int) -> None:
    parts = [Part(records=None), Part(partition=1, records=RECORDS)]
    frame = produce(1, version, parts)
    at = frame.index(RECORDS)
    body = frame.index(b"test") + 4 + (CATALOG.request_header_version(k.PRODUCE, version) == 2)
    message = CATALOG.message(k.PRODUCE, "request")
    for end in (at, at + 1, len(frame)):
        assert first_records(message, version, frame[:end], body) == (at, len(RECORDS))
    assert first_records(message, version, frame[: at - 4], body) is None


def test_a_message_without_records_has_none() -> None:
    frame = k.heartbeat(1)
    message = CATALOG.message(k.HEARTBEAT, "request")
    assert first_records(message, 0, frame, 18) is None
    assert first_records(message, 0, frame[:20], 18) is None
