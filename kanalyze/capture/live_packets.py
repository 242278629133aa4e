"""Packets as Linux hands them out, to packets as they were on the wire.

In: columns of what the kernel says of each packet, over a buffer that may be written to. Out:
:class:`~kanalyze.capture.records.Columns`. Must not know: how the packets were handed out.

The kernel takes the VLAN tag out of a packet and tells it beside; here it is put back. A cooked
packet comes without a link-layer header; here it gets one of LINKTYPE_LINUX_SLL2. Both are written
into the free bytes before the packet, so that no packet is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kanalyze.capture.interfaces import COOKED, ETHERNET
from kanalyze.capture.records import Columns
from kanalyze.gathers import overlapping, to_column
from kanalyze.packet_columns import repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ADDRESS", "HEADROOM_BYTES", "KernelPackets", "as_on_wire"]

HEADROOM_BYTES: Final = 24
"""Free bytes that have to be before each packet."""

ADDRESS: Final = np.dtype(
    [
        ("family", "=u2"),
        ("protocol", "V2"),
        ("interface", "=i4"),
        ("hardware", "=u2"),
        ("packet_type", "u1"),
        ("address_bytes", "u1"),
        ("address", "V8"),
    ]
)
"""``struct sockaddr_ll`` (packet(7)); the protocol is in network byte order."""
_COOKED_HEADER: Final = np.dtype(
    [
        ("protocol", "V2"),
        ("reserved", ">u2"),
        ("interface", ">u4"),
        ("hardware", ">u2"),
        ("packet_type", "u1"),
        ("address_bytes", "u1"),
        ("address", "V8"),
    ]
)
"""https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html."""
_TAG: Final = np.dtype([("protocol", ">u2"), ("control", ">u2")])
_TAG_AT: Final = 12
"""Where in an Ethernet header a VLAN tag stands: behind the two addresses."""
_VLAN_PROTOCOL: Final = 0x8100
_TAG_IS_VALID: Final = 0x10
_PROTOCOL_IS_VALID: Final = 0x40
"""Of ``status``: TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID (linux/if_packet.h)."""


class KernelPackets(NamedTuple):
    """What the kernel says of some packets, one entry a packet."""

    time_ns: NDArray[np.int64]
    offset: NDArray[np.int64]
    captured_bytes: NDArray[np.int64]
    wire_bytes: NDArray[np.int64]
    status: NDArray[np.uint32]
    tag_control: NDArray[np.unsignedinteger]
    tag_protocol: NDArray[np.uint16]
    address: NDArray[np.void]
    """Of :data:`ADDRESS`; empty where packets are not cooked."""


def as_on_wire(
    packets: KernelPackets, buffer: memoryview, link_type: int, snap_bytes: int
) -> Columns:
    """Give packets their link-layer headers back, by writing before them into ``buffer``.

    ``link_type`` is that of all of them. Of no packet more than ``snap_bytes`` are given.
    """
    offset, captured, wire = packets.offset, packets.captured_bytes, packets.wire_bytes
    if link_type == ETHERNET:
        tagged = _tagged(packets)
        if tagged.any():
            _put_tags(packets, buffer, tagged)
            added = np.where(tagged, _TAG.itemsize, 0)
            offset, captured, wire = offset - added, captured + added, wire + added
    elif link_type == COOKED:
        _put_cooked_headers(packets, buffer)
        added_bytes = _COOKED_HEADER.itemsize
        offset, captured, wire = offset - added_bytes, captured + added_bytes, wire + added_bytes
    return Columns(
        time_ns=to_column(packets.time_ns),
        offset=to_column(offset),
        captured_bytes=to_column(np.minimum(captured, snap_bytes)),
        wire_bytes=to_column(wire),
        link_type=repeated(link_type, len(offset)),
    )


def _tagged(packets: KernelPackets) -> NDArray[np.bool_]:
    """Which packets had a tag. Kernels before 3.0 do not say it of a tag of zeros."""
    is_tagged: NDArray[np.bool_] = packets.status & _TAG_IS_VALID != 0
    is_tagged |= packets.tag_control != 0
    is_tagged &= packets.captured_bytes >= _TAG_AT
    return is_tagged


def _put_tags(packets: KernelPackets, buffer: memoryview, tagged: NDArray[np.bool_]) -> None:
    places = packets.offset[tagged]
    addresses = overlapping(buffer, f"V{_TAG_AT}")
    addresses[places - _TAG.itemsize] = addresses[places]
    tags = np.empty(len(places), _TAG)
    is_told = packets.status[tagged] & _PROTOCOL_IS_VALID != 0
    tags["protocol"] = np.where(is_told, packets.tag_protocol[tagged], _VLAN_PROTOCOL)
    tags["control"] = packets.tag_control[tagged]
    into = overlapping(buffer, f"V{_TAG.itemsize}")
    into[places + _TAG_AT - _TAG.itemsize] = tags.view(into.dtype)


def _put_cooked_headers(packets: KernelPackets, buffer: memoryview) -> None:
    headers = np.zeros(len(packets.offset), _COOKED_HEADER)
    for name in _COOKED_HEADER.names or ():
        if name != "reserved":
            headers[name] = packets.address[name]
    into = overlapping(buffer, f"V{_COOKED_HEADER.itemsize}")
    into[packets.offset - _COOKED_HEADER.itemsize] = headers.view(into.dtype)
