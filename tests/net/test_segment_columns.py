from __future__ import annotations

from array import array

from kanalyze.net.segment_columns import SegmentColumns


def test_there_are_as_many_segments_as_packet_numbers():
    columns = [array("q", [column, 7]) for column in range(len(SegmentColumns.__slots__) - 1)]
    segments = SegmentColumns(memoryview(b""), *columns)
    assert len(segments) == 2
