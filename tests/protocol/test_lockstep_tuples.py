"""Columns back to what the decoder of single messages gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kanalyze.analysis.extract import Extractors
from kanalyze.protocol.catalog import Catalog
from kanalyze.protocol.compiler import compile_decoder
from kanalyze.protocol.language import ZERO_UUID
from kanalyze.protocol.lockstep import LockstepDecoder
from kanalyze.protocol.lockstep_columns import (
    NO_CODEC,
    PLAIN,
    Elements,
    Fields,
    Ids,
    Numbers,
    RecordSets,
    Texts,
    taken,
)
from kanalyze.protocol.lockstep_tuples import RecordFacts, texts_of, tuples_of
from tests.support.columnar import in_short
from tests.support.vectors import definition_of, read_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.protocol.language import Message

CATALOG = Catalog()
PRODUCE, FETCH = 0, 1
DATA = np.frombuffer(b"--ab\xff" + bytes(range(16)), np.uint8)


def column(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


@pytest.fixture(scope="module")
def bodies() -> dict[tuple[int, str, int], list[bytes]]:
    """Bodies of Produce and Fetch that Kafka's own serializer wrote, by kind and version."""
    found: dict[tuple[int, str, int], list[bytes]] = {}
    for vector in read_vectors():
        if vector.api_key in (PRODUCE, FETCH):
            assert vector.api_key is not None
            key = (vector.api_key, definition_of(vector, CATALOG).kind, vector.version)
            found.setdefault(key, []).append(vector.content)
    return found


def message_of(api_key: int, kind: str) -> Message:
    return CATALOG.message(api_key, "request" if kind == "request" else "response")


def test_kafkas_own_messages_give_what_the_single_decoder_gives(
    bodies: dict[tuple[int, str, int], list[bytes]],
) -> None:
    tried = 0
    for (api_key, kind, version), contents in bodies.items():
        message, wanted = message_of(api_key, kind), Extractors(CATALOG).wanted(api_key, kind)
        data = np.frombuffer(b"".join(contents) + bytes(8), np.uint8)
        end = np.cumsum([len(content) for content in contents])
        begin = np.concatenate([[0], end[:-1]])
        fields, sound = LockstepDecoder(message, version, wanted)(data, begin, end)
        kept = np.flatnonzero(sound)
        found = tuples_of(taken(fields, kept), data)
        decode = compile_decoder(message, version, wanted)
        single = [decode(contents[index], 0, 0, None)[0] for index in kept.tolist()]
        assert found == in_short(single), (message.name, version)
        tried += len(kept)
    assert tried > 300


def test_texts_that_are_no_utf8_are_escaped_and_null_is_none() -> None:
    assert texts_of(DATA, column(2, 2, 0, 4), column(2, 3, -1, 0)) == ["ab", "ab\\xff", None, ""]


def test_numbers_texts_and_ids_stand_in_the_order_of_the_columns() -> None:
    fields: Fields = {
        "B": Numbers(column(1, 2)),
        "A": Texts(column(2, 0), column(2, -1)),
        "Id": Ids(column(5, -1)),
    }
    assert tuples_of(fields, DATA) == [(1, "ab", bytes(range(16))), (2, None, ZERO_UUID)]


def test_records_are_null_or_say_what_there_is() -> None:
    records = RecordSets(
        np.array([True, False, False]),
        column(0, 0, 3),
        column(0, 0, 90),
        column(0, 0, 7),
        column(NO_CODEC, NO_CODEC, 4),
    )
    assert tuples_of({"Records": records}, DATA) == [
        (None,),
        (RecordFacts(0, 0, None, None),),
        (RecordFacts(90, 3, 7, "zstd"),),
    ]


def test_arrays_are_lists_of_tuples_or_null() -> None:
    items = Elements(column(0, 0, 3), column(2, -1, 0, 1), {"X": Numbers(column(1, 2, 3))})
    assert tuples_of({"Items": items}, DATA) == [([(1,), (2,)],), (None,), ([],), ([(3,)],)]


def test_arrays_of_plain_values_are_lists_of_these() -> None:
    items = Elements(column(0, 2), column(1, 0, 1), {PLAIN: Texts(column(2, 0), column(2, -1))})
    assert tuples_of({"Items": items}, DATA) == [(["ab"],), ([],), ([None],)]


def test_arrays_in_arrays() -> None:
    inner = Elements(column(0, 0, 1), column(2, 1), {"X": Numbers(column(1, 2, 3))})
    outer = Elements(column(0, 2), column(1, 0, 1), {"Inner": inner})
    assert tuples_of({"Outer": outer}, DATA) == [
        ([([(1,), (2,)],)],),
        ([],),
        ([([(3,)],)],),
    ]
