"""Finds where a header could begin, in bytes that begin anywhere.

In: bytes, and the known APIs or the ids of pending requests. Out: indices, few enough to check
each.

An index is left out only if reading the header there would fail. Reading takes a hundred times as
long.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kanalyze.kafka.session.plausible_headers import (
    LONGEST_CLIENT_ID_BYTES,
    highest_plausible_version,
)

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.codec.machine import int16_at, int32_at

    MAX_CANDIDATES = 4096
    HEAD_BYTES = 14
    LARGEST_FRAME_BYTES = 100 * 1024 * 1024
    TOP_SIZE_BYTE = LARGEST_FRAME_BYTES >> 24
    FIRST_PRINTABLE, DELETE = 0x20, 0x7F
    PRODUCE, CONTROLLED_SHUTDOWN = 0, 7
    LAST_OLD_PRODUCE = 2
    OLD_PRODUCE_HEAD_BYTES = 26
    MIN_TOPIC_BYTES, LONGEST_TOPIC_BYTES = 6, 255
    FILTER_BITS = 4096

if TYPE_CHECKING:
    from collections.abc import Collection

    from kanalyze.kafka.schema.catalog import Catalog

__all__ = ["RequestCandidates", "responses"]

_LONGEST_CLIENT_ID_BYTES = LONGEST_CLIENT_ID_BYTES


class RequestCandidates:
    """Finds where a request's header could begin."""

    def __init__(self, catalog: Catalog) -> None:
        """Make a table of the known keys, by their bytes.

        For each low byte the highest plausible version, or -1. At most 255: only the low byte of a
        version is checked.
        """
        highest, has_high_byte = array("i", [-1] * 256), bytearray(256)
        for api in catalog.apis:
            low, version = api.key & 0xFF, min(highest_plausible_version(api), 255)
            highest[low] = max(highest[low], version)
            has_high_byte[api.key >> 8 & 0xFF] = 1
        self._highest = memoryview(highest)
        self._has_high_byte = memoryview(has_high_byte)

    def find(self, data: memoryview, limit: int) -> list[int]:
        """Return the indices below ``limit``, at most ``MAX_CANDIDATES``.

        At least the bytes of a header without a client id follow each of them.
        """
        candidates: list[int] = []
        for index in range(limit):
            if data[index] <= TOP_SIZE_BYTE and data[index + 6] == 0 and self._may_be(data, index):
                candidates.append(index)
                if len(candidates) == MAX_CANDIDATES:
                    break
        return candidates

    def _may_be(self, data: memoryview, index: int) -> bool:
        if self._has_high_byte[data[index + 4]] == 0:
            return False
        if data[index + 7] > self._highest[data[index + 5]]:
            return False
        size = int32_at(data, index)
        if size < 8 or size > LARGEST_FRAME_BYTES:
            return False
        return _may_have_client_id(data, index, size) and _may_be_old_produce(data, index, size)


def _may_have_client_id(data: memoryview, index: int, size: int) -> bool:
    """Return true if a header's client id is null or plausible."""
    length = int16_at(data, index + 12)
    if length == -1:
        return True
    # The first version of one API has no client id.
    if data[index + 5] == CONTROLLED_SHUTDOWN and data[index + 7] == 0:
        return True
    room = min(size + 4, len(data) - index) - HEAD_BYTES
    if length < 0 or length > room or length > _LONGEST_CLIENT_ID_BYTES:
        return False
    if length == 0:
        return True
    first = data[min(index + HEAD_BYTES, len(data) - 1)]
    return first >= FIRST_PRINTABLE and first != DELETE


def _may_be_old_produce(data: memoryview, index: int, size: int) -> bool:
    """Return true if a candidate that looks like an early Produce request may be one.

    API key, version and the length of an empty client id are all 0 there, as many other bytes are:
    nearly all false candidates in other data look like these.
    """
    if data[index + 5] != PRODUCE or data[index + 7] > LAST_OLD_PRODUCE:
        return True
    # A null client id has no bytes, and a length of -1.
    if index + OLD_PRODUCE_HEAD_BYTES > len(data) or int16_at(data, index + 12) > 0:
        return True
    body = index + HEAD_BYTES
    acks_high = data[body]
    if acks_high not in (0, 0xFF) or data[body + 2] >= 0x80:  # the second is of the timeout
        return False
    count, name_length = int32_at(data, body + 6), int16_at(data, body + 10)
    if count < 1 or count > size // MIN_TOPIC_BYTES:
        return False
    return 1 <= name_length <= LONGEST_TOPIC_BYTES


def responses(data: memoryview, limit: int, pending: Collection[int]) -> list[int]:
    """Return the indices below ``limit`` where a response to a pending request may begin.

    ``pending`` has their ids. At least 8 bytes follow each index.
    """
    # A small table rules out most bytes before the lookup.
    table = bytearray(FILTER_BITS)
    for number in pending:
        table[number & (FILTER_BITS - 1)] = 1
    return _responses(data, limit, pending, table)


def _responses(
    data: memoryview, limit: int, pending: Collection[int], table: bytearray | memoryview
) -> list[int]:
    candidates: list[int] = []
    for index in range(limit):
        if data[index] > TOP_SIZE_BYTE:
            continue
        number = int32_at(data, index + 4)
        if table[number & (FILTER_BITS - 1)] == 0 or number not in pending:
            continue
        size = int32_at(data, index)
        if 4 <= size <= LARGEST_FRAME_BYTES:
            candidates.append(index)
            if len(candidates) == MAX_CANDIDATES:
                break
    return candidates
