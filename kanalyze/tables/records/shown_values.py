"""Keys, values and headers of records as text.

In: records. Out: cells.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kanalyze.spec.rows.records import HeaderItem

if TYPE_CHECKING:
    from kanalyze.kafka.records.types import Record

__all__ = ["ShownValues", "ValuesAs"]

ValuesAs: TypeAlias = Literal["base64", "escaped"]
"""How bytes that are not text are written."""
_Cells: TypeAlias = tuple[Any, ...]
_LINES = str.maketrans("", "", "\t\n\r")


class ShownValues:
    """Formats keys, values and headers as text."""

    def __init__(self, values_as: ValuesAs, longest: int | None) -> None:
        self._bytes_as = values_as
        self._longest = longest

    def __call__(self, record: Record) -> _Cells:
        """Return the cells from ``key`` to ``headers``."""
        headers = [
            HeaderItem(str(key, "utf-8", "backslashreplace"), *self._text(value))
            for key, value in record.headers
        ]
        return (*self._text(record.key), *self._text(record.value), headers)

    def _text(self, data: bytes | None) -> tuple[str | None, str | None]:
        """Return bytes as text, and the encoding: ``text``, ``base64`` or ``escaped``."""
        if data is None:
            return None, None
        if self._longest is not None and len(data) > self._longest:
            data = _cut(data, self._longest)
        text = _as_text(data)
        if text is not None:
            return text, "text"
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
