"""Makes an input that breaks something smaller, as long as it still breaks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MAX_TRIES = 2000


def smaller(data: bytes, breaks: Callable[[bytes], bool]) -> bytes:
    """Return an input no longer than ``data`` that ``breaks`` too, with as many zeros as possible.

    Cuts pieces off the end and out of the middle, large ones first; then sets bytes to zero. Gives
    up after 2000 tries.
    """
    tries = 0
    changed = True
    while changed and tries < _MAX_TRIES:
        changed = False
        for candidate in _candidates(data):
            tries += 1
            if tries > _MAX_TRIES:
                break
            if breaks(candidate):
                data = candidate
                changed = True
                break
    return data


def _candidates(data: bytes) -> Iterator[bytes]:
    size = len(data)
    while size:
        yield data[:-size]
        for at in range(0, len(data) - size, size):
            yield data[:at] + data[at + size :]
        size //= 2
    for at in range(len(data)):
        if data[at]:
            yield data[:at] + b"\0" + data[at + 1 :]
