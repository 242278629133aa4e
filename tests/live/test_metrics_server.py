from __future__ import annotations

import gzip
import socket
import threading
import urllib.error
import urllib.request

import pytest

from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.live.metrics import Metrics
from kanalyze.live.metrics_server import ListenAddress, MetricsServer, parse_listen

LOOPBACK = ListenAddress("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("9308", ("127.0.0.1", 9308)),
        (":9308", ("127.0.0.1", 9308)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:9308", ("::1", 9308)),
        ("[::]:9308", ("::", 9308)),
    ],
)
def test_where_to_listen(text: str, where: tuple[str, int]) -> None:
    assert parse_listen(text) == where


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", "::1:9308", "host:65536", "host:-1", "host:\u0661", "h:1:2", "1e3"],
)
def test_what_says_nowhere_to_listen_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="listen"):
        parse_listen(text)


def test_an_address_is_written_as_it_is_read() -> None:
    for text in ("127.0.0.1:1", "[::1]:9308"):
        assert str(parse_listen(text)) == text


def fetch(server: MetricsServer, **headers: str) -> bytes:
    request = urllib.request.Request(server.url, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        data: bytes = answer.read()
        return data


def test_it_answers_until_it_is_stopped() -> None:
    server = MetricsServer(Metrics().registry, LOOPBACK)
    assert b"kanalyze_build_info" in fetch(server)
    server.stop()
    with pytest.raises(urllib.error.URLError):
        fetch(server)


def test_stopping_leaves_no_thread_and_frees_the_port() -> None:
    before = threading.active_count()
    server = MetricsServer(Metrics().registry, LOOPBACK)
    server.stop()
    server.stop()
    assert threading.active_count() == before
    MetricsServer(Metrics().registry, server.address).stop()


def test_a_port_in_use_is_one_line() -> None:
    with MetricsServer(Metrics().registry, LOOPBACK) as server:
        with pytest.raises(KanalyzeError, match=r"cannot serve metrics on 127\.0\.0\.1:") as caught:
            MetricsServer(Metrics().registry, server.address)
        assert "in use" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a" * 70 + ".b", "::zz"])
def test_a_place_that_is_not_here_is_one_line(host: str) -> None:
    with pytest.raises(KanalyzeError, match="cannot serve metrics") as caught:
        MetricsServer(Metrics().registry, ListenAddress(host, 0))
    assert "\n" not in str(caught.value)


def test_ipv6() -> None:
    with MetricsServer(Metrics().registry, ListenAddress("::1", 0)) as server:
        assert server.url.startswith("http://[::1]:")
        assert b"kanalyze_build_info" in fetch(server)


def test_gzip_and_names_as_the_library_does_them() -> None:
    with MetricsServer(Metrics().registry, LOOPBACK) as server:
        packed = fetch(server, **{"Accept-Encoding": "gzip"})
        assert b"kanalyze_build_info" in gzip.decompress(packed)
        with urllib.request.urlopen(f"{server.url}?name[]=kanalyze_build_info") as answer:
            assert b"label_values" not in answer.read()


def test_other_methods_are_refused() -> None:
    with MetricsServer(Metrics().registry, LOOPBACK) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(server.url, data=b"x"), timeout=10)
        assert caught.value.code == 405
        caught.value.close()


def test_who_connects_and_says_nothing_keeps_nobody_waiting(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with MetricsServer(Metrics().registry, LOOPBACK) as server:
        idle = [socket.create_connection(server.address[:2]) for _ in range(4)]
        assert b"kanalyze_build_info" in fetch(server)
        for connection in idle:
            connection.sendall(b"\0 \xff\r\n\r\n")
            connection.close()
    assert capfd.readouterr() == ("", "")


def test_too_many_at_once_are_hung_up_on_and_later_ones_served() -> None:
    with MetricsServer(Metrics().registry, LOOPBACK) as server:
        idle = [socket.create_connection(server.address[:2], timeout=10) for _ in range(9)]
        # The first eight wait to be asked for something, the ninth is not wanted.
        assert idle[8].recv(1) == b""
        for connection in idle:
            connection.close()
        for _ in range(50):
            try:
                assert b"kanalyze_build_info" in fetch(server)
                break
            except (urllib.error.URLError, ConnectionError):
                continue
        else:
            pytest.fail("nobody was served again")
