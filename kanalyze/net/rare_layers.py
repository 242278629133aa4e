"""Rare headers, which an optional library (scapy) reads.

In: a cursor at such a header. Out: the kind of what it carries, the cursor there. Must not know:
how they are read.

A packet that is not read is counted by the name of its protocol. Without the library that is every
packet with such a header, and an anomaly says how to install it.
"""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.header_kinds import DROPPED
from kanalyze.net.header_names import tunnel_bit

if TYPE_CHECKING:
    from kanalyze.net.header_cursor import HeaderCursor

__all__ = ["can_read", "find_inside", "note_missing", "read_pbb", "read_wireless"]

_MOST_HEADER_BYTES: Final = 1024
"""Bytes of a packet that the library gets: more than any header here has."""
_MODULE: Final = "kanalyze.net.scapy_layers"
_HINT: Final = "pip install 'kanalyze[layers]' to have it read"
_PBB: Final = "802.1ah"


@cache
def _module() -> Any:
    """Import the library when the first header needs it: half a second. None if it is missing."""
    try:
        with warnings.catch_warnings():
            # scapy imports deprecated ciphers, which are not needed here.
            warnings.simplefilter("ignore")
            return importlib.import_module(_MODULE)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "scapy":
            raise
        return None


def can_read() -> bool:
    """Tell whether the library is installed."""
    return _module() is not None


def find_inside(cursor: HeaderCursor, reader: str) -> tuple[int, int] | str:
    """Let the function ``reader`` of :mod:`kanalyze.net.scapy_layers` read the header here.

    Returns the size of the header and the kind of its content, or the name of an unread protocol.
    """
    inside: tuple[int, int] | str = getattr(_module(), reader)(cursor.rest(_MOST_HEADER_BYTES))
    return inside


def note_missing(cursor: HeaderCursor, name: str) -> None:
    """Note as an anomaly of the packet what to install so that it is read."""
    cursor.note(AnomalyKind.UNKNOWN_LINK_TYPE, f"{name}: {_HINT}")


def read_wireless(cursor: HeaderCursor, reader: str) -> int:
    """Step over 802.11 headers; ``reader`` is the function for the header in front of them."""
    return _after(cursor, find_inside(cursor, reader))


def read_pbb(cursor: HeaderCursor) -> int:
    """Step over the tag of 802.1ah, provider backbone bridges."""
    if not can_read():
        note_missing(cursor, _PBB)
        return _count(cursor, _PBB)
    inside = find_inside(cursor, "read_pbb")
    if not isinstance(inside, str):
        cursor.enter(tunnel_bit(_PBB))
    return _after(cursor, inside)


def _after(cursor: HeaderCursor, inner: tuple[int, int] | str) -> int:
    """Move to the content and return its kind; count a packet whose content is not read."""
    if isinstance(inner, str):
        return _count(cursor, inner)
    size, kind = inner
    cursor.at += size
    return kind


def _count(cursor: HeaderCursor, name: str) -> int:
    cursor.stats.counters.count_other(name, 1)
    cursor.stats.counters.not_ip += 1
    return DROPPED
