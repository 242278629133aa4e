"""How many bytes of Python objects a decoder makes of each byte of a hostile body."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.codec.compiler import Projection
from tests.fuzz.hostile import hostile_bodies
from tests.fuzz.invariant import sizes_of
from tests.fuzz.targets.common import CATALOG, DECODERS, EXTRACTORS, TABLE
from tests.fuzz.targets.messages import MAX_BYTES_A_BYTE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.kafka.schema.catalog import Kind

ELEMENTS = 2000
MAX_BYTES_A_BYTE_OF_A_ROW = 60
NEWEST = sorted(dict(TABLE).items())
KINDS: tuple[Kind, Kind] = ("request", "response")


def ratios(
    messages: Iterable[tuple[int, int]], *, everything: bool
) -> dict[tuple[str, int, str], float]:
    """Bytes of objects for each byte, by message, version and the array that is full."""
    found = {}
    for key, version in messages:
        for kind in KINDS:
            message = CATALOG.message(key, kind)
            projection = Projection.ALL if everything else EXTRACTORS.needed_fields(key, kind)
            decode = DECODERS.get(key, kind, version, projection)
            for path, body in hostile_bodies(message, version, ELEMENTS):
                values, end = decode(body, 0)
                assert end == len(body)
                found[message.name, version, path] = sizes_of(values)[1] / len(body)
    return found


def worst(found: dict[tuple[str, int, str], float]) -> tuple[float, tuple[str, int, str]]:
    return max((ratio, place) for place, ratio in found.items())


def test_arrays_of_smallest_elements_stay_within_the_limit() -> None:
    ratio, place = worst(ratios(NEWEST[::6], everything=True))
    assert 20 < ratio < MAX_BYTES_A_BYTE, place


@pytest.mark.long
def test_every_message_stays_within_the_limit() -> None:
    ratio, place = worst(ratios(TABLE, everything=True))
    assert 50 < ratio < MAX_BYTES_A_BYTE, place


@pytest.mark.long
def test_the_fields_of_rows_stay_within_a_lower_limit() -> None:
    ratio, place = worst(ratios(TABLE, everything=False))
    assert 20 < ratio < MAX_BYTES_A_BYTE_OF_A_ROW, place
