"""The kinds of headers, as numbers.

In: nothing. Out: the numbers.

A kind is a number of a registry, with the registry itself numbered from bit 16 on: an ethertype is
its own kind, a protocol of IP is :data:`IP_PROTOCOL` ``| protocol``, and so on. A protocol that is
not read is named by its kind (see :mod:`kanalyze.net.header_names`).
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ANY_IP",
    "ARP",
    "DROPPED",
    "ETHERNET",
    "FAMILY",
    "FRAGMENT",
    "GRE",
    "IPV4",
    "IPV6",
    "IP_PROTOCOL",
    "IP_VERSION",
    "LLC",
    "LLC_FRAME",
    "MPLS",
    "MPLS_MULTICAST",
    "PBB",
    "PPP",
    "PPPOE",
    "PPP_PROTOCOL",
    "TAGS",
    "TCP",
    "TOO_DEEP",
    "TRANSPORT",
    "UNREADABLE_MPLS",
]

# Ethertypes (IANA, "IEEE 802 Numbers").
IPV4: Final = 0x0800
IPV6: Final = 0x86DD
ARP: Final = 0x0806
TAGS: Final = (0x8100, 0x88A8, 0x9100, 0x9200)
"""802.1Q, 802.1ad, and two values that were in use before 802.1ad."""
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
