"""How many packets of an interface can be read in a second, and what one takes.

    python -m benchmarks.live_capture [--bytes N] [--seconds N] [--rate N] [--messages]

Needs Linux, root and `ip`: makes a network namespace with two interfaces of MTU 1500, sends from
one of them in another process, as fast as that goes or `--rate` packets a second, and reads at the
other. `--messages` reads as on a kernel that shares no ring. Prints what was sent, read and
dropped, and the CPU time that reading took.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import socket
import subprocess
import sys
import time
from typing import NamedTuple
from unittest import mock

import numpy as np

from benchmarks.errors import run_main
from kanalyze.capture.live import packet_socket
from kanalyze.capture.live.capture import LiveCapture
from tests.support.netns import Namespace

PACKETS_AT_ONCE = 64
HEADERS = bytes(12) + b"\x08\x00"


class _Message(ctypes.Structure):
    """`struct mmsghdr`."""

    _fields_ = (
        *(("name", ctypes.c_size_t), ("name_bytes", ctypes.c_uint32)),
        *(("parts", ctypes.c_size_t), ("part_count", ctypes.c_size_t)),
        *(("control", ctypes.c_size_t), ("control_bytes", ctypes.c_size_t)),
        *(("flags", ctypes.c_size_t), ("sent", ctypes.c_uint)),
    )


MESSAGE = np.dtype(_Message)


class Flood(NamedTuple):
    """What is sent: for how long, how many packets a second (0: as many as may be), how large."""

    seconds: float
    rate: int
    packet_bytes: int


class Measured(NamedTuple):
    """What came of it."""

    sent: int
    arrived: int
    """Less than that where the kernel had no time for them; nobody could have read the others."""
    read: int
    received: int
    dropped: int
    seconds: float
    cpu_seconds: float
    batches: int


def send(interface: str, flood: Flood) -> int:
    """Send; return how many packets."""
    packet = np.frombuffer(HEADERS.ljust(flood.packet_bytes, b"\x5a"), np.uint8)
    part = np.array([packet.ctypes.data, len(packet)], np.uintp)
    messages = np.zeros(PACKETS_AT_ONCE, MESSAGE)
    messages["parts"], messages["part_count"] = part.ctypes.data, 1
    sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
    sent = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.setsockopt(263, 20, 1)  # PACKET_QDISC_BYPASS
        sender.bind((interface, 0))
        began_s = time.monotonic()
        while (now_s := time.monotonic() - began_s) < flood.seconds:
            if flood.rate and sent > now_s * flood.rate:
                time.sleep(0.0005)
                continue
            pointer = ctypes.c_void_p(messages.ctypes.data)
            sent += max(sendmmsg(sender.fileno(), pointer, len(messages), 0), 0)
    return sent


def measure(flood: Flood, *, by_messages: bool = False) -> Measured:
    """Send and read what comes."""
    with Namespace() as namespace:
        namespace.add_pair()
        words = [sys.executable, "-m", "benchmarks.live_capture", "--send", "one"]
        words += ["--bytes", str(flood.packet_bytes), "--rate", str(flood.rate)]
        words += ["--seconds", str(flood.seconds)]
        with namespace.inside(), _ring_or_not(by_messages=by_messages):
            capture = LiveCapture("other")
        with capture, subprocess.Popen(namespace.command(*words), stdout=subprocess.PIPE) as sender:
            began_s = cpu_began_s = last_s = 0.0
            batches = 0
            arrived: int | None = None
            while arrived is None or capture.packets + capture.dropped_packets < arrived:
                if arrived is None and sender.poll() is not None:
                    arrived = namespace.count_all_arrived("one")
                if capture.read(0.1) is None:
                    continue
                last_s = time.monotonic()
                if not batches:
                    began_s, cpu_began_s = last_s, time.process_time()
                batches += 1
            cpu_seconds = time.process_time() - cpu_began_s
            assert sender.stdout is not None
            sent = int(sender.stdout.read())
            return Measured(
                sent,
                arrived,
                capture.packets,
                capture.received_packets,
                capture.dropped_packets,
                last_s - began_s,
                cpu_seconds,
                batches,
            )


def _ring_or_not(*, by_messages: bool) -> mock._patch[object]:
    version = 99 if by_messages else packet_socket._VERSION_3
    return mock.patch.object(packet_socket, "_VERSION_3", version)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=1514)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--messages", action="store_true")
    parser.add_argument("--send", metavar="INTERFACE", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    flood = Flood(arguments.seconds, arguments.rate, arguments.bytes)
    if arguments.send is not None:
        print(send(arguments.send, flood))
        return
    measured = measure(flood, by_messages=arguments.messages)
    read_each_us = measured.cpu_seconds / max(measured.read, 1) * 1e6
    print(f"sent {measured.sent:,}, read {measured.read:,}, dropped {measured.dropped:,}")
    print(
        f"{measured.read / max(measured.seconds, 1e-9):,.0f} packets/s for {measured.seconds:.1f} s"
    )
    print(f"{measured.read / max(measured.batches, 1):,.0f} packets to a batch")
    print(f"CPU {read_each_us:.3f} us a packet ({os.cpu_count()} cores)")


if __name__ == "__main__":
    run_main(main)
