"""Numbers, ports and addresses as they stand in a condition on packets.

In: a word. Out: a value. Must not know: where in a condition the word stands.

All functions raise :class:`UsageError`, which names the word. Names are not looked up, and numbers
are decimal.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from kanalyze.errors import UsageError

__all__ = ["looks_like_value", "read_host", "read_length", "read_network", "read_ports", "shown"]

_VALUE: Final = re.compile(r"[0-9].*|[0-9a-fA-F]*:.*", re.DOTALL)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_RANGE: Final = re.compile(r"([^-]+)-([^-]+)")
_ADDRESS: Final = re.compile(r"[0-9a-fA-F:.]+")
_NETWORK: Final = re.compile(r"[0-9a-fA-F:.]+(?:/[0-9]{1,3})?")
_SHORT_NETWORK: Final = re.compile(r"([0-9]+(?:\.[0-9]+){0,2})(?:/([0-9]{1,2}))?")
_MAX_PORT: Final = 0xFFFF
_MAX_LENGTH: Final = 0xFFFFFFFF
_SHOWN_CHARACTERS: Final = 60


def shown(text: str) -> str:
    """Return text from outside as it may stand in a message: in quotes, and not too long."""
    short = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    return f"{short!a}"


def looks_like_value(word: str) -> bool:
    """Return whether a word can be nothing but a number or an address, a wrong one perhaps."""
    return _VALUE.fullmatch(word) is not None


def read_length(word: str) -> int:
    """Read a number of bytes, up to 2^32 - 1."""
    return _number(word, _MAX_LENGTH)


def read_ports(word: str, *, is_range: bool) -> tuple[int, int]:
    """Read a port, or where a range may stand ``9092-9094`` too; return the first and the last."""
    parts = _RANGE.fullmatch(word) if is_range else None
    if parts is None:
        port = _number(word, _MAX_PORT)
        return port, port
    first, last = _number(parts[1], _MAX_PORT), _number(parts[2], _MAX_PORT)
    return min(first, last), max(first, last)


def read_host(word: str) -> IPv4Network | IPv6Network:
    """Read an address, as the network of it alone."""
    network = _network(word) if _ADDRESS.fullmatch(word) else None
    if network is None:
        raise UsageError(f"{shown(word)} is not an address (names are not looked up)")
    return network


def read_network(word: str) -> IPv4Network | IPv6Network:
    """Read a network: ``10.0.0.0/8``, ``fd00::/8``, or the first parts of it, ``10.1``."""
    short = _SHORT_NETWORK.fullmatch(word)
    text = word
    if short is not None:
        parts = short[1].split(".")
        text = ".".join([*parts, *["0"] * (4 - len(parts))]) + f"/{short[2] or 8 * len(parts)}"
    network = _network(text) if _NETWORK.fullmatch(text) else None
    if network is None:
        raise UsageError(f"{shown(word)} is not a network, or has bits set behind its mask")
    return network


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None


def _number(word: str, most: int) -> int:
    if not _NUMBER.fullmatch(word) or int(word) > most:
        raise UsageError(f"{shown(word)} is not a number from 0 to {most}")
    return int(word)
