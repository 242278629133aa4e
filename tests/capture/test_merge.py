from __future__ import annotations

import gzip
import io
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.capture.inputs import FoundCapture, find_inputs
from kanalyze.capture.merge import UNKNOWN_CAPTURE, MergedCaptures, PacketIndex
from kanalyze.common import paths
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import AnomalyKind
from tests.support.packets import (
    START_NS,
    Blocks,
    Packet,
    packets_in,
    pcap_file,
    pcapng_file,
    secrets_block,
)

pytestmark = pytest.mark.usefixtures("scan")

STEADY = settings(deadline=None, max_examples=40)


def packet(label: str, time: int) -> Packet:
    return Packet(label.encode(), START_NS + time)


def write(folder, files: dict[str, list[Packet]]) -> None:
    for name, packets in files.items():
        form = pcapng_file if name.endswith("ng") else pcap_file
        (folder / name).write_bytes(form(packets))


def read(merged: MergedCaptures) -> list[tuple[str, int]]:
    """Contents and times of all packets."""
    packets = packets_in(merged)
    assert merged.packets == len(packets)
    return [(packet.data.decode(), packet.time_ns - START_NS) for packet in packets]


def places_of(merged: MergedCaptures) -> list[tuple[str, int | None]]:
    return [merged.locate(number) for number in range(1, merged.packets + 1)]


TIMES = st.lists(st.integers(0, 30), max_size=40).map(sorted)


@STEADY
@given(TIMES, st.integers(1, 5), st.randoms(), st.sampled_from([64, 1 << 16]), st.booleans())
def test_packets_split_over_files_in_any_way_come_in_time_order(
    tmp_path_factory, times, count, random, buffer_bytes, as_pcapng
):
    folder = tmp_path_factory.mktemp("split")
    files = [[] for _ in range(count)]
    for number, time in enumerate(times):
        files[random.randrange(count)].append(packet(f"packet {number}", time))
    ending = "pcapng" if as_pcapng else "pcap"
    write(folder, {f"{i}.{ending}": packets for i, packets in enumerate(files)})
    inputs = find_inputs([folder])
    with MergedCaptures(inputs, buffer_bytes=buffer_bytes) as merged:
        out = read(merged)
    assert sorted(out) == sorted((f"packet {n}", time) for n, time in enumerate(times))
    assert [time for _, time in out] == times
    order = [found.path for found in inputs]
    assert merged.names == order
    by_path = {str(folder / f"{i}.{ending}"): packets for i, packets in enumerate(files)}
    previous = (-1, -1)
    for (content, time), (name, number) in zip(out, places_of(merged), strict=True):
        assert by_path[name][number - 1].data.decode() == content
        # Where times are equal, the order of the files decides.
        assert (time, order.index(name)) >= previous
        previous = (time, order.index(name))
    assert merged.anomalies == []


def test_rotated_files_are_read_without_copies_and_with_one_run_each(tmp_path):
    write(
        tmp_path,
        {
            f"{i}.pcap": [packet(f"{i}/{n}", 100 * i + n) for n in range(60)]
            # The next file begins at the very time at which this one ends.
            + [packet(f"{i}/last", 100 * i + 100)]
            for i in range(5)
        },
    )
    with MergedCaptures(find_inputs([tmp_path]), buffer_bytes=400) as merged:
        for batch in merged.batches():
            assert len(merged._open) == 1
            assert batch.buffer is merged._open[0].batch.buffer
        assert merged._packet_index.runs == 5
        assert len(merged._merger.buffer) == 0
    assert merged.packets == 305
    assert merged.locate(62) == (str(tmp_path / "1.pcap"), 1)


def test_the_batch_of_a_capture_is_passed_on_while_no_other_has_packets(tmp_path):
    quiet = [packet("first", 0), packet("late", 10_000)]
    busy = [packet(f"{n}", n + 1) for n in range(500)]
    write(tmp_path, {"quiet.pcap": quiet, "busy.pcap": busy})
    with MergedCaptures(find_inputs([tmp_path]), buffer_bytes=1000) as merged:
        passed_on = sum(
            any(batch.buffer is each.batch.buffer for each in merged._open)
            for batch in merged.batches()
        )
    assert merged.packets == 502
    assert passed_on > 10
    assert len(merged._merger.buffer) == 0


