"""Records lose only their contents."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kanalyze.anonymization.records import RecordBlanker
from tests.support.anonymous import STAND_INS
from tests.support.cases import for_each
from tests.support.record_sets import (
    CODECS,
    ITEMS,
    batch_of,
    changed,
    compressed,
    messages_of,
    read,
    with_flags,
)

LARGE = [
    (at, 1_700_000_000_000 + at, b"key %d" % at, b"value %d of many " % at * 9, [("h", b"v")])
    for at in range(200)
]


def blank(field: bytes, holes: Any = ()) -> tuple[bytes, RecordBlanker]:
    blanker = RecordBlanker(STAND_INS)
    found = bytearray(len(field) + 5)
    moved = [(begin + 2, end + 2) for begin, end in holes]
    blanker.blank(b"ab" + field + b"cde", 2, 2 + len(field), found, [], moved)
    assert found[:2] + found[-3:] == bytes(5)  # nothing is written beside the field
    return bytes(found[2:-3]), blanker


def shape(field: bytes) -> Any:
    """Return everything that a reader finds in a records field, except contents."""
    batches, problems = read(field)
    return problems, [
        (
            *(batch.base_offset, batch.batch_bytes, batch.magic, batch.codec, batch.crc_ok),
            *(batch.timestamp_type, batch.record_count, batch.producer_id, batch.base_sequence),
            [
                (
                    *(record.offset, record.timestamp_ms, size(record.key), size(record.value)),
                    [(len(header.key), size(header.value)) for header in record.headers],
                    record.crc_ok,
                )
                for record in records
            ],
        )
        for batch, records in batches
    ]


def size(content: bytes | None) -> int | None:
    return None if content is None else len(content)


def contents(field: bytes) -> set[bytes]:
    found = set()
    for _, records in read(field)[0]:
        for record in records:
            found |= {record.key, record.value, *(header.value for header in record.headers)}
    return {each for each in found if each}


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
@pytest.mark.parametrize("items", [ITEMS, LARGE], ids=["few", "many"])
def test_batches_keep_everything_but_contents(codec: int, items: Any) -> None:
    field = batch_of(items, codec) + batch_of(items[:3], codec)
    found, blanker = blank(field)
    assert shape(found) == shape(field)
    assert all(set(each) == {ord("x")} for each in contents(found))
    # Where all records are a few bytes, no codec may have room for them.
    assert blanker.blanked_batches <= (0 if items is LARGE else 1)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(4), ids=CODECS[:4])
def test_message_sets_keep_everything_but_contents(magic: int, codec: int) -> None:
    items = [(at, time, key, value, []) for at, time, key, value, _ in LARGE]
    field = messages_of(magic, items, codec)
    found, blanker = blank(field)
    assert shape(found) == shape(field)
    assert all(set(each) == {ord("x")} for each in contents(found))
    assert blanker.blanked_batches == 0


def test_wrong_checksums_stay_wrong() -> None:
    for field in (batch_of(), messages_of(1)):
        broken = bytearray(field)
        broken[18] ^= 1 if field[16] == 2 else 0
        broken[13] ^= 1 if field[16] != 2 else 0
        assert shape(blank(bytes(broken))[0]) == shape(bytes(broken))


def test_the_kind_of_a_control_record_stays() -> None:
    marker = [(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\7", [])]
    field = with_flags(batch_of(marker, transactional=True), 0x20)
    assert blank(field)[0] == field
    assert b"\0\0\0\1" not in blank(batch_of(marker))[0][61:]


def test_records_that_cannot_be_read_are_blank_as_a_whole() -> None:
    secret = b"a secret that is no record" * 3
    fields = [compressed(codec, secret, count=3) for codec in range(1, 5)] + [
        changed(batch_of(ITEMS[:2]), ">i", 57, 9)
    ]
    for field in fields:
        found, blanker = blank(field)
        assert blanker.blanked_batches == 1
        assert found[61:] == bytes(len(field) - 61)
        assert found[:17] == field[:17]


@for_each("cut", [1, 5, 17, 30, 60, 61, 62, 100, 200])
def test_a_cut_batch_is_blank_after_its_header(cut: int) -> None:
    field = batch_of(LARGE[:5])
    found, _ = blank(field + field[:cut])
    assert found[: len(field)] == blank(field)[0]
    rest = found[len(field) :]
    assert rest[61:] == bytes(max(cut - 61, 0))
    assert [each.value for each in read(found)[1]] == [
        each.value for each in read(field + field[:cut])[1]
    ]


@for_each("field", [b"plain text, which is no batch at all", b"x" * 500, bytes(300), b""])
def test_bytes_that_are_not_a_batch_are_blank(field: bytes) -> None:
    assert blank(field)[0] == bytes(len(field))


def test_a_hole_leaves_the_headers_of_other_batches() -> None:
    one = batch_of(LARGE[:5])
    field = one * 3
    hole = len(one) + 100, len(one) + 150
    found, _ = blank(field[: hole[0]] + bytes(50) + field[hole[1] :], [hole])
    assert found[: len(one)] == found[2 * len(one) :] == blank(one)[0]
    middle = found[len(one) : 2 * len(one)]
    assert middle[:17] == one[:17]
    assert middle[61:] == bytes(len(one) - 61)
    lost = len(one) + 10, len(one) + 20
    assert blank(field, [lost])[0][len(one) :] == bytes(2 * len(one))


def test_corrupt_bytes_raise_nothing() -> None:
    field = batch_of(ITEMS[:4]) + messages_of(1, ITEMS[:4])
    for at, value in itertools.product(range(0, len(field), 3), (0, 0x7F, 0xFF)):
        broken = bytearray(field)
        broken[at] = value
        found, _ = blank(bytes(broken))
        assert b"no key" not in found
