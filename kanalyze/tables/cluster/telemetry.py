"""The metrics that clients push to brokers (PushTelemetry, KIP-714), as lines of a table.

In: values of requests, by the names in Kafka's definitions. Out: :class:`ClientMetric`.

A push is an OTLP message, which OpenTelemetry's own classes read (``opentelemetry-proto``). Numbers
of a push may be many; a message is read only if it is not larger than a broker allows by default.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from kanalyze.common.texts import bounded_text
from kanalyze.kafka.records.compression import decompress
from kanalyze.spec.rows.cluster import ClientMetric
from kanalyze.tables.requests.topic_names import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_BYTES: Final = 4 << 20
"""``telemetry.max.bytes`` of a broker is 1 MiB, of what comes out of the compression, too."""
_MOST_POINTS: Final = 10_000
_MOST_LABELS: Final = 32
_INT64_MAX: Final = 2**63 - 1
_KINDS: Final = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
_TEMPORALITIES: Final[dict[int, str]] = {
    AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA: "delta",
    AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE: "cumulative",
}


def client_metrics(
    request: dict[str, Any] | None, response: dict[str, Any] | None
) -> list[ClientMetric]:
    """Return the numbers of a push; if it cannot be read, a line that says why. Raises nothing."""
    if request is None:
        return []
    push = ClientMetric(
        client_instance_id=topic_id_text(request["ClientInstanceId"]),
        is_last=request["Terminating"],
        error_code=None if response is None else response["ErrorCode"],
    )
    data, problem = decompress(request["CompressionType"], request["Metrics"], _MOST_BYTES)
    if problem is not None:
        return [push._replace(problem=str(problem))]
    try:
        metrics = MetricsData.FromString(data)
    except DecodeError:
        return [push._replace(problem="malformed")]
    lines: list[ClientMetric] = []
    for line in _lines(push, metrics):
        if len(lines) == _MOST_POINTS:
            return [*lines, push._replace(problem="too_many_numbers")]
        lines.append(line)
    return lines


def _lines(push: ClientMetric, metrics: Any) -> Iterator[ClientMetric]:
    for of_resource in metrics.resource_metrics:
        resource = _labels(of_resource.resource.attributes)
        for scope in of_resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind not in _KINDS:
                    continue
                data = getattr(metric, kind)
                of_metric = push._replace(
                    metric=bounded_text(metric.name),
                    unit=bounded_text(metric.unit) or None,
                    kind=kind,
                    temporality=_TEMPORALITIES.get(getattr(data, "aggregation_temporality", 0)),
                    resource=resource,
                )
                for point in data.data_points:
                    yield _line(of_metric, point)


def _line(of_metric: ClientMetric, point: Any) -> ClientMetric:
    line = of_metric._replace(
        labels=_labels(point.attributes),
        time_ns=_time(point.time_unix_nano),
        start_time_ns=_time(point.start_time_unix_nano),
    )
    if of_metric.kind in ("gauge", "sum"):
        held = point.WhichOneof("value")
        return line._replace(value=None if held is None else _number(getattr(point, held)))
    line = line._replace(value=_number(point.sum), observations=min(point.count, _INT64_MAX))
    if of_metric.kind == "summary":
        return line
    lowest, highest = (
        _number(getattr(point, name)) if point.HasField(name) else None for name in ("min", "max")
    )
    return line._replace(lowest=lowest, highest=highest)


def _number(number: float) -> float | None:
    """Return a number; None for NaN, which a gauge is that has measured nothing."""
    return None if math.isnan(number) else float(number)


def _time(time_ns: int) -> int | None:
    return time_ns if 0 < time_ns <= _INT64_MAX else None


def _labels(attributes: Iterable[Any]) -> str | None:
    """Return attributes as JSON, sorted by name; None if there are none."""
    labels = {}
    for attribute in list(attributes)[:_MOST_LABELS]:
        held = attribute.value.WhichOneof("value")
        value = None if held is None else getattr(attribute.value, held)
        is_plain = value is None or isinstance(value, bool | int)
        labels[bounded_text(attribute.key)] = value if is_plain else bounded_text(str(value))
    return json.dumps(labels, sort_keys=True, ensure_ascii=False) if labels else None
