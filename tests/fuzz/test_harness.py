"""What makes hostile inputs, and what judges the results, does what it says."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.capture.reader import open_capture
from kanalyze.kafka.records.compression import decompress
from kanalyze.model.streams import Chunk, Gap
from kanalyze.net.tcp.reassembly import Reassembler
from tests.fuzz import seeds
from tests.fuzz.invariant import sizes_of
from tests.fuzz.mutate import Mutator
from tests.fuzz.reduce import smaller
from tests.fuzz.seed_captures import captures
from tests.fuzz.shapes import BATCHES, BYTES, CAPTURE, FRAMES, TURNS, Shape
from tests.fuzz.targets.common import TABLE
from tests.fuzz.turns import LOST, SNAP, items_of, turns_in, turns_of

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


CUTS = b"\x01\x02\x00\x01"


def test_written_turns_are_read_again() -> None:
    data = turns_of([(0, b"ask"), (1, b"answer"), (LOST, b"gone"), (SNAP | 1, b"cut")], CUTS)
    found = [(turn.side, turn.data, turn.is_lost, turn.is_snapped) for turn in turns_in(data)]
    assert found == [
        (0, b"ask", False, False),
        (1, b"answer", False, False),
        (0, b"gone", True, False),
        (1, b"cut", False, True),
    ]


def test_items_tile_each_direction() -> None:
    data = turns_of([(0, b"a" * 50), (LOST, b"b" * 7), (0, b"c" * 5), (1, b"d" * 9)], CUTS)
    items = items_of(turns_in(data), CUTS)
    assert [(side, item.stream_offset) for side, item in items] == [
        (0, 0),
        (0, 50),
        (0, 57),
        (1, 0),
    ]
    first, gap, *_ = [item for _, item in items]
    assert isinstance(first, Chunk)
    assert sum(first.segments.length) == 50
    assert set(first.segments.length[:-1]) <= {8, 16}
    assert isinstance(gap, Gap)
    assert gap.length == 7


def test_sizes_are_those_of_getsizeof() -> None:
    many = [{"a": "x" * 1000}, (b"y" * 500, 7_000)]
    first, second = many
    parts = [many, first, "x" * 1000, second, b"y" * 500, 7_000]
    assert sizes_of(many)[1] == sum(map(sys.getsizeof, parts))


def test_shared_objects_take_no_bytes() -> None:
    shared = ("", b"", (), 0, 7, None, True)
    assert sizes_of(shared) == (6, sys.getsizeof(shared))


def test_bytes_that_do_not_matter_are_cut_away() -> None:
    data = bytes(range(1, 200)) + b"BUG" + bytes(range(1, 100))
    assert smaller(data, lambda found: b"BUG" in found) == b"BUG"


def test_there_is_a_body_of_every_message_in_every_version() -> None:
    found = {(body.api_key, body.version, body.kind) for body in seeds.bodies()}
    expected = {(*pair, kind) for pair in TABLE for kind in ("request", "response")}
    # A few old versions are neither in the vectors nor in the captures.
    assert len(expected - found) < len(expected) // 20


def test_records_are_of_every_format_and_codec() -> None:
    looks = {
        (found[16], (found[22] if found[16] == 2 else found[17]) & 7)
        for found in seeds.record_sets()
    }
    assert looks >= {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), *((2, n) for n in range(5))}


def test_compressed_seeds_can_be_decompressed() -> None:
    assert {found[0] for found in seeds.compressed()} == {1, 2, 3, 4}
    for found in seeds.compressed():
        assert decompress(found[0], found[1:], 1 << 20).problem is None


def test_captures_are_short_and_of_every_format() -> None:
    found = captures()
    assert max(map(len, found)) <= 17_000
    # Times in microseconds and in nanoseconds, blocks, and data of five codecs.
    starts = {data[:2] for data in found}
    plain = {b"\xd4\xc3", b"\x4d\x3c", b"\x0a\x0d"}
    assert starts == plain | {b"\x1f\x8b", b"\x28\xb5", b"\x04\x22", b"BZ", b"\xfd7"}


@pytest.mark.parametrize("first", range(0, 7 * 7, 7))
def test_seed_captures_are_read_without_anomalies(first: int) -> None:
    for data in captures()[first :: 7 * 7]:
        reassembler = Reassembler()
        with open_capture(io.BytesIO(data)) as reader:
            for batch in reader.batches():
                reassembler.feed(batch)
        assert reader.packets >= 1
        assert [anomaly for anomaly in reader.anomalies if reader.packets < 20] == []
        assert reassembler.counters.tcp_segments > 0
