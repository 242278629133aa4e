"""Serves metrics over HTTP, for Prometheus to scrape.

In: a registry of ``prometheus_client``; an address to listen on. Out: responses in the format that
a client accepts (Prometheus text or OpenMetrics).

The server of ``prometheus_client`` is not used: it answers requests for any host, and limits
neither their number, nor their time, nor their size.

- Clients may be slow, send without end, or be many. So a request has a time limit and a size limit,
  and the number of connections is limited. To make room for a new connection, one is closed that
  has not sent its request yet, or does not read its response.
- A web page may make its own name resolve to this machine (DNS rebinding). So the ``Host`` of a
  request must be a name of this machine.
"""

from __future__ import annotations

import gzip
import io
import ipaddress
import math
import re
import socket
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from prometheus_client.exposition import choose_encoder, gzip_accepted

from kanalyze.common.closing import ClosedAtEnd
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError, UsageError, reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prometheus_client.registry import Collector, CollectorRegistry

LOOPBACK: Final = "127.0.0.1"
_MAX_CONNECTIONS: Final = 8
_RESPONSE_READ_S: Final = 1.0
"""A connection that has not read its response after this time may be closed to make room for
another one: a scraper reads at once."""
_REQUEST_TIMEOUT_S: Final = 10.0
"""Time limit of a whole request, and of each of the three writes of a response."""
_MAX_REQUEST_BYTES: Final = 16 << 10
_PATH: Final = "/metrics"
_GZIP_LEVEL: Final = 1
"""The lowest level: CPU time is scarcer than bandwidth, because Prometheus is usually near."""
_HOST: Final = re.compile(
    r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^:\[\]\s,]+))(?::\d{1,5})?", re.ASCII
)
_UNKNOWN_HOST: Final = b"Host is not a name of this machine; use live --metrics-host to add it\n"


class ListenAddress(NamedTuple):
    """An address to listen on."""

    host: str
    """A name or an IP address, without brackets."""
    port: int
    """0 for any free port."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen(text: str) -> ListenAddress:
    """Parse ``PORT``, ``HOST:PORT`` or ``[IPV6]:PORT``; the default host is loopback.

    Raises UsageError for anything else. Names are not resolved here.
    """
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"not an address to listen on: {text!r} (IPv6 as [ADDRESS]:PORT)")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536):
        raise UsageError(f"not an address to listen on: {text!r} (HOST:PORT or PORT)")
    return ListenAddress(host or LOOPBACK, int(port))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class MetricsServer(ClosedAtEnd):
    """Answers scrapes in its own threads until it is stopped."""

    def __init__(
        self, registry: CollectorRegistry, where: ListenAddress, names: Sequence[str] = ()
    ) -> None:
        """Begin to listen; raises KanalyzeError if that fails, for example if the port is in use.

        ``names`` are accepted as ``Host``, besides any IP address, ``localhost``, the name of this
        machine and the one in ``where``.
        """
        try:
            family, *_, address = socket.getaddrinfo(
                where.host, where.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            own = {name.lower() for name in (*names, where.host, socket.gethostname())}
            self._server = _Server(family, address, registry, frozenset(own | {"localhost"}))
        except (OSError, UnicodeError) as error:
            raise KanalyzeError(f"cannot serve metrics on {where}: {reason_of(error)}") from None
        self.address = ListenAddress(where.host, self._server.socket.getsockname()[1])
        """The address it listens on, with the actual port if 0 was given."""
        self._thread = Thread(
            target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL to scrape."""
        return f"http://{self.address}{_PATH}"

    def close(self) -> None:
        """Close the socket and wait for the thread; may be called again."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Request(io.RawIOBase):
    """The bytes of a request, limited in time and size."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until_s = time.monotonic() + _REQUEST_TIMEOUT_S
        self._remaining_bytes = _MAX_REQUEST_BYTES

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the bytes that have arrived; raises OSError after the time limit or size limit."""
        if not self._remaining_bytes:
            raise ConnectionAbortedError
        # A timeout of 0 would mean: do not block.
        self._connection.settimeout(max(self._until_s - time.monotonic(), 1e-3))
        with memoryview(buffer)[: self._remaining_bytes] as target:
            count = self._connection.recv_into(target)
        self._remaining_bytes -= count
        # Each write of the response has the full time limit.
        self._connection.settimeout(_REQUEST_TIMEOUT_S)
        return count


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server
    rbufsize = 0

    def setup(self) -> None:
        """Limit the size and the time of the request."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Request(self.connection))

    def parse_request(self) -> bool:
        """Read a request; return whether to answer it."""
        return super().parse_request() and self.server.connections.begin_response(self.connection)

    def do_GET(self) -> None:
        """Answer with metrics, in a format and an encoding that the client accepts."""
        hosts = self.headers.get_all("Host", [])
        if not all(self.server.is_own_name(host) for host in hosts):
            self._respond(HTTPStatus.FORBIDDEN, _UNKNOWN_HOST)
            return
        path, _, query = self.path.partition("?")
        if path != _PATH:
            self._respond(HTTPStatus.NOT_FOUND, f"Metrics are at {_PATH}\n".encode())
            return
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        headers = {"Content-Type": content_type}
        # One response at a time: beside eight threads, the capture would get a ninth of the time.
        with self.server.encoding:
            body = encode(self.server.metrics(parse_qs(query).get("name[]", [])))
            if gzip_accepted(self.headers.get("Accept-Encoding", "")):
                headers["Content-Encoding"] = "gzip"
                body = gzip.compress(body, _GZIP_LEVEL)
        self._respond(HTTPStatus.OK, body, headers)

    do_HEAD = do_GET  # noqa: N815 - the base looks for these names

    def do_POST(self) -> None:
        """Refuse the method."""
        allow = {"Allow": "GET, HEAD"}
        self._respond(HTTPStatus.METHOD_NOT_ALLOWED, b"Use GET or HEAD\n", allow)

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST  # noqa: N815

    def _respond(
        self, status: HTTPStatus, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}.items():
            self.send_header(name, value)
        self.server.connections.send_response(self.connection)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """Return the name for the ``Server`` header, without the version of Python."""
        return "kanalyze"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name for it
        """Log nothing: the terminal shows the view."""


