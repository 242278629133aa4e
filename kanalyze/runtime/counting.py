"""Counts packets and captures.

In: batches of packets; captures. Out: counts in a :class:`~kanalyze.tables.quality.CaptureQuality`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.int_columns import bounds, total
from kanalyze.model.packets import NO_TIME

if TYPE_CHECKING:
    from kanalyze.model.packets import PacketBatch
    from kanalyze.runtime.stages import Captures
    from kanalyze.tables.quality import CaptureQuality


def count_packets(quality: CaptureQuality, batch: PacketBatch) -> None:
    """Count the packets of a batch that is not empty."""
    quality.packets += len(batch)
    quality.captured_bytes += total(batch.captured_bytes)
    quality.wire_bytes += total(batch.wire_bytes)
    earliest_ns, latest_ns = bounds(batch.time_ns)
    if earliest_ns == NO_TIME:
        timed = [time_ns for time_ns in batch.time_ns if time_ns != NO_TIME]
        quality.untimed_packets += len(batch) - len(timed)
        if not timed:
            return
        earliest_ns = min(timed)
    quality.count_times(earliest_ns, latest_ns)


def count_captures(quality: CaptureQuality, captures: Captures) -> None:
    """Count captures that were read to their end."""
    quality.captures.extend(captures.names)
    quality.dropped_packets = captures.dropped_packets
    if captures.description is not None:
        quality.count_description(captures.description)
    for anomaly in captures.anomalies:
        quality.count_anomaly(anomaly.kind, anomaly.length or 0)
