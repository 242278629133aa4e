from __future__ import annotations

import gzip
import itertools
import os
import pickle
import random
import struct

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.capture.inputs import FoundCapture, find_inputs, look_at
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.reader import NotACaptureError, open_capture
from kanalyze.capture.splits import (
    MIN_SPLIT_BYTES,
    Split,
    check_splits,
    open_split,
    plan_splits,
)
from kanalyze.errors import CaptureError, UsageError
from kanalyze.model.anomalies import AnomalyKind
from tests.support.captures import often
from tests.support.cases import examples
from tests.support.packets import (
    START_NS,
    Packet,
    lcap_file,
    modified_pcap_file,
    packets_in,
    pcap_file,
    pcapng_file,
    variant_pcap_file,
)

pytestmark = pytest.mark.usefixtures("scan")

LARGE = pytest.mark.parametrize(
    "scan", often(["compiled", "uncompiled"], ["compiled"]), indirect=True, scope="module"
)
"""For files of megabytes: uncompiled, the scan takes seconds; small files test the same rules."""

PACKETS = [Packet(bytes([i]) * (1 + i * 7 % 30), START_NS + i * 10**9, 100 + i) for i in range(14)]
FORMS = {
    "microseconds": lambda packets, order: pcap_file(packets, order=order, nanoseconds=False),
    "nanoseconds": lambda packets, order: pcap_file(packets, order=order),
    "modified": modified_pcap_file,
    "lcap of hardware": lcap_file,
    "lcap of software": lambda packets, order: lcap_file(packets, order, nanoseconds=False),
    "before 2.3": lambda packets, order: variant_pcap_file(
        packets, 0xA1B2C3D4, order=order, version=(2, 2), lengths_swapped=True
    ),
    "AIX": lambda packets, order: variant_pcap_file(
        packets,
        0xA1B2C3D4,
        order=order,
        version=(2, 2),
        link_type=6,
        nanoseconds=True,
        lengths_swapped=True,
    ),
}
FILES = {
    f"{form}, {order}": build(PACKETS, order) for form, build in FORMS.items() for order in "<>"
}


class SplitRun:
    """Read a file in splits, until the check accepts all of them."""

    def __init__(self, splits, buffer_bytes=4096):
        self.first_guess = []
        self.read_again = []
        self.found = {}
        for split in splits:
            self.read(split, buffer_bytes)
        self.first_guess = [ends for ends, _, _ in self.found.values()]
        while (check := check_splits([ends for ends, _, _ in self.found.values()])).again:
            self.read_again.append(check.again)
            assert len(self.read_again) <= len(splits)
            self.read(check.again, buffer_bytes)
        self.dropped = [split.split_index for split in check.dropped]
        kept = [self.found[ends.split.split_index] for ends in check.kept]
        self.packets = [packet for _, packets, _ in kept for packet in packets]
        self.anomalies = [anomaly for _, _, anomalies in kept for anomaly in anomalies]
        assert sum(ends.packets for ends in check.kept) == len(self.packets)
        assert sorted([*self.dropped, *(ends.split.split_index for ends in check.kept)]) == list(
            range(len(splits))
        )

    def read(self, split, buffer_bytes):
        with open_split(split, buffer_bytes=buffer_bytes) as reader:
            packets = packets_of(reader)
        assert reader.packets == len(packets)
        self.found[split.split_index] = (reader.ends, packets, reader.anomalies)


def packets_of(reader):
    return [(p.time_ns, p.data, p.wire_bytes, p.link_type) for p in packets_in(reader)]


def whole(path):
    with open_capture(path) as reader:
        return packets_of(reader), reader.anomalies


def splits_at(path, *cuts):
    """Splits of a file that meet at the offsets given."""
    ranges = itertools.pairwise([0, *sorted(cuts), None])
    return [
        Split(str(path), i, len(cuts) + 1, start, end, i == 0)
        for i, (start, end) in enumerate(ranges)
    ]


def planned(path, split_bytes=MIN_SPLIT_BYTES):
    return plan_splits(FoundCapture(str(path)), Stores(), split_bytes)


def offsets_of(packets, file_header=24, header=16):
    """The offsets of records in a standard file, and of the end of the last one."""
    sizes = (header + len(packet.data) for packet in packets)
    return list(itertools.accumulate(sizes, initial=file_header))


def check_against_whole(path, splits, buffer_bytes=4096):
    run = SplitRun(splits, buffer_bytes)
    packets, anomalies = whole(path)
    assert run.packets == packets
    assert run.anomalies == anomalies
    return run


# -- any file, any place ------------------------------------------------------------------------


