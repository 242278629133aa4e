"""The kinds of headers, as numbers, and the names of those that are not read.

In: a kind of header. Out: text for people.

A kind is a number of a registry, with the registry itself numbered from bit 16 on: an ethertype is
its own kind, a protocol of IP is :data:`IP_PROTOCOL` ``| protocol``, and so on. A protocol that is
not read is named by its kind (:func:`kind_name`).

Numbers and names: IANA, "IEEE 802 Numbers", "Protocol Numbers", "Point-to-Point (PPP) Protocol
Field Assignments"; https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

from typing import Final

# Ethertypes (IANA, "IEEE 802 Numbers").
IPV4: Final = 0x0800
IPV6: Final = 0x86DD
ARP: Final = 0x0806
MPLS: Final = 0x8847
MPLS_MULTICAST: Final = 0x8848
PPPOE: Final = 0x8864
ETHERNET: Final = 0x6558
"""An Ethernet frame ("transparent Ethernet bridging")."""
PBB: Final = 0x88E7
"""802.1ah, provider backbone bridges: Ethernet in Ethernet."""
PPP: Final = 0x880B
"""A PPP frame, from its protocol field or from the HDLC address on."""

# Registries.
LLC: Final = 1 << 16
"""IEEE 802.2, by the destination's service access point."""
PPP_PROTOCOL: Final = 2 << 16
FAMILY: Final = 3 << 16
"""Address families of BSD loopback."""
IP_VERSION: Final = 4 << 16
TRANSPORT: Final = 5 << 16
"""Kinds from here on are inside an IP packet."""
IP_PROTOCOL: Final = 5 << 16
TCP: Final = IP_PROTOCOL | 6
GRE: Final = 6 << 16
"""Protocol types of GRE that are not read."""

# Headers without a number in a registry.
LLC_FRAME: Final = (7 << 16) | 1
ANY_IP: Final = (7 << 16) | 2
"""IPv4 or IPv6, according to its version field."""
UNREADABLE_MPLS: Final = (7 << 16) | 3
TOO_DEEP: Final = (7 << 16) | 4
"""More nested headers than are read."""

# Results that are not headers.
DROPPED: Final = -1
"""The packet was counted and is not read any further."""
FRAGMENT: Final = (7 << 16) | 5
"""A fragment of an IP packet, to be reassembled."""

_NUMBER: Final = 0xFFFF
_ETHERTYPES: Final = {
    0x0806: "ARP",
    0x0842: "Wake-on-LAN",
    0x22EA: "SRP",
    0x22F0: "AVTP",
    0x22F3: "TRILL",
    0x6003: "DECnet",
    0x8035: "RARP",
    0x809B: "AppleTalk",
    0x80F3: "AARP",
    0x8137: "IPX",
    0x8808: "Ethernet flow control",
    0x8809: "LACP and other slow protocols",
    0x8847: "MPLS",
    0x8848: "MPLS",
    0x8863: "PPPoE discovery",
    0x8864: "PPPoE",
    0x887B: "HomePlug",
    0x888E: "EAPOL",
    0x8892: "PROFINET",
    0x88A2: "ATA over Ethernet",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
    0x88E7: "802.1ah",
    0x88F7: "PTP",
    0x8902: "802.1ag",
    0x8906: "FCoE",
    0x8915: "RoCE",
    0x9000: "Ethernet loopback test",
}
_LLC: Final = {0x42: "STP", 0xAA: "SNAP", 0xE0: "IPX", 0xF0: "NetBEUI", 0xFE: "OSI"}
_PPP: Final = {
    0x003D: "PPP multilink",
    0x00FD: "PPP compressed",
    0x8021: "PPP IPCP",
    0x8057: "PPP IPv6CP",
    0xC021: "PPP LCP",
    0xC023: "PPP PAP",
    0xC025: "PPP link quality report",
    0xC223: "PPP CHAP",
}
_IP_PROTOCOLS: Final = {
    0: "IPv6 extension headers",
    1: "ICMP",
    2: "IGMP",
    4: "IP in IP",
    17: "UDP",
    33: "DCCP",
    41: "IP in IP",
    43: "IPv6 extension headers",
    46: "RSVP",
    47: "GRE",
    50: "ESP",
    51: "AH",
    58: "IPv6 ICMP",
    59: "IPv6 without next header",
    60: "IPv6 extension headers",
    88: "EIGRP",
    89: "OSPF",
    97: "EtherIP",
    103: "PIM",
    108: "IPComp",
    112: "VRRP",
    115: "L2TP",
    132: "SCTP",
    135: "IPv6 extension headers",
    136: "UDP-Lite",
    137: "MPLS in IP",
}
_WHOLE: Final = {
    LLC_FRAME: "LLC",
    UNREADABLE_MPLS: "MPLS",
    TOO_DEEP: "nested too deeply",
    ETHERNET: "Ethernet in Ethernet",
}
_REGISTRIES: Final = {
    LLC: (_LLC, "LLC 0x{:02x}"),
    PPP_PROTOCOL: (_PPP, "PPP 0x{:04x}"),
    FAMILY: ({}, "address family {}"),
    IP_VERSION: ({}, "IP version {}"),
    IP_PROTOCOL: (_IP_PROTOCOLS, "IP protocol {}"),
    GRE: ({}, "GRE 0x{:04x}"),
}
_LINKS: Final = {
    6: "Token Ring",
    7: "ARCNET",
    8: "SLIP",
    10: "FDDI",
    105: "802.11",
    107: "Frame Relay",
    109: "IPsec of OpenBSD",
    117: "packet filter log",
    119: "802.11",
    127: "802.11",
    143: "DOCSIS",
    163: "802.11",
    187: "Bluetooth",
    189: "USB",
    192: "PPI",
    195: "802.15.4",
    220: "USB",
    227: "CAN",
    242: "IP over InfiniBand",
    247: "InfiniBand",
    253: "netlink",
    258: "PKTAP",
}
TUNNELS: Final = (
    "IP in IP",
    "GRE",
    "ERSPAN",
    "VXLAN",
    "Geneve",
    "MPLS",
    "PPPoE",
    "802.1ah",
    "EtherIP",
    "GTP-U",
)


def tunnel_bit(name: str) -> int:
    """Return the bit that stands for a name of :data:`TUNNELS` in a set of them."""
    return 1 << TUNNELS.index(name)


def kind_name(kind: int) -> str:
    """Return the name of a kind of header (see :mod:`kanalyze.net.header_kinds`).

    Where a number has no name here, it is shown with its registry: ``ethertype 0x88b5``.
    """
    name = _WHOLE.get(kind)
    if name is not None:
        return name
    number = kind & _NUMBER
    names, otherwise = _REGISTRIES.get(kind - number, (_ETHERTYPES, "ethertype 0x{:04x}"))
    return names.get(number) or otherwise.format(number)


def link_name(link_type: int) -> str:
    """Return the name of a LINKTYPE_ value that is not read: ``802.11 (link type 105)``."""
    name = _LINKS.get(link_type)
    return f"link type {link_type}" if name is None else f"{name} (link type {link_type})"
