"""Subscriptions and assignments inside of group messages."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from kanalyze.kafka.codec.interpreter import TraceNode
from kanalyze.render.tree import TreeText, embedded_lines
from tests.support.captures import CHOSEN, NAMES, often
from tests.support.decoding import CATALOG, READER, exchange, exchanges_of, frame, message, sized
from tests.support.golden import assert_golden
from tests.support.record_sets import ITEMS, batch_of
from tests.support.rows import row


def embedded_text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def body(protocol_type: str, name: str, content: bytes) -> TraceNode:
    inner = TraceNode(name, 20, 20 + len(content), "bytes", content)
    protocol = TraceNode("[0]", 18, 60, "Item", children=[inner])
    protocols = TraceNode("Protocols", 14, 60, "[]Item", 1, children=[protocol])
    kind = TraceNode("ProtocolType", 4, 14, "string", protocol_type)
    return TraceNode("", 0, 60, children=[kind, protocols])


SUBSCRIPTION = (
    struct.pack(">hi", 1, 2) + embedded_text("a") + embedded_text("b\x1b") + struct.pack(">i", -1)
)
SUBSCRIPTION += struct.pack(">i", 1) + embedded_text("a") + struct.pack(">iii", 2, 0, 3)
ASSIGNMENT = struct.pack(">hi", 0, 1) + embedded_text("a") + struct.pack(">iii", 1, 7, -1)


def test_a_subscription_names_its_topics_and_owned_partitions() -> None:
    (line,) = embedded_lines(body("consumer", "Metadata", SUBSCRIPTION))
    assert line.startswith(f"20..{20 + len(SUBSCRIPTION)} subscription v1 to a, ")
    assert "owns a [0, 3]" in line
    assert "\x1b" not in line


def test_an_assignment_names_its_partitions() -> None:
    (line,) = embedded_lines(body("consumer", "Assignment", ASSIGNMENT))
    assert line == f"20..{20 + len(ASSIGNMENT)} assignment v0 of a [7]"


@pytest.mark.parametrize("protocol_type", ["connect", "sr", ""])
def test_bytes_of_other_group_types_are_not_decoded(protocol_type: str) -> None:
    assert list(embedded_lines(body(protocol_type, "Metadata", SUBSCRIPTION))) == []


def test_bytes_of_another_protocol_are_reported() -> None:
    (line,) = embedded_lines(body("consumer", "Metadata", b"\x00\x01\x7f"))
    assert "no consumer protocol" in line


GOLDEN = Path(__file__).parent / "golden"

HEARTBEAT = {"groupId": "g", "generationId": 1, "memberId": "m"}
SASL = {"authBytes": b"\0alice\0pw"}
METADATA = {
    "throttleTimeMs": 0,
    "brokers": [{"nodeId": 1, "host": "b\x1b[31m1", "port": 9092, "rack": None}],
    "clusterId": "c" * 200,
    "controllerId": 1,
    "topics": [
        {
            "errorCode": 3,
            "name": 'quo"ted',
            "topicId": bytes(range(16)),
            "isInternal": True,
            "partitions": [
                {
                    "errorCode": 0,
                    "partitionIndex": index,
                    "leaderId": 1,
                    "leaderEpoch": 0,
                    "replicaNodes": [1],
                    "isrNodes": [],
                    "offlineReplicas": [],
                }
                for index in range(23)
            ],
            "topicAuthorizedOperations": -2147483648,
            "_taggedFields": [(88, b"unknown")],
        }
    ],
    "errorCode": 0,
}
METADATA_REQUEST = {
    "topics": None,
    "allowAutoTopicCreation": True,
    "includeTopicAuthorizedOperations": False,
}
JOIN = {
    "groupId": "g",
    "sessionTimeoutMs": 1,
    "memberId": "",
    "protocolType": "consumer",
    "protocols": [{"name": "range", "metadata": bytes(range(40))}],
}
PRODUCE = {
    "acks": 1,
    "timeoutMs": 5,
    "topicData": [{"name": "t", "partitionData": [{"index": 0, "records": b"\1" * 70}]}],
}
ENVELOPE = {
    "requestData": frame(12, 0, "request", HEARTBEAT)[4:],
    "requestPrincipal": None,
    "clientHostAddress": b"\x7f\0\0\1",
}
ENVELOPE_RESPONSE = {
    "responseData": frame(12, 0, "response", {"errorCode": 25})[4:],
    "errorCode": 0,
}


def text(decoded, *, everything: bool = False, **columns) -> str:
    known = {
        "api_key": decoded.api_key,
        "api_version": decoded.api_version,
        "api_name": None if decoded.api_key is None else READER.api_name(decoded.api_key),
        "correlation_id": decoded.correlation_id,
        "response_packet": None if decoded.response is None else 6,
    }
    tree = TreeText(READER, everything=everything)
    lines = tree.lines(decoded, row(**(known | columns)), READER.exchange(decoded))
    return "".join(f"{line}\n" for line in lines)


def cut_short():
    decoded = exchange(frame(12, 0, "request", HEARTBEAT))
    decoded.response = message(None, 600)
    return decoded


EXCHANGES = {
    "plain": exchange(
        frame(12, 0, "request", HEARTBEAT), frame(12, 0, "response", {"errorCode": 27})
    ),
    "metadata": exchange(
        frame(3, 13, "request", METADATA_REQUEST, header_tags=[(4, b"hi")]),
        frame(3, 13, "response", METADATA),
    ),
    "bytes": exchange(frame(11, 0, "request", JOIN)),
    "records": exchange(frame(0, 0, "request", PRODUCE)),
    "secret": exchange(frame(36, 2, "request", SASL)),
    "envelope": exchange(
        frame(58, 0, "request", ENVELOPE), frame(58, 0, "response", ENVELOPE_RESPONSE)
    ),
    "malformed": exchange(sized(frame(12, 0, "request", HEARTBEAT)[4:-1])),
    "trailing": exchange(sized(frame(12, 0, "request", HEARTBEAT)[4:] + b"\0\0")),
    "unknown": exchange(sized(struct.pack(">hhi", 999, 3, 1) + b"\0\3app" + b"body")),
    "missing": cut_short(),
    "orphan": exchange(None, frame(12, 0, "response", {"errorCode": 0})),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_the_tree_equals_its_golden_file(name):
    assert_golden(text(EXCHANGES[name]), GOLDEN / f"tree-{name}.txt")


def test_with_everything_no_value_is_cut():
    shown = text(EXCHANGES["metadata"], everything=True)
    assert "c" * 200 in shown
    assert "[22]" in shown
    assert "more" not in shown
    assert bytes(range(40)).hex() in text(EXCHANGES["bytes"], everything=True)


def test_by_default_lines_are_bounded():
    assert max(map(len, text(EXCHANGES["metadata"]).splitlines())) < 200


def test_control_characters_are_escaped():
    decoded = exchange(frame(12, 0, "request", HEARTBEAT | {"groupId": "\x1b[31m\n\u202e\x9b"}))
    decoded.client_id = "\x1b]0;x\x07"
    shown = text(decoded, client_id=decoded.client_id, everything=True)
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "\\u001b[31m\\n\\u202e\\u009b" in shown


def test_missing_bytes_are_counted_as_not_decoded():
    assert "600 bytes not decoded" in text(EXCHANGES["missing"])


def test_an_unreadable_exchange_of_kafka_07_has_a_title_and_sizes():
    decoded = exchange(sized(b"\0\0" + bytes(30)), wire="kafka-0.7", api_version=None)
    shown = text(decoded, anomalies=["malformed_body"])
    assert "malformed_body, byte 4: a topic of 0 bytes; 32 bytes not decoded" in shown
    assert "anomalies: malformed_body" in shown


OFFSETS = re.compile(r" *(\d+)\.\.(\d+) ")


@pytest.mark.parametrize(
    "name", often([name for name in NAMES if name not in ("tls", "snaplen")], (*CHOSEN, "mock"))
)
def test_trees_of_captures_cover_each_whole_frame(name):
    tree = TreeText(READER)
    seen = set()
    for decoded, exchange_row in exchanges_of(name):
        key = (decoded.api_key, decoded.api_version, exchange_row.status)
        # Bytes of an orphan response are not kept, because its API is unknown.
        if key in seen or "incomplete_frame" in exchange_row.anomalies or decoded.request is None:
            continue
        seen.add(key)
        lines = list(tree.lines(decoded, exchange_row, READER.exchange(decoded)))
        ends = [int(match[2]) for line in lines if (match := OFFSETS.match(line))]
        sizes = {len(part.data) for part in (decoded.request, decoded.response) if part is not None}
        assert max(ends) <= max(sizes)
        # An empty tag section has no line: the last field may end some bytes earlier.
        assert max(ends) >= max(sizes) - 8
        # Tree and row report the same problems; the mock cluster has some.
        kinds = {line.split("!! ")[1].split()[0].strip(",:") for line in lines if "!!" in line}
        assert kinds <= set(exchange_row.anomalies)
    assert seen


def test_error_codes_have_their_names():
    assert "errorCode: int16 = 27 REBALANCE_IN_PROGRESS" in text(EXCHANGES["plain"])


def test_the_reader_uses_the_given_catalog():
    assert READER.catalog is CATALOG


# -- batches, and what was not decoded ------------------------------------------------------------


def produced(records: bytes):
    topic = {"name": "t", "partitionData": [{"index": 0, "records": records}]}
    return exchange(
        frame(0, 3, "request", {**PRODUCE, "transactionalId": None, "topicData": [topic]})
    )


def batch_lines(decoded, **options) -> list[str]:
    return [
        line for line in text(decoded, **options).splitlines() if "CRC" in line or "...: " in line
    ]


def test_each_batch_has_its_header_and_its_crc_is_checked():
    batch = batch_of(ITEMS)
    broken = batch[:-1] + bytes([batch[-1] ^ 1])
    lines = batch_lines(produced(batch + broken))
    assert [" ".join(line.split()).partition(" ")[2] for line in lines] == [
        f"[{number}] batch at offset 0, 5 records, none, create time, leader epoch 0; CRC {word}"
        for number, word in enumerate(("right", "WRONG"))
    ]
    data = produced(batch + broken).request.data
    for line, sent in zip(lines, (batch, broken), strict=True):
        start, end = map(int, OFFSETS.match(line).groups())
        assert data[start:end] == sent


def test_a_cut_batch_is_said_to_be_one():
    batch = batch_of(ITEMS)
    shown = text(produced(batch + batch[:40]))
    assert "... 40 bytes: cut_batch" in shown


def test_of_many_batches_the_first_are_shown():
    batch = batch_of(ITEMS[:1])
    shown = text(produced(batch * 25))
    assert shown.count("CRC right") == 20
    assert f"... {5 * len(batch)} bytes: more batches" in shown
    assert text(produced(batch * 25), everything=True).count("CRC right") == 25


LEFT_OVER = bytes(range(1, 101))


def with_left_over(api_key: int, version: int, body: dict) -> bytes:
    return sized(frame(api_key, version, "request", body)[4:] + LEFT_OVER)


def hex_of(shown: str) -> str:
    """Return the bytes of a text, without the positions before them."""
    found = re.findall(r"^ *\d+\.\.\d+ +([0-9a-f ]{8,})$", shown, re.MULTILINE)
    return "".join(found).replace(" ", "")


def test_bytes_that_were_not_decoded_are_shown():
    decoded = exchange(with_left_over(12, 0, HEARTBEAT))
    shown = text(decoded)
    assert hex_of(shown) == LEFT_OVER[:64].hex()
    assert "... 36 bytes more" in shown
    assert hex_of(text(decoded, everything=True)).startswith(LEFT_OVER[:96].hex())


@pytest.mark.parametrize(
    ("api_key", "version", "body", "shown_with_everything"),
    [(0, 0, PRODUCE, True), (36, 2, SASL, False)],
)
def test_bytes_that_may_be_of_users_or_secret_are_not(
    api_key, version, body, shown_with_everything
):
    decoded = exchange(with_left_over(api_key, version, body))
    assert "100 bytes not decoded" in text(decoded)
    beginning = LEFT_OVER[:4].hex()
    assert beginning not in text(decoded)
    assert (beginning in text(decoded, everything=True)) is shown_with_everything


def test_bytes_of_unknown_apis_are_shown_only_with_everything():
    assert b"body".hex() not in text(EXCHANGES["unknown"])
    assert b"body".hex() in text(EXCHANGES["unknown"], everything=True)