@pytest.mark.few(4)
@pytest.mark.parametrize("form", FILES)
def test_a_file_split_at_any_byte_has_the_packets_of_the_whole(form, tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(FILES[form])
    packets, _ = whole(path)
    assert len(packets) == len(PACKETS)
    guessed_right = 0
    for cut in range(len(FILES[form]) + 2):
        run = SplitRun(splits_at(path, cut))
        assert run.packets == packets
        assert run.anomalies == []
        guessed_right += not run.read_again
    # No record begins after the last one.
    assert guessed_right >= len(FILES[form]) - 60


CUTS = st.lists(st.integers(0, 700), min_size=1, max_size=6)
MUTATIONS = st.lists(
    st.tuples(st.integers(24, 10_000), st.sampled_from([0, 1, 0x7F, 0xFF]) | st.integers(0, 255)),
    max_size=6,
)


@settings(deadline=None, max_examples=examples(200))
@given(
    st.sampled_from(list(FILES)), CUTS, MUTATIONS, st.integers(0, 500), st.sampled_from([64, 999])
)
def test_a_file_of_any_bytes_is_read_in_any_splits_like_the_whole(
    tmp_path_factory, form, cuts, mutations, lost_bytes, buffer_bytes
):
    data = bytearray(FILES[form])
    for place, value in mutations:
        data[24 + (place - 24) % (len(data) - 24)] = value
    path = tmp_path_factory.mktemp("any") / "x.pcap"
    path.write_bytes(data[: max(len(data) - lost_bytes, 28)])
    check_against_whole(path, splits_at(path, *cuts), buffer_bytes)


def test_a_file_with_a_header_alone_has_no_packets_in_any_split(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_file([]))
    for cuts in ([5], [24], [30], [5, 24, 30, 31]):
        run = check_against_whole(path, splits_at(path, *cuts))
        assert run.packets == []


def test_a_split_reports_the_offsets_of_its_packets(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_file(PACKETS))
    offsets = offsets_of(PACKETS)
    first, second, third = splits_at(path, offsets[5], offsets[9] - 1)
    with open_split(first) as reader:
        assert (reader.first_offset, reader.end_offset, reader.packets) == (None, 24, 0)
        assert len(packets_of(reader)) == 5
        assert (reader.first_offset, reader.end_offset) == (24, offsets[5])
        assert reader.ends == (first, 24, offsets[5], 5, False)
    with open_split(second) as reader:
        assert (reader.first_offset, reader.end_offset) == (None, None)
        assert [packet[1] for packet in packets_of(reader)] == [p.data for p in PACKETS[5:9]]
        assert reader.ends == (second, offsets[5], offsets[9], 4, False)
    with open_split(third) as reader:
        assert len(packets_of(reader)) == 5
        assert reader.ends == (third, offsets[9], offsets[14], 5, False)


def test_the_reader_of_a_split_has_the_attributes_of_a_capture(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_file(PACKETS, link_type=113))
    first, second = splits_at(path, 300)
    with open_capture(path) as expected, open_split(second) as reader:
        assert reader.description.interfaces == expected.description.interfaces
        assert reader.dropped_packets is None
        assert reader.name == str(path)
        assert packets_of(reader)
        assert reader.bytes_read > 0
    for split in (first, second):
        assert pickle.loads(pickle.dumps(split)) == split


# -- damage -------------------------------------------------------------------------------------


def test_no_split_owns_packets_after_a_corrupt_record(tmp_path):
    data = bytearray(pcap_file(PACKETS))
    offsets = offsets_of(PACKETS)
    data[offsets[6] + 8 : offsets[6] + 12] = struct.pack("<I", 300_000)
    path = tmp_path / "x.pcap"
    path.write_bytes(data)
    run = check_against_whole(path, splits_at(path, offsets[3], offsets[8], offsets[11]))
    assert len(run.packets) == 6
    assert [anomaly.kind for anomaly in run.anomalies] == [AnomalyKind.CAPTURE_CORRUPT]
    assert run.dropped == [2, 3]
    assert [ends.packets for ends in run.first_guess[2:]] == [3, 3]


def test_a_file_that_ends_within_a_packet_is_reported_once(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_file(PACKETS)[:-1])
    offsets = offsets_of(PACKETS)
    run = check_against_whole(path, splits_at(path, offsets[3], offsets[13] + 5))
    assert len(run.packets) == 13
    assert [anomaly.kind for anomaly in run.anomalies] == [AnomalyKind.CAPTURE_TRUNCATED]
    assert run.dropped == [2]


def test_a_file_that_ends_within_its_first_record_header_is_reported(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_file(PACKETS)[:37])
    run = check_against_whole(path, splits_at(path, 23, 30))
    assert [anomaly.length for anomaly in run.anomalies] == [13]


@LARGE
def test_splits_within_one_record_own_no_packets(tmp_path):
    packets = [Packet(b"before"), Packet(bytes(3_000_000)), *[Packet(b"after")] * 3]
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_file(packets, snap_bytes=4_000_000))
    following = offsets_of(packets)[2]
    run = check_against_whole(path, splits_at(path, 1000, 1_000_000, 2_000_000, following))
    assert run.dropped == [1, 2, 3]
    assert len(run.packets) == 5
    assert [ends.first_offset for ends in run.first_guess[1:4]] == [None] * 3
    assert run.read_again == []


