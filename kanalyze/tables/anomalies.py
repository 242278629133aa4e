"""The rows of anomalies: one for each thing that is wrong with the input.

In: anomalies from all stages. Out: :class:`AnomalyRow`.
"""

# No "from __future__ import annotations": see kanalyze.tables.row.

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import known_or_similar
from kanalyze.errors import UsageError
from kanalyze.model.anomalies import NET_ANOMALIES, AnomalyKind
from kanalyze.model.packets import known_time
from kanalyze.tables.row import Column, Meaning, columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kanalyze.model.anomalies import Anomaly

__all__ = ["ANOMALY_COLUMNS", "AnomalyRow", "Stage", "anomaly_row", "parse_kinds", "stage_of"]

Stage: TypeAlias = Literal["capture", "net", "connection"]


class AnomalyRow(NamedTuple):
    """One thing that is wrong with the input, and where."""

    kind: Annotated[str, Meaning("string", "the kind of anomaly; see the documentation")]
    stage: Annotated[
        Stage,
        Meaning("string", "stage: capture (file), net (packets, TCP) or connection (Kafka)"),
    ]
    capture: Annotated[
        str | None, Meaning("string", "the input that it is in; null if unknown", nullable=True)
    ]
    packet: Annotated[
        int | None,
        Meaning(
            "int64",
            "number in the capture, from 1: of the packet itself, the first packet of the frame, "
            "or the packet after the gap",
            nullable=True,
        ),
    ]
    time_ns: Annotated[
        int | None, Meaning("int64", "time of that packet", "ns", nullable=True, is_time=True)
    ]
    connection: Annotated[
        str | None,
        Meaning(
            "string",
            "CLIENT_IP:PORT>BROKER_IP:PORT as far as known at that time; if unknown, as in "
            "connections",
            nullable=True,
        ),
    ]
    connection_number: Annotated[
        int | None,
        Meaning("int64", "1 for the first TCP connection on that pair of addresses", nullable=True),
    ]
    client_ip: Annotated[str | None, Meaning("string", "of the connection", nullable=True)]
    client_port: Annotated[int | None, Meaning("int32", "of the connection", nullable=True)]
    broker_ip: Annotated[str | None, Meaning("string", "of the connection", nullable=True)]
    broker_port: Annotated[int | None, Meaning("int32", "of the connection", nullable=True)]
    sender: Annotated[
        str | None,
        Meaning("string", "IP:PORT of the end that sent the bytes concerned", nullable=True),
    ]
    stream_offset: Annotated[
        int | None,
        Meaning(
            "int64",
            "position of the first byte concerned in what the sender sent, from 0",
            "B",
            nullable=True,
        ),
    ]
    bytes: Annotated[
        int | None,
        Meaning(
            "int64", "number of bytes concerned: lost, skipped or discarded", "B", nullable=True
        ),
    ]
    api_key: Annotated[int | None, Meaning("int16", "of the message", nullable=True)]
    api_name: Annotated[str | None, Meaning("string", "of the message", nullable=True)]
    api_version: Annotated[int | None, Meaning("int16", "of the message", nullable=True)]
    detail: Annotated[str, Meaning("string", "text for people; empty if the kind says all")]


ANOMALY_COLUMNS: tuple[Column, ...] = columns_of(AnomalyRow)
"""The columns of :class:`AnomalyRow`, in the order of its fields."""

_CAPTURE_KINDS = frozenset(
    {
        AnomalyKind.CAPTURE_TRUNCATED,
        AnomalyKind.CAPTURE_CORRUPT,
        AnomalyKind.ANOTHER_CAPTURE,
        AnomalyKind.CAPTURE_UNREADABLE,
    }
)


def parse_kinds(names: "Iterable[str]") -> frozenset[str]:
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
    anomaly: "Anomaly",
    *,
    locate: "Callable[[int], tuple[str, int | None]] | None" = None,
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
