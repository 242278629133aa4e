"""Packets with chosen windows, identifications and checksums, and the metrics of connections."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kanalyze.common.saved import save
from kanalyze.net.tcp.reassembly import Reassembler
from tests.support.packets import Packet, make_batch, segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.tcp.limits import ReassemblyLimits

_IDENTIFICATION_AT = 14 + 4
_WINDOW_AT = {False: 14 + 20 + 14, True: 14 + 40 + 14}
_COUNTED = (
    "endpoints",
    "connection_number",
    "opened_by",
    "first_time_ns",
    "last_time_ns",
    "first_packet",
    "packets",
    "payload_bytes",
    "retransmitted_bytes",
    "duplicate_bytes",
    "keep_alive_bytes",
    "out_of_order_packets",
    "lost_bytes",
    "snapped_bytes",
    "closed_by",
    "end",
)


def numbered(
    identification: int = 1, *, window: int = 65000, checksum: int = 0, **named: Any
) -> bytes:
    """A segment as :func:`segment` builds it, with more fields of its header chosen."""
    raw = bytearray(segment(**named))
    is_ipv6 = raw[12:14] == b"\x86\xdd"
    if not is_ipv6:
        struct.pack_into(">H", raw, _IDENTIFICATION_AT, identification)
    struct.pack_into(">HH", raw, _WINDOW_AT[is_ipv6], window, checksum)
    return bytes(raw)


def at(*packets: tuple[int, bytes]) -> list[Packet]:
    """Packets with their times in ns."""
    return [Packet(data, time_ns) for time_ns, data in packets]


def measured(
    packets: Sequence[Packet],
    batch_packets: int = 0,
    limits: ReassemblyLimits | None = None,
    *,
    measure: bool = True,
) -> list[TcpConnection]:
    """Feed packets in batches of some size (0: all at once); return the closed connections."""
    reassembler = Reassembler(limits, measure=measure)
    size = batch_packets or max(len(packets), 1)
    closed = []
    for first in range(0, len(packets), size):
        batch = make_batch(packets[first : first + size], first + 1)
        closed += [update.connection for update in reassembler.feed(batch).updates if update.closed]
    closed += [update.connection for update in reassembler.finish().updates]
    return sorted(closed, key=lambda connection: connection.serial)


def figures(connection: TcpConnection) -> dict[str, Any]:
    """All counts and metrics of a connection."""
    found = {name: getattr(connection, name) for name in _COUNTED}
    if connection.measures is not None:
        found |= slots_of(connection.measures)
        found["round_trips"] = [save(trips) for trips in connection.measures.round_trips]
    return found


def slots_of(value: Any) -> dict[str, Any]:
    """The attributes of a value that keeps them in slots, by name."""
    return {name: getattr(value, name) for name in value.__slots__}


def check_figures_in_batches(packets: Sequence[Packet], batch_packets: int) -> None:
    """Check that connections have the same figures in any batches, measured or not."""
    whole = [figures(connection) for connection in measured(packets)]
    for size in (batch_packets, 1):
        assert [figures(connection) for connection in measured(packets, size)] == whole
    unmeasured = [figures(connection) for connection in measured(packets, 3, measure=False)]
    for plain, full in zip(unmeasured, whole, strict=True):
        assert plain == {name: full[name] for name in plain} | {"opened_by": plain["opened_by"]}