# -- large files --------------------------------------------------------------------------------


def large_packets(make, count=3200):
    rng = random.Random(7)
    return [Packet(make(rng), START_NS + i * 10**7) for i in range(count)]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of 3.2 MB and the offsets of its records."""
    packets = large_packets(lambda rng: rng.randbytes(rng.randrange(60, 2000)))
    path = tmp_path_factory.mktemp("large") / "x.pcap"
    path.write_bytes(pcap_file(packets))
    return path, offsets_of(packets)


@LARGE
@pytest.mark.parametrize("buffer_bytes", [64, 1 << 20, 8 << 20])
def test_boundaries_of_records_are_found_in_a_large_file(large, buffer_bytes):
    path, offsets = large
    splits = planned(path)
    assert len(splits) == 3
    run = check_against_whole(path, splits, buffer_bytes)
    assert run.read_again == []
    for ends in run.first_guess[1:]:
        assert ends.first_offset == next(at for at in offsets if at >= ends.split.start)


def test_a_split_reads_little_beyond_its_range(large):
    path, offsets = large
    split = Split(str(path), 1, 3, offsets[1000], offsets[2000], True)
    with open_split(split) as reader:
        assert len(packets_of(reader)) == 1000
        assert reader.bytes_read <= offsets[2000] - offsets[1000] + 2 * 65536


@LARGE
def test_a_split_in_which_no_record_begins_reads_little_beyond_its_range(tmp_path):
    path = tmp_path / "x.pcap"
    size = 6 << 20
    path.write_bytes(pcap_file([Packet(b"x")]) + b"\xff" * size)
    split = Split(str(path), 1, 3, 1 << 20, 4 << 20, False)
    with open_split(split, buffer_bytes=1 << 20) as reader:
        assert packets_of(reader) == []
        assert reader.ends == (split, None, None, 0, False)
        assert reader.bytes_read <= (3 << 20) + 2 * 65536


def inner_capture(rng, start_ns=START_NS):
    """A capture of 60 kB, to be the content of a packet."""
    return pcap_file([Packet(rng.randbytes(100), start_ns + i) for i in range(517)])


@LARGE
def test_a_wrong_boundary_from_a_capture_within_a_packet_is_corrected(tmp_path):
    packets = large_packets(inner_capture, 60)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_file(packets))
    offsets = offsets_of(packets)
    run = check_against_whole(path, splits_at(path, offsets[20] + 1000, offsets[40] + 1000))
    # The inner captures end where their packets do, so their records chain on to those of the file.
    for ends, packet in zip(run.first_guess[1:], (20, 40), strict=True):
        assert offsets[packet] + 1000 < ends.first_offset < offsets[packet] + 1200
    assert [split.split_index for split in run.read_again] == [1, 2]
    assert all(split.is_exact and split.start in offsets for split in run.read_again)
    assert len(run.packets) == 60


@LARGE
@pytest.mark.parametrize(
    "make",
    [
        lambda rng: inner_capture(rng) + b"more",
        lambda rng: inner_capture(rng, START_NS - 400 * 86_400 * 10**9),
    ],
)
def test_a_capture_within_a_packet_that_is_longer_or_of_another_time_misleads_no_split(
    make, tmp_path
):
    packets = large_packets(make, 60)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_file(packets))
    offsets = offsets_of(packets)
    run = check_against_whole(path, splits_at(path, offsets[20] + 1000, offsets[40] + 1000))
    assert run.read_again == []


@LARGE
def test_a_file_whose_records_are_all_unlikely_is_read(tmp_path):
    packets = large_packets(lambda rng: rng.randbytes(2000), 1600)
    for packet in packets:
        packet.wire_bytes = 1
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_file(packets))
    run = check_against_whole(path, planned(path))
    assert [split.split_index for split in run.read_again] == [1, 2]


# -- plans --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FILES)
def test_a_plan_is_made_from_the_first_bytes_of_the_file(form, tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(FILES[form])
    os.truncate(path, 1 << 36)
    splits = planned(path, (1 << 34) - 1)
    assert [(split.split_index, split.split_count) for split in splits] == [
        (i, 4) for i in range(4)
    ]
    assert [(split.start, split.end) for split in splits] == [
        (i << 34, (i + 1) << 34 if i < 3 else None) for i in range(4)
    ]
    assert [split.is_exact for split in splits] == [True, False, False, False]
    assert {split.path for split in splits} == {str(path)}


def test_a_capture_that_cannot_be_divided_is_one_split(tmp_path):
    packets = large_packets(lambda rng: rng.randbytes(1000))
    files = {
        "ng.pcapng": pcapng_file(packets),
        "gz.pcap.gz": gzip.compress(pcap_file(packets), 0),
        "small.pcap": pcap_file(packets[:2000]),
    }
    for name, data in files.items():
        path = tmp_path / name
        path.write_bytes(data)
        (split,) = planned(path)
        assert split == (str(path), 0, 1, 0, None, True)
        known = FoundCapture(str(path), True, START_NS, 2 * MIN_SPLIT_BYTES)
        assert plan_splits(known, Stores(), MIN_SPLIT_BYTES) == [split]
        assert split.is_whole
        run = check_against_whole(path, [split], 1 << 20)
        assert len(run.packets) >= 2000


def test_a_pipe_is_not_opened_for_a_plan(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (str(fifo), "-"):
        assert [split.is_whole for split in planned(path)] == [True]


def test_a_file_that_is_known_to_be_small_is_not_opened_for_a_plan(tmp_path):
    found = FoundCapture(str(tmp_path / "gone"), True, 0, 2 * MIN_SPLIT_BYTES - 1)
    assert [split.is_whole for split in plan_splits(found, Stores(), MIN_SPLIT_BYTES)] == [True]


def test_a_file_of_twice_the_size_of_a_split_is_two_splits(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap_file([]))
    for size, count in ((2 * MIN_SPLIT_BYTES - 1, 1), (2 * MIN_SPLIT_BYTES, 2)):
        os.truncate(path, size)
        for found in (FoundCapture(str(path)), FoundCapture(str(path), True, None, size)):
            assert len(plan_splits(found, Stores(), MIN_SPLIT_BYTES)) == count


def test_a_plan_does_not_trust_the_size_that_was_read_before(large):
    path, _ = large
    found = look_at(find_inputs([path])[0], Stores())
    assert plan_splits(found, Stores(), MIN_SPLIT_BYTES) == planned(path)
    wrong = found._replace(total_bytes=1 << 40)
    assert plan_splits(wrong, Stores(), MIN_SPLIT_BYTES) == planned(path)


def test_splits_of_less_than_a_mebibyte_are_refused():
    with pytest.raises(UsageError, match=r"^splits of 1048575 bytes: 1048576 is the least$"):
        plan_splits(FoundCapture("x"), Stores(), MIN_SPLIT_BYTES - 1)


@LARGE
@pytest.mark.parametrize(
    "url", ["memory://large.pcap", pytest.param("file://{path}", marks=pytest.mark.long)]
)
def test_files_in_stores_are_read_in_splits(large, url):
    path, _ = large
    system = fsspec.filesystem("memory")
    system.pipe("/large.pcap", path.read_bytes())
    splits = plan_splits(FoundCapture(url.format(path=path)), Stores(), MIN_SPLIT_BYTES)
    assert len(splits) == 3
    assert SplitRun(splits, 1 << 20).packets == whole(path)[0]
    system.rm("/large.pcap")


# -- refusals -----------------------------------------------------------------------------------


def test_a_missing_file_and_a_file_that_is_no_capture_are_errors_of_one_line(tmp_path):
    with pytest.raises(CaptureError, match=r"gone\.pcap: no such file$"):
        planned(tmp_path / "gone.pcap")
    with pytest.raises(CaptureError, match=r"gone\.pcap: no such file$"):
        open_split(splits_at(tmp_path / "gone.pcap", 100)[1])
    notes = tmp_path / "notes.txt"
    notes.write_text("notes" * 1_000_000)
    (split,) = planned(notes)
    with pytest.raises(NotACaptureError, match=r"notes\.txt: is not a pcap or pcapng file"):
        open_split(split)


@pytest.mark.parametrize("data", [pcapng_file(PACKETS), gzip.compress(pcap_file(PACKETS))])
def test_a_file_replaced_by_one_that_cannot_be_split_is_an_error(tmp_path, data):
    path = tmp_path / "x.pcap"
    path.write_bytes(data)
    for split in splits_at(path, 100):
        with pytest.raises(CaptureError, match=r"x\.pcap: is not a plain pcap file"):
            open_split(split)
