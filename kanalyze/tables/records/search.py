"""Searches the bytes of records.

In: records. Out: where the bytes were found.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from kanalyze.common.argument_values import parsed, shown
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from kanalyze.kafka.records.types import Record

__all__ = ["RecordSearch", "parse_search", "search_of"]

_HEX = "hex:"
_MAX_PLACES = 20


class RecordSearch:
    """Finds bytes in keys, values and headers' values."""

    def __init__(self, pattern: bytes) -> None:
        """Search for ``pattern``, which is not empty."""
        self._pattern = pattern

    def places(self, record: Record, *, with_value: bool = True) -> str | None:
        """Return where the bytes first occur in each part, as text; None if they do not occur.

        ``with_value``: whether to search the value too.
        """
        matches: list[str] = []
        if record.key is not None:
            self._add(matches, "key", record.key)
        if record.value is not None and with_value:
            self._add(matches, "value", record.value)
        for name, value in record.headers:
            if value is not None and len(matches) < _MAX_PLACES:
                self._add(matches, f"header {str(name, 'utf-8', 'backslashreplace')}", value)
        return ", ".join(matches) or None

    def _add(self, matches: list[str], part: str, data: bytes) -> None:
        at = data.find(self._pattern)
        if at >= 0:
            matches.append(f"{part}@{at}")


def parse_search(text: str | bytes) -> RecordSearch:
    """Return the search for bytes, a text, or ``hex:`` with hexadecimal digits.

    Raises UsageError if there are no bytes to search for, or if the digits are invalid.
    """
    pattern = text if isinstance(text, bytes) else _bytes_of(text)
    if not pattern:
        raise UsageError("nothing to search: give a text, or hex: and hexadecimal digits")
    return RecordSearch(pattern)


def search_of(name: str, option: object) -> RecordSearch | None:
    """Return the search that the argument ``name`` asks for; None for None. Raises UsageError."""
    if option is None:
        return None
    if not isinstance(option, str | bytes):
        raise UsageError(f"{name}: not a text or bytes: {shown(option)}")
    return parsed(name, parse_search, option)


def _bytes_of(text: str) -> bytes:
    if not text.startswith(_HEX):
        # Bytes from the terminal that are not UTF-8 are searched unchanged.
        return text.encode("utf-8", "surrogateescape")
    try:
        return binascii.unhexlify("".join(text[len(_HEX) :].split()))
    except ValueError:
        raise UsageError(f"not hexadecimal digits after hex: {text[:60]!r}") from None
