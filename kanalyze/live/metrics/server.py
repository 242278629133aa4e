"""Metrics over HTTP, for a Prometheus to scrape.

In: a registry of ``prometheus_client``; where to listen. Out: answers to whoever asks, in the
format that they ask for (Prometheus text or OpenMetrics). This module must not know what is
counted.

Whoever can connect may do it badly: slowly, without end, often. So each gets so much time and may
send so many bytes, and at once there are only so many: who has said nothing for longest, or takes
nothing of an answer, makes room for the next.

A page in somebody's browser may have had its own name pointed at this machine (DNS rebinding), and
asks in that name. So the name that is asked for has to be one of this machine.
"""

from __future__ import annotations

import gzip
import io
import ipaddress
import re
import socket
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qs

from prometheus_client.exposition import choose_encoder, gzip_accepted

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from prometheus_client.registry import Collector, CollectorRegistry

__all__ = ["ListenAddress", "MetricsServer", "parse_listen"]

LOOPBACK: Final = "127.0.0.1"
_MOST_REQUESTS: Final = 8
"""At once; for one more, one of them is hung up on."""
_PATIENCE_S: Final = 1.0
"""How long an answer may be on its way before it makes room for the next: a scraper takes it at
once."""
_REQUEST_TIMEOUT_S: Final = 10.0
"""For all of a request, and for each write of an answer, of which there are three."""
_MOST_REQUEST_BYTES: Final = 16 << 10
_PATH: Final = "/metrics"
_GZIP_LEVEL: Final = 1
"""It is read on this machine, or near it: time is what there is less of."""


