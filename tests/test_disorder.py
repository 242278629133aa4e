"""Captures in disorder: the rows are the same, except for packet numbers.

Every transformation of every capture is ``long``; by default every transformation is
tried on a small capture, and the captures that matter with one combination of three.
"""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

import dpkt
import pytest

from tests.support.captures import CHOSEN, NAMES, often, path, truth
from tests.support.disorder import (
    BEYOND,
    TRANSFORMATIONS,
    Stage,
    Transformation,
    altered,
    combination,
    packets_of,
    variants,
)
from tests.support.disorder.__main__ import main
from tests.support.disorder.capture_files import read_packets
from tests.support.disorder.compare import differences, untrue_rows
from tests.support.disorder.flows import streams, with_payload
from tests.support.disorder.fragments import fragmented
from tests.support.disorder.numbers import sequences_wrap
from tests.support.disorder.packet import checksum, dissect

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.disorder.packet import Packet

SMALL = [name for name in NAMES if name != "tls" and truth(name)["packets"] < 400]
SAME_STREAMS = [
    label
    for label, step in TRANSFORMATIONS.items()
    if step.stage in (Stage.TIMES, Stage.ORDER, Stage.CUTS, Stage.COPIES)
]
ROUNDS = 4


def a_small_capture(label: str) -> str:
    """The small capture that a transformation is tried on, always the same one."""
    return random.Random(label).choice(SMALL)


@pytest.mark.few(16)
@pytest.mark.parametrize("label", TRANSFORMATIONS)
def test_a_transformed_capture_gives_the_same_rows(label: str, tmp_path: Path) -> None:
    assert differences(a_small_capture(label), [label], tmp_path) == []