def test_overlapping_captures_are_merged_in_large_batches(tmp_path):
    files = {f"{k}.pcap": [packet(f"{k}/{n}", 3 * n + k) for n in range(2000)] for k in range(3)}
    write(tmp_path, files)
    with MergedCaptures(find_inputs([tmp_path])) as merged:
        sizes = [len(batch) for batch in merged.batches()]
    assert sum(sizes) == 6000
    assert len(sizes) <= 5
    assert merged.locate(5) == (str(tmp_path / "1.pcap"), 2)


def test_a_capture_whose_times_go_back_keeps_its_own_order(tmp_path):
    write(
        tmp_path,
        {
            "a.pcap": [packet("a1", 10), packet("a2", 30), packet("a3", 20), packet("a4", 40)],
            "b.pcap": [packet("b1", 15), packet("b2", 25), packet("b3", 35)],
        },
    )
    for buffer_bytes in (64, 4096):
        with MergedCaptures(find_inputs([tmp_path]), buffer_bytes=buffer_bytes) as merged:
            out = [content for content, _ in read(merged)]
        assert [content for content in out if content[0] == "a"] == ["a1", "a2", "a3", "a4"]
        assert [content for content in out if content[0] == "b"] == ["b1", "b2", "b3"]
    assert out == ["a1", "b1", "a2", "a3", "b2", "b3", "a4"]


def test_a_packet_with_a_time_in_the_future_does_not_delay_its_file(tmp_path):
    write(
        tmp_path,
        {
            "a.pcap": [packet("a1", 10), packet("a2", 1 << 40), packet("a3", 12)],
            "b.pcap": [packet("b1", 20), packet("b2", 25)],
        },
    )
    with MergedCaptures(find_inputs([tmp_path])) as merged:
        assert [content for content, _ in read(merged)] == ["a1", "a2", "a3", "b1", "b2"]


def test_each_capture_is_opened_when_its_time_comes_and_closed_at_its_end(tmp_path):
    write(
        tmp_path,
        {
            "a.pcap": [packet(f"a{n}", n) for n in range(50)],
            "b.pcap": [packet(f"b{n}", 40 + n) for n in range(50)],
            "c.pcap": [packet(f"c{n}", 1000 + n) for n in range(50)],
        },
    )
    with MergedCaptures(find_inputs([tmp_path]), buffer_bytes=64) as merged:
        opened = [
            "".join(merged.names[each.index][-6] for each in merged._open) for _ in merged.batches()
        ]
    assert list(dict.fromkeys(opened)) == ["a", "ab", "b", "c"]


def test_more_captures_than_may_be_open_are_read_and_late_ones_reported(tmp_path):
    write(
        tmp_path,
        {f"{k}.pcap": [packet(f"{k}/{n}", k + 10 * n) for n in range(30)] for k in range(5)},
    )
    with MergedCaptures(find_inputs([tmp_path]), max_open=3, buffer_bytes=64) as merged:
        seen = 0
        for batch in merged.batches():
            seen += len(batch)
            assert len(merged._open) <= 3
    assert seen == 150
    assert [anomaly.kind for anomaly in merged.anomalies] == [AnomalyKind.REORDER_LIMIT]
    assert "3.pcap: more than 3 captures overlap" in merged.anomalies[0].detail
    assert sorted(places_of(merged)) == [
        (str(tmp_path / f"{k}.pcap"), n) for k in range(5) for n in range(1, 31)
    ]


def test_more_rotated_files_than_may_be_open_are_no_anomaly(tmp_path):
    write(tmp_path, {f"{k}.pcap": [packet(f"{k}", k)] for k in range(9)})
    with MergedCaptures(find_inputs([tmp_path]), max_open=1) as merged:
        assert [content for content, _ in read(merged)] == list("012345678")
    assert merged.anomalies == []


def test_captures_without_packets_come_last(tmp_path):
    write(tmp_path, {"a.pcap": [], "b.pcap": [packet("b", 5)], "c.pcapng": []})
    with MergedCaptures(find_inputs([tmp_path])) as merged:
        assert read(merged) == [("b", 5)]
    assert merged.names == [str(tmp_path / name) for name in ("b.pcap", "a.pcap", "c.pcapng")]


