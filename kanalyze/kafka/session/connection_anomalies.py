"""Anomalies of one Kafka connection.

In: a frame or an exchange, and a kind of anomaly. Out: an
:class:`~kanalyze.model.anomalies.Anomaly`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.model.anomalies import Anomaly, AnomalyKind

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.framing.framer import FrameCutter, SyncLoss
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.model.tcp import TcpConnection

__all__ = [
    "exchange_anomaly",
    "frame_anomaly",
    "incomplete_frame_anomaly",
    "shed",
    "sync_loss_anomaly",
]

_new = tuple.__new__


def frame_anomaly(
    kind: AnomalyKind,
    tcp: TcpConnection,
    frame: Frame,
    direction: int,
    detail: str = "",
    exchange: Exchange | None = None,
) -> Anomaly:
    """Make the anomaly of a frame; note it in the frame's exchange too, if that is known."""
    if exchange is not None and kind not in exchange.anomalies:
        exchange.anomalies.append(kind)
    key = None if exchange is None else exchange.api_key
    version = None if exchange is None else exchange.api_version
    origin = frame.start_time_ns, frame.start_packet, tcp, direction, frame.stream_offset
    # Not by the slower constructor: some clients make the same mistake in every message.
    return _new(Anomaly, (kind, *origin, frame.length, key, version, None, detail))


def exchange_anomaly(kind: AnomalyKind, exchange: Exchange) -> Anomaly:
    """Make the anomaly of an exchange as a whole; note it in the exchange too."""
    message = exchange.request or exchange.response
    # Of an incomplete message, fewer bytes came than its declared size says.
    is_whole = AnomalyKind.INCOMPLETE_FRAME not in exchange.anomalies
    exchange.anomalies.append(kind)
    return Anomaly(
        kind,
        message.start_ns if message else None,
        message.start_packet if message else None,
        exchange.peers.tcp,
        length=message.length if message and is_whole else None,
        api_key=exchange.api_key,
        api_version=exchange.api_version,
    )


def sync_loss_anomaly(
    tcp: TcpConnection, loss: SyncLoss, direction: int, client_index: int
) -> Anomaly:
    """Make the anomaly of a loss of sync."""
    kind, detail = AnomalyKind.NOT_IN_SYNC, ""
    if loss.size is not None:
        from kanalyze.kafka.session.signatures import describe_size  # imported late: rare

        speaker = None
        if not loss.stream_offset and tcp.start_seen[direction]:
            speaker = "the client" if direction == client_index else "the server"
        kind = AnomalyKind.IMPLAUSIBLE_SIZE
        detail = f"size {loss.size}{describe_size(loss.size, speaker)}"
    return Anomaly(
        kind, loss.time_ns, loss.packet, tcp, direction, loss.stream_offset, detail=detail
    )


def incomplete_frame_anomaly(
    tcp: TcpConnection, frame: Frame, seen_bytes: int, direction: int
) -> Anomaly:
    """Make the anomaly of a direction that ended within a frame."""
    return Anomaly(
        AnomalyKind.INCOMPLETE_FRAME,
        frame.start_time_ns,
        frame.start_packet,
        tcp,
        direction,
        frame.stream_offset,
        seen_bytes,
        detail=f"of {frame.length} bytes",
    )


def shed(cutter: FrameCutter, tcp: TcpConnection, direction: int) -> list[Anomaly]:
    """Drop the buffered bytes of a cutter; return the anomaly if there were any."""
    offset, dropped = cutter.shed()
    if not dropped:
        return []
    detail = "of a message that has not ended, or out of sync"
    origin = None, tcp, direction, offset, dropped
    return [Anomaly(AnomalyKind.MEMORY_LIMIT, tcp.last_time_ns, *origin, detail=detail)]
