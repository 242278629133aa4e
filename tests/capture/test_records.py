from __future__ import annotations

import numpy as np

from kanalyze.capture.records import Columns, corrupt, gather, overlapping
from kanalyze.model import AnomalyKind

DATA = memoryview(bytes(range(20)))


def test_an_item_begins_at_every_byte():
    items = overlapping(DATA, "<u4")
    assert len(items) == 17
    assert [hex(item) for item in items[[0, 16]]] == ["0x3020100", "0x13121110"]
    assert len(overlapping(DATA[:3], "<u4")) == 0


def test_structs_are_copied_from_any_place():
    layout = np.dtype([("small", "u1"), ("large", ">u4")])
    structs = gather(DATA, layout, np.array([15, 1]))
    assert structs["large"].tolist() == [0x10111213, 0x02030405]
    assert len(gather(DATA[:2], layout, np.array([], np.int64))) == 0


def test_a_batch_is_numbered_from_where_it_is_told():
    two = np.array([5, 6], np.int64)
    batch = Columns(two, two, two, two, two.astype(np.int32)).batch(DATA, 7)
    assert batch.number.tolist() == [7, 8]
    assert len(batch) == 2


def test_a_record_that_makes_no_sense_is_an_anomaly_with_a_text():
    assert corrupt("why") == corrupt("why")
    assert (corrupt("why").kind, corrupt("why").detail) == (AnomalyKind.CAPTURE_CORRUPT, "why")
