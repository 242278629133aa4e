"""What a lost record of TLS 1.3 held is its length less the overhead and the padding, if that is
the same for all records; otherwise it is not known."""

from __future__ import annotations

import random

import pytest

from kanalyze.model.streams import Gap
from kanalyze.tls.direction import UNKNOWN_GAP_BYTES
from tests.support import tls_made as made
from tests.support.tls_talk import Sent, items_of, log_with, read_items

HANDSHAKE = 6
"""Records of both ends before their data."""
SIZES = (40, 40, 40, 300, 40, 7, 2000, 40, 40, 900)
"""Several records of one size come first."""
ALWAYS = {"none": 0, "one": 1, "java": 16, "much": 255}
VARYING: dict[str, made.Padding] = {
    "some": made.some_padding,
    "block of 64": lambda _number, size: -(size + 1) % 64,
    "block of 512": lambda _number, size: -(size + 1) % 512,
    "equal size": lambda _number, size: max(0, 2048 - size),
    "random": lambda number, _size: random.Random(number).randrange(100),
}


def conversation(padding: made.Padding) -> list[Sent]:
    contents = [(side, bytes(size)) for size in SIZES for side in (0, 1)]
    return [
        Sent(*part) for part in made.conversation(made.SUITE_13, contents, padding=padding).parts
    ]


def numbered() -> list[tuple[int, int]]:
    """The records of data but the first and last of each end: the number and size of each."""
    return [
        (HANDSHAKE + 2 * index + side, SIZES[index])
        for index in range(1, len(SIZES) - 1)
        for side in (0, 1)
    ]


def gaps_without(parts: list[Sent], lost: int, first: int = 0) -> list[Gap]:
    """The gaps in the plaintext of whoever sent a lost record; the capture begins at ``first``."""
    items = items_of(parts, 1 << 15)
    side, item = items[lost]
    items[lost] = (side, Gap(item.stream_offset, len(parts[lost].data), 1, lost + 1))
    read = read_items(items[first:], log_with(made.KEYS), from_start=(not first, not first))
    assert read.plaintext(1 - side) == b"".join(bytes(size) for size in SIZES), (
        "the other direction is whole"
    )
    return read.gaps(side)


@pytest.mark.parametrize("first", [0, HANDSHAKE])
@pytest.mark.parametrize("name", ALWAYS)
def test_the_length_of_what_is_lost_leaves_out_padding_that_is_always_the_same(
    name: str, first: int
) -> None:
    """It is known with the second size of a content, of which the handshake has one."""
    padding = ALWAYS[name]
    parts = conversation(lambda _number, _size: padding)
    for number, size in numbered():
        (gap,) = gaps_without(parts, number, first)
        is_known = not padding or not first or (number - HANDSHAKE) // 2 > SIZES.index(300)
        assert gap.length in (size, UNKNOWN_GAP_BYTES)
        assert (gap.length == size) >= is_known


@pytest.mark.parametrize("first", [0, HANDSHAKE])
@pytest.mark.parametrize("name", VARYING)
def test_the_length_of_what_is_lost_is_not_known_where_padding_varies(
    name: str, first: int
) -> None:
    parts = conversation(VARYING[name])
    for number, size in numbered():
        (gap,) = gaps_without(parts, number, first)
        assert gap.length in (size, UNKNOWN_GAP_BYTES)
