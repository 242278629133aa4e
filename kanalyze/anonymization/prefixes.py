"""Makes what proxies put before a protocol anonymous.

In: the bytes of a prefix, and what its parts are. Out: bytes of the same length, which are read as
the same prefix, with stand-ins for addresses, host names and users. Credentials, other headers and
extensions are blank.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kanalyze.anonymization.stand_ins import StandIns
    from kanalyze.model.proxy import PartKind
    from kanalyze.model.streams import PrefixBytes

__all__ = ["anonymous_prefix"]

_ADDRESS_BYTES = (4, 16)


def anonymous_prefix(prefix: PrefixBytes, stand_ins: StandIns) -> bytes:
    """Return the anonymous bytes of a prefix."""
    data = bytearray(prefix.data)
    for part in prefix.parts:
        original = prefix.data[part.begin : part.end]
        data[part.begin : part.begin + len(original)] = _stand_in(original, part.kind, stand_ins)
    return bytes(data)


def _stand_in(original: bytes, kind: PartKind, stand_ins: StandIns) -> bytes:
    if kind == "address text":
        return stand_ins.address_text(original)
    if kind == "host":
        is_address = _is_address(original)
        return stand_ins.address_text(original) if is_address else stand_ins.host(original)
    if kind == "name":
        return stand_ins.name(original)
    if kind == "address" and len(original) in _ADDRESS_BYTES:
        return stand_ins.address(original)
    return (b"x" if kind in ("secret", "text") else b"\0") * len(original)


def _is_address(host: bytes) -> bool:
    try:
        ipaddress.ip_address(host.decode("ascii"))
    except ValueError:  # UnicodeDecodeError is one, too
        return False
    return True
