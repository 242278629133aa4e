"""One pass over captures: the stages are run, and what was seen is counted.

In: captures, stages. Out: steps, then a :class:`~kanalyze.tables.quality.CaptureQuality`. This
module must not know rows, nor whether others read the same captures at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.int_columns import bounds, total
from kanalyze.model.anomalies import NET_ANOMALIES
from kanalyze.model.packets import PacketBatch
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.net.shard import Shard
    from kanalyze.runtime.stages import Captures, Stages, Step

__all__ = ["count_packets", "quality_of_end", "read_steps"]


def read_steps(
    stages: Stages,
    captures: Captures,
    quality: CaptureQuality,
    shard: Shard,
    *,
    ends: bool = True,
) -> Iterator[Step]:
    """Read captures to their end; give what each batch of packets brought, and the end itself.

    Where it does not end all, connections stay open, and ``quality`` says nothing of them yet.
    Otherwise it is complete then. What belongs to no connection is counted with the first shard.
    Raises CaptureError as :meth:`~kanalyze.capture.merge.MergedCaptures.batches` does.
    """
    for batch, step in stages.run(captures, ends=ends):
        if isinstance(batch, PacketBatch) and shard.is_first:
            count_packets(quality, batch)
        for tcp in step.closed:
            quality.count_connection(tcp)
        for anomaly in step.anomalies:
            # Of those of packets and TCP the stage itself keeps count.
            if anomaly.kind not in NET_ANOMALIES:
                quality.count_anomaly(anomaly.kind, anomaly.length or 0)
        yield step
    if shard.is_first:
        _count_captures(quality, captures)
    quality.count_stages(stages.net, stages.counts)


def quality_of_end(stages: Stages) -> CaptureQuality:
    """End all that is open in stages; return what that adds to the counts of connections."""
    stages.count_anew()
    quality = CaptureQuality()
    for tcp in stages.finish().closed:
        quality.count_connection(tcp)
    quality.count_stages(stages.net, stages.counts)
    # What is missing of a connection that goes on may yet come.
    quality.anomalies.clear()
    return quality


def count_packets(quality: CaptureQuality, batch: PacketBatch) -> None:
    """Count the packets of a batch, at least one."""
    quality.packets += len(batch)
    quality.captured_bytes += total(batch.captured_bytes)
    quality.wire_bytes += total(batch.wire_bytes)
    quality.count_times(*bounds(batch.time_ns))


def _count_captures(quality: CaptureQuality, captures: Captures) -> None:
    quality.captures.extend(captures.names)
    quality.dropped_packets = captures.dropped_packets
    if captures.description is not None:
        quality.count_description(captures.description)
    for anomaly in captures.anomalies:
        quality.count_anomaly(anomaly.kind, anomaly.length or 0)
