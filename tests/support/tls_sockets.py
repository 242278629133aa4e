"""A broker and clients that speak TLS over real sockets on loopback, and a capture of them.

Python's ``ssl`` makes both ends. Between them is a relay, which makes a packet of each piece that
it passes on: such a capture needs no rights.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from typing import TYPE_CHECKING, Self

from tests.support.kafka import api_versions, api_versions_answer_v0
from tests.support.packets import Packet, pcap_file
from tests.support.tls_talk import certificate
from tests.support.traffic import Line
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PCAP_HEADER = pcap_file([])
_ANYWHERE = ("127.0.0.1", 0)


class _Server:
    """Answers connections, one after the other, until its context ends."""

    def __init__(self, answer: Callable[[socket.socket, tuple[str, int]], None]) -> None:
        """``answer`` receives each connection, and the address of its client."""
        self._answer = answer
        self._listening = socket.create_server(_ANYWHERE)
        self.address = self._listening.getsockname()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(LONG_S)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._answer(*self._listening.accept())


class Broker(_Server):
    """Answers ApiVersions on each connection, until its client closes it; a context."""

    def __init__(self, version: ssl.TLSVersion) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate("ec", "broker"))
        self._context.minimum_version = self._context.maximum_version = version
        super().__init__(self._speak)

    def _speak(self, accepted: socket.socket, _: object) -> None:
        accepted.settimeout(LONG_S)
        with self._context.wrap_socket(accepted, server_side=True) as connection:
            while head := connection.recv(12):
                (size,) = struct.unpack(">i", head[:4])
                (correlation_id,) = struct.unpack(">i", head[8:])
                _exactly(connection, size + 4 - len(head))
                connection.sendall(api_versions_answer_v0(correlation_id))


class Relay(_Server):
    """Passes bytes on between clients and a broker, one connection after the other; a context."""

    def __init__(self, broker: tuple[str, int], give: Callable[[bytes], None]) -> None:
        """``give`` receives the records of a pcap file, without its header."""
        self._broker = broker
        self._give = give
        super().__init__(self._connect)

    def _connect(self, client: socket.socket, address: tuple[str, int]) -> None:
        with client, socket.create_connection(self._broker) as broker:
            self._pass_on((client, broker), address[1])

    def _pass_on(self, ends: tuple[socket.socket, socket.socket], port: int) -> None:
        packets: list[bytes] = []
        line = Line(packets, port).open()
        is_open = True
        while is_open:
            readable, _, _ = select.select(ends, [], [], LONG_S)
            for end in readable:
                side = ends.index(end)
                data = end.recv(1400)
                if data:
                    # TO_BROKER is what the client sends.
                    (line.client if side == 0 else line.broker)(data)
                    self._record(packets)
                    ends[1 - side].sendall(data)
                elif is_open:
                    is_open = False
                    line.close()
                    self._record(packets)

    def _record(self, packets: list[bytes]) -> None:
        timed = [Packet(data, time.time_ns()) for data in packets]
        packets.clear()
        self._give(pcap_file(timed)[len(PCAP_HEADER) :])


class Client:
    """A connection that sends requests; a context."""

    def __init__(self, address: tuple[str, int], version: ssl.TLSVersion, keys: Path) -> None:
        """``keys`` is the key log that ``ssl`` writes."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        context.keylog_filename = str(keys)
        plain = socket.create_connection(address, LONG_S)
        self.port = plain.getsockname()[1]
        self._connection = context.wrap_socket(plain)
        self.sent: list[tuple[int, int, int]] = []
        """For each request: correlation id, size, size of the response."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, correlation_id: int) -> None:
        """Send ApiVersions, and wait for the response."""
        request = api_versions(correlation_id, version=0)
        self._connection.sendall(request)
        response = api_versions_answer_v0(correlation_id)
        assert _exactly(self._connection, len(response)) == response
        self.sent.append((correlation_id, len(request), len(response)))


def _exactly(connection: ssl.SSLSocket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("it was closed")
        data += piece
    return data