_HOST: Final = re.compile(
    r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^:\[\]\s,]+))(?::\d{1,5})?", re.ASCII
)
_NOT_MY_NAME: Final = b"Not a name of this machine; kanalyze live --metrics-host says others\n"


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


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class MetricsServer:
    """Answers scrapes from threads of its own until it is stopped."""

    def __init__(
        self, registry: CollectorRegistry, where: ListenAddress, names: Sequence[str] = ()
    ) -> None:
        """Begin to listen; raises KanalyzeError when that cannot be, as when the port is taken.

        ``names`` are what this machine is called besides: it may be asked for by its addresses, as
        ``localhost``, by its own name and by the one in ``where``.
        """
        try:
            family, *_, address = socket.getaddrinfo(
                where.host, where.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            own = {name.lower() for name in (*names, where.host, socket.gethostname())}
            self._server = _Server(family, address, registry, frozenset(own | {"localhost"}))
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise KanalyzeError(f"cannot serve metrics on {where}: {reason}") from None
        self.address = ListenAddress(where.host, self._server.socket.getsockname()[1])
        """Where it listens, with the port that was free if any would do."""
        self._thread = Thread(
            target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def answering(self) -> int:
        """How many are being answered."""
        return self._server.guests.answering

    @property
    def url(self) -> str:
        """What to give to Prometheus."""
        return f"http://{self.address}{_PATH}"

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


class _Request(io.RawIOBase):
    """What somebody sends, up to a time and a size."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until_s = time.monotonic() + _REQUEST_TIMEOUT_S
        self._left_bytes = _MOST_REQUEST_BYTES

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has come; raises OSError when nothing did in time, or too much."""
        if not self._left_bytes:
            raise ConnectionAbortedError
        # Of a timeout of 0 would come another error.
        self._connection.settimeout(max(self._until_s - time.monotonic(), 1e-3))
        with memoryview(buffer)[: self._left_bytes] as target:
            count = self._connection.recv_into(target)
        self._left_bytes -= count
        # Answers have as much time again.
        self._connection.settimeout(_REQUEST_TIMEOUT_S)
        return count


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server
    rbufsize = 0

    def setup(self) -> None:
        """Set up, with a bound to what is read."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Request(self.connection))

    def parse_request(self) -> bool:
        """Read what is asked for; tell whether there is to be an answer."""
        return super().parse_request() and self.server.guests.begin_answer(self.connection)

    def do_GET(self) -> None:
        """Answer with metrics, in the format and the encoding asked for."""
        hosts = self.headers.get_all("Host", [])
        if not all(self.server.is_own_name(host) for host in hosts):
            self._answer(HTTPStatus.FORBIDDEN, _NOT_MY_NAME)
            return
        path, _, query = self.path.partition("?")
        if path != _PATH:
            self._answer(HTTPStatus.NOT_FOUND, f"Metrics are at {_PATH}\n".encode())
            return
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        headers = {"Content-Type": content_type}
        # One after another: a capture that goes on beside eight of them would get a ninth of the
        # interpreter.
        with self.server.turn:
            body = encode(self.server.chosen(parse_qs(query).get("name[]", [])))
            if gzip_accepted(self.headers.get("Accept-Encoding", "")):
                headers["Content-Encoding"] = "gzip"
                body = gzip.compress(body, _GZIP_LEVEL)
        self._answer(HTTPStatus.OK, body, headers)

    do_HEAD = do_GET  # noqa: N815 - the base looks for these names

    def do_POST(self) -> None:
        """Refuse."""
        allow = {"Allow": "GET, HEAD"}
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"Metrics are there to GET\n", allow)

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST  # noqa: N815

    def _answer(
        self, status: HTTPStatus, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        given = {"Content-Type": "text/plain; charset=utf-8"} | dict(headers or {})
        for name, value in given.items():
            self.send_header(name, value)
        self.server.guests.send_answer(self.connection)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """Return what answers: not which Python it runs on."""
        return "kanalyze"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name for it
        """Say nothing: the terminal is not ours."""


class _Guests:
    """Those who are connected, and what each of them is about; the longest there come first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._asking: dict[socket.socket, None] = {}
        self._answered: dict[socket.socket, float | None] = {}
        """Since when its answer is on its way; None while it is made."""

    @property
    def answering(self) -> int:
        """How many are being answered."""
        return len(self._answered)

    def enter(self, guest: socket.socket) -> bool:
        """Let one more in, in somebody's place if need be; tell whether there is room."""
        with self._lock:
            if len(self._asking) + len(self._answered) >= _MOST_REQUESTS and not self._make_room():
                return False
            self._asking[guest] = None
            return True

    def begin_answer(self, guest: socket.socket) -> bool:
        """Note that one has asked; tell whether it is still there."""
        with self._lock:
            if guest not in self._asking:
                return False
            del self._asking[guest]
            self._answered[guest] = None
            return True

    def send_answer(self, guest: socket.socket) -> None:
        """Note that an answer is on its way."""
        with self._lock:
            if guest in self._answered:
                self._answered[guest] = time.monotonic()

    def leave(self, guest: socket.socket) -> None:
        """Note that one has gone."""
        with self._lock:
            self._asking.pop(guest, None)
            self._answered.pop(guest, None)

    def _make_room(self) -> bool:
        """Hang up on one who keeps others waiting; tell whether there is one."""
        now_s = time.monotonic()
        slow = (
            guest
            for guest, sent_s in self._answered.items()
            if sent_s is not None and now_s - sent_s >= _PATIENCE_S
        )
        guest = next(iter(self._asking), None) or next(slow, None)
        if guest is None:
            return False
        self._asking.pop(guest, None)
        self._answered.pop(guest, None)
        with suppress(OSError):  # it has gone by itself
            guest.shutdown(socket.SHUT_RDWR)  # its thread sees the end of it
        return True


class _Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    # A scraper that stays connected is not waited for.
    block_on_close = False

    def __init__(
        self,
        family: socket.AddressFamily,
        address: Any,
        registry: CollectorRegistry,
        names: frozenset[str],
    ) -> None:
        self.address_family = family
        self.turn = Lock()
        """Held by who makes an answer."""
        self._registry = registry
        self._names = names
        self.guests = _Guests()
        super().__init__(address, _Handler)

    def chosen(self, names: Sequence[str]) -> Collector:
        """Return what collects the metrics of some names; all of them where there are none."""
        return self._registry.restricted_registry(names) if names else self._registry

    def is_own_name(self, host: str) -> bool:
        """Tell whether what a ``Host`` header says is this machine: a name of it, any address.

        Nobody can point an address elsewhere.
        """
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = (found["name"] or found["ipv6"]).lower()
        return name.removesuffix(".") in self._names or _is_address(name)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if there are not too many."""
        if not self.guests.enter(request):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer; the thread ends with it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.guests.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: whoever asked has gone, or was too slow."""
