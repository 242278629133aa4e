"""Transformations, and combinations of several.

In: functions of packets. Out: :class:`Transformation`, :class:`Altered`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.support.disorder.formats import Pcapng, pcap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.disorder.packet import Packet

    Alter: TypeAlias = Callable[[list[Packet], Random], list[Packet]]
    Write: TypeAlias = Callable[[list[Packet], Random], bytes]
    Split: TypeAlias = Callable[[list[Packet], Random], list[list[Packet]]]
    ChangeRow: TypeAlias = Callable[[Any], Any]

PLACES = ("capture", "request_packet", "response_packet")
"""Columns that may differ after every transformation: the file and number of packets."""
TIMES = (
    "request_start_ns",
    "request_end_ns",
    "response_start_ns",
    "response_end_ns",
    "latency_ns",
    "total_time_ns",
    "waited",
    "request_send_ns",
    "response_send_ns",
)
"""Columns of times, and columns that depend on times."""
WAY = (
    "capture_point",
    "broker_network_ns",
    "retransmission_wait_ns",
    "pipeline_wait_ns",
    "waited_ns",
    "broker_time_ns",
    "client_network_ns",
    "retransmitted_packets",
    "zero_windows",
)
"""Columns about the network, which are others if the packets are others."""


class Stage(enum.IntEnum):
    """The order in which transformations are applied: later ones build upon earlier ones."""

    TIMES = 0
    """Bytes come at other times. Only the first of a combination can be of this stage: its promises
    about times hold only for the packets it is given, those of the others for any packets."""
    ORDER = 1
    CUTS = 2
    COPIES = 3
    NUMBERS = 4
    FRAGMENTS = 5
    LINKS = 6
    PADDING = 7
    FORMAT = 8
    FILES = 9


@dataclass(frozen=True)
class Transformation:
    """A change of a capture, and the parts of rows that it may change."""

    stage: Stage
    alter: Alter | None = None
    same_rows_as: Alter | None = None
    """Packets that must give the same rows, times included; None for the original packets."""
    row: ChangeRow | None = None
    """How a row changes if the transformation changes addresses."""
    columns: tuple[str, ...] = ()
    """Columns that may differ from the original capture's, besides :data:`PLACES`."""
    anomalies: tuple[str, ...] = ()
    """Anomalies that may be added to those of the original."""
    write: Write | None = None
    split: Split | None = None
    alone: bool = False
    """Whether it may not be combined with others at random."""


@dataclass(frozen=True)
class Altered:
    """A capture after transformations."""

    label: str
    files: list[bytes]
    reference: list[Packet]
    """Packets that must give the same rows as the files, except for :data:`PLACES`."""
    change_row: Callable[[Any], Any]
    """The function to apply to the rows of ``reference``."""
    columns: tuple[str, ...]
    """Columns that may differ from the original capture's."""
    anomalies: tuple[str, ...]


def plain_file(packets: list[Packet], noise: Random) -> bytes:
    """The packets as pcap with nanoseconds, or as pcapng if they have several link types."""
    if len({packet.link_type for packet in packets}) > 1:
        return Pcapng().write(packets, noise)
    return pcap(packets)


def apply(packets: list[Packet], steps: Sequence[tuple[str, Transformation]], seed: str) -> Altered:
    """Apply transformations one after the other, in the order of their stages.

    The same seed gives the same bytes.
    """
    ordered = sorted(steps, key=lambda step: step[1].stage)
    altered, reference = packets, packets
    write: Write = plain_file
    split: Split | None = None
    for name, step in ordered:
        if step.alter is not None:
            altered = step.alter(altered, Random(f"{seed} {name}"))
        if step.same_rows_as is not None:
            reference = step.same_rows_as(reference, Random(f"{seed} {name}"))
        write = step.write or write
        split = step.split or split
    noise = Random(seed)
    parts = split(altered, noise) if split is not None else [altered]
    return Altered(
        label=" + ".join(name for name, _ in ordered),
        files=[write(part, noise) for part in parts],
        reference=reference,
        change_row=_in_a_row([step.row for _, step in ordered if step.row is not None]),
        columns=PLACES + tuple(c for _, step in ordered for c in step.columns),
        anomalies=tuple(a for _, step in ordered for a in step.anomalies),
    )


def _in_a_row(changes: Sequence[ChangeRow]) -> ChangeRow:
    def change(row: Any) -> Any:
        for one in changes:
            row = one(row)
        return row

    return change