class _Connections:
    """The open connections, each with the time from which it may be closed to make room."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._closable_s: dict[socket.socket, float] = {}
        """By connection, in the order of opening: the monotonic time from which it may be closed.

        0 before its request, infinite while its response is made.
        """

    def add(self, connection: socket.socket) -> bool:
        """Add a connection, and close another one if needed; return False if all are busy."""
        with self._lock:
            if len(self._closable_s) >= _MAX_CONNECTIONS and not self._close_one():
                return False
            self._closable_s[connection] = 0
            return True

    def begin_response(self, connection: socket.socket) -> bool:
        """Note that a request was read; return False if the connection was closed meanwhile."""
        return self._set_closable(connection, math.inf)

    def send_response(self, connection: socket.socket) -> bool:
        """Note that the response is now sent; returns the same as :meth:`begin_response`."""
        return self._set_closable(connection, time.monotonic() + _RESPONSE_READ_S)

    def remove(self, connection: socket.socket) -> None:
        """Note that a connection is closed."""
        with self._lock:
            self._closable_s.pop(connection, None)

    def _set_closable(self, connection: socket.socket, closable_s: float) -> bool:
        with self._lock:
            if connection not in self._closable_s:
                return False
            self._closable_s[connection] = closable_s
            return True

    def _close_one(self) -> bool:
        connection = min(self._closable_s, key=self._closable_s.__getitem__)
        if self._closable_s[connection] > time.monotonic():
            return False
        del self._closable_s[connection]
        with suppress(OSError):  # the client closed it
            connection.shutdown(socket.SHUT_RDWR)  # the thread of the connection reads its end
        return True


class _Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    # Stopping does not wait for connections.
    block_on_close = False

    def __init__(
        self,
        family: socket.AddressFamily,
        address: Any,
        registry: CollectorRegistry,
        names: frozenset[str],
    ) -> None:
        self.address_family = family
        self.encoding = Lock()
        """Held while a response is made."""
        self._registry = registry
        self._names = names
        self.connections = _Connections()
        super().__init__(address, _Handler)

    def metrics(self, names: Sequence[str]) -> Collector:
        """Return the metrics with these names; without names, all metrics."""
        return self._registry.restricted_registry(names) if names else self._registry

    def is_own_name(self, host: str) -> bool:
        """Return true if a ``Host`` header has a name of this machine, or any IP address.

        An IP address cannot be made to resolve to another one.
        """
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = (match["name"] or match["ipv6"]).lower()
        return name.removesuffix(".") in self._names or _is_address(name)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, unless there are too many connections."""
        if not self.connections.add(request):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request in its thread, then remove the connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.remove(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the client closed the connection, or was too slow."""
