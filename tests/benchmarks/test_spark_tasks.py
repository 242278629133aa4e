from __future__ import annotations

import kanalyze
from benchmarks.spark_tasks import take
from tests.support.captures import FOLDER


def test_all_rows_are_found_and_few_bytes_are_sent() -> None:
    capture = FOLDER / "large.pcap"
    took = take([capture], 3)
    assert took.rows == len(list(kanalyze.requests(str(capture))))
    assert took.capture_bytes == capture.stat().st_size
    assert 0 < took.block_bytes < took.capture_bytes / 2
    assert min(took.read_s, took.rebuild_s) > 0
