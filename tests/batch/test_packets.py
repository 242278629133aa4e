"""The packets table holds the same packets as dpkt, another reader, finds."""

from __future__ import annotations

import io
import random
from decimal import Decimal

import dpkt
import numpy as np
import pytest

from kanalyze.batch.packets import PACKET_COLUMNS, packet_batches
from kanalyze.errors import CaptureError
from tests.support.captures import CHOSEN, NAMES, often, path
from tests.support.packets import START_NS, Packet, pcap_file


def rows(capture: str, **options):
    return [row for batch in packet_batches(capture, **options) for row in batch.to_pylist()]


def by_dpkt(capture: str) -> list[tuple[Decimal | float, bytes]]:
    """Time in seconds and bytes of each packet."""
    data = io.BytesIO(path(capture).read_bytes())
    is_pcapng = path(capture).suffix == ".pcapng"
    return list(dpkt.pcapng.Reader(data) if is_pcapng else dpkt.pcap.Reader(data))


@pytest.mark.parametrize("name", often(NAMES, CHOSEN))
def test_packets_of_every_capture_match_dpkt(name):
    found = rows(str(path(name)))
    expected = by_dpkt(name)
    assert [row["data"] for row in found] == [packet for _, packet in expected]
    assert [row["packet"] for row in found] == list(range(1, len(expected) + 1))
    for row, (time_s, _) in zip(found, expected, strict=True):
        # dpkt gives floats, except for pcap files with nanoseconds.
        inexact_ns = 1000 if isinstance(time_s, float) else 0
        assert abs(row["time_ns"] - int(Decimal(time_s) * 1_000_000_000)) <= inexact_ns
    assert {row["capture"] for row in found} == {str(path(name))}
    assert all(row["captured_bytes"] == len(row["data"]) for row in found)


def test_captured_and_original_sizes_are_kept(tmp_path):
    capture = tmp_path / "a.pcap"
    packets = [Packet(bytes([i]) * (i % 7), START_NS + i, 100 + i) for i in range(256)]
    capture.write_bytes(pcap_file(packets))
    found = rows(str(capture))
    assert [row["data"] for row in found] == [packet.data for packet in packets]
    assert [row["wire_bytes"] for row in found] == [packet.wire_bytes for packet in packets]
    assert [row["time_ns"] for row in found] == [packet.time_ns for packet in packets]
    assert {row["link_type"] for row in found} == {1}


def test_the_bytes_are_copied_out_of_the_readers_buffer(tmp_path):
    noise = random.Random(1)
    packets = [Packet(noise.randbytes(60_000), START_NS + i, 60_000) for i in range(300)]
    capture = tmp_path / "large.pcap"
    capture.write_bytes(pcap_file(packets))
    batches = list(packet_batches(str(capture)))
    assert len(batches) > 1
    found = [value for batch in batches for value in batch["data"].to_pylist()]
    assert found == [packet.data for packet in packets]


def test_packets_can_be_selected_by_their_metadata():
    capture = str(path("mock"))
    found = rows(capture, choose=lambda block: block.take(np.arange(3, len(block), 10)))
    assert found == rows(capture)[3::10]
    assert found
    assert rows(capture, choose=lambda block: block.take(np.arange(0))) == []


@pytest.mark.parametrize("names", [["data"], ["wire_bytes", "packet"], ["packet", "data"]])
def test_columns_can_be_selected(names):
    by_name = {column.name: column for column in PACKET_COLUMNS}
    capture = str(path("mock"))
    found = rows(capture, columns=[by_name[name] for name in names])
    assert found == [{name: row[name] for name in names} for row in rows(capture)]


def test_a_file_that_is_no_capture_is_an_error(tmp_path):
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"not at all")
    with pytest.raises(CaptureError, match=r"bad\.pcap: is not a pcap or pcapng file"):
        rows(str(bad))
