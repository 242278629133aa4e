"""What is served over HTTP, and to whom."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.live import metrics_server as serving
from kanalyze.live.metrics import Metrics
from kanalyze.live.metrics_server import ListenAddress, MetricsServer, parse_listen
from kanalyze.tables.columns.block import RowBlock
from tests.support import rows as sample_rows
from tests.support.cases import for_each
from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


LOOPBACK = ListenAddress("127.0.0.1", 0)


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    with MetricsServer(Metrics().registry, LOOPBACK) as server:
        yield server


@for_each(
    "case",
    [
        ("9308", ("127.0.0.1", 9308)),
        (":9308", ("127.0.0.1", 9308)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:9308", ("::1", 9308)),
        ("[::]:9308", ("::", 9308)),
        *((text, None) for text in ("", "host", "host:", "::1:9308", "host:65536", "host:-1")),
        *((text, None) for text in ("host:\u0661", "h:1:2", "1e3")),
    ],
)
def test_listen_addresses_are_parsed(case: tuple[str, tuple[str, int] | None]) -> None:
    text, address = case
    if address is None:
        with pytest.raises(UsageError, match="listen"):
            parse_listen(text)
    else:
        assert parse_listen(text) == address
        assert parse_listen(str(parse_listen(text))) == address


def fetch(server: MetricsServer, **headers: str) -> bytes:
    request = urllib.request.Request(server.url, headers=headers)
    with urllib.request.urlopen(request, timeout=LONG_S) as response:
        data: bytes = response.read()
        return data


def test_stopping_ends_all_threads_and_frees_the_port() -> None:
    before = set(threading.enumerate())  # one of another test may still be ending
    server = MetricsServer(Metrics().registry, LOOPBACK)
    assert set(threading.enumerate()) - before
    assert b"kanalyze_build_info" in fetch(server)
    server.close()
    server.close()
    with pytest.raises(urllib.error.URLError):
        fetch(server)
    assert set(threading.enumerate()) <= before
    MetricsServer(Metrics().registry, server.address).close()


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with MetricsServer(Metrics().registry, LOOPBACK) as server:
        with pytest.raises(KanalyzeError, match=r"cannot serve metrics on 127\.0\.0\.1:") as caught:
            MetricsServer(Metrics().registry, server.address)
        assert "in use" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a" * 70 + ".b", "::zz"])
def test_an_address_of_another_machine_is_reported_in_one_line(host: str) -> None:
    with pytest.raises(KanalyzeError, match="cannot serve metrics") as caught:
        MetricsServer(Metrics().registry, ListenAddress(host, 0))
    assert "\n" not in str(caught.value)


def test_the_server_listens_on_ipv6() -> None:
    with MetricsServer(Metrics().registry, ListenAddress("::1", 0)) as server:
        assert server.url.startswith("http://[::1]:")
        assert b"kanalyze_build_info" in fetch(server)


def test_gzip_and_the_choice_of_metrics_work_as_in_prometheus_client() -> None:
    with MetricsServer(Metrics().registry, LOOPBACK) as server:
        packed = fetch(server, **{"Accept-Encoding": "gzip"})
        assert b"kanalyze_build_info" in gzip.decompress(packed)
        with urllib.request.urlopen(f"{server.url}?name[]=kanalyze_build_info") as response:
            assert b"label_values" not in response.read()


def response_to(server: MetricsServer, text: bytes) -> bytes:
    """Return all bytes that the server sends."""
    with socket.create_connection(server.address, timeout=LONG_S) as connection:
        connection.sendall(text)
        data = b""
        while data_part := connection.recv(1 << 16):
            data += data_part
        return data


def test_head_is_get_without_the_body() -> None:
    with MetricsServer(Metrics().registry, LOOPBACK) as server:
        head = response_to(server, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        whole = response_to(server, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert head.endswith(b"\r\n\r\n")

    def headers_of(response: bytes) -> list[bytes]:
        lines = response.partition(b"\r\n\r\n")[0].splitlines()
        return [line for line in lines if not line.startswith(b"Date")]

    assert headers_of(head) == headers_of(whole)
    body = whole.partition(b"\r\n\r\n")[2]
    assert f"Content-Length: {len(body)}".encode() in headers_of(head)


def test_other_requests_are_refused_and_the_next_one_is_answered(server: MetricsServer) -> None:
    paths = ["/", "/favicon.ico", "/metrics/", "/../metrics"]
    methods = ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
    cases = {
        **{f"GET {path} HTTP/1.1": (404, "Metrics are at /metrics\n") for path in paths},
        **{f"{method} /metrics HTTP/1.1": (405, "Allow: GET, HEAD\r\n") for method in methods},
        # A request without an HTTP version gets a response without headers.
        "nonsense": (400, ""),
        "GET /metrics HTTP/9.9": (505, ""),
        "BREW /metrics HTTP/1.1": (501, ""),
        "GET /metrics HTTP/1.1\r\n" + "a: b\r\n" * 101: (431, ""),
    }
    for request, (status, text) in cases.items():
        response = response_to(server, f"{request}\r\n\r\n".encode()).decode()
        assert str(status) in response.partition("\r\n\r\n")[0], request
        assert text in response, request
    assert b"kanalyze_build_info" in fetch(server)


def is_closed_by_server(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("start", [b"GET /", b"GET /metrics HTTP/1.1\r\na: "])
def test_a_connection_with_an_endless_request_is_closed(
    start: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        MetricsServer(Metrics().registry, LOOPBACK) as server,
        socket.create_connection(server.address, timeout=LONG_S) as connection,
    ):
        connection.sendall(start)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 1 << 27:
                sent += connection.send(b"x" * 65_536)
        # Bytes in flight are in buffers of the system.
        assert sent < 1 << 27
        assert b"kanalyze_build_info" in fetch(server)
    assert capfd.readouterr() == ("", "")


def test_a_slow_request_is_closed_after_the_time_limit(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The client sends one byte after the other, each within the limit of a single read."""
    monkeypatch.setattr(serving, "_REQUEST_TIMEOUT_S", 0.4)
    with (
        MetricsServer(Metrics().registry, LOOPBACK) as server,
        socket.create_connection(server.address, timeout=LONG_S) as connection,
    ):
        connection.settimeout(0.1)
        began_s = time.monotonic()
        request_bytes = iter(b"GET /metrics HTTP/1.1\r\n" * 10_000)

        def is_closed() -> bool:
            with contextlib.suppress(ConnectionError):
                connection.send(bytes([next(request_bytes)]))
            with contextlib.suppress(TimeoutError):
                return is_closed_by_server(connection)
            return False

        wait_until(is_closed)
        assert time.monotonic() - began_s > 0.3
    assert capfd.readouterr() == ("", "")


