from __future__ import annotations

import numpy as np

from kanalyze.capture.records import Columns, corrupt
from kanalyze.model import AnomalyKind

DATA = memoryview(bytes(range(20)))


def test_a_batch_is_numbered_from_where_it_is_told():
    two = np.array([5, 6], np.int64)
    batch = Columns(two, two, two, two, two.astype(np.int32)).batch(DATA, 7)
    assert batch.number.tolist() == [7, 8]
    assert len(batch) == 2


def test_the_first_packets_are_those_up_to_a_count():
    three = np.arange(3, dtype=np.int64)
    columns = Columns(three, three, three, three, three.astype(np.int32))
    for count, expected in ((0, []), (2, [0, 1]), (9, [0, 1, 2])):
        first = columns.first(count)
        assert [getattr(first, name).tolist() for name in Columns.__slots__] == [expected] * 5


def test_a_record_that_makes_no_sense_is_an_anomaly_with_a_text():
    assert corrupt("why") == corrupt("why")
    assert (corrupt("why").kind, corrupt("why").detail) == (AnomalyKind.CAPTURE_CORRUPT, "why")
