"""What a record says, as text: keys, values and headers, and where bytes are found in them.

In: records; the bytes that a user searches. Out: cells.
"""

from __future__ import annotations

import binascii
from binascii import b2a_base64
from typing import TYPE_CHECKING, Literal, TypeAlias

from kanalyze.common.argument_values import parsed, shown
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from kanalyze.kafka.records.types import Record

ValuesAs: TypeAlias = Literal["base64", "escaped"]
"""How bytes that are not text are written."""
AS_TEXT = "text"
"""The encoding of text that is written unchanged."""
_LINES = str.maketrans("", "", "\t\n\r")


class ShownValues:
    """Formats keys, values and headers as text."""

    def __init__(self, values_as: ValuesAs, longest: int | None) -> None:
        """Write bytes that are not text as ``values_as``; cut all after ``longest`` bytes."""
        self._bytes_as = values_as
        self.longest = longest

    def text(self, data: bytes) -> tuple[str, str]:
        """Return bytes as text, and the encoding: ``text``, ``base64`` or ``escaped``."""
        if self.longest is not None and len(data) > self.longest:
            data = _cut(data, self.longest)
        text = _as_text(data)
        if text is not None:
            return text, AS_TEXT
        return self.no_text(data)

    def no_text(self, data: bytes) -> tuple[str, str]:
        """Return bytes that are no text, and of which nothing is cut, in the way of all such."""
        if self._bytes_as == "escaped":
            return _escaped(data), "escaped"
        return b2a_base64(data, newline=False).decode("ascii"), "base64"


def _cut(data: bytes, length: int) -> bytes:
    """Return at most the first ``length`` bytes, without an incomplete UTF-8 character."""
    end = length
    while end > length - 3 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def _as_text(data: bytes) -> str | None:
    """Return bytes as text if they are printable UTF-8 (tabs and line ends allowed); else None."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if text.isprintable() or text.translate(_LINES).isprintable():
        return text
    return None


def _escaped(data: bytes) -> str:
    r"""Return printable ASCII unchanged, and a backslash and all other bytes as ``\xNN``."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}" for byte in data
    )


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
