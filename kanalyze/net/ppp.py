"""PPP, in its framings.

In: places of PPP, HDLC or PPPoE headers. Out: places of what they carry. Must not know: what is
around.

PPP: RFC 1661; in HDLC-like framing: RFC 1662; over Ethernet: RFC 2516. Cisco's HDLC:
https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.net.columns import Headers
from kanalyze.net.ethernet import BEFORE_IP
from kanalyze.net.kinds import IPV4, IPV6, MPLS, MPLS_MULTICAST, PPP, PPP_PROTOCOL
from kanalyze.net.names import tunnel_bit

if TYPE_CHECKING:
    from kanalyze.net.columns import Packets, Places

__all__ = ["read_cisco_hdlc", "read_hdlc", "read_ppp", "read_pppoe"]

_ADDRESS_AND_CONTROL: Final = 0xFF03
_PROTOCOLS: Final = {0x0021: IPV4, 0x0057: IPV6, 0x0281: MPLS, 0x0283: MPLS_MULTICAST}
_CISCO_ADDRESSES: Final = (0x0F, 0x8F)
"""Unicast and multicast."""
_CISCO_BYTES: Final = 4
_PPPOE_BYTES: Final = 6
_SESSION: Final = 0x1100
"""Version 1, type 1, code 0."""
_DISCOVERY: Final = 0x8863


def read_ppp(packets: Packets, places: Places) -> Headers:
    """Step over PPP headers; address and control may be left out, the protocol be one byte."""
    places = packets.long_enough(places, 1, BEFORE_IP)
    framed = packets.peek(places, 0, ">u2") == _ADDRESS_AND_CONTROL
    places = packets.long_enough(places.after(np.where(framed, 2, 0)), 1, BEFORE_IP)
    first = packets.u8(places.at)
    # The last byte of a protocol number is odd, those before it are even.
    short = first & 1 == 1
    both = packets.peek(places, 0, ">u2")
    cut = ~short & (both < 0)
    packets.note_cut(places.row[cut], BEFORE_IP)
    protocol = np.where(short, first, both)
    kind = PPP_PROTOCOL | protocol
    for number, inner in _PROTOCOLS.items():
        kind[protocol == number] = inner
    return Headers(places.after(np.where(short, 1, 2)), kind).pick(~cut)


def read_cisco_hdlc(packets: Packets, places: Places) -> Headers:
    """Step over Cisco's HDLC headers: address, control, an ethertype."""
    places = packets.long_enough(places, _CISCO_BYTES, BEFORE_IP)
    return Headers(places.after(_CISCO_BYTES), packets.u16(places.at + 2))


def read_hdlc(packets: Packets, places: Places) -> Headers:
    """Step over HDLC headers of PPP or of Cisco, as the address tells."""
    places = packets.long_enough(places, 1, BEFORE_IP)
    is_cisco = np.isin(packets.u8(places.at), _CISCO_ADDRESSES)
    return Headers.joined(
        [
            read_cisco_hdlc(packets, places.pick(is_cisco)),
            read_ppp(packets, places.pick(~is_cisco)),
        ]
    )


def read_pppoe(packets: Packets, places: Places) -> Headers:
    """Step over PPPoE headers of sessions; others carry no packets and stay what they are."""
    places = packets.long_enough(places, _PPPOE_BYTES, BEFORE_IP)
    is_session = packets.u16(places.at) == _SESSION
    inner = places.pick(is_session)
    end = inner.at + _PPPOE_BYTES + packets.u16(inner.at + 4)
    inner = packets.shorten(inner, np.minimum(end, packets.end[inner.row]))
    packets.enter(inner.row, tunnel_bit("PPPoE"))
    session = Headers.of(inner.after(_PPPOE_BYTES), PPP)
    return Headers.joined([session, Headers.of(places.pick(~is_session), _DISCOVERY)])
