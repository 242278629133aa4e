#!/usr/bin/env python3
"""Record where the time of requests goes: known delays, a server that takes a known time.

Two network namespaces, client and server, each with a tunnel interface that this program is the
other end of. It carries each packet from one to the other, after a delay to the middle and one from
there: what ``tc netem`` does, which not every kernel has. A client sends requests that the server
answers after a sleep, which it measures. The same packets are recorded by tcpdump at the client and
at the server, and by this program in the middle, into ``captures/latency/``, with what was set and
measured in ``truth.json``.

Needs root on Linux, /dev/net/tun, ip, ethtool and tcpdump.
"""

import contextlib
import heapq
import json
import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lab.namespace import Namespace
from lab.sniffer import Recording, Sniffer
from lab.way import INTERFACE, inside, tunnel

OUT = Path(__file__).resolve().parents[2] / "captures" / "latency"
PORT = 9092
ENDS = {"client": "10.77.0.1", "server": "10.77.0.2"}
DELAYS_MS = {
    "client_to_middle": 3,
    "middle_to_server": 8,
    "server_to_middle": 12,
    "middle_to_client": 2,
}
PLACES = {"client": "client", "broker": "server"}
"""Captures, and the namespaces that tcpdump makes them in."""
API_VERSIONS, METADATA = 18, 3
LOSS_S = 0.05
"""How long packets to the server are lost, after the request was sent: longer than a probe of TCP
takes to come, and less than its timeout."""
NAMES = {API_VERSIONS: "ApiVersions", METADATA: "Metadata"}
TOPICS = 1200
"""Of a large message: more than a sender may send at once before the first acknowledgment."""
_RAW_IP = 101


@contextlib.contextmanager
def namespaces() -> Iterator[dict[str, Namespace]]:
    """Provide both namespaces."""
    with contextlib.ExitStack() as stack:
        made = {part: Namespace(f"latency-{part}", mtu=1500, offload=True) for part in ENDS}
        yield {part: stack.enter_context(namespace) for part, namespace in made.items()}


class Wire:
    """Carries packets between the tunnels; records them in the middle."""

    def __init__(self, tunnels: dict[str, int], file: BinaryIO) -> None:
        self._tunnels = tunnels
        self._file = file
        self._due: list[tuple[int, int, str, bytes]] = []
        self._count = 0
        self.loses_requests = False
        """Whether packets with payload are lost between the middle and the server."""
        self.is_over = False
        # Nanoseconds, IPv4 without a link layer.
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, _RAW_IP))

    def carry(self) -> None:
        """Carry packets until it is over, before all else that the machine does."""
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
        sides = {descriptor: part for part, descriptor in self._tunnels.items()}
        while not self.is_over:
            now = time.monotonic_ns()
            wait_s = max(0, min(self._due[0][0] - now, 10_000_000)) / 1e9 if self._due else 0.01
            for descriptor in select.select(list(sides), [], [], wait_s)[0]:
                packet = os.read(descriptor, 65536)
                self._later(
                    DELAYS_MS[f"{sides[descriptor]}_to_middle"], f"from {sides[descriptor]}", packet
                )
            while self._due and self._due[0][0] <= time.monotonic_ns():
                _, _, place, packet = heapq.heappop(self._due)
                self._step(place, packet)

    def _later(self, delay_ms: int, place: str, packet: bytes) -> None:
        self._count += 1
        due = time.monotonic_ns() + delay_ms * 1_000_000
        heapq.heappush(self._due, (due, self._count, place, packet))

    def _step(self, place: str, packet: bytes) -> None:
        """A packet is in the middle, or where it goes."""
        word, _, part = place.partition(" ")
        if word == "to":
            os.write(self._tunnels[part], packet)
            return
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        self._file.write(struct.pack("<IIII", seconds, nanoseconds, len(packet), len(packet)))
        self._file.write(packet)
        far = "server" if part == "client" else "client"
        head = (packet[0] & 15) * 4
        has_payload = len(packet) > head + (packet[head + 12] >> 4) * 4
        if not (self.loses_requests and far == "server" and has_payload):
            self._later(DELAYS_MS[f"middle_to_{far}"], f"to {far}", packet)


@contextlib.contextmanager
def carried(tunnels: dict[str, int], path: Path) -> Iterator[Wire]:
    """The wire between the tunnels."""
    with path.open("wb") as file:
        wire = Wire(tunnels, file)
        thread = threading.Thread(target=wire.carry)
        thread.start()
        try:
            yield wire
        finally:
            wire.is_over = True
            thread.join()


@contextlib.contextmanager
def recordings(parts: dict[str, Namespace], folder: Path) -> Iterator[None]:
    """Record with tcpdump at both ends."""
    started = []
    how = Recording(interface=INTERFACE)
    for place, part in PLACES.items():
        file = folder / f"{place}.pcap"
        started.append(Sniffer(how, parts[part], file, f"tcp port {PORT}"))
    try:
        yield
    finally:
        for sniffer in started:
            sniffer.stop()
            sniffer.log.unlink()


def frame(body: bytes) -> bytes:
    """A message with its size."""
    return struct.pack(">i", len(body)) + body


