"""Metrics over HTTP, for a Prometheus to scrape.

In: a registry of ``prometheus_client``; where to listen. Out: answers to whoever asks, in the
format that they ask for (Prometheus text or OpenMetrics). This module must not know what is
counted.
"""

from __future__ import annotations

import socket
from socketserver import TCPServer, ThreadingMixIn
from threading import BoundedSemaphore, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client.exposition import make_wsgi_app

from kanalyze.errors import KanalyzeError, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from prometheus_client.registry import CollectorRegistry

__all__ = ["ListenAddress", "MetricsServer", "parse_listen"]

LOOPBACK: Final = "127.0.0.1"
_MOST_REQUESTS: Final = 8
"""Answered at once; who asks beside these is hung up on."""
_REQUEST_TIMEOUT_S: Final = 10


class ListenAddress(NamedTuple):
    """Where to listen."""

    host: str
    """A name or an address, without brackets."""
    port: int
    """0 for any that is free."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen(text: str) -> ListenAddress:
    """Return where ``PORT``, ``HOST:PORT`` or ``[IPV6]:PORT`` says to listen.

    Without a host it is the loopback address. Raises UsageError for anything else; names are not
    looked up here.
    """
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"not an address to listen on: {text!r} (IPv6 as [ADDRESS]:PORT)")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536):
        raise UsageError(f"not an address to listen on: {text!r} (HOST:PORT or PORT)")
    return ListenAddress(host or LOOPBACK, int(port))


class MetricsServer:
    """Answers scrapes from threads of its own until it is stopped."""

    def __init__(self, registry: CollectorRegistry, where: ListenAddress) -> None:
        """Begin to listen; raises KanalyzeError when that cannot be, as when the port is taken."""
        try:
            family, *_, address = socket.getaddrinfo(
                where.host, where.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._server = _Server(family, address[:2])
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise KanalyzeError(f"cannot serve metrics on {where}: {reason}") from None
        self._server.set_app(make_wsgi_app(registry))
        self.address = ListenAddress(where.host, self._server.server_port)
        """Where it listens, with the port that was free if any would do."""
        self._thread = Thread(
            target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """What to give to Prometheus."""
        return f"http://{self.address}/metrics"

    def stop(self) -> None:
        """Listen no longer, and wait until that is so. Does nothing the second time."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name for it
        """Say nothing: the terminal is not ours."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    # A scraper that stays connected is not waited for.
    block_on_close = False

    def __init__(self, family: socket.AddressFamily, address: Any) -> None:
        self.address_family = family
        self._free = BoundedSemaphore(_MOST_REQUESTS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind, without asking the network for the name of this host as the base does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if there are not too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer; the thread ends with it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: whoever asked has gone, or was too slow."""
