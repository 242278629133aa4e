"""Segment blocks: packed segments are unpacked unchanged, and damaged blocks are errors."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.batch.archive.packed_segments import (
    FILLER,
    BlockError,
    Holes,
    as_arrays,
    concat_pruned,
    no_holes,
    pack,
    prune,
    unpack,
)
from kanalyze.capture.merge import MergedCaptures
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.segment_columns import COLUMN_NAMES, SegmentColumns
from tests.support.captures import CHOSEN, NAMES, often, path
from tests.support.packets import make_batch, segment, timed

if TYPE_CHECKING:
    from kanalyze.batch.archive.packed_segments import UnpackedBlock

STEADY = settings(deadline=None, max_examples=60)
COLUMNS = [name for name in COLUMN_NAMES if name != "payload_start"]
NUMBERS = st.integers(0, 2**32 - 1)


def payloads(segments: SegmentColumns) -> list[bytes]:
    places = zip(segments.payload_start.tolist(), segments.captured_bytes.tolist(), strict=True)
    return [bytes(segments.buffer[start : start + length]) for start, length in places]


def assert_same(found: UnpackedBlock, segments: SegmentColumns) -> None:
    for name in COLUMNS:
        actual, original = getattr(found.segments, name), getattr(segments, name)
        assert actual.tolist() == original.tolist(), name
        assert actual.dtype == original.dtype, name


def segments_of(*packets: bytes) -> SegmentColumns:
    return as_arrays(read_headers(make_batch(timed(packets)), LayerStats()))


@pytest.mark.parametrize("name", often(NAMES, CHOSEN))
def test_the_segments_of_a_capture_are_unpacked_unchanged(name: str) -> None:
    notes = LayerStats()
    with MergedCaptures([str(path(name))]) as captures:
        for batch in captures.batches():
            segments = as_arrays(read_headers(batch, notes))
            key_ns = segments.time_ns - 5
            found = unpack(pack(prune(segments, key_ns, no_holes())))
            assert_same(found, segments)
            assert payloads(found.segments) == payloads(segments)
            assert found.key_ns.tolist() == key_ns.tolist()


@STEADY
@given(
    st.lists(
        st.tuples(
            st.booleans(),
            NUMBERS,
            NUMBERS,
            st.integers(0, 255),
            st.binary(max_size=40),
            st.sampled_from([("10.0.0.1", 5000), ("10.0.0.3", 5001), ("2001:db8::5", 9)]),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_segments_with_any_values_are_unpacked_unchanged(
    values: list[tuple[bool, int, int, int, bytes, tuple[str, int]]],
) -> None:
    segments = segments_of(
        *(
            segment(
                to_broker=to_broker,
                seq=seq,
                ack=ack,
                flags=flags,
                payload=payload,
                client=client,
                broker=("2001:db8::9" if ":" in client[0] else "10.0.0.2", 9092),
            )
            for to_broker, seq, ack, flags, payload, client in values
        )
    )
    found = unpack(pack(prune(segments, segments.time_ns, no_holes())))
    assert_same(found, segments)
    assert payloads(found.segments) == payloads(segments)


def test_pruned_payload_is_unpacked_as_filler() -> None:
    segments = segments_of(
        segment(payload=b"0123456789"),
        segment(to_broker=False, payload=b"abcdefghij"),
        segment(seq=10, payload=b"ABCDEFGHIJ"),
    )
    holes = Holes(np.array([0, 0, 2]), np.array([2, 7, 0]), np.array([3, 1, 10]))

    data = pack(prune(segments, segments.time_ns, holes))
    found = unpack(data)

    filler = bytes((FILLER,))
    assert payloads(found.segments) == [
        b"01" + 3 * filler + b"56" + filler + b"89",
        b"abcdefghij",
        10 * filler,
    ]
    assert_same(found, segments)


@STEADY
@given(st.randoms(use_true_random=False))
def test_holes_anywhere_are_filled(dice: random.Random) -> None:
    segments = segments_of(
        *(
            segment(to_broker=dice.random() < 0.5, seq=99 * index, payload=dice.randbytes(50))
            for index in range(dice.randint(1, 12))
        )
    )
    before = payloads(segments)
    expected = [bytearray(payload) for payload in before]
    rows, starts, lengths = [], [], []
    for row in range(len(before)):
        at = 0
        while (at := at + dice.randint(0, 30)) < 50 and dice.random() < 0.7:
            length = dice.randint(1, 50 - at)
            expected[row][at : at + length] = bytes((FILLER,)) * length
            rows.append(row)
            starts.append(at)
            lengths.append(length)
            at += length
    columns = [np.array(column, np.int64) for column in (rows, starts, lengths)]

    found = unpack(pack(prune(segments, segments.time_ns, Holes(*columns))))

    assert payloads(found.segments) == expected


def test_pruned_segments_are_concatenated() -> None:
    first = segments_of(segment(payload=b"0123456789"), segment(seq=10, payload=b"abc"))
    second = segments_of(segment(seq=13, payload=b"DEFGH"))
    second.number += 2
    holes = Holes(np.array([0]), np.array([1]), np.array([2]))
    parts = [
        prune(first, first.time_ns, Holes(np.array([0]), np.array([3]), np.array([4]))),
        prune(second, second.time_ns, holes),
    ]
    found = unpack(pack(concat_pruned(parts)))
    filler = bytes((FILLER,))
    assert payloads(found.segments) == [
        b"012" + 4 * filler + b"789",
        b"abc",
        b"D" + 2 * filler + b"GH",
    ]
    assert found.segments.number.tolist() == [1, 2, 3]
    only = parts[0].select_rows(np.array([1]))
    assert payloads(unpack(pack(only)).segments) == [b"abc"]


def test_holes_are_selected_by_segment() -> None:
    holes = Holes(np.array([1, 3, 3, 8]), np.array([0, 1, 5, 2]), np.array([9, 2, 2, 4]))
    some = holes.of(np.array([0, 3, 8]))
    assert [column.tolist() for column in some] == [[1, 1, 2], [1, 5, 2], [2, 2, 4]]
    assert holes.of(np.array([2, 9])).row.tolist() == []


def test_the_filler_is_neither_a_size_nor_the_end_of_a_varint() -> None:
    filler = bytes((FILLER,)) * 8
    for size in (2, 4, 8):
        assert int.from_bytes(filler[:size], "big", signed=True) < -1
    assert FILLER & 0x80, "the highest bit says that a varint continues"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"KSB2",
        b"KSB1" + bytes(40),
        b"KSB2" + bytes(20),
        b"KSB2" + b"\xff" * 40,
        b"KSB2" + (1).to_bytes(4, "little") * 2 + bytes(12) + b"no zstd",
    ],
)
def test_bytes_that_are_no_block_are_an_error(data: bytes) -> None:
    with pytest.raises(BlockError):
        unpack(data)


def test_a_damaged_block_is_an_error_or_gives_other_numbers() -> None:
    """zstd has no checksum here, so a flipped bit may change numbers, but do no other harm."""
    segments = segments_of(*(segment(seq=9 * index, payload=b"x" * 9) for index in range(20)))
    data = pack(prune(segments, segments.time_ns, no_holes()))
    dice = random.Random(7)
    for _ in range(400):
        damaged = bytearray(data)
        damaged[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        try:
            found = unpack(bytes(damaged))
        except BlockError:
            continue
        assert sum(map(len, payloads(found.segments))) <= len(found.segments.buffer)