@pytest.mark.parametrize("kinds", ["", "p", "ep", "pe", "ee", "eep", "f", "e|f", "e|g", "ee|gfg"])
def test_whether_captures_have_packets_is_known_before_they_are_read(kinds, tmp_path):
    """``e`` is an empty capture in a file, ``p`` one with packets; ``g`` and ``f`` are streams."""
    files, streams = [], []
    packets = [packet("x", 0), packet("y", 5)]
    for at, kind in enumerate(kinds.replace("|", "")):
        data = pcap_file(packets if kind in "pf" else [])
        if kind in "fg":
            streams.append(io.BytesIO(data))
        else:
            files.append(tmp_path / f"{at}.pcap")
            files[-1].write_bytes(data)
    captures = MergedCaptures([*files, *streams])
    assert captures.have_packets() == bool({*kinds} & {*"pf"})
    numbers = [number for batch in captures.batches() for number in batch.number]
    assert numbers == list(range(1, 1 + 2 * sum(kind in "pf" for kind in kinds)))
    assert len(captures.names) == len(files) + len(streams)


def test_an_anomaly_of_a_capture_has_its_name(tmp_path):
    write(tmp_path, {"a.pcap": [packet("a", 1)], "b.pcap": [packet("b", 2)]})
    cut = (tmp_path / "a.pcap").read_bytes() + b"1234"
    (tmp_path / "a.pcap").write_bytes(cut)
    with MergedCaptures(find_inputs([tmp_path])) as merged:
        read(merged)
    (anomaly,) = merged.anomalies
    assert anomaly.kind == AnomalyKind.CAPTURE_TRUNCATED
    assert anomaly.detail.startswith(f"{tmp_path / 'a.pcap'}: the file ends within a packet")
    assert anomaly.length == 4


def test_dropped_packets_are_summed_and_unknown_where_no_capture_has_them(tmp_path):
    b = Blocks()
    for k in range(3):
        data = b.section() + b.interface() + b.enhanced(Packet(b"x"), k)
        data += b.statistics(0, b.option(5, struct.pack("<Q", 10 + k))) if k else b""
        (tmp_path / f"{k}.pcapng").write_bytes(data)
    with MergedCaptures(find_inputs([tmp_path])) as merged:
        read_count = sum(len(batch) for batch in merged.batches())
    assert (read_count, merged.dropped_packets) == (3, 11 + 12)
    with MergedCaptures([tmp_path / "0.pcapng"]) as merged:
        assert sum(len(batch) for batch in merged.batches()) == 1
    assert merged.dropped_packets is None


def test_progress_rises_to_the_size_of_all_files(tmp_path):
    write(tmp_path, {f"{k}.pcap": [packet("x" * 50, n) for n in range(40)] for k in range(3)})
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    with MergedCaptures(find_inputs([tmp_path]), buffer_bytes=256) as merged:
        assert merged.progress == (0, total)
        seen = [merged.progress[0] for _ in merged.batches()]
    assert seen == sorted(seen)
    assert merged.progress == (total, total)
    assert merged.can_be_read_again


def test_file_objects_are_read_after_paths_one_after_another(tmp_path):
    write(tmp_path, {"a.pcap": [packet("a", 50)]})
    later = io.BytesIO(pcap_file([packet("x", 10), packet("y", 60)]))
    last = io.BytesIO(gzip.compress(pcap_file([packet("z", 20)])))
    with MergedCaptures([later, str(tmp_path / "a.pcap"), last]) as merged:
        assert [content for content, _ in read(merged)] == ["a", "x", "y", "z"]
    assert merged.names == [str(tmp_path / "a.pcap"), "<stream>", "<stream>"]
    assert merged.locate(3) == ("<stream>", 2)
    assert merged.locate(4) == ("<stream>", 1)
    assert merged.progress[1] is None
    assert not merged.can_be_read_again
    assert not later.closed


def test_paths_that_were_not_read_before_are_merged_by_time_too(tmp_path):
    write(tmp_path, {"a.pcap": [packet("a", 1), packet("c", 3)], "b.pcap": [packet("b", 2)]})
    with MergedCaptures([tmp_path / "a.pcap", str(tmp_path / "b.pcap")]) as merged:
        assert [content for content, _ in read(merged)] == ["a", "b", "c"]


