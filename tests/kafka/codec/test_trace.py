from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kanalyze.kafka.codec.interpreter import failure_of, read_message
from kanalyze.kafka.codec.trace import TraceNode, trace_message
from tests.support.messages import Generator, Writer, every_message

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog


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
        assert trace.failure == failure_of(message, 13, body[:end])
        assert trace.failure is not None
        assert trace.root.end is None
        assert trace.pos <= end
