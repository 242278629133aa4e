"""Makes a long capture of a short one: the same packets again and again, later, from other hosts.

    python benchmarks/repeat.py SOURCE.pcap TIMES TARGET.pcap

SOURCE is a pcap of Ethernet and IPv4, such as those in captures/. Each repetition comes after the
one before, and its clients have addresses of their own, so that its connections are new ones.
Checksums are left as they are: nothing here looks at them.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

_FILE_HEADER_BYTES = 24
_RECORD_HEADER_BYTES = 16
_ETHERNET_BYTES = 14
_SOURCE_AT, _DESTINATION_AT = _ETHERNET_BYTES + 12, _ETHERNET_BYTES + 16


def packets_of(data: bytes) -> list[tuple[int, int, bytearray]]:
    """Return (seconds, fraction, bytes from the record header on) of every packet."""
    found = []
    at = _FILE_HEADER_BYTES
    while at + _RECORD_HEADER_BYTES <= len(data):
        seconds, fraction, captured, _ = struct.unpack_from("<IIII", data, at)
        end = at + _RECORD_HEADER_BYTES + captured
        found.append((seconds, fraction, bytearray(data[at:end])))
        at = end
    return found


def repeat(source: Path, times: int, target: Path) -> int:
    """Write the long capture; return its number of packets."""
    data = source.read_bytes()
    packets = packets_of(data)
    span = packets[-1][0] - packets[0][0] + 1
    with target.open("wb") as out:
        out.write(data[:_FILE_HEADER_BYTES])
        for number in range(times):
            client = struct.pack(">BBH", 10, number >> 16, number & 0xFFFF)
            for seconds, _, packet in packets:
                struct.pack_into("<I", packet, 0, seconds + number * span)
                _readdress(packet, client)
                out.write(packet)
    return len(packets) * times


def _readdress(packet: bytearray, client: bytes) -> None:
    """Give the end with the higher port, the client, another address."""
    ip = _RECORD_HEADER_BYTES
    ports_at = ip + _ETHERNET_BYTES + (packet[ip + _ETHERNET_BYTES] & 15) * 4
    source_port, destination_port = struct.unpack_from(">HH", packet, ports_at)
    at = ip + (_SOURCE_AT if source_port > destination_port else _DESTINATION_AT)
    packet[at : at + 4] = client


if __name__ == "__main__":
    source_text, times_text, target_text = sys.argv[1:]
    print(repeat(Path(source_text), int(times_text), Path(target_text)), "packets")
