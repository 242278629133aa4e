from __future__ import annotations

import numpy as np

from kanalyze.net.columns import Places, gather, overlapping

DATA = memoryview(bytes(range(20)))
LAYOUT = np.dtype([("small", "u1"), ("large", ">u4")])


def test_an_item_begins_at_every_byte():
    items = overlapping(DATA, ">u4")
    assert len(items) == 17
    assert [hex(item) for item in items[[0, 3, 16]]] == ["0x10203", "0x3040506", "0x10111213"]


def test_a_buffer_smaller_than_an_item_has_none():
    assert len(overlapping(DATA[:3], ">u4")) == 0
    assert len(overlapping(DATA[:0], ">u4")) == 0


def test_structs_are_copied_from_any_place():
    structs = gather(DATA, LAYOUT, np.array([15, 1]))
    assert structs["small"].tolist() == [15, 1]
    assert structs["large"].tolist() == [0x10111213, 0x02030405]
    assert len(gather(DATA[:2], LAYOUT, np.array([], np.int64))) == 0


def test_picking_keeps_what_is_wanted_and_is_free_for_all_of_it():
    places = Places(np.array([1, 2]), np.array([3, 4]), np.array([5, 6]))
    assert places.pick(np.array([True, True])) is places
    picked = places.pick(np.array([False, True]))
    assert (picked.row.tolist(), picked.at.tolist(), picked.limit.tolist()) == ([2], [4], [6])
    assert len(picked) == 1
