"""Ranges of API versions, as message definitions and the API table write them.

In: text such as ``0-12``, ``3+``, ``4`` or ``none``. Out: :class:`VersionRange`. It imports little:
it is loaded at every start.
"""

from __future__ import annotations

from kanalyze.common.named_tuples import NamedTuple

__all__ = ["MAX_VERSION", "NONE", "VersionRange"]

MAX_VERSION = 32767
"""The largest version the wire has room for (an int16); stands for the open end of ``3+``."""


class VersionRange(NamedTuple):
    """Consecutive versions ``lowest`` to ``highest``, both included; empty when they cross.

    There is one empty range, :data:`NONE` (text ``none``): (0, -1).
    """

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read ``N``, ``N-M``, ``N+`` or ``none``; raises ValueError on anything else."""
        if text == "none":
            return NONE
        low, dash, high = text.partition("-")
        if dash:
            lowest, highest = _version(low), _version(high)
        elif text.endswith("+"):
            lowest, highest = _version(text[:-1]), MAX_VERSION
        else:
            lowest = highest = _version(text)
        if lowest > highest:
            raise ValueError(f"versions fall: {text!r}")
        return cls(lowest, highest)

    @property
    def is_empty(self) -> bool:
        """Whether no version is in the range."""
        return self.lowest > self.highest

    @property
    def is_open(self) -> bool:
        """Whether the range has no upper end (``3+``)."""
        return self.highest == MAX_VERSION

    def contains(self, version: int) -> bool:
        """Whether ``version`` is in the range."""
        return self.lowest <= version <= self.highest

    def covers(self, other: VersionRange) -> bool:
        """Whether every version of ``other`` is in this range."""
        return other.is_empty or (self.lowest <= other.lowest and other.highest <= self.highest)

    def intersect(self, other: VersionRange) -> VersionRange:
        """Return the versions that are in both ranges."""
        both = VersionRange(max(self.lowest, other.lowest), min(self.highest, other.highest))
        return NONE if both.is_empty else both

    def each(self) -> range:
        """Return the versions, rising; meant for ranges with an upper end."""
        return range(self.lowest, self.highest + 1)

    def __str__(self) -> str:
        if self.is_empty:
            return "none"
        if self.is_open:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


NONE = VersionRange(0, -1)
"""The empty range."""


def _version(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= MAX_VERSION):
        raise ValueError(f"not a version: {text!r}")
    return int(text)