def test_a_client_that_does_not_read_blocks_no_thread(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "_REQUEST_TIMEOUT_S", 0.3)
    is_answering, do_get = threading.Event(), serving._Handler.do_GET

    def answered(handler: serving._Handler) -> None:
        is_answering.set()
        do_get(handler)

    monkeypatch.setattr(serving._Handler, "do_GET", answered)
    metrics = Metrics(max_clients=10_000)
    rows = [sample_rows.row(client_id=f"{n:0100}") for n in range(10_000)]
    metrics.add(RowBlock.of_rows(rows), 0)
    with MetricsServer(metrics.registry, LOOPBACK) as server:
        before = set(threading.enumerate())
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(server.address)
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert is_answering.wait(LONG_S)
            wait_until(lambda: set(threading.enumerate()) <= before)
    assert capfd.readouterr() == ("", "")


def test_only_one_scrape_runs_at_a_time() -> None:
    """A capture in the same process must have enough of the interpreter's time."""
    running, most_running = 0, 0

    class SlowCollector:
        def collect(self) -> list[Metric]:
            nonlocal running, most_running
            running += 1
            most_running = max(most_running, running)
            time.sleep(0.05)
            running -= 1
            return []

    registry = CollectorRegistry()
    registry.register(SlowCollector())
    with MetricsServer(registry, LOOPBACK) as server:
        threads = [threading.Thread(target=fetch, args=(server,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most_running == 1


def test_the_longest_idle_connection_is_closed_for_a_new_one() -> None:
    """Eight idle connections used to block all others until their time limit."""
    with MetricsServer(Metrics().registry, LOOPBACK) as server:
        idle = [socket.create_connection(server.address[:2], timeout=LONG_S) for _ in range(20)]
        # All connections before the last eight were closed.
        assert [connection.recv(1) for connection in idle[:12]] == [b""] * 12
        assert b"kanalyze_build_info" in fetch(server)
        assert idle[12].recv(1) == b""
        for connection in idle:
            connection.close()


def test_a_client_that_does_not_read_is_closed_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "_RESPONSE_READ_S", 0.0)

    class LargeCollector:
        def collect(self) -> list[Metric]:
            # 9 MB, twice as much as the buffers of a socket hold.
            return [Metric("kanalyze_large", "x" * 9_000_000, "gauge")]

    registry = Metrics().registry
    registry.register(LargeCollector())
    with MetricsServer(registry, LOOPBACK) as server, contextlib.ExitStack() as stack:
        for _ in range(8):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(LONG_S)
            connection.connect(server.address[:2])
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert connection.recv(9) == b"HTTP/1.0 "  # the response has begun
        with urllib.request.urlopen(f"{server.url}?name[]=kanalyze_build_info") as response:
            assert b"kanalyze_build_info" in response.read()
    assert capfd.readouterr() == ("", "")


def test_a_connection_that_waits_for_its_response_is_not_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the server prepares eight responses, a ninth client has to try again."""
    may_answer, answering, do_get = threading.Event(), [], serving._Handler.do_GET

    def answered(handler: serving._Handler) -> None:
        answering.append(handler)
        do_get(handler)

    monkeypatch.setattr(serving._Handler, "do_GET", answered)

    class SlowCollector:
        def collect(self) -> list[Metric]:
            may_answer.wait(LONG_S)
            return []

    registry = CollectorRegistry()
    registry.register(SlowCollector())
    with MetricsServer(registry, LOOPBACK) as server, contextlib.ExitStack() as stack:
        waiting = []
        for _ in range(8):
            connection = socket.create_connection(server.address[:2], timeout=LONG_S)
            waiting.append(stack.enter_context(connection))
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        wait_until(lambda: len(answering) == 8)
        refused = stack.enter_context(socket.create_connection(server.address[:2], timeout=LONG_S))
        assert is_closed_by_server(refused)
        may_answer.set()
        for connection in waiting:
            assert connection.recv(12) == b"HTTP/1.0 200"


OWN_NAMES = (
    *("localhost", "LocalHost:9308", "localhost.", "127.0.0.1", "127.9.9.9:1", "[::1]:9308"),
    *("192.0.2.7:9308", "[2001:db8::1]", socket.gethostname()),
    *("metrics.example.org:9308", "METRICS.example.org"),
)
OTHER_NAMES = (
    *("evil.example.com", "evil.example.com:9308", "localhost.evil.example.com"),
    *("127.0.0.1.evil.example.com", "1.2.3.4.5", "", "[::1", "[::1]x"),
    *("localhost, evil.example.com", "localhost\r\nHost: evil.example.com"),
)


def test_only_requests_to_names_of_this_machine_are_answered() -> None:
    """DNS rebinding: a browser sends this machine a request with the host name of another."""
    with MetricsServer(Metrics().registry, LOOPBACK, ["metrics.example.org"]) as server:
        for host in (*OWN_NAMES, *OTHER_NAMES):
            request = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"
            response = response_to(server, request.encode())
            is_own = host in OWN_NAMES
            assert response.startswith(b"HTTP/1.0 200 " if is_own else b"HTTP/1.0 403 "), host
            assert (b"kanalyze_build_info" in response) == is_own
            assert (b"--metrics-host" in response) != is_own


def test_requests_with_the_listen_host_name_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = socket.getaddrinfo("127.0.0.1", 0, type=socket.SOCK_STREAM)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved)
    with MetricsServer(Metrics().registry, ListenAddress("broker7.example", 0)) as server:
        monkeypatch.undo()
        address = ("127.0.0.1", server.address.port)
        with socket.create_connection(address, timeout=LONG_S) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: broker7.example:1\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.0 200"
