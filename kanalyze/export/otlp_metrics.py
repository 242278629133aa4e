"""Metrics that Prometheus scrapes as OpenTelemetry metrics: OTLP in JSON.

In: families of ``prometheus_client``. Out: messages ExportMetricsServiceRequest.

Names are those of families, without ``_total``: what writes them for Prometheus adds it again, so
dashboards and alerts work as they are. Values count from the start of the run (cumulative).
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from kanalyze.export.otlp import attributes, message, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.core import Metric
    from prometheus_client.samples import Sample

_CUMULATIVE: Final = '"aggregationTemporality":2'
_LE: Final = "le"
"""The label with the upper bound of a bucket."""


def metrics_message(families: Iterable[Metric], begin_ns: int, now_ns: int) -> bytes:
    """Return a message with all samples of families, which count since ``begin_ns``."""
    times = f'"startTimeUnixNano":"{begin_ns}","timeUnixNano":"{now_ns}"'
    return message("metrics", [_metric(family, times) for family in families if family.samples])


def _metric(family: Metric, times: str) -> str:
    about = f'"name":{quoted(family.name)},"description":{quoted(family.documentation)}'
    if family.type == "histogram":
        points = ",".join(_histograms(family, times))
        return f'{{{about},"histogram":{{{_CUMULATIVE},"dataPoints":[{points}]}}}}'
    points = ",".join(
        f'{{"attributes":{attributes(sample.labels)},{times},{_number(sample.value)}}}'
        for sample in family.samples
    )
    if family.type == "counter":
        return f'{{{about},"sum":{{{_CUMULATIVE},"isMonotonic":true,"dataPoints":[{points}]}}}}'
    return f'{{{about},"gauge":{{"dataPoints":[{points}]}}}}'


def _number(value: float) -> str:
    return f'"asInt":"{value}"' if isinstance(value, int) else f'"asDouble":{value}'


def _histograms(family: Metric, times: str) -> Iterator[str]:
    """Yield a point for the samples with the same labels; those of Prometheus are cumulative."""
    for labels, samples in groupby(family.samples, _labels):
        buckets, total = [], 0.0
        for sample in samples:
            if _LE in sample.labels:
                buckets.append(sample)
            elif sample.name.endswith("_sum"):
                total = sample.value
        counts = [
            int(after - before) for before, after in pairwise([0, *(b.value for b in buckets)])
        ]
        bounds = ",".join(bucket.labels[_LE] for bucket in buckets[:-1])  # without +Inf
        yield (
            f'{{"attributes":{attributes(labels)},{times},"count":"{sum(counts)}","sum":{total},'
            f'"bucketCounts":[{",".join(map(_text, counts))}],"explicitBounds":[{bounds}]}}'
        )


def _labels(sample: Sample) -> dict[str, str]:
    return {name: value for name, value in sample.labels.items() if name != _LE}


def _text(count: int) -> str:
    """Return a number of 64 bits as OTLP's JSON has it."""
    return f'"{count}"'
