from __future__ import annotations

from array import array

from kanalyze.capture.formats.parser import Columns, corrupt
from kanalyze.model.anomalies import AnomalyKind

DATA = memoryview(bytes(range(20)))


def test_a_batch_is_numbered_from_the_given_number():
    two = array("q", [5, 6])
    batch = Columns(two, two, two, two, array("i", two)).batch(DATA, 7)
    assert batch.number.tolist() == [7, 8]
    assert len(batch) == 2


def test_the_first_packets_are_those_up_to_a_count():
    three = array("q", range(3))
    columns = Columns(three, three, three, three, array("i", three))
    for count, expected in ((0, []), (2, [0, 1]), (9, [0, 1, 2])):
        first = columns.first(count)
        assert [getattr(first, name).tolist() for name in Columns.__slots__] == [expected] * 5


def test_a_corrupt_record_is_an_anomaly_with_a_text():
    assert corrupt("why") == corrupt("why")
    assert (corrupt("why").kind, corrupt("why").detail) == (AnomalyKind.CAPTURE_CORRUPT, "why")
