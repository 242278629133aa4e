"""Keys of a terminal.

In: the bytes a terminal sends. Out: names of keys: a character for itself, or ``tab``, ``enter``,
``up`` and so on. This module must not know where the bytes are read, nor what keys do.
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
"""What stands behind an escape (ECMA-48 and xterm)."""

_LONGEST = 16
"""No sequence of a key is longer: what is, is noise."""


class KeyReader:
    """Makes keys of bytes, however the bytes are cut."""

    __slots__ = ("_decoder", "_sequence")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sequence = ""
        # What came of a sequence that is not over, its escape first.

    def feed(self, data: bytes) -> list[str]:
        """Return the keys that are whole by now; those that have no name are left out."""
        keys: list[str] = []
        for char in self._decoder.decode(data):
            keys += self._in_sequence(char) if self._sequence else self._first(char)
        return keys

    def flush(self) -> list[str]:
        """Return what is known once nothing has come for a while: an escape alone is a key."""
        alone, self._sequence = self._sequence == _ESCAPE, ""
        return ["escape"] if alone else []

    def _first(self, char: str) -> list[str]:
        if char == _ESCAPE:
            self._sequence = char
            return []
        key = _NAMES.get(char) or (char if char.isprintable() else None)
        return [] if key is None else [key]

    def _in_sequence(self, char: str) -> list[str]:
        if char == _ESCAPE:
            alone, self._sequence = self._sequence == _ESCAPE, char
            return ["escape"] if alone else []
        if self._sequence == _ESCAPE and char not in "[O":
            # Two keys, one soon after the other.
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
