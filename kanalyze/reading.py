"""One pass over captures: the stages are run, and what was seen is counted.

In: captures, stages. Out: steps, then a :class:`~kanalyze.analysis.quality.CaptureQuality`. This
module must not know rows, nor whether others read the same captures at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.model import NET_ANOMALIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.analysis.quality import CaptureQuality
    from kanalyze.capture.merge import MergedCaptures
    from kanalyze.model import PacketBatch
    from kanalyze.net.share import Share
    from kanalyze.stages import Stages, Step

__all__ = ["read_steps"]


def read_steps(
    stages: Stages, captures: MergedCaptures, quality: CaptureQuality, share: Share
) -> Iterator[Step]:
    """Read captures to their end; give what each batch of packets brought, and the end itself.

    ``quality`` is complete then. What belongs to no connection is counted with the first share.
    Raises CaptureError as :meth:`~kanalyze.capture.merge.MergedCaptures.batches` does.
    """
    for batch, step in stages.run(captures):
        if batch is not None and share.is_first:
            _count_packets(quality, batch)
        for tcp in step.closed:
            quality.count_connection(tcp)
        for anomaly in step.anomalies:
            # Of those of packets and TCP the stage itself keeps count.
            if anomaly.kind not in NET_ANOMALIES:
                quality.count_anomaly(anomaly.kind, anomaly.length or 0)
        yield step
    if share.is_first:
        _count_captures(quality, captures)
    quality.count_stages(stages.net, stages.counts)


def _count_packets(quality: CaptureQuality, batch: PacketBatch) -> None:
    quality.packets += len(batch)
    quality.captured_bytes += int(batch.captured_bytes.sum())
    quality.wire_bytes += int(batch.wire_bytes.sum())
    quality.count_times(int(batch.time_ns.min()), int(batch.time_ns.max()))


def _count_captures(quality: CaptureQuality, captures: MergedCaptures) -> None:
    quality.captures.extend(captures.names)
    quality.dropped_packets = captures.dropped_packets
    for anomaly in captures.anomalies:
        quality.count_anomaly(anomaly.kind, anomaly.length or 0)
