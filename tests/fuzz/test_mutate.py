from __future__ import annotations

import struct

import pytest

from tests.fuzz.mutate import Mutator
from tests.fuzz.shapes import BATCHES, BYTES, CAPTURE, FRAMES, TURNS, Shape

SEEDS = [bytes(range(200)), b"kafka" * 9, b"\0\0\0\x04abcd\0\0\0\x02ef", b""]
MAX_BYTES = 256


def inputs(seed: int, count: int = 500, shape: Shape = BYTES) -> list[bytes]:
    mutator = Mutator(SEEDS, seed=seed, most_bytes=MAX_BYTES, shape=shape)
    return [mutator.next() for _ in range(count)]


@pytest.mark.parametrize("shape", [BYTES, FRAMES, BATCHES, CAPTURE, TURNS])
def test_a_seed_gives_the_same_inputs_again(shape: Shape) -> None:
    assert inputs(1, shape=shape) == inputs(1, shape=shape)
    assert inputs(1, shape=shape) != inputs(2, shape=shape)


@pytest.mark.parametrize("shape", [BYTES, FRAMES, BATCHES, CAPTURE, TURNS])
def test_no_input_is_longer_than_it_may_be(shape: Shape) -> None:
    found = inputs(3, 5000, shape)
    assert max(map(len, found)) == MAX_BYTES
    assert min(map(len, found)) == 0


def test_few_inputs_come_twice() -> None:
    mutator = Mutator(SEEDS[:1], seed=4, most_bytes=MAX_BYTES)
    assert len({mutator.next() for _ in range(1000)}) > 900


def test_numbers_at_the_edge_of_their_type_come_up() -> None:
    found = b"".join(inputs(5, 5000))
    for number in (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        assert struct.pack(">I", number) in found
    assert b"\xff\xff\xff\xff\x0f" in found


def test_whole_frames_are_swapped_deleted_and_doubled() -> None:
    seed = b"".join(len(body).to_bytes(4, "big") + body for body in (b"one", b"three", b"fifteen"))
    mutator = Mutator([seed], seed=6, most_bytes=MAX_BYTES, shape=FRAMES)
    sound = set()
    for _ in range(2000):
        parts = FRAMES.split(mutator.next())
        bodies = [part[4:] for part in parts]
        if all(len(part) == 4 + int.from_bytes(part[:4], "big") for part in parts):
            sound.add(tuple(bodies))
    assert (b"three", b"one", b"fifteen") in sound
    assert (b"one", b"fifteen") in sound
    assert any(len(bodies) > 3 for bodies in sound)


def test_no_seeds_count_as_one_empty_seed() -> None:
    mutator = Mutator([], seed=7, most_bytes=16)
    assert any(mutator.next() for _ in range(10))
