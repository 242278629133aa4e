"""The consumer protocol inside JoinGroup and SyncGroup messages, as lines of text.

In: the trace of a body. Out: lines.

The format of these bytes depends on the protocol type of the group. They are parsed only if the
message itself says that the type is ``consumer``. JoinGroup requests always say it; JoinGroup
responses say it from version 7 on, SyncGroup from version 5 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.codec.embedded_protocols import parse_assignment, parse_subscription
from kanalyze.kafka.wire import WireError
from kanalyze.render.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.codec.embedded_protocols import TopicPartitions
    from kanalyze.kafka.codec.interpreter import TraceNode

__all__ = ["embedded_lines"]

_CONSUMER = "consumer"
_MAX_NAMED = 20


def embedded_lines(body: TraceNode) -> Iterator[str]:
    """Yield a line for each subscription and each assignment in a body."""
    types = [node.value for node in body.children if node.name == "ProtocolType"]
    if types != [_CONSUMER]:
        return
    for node in _bytes_nodes(body):
        try:
            text = _subscription(node) if node.name == "Metadata" else _assignment(node)
        except WireError:
            text = "no consumer protocol, whatever the protocol type says"
        yield f"{node.start}..{node.end} {text}"


def _bytes_nodes(node: TraceNode) -> Iterator[TraceNode]:
    for child in node.children:
        if child.name in ("Metadata", "Assignment") and isinstance(child.value, bytes):
            if child.value:
                yield child
        else:
            yield from _bytes_nodes(child)


def _subscription(node: TraceNode) -> str:
    subscription = parse_subscription(node.value)
    parts = [f"subscription v{subscription.version} to {_names(subscription.topics)}"]
    if subscription.owned:
        parts.append(f"owns {_partitions(subscription.owned)}")
    if subscription.generation_id is not None:
        parts.append(f"generation {subscription.generation_id}")
    if subscription.rack_id is not None:
        parts.append(f"rack {shown(subscription.rack_id)}")
    return ", ".join(parts)


def _assignment(node: TraceNode) -> str:
    assignment = parse_assignment(node.value)
    return f"assignment v{assignment.version} of {_partitions(assignment.assigned)}"


def _names(topics: tuple[str, ...]) -> str:
    return _bounded([shown(topic) for topic in topics])


def _partitions(topics: tuple[TopicPartitions, ...]) -> str:
    return _bounded(
        [f"{shown(topic)} [{_bounded(list(map(str, numbers)))}]" for topic, numbers in topics]
    )


def _bounded(texts: list[str]) -> str:
    more = f" and {len(texts) - _MAX_NAMED} more" if len(texts) > _MAX_NAMED else ""
    return (", ".join(texts[:_MAX_NAMED]) or "nothing") + more
