"""What connections hold, and letting go of it when memory is short.

In: what a connection holds. Out: anomalies that say what was dropped. This module must not know
who decides that memory is short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.model import Anomaly, AnomalyKind

if TYPE_CHECKING:
    from kanalyze.model import TcpConnection
    from kanalyze.protocol.framing import FrameCutter

__all__ = ["PENDING_BYTES", "note_shed"]

PENDING_BYTES = 2048
"""What a request without an answer takes, about: an exchange, a message, its values."""


def note_shed(anomalies: list[Anomaly], tcp: TcpConnection, side: int, cutter: FrameCutter) -> None:
    """Let a cutter drop what it holds, and say so if that is anything."""
    offset, dropped = cutter.shed()
    if dropped:
        anomalies.append(
            Anomaly(
                AnomalyKind.MEMORY_LIMIT,
                time_ns=tcp.last_time_ns,
                connection=tcp,
                direction=side,
                stream_offset=offset,
                length=dropped,
                detail="of a message that has not ended, or out of step",
            )
        )
