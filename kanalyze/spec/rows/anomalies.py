"""The row contracts of anomalies, and of the quality of a capture.

In: nothing. Out: :class:`AnomalyRow` and :class:`QualityFact`, and their columns.
"""

# No "from __future__ import annotations": see kanalyze.spec.columns.

from typing import Annotated, Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spec.columns import Bytes, Column, Int16, Int32, Int64, Time, columns_of

Stage: TypeAlias = Literal["capture", "net", "connection"]


class AnomalyRow(NamedTuple):
    """One thing that is wrong with the input, and where."""

    kind: Annotated[str, "the kind of anomaly; see the documentation"]
    stage: Annotated[Stage, "stage: capture (file), net (packets, TCP) or connection (Kafka)"]
    capture: Annotated[str | None, "the input that it is in; null if unknown"]
    packet: Annotated[
        Int64 | None,
        "number in the capture, from 1: of the packet itself, the first packet of the frame, "
        "or the packet after the gap",
    ]
    time_ns: Annotated[Time | None, "time of that packet"]
    connection: Annotated[
        str | None,
        "CLIENT_IP:PORT>BROKER_IP:PORT as far as known at that time; if unknown, as in connections",
    ]
    connection_number: Annotated[
        Int64 | None, "1 for the first TCP connection on that pair of addresses"
    ]
    client_ip: Annotated[str | None, "of the connection"]
    client_port: Annotated[Int32 | None, "of the connection"]
    broker_ip: Annotated[str | None, "of the connection"]
    broker_port: Annotated[Int32 | None, "of the connection"]
    sender: Annotated[str | None, "IP:PORT of the end that sent the bytes concerned"]
    stream_offset: Annotated[
        Bytes | None, "position of the first byte concerned in what the sender sent, from 0"
    ]
    bytes: Annotated[Bytes | None, "number of bytes concerned: lost, skipped or discarded"]
    api_key: Annotated[Int16 | None, "of the message"]
    api_name: Annotated[str | None, "of the message"]
    api_version: Annotated[Int16 | None, "of the message"]
    detail: Annotated[str, "text for people; empty if the kind says all"]


ANOMALY_COLUMNS: tuple[Column, ...] = columns_of(AnomalyRow)
"""The columns of :class:`AnomalyRow`, in the order of its fields."""

QUALITY = "capture_quality"
"""The name of the table of :class:`QualityFact`."""


class QualityFact(NamedTuple):
    """One count of the report's ``quality``."""

    fact: Annotated[str, "the count, named as in the report's quality"]
    about: Annotated[
        str | None,
        "what it is counted by: the kind of anomaly, the address, the protocol; null if none",
    ]
    value: Annotated[Int64, "the number; an unknown number has no line"]


QUALITY_COLUMNS: tuple[Column, ...] = columns_of(QualityFact)
"""The columns of :class:`QualityFact`, in the order of its fields."""
