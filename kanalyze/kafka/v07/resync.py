"""Finds where a request or a response of Kafka 0.7 begins in bytes that begin anywhere.

In: bytes of one direction. Out: the index of a frame's first byte.

A request is recognized by its body: it takes up the frame to the byte, its topic is a name and its
messages have the right checksums. A response has almost nothing to recognize: only sizes that lead
from one response to the next.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from kanalyze.kafka.framing.framer import LARGEST_FRAME_BYTES, FrameLocator
from kanalyze.kafka.v07.messages import (
    ERROR_NAMES_07,
    RequestType,
    fits_request,
    may_fit,
    parse_messages,
    parse_request,
)
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Verdict: TypeAlias = Literal["yes", "perhaps", "no"]

_SIZE = struct.Struct(">i").unpack_from
_CODE = struct.Struct(">h").unpack_from
_HEAD_BYTES = 8
"""Size, type, and the length of a topic or a number of parts."""
_SMALLEST_REQUEST_BYTES = 13
_MAX_UNCONFIRMED_BYTES = 64 * 1024
"""How many bytes of an incomplete request are buffered before it is accepted; and how many bytes
without a response are kept, to be searched again."""
_MAX_CANDIDATES = 4096
_MAX_TRIES = 64
"""How many candidates are read to the end: each may take up all bytes."""
_LONGEST_HEAD_BYTES = 300
_SHORTEST_TOPIC = 3
"""A shorter name may be a coincidence."""
_LARGEST_LEAD_BYTE = LARGEST_FRAME_BYTES >> 24


class Request07Locator(FrameLocator):
    """Finds requests; a :class:`~kanalyze.kafka.framing.framer.FrameLocator`."""

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        """Return (index of a request's first byte or None, index of the first byte to keep)."""
        limit = len(view) - _HEAD_BYTES + 1
        if limit <= 0:
            return None, 0
        fitting = (
            index
            for index in _candidates(view, limit)
            if may_fit(view[index : index + _LONGEST_HEAD_BYTES], _SIZE(view, index)[0])
        )
        for index in islice(fitting, _MAX_TRIES):
            verdict = self.verdict(view[index:])
            if verdict == "yes" and self._may_continue(view, index):
                return index, index
            if verdict == "perhaps":
                if len(view) - index >= _MAX_UNCONFIRMED_BYTES:
                    return index, index
                return None, index
        return None, limit

    @staticmethod
    def verdict(view: memoryview) -> Verdict:
        """Return the verdict on a request at the view's first byte; ``perhaps`` for few bytes.

        A frame of later versions is ``yes`` only by rare chance: in place of the topic it has a
        version and a correlation id, with bytes that no topic's name has.
        """
        if len(view) < _HEAD_BYTES:
            return "perhaps" if len(view) < 4 or _is_size(_SIZE(view)[0]) else "no"
        size = _SIZE(view)[0]
        if not _is_size(size):
            return "no"
        fits = fits_request(view, size)
        if fits is None:
            return "perhaps"
        return "yes" if fits else "no"

    def _may_continue(self, view: memoryview, index: int) -> bool:
        following = view[index + _SIZE(view, index)[0] + 4 :]
        return len(following) < _HEAD_BYTES or self.verdict(following) != "no"


def is_sound_request(view: memoryview) -> bool:
    """Return true if a request fits, with enough content to be no coincidence."""
    if Request07Locator.verdict(view) != "yes":
        return False
    try:
        request = parse_request(view[: _SIZE(view)[0] + 4])
    except WireError:
        return False
    return any(
        len(part.topic) >= _SHORTEST_TOPIC
        or (part.messages is not None and part.messages.whole_bytes > 0)
        for part in request.parts
    )


class Response07Locator(FrameLocator):
    """Finds responses by the chain of their sizes; a ``framing.FrameLocator``."""

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        """Return (index of a response's first byte or None, index of the first byte to keep)."""
        limit = len(view) - 6 + 1
        if limit <= 0:
            return None, 0
        # An error code is -1 to 4, and most often 0.
        possible = _may_begin(np.frombuffer(view, np.uint8), limit, max(ERROR_NAMES_07))
        fitting = (
            index
            for index in np.flatnonzero(possible)[:_MAX_CANDIDATES].tolist()
            if 2 <= _SIZE(view, index)[0] <= len(view) - index - 4
        )
        for index in islice(fitting, _MAX_TRIES):
            if self._leads_to_the_end(view, index):
                return index, index
        return None, max(0, limit - _MAX_UNCONFIRMED_BYTES)

    @staticmethod
    def _leads_to_the_end(view: memoryview, at: int) -> bool:
        """Return true if complete responses with sound messages fill the view from here on."""
        while at < len(view):
            if len(view) - at < 6:
                return False
            size, code = _SIZE(view, at)[0], _CODE(view, at + 4)[0]
            end = at + 4 + size
            if size < 2 or end > len(view) or code not in ERROR_NAMES_07:
                return False
            if not _may_be_a_body(view[at + 6 : end]):
                return False
            at = end
        return True


def _may_be_a_body(body: memoryview) -> bool:
    if not len(body):
        return True  # a fetch at the end of the log
    if len(body) >= 4 and len(body) == 4 + 8 * _SIZE(body)[0]:
        return True
    try:
        messages = parse_messages(body)
    except WireError:
        return False
    return not messages.bad_checksums and messages.whole_bytes > 0


def _may_begin(octets: NDArray[np.uint8], limit: int, most: int) -> NDArray[np.bool_]:
    """Return where below ``limit`` a size could stand, and a number from 0 to ``most`` after it."""
    possible = octets[:limit] <= _LARGEST_LEAD_BYTE
    possible &= octets[4 : limit + 4] == 0
    possible &= octets[5 : limit + 5] <= most
    return possible


def _candidates(view: memoryview, limit: int) -> list[int]:
    """Return the indices below ``limit`` where a size, a type and a length could stand."""
    octets = np.frombuffer(view, np.uint8)
    possible = _may_begin(octets, limit, max(RequestType))
    possible &= octets[6 : limit + 6] == 0
    possible &= octets[7 : limit + 7] > 0
    indices: list[int] = np.flatnonzero(possible)[:_MAX_CANDIDATES].tolist()
    return indices


def _is_size(size: int) -> bool:
    return _SMALLEST_REQUEST_BYTES <= size <= LARGEST_FRAME_BYTES
