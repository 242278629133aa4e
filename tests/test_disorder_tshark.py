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
from tests.support.disorder.packet import Packet, dissect, rebuild
from tests.support.disorder.transformation import plain_file

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
REBUILT = [
    label
    for label, step in TRANSFORMATIONS.items()
    if step.stage in (Stage.CUTS, Stage.COPIES, Stage.NUMBERS)
]
SOME = ["VXLAN", "fragments shuffled", "pcapng of several sections"]


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


def check_same_segments(label: str, folder: Path) -> None:
    (data,) = altered(NAME, label).files
    path = folder / "capture"
    path.write_bytes(data)
    found = segments(path)
    assert len(found) == len(packets_of(NAME))
    assert sorted(found) == sorted(expected(label))


@pytest.mark.few(2)
@pytest.mark.parametrize("label", [label for label in WRAPPED + WRITTEN if label in SOME])
def test_some_wrappings_and_formats_hold_the_same_segments(label: str, tmp_path: Path) -> None:
    check_same_segments(label, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("label", WRAPPED + WRITTEN)
def test_every_wrapping_and_format_holds_the_same_segments(label: str, tmp_path: Path) -> None:
    check_same_segments(label, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("order", ["<", ">"])
def test_tshark_reads_the_times_of_all_interfaces(order: str, tmp_path: Path) -> None:
    def interfaces(packets: Sequence[Packet]) -> list[Interface]:
        return [one for one in fine_interfaces(packets) if one.resolution != PICOSECONDS]

    path = tmp_path / "capture"
    writer = Pcapng(order=order, interfaces=interfaces, sections=3)
    path.write_bytes(writer.write(packets_of(NAME), random.Random(1)))
    assert segments(path) == expected("pcapng")


@pytest.mark.long
@pytest.mark.parametrize("label", WRAPPED + REBUILT)
def test_every_checksum_of_what_was_built_is_right(label: str, tmp_path: Path) -> None:
    """Those of IP, TCP and GRE. Packets are rebuilt: the capture has some not yet computed."""
    segments_before = [s for s in map(dissect, packets_of(NAME)) if s is not None]
    alter = TRANSFORMATIONS[label].alter
    assert alter is not None
    noise = random.Random(label)
    packets = alter([rebuild(segment) for segment in segments_before], noise)
    path = tmp_path / "capture"
    path.write_bytes(plain_file(packets, noise))
    wrong = tshark(
        path,
        *("-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"),
        *("-Y", "ip.checksum.status==0 || tcp.checksum.status==0 || gre.checksum.status==0"),
    )
    assert wrong == []


@pytest.mark.long
@pytest.mark.parametrize("label", ["every packet twice", "sent again", "probed"])
def test_tshark_takes_copies_for_retransmissions_or_probes(label: str, tmp_path: Path) -> None:
    alter = TRANSFORMATIONS[label].alter
    assert alter is not None
    more = len(alter(list(packets_of(NAME)), random.Random(f"{NAME} {label}")))
    (data,) = altered(NAME, label).files
    path = tmp_path / "capture"
    path.write_bytes(data)
    odd = tshark(path, "-Y", "tcp.analysis.flags")
    assert more > len(packets_of(NAME))
    assert len(odd) >= (more - len(packets_of(NAME))) // 3
