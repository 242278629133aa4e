"""Pairs of endpoints, by which segments are assigned to connections.

In: pairs as numbers. Out: endpoints as text.
"""

from __future__ import annotations

import functools
from typing import Final, TypeAlias

from kanalyze.model.tcp import Endpoint

__all__ = ["Pair", "check_pair", "ip_text", "ipv6_key", "key_endpoint"]

_IPV6_KEY: Final = 1 << 144
_U64: Final = (1 << 64) - 1

Pair: TypeAlias = tuple[int, int]
"""The lower and the higher end of a connection, as ``address << 16 | port``, with bit 144 set for
IPv6."""


def ipv6_key(high: int, low: int, port: int) -> int:
    """Turn an end with an IPv6 address into one half of a pair."""
    return _IPV6_KEY | high << 80 | low << 16 | port


def key_endpoint(key: int) -> Endpoint:
    """Turn one half of a pair into text and number."""
    address, is_ipv6 = key >> 16, bool(key >> 144)
    text = ip_text(address >> 64 & _U64, address & _U64, is_ipv6=is_ipv6)
    return Endpoint(text, key & 0xFFFF)


def check_pair(pair: Pair) -> None:
    """Raise ValueError for numbers that are no pair."""
    for key in pair:
        bits = key.bit_length()
        if bits > 48 and bits != _IPV6_KEY.bit_length():
            raise ValueError("no end of a connection")


@functools.lru_cache(maxsize=4096)
def ip_text(high: int, low: int, *, is_ipv6: bool) -> str:
    """Write an address: dotted quad, or RFC 5952 for IPv6, without brackets.

    ``high`` and ``low`` are the halves of an IPv6 address; an IPv4 address is in ``low``.
    IPv4-mapped IPv6 addresses are written ``::ffff:1.2.3.4``.
    """
    if not is_ipv6:
        return ".".join(map(str, low.to_bytes(4)))
    import ipaddress  # slow to import, and many captures have no IPv6

    address = ipaddress.IPv6Address(high << 64 | low)
    # Python writes IPv4-mapped addresses with dots only from 3.13 on.
    mapped = address.ipv4_mapped
    return str(address) if mapped is None else f"::ffff:{mapped}"