def test_a_file_is_opened_once_and_in_a_folder_once_more_for_its_first_time(tmp_path, monkeypatch):
    write(tmp_path, {f"{k}.pcap": [packet("x", k)] for k in range(20)})
    opened = []
    real = paths.opened

    def count(path):
        opened.append(Path(path).name)
        return real(path)

    monkeypatch.setattr(paths, "opened", count)
    found = find_inputs([tmp_path])
    assert sorted(opened) == sorted(f"{k}.pcap" for k in range(20))
    opened.clear()
    with MergedCaptures(find_inputs([tmp_path / "3.pcap"])) as merged:
        read(merged)
    assert opened == ["3.pcap"]
    opened.clear()
    with MergedCaptures(found) as merged:
        read(merged)
    assert sorted(opened) == sorted(f"{k}.pcap" for k in range(20))


def test_a_packet_whose_place_was_forgotten_has_no_number(tmp_path):
    write(
        tmp_path,
        {f"{k}.pcap": [packet("x", 2 * n + k) for n in range(200)] for k in range(2)},
    )
    merged = MergedCaptures(find_inputs([tmp_path]))
    merged._packet_index = PacketIndex(max_runs=10)
    read(merged)
    assert merged.locate(1) == (UNKNOWN_CAPTURE, None)
    assert merged.locate(400) == (str(tmp_path / "1.pcap"), 200)


def test_file_metadata_of_all_captures_is_collected_once(tmp_path):
    b = Blocks()
    for k in range(3):
        data = b.section() + secrets_block(b, b"CLIENT_RANDOM a b") + b.interface()
        (tmp_path / f"{k}.pcapng").write_bytes(data + b.enhanced(Packet(b"x"), k))
    with MergedCaptures(find_inputs([tmp_path])) as merged:
        assert sum(len(batch) for batch in merged.batches()) == 3
    assert len(merged.description.decryption_secrets) == 1
    assert [each.capture[-8:] for each in merged.description.interfaces] == [
        "0.pcapng",
        "1.pcapng",
        "2.pcapng",
    ]


def test_files_are_closed_when_the_reading_is_abandoned(tmp_path):
    write(tmp_path, {f"{k}.pcap": [packet("x", k + n) for n in range(50)] for k in range(3)})
    merged = MergedCaptures(find_inputs([tmp_path]), buffer_bytes=64)
    batches = merged.batches()
    for _ in range(10):
        next(batches)
    files = [each.reader._file._file for each in merged._open]
    batches.close()
    assert len(files) > 1
    assert all(file.closed for file in files)


def test_a_file_that_was_deleted_is_an_error_of_one_line(tmp_path):
    write(tmp_path, {"a.pcap": [packet("a", 1)], "b.pcap": [packet("b", 2)]})
    found = find_inputs([tmp_path])
    (tmp_path / "b.pcap").unlink()
    with (
        pytest.raises(CaptureError, match=r"b\.pcap: no such file$"),
        MergedCaptures(found) as merged,
    ):
        read(merged)


def test_no_more_packets_are_read_than_a_capture_had_before(tmp_path):
    write(tmp_path, {"a.pcap": [packet(text, n) for n, text in enumerate("abcd")]})
    for most, expected in ((0, ""), (3, "abc"), (4, "abcd"), (9, "abcd")):
        found = FoundCapture(str(tmp_path / "a.pcap"), True, 0, most_packets=most)
        for buffer_bytes in (64, 1 << 20):
            with MergedCaptures([found], buffer_bytes=buffer_bytes) as merged:
                assert "".join(content for content, _ in read(merged)) == expected
            assert merged.packets == len(expected)


def test_packets_are_numbered_after_those_of_earlier_captures(tmp_path):
    write(tmp_path, {"a.pcap": [packet("a", 1), packet("b", 2)], "c.pcap": [packet("c", 3)]})
    index = PacketIndex()
    with MergedCaptures([str(tmp_path / "a.pcap")], packet_index=index) as first:
        assert [content for content, _ in read(first)] == ["a", "b"]
    with MergedCaptures(
        [str(tmp_path / "c.pcap")], packet_index=index, names=first.names
    ) as second:
        (batch,) = second.batches()
        assert list(batch.number) == [3]
    assert second.locate(3) == (str(tmp_path / "c.pcap"), 1)
    assert second.locate(2) == (str(tmp_path / "a.pcap"), 2)
