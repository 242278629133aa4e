"""Captures one after another in one file, as ``cat a.pcap b.pcap`` writes them."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import struct

import pytest

from kanalyze.capture.reader import open_capture
from kanalyze.capture.splits import MIN_SPLIT_BYTES
from kanalyze.cli.main import main
from kanalyze.model.anomalies import AnomalyKind
from tests.capture.test_splits import (
    FORMS,
    PACKETS,
    check_against_whole,
    packets_of,
    planned,
    splits_at,
)
from tests.support.captures import path
from tests.support.packets import START_NS, Packet, pcap_file, pcapng_file, variant_pcap_file

pytestmark = pytest.mark.usefixtures("scan")

EARLIER = [Packet(each.data, each.time_ns - 10**15, each.wire_bytes) for each in PACKETS[:5]]
PARTS = {
    f"{form}, {order}": build
    for form, make in {**FORMS, "pcapng": pcapng_file}.items()
    for order in "<>"
    for build in [lambda packets, make=make, order=order: make(packets, order)]
} | {
    "raw IP": lambda packets: pcap_file(packets, link_type=101),
    "no packet": lambda _: pcap_file([]),
}


def read(data, buffer_bytes=4096):
    with open_capture(io.BytesIO(data), name="x", buffer_bytes=buffer_bytes) as reader:
        return packets_of(reader), reader.anomalies


def begins_of(*parts):
    """Offsets in the file of all parts but the first."""
    return list(itertools.accumulate(map(len, parts)))[:-1]


@pytest.mark.parametrize("first", PARTS)
def test_all_captures_of_a_file_are_read_in_its_order(first):
    begin = PARTS[first](PACKETS)
    for form, build in PARTS.items():
        end = build(EARLIER)
        expected = read(begin)[0] + read(end)[0]
        for buffer_bytes in (64, 4096):
            packets, anomalies = read(begin + end, buffer_bytes)
            assert packets == expected, form
            if first.startswith("pcapng") and form.startswith("pcapng"):
                assert anomalies == []  # a section of pcapng
                continue
            [anomaly] = anomalies
            assert anomaly.kind == AnomalyKind.ANOTHER_CAPTURE
            assert anomaly.detail == f"another capture begins at byte {len(begin)}: it is read on"


def test_compressed_captures_that_follow_each_other_are_read():
    parts = [PARTS[form](PACKETS) for form in ("nanoseconds, <", "pcapng, >", "microseconds, >")]
    packets, anomalies = read(b"".join(map(gzip.compress, parts)))
    assert packets == [packet for part in parts for packet in read(part)[0]]
    assert [int(each.detail.split()[5].rstrip(":")) for each in anomalies] == begins_of(*parts)


@pytest.mark.parametrize("form", ["nanoseconds, >", "pcapng, <", "lcap of hardware, <"])
def test_a_second_capture_that_is_cut_anywhere_gives_what_came_before(form):
    begin, end = PARTS["microseconds, <"](PACKETS), PARTS[form](EARLIER)
    first, whole = read(begin)[0], read(begin + end)[0]
    for size in range(len(end)):
        packets, anomalies = read(begin + end[:size], 64)
        assert packets == whole[: len(packets)]
        assert len(packets) >= len(first)
        assert len(anomalies) <= 2


def test_a_second_header_of_an_unknown_version_ends_the_reading_with_an_anomaly():
    later = bytearray(pcapng_file(EARLIER))
    later[12:14] = struct.pack("<H", 9)
    packets, anomalies = read(pcap_file(PACKETS) + later)
    assert len(packets) == len(PACKETS)
    assert [each.kind for each in anomalies] == ["another_capture", "capture_corrupt"]
    assert anomalies[1].detail == "pcapng version 9 is not known (1 is)"


def test_a_header_inside_a_packet_and_packets_that_resemble_one_are_packets():
    """A packet may contain a capture, be empty, or be of the year that is the magic number."""
    odd = [
        Packet(pcap_file(PACKETS), START_NS),
        Packet(b"", START_NS, 0),
        Packet(b"", 0xA1B2C3D4 * 10**9, 0),
        Packet(b"x" * 60, 0xA1B2C3D4 * 10**9),
        Packet(b"x" * 60, 0xD4C3B2A1 * 10**9),
        Packet(b"x", 0x0A0D0D0A * 10**9),
    ]
    for order in "<>":
        for build in (pcap_file, pcapng_file):
            packets, anomalies = read(build(odd, order=order))
            assert [data for _, data, _, _ in packets] == [packet.data for packet in odd]
            assert anomalies == []


def test_of_many_captures_ten_are_named_and_the_others_counted():
    data = b"".join(pcap_file([packet]) for packet in PACKETS * 3)
    packets, anomalies = read(data)
    assert len(packets) == 3 * len(PACKETS)
    assert len(anomalies) == 10
    assert anomalies[-1].detail.endswith(": it is read on; 31 more begin after it")
    assert anomalies[0].detail.endswith(": it is read on")


def test_headers_alone_take_no_time_that_grows_with_the_square_of_their_number():
    count = 20_000
    packets, anomalies = read(pcap_file([]) * count + pcap_file(PACKETS), 8 << 20)
    assert len(packets) == len(PACKETS)
    assert f"{count - 10} more" in anomalies[-1].detail


@pytest.mark.few(2)
@pytest.mark.parametrize("form", ["nanoseconds, <", "microseconds, >", "raw IP", "pcapng, <"])
def test_a_file_of_several_captures_is_read_in_any_splits_like_the_whole(form, tmp_path):
    data = PARTS["nanoseconds, <"](PACKETS) + PARTS[form](EARLIER) + pcap_file(PACKETS)
    file = tmp_path / "x.pcap"
    file.write_bytes(data)
    for cut in range(0, len(data), 3):
        check_against_whole(file, splits_at(file, cut, min(cut + 400, len(data) - 1)))


def test_a_large_file_of_two_captures_is_divided_and_read_as_a_whole(tmp_path):
    packets = [Packet(bytes([i % 251]) * 1400, START_NS + i * 10**6) for i in range(2500)]
    file = tmp_path / "x.pcap"
    file.write_bytes(pcap_file(packets) + pcap_file(packets, link_type=101))
    splits = planned(file, MIN_SPLIT_BYTES)
    assert len(splits) > 3
    check_against_whole(file, splits, 1 << 20)


def test_a_command_reads_both_and_says_where_the_second_begins(tmp_path, capsys):
    """Packets are numbered on, and the report spans what both captured."""
    first, second = path("mock").read_bytes(), path("errors").read_bytes()
    file = tmp_path / "both.pcap"
    file.write_bytes(first + second)

    def rows(*arguments):
        assert main(["requests", "--format", "jsonl", *map(str, arguments)]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    before, after = rows(path("mock")), rows(path("errors"))
    packets = len(read(first)[0])
    both = rows(file)
    assert len(both) == len(before) + len(after)
    assert {row["request_packet"] for row in both} == {
        *(row["request_packet"] for row in before),
        *(row["request_packet"] + packets for row in after),
    }
    assert main(["report", str(file)]) == 0
    assert "another_capture 1" in capsys.readouterr().out
    assert main(["anomalies", "--kind", "another_capture", str(file)]) == 0
    assert f"another capture begins at byte {len(first)}" in capsys.readouterr().out


def test_a_variant_with_a_time_zone_in_its_header_is_another_capture_too():
    """No program writes the zone, but the field is there, where a record has its length."""
    for zone in (3600, -3600):
        later = bytearray(variant_pcap_file(EARLIER, 0xA1B2C3D4))
        later[8:12] = struct.pack("<i", zone)
        packets, anomalies = read(pcap_file(PACKETS) + later)
        assert len(packets) == len(PACKETS) + len(EARLIER)
        assert [each.kind for each in anomalies] == ["another_capture"]
