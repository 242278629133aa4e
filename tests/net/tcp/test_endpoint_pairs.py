from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.net.tcp.endpoint_pairs import ip_text

STEADY = settings(deadline=None)


def text6(address: str) -> str:
    number = int(ipaddress.IPv6Address(address))
    return ip_text(number >> 64, number & (1 << 64) - 1, is_ipv6=True)


def test_ipv4_is_a_dotted_quad():
    assert ip_text(0, 0x0A00FF01, is_ipv6=False) == "10.0.255.1"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("2001:0DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        ("::", "::"),
        ("fe80::1", "fe80::1"),
        ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
    ],
)
def test_ipv6_is_written_as_rfc_5952_says(address, text):
    assert text6(address) == text


@STEADY
@given(st.integers(0, (1 << 128) - 1))
def test_any_ipv6_address_reads_back_as_itself(number):
    text = ip_text(number >> 64, number & (1 << 64) - 1, is_ipv6=True)
    assert socket.inet_pton(socket.AF_INET6, text) == number.to_bytes(16, "big")
