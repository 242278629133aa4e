"""The messages for captures without Kafka, or without names of topics, and what to try.

In: counts of a capture. Out: one line. This module must not know where it is shown.
"""

from __future__ import annotations

from kanalyze.render.units import counted

__all__ = ["no_kafka_text", "unnamed_topics_text"]


def unnamed_topics_text(never_named: int, named_late: int) -> str:
    """Return a message on topics that rows have only the id of; empty if there are none.

    Args:
        never_named: topics whose name is nowhere in the captures.
        named_late: topics whose name came after some of their rows, where it cannot be read twice.
    """
    parts = []
    if never_named:
        parts.append(
            f"{counted(never_named, 'topic')} known only by id: --topic-ids FILE names them, in "
            "lines 'ID NAME' (kafka-topics.sh --describe prints TopicId), or a capture with "
            "Metadata responses, which clients ask for as they connect"
        )
    if named_late:
        parts.append(
            f"{counted(named_late, 'topic')} named after their first requests: read the capture "
            "from a file, not from a pipe, to have the names everywhere"
        )
    return "; ".join(parts)


def no_kafka_text(
    *,
    packets: int,
    connections: int,
    tls_connections: int,
    other_connections: int,
    snapped_bytes: int,
) -> str:
    """Return a message that no Kafka was found, with the likely reasons."""
    hints = {
        "there are no packets": not packets and not connections,
        "there is no TCP connection": packets and not connections,
        "TLS is not decrypted: give a key log (--keylog FILE)": tls_connections,
        "packets were cut short: capture whole ones (tcpdump -s 0)": snapped_bytes,
        "if a broker listens on port N, use --port N": other_connections,
    }
    return "; ".join(["no Kafka requests found", *(text for text, holds in hints.items() if holds)])
