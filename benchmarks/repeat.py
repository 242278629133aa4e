"""Makes a long capture of a short one: the same packets again and again, later, from other hosts.

    python -m benchmarks.repeat SOURCE.pcap TIMES TARGET.pcap

SOURCE is a little-endian pcap of Ethernet, such as most in captures/. Each repetition comes after
the one before, and its clients (of TCP over IPv4) have an address of their own, so that its
connections are new ones; brokers stay where they are. Checksums are left as they are: nothing here
looks at them. Holds SOURCE in memory, and no more.
"""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.errors import BenchmarkError, run_main

if TYPE_CHECKING:
    from collections.abc import Iterator

Bytes: TypeAlias = npt.NDArray[np.uint8]
Places: TypeAlias = npt.NDArray[np.int64]

FILE_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16
_MAGICS = (0xA1B2C3D4, 0xA1B23C4D)  # times in microseconds, in nanoseconds
_LINK_ETHERNET, _ETHERNET_BYTES = 1, 14
_ETHERTYPE_IPV4, _PROTOCOL_TCP = 0x0800, 6
_SYN_ACK = 0x12
_MIN_BYTES = _ETHERNET_BYTES + 20 + 20


class Repetition(NamedTuple):
    """One repetition: all of it, until the next one is asked for."""

    data: Bytes
    """As a file, with its header."""
    starts: Places
    """Where each packet's record header begins."""


def repeat(source: Path, times: int, target: Path) -> int:
    """Write the long capture; return its number of packets.

    Raises:
        BenchmarkError: SOURCE is no such pcap, or the disk has no room for TARGET.
    """
    parts = repetitions(source, times)
    check_room(target, times * source.stat().st_size)
    count = 0
    with target.open("wb") as out:
        for data, starts in parts:
            out.write(data[FILE_HEADER_BYTES if count else 0 :].data)
            count += len(starts)
    return count


def repetitions(source: Path, times: int) -> Iterator[Repetition]:
    """Return the repetitions, to be taken one after the other; all are the same memory.

    Raises:
        BenchmarkError: SOURCE is no such pcap.
    """
    data = np.fromfile(source, np.uint8)
    return _repeated(data, record_starts(data, source.name), times)


def _repeated(data: Bytes, starts: Places, times: int) -> Iterator[Repetition]:
    clients = _client_addresses(data, starts)
    seconds = _numbers(data, starts, "<u4")
    span = int(seconds.max() - seconds.min()) + 1
    for number in range(times):
        _put(data, starts, (seconds + number * span).astype("<u4").view(np.uint8))
        address = struct.pack(">BBH", 10, number >> 16, number & 0xFFFF)
        _put(data, clients, np.frombuffer(address, np.uint8))
        yield Repetition(data, starts)


def check_room(target: Path, needed_bytes: int) -> None:
    """Raise BenchmarkError where the disk has no room for a target, which is not there yet."""
    if shutil.disk_usage(target.parent).free < 1.05 * needed_bytes:
        raise BenchmarkError(f"{target.name} needs {needed_bytes / 1e9:.1f} GB of disk")


def record_starts(data: Bytes, name: str) -> Places:
    """Return where each packet's record header begins; raises BenchmarkError for no such pcap."""
    if len(data) < FILE_HEADER_BYTES:
        raise BenchmarkError(f"{name}: no pcap")
    magic, *_, link = struct.unpack_from("<IHHIIII", data.data)
    if magic not in _MAGICS or link != _LINK_ETHERNET:
        raise BenchmarkError(f"{name}: no little-endian pcap of Ethernet")
    starts, at = [], FILE_HEADER_BYTES
    while at + RECORD_HEADER_BYTES <= len(data):
        starts.append(at)
        at += RECORD_HEADER_BYTES + struct.unpack_from("<I", data.data, at + 8)[0]
    if not starts or at != len(data):
        raise BenchmarkError(f"{name}: no packets, or a cut one")
    return np.array(starts, np.int64)


def _client_addresses(data: Bytes, starts: Places) -> Places:
    """Return where the client's address begins, in all packets of TCP over IPv4."""
    whole = starts[_numbers(data, starts + 8, "<u4") >= _MIN_BYTES] + RECORD_HEADER_BYTES
    is_ipv4 = _numbers(data, whole + 12, ">u2") == _ETHERTYPE_IPV4
    ip = whole[is_ipv4 & (data[whole + _ETHERNET_BYTES + 9] == _PROTOCOL_TCP)] + _ETHERNET_BYTES
    tcp = ip + (data[ip] & 15).astype(np.int64) * 4
    source_port, destination_port = _numbers(data, tcp, ">u2"), _numbers(data, tcp + 2, ">u2")
    source = _numbers(data, ip + 12, ">u4") << 16 | source_port
    destination = _numbers(data, ip + 16, ">u4") << 16 | destination_port
    brokers = np.unique(source[data[tcp + 13] == _SYN_ACK])
    from_broker, to_broker = np.isin(source, brokers), np.isin(destination, brokers)
    # Of connections that began before the capture: a client's port is the higher one.
    unknown = from_broker == to_broker
    from_client = np.where(unknown, source_port > destination_port, to_broker)
    address: Places = ip + np.where(from_client, 12, 16)
    return address


def _numbers(data: Bytes, at: Places, kind: str) -> Places:
    """Return the numbers of a NumPy type that stand at some places."""
    type_ = np.dtype(kind)
    found: Places = data[at[:, None] + np.arange(type_.itemsize)].view(type_).ravel().astype("i8")
    return found


def _put(data: Bytes, at: Places, four_bytes: Bytes) -> None:
    """Write four bytes at each place: the same everywhere, or those of each."""
    data[at[:, None] + np.arange(4)] = four_bytes.reshape(-1, 4)


def main() -> None:
    """Write what the command line asks for; say how many packets it has."""
    source, times, target = sys.argv[1:]
    print(repeat(Path(source), int(times), Path(target)), "packets")


if __name__ == "__main__":
    run_main(main)
