"""tshark finds the right segments in what the disorder harness writes.

tshark reads times, ports and payloads of TCP segments, whatever they are wrapped in, and checks
checksums. It starts slowly: most tests here are ``long``.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.disorder import TRANSFORMATIONS, Stage, altered, packets_of
from tests.support.disorder.formats import Interface, Pcapng, fine_interfaces
from tests.support.disorder.packet import Packet, dissect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAME = "any"
WRAPPED = [
    label
    for label, step in TRANSFORMATIONS.items()
    if step.stage in (Stage.FRAGMENTS, Stage.LINKS, Stage.PADDING)
]
# tshark 4.0 opens no bzip2 and xz, stops at data between Zstandard frames, and has no room
# for the fraction of a second in picoseconds times 10^9.
NOT_FOR_TSHARK = (
    *("bzip2", "bzip2 in streams", "xz", "xz in streams", "zstd in frames"),
    *("pcapng of several interfaces", "pcapng of everything, big-endian"),
)
PICOSECONDS = 12
WRITTEN = [
    label
    for label, step in TRANSFORMATIONS.items()
    if step.stage is Stage.FORMAT and label not in NOT_FOR_TSHARK
]
SOME = ("VXLAN", "pcapng of several sections")


def tshark(path: Path, *arguments: str) -> list[list[str]]:
    """The fields of the packets that tshark shows, one list a packet."""
    program = shutil.which("tshark")
    assert program is not None
    done = subprocess.run(
        [program, "-r", str(path), "-n", *arguments], capture_output=True, check=True, text=True
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


def segments(path: Path) -> list[tuple[str, str, str]]:
    """Time, source port and payload of every TCP segment."""
    # Kafka's dissector joins payloads; and without it a payload is data, shown once.
    shown = tshark(
        path,
        *("--disable-protocol", "kafka", "--disable-protocol", "tls", "-Y", "tcp"),
        *("-o", "tcp.desegment_tcp_streams:FALSE", "-T", "fields"),
        *("-e", "frame.time_epoch", "-e", "tcp.srcport", "-e", "tcp.payload"),
    )
    return [(time, port, payload) for time, port, payload in shown]


def expected(label: str) -> list[tuple[str, str, str]]:
    reference = altered(NAME, label).reference
    return [
        (f"{p.time_ns // 10**9}.{p.time_ns % 10**9:09}", str(s.source_port), s.payload.hex())
        for p, s in ((packet, dissect(packet)) for packet in reference)
        if s is not None
    ]


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(label, marks=() if label in SOME else pytest.mark.long)
        for label in WRAPPED + WRITTEN
    ],
)
def test_wrappings_and_formats_hold_the_same_segments(label: str, tmp_path: Path) -> None:
    (data,) = altered(NAME, label).files
    path = tmp_path / "capture"
    path.write_bytes(data)
    found = segments(path)
    assert len(found) == len(packets_of(NAME))
    assert sorted(found) == sorted(expected(label))


@pytest.mark.long
@pytest.mark.parametrize("order", ["<", ">"])
def test_tshark_reads_the_times_of_all_interfaces(order: str, tmp_path: Path) -> None:
    def interfaces(packets: Sequence[Packet]) -> list[Interface]:
        return [one for one in fine_interfaces(packets) if one.resolution != PICOSECONDS]

    path = tmp_path / "capture"
    writer = Pcapng(order=order, interfaces=interfaces, sections=3)
    path.write_bytes(writer.write(packets_of(NAME), random.Random(1)))
    assert segments(path) == expected("pcapng")
