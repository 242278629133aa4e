"""Checks whether bytes begin with a request of Kafka 0.7, by the first few bytes if they suffice.

In: the first bytes of one direction. Out: a verdict. It loads the modules that do only if the bytes
may begin one; bytes of later versions hardly ever do.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kanalyze.kafka.v07.resync import Verdict

_INT16 = Struct(">h").unpack_from
LAST_TYPE = 4
"""The highest type of a request, in place of the API key of later versions."""
_TYPES_WITH_A_COUNT = (2, 3)
_HEAD_BYTES = 11
"""Size, type, number of parts, length of a topic and its first byte."""
_SPACE = 0x20


def verdict_07(view: memoryview) -> Verdict:
    """Return the verdict on a request of Kafka 0.7 at the view's first byte.

    As :meth:`~kanalyze.kafka.v07.resync.Request07Locator.verdict`, but ``no`` after fewer bytes.
    """
    if len(view) >= _HEAD_BYTES and not _may_begin(view):
        return "no"
    from kanalyze.kafka.v07.resync import Request07Locator

    return Request07Locator.verdict(view)


def _may_begin(view: memoryview) -> bool:
    """Return true for a known type, and a topic that begins with no control character.

    Requests of later versions have a version and a correlation id in place of the topic.
    """
    kind = _INT16(view, 4)[0]
    if not 0 <= kind <= LAST_TYPE:
        return False
    at = 6
    if kind in _TYPES_WITH_A_COUNT:
        if _INT16(view, at)[0] <= 0:
            return True  # no topic to check
        at += 2
    return _INT16(view, at)[0] > 0 and view[at + 2] >= _SPACE
