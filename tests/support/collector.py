"""A collector on loopback, made of OpenTelemetry's own messages, which refuse what is not OTLP."""

from __future__ import annotations

import base64
import gzip
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_IDS = ("traceId", "spanId", "parentSpanId")


def parsed(message: bytes | str) -> ExportTraceServiceRequest:
    """A message by OpenTelemetry's definition; unknown names are errors.

    OTLP's JSON has ids in hexadecimal, protobuf's in base64.
    """

    def in_base64(found: dict[str, Any]) -> dict[str, Any]:
        for name in found.keys() & set(_IDS):
            found[name] = base64.b64encode(bytes.fromhex(found[name])).decode()
        return found

    whole = json.loads(message, object_hook=in_base64)
    return json_format.ParseDict(whole, ExportTraceServiceRequest())


def spans_of(messages: list[bytes]) -> list[Any]:
    """The spans of messages."""
    return [
        span
        for message in messages
        for resource in parsed(message).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def points_of(message: bytes) -> dict[str, list[tuple[str, dict[str, Any], Any]]]:
    """The points of a message of metrics by name: the kind of each, its attributes, itself."""
    found: dict[str, list[tuple[str, dict[str, Any], Any]]] = {}
    whole = json_format.Parse(message, ExportMetricsServiceRequest())
    for resource in whole.resource_metrics:
        for metric in resource.scope_metrics[0].metrics:
            kind = str(metric.WhichOneof("data"))
            points = getattr(metric, kind).data_points
            found[metric.name] = [(kind, attributes_of(point), point) for point in points]
    return found


def attributes_of(described: Any) -> dict[str, Any]:
    """The attributes of a span or a link."""
    return {
        each.key: getattr(each.value, str(each.value.WhichOneof("value")))
        for each in described.attributes
    }


class Collector:
    """What was sent to a collector, and what it answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.messages: list[bytes] = []
        """Those of spans."""
        self.metrics: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.statuses: list[int] = []
        """The next answers; 200 when there is none."""
        self.rejected = 0


@contextmanager
def collecting() -> Iterator[Collector]:
    """Listen until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = found.statuses.pop(0) if found.statuses else 200
            response: ExportTraceServiceResponse | ExportMetricsServiceResponse
            if self.path == "/v1/traces":
                response, messages = ExportTraceServiceResponse(), found.messages
            elif self.path == "/v1/metrics":
                response, messages = ExportMetricsServiceResponse(), found.metrics
            else:
                status = 404
            answer = b"no"
            if status == 200:
                messages.append(gzip.decompress(body))
                found.headers.append(dict(self.headers))
                if found.rejected and isinstance(response, ExportTraceServiceResponse):
                    response.partial_success.rejected_spans = found.rejected
                    response.partial_success.error_message = "too old"
                answer = json_format.MessageToJson(response).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
