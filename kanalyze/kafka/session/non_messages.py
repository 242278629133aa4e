"""Frames of a Kafka connection that are no messages: SASL tokens, and what cannot be read.

In: frames. Out: counts of bytes, positions of tokens, anomalies, in
:class:`~kanalyze.kafka.session.events.ConnectionEvents`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.session.connection_anomalies import frame_anomaly
from kanalyze.model.anomalies import AnomalyKind

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.session.events import ConnectionEvents
    from kanalyze.kafka.session.message_bodies import MessageBodies
    from kanalyze.kafka.session.token_ranges import TokenRanges
    from kanalyze.model.tcp import TcpConnection

__all__ = ["NonMessages"]


class NonMessages:
    """Counts the frames of one connection that are no messages."""

    __slots__ = ("_bodies", "_tcp", "_tokens")

    def __init__(self, tokens: TokenRanges, bodies: MessageBodies, tcp: TcpConnection) -> None:
        self._tokens = tokens
        self._bodies = bodies
        self._tcp = tcp

    def add_token(self, frame: Frame, direction: int, events: ConnectionEvents) -> None:
        """Count a token of SASL, and report where it is."""
        events.token_bytes.append(self._tokens.of_frame(frame, direction))
        self._bodies.decoded_bytes += frame.length

    def add_unreadable(
        self, frame: Frame, direction: int, detail: str, events: ConnectionEvents
    ) -> None:
        """Count and report a frame that cannot be read; it may be a token."""
        events.token_bytes.append(self._tokens.of_frame(frame, direction))
        self._bodies.undecoded_bytes += frame.length
        kind = AnomalyKind.MISSING_BYTES if frame.missing_bytes else AnomalyKind.MALFORMED_BODY
        events.anomalies.append(frame_anomaly(kind, self._tcp, frame, direction, detail))
