"""Fields that some releases named differently are unknown, not guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from tests.support import kafka as k
from tests.support.messages import Writer
from tests.support.traffic import CATALOG, Line, _defaults, answers, asks, body, capture_of

if TYPE_CHECKING:
    from pathlib import Path

NEWER = 68
PARTITIONS = [{"topicId": bytes(range(16)), "partitions": [1, 2]}]
MEMBER = {"memberId": "m", "memberEpoch": 3}
OF_3_6 = {
    "error": 0,
    "assignedTopicPartitions": PARTITIONS,
    "pendingTopicPartitions": [],
    "metadataVersion": 0,
    "metadataBytes": b"",
}


def superseded(values: dict[str, Any]) -> bytes:
    message = CATALOG.superseded(NEWER, "response", 0)
    assert message is not None
    return Writer(message, 0).write(_defaults(message.struct, 0) | values)


def current(values: dict[str, Any]) -> bytes:
    return body(NEWER, "response", 0, **values)


@pytest.mark.parametrize(
    ("response", "count"),
    [
        (superseded({**MEMBER, "assignment": OF_3_6}), None),
        (superseded({**MEMBER, "assignment": None}), None),
        (current({**MEMBER, "assignment": {"topicPartitions": PARTITIONS}}), 2),
        (current({**MEMBER, "assignment": {"topicPartitions": []}}), 0),
        (current({**MEMBER, "assignment": None}), None),
    ],
)
def test_fields_that_kafka_3_6_named_differently_are_unknown(
    response: bytes, count: int | None, tmp_path: Path
) -> None:
    packets: list[bytes] = []
    line = Line(packets).open().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    request = body(NEWER, "request", 0, groupId="g", memberId="", memberEpoch=0)
    line.client(asks(NEWER, 0, 2, request)).broker(answers(NEWER, 0, 2, response)).close()
    (tmp_path / "made.pcap").write_bytes(capture_of(packets))
    [event] = kanalyze.groups(tmp_path / "made.pcap").to_arrow().to_pylist()
    assert (event["event"], event["member_id"], event["member_epoch"]) == ("join", "m", 3)
    assert event["assigned_count"] == count
    assert len(event["assigned"]) == (count or 0)
