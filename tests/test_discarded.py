"""TCP data that is captured but belongs to no stream that is read: the report counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kanalyze
from kanalyze.net.segment_columns import Shard
from kanalyze.render.header import header_lines
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.quality import DISCARDED
from tests.support import kafka as k
from tests.support.packets import ACK, RST, SYN, segment
from tests.support.traffic import Line, capture_of

if TYPE_CHECKING:
    from pathlib import Path


def packets_of() -> list[bytes]:
    """Connections with late data, with a sequence number out of window, and begun before."""
    packets: list[bytes] = []
    Line(packets, 51_000).open().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    late, odd, begun = [("10.0.0.1", port) for port in (51_001, 51_002, 51_003)]
    packets += [
        segment(seq=100, flags=SYN, client=late),
        segment(seq=101, payload=b"x" * 10, client=late),
        segment(to_broker=False, ack=111, flags=RST | ACK, client=late),
        segment(seq=111, payload=b"x" * 5, client=late),
        segment(seq=111, client=late),
        segment(seq=100, flags=SYN, client=odd),
        segment(seq=101, payload=b"x" * 10, client=odd),
        segment(seq=0x70000000, payload=b"x" * 7, client=odd),
        segment(seq=1000, payload=b"x" * 10, client=begun),
        segment(seq=900, payload=b"x" * 20, client=begun),
    ]
    return packets


EXPECTED = {
    "late_packets": 2,
    "late_bytes": 5,
    "out_of_window_packets": 1,
    "out_of_window_bytes": 7,
    "before_start_bytes": 20,
}
TEXTS = [
    "WARNING: 5 B sent after the end of a connection, not read",
    "WARNING: 1 packet (7 B) with a sequence number outside the window, not read",
    "WARNING: 20 B before the first byte seen of a connection, not read",
]


def discarded(quality: dict[str, Any]) -> dict[str, int]:
    return {name: quality[name] for name in DISCARDED}


def test_the_report_says_what_was_discarded(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(capture_of(packets_of()))
    for jobs in (1, 2):
        summary = kanalyze.report(str(capture), jobs=jobs)
        assert discarded(summary["quality"]) == EXPECTED
        lines = [line.plain for line in header_lines(summary)]
        assert [line for line in lines if line in TEXTS] == TEXTS


def test_shards_report_the_same_counts_together(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(capture_of(packets_of()))
    merged = None
    for index in range(3):
        analysis = Analysis([str(capture)], shard=Shard(index, 3))
        for _ in analysis.row_batches():
            pass
        if merged is None:
            merged = analysis.quality
        else:
            merged.merge(analysis.quality)
    assert merged is not None
    assert discarded(merged.to_dict()) == EXPECTED


def test_a_live_run_reports_the_same_counts(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(capture_of(packets_of()))
    analysis = Analysis([str(capture)])
    counts = [discarded(analysis.monitor.doubts()) for _ in analysis.batches()]
    assert EXPECTED in [*counts, discarded(analysis.monitor.doubts())]
    assert discarded(analysis.monitor.doubts()) == EXPECTED
