"""Every kind of file, cut at every byte and changed at every byte.

The result is packets and anomalies, or a CaptureError of one line when the file is opened; never
another exception, and memory and time are in proportion to the bytes.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import sys
import time
import tracemalloc

import lz4.frame
import pytest

from kanalyze.capture.reader import open_capture
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import AnomalyKind
from tests.support.effort import took_soon
from tests.support.packets import (
    START_NS,
    Blocks,
    Packet,
    enhanced_with_options,
    lcap_file,
    modified_pcap_file,
    names_block,
    pcap_file,
    pcapng_file,
    secrets_block,
    section_with_options,
    variant_pcap_file,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PACKETS = [Packet(bytes([i + 1]) * (10 + i % 7), START_NS + i) for i in range(6)]


def everything(order: str) -> bytes:
    """A pcapng file with every kind of block."""
    b = Blocks(order)
    note = b.option(1, b"note") + b.option(0, b"")
    data = section_with_options(b, note) + secrets_block(b, b"CLIENT_RANDOM a b")
    data += b.interface(1, 64, b.option(2, b"eth0") + b.option(9, b"\x09") + b.option(11, b"\0x"))
    data += names_block(b, [("10.0.0.2", ["broker"]), ("::1", ["self", "me"])])
    data += enhanced_with_options(b, PACKETS[0], 1, b.option(4, b.pack("Q", 3)) + note)
    data += b.simple(PACKETS[1]) + b.obsolete(PACKETS[2], 9) + b.block(0xBAD, b"custom")
    data += b.enhanced(PACKETS[3], 5) + b.statistics(0, b.option(5, b.pack("Q", 7)) + note)
    return data + b.enhanced(PACKETS[4], 6)


PLAIN = {
    "pcap": pcap_file(PACKETS, order=">"),
    "modified pcap": modified_pcap_file(PACKETS),
    "lcap": lcap_file(PACKETS),
    "pcap 2.2": variant_pcap_file(PACKETS, 0xA1B2C3D4, version=(2, 2), lengths_swapped=True),
    "pcapng": everything("<") + everything(">"),
}
SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"abc"
SMALL = pcap_file(PACKETS)
HALVES = (SMALL[:100], SMALL[100:])
PACKED = {
    "gzip": b"".join(map(gzip.compress, HALVES)) + bytes(5),
    "zstd": SKIPPABLE + b"".join(map(zstd.compress, HALVES)),
    "lz4": lz4.frame.compress(HALVES[0]) + SKIPPABLE + lz4.frame.compress(HALVES[1]),
    "bzip2": b"".join(map(bz2.compress, HALVES)),
    "xz": lzma.compress(HALVES[0]) + bytes(8) + lzma.compress(HALVES[1]),
    "pcapng in gzip": gzip.compress(PLAIN["pcapng"]),
}
FILES = {**PLAIN, **PACKED}
EACH = pytest.mark.parametrize("form", FILES)


def read(data: bytes, buffer_bytes: int = 256):
    """Packets and the reader; checks that all packets are within the buffer."""
    packets = []
    with open_capture(io.BytesIO(data), name="x", buffer_bytes=buffer_bytes) as reader:
        for batch in reader.batches():
            for at, size, wire in zip(
                batch.offset.tolist(),
                batch.captured_bytes.tolist(),
                batch.wire_bytes.tolist(),
                strict=True,
            ):
                assert 0 <= at <= at + size <= len(batch.buffer)
                assert wire >= size
                packets.append(bytes(batch.buffer[at : at + size]))
        assert len(reader._buffer) <= 1 << 20
    assert all("\n" not in anomaly.detail for anomaly in reader.anomalies)
    return packets, reader


def read_or_refuse(data: bytes, buffer_bytes: int = 256):
    try:
        return read(data, buffer_bytes)
    except CaptureError as error:
        refused = str(error)
    assert refused.startswith("x: ")
    assert "\n" not in refused
    return None


@EACH
def test_a_whole_file_is_read_without_anomalies(form):
    packets, reader = read(FILES[form])
    assert len(packets) == (10 if "pcapng" in form else 6)
    assert reader.anomalies == []


@EACH
def test_a_file_cut_at_any_byte_gives_the_packets_before_the_cut(form):
    data = FILES[form]
    whole, _ = read(data)
    silent = 0
    for end in range(len(data)):
        result = read_or_refuse(data[:end])
        if result is None:
            continue
        packets, reader = result
        assert packets == whole[: len(packets)]
        kinds = [anomaly.kind for anomaly in reader.anomalies]
        assert set(kinds) <= {AnomalyKind.CAPTURE_TRUNCATED}
        silent += not kinds
    # Only a cut between two records, blocks or padding bytes looks like a regular end.
    assert silent <= (30 if form in PLAIN else 14)


def changed_at_every_byte(form: str, values) -> int:
    data = FILES[form]
    read_count = 0
    for place in range(len(data)):
        for value in values(data[place]):
            changed = data[:place] + bytes([value]) + data[place + 1 :]
            result = read_or_refuse(changed)
            if result is not None:
                packets, _ = result
                read_count += 1
                assert sum(map(len, packets)) <= 100 * len(SMALL)
    return read_count


@EACH
def test_a_changed_byte_gives_packets_anomalies_or_one_error(form):
    assert changed_at_every_byte(form, lambda byte: (byte ^ 0xFF,))


@pytest.mark.long
@EACH
def test_any_change_of_any_byte_gives_packets_anomalies_or_one_error(form):
    step = 9 if "pcapng" in form else 2
    assert changed_at_every_byte(form, lambda byte: range(byte % step, 256, step))


@pytest.mark.parametrize("form", ["gzip", "zstd", "lz4", "bzip2", "xz"])
def test_data_compressed_twice_is_refused_in_one_line(form):
    for inner in ("gzip", "xz", "zstd"):
        pack = {"gzip": gzip.compress, "xz": lzma.compress, "zstd": zstd.compress}[inner]
        twice = {
            "gzip": gzip.compress,
            "zstd": zstd.compress,
            "lz4": lz4.frame.compress,
            "bzip2": bz2.compress,
            "xz": lzma.compress,
        }[form](pack(SMALL))
        with pytest.raises(CaptureError, match=r"^x: is compressed twice") as caught:
            read(twice)
        assert f"({inner} data in " in str(caught.value)


def test_a_damaged_start_is_reported_as_damage_not_as_an_empty_file():
    with pytest.raises(CaptureError, match=r"^x: damaged gzip data \("):
        read(b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 20)
    with pytest.raises(CaptureError, match=r"^x: the zstd data is cut short$"):
        read(zstd.compress(SMALL)[:5])


@pytest.mark.parametrize(
    "data",
    [
        pcapng_file(PACKETS) + struct.pack("<II", 0xBAD, 0x0FFF_FFFC),
        pcapng_file(PACKETS) + struct.pack("<II", 6, 0x0FFF_FFFC),
        pcap_file(PACKETS, snap_bytes=1 << 28) + struct.pack("<IIII", 1, 1, 1 << 28, 1 << 28),
        zstd.compress(pcap_file(PACKETS)) + struct.pack("<II", 0x184D2A50, 0xFFFF_FFFF),
    ],
    ids=["unknown block", "packet block", "packet", "frame to be skipped"],
)
def test_a_large_size_takes_no_memory_before_its_bytes_come(data):
    tracemalloc.start()
    try:
        packets, reader = read(data + bytes(100), 64)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(packets) == 6
    assert [anomaly.kind for anomaly in reader.anomalies] == [AnomalyKind.CAPTURE_TRUNCATED]
    assert peak < 4 << 20


@pytest.mark.few(2)
@pytest.mark.parametrize("block", [b"", b"\2\0\0\0", b"\3\0\4\0abcd"])
def test_many_descriptions_cost_time_in_proportion_to_their_bytes(block):
    """Very many options and records: each is read once, and not all are kept."""
    b = Blocks()
    filler = (block or b"\1\0\0\0") * (150_000 // len(block or b"1234"))
    blocks = b.interface(options=filler) + b.block(4, filler) + b.statistics(0, filler)
    data = b.section() + b.interface() + blocks * 2
    data += enhanced_with_options(b, PACKETS[0], 1, filler)
    began = time.process_time()
    packets, reader = read_large(data)
    # Seconds if each option is read once; many minutes otherwise.
    assert took_soon(time.process_time() - began, 60)
    assert packets == 1
    assert len(reader.description.comments) <= 10_000


def read_large(data: bytes):
    with open_capture(io.BytesIO(data), name="x") as reader:
        return sum(len(batch) for batch in reader.batches()), reader
