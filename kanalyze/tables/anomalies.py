"""The rows of anomalies: one for each thing that is wrong with the input.

In: anomalies from all stages. Out: :class:`AnomalyRow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.texts import known_or_similar
from kanalyze.errors import UsageError
from kanalyze.model.anomalies import NET_ANOMALIES, AnomalyKind
from kanalyze.model.packets import known_time
from kanalyze.spec.rows.anomalies import AnomalyRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kanalyze.model.anomalies import Anomaly
    from kanalyze.spec.rows.anomalies import Stage

_CAPTURE_KINDS = (
    *(AnomalyKind.CAPTURE_TRUNCATED, AnomalyKind.CAPTURE_CORRUPT),
    *(AnomalyKind.ANOTHER_CAPTURE, AnomalyKind.CAPTURE_UNREADABLE),
)


def parse_kinds(names: Iterable[str]) -> frozenset[str]:
    """Return the kinds of anomalies with these names; raises UsageError for an unknown one."""
    kind_names = [kind.value for kind in AnomalyKind]
    kinds = tuple(names)
    for name in kinds:
        if name not in kind_names:
            raise UsageError(
                f"unknown kind of anomaly: {name!r}{known_or_similar(name, kind_names)}"
            )
    return frozenset(kinds)


def stage_of(kind: AnomalyKind) -> Stage:
    """Return the stage that finds anomalies of a kind."""
    if kind in _CAPTURE_KINDS:
        return "capture"
    return "net" if kind in NET_ANOMALIES else "connection"


def anomaly_row(
    anomaly: Anomaly,
    *,
    locate: Callable[[int], tuple[str, int | None]] | None = None,
    client_index: int | None = None,
    api_name: str | None = None,
) -> AnomalyRow:
    """Make the row of an anomaly. Raises nothing.

    Args:
        anomaly: the anomaly.
        locate: maps a packet number over the whole input to the capture and the number there.
            None only for an anomaly without a packet.
        client_index: index of the client among the connection's ends; None if not known (yet).
        api_name: name of ``anomaly.api_key``; None without a key.
    """
    capture, packet = None, None
    if anomaly.packet is not None:
        assert locate is not None, "an anomaly of a packet needs to locate the packet"
        capture, packet = locate(anomaly.packet)
    tcp = anomaly.connection
    client = broker = sender = None
    if tcp is not None:
        index = tcp.likely_client if client_index is None else client_index
        client, broker = tcp.endpoint_and_peer(index)
        if anomaly.direction is not None:
            sender = str(tcp.endpoints[anomaly.direction])
    return AnomalyRow(
        kind=anomaly.kind.value,
        stage=stage_of(anomaly.kind),
        capture=capture,
        packet=packet,
        time_ns=None if anomaly.time_ns is None else known_time(anomaly.time_ns),
        connection=None if tcp is None else f"{client}>{broker}",
        connection_number=None if tcp is None else tcp.connection_number,
        client_ip=None if client is None else client.ip,
        client_port=None if client is None else client.port,
        broker_ip=None if broker is None else broker.ip,
        broker_port=None if broker is None else broker.port,
        sender=sender,
        stream_offset=anomaly.stream_offset,
        bytes=anomaly.length,
        api_key=anomaly.api_key,
        api_name=api_name,
        api_version=anomaly.api_version,
        detail=anomaly.detail,
    )
