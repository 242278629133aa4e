from __future__ import annotations

import pytest

from kanalyze.net.header_kinds import (
    FAMILY,
    GRE,
    IP_PROTOCOL,
    IP_VERSION,
    LLC,
    PPP_PROTOCOL,
    TOO_DEEP,
)
from kanalyze.net.header_names import TUNNELS, kind_name, link_name, tunnel_bit


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (0x0806, "ARP"),
        (0x88B5, "ethertype 0x88b5"),
        (LLC | 0x42, "STP"),
        (LLC | 0x07, "LLC 0x07"),
        (PPP_PROTOCOL | 0xC021, "PPP LCP"),
        (PPP_PROTOCOL | 0x1234, "PPP 0x1234"),
        (FAMILY | 99, "address family 99"),
        (IP_VERSION | 5, "IP version 5"),
        (IP_PROTOCOL | 0, "IPv6 extension headers"),
        (IP_PROTOCOL | 58, "IPv6 ICMP"),
        (IP_PROTOCOL | 99, "IP protocol 99"),
        (GRE | 0x6007, "GRE 0x6007"),
        (TOO_DEEP, "nested too deeply"),
    ],
)
def test_a_kind_is_named_or_numbered_by_its_registry(kind, name):
    assert kind_name(kind) == name


def test_link_types_are_named_with_their_number():
    assert link_name(105) == "802.11 (link type 105)"
    assert link_name(9999) == "link type 9999"


def test_tunnels_have_a_bit_each():
    assert sum(map(tunnel_bit, TUNNELS)) == (1 << len(TUNNELS)) - 1
