"""Decodes the keys of a terminal.

In: the bytes that a terminal sends. Out: names of keys: the character itself, or ``tab``,
``enter``, ``up`` and so on.
"""

from __future__ import annotations

import codecs

__all__ = ["KeyReader"]

_ESCAPE = "\x1b"
_NAMES = {
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "ctrl-c",
    "\x15": "ctrl-u",
}
_SEQUENCES = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "[H": "home",
    "[F": "end",
    "[Z": "shift-tab",
    "[1~": "home",
    "[4~": "end",
    "[5~": "pageup",
    "[6~": "pagedown",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "OH": "home",
    "OF": "end",
}
"""Keys by what follows the escape character (ECMA-48 and xterm)."""

_LONGEST = 16
"""Maximum length of the escape sequence of a key."""


class KeyReader:
    """Decodes keys from pieces of bytes, which may end within a key."""

    __slots__ = ("_decoder", "_sequence")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sequence = ""
        """The beginning of an incomplete sequence, with its escape character."""

    def feed(self, data: bytes) -> list[str]:
        """Return the complete keys; unknown ones are left out."""
        keys: list[str] = []
        for char in self._decoder.decode(data):
            keys += self._in_sequence(char) if self._sequence else self._first(char)
        return keys

    def flush(self) -> list[str]:
        """Return the escape key if its byte came alone; call this when no more bytes come."""
        is_escape_key, self._sequence = self._sequence == _ESCAPE, ""
        return ["escape"] if is_escape_key else []

    def _first(self, char: str) -> list[str]:
        if char == _ESCAPE:
            self._sequence = char
            return []
        key = _NAMES.get(char) or (char if char.isprintable() else None)
        return [] if key is None else [key]

    def _in_sequence(self, char: str) -> list[str]:
        if char == _ESCAPE:
            is_escape_key, self._sequence = self._sequence == _ESCAPE, char
            return ["escape"] if is_escape_key else []
        if self._sequence == _ESCAPE and char not in "[O":
            # The escape key, and another one soon after.
            self._sequence = ""
            return ["escape", *self._first(char)]
        self._sequence += char
        body = self._sequence[1:]
        if len(body) == 1:
            return []
        if not "@" <= char <= "~" and len(body) < _LONGEST:
            return []
        self._sequence = ""
        key = _SEQUENCES.get(body)
        return [] if key is None else [key]
