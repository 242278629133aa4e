from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.capture.reader import open_capture
from kanalyze.common import paths
from kanalyze.errors import CaptureError
from tests.support.packets import (
    START_NS,
    Blocks,
    Packet,
    packets_in,
    pcap_file,
    pcapng_file,
    timed,
)

pytestmark = pytest.mark.usefixtures("scan")

STEADY = settings(deadline=None)
PACKETS = [Packet(bytes([i + 1]) * (10 + i % 7), START_NS + i) for i in range(12)]
B = Blocks()
FILES = {
    "pcap": pcap_file(PACKETS),
    "pcapng": pcapng_file(PACKETS[:6])
    + B.block(0xBAD, b"unknown")
    + B.statistics(0, B.option(5, bytes(8)))
    + pcapng_file(PACKETS[6:], ">"),
}
GZIPPED = {name: gzip.compress(data) for name, data in FILES.items()}


def packets_of(reader):
    packets = packets_in(reader)
    assert all(packet.wire_bytes >= len(packet.data) for packet in packets)
    return [packet.data for packet in packets]


def read(data: bytes, buffer_bytes: int = 4096):
    with open_capture(io.BytesIO(data), name="x", buffer_bytes=buffer_bytes) as reader:
        return packets_of(reader), reader


def test_gzip_data_of_something_else_is_no_capture():
    with pytest.raises(CaptureError, match="not a pcap or pcapng file"):
        read(gzip.compress(b"hello, world"))
    with pytest.raises(CaptureError, match="is empty"):
        read(gzip.compress(b""))


MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, 10_000), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
    ),
    min_size=1,
    max_size=6,
)


@STEADY
@given(
    st.sampled_from([*FILES.values(), *GZIPPED.values()]), MUTATIONS, st.sampled_from([64, 4096])
)
def test_changed_bytes_raise_nothing_but_capture_errors(data, mutations, buffer_bytes):
    changed = bytearray(data)
    for place, value in mutations:
        changed[place % len(changed)] = value
    try:
        packets, _ = read(bytes(changed), buffer_bytes)
    except CaptureError:
        return
    assert sum(map(len, packets)) <= 100 * len(data)


@STEADY
@given(st.sampled_from(list(FILES.values())).map(lambda data: data[:28]), st.binary(max_size=300))
def test_any_bytes_after_a_good_start_raise_nothing_but_capture_errors(start, rest):
    try:
        packets, _ = read(start + rest, 64)
    except CaptureError:
        return
    assert sum(map(len, packets)) <= len(rest)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x: is empty"),
        (b"h", r"x: is not a pcap or pcapng file \(it begins with 68\)"),
        (b"hello, world\n" * 9, r"x: is not a pcap or pcapng file \(it begins with 68 65 6c 6c\)"),
        (FILES["pcap"][:23], "x: the file's header is cut short"),
        (FILES["pcapng"][:27], "x: the file's header is cut short"),
    ],
)
def test_a_file_that_is_no_capture_is_an_error_of_one_line(data, message):
    with pytest.raises(CaptureError, match=f"^{message}$"):
        read(data)


def test_a_missing_path_a_folder_and_a_forbidden_file_are_errors_of_one_line(tmp_path, monkeypatch):
    with pytest.raises(CaptureError, match=r"gone\.pcap: no such file$"):
        open_capture(tmp_path / "gone.pcap")
    with pytest.raises(CaptureError, match=f"^{tmp_path}: is a folder$"):
        open_capture(str(tmp_path))
    with pytest.raises(CaptureError, match="null"):
        open_capture("a\0b")

    def refuse(*_args, **_named):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(paths, "opened", refuse)
    with pytest.raises(CaptureError, match=r"x\.pcap: permission denied$"):
        open_capture("x.pcap")


def test_an_error_of_the_system_while_reading_is_a_capture_error():
    class Failing(io.RawIOBase):
        left = 100

        def readinto(self, target):
            if not self.left:
                raise OSError(5, "Input/output error")
            target[: self.left], count = FILES["pcap"][: self.left], self.left
            self.left = 0
            return count

    with (
        open_capture(Failing(), name="disk") as reader,
        pytest.raises(CaptureError, match=r"^disk: input/output error$"),
    ):
        packets_of(reader)


def test_progress_counts_the_bytes_of_the_file(tmp_path):
    for name, data in (("a.pcap", FILES["pcap"]), ("a.pcap.gz", GZIPPED["pcap"])):
        path = tmp_path / name
        path.write_bytes(data)
        with open_capture(path) as reader:
            assert reader.total_bytes == len(data)
            packets_of(reader)
            assert reader.bytes_read == len(data)
            assert reader.name == str(path)


def test_packets_are_numbered_from_a_given_number():
    with open_capture(io.BytesIO(FILES["pcap"]), buffer_bytes=64) as reader:
        numbers = [n for batch in reader.batches(first_number=101) for n in batch.number.tolist()]
    assert numbers == list(range(101, 101 + len(PACKETS)))
    assert reader.packets == len(PACKETS)


def test_a_file_object_needs_no_more_than_read():
    class Plain:
        def __init__(self, data):
            self.data = data

        def read(self, size):
            taken, self.data = self.data[: min(size, 7)], self.data[min(size, 7) :]
            return taken

    with open_capture(Plain(FILES["pcapng"])) as reader:
        assert packets_of(reader) == [p.data for p in PACKETS]
        assert reader.name == "<stream>"


def test_a_file_object_of_the_caller_stays_open(tmp_path):
    given_file = io.BytesIO(FILES["pcap"])
    with open_capture(given_file):
        pass
    assert not given_file.closed
    path = tmp_path / "a.pcap"
    path.write_bytes(FILES["pcap"])
    with path.open("rb") as handed_in, open_capture(handed_in) as reader:
        assert len(packets_of(reader)) == len(PACKETS)
        assert reader.total_bytes == len(FILES["pcap"])


def test_the_number_of_packets_of_a_batch_is_bounded(monkeypatch):
    monkeypatch.setattr("kanalyze.capture.reader.MAX_PACKETS", 7)
    packets = timed([b"%d" % index for index in range(20)])
    with open_capture(io.BytesIO(pcap_file(packets))) as reader:
        batches = [batch.number.tolist() for batch in reader.batches(5)]
    assert [len(numbers) for numbers in batches] == [7, 7, 6]
    assert [number for numbers in batches for number in numbers] == list(range(5, 25))
