"""IP addresses as text.

In: addresses as numbers. Out: canonical text. Must not know: packets.
"""

from __future__ import annotations

import functools

__all__ = ["ip_text"]


@functools.lru_cache(maxsize=4096)
def ip_text(high: int, low: int, *, is_ipv6: bool) -> str:
    """Write an address: dotted quad, or RFC 5952 for IPv6, without brackets.

    ``high`` and ``low`` are the halves of an IPv6 address; an IPv4 address stands in ``low``.
    IPv6 addresses that wrap an IPv4 one are written ``::ffff:1.2.3.4``.
    """
    if not is_ipv6:
        return ".".join(map(str, low.to_bytes(4)))
    import ipaddress  # slow to import, and many captures have no IPv6

    address = ipaddress.IPv6Address(high << 64 | low)
    # Python writes these with dots from 3.13 on only.
    mapped = address.ipv4_mapped
    return str(address) if mapped is None else f"::ffff:{mapped}"