def text(value: str) -> bytes:
    """A string of the protocol."""
    return struct.pack(">h", len(value)) + value.encode()


def request(key: int, number: int, topics: int) -> bytes:
    """ApiVersions v0, or Metadata v1 of so many topics."""
    head = struct.pack(">hhi", key, 0 if key == API_VERSIONS else 1, number) + text("latency")
    if key == API_VERSIONS:
        return frame(head)
    names = [text(f"topic-{index:016d}") for index in range(topics)]
    return frame(head + struct.pack(">i", len(names)) + b"".join(names))


def answer(key: int, number: int, topics: int) -> bytes:
    """The response of the same version; unknown topics, where there are some."""
    head = struct.pack(">i", number)
    if key == API_VERSIONS:
        versions = b"".join(struct.pack(">hhh", each, 0, 1) for each in (METADATA, API_VERSIONS))
        return frame(head + struct.pack(">hi", 0, 2) + versions)
    brokers = struct.pack(">ii", 1, 0) + text(ENDS["server"]) + struct.pack(">ih", PORT, -1)
    told = [
        struct.pack(">h", 3) + text(f"topic-{index:016d}") + struct.pack(">?i", False, 0)
        for index in range(topics)
    ]
    return frame(head + brokers + struct.pack(">ii", 0, len(told)) + b"".join(told))


def receive(connection: socket.socket) -> bytes:
    """One message without its size."""
    data = bytearray()
    while len(data) < (size := 4 + struct.unpack(">i", data[:4])[0] if len(data) >= 4 else 4):
        got = connection.recv(size - len(data))
        if not got:
            raise EOFError
        data += got
    return bytes(data[4:])


class Request:
    """One request of the plan, and what was measured of it."""

    def __init__(
        self, key: int, sleep_ms: int, asks: int = 1, tells: int = 1, kind: str = "alone"
    ) -> None:
        self.key = key
        self.sleep_ms = sleep_ms
        self.asks, self.tells = asks, tells
        self.kind = kind
        """``alone``; ``behind``: sent at once behind the one before; ``lost``: at first."""
        self.broker_ns = self.client_ns = 0


PLAN = (
    [Request(API_VERSIONS, sleep_ms) for sleep_ms in (0, 5, 30, 0, 80)]
    + [Request(METADATA, sleep_ms) for sleep_ms in (1, 120, 10)]
    + [Request(METADATA, 20, asks=TOPICS), Request(METADATA, 15, tells=TOPICS)]
    + [Request(METADATA, 50), Request(METADATA, 25, kind="behind")]
    + [Request(METADATA, 10, kind="behind")]
    + [Request(METADATA, 40, kind="lost"), Request(METADATA, 5)]
)


def serve(listener: socket.socket, plan: list[Request]) -> None:
    """Answer the requests of the plan, one after the other, as a broker does."""
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        for number, each in enumerate(plan):
            receive(connection)
            begun = time.perf_counter_ns()
            time.sleep(each.sleep_ms / 1000)
            response = answer(each.key, number, each.tells)
            each.broker_ns = time.perf_counter_ns() - begun
            connection.sendall(response)


def talk(wire: Wire, plan: list[Request]) -> None:
    """Send the requests of the plan; those behind another go out with it."""
    with socket.create_connection((ENDS["server"], PORT), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = 0
        while number < len(plan):
            many = 1
            while number + many < len(plan) and plan[number + many].kind == "behind":
                many += 1
            together = range(number, number + many)
            wire.loses_requests = plan[number].kind == "lost"
            begun = time.perf_counter_ns()
            for each in together:
                connection.sendall(request(plan[each].key, each, plan[each].asks))
            if wire.loses_requests:
                time.sleep(LOSS_S)
                wire.loses_requests = False
            for each in together:
                receive(connection)
                plan[each].client_ns = time.perf_counter_ns() - begun
            number += many
            time.sleep(0.05)


def main() -> int:
    """Record, and write down what is known of it."""
    OUT.mkdir(parents=True, exist_ok=True)
    sys.setswitchinterval(1e-5)
    plan = list(PLAN)
    with contextlib.ExitStack() as stack:
        parts = stack.enter_context(namespaces())
        tunnels = {part: tunnel(parts[part], address) for part, address in ENDS.items()}
        for descriptor in tunnels.values():
            stack.callback(os.close, descriptor)
        wire = stack.enter_context(carried(tunnels, OUT / "between.pcap"))
        stack.enter_context(recordings(parts, OUT))
        with inside(parts["server"]):
            listener = stack.enter_context(socket.create_server((ENDS["server"], PORT)))
        server = threading.Thread(target=serve, args=(listener, plan))
        server.start()
        with inside(parts["client"]):
            talk(wire, plan)
        server.join()
    truth = {
        "made_by": "python3 tools/record/latency.py",
        "recorded_on": time.strftime("%Y-%m-%d"),
        "kernel": os.uname().release,
        "delays_ms": DELAYS_MS,
        "requests": [
            {
                "api_name": NAMES[each.key],
                "kind": each.kind,
                "sleep_ms": each.sleep_ms,
                "broker_ns": each.broker_ns,
                "client_ns": each.client_ns,
            }
            for each in plan
        ],
    }
    (OUT / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
