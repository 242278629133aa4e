"""Sessions that Python's ``ssl`` cannot make, recorded from OpenSSL's own programs on loopback.

Suites of TLS 1.3, key updates of both ends, renegotiation. Without openssl this file is not
collected (see conftest.py, which says so).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest

from kanalyze.model.tls import APPLICATION_DATA, CHANGE_CIPHER_SPEC
from kanalyze.tls.keys import suite_name
from tests.support.tls_talk import (
    CLIENT,
    SERVER,
    Read,
    Sent,
    certificate,
    items_of,
    log_with,
    read_items,
)
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Server:
    """``openssl s_server``, which sends what it reads from standard input."""

    def __init__(self, folder: Path, *words: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.keys = folder / "keys.log"
        self.output = folder / "output"
        command = ["openssl", "s_server", "-accept", f"127.0.0.1:{self.port}", "-naccept", "2"]
        pem = certificate("ec", "broker")
        command += ["-cert", pem, "-key", pem, "-keylogfile", str(self.keys), *words]
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
            )
        wait_until(lambda: b"ACCEPT" in self.output.read_bytes())

    def say(self, text: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Recorder:
    """A client in memory on a real socket; it records all bytes that pass the socket."""

    def __init__(self, server: Server, version: ssl.TLSVersion) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out)
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.settimeout(20)
        self.wire: list[Sent] = []
        self._until(self._tls.do_handshake)

    def say(self, text: bytes) -> None:
        self._tls.write(text)
        self._flush()

    def hear(self, text: bytes) -> None:
        """Read until the server has sent these bytes."""
        received = b""
        while not received.endswith(text):
            received += self._until(lambda: self._tls.read(1 << 16))

    def await_record(self, kind: int, count: int) -> None:
        """Read until the server has sent ``count`` records of a content type."""
        while self.records_of(kind) < count:
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.read(1)
            self._flush()
            self._receive()

    def close(self) -> None:
        self._socket.close()

    def _until(self, act):  # type: ignore[no-untyped-def]
        while True:
            try:
                done = act()
            except ssl.SSLWantReadError:
                self._flush()
                self._receive()
            else:
                self._flush()
                return done

    def records_of(self, kind: int) -> int:
        stream = b"".join(sent.data for sent in self.wire if sent.side == SERVER)
        at, found = 0, 0
        while at + 5 <= len(stream):
            found += stream[at] == kind
            at += 5 + int.from_bytes(stream[at + 3 : at + 5], "big")
        return found

    def _receive(self) -> None:
        data = self._socket.recv(1 << 16)
        assert data
        self.wire.append(Sent(SERVER, data))
        self._in.write(data)

    def _flush(self) -> None:
        data = self._out.read()
        if data:
            self.wire.append(Sent(CLIENT, data))
            self._socket.sendall(data)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Server]]:
    started: list[Server] = []
    yield started
    for server in started:
        server.close()


def read(server: Server, wire: list[Sent]) -> Read:
    return read_items(items_of(wire), log_with(server.keys.read_bytes()))


@pytest.mark.parametrize(
    "suite",
    [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
    ],
)
def test_suites_of_tls_1_3_are_decrypted_across_key_updates(
    servers: list[Server], tmp_path: Path, suite: str
) -> None:
    server = Server(tmp_path, "-ciphersuites", suite, "-tls1_3")
    servers.append(server)
    client = Recorder(server, ssl.TLSVersion.TLSv1_3)
    client.say(b"one\n")
    server.say(b"two\n")
    client.hear(b"two\n")
    server.say(b"K\n")  # a key update, which the other end has to answer
    client.await_record(APPLICATION_DATA, client.records_of(APPLICATION_DATA) + 1)
    server.say(b"three\n")
    client.hear(b"three\n")
    client.say(b"four\n")
    server.say(b"k\n")  # a key update that needs no answer
    client.await_record(APPLICATION_DATA, client.records_of(APPLICATION_DATA) + 1)
    server.say(b"five\n")
    client.hear(b"five\n")
    client.close()
    found = read(server, client.wire)
    assert suite_name(found.session.facts.suite or 0) == suite
    assert found.plaintext(CLIENT) == b"one\nfour\n"
    assert found.plaintext(SERVER) == b"two\nthree\nfive\n"
    assert [counts.unopened_records for counts in found.session.facts.counts] == [0, 0]


def test_a_renegotiation_of_tls_1_2_is_decrypted(servers: list[Server], tmp_path: Path) -> None:
    server = Server(tmp_path, "-tls1_2")
    servers.append(server)
    client = Recorder(server, ssl.TLSVersion.TLSv1_2)
    client.say(b"one\n")
    server.say(b"two\n")
    client.hear(b"two\n")
    server.say(b"r\n")  # another handshake, which begins when the client reads
    client.await_record(CHANGE_CIPHER_SPEC, 2)
    client.say(b"three\n")
    server.say(b"four\n")
    client.hear(b"four\n")
    client.close()
    found = read(server, client.wire)
    assert found.plaintext(CLIENT) == b"one\nthree\n"
    assert found.plaintext(SERVER) == b"two\nfour\n"
    assert [counts.unopened_records for counts in found.session.facts.counts] == [0, 0]
