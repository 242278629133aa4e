"""The message for captures without Kafka: what was found instead, and what to try.

In: counts of a capture. Out: one line. This module must not know where it is shown.
"""

from __future__ import annotations

__all__ = ["no_kafka_text"]


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
