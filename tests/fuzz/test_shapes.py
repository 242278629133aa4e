from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import seeds
from tests.fuzz.seed_captures import captures
from tests.fuzz.shapes import BATCHES, BYTES, CAPTURE, FRAMES, TURNS, Shape

SHAPES = [BYTES, FRAMES, BATCHES, CAPTURE, TURNS]
MAGICS = [
    b"",
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\xc3\xd4",
    b"\x0a\x0d\x0d\x0a\0\0\0\x0c\x1a\x2b\x3c\x4d",
]


@pytest.mark.parametrize("shape", SHAPES)
@given(magic=st.sampled_from(MAGICS), rest=st.binary(max_size=200))
def test_parts_joined_are_the_bytes_again(shape: Shape, magic: bytes, rest: bytes) -> None:
    assert b"".join(shape.split(magic + rest)) == magic + rest


@given(first=st.sampled_from(MAGICS), part=st.binary(max_size=80))
def test_any_part_can_be_mended(first: bytes, part: bytes) -> None:
    for shape in SHAPES:
        assert len(shape.mend(first, part)) >= len(part)


def test_a_changed_frame_gets_its_length() -> None:
    assert FRAMES.mend(b"", b"\0\0\0\x09abc") == b"\0\0\0\x03abc"
    assert TURNS.mend(b"", b"\x01\0\x09abc") == b"\x01\0\x03abc"


def test_a_changed_packet_gets_its_length() -> None:
    capture = captures()[0]
    head, packet, *_ = CAPTURE.split(capture)
    longer = CAPTURE.mend(head, packet + b"more")
    assert CAPTURE.split(head + longer) == [head, longer]


def test_a_changed_block_gets_its_length() -> None:
    capture = next(found for found in captures() if found.startswith(b"\x0a\x0d\x0d\x0a"))
    head, *_, block = CAPTURE.split(capture)
    shorter = CAPTURE.mend(head, block[:-7])
    assert CAPTURE.split(head + shorter) == [head, shorter]


def test_a_changed_batch_gets_its_length_and_checksum() -> None:
    batch = next(found for found in seeds.record_sets() if found[16] == 2)
    changed = BATCHES.mend(b"", batch[:70] + b"x" + batch[71:])
    assert len(BATCHES.split(changed)[0]) == len(changed)
    assert changed[17:21] != batch[17:21]
    assert BATCHES.mend(b"", batch) == batch
