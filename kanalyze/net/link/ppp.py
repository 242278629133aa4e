"""PPP, in its framings.

In: a cursor at a PPP, HDLC or PPPoE header. Out: the kind of what it carries, the cursor there.

PPP: RFC 1661; in HDLC-like framing: RFC 1662; over Ethernet: RFC 2516. Cisco's HDLC:
https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.net.header_kinds import IPV4, IPV6, MPLS, MPLS_MULTICAST, PPP, PPP_PROTOCOL
from kanalyze.net.header_names import tunnel_bit
from kanalyze.net.link.ethernet import BEFORE_IP

if TYPE_CHECKING:
    from kanalyze.net.header_cursor import HeaderCursor

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


def read_ppp(cursor: HeaderCursor) -> int:
    """Step over a PPP header; address and control may be left out, the protocol be one byte."""
    if cursor.peek16(0) == _ADDRESS_AND_CONTROL:
        cursor.at += 2
    if not cursor.fits(1):
        return cursor.cut(BEFORE_IP)
    protocol, size = cursor.u8(cursor.at), 1
    # The last byte of a protocol number is odd, those before it are even.
    if not protocol & 1:
        if not cursor.fits(2):
            return cursor.cut(BEFORE_IP)
        protocol, size = cursor.u16(cursor.at), 2
    cursor.at += size
    return _PROTOCOLS.get(protocol, PPP_PROTOCOL | protocol)


def read_cisco_hdlc(cursor: HeaderCursor) -> int:
    """Step over Cisco's HDLC header: address, control, an ethertype."""
    if not cursor.fits(_CISCO_BYTES):
        return cursor.cut(BEFORE_IP)
    cursor.at += _CISCO_BYTES
    return cursor.u16(cursor.at - 2)


def read_hdlc(cursor: HeaderCursor) -> int:
    """Step over an HDLC header of PPP or of Cisco; the address field says which."""
    is_cisco = cursor.peek8(0) in _CISCO_ADDRESSES
    return read_cisco_hdlc(cursor) if is_cisco else read_ppp(cursor)


def read_pppoe(cursor: HeaderCursor) -> int:
    """Step over the PPPoE header of a session; another one is counted as PPPoE discovery."""
    if not cursor.fits(_PPPOE_BYTES):
        return cursor.cut(BEFORE_IP)
    at = cursor.at
    if cursor.u16(at) != _SESSION:
        return _DISCOVERY
    cursor.shorten(min(at + _PPPOE_BYTES + cursor.u16(at + 4), cursor.end))
    cursor.enter(tunnel_bit("PPPoE"))
    cursor.at += _PPPOE_BYTES
    return PPP
