"""Reading at many offsets at once."""

from __future__ import annotations

import numpy as np

from kanalyze.model.packet_arrays import gather, overlapping

DATA = memoryview(bytes(range(20)))
LAYOUT = np.dtype([("small", "u1"), ("large", ">u4")])


def test_an_item_begins_at_every_byte():
    items = overlapping(DATA, ">u4")
    assert len(items) == 17
    assert [hex(item) for item in items[[0, 3, 16]]] == ["0x10203", "0x3040506", "0x10111213"]


def test_a_buffer_smaller_than_an_item_has_none():
    assert len(overlapping(DATA[:3], ">u4")) == 0
    assert len(overlapping(DATA[:0], ">u4")) == 0


def test_structs_are_copied_from_any_offset():
    structs = gather(DATA, LAYOUT, np.array([15, 1]))
    assert structs["small"].tolist() == [15, 1]
    assert structs["large"].tolist() == [0x10111213, 0x02030405]
    assert len(gather(DATA[:2], LAYOUT, np.array([], np.int64))) == 0
