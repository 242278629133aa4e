from __future__ import annotations

import re
from pathlib import Path

import pytest

import kanalyze
from kanalyze.net import header_kinds
from kanalyze.net.header_kinds import (
    FAMILY,
    GRE,
    IP_PROTOCOL,
    IP_VERSION,
    LLC,
    PPP_PROTOCOL,
    TOO_DEEP,
    TRANSPORT,
    TUNNELS,
    kind_name,
    link_name,
    tunnel_bit,
)
from tests.support.uncompiled import uncompiled

NET = Path(kanalyze.__file__).parent / "net"


def constants_of(name: str) -> dict[str, int]:
    """Read the constants of C out of a file of types."""
    text = (NET / f"{name}.pxd").read_text()
    found: dict[str, int] = {}
    for block in re.findall(r"cp?def enum:\n((?:(?:    .*)?\n)+)", text):
        for constant, value in re.findall(r"^    (\w+) = (-?\d+)$", block, re.MULTILINE):
            found[constant] = int(value)
    return found


def test_every_constant_of_c_is_that_of_python():
    counted = 0
    with uncompiled() as modules:
        for path in NET.rglob("*.pxd"):
            module = str(path.relative_to(NET).with_suffix(""))
            python = vars(modules[f"kanalyze.net.{module.replace('/', '.')}"])
            for name, value in constants_of(module).items():
                assert python.get(name, vars(header_kinds).get(name)) == value, (module, name)
                counted += 1
    assert counted > 20


def test_the_number_ranges_of_registries_do_not_overlap_and_those_inside_ip_come_last():
    below = (LLC, PPP_PROTOCOL, FAMILY, IP_VERSION)
    starts = (*below, IP_PROTOCOL, GRE)
    assert all(start & 0xFFFF == 0 for start in starts)
    assert len(set(starts)) == len(starts)
    assert all(start + 0xFFFF < TRANSPORT for start in below)
    assert GRE >= TRANSPORT <= IP_PROTOCOL


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
