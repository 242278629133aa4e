"""One pass over captures: runs the stages, and counts.

In: captures, stages. Out: :class:`BatchEvents`, then a
:class:`~kanalyze.tables.quality.CaptureQuality`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.int_columns import bounds, total
from kanalyze.model.anomalies import NET_ANOMALIES
from kanalyze.model.packets import NO_TIME, PacketBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.net.shard import Shard
    from kanalyze.runtime.stages import BatchEvents, Captures, Stages
    from kanalyze.tables.quality import CaptureQuality

__all__ = ["close_connections", "count_packets", "read_steps"]


def read_steps(
    stages: Stages,
    captures: Captures,
    quality: CaptureQuality,
    shard: Shard,
    *,
    ends: bool = True,
) -> Iterator[BatchEvents]:
    """Read captures to their end; yield the events of each batch of packets, and of the end.

    Then ``quality`` is complete. Without ``ends``, connections stay open and are not counted yet.
    Packets and anomalies without a connection are counted with the first shard. Raises CaptureError
    as :meth:`~kanalyze.capture.merge.MergedCaptures.batches` does.
    """
    for batch, events in stages.run(captures, ends=ends):
        if isinstance(batch, PacketBatch) and shard.is_first and len(batch):
            count_packets(quality, batch)
        _count_events(quality, events)
        yield events
    if shard.is_first:
        _count_captures(quality, captures)
    _count_stages(quality, stages)


def close_connections(stages: Stages, quality: CaptureQuality) -> BatchEvents:
    """Close all open connections; add the counts of connections to ``quality``."""
    stages.reset_counts()
    events = stages.finish()
    _count_events(quality, events)
    _count_stages(quality, stages)
    return events


def _count_events(quality: CaptureQuality, events: BatchEvents) -> None:
    for tcp in events.closed_connections:
        quality.count_connection(tcp)
    for anomaly in events.anomalies:
        # The net stage counts the anomalies of packets and TCP.
        if anomaly.kind not in NET_ANOMALIES:
            quality.count_anomaly(anomaly.kind, anomaly.length or 0)


def _count_stages(quality: CaptureQuality, stages: Stages) -> None:
    quality.count_stages(stages.net, stages.counts)
    quality.count_tls(stages.tls.outcomes(stages.counts.tls))


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


def _count_captures(quality: CaptureQuality, captures: Captures) -> None:
    quality.captures.extend(captures.names)
    quality.dropped_packets = captures.dropped_packets
    if captures.description is not None:
        quality.count_description(captures.description)
    for anomaly in captures.anomalies:
        quality.count_anomaly(anomaly.kind, anomaly.length or 0)