@pytest.mark.few(5)
@pytest.mark.parametrize("name", often(NAMES, [one for one in CHOSEN if one != "codecs"]))
def test_three_transformations_together_give_the_same_rows(name: str, tmp_path: Path) -> None:
    assert differences(name, combination(name), tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("label", TRANSFORMATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_every_transformation_of_every_capture_gives_the_same_rows(
    name: str, label: str, tmp_path: Path
) -> None:
    assert differences(name, [label], tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
@pytest.mark.parametrize("name", NAMES)
def test_other_combinations_of_three_give_the_same_rows(
    name: str, number: int, tmp_path: Path
) -> None:
    assert differences(name, combination(name, number), tmp_path) == []


@pytest.mark.few(9)
@pytest.mark.parametrize("label", BEYOND)
@pytest.mark.parametrize("name", ["mock", "large", "transactions"])
def test_no_row_is_wrong_after_disorder_beyond_repair(
    name: str, label: str, tmp_path: Path
) -> None:
    assert untrue_rows(name, [label], tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("label", BEYOND)
@pytest.mark.parametrize("name", NAMES)
def test_no_row_is_wrong_after_any_disorder_beyond_repair(
    name: str, label: str, tmp_path: Path
) -> None:
    assert untrue_rows(name, [label], tmp_path) == []


@pytest.mark.parametrize("way", ["list", "glob"])
def test_rotated_files_may_be_named_in_a_list_or_by_a_glob(way: str, tmp_path: Path) -> None:
    def arguments(folder: Path) -> list[str]:
        return sorted(map(str, folder.iterdir())) if way == "list" else [f"{folder}/*.capture"]

    assert differences("basics", ["seven files"], tmp_path, arguments) == []


def test_missing_bytes_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: a capture without its last payload has other rows."""

    def without_the_last(packets: list[Packet], _: random.Random) -> list[Packet]:
        last = max(index for index, _ in with_payload(packets))
        return packets[:last] + packets[last + 1 :]

    lossy = Transformation(Stage.COPIES, without_the_last)
    monkeypatch.setitem(TRANSFORMATIONS, "without the last", lossy)
    assert differences("mock", ["without the last"], tmp_path) != []


def test_rows_of_another_capture_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Transformation(Stage.COPIES, lambda *_: list(packets_of("waits")))
    monkeypatch.setitem(BEYOND, "another capture", other)
    assert untrue_rows("mock", ["another capture"], tmp_path) != []


# -- the harness itself ---------------------------------------------------------------------------


@pytest.mark.few(13)
@pytest.mark.parametrize("label", SAME_STREAMS)
def test_other_segments_carry_the_same_streams(label: str) -> None:
    step = TRANSFORMATIONS[label]
    packets = list(packets_of("waits"))
    before = streams(packets)
    for alter in (step.alter, step.same_rows_as):
        if alter is not None:
            assert streams(alter(packets, random.Random(3))) == before


@pytest.mark.parametrize("name", NAMES)
def test_packets_are_read_as_dpkt_reads_them(name: str) -> None:
    data = path(name).read_bytes()
    ours = [(packet.time_ns, packet.data) for packet in packets_of(name)]
    assert len(ours) == truth(name)["packets"]
    with io.BytesIO(data) as file:
        theirs = list(dpkt.pcap.UniversalReader(file))
    assert [data for _, data in ours] == [data for _, data in theirs]
    # dpkt's times are floats or decimals of seconds: right to a microsecond.
    assert all(
        abs(time_ns - int(seconds * 1_000_000) * 1000) < 2000
        for (time_ns, _), (seconds, _) in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize(
    "label",
    [
        "written again",
        "pcap, big-endian",
        "pcapng",
        "pcapng, big-endian",
        "pcapng of several sections",
    ],
)
def test_files_are_written_so_that_dpkt_reads_the_same_packets(label: str) -> None:
    (data,) = altered("mock", label).files
    with io.BytesIO(data) as file:
        found = [packet for _, packet in dpkt.pcap.UniversalReader(file)]
    assert found == [packet.data for packet in packets_of("mock")]


def test_the_same_seed_gives_the_same_bytes() -> None:
    labels = combination("waits")
    assert altered("waits", *labels).files == altered("waits", *labels).files


def test_sequence_numbers_do_wrap() -> None:
    packets = sequences_wrap(list(packets_of("large")), random.Random(0))
    across = [s for s in map(dissect, packets) if s and s.next_sequence < s.sequence]
    assert across
    assert all(segment.length for segment in across)


def test_fragmenting_gives_more_packets_and_no_whole_segment() -> None:
    packets = list(packets_of("large"))
    parts = fragmented(packets, random.Random(0))
    assert len(parts) > 2 * len(packets)
    assert sum(1 for part in parts if dissect(part) is None) == len(parts)


@pytest.mark.parametrize(
    "label", ["cut at random", "sequence numbers at random", "other IP version"]
)
def test_packets_that_are_built_have_the_right_checksums(label: str) -> None:
    (data,) = altered("waits", label).files
    # A packet that is left as it was may have been captured before its checksum was computed.
    built = set(read_packets(data)) - set(packets_of("waits"))
    assert len(built) > 100
    for segment in map(dissect, built):
        assert segment is not None
        header = segment.packet.data[segment.network_at : segment.tcp_at]
        tcp = segment.packet.data[segment.tcp_at : segment.payload_at + segment.length]
        size = len(tcp).to_bytes(4, "big") + (6).to_bytes(4, "big")
        assert checksum(segment.source + segment.destination + size + tcp) == 0
        assert segment.is_ipv6 or checksum(header) == 0


def test_variants_are_given_with_the_columns_that_may_differ() -> None:
    found = {
        label: (files, columns) for label, files, columns in variants("any", ["VLAN", "joined"])
    }
    assert list(found) == ["VLAN", "joined"]
    assert len(read_packets(found["VLAN"][0][0])) == truth("any")["packets"]
    assert found["VLAN"][1] == ("capture", "request_packet", "response_packet")
    assert "request_end_ns" in found["joined"][1]


def test_all_variants_are_every_transformation_and_a_combination() -> None:
    labels = [variant.label for variant in variants("snaplen")]
    assert labels[:-1] == list(TRANSFORMATIONS)
    assert labels[-1] == " + ".join(combination("snaplen"))


@pytest.mark.parametrize(("label", "count"), [("VLAN + gzip", 1), ("seven files", 7)])
def test_a_transformed_capture_can_be_written_to_look_at_it(
    label: str, count: int, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    main(["mock", label, str(out)])
    written = [out] if out.is_file() else sorted(out.iterdir())
    assert [file.read_bytes() for file in written] == altered("mock", *label.split(" + ")).files
    assert len(written) == count


def test_a_transformation_that_does_not_exist_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["mock", "turned inside out", str(tmp_path / "out")])
    assert "turned inside out" in capsys.readouterr().err
