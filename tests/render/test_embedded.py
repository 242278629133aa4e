"""Subscriptions and assignments inside of group messages."""

from __future__ import annotations

import struct

import pytest

from kanalyze.kafka.codec.trace import TraceNode
from kanalyze.render.tree import embedded_lines


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def body(protocol_type: str, name: str, content: bytes) -> TraceNode:
    inner = TraceNode(name, 20, 20 + len(content), "bytes", content)
    protocol = TraceNode("[0]", 18, 60, "Item", children=[inner])
    protocols = TraceNode("Protocols", 14, 60, "[]Item", 1, children=[protocol])
    kind = TraceNode("ProtocolType", 4, 14, "string", protocol_type)
    return TraceNode("", 0, 60, children=[kind, protocols])


SUBSCRIPTION = struct.pack(">hi", 1, 2) + text("a") + text("b\x1b") + struct.pack(">i", -1)
SUBSCRIPTION += struct.pack(">i", 1) + text("a") + struct.pack(">iii", 2, 0, 3)
ASSIGNMENT = struct.pack(">hi", 0, 1) + text("a") + struct.pack(">iii", 1, 7, -1)


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
