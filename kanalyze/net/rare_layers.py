"""Rare headers, which libraries read.

In: a cursor at such a header. Out: the kind of what it carries, the cursor there. Must not know:
how they are read.

What is not read is counted by its name. Without the libraries all is counted so, and an anomaly
says how to install them.
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
"""Of a packet, shown to a library: more than any header here has."""
_MODULE: Final = "kanalyze.net.scapy_layers"
_HINT: Final = "pip install 'kanalyze[layers]' to have it read"
_PBB: Final = "802.1ah"


@cache
def _module() -> Any:
    """Import the libraries once a header needs them: it takes half a second; None without them."""
    try:
        with warnings.catch_warnings():
            # It imports ciphers that are not needed here and are deprecated.
            warnings.simplefilter("ignore")
            return importlib.import_module(_MODULE)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "scapy":
            raise
        return None


def can_read() -> bool:
    """Tell whether the libraries are there."""
    return _module() is not None


def find_inside(cursor: HeaderCursor, reader: str) -> tuple[int, int] | str:
    """Let a function of the libraries' module read the header here.

    Returns the size of the header and the kind of its content, or the name of an unread protocol.
    """
    found: tuple[int, int] | str = getattr(_module(), reader)(cursor.rest(_MOST_HEADER_BYTES))
    return found


def note_missing(cursor: HeaderCursor, name: str) -> None:
    """Say of a packet what would read it."""
    cursor.note(AnomalyKind.UNKNOWN_LINK_TYPE, f"{name}: {_HINT}")


def read_wireless(cursor: HeaderCursor, reader: str) -> int:
    """Step over headers of 802.11, by the name of the function for what stands before them."""
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
    """Move to the content if it is known; else count it."""
    if isinstance(inner, str):
        return _count(cursor, inner)
    size, kind = inner
    cursor.at += size
    return kind


def _count(cursor: HeaderCursor, name: str) -> int:
    cursor.stats.counters.count_other(name, 1)
    cursor.stats.counters.not_ip += 1
    return DROPPED
