"""Short texts that several tables and reports have in common.

In: values of a row or a line. Out: text, with names from the wire escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.render.text import MISSING, shown
from kanalyze.render.units import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "api_text",
    "captures_text",
    "connection_text",
    "listed",
    "number_text",
    "packets_text",
    "status_text",
]


def number_text(value: int | None) -> str:
    """Return a number that is no amount, such as an offset: all digits; ``-`` for null."""
    return MISSING if value is None else str(value)


def listed(texts: Sequence[str], most: int | None = None, *, more: bool = False) -> str:
    """Return at most ``most`` texts with commas between them; ``-`` if there are none.

    ``…`` follows if texts are left out, or if ``more`` says that there are others.
    """
    if not texts:
        return MISSING
    is_cut = more or (most is not None and len(texts) > most)
    return ", ".join(texts[:most]) + (", \u2026" if is_cut else "")


def captures_text(names: Sequence[object]) -> str:
    """Return the name of the first capture, and how many more there are."""
    if not names:
        return "no capture"
    more = f" and {count_text(len(names) - 1)} more" if len(names) > 1 else ""
    return shown(str(names[0])) + more


def connection_text(connection: str | None, number: int | None) -> str:
    """Return a connection, with its number if the two ends had one before; ``-`` for null."""
    return shown(connection) + (f" #{number}" if number is not None and number > 1 else "")


def api_text(name: str | None, key: int | None, name_text: Callable[[str], str] = shown) -> str:
    """Return the name of an API as ``name_text`` writes it, or the key if there is no name."""
    return name_text(name) if name else f"(key {key})"


def status_text(status: str, error_name: str | None) -> str:
    """Return the status of a request; instead of ``error``, the name of the error."""
    return shown(error_name if status == "error" else status)


def packets_text(request_packet: int | None, response_packet: int | None) -> str:
    """Return the first packets of a request and its response."""
    return f"{number_text(request_packet)} \u2192 {number_text(response_packet)}"
