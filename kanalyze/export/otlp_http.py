"""Sends OTLP to a collector: OTLP/HTTP in JSON, which needs no package.

In: messages of :mod:`kanalyze.export.otlp` and of metrics. Out: POST requests.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from http.client import HTTPException
from queue import Full, Queue
from threading import Thread
from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from kanalyze.common.closing import ClosedAtEnd
from kanalyze.errors import KanalyzeError, UsageError, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

HEADERS_VARIABLE: Final = "OTEL_EXPORTER_OTLP_HEADERS"
"""The variable of OpenTelemetry's exporters with headers, such as a token: ``NAME=VALUE,...``."""
_TRACES: Final = "/v1/traces"
METRICS: Final = "/v1/metrics"
_TIMEOUT_S: Final = 10.0
_RETRIED: Final = frozenset((429, 502, 503, 504))
"""The statuses after which OTLP/HTTP allows another attempt."""
_WAITS_S: Final = (0.5, 1.0, 2.0)
_MAX_ANSWER: Final = 64 << 10
_MAX_SHOWN: Final = 200
_QUEUED: Final = 64
"""Messages that wait in memory while a collector is slow, some 30 MB."""


class Collector:
    """A collector of traces and metrics."""

    def __init__(self, url: str) -> None:
        """Take the URL of a collector, with or without ``/v1/traces``; raises UsageError."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"not the URL of a collector: {url!r} (http://HOST:4318)")
        self.url = url.removesuffix(_TRACES).rstrip("/")
        self._headers = {
            **_headers(os.environ.get(HEADERS_VARIABLE, "")),
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        self.rejected = ""
        """Why the collector rejected a part of what it accepted; empty if it did not."""

    def post(self, message: bytes, path: str = _TRACES) -> None:
        """Send a message; raises KanalyzeError if the collector does not take it."""
        url = self.url + path
        body = gzip.compress(message, compresslevel=1)
        for wait_s in (*_WAITS_S, None):
            request = Request(url, body, self._headers, method="POST")  # noqa: S310 - http
            try:
                with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - as above
                    self._read(answer.read(_MAX_ANSWER))
                    return
            except HTTPError as error:
                error.close()  # it is the answer too
                if error.code not in _RETRIED or wait_s is None:
                    text = f"{error.code} {error.reason}"
                    raise KanalyzeError(f"cannot send to {url}: {text}") from None
                time.sleep(wait_s)
            except (OSError, HTTPException) as error:
                reason = getattr(error, "reason", error)
                text = reason_of(reason) if isinstance(reason, OSError) else str(reason)
                raise KanalyzeError(f"cannot send to {url}: {text}") from None

    def _read(self, answer: bytes) -> None:
        """Remember what a collector says of spans or data points that it rejected."""
        try:
            rejected = json.loads(answer or b"{}").get("partialSuccess", {})
            text = rejected.get("errorMessage", "")
            points, spans = rejected.get("rejectedDataPoints", 0), rejected.get("rejectedSpans", 0)
        except (ValueError, AttributeError):
            return  # a proxy's page: the status says that the message was taken
        count = f"{points} data points" if points else f"{spans} spans"
        if points or spans or text:
            self.rejected = ascii(f"{count} rejected: {text}"[:_MAX_SHOWN])[1:-1]


def _headers(text: str) -> dict[str, str]:
    """Return the headers of ``NAME=VALUE,...``, in which values are encoded as in URLs."""
    pairs = (each.partition("=") for each in text.split(",") if each.strip())
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


class BackgroundSender(ClosedAtEnd):
    """Sends messages in a thread of its own, and drops those for which a collector is too slow."""

    def __init__(self, collector: Collector, warn: Callable[[str], None]) -> None:
        """Start the thread; ``warn`` receives the first problem, and at the end what was lost."""
        self._collector = collector
        self._warn = warn
        self._queue: Queue[tuple[bytes, str] | None] = Queue(_QUEUED)
        self._dropped = 0
        self._failed = 0
        self._thread = Thread(target=self._send, name="otlp", daemon=True)
        self._thread.start()

    def put(self, message: bytes, path: str = _TRACES) -> None:
        """Send a message later."""
        try:
            self._queue.put_nowait((message, path))
        except Full:
            self._dropped += 1

    def close(self) -> None:
        """Send what waits, at most for some seconds; say what was lost."""
        try:
            self._queue.put(None, timeout=_TIMEOUT_S)
            self._thread.join(_TIMEOUT_S)
        except Full:
            pass  # counted below
        lost = self._dropped + self._failed + self._queue.qsize()
        if lost:
            self._warn(f"{self._collector.url}: {lost} messages were not sent")
        if self._collector.rejected:
            self._warn(f"{self._collector.url}: {self._collector.rejected}")

    def _send(self) -> None:
        while (queued := self._queue.get()) is not None:
            try:
                self._collector.post(*queued)
            except KanalyzeError as error:
                self._failed += 1
                if self._failed == 1:
                    self._warn(str(error))
