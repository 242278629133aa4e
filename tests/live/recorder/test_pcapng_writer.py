"""The reader of kanalyze and dpkt read the written files; *_tshark.py compares with tshark."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import resource
import stat
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import dpkt
import pytest

from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.live.recorder.files import PcapngWriter
from kanalyze.tls.keylog import KeyLog
from tests.support.packets import START_NS, Packet, make_batch, segment
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kanalyze.capture.file_metadata import FileMetadata

PACKETS = [
    Packet(segment(payload=b"x" * size), START_NS + number * 1_001, wire_bytes=500)
    for number, size in enumerate([0, 1, 2, 3, 4, 100])
]


def read(path: Path) -> tuple[list[tuple[int, int, bytes, int]], FileMetadata]:
    """Return time, wire bytes, bytes and link type of each packet, and the file's metadata."""
    packets = []
    with MergedCaptures(find_inputs([str(path)])) as captures:
        for batch in captures.batches():
            columns = (batch.time_ns, batch.wire_bytes, batch.offset, batch.captured_bytes)
            for time, wire, at, size, link_type in zip(*columns, batch.link_type, strict=True):
                packets.append(
                    (int(time), int(wire), bytes(batch.buffer[at : at + size]), link_type)
                )
        assert captures.anomalies == []
    return packets, captures.description


def as_read(packets: list[Packet]) -> list[tuple[int, int, bytes, int]]:
    return [(packet.time_ns, packet.wire, packet.data, packet.link_type) for packet in packets]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_written_packets_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "saved.pcapng"
    with PcapngWriter(path) as writer:
        for first, end in ((0, 4), (4, len(PACKETS))):
            writer.write(make_batch(PACKETS[first:end]))
            assert writer.packets == end == len(read(path)[0])
    assert read(path)[0] == as_read(PACKETS)
    with path.open("rb") as file:
        read_by_dpkt = [(time, data) for time, data in dpkt.pcapng.Reader(file)]
    assert [data for _, data in read_by_dpkt] == [packet.data for packet in PACKETS]
    # dpkt returns times as floats.
    times_s = [packet.time_ns / 10**9 for packet in PACKETS]
    assert [time for time, _ in read_by_dpkt] == pytest.approx(times_s, rel=0, abs=1e-6)


def test_each_link_type_has_an_interface_of_the_given_name(tmp_path: Path) -> None:
    raw = Packet(segment()[14:], START_NS, link_type=101)
    path = tmp_path / "saved.pcapng"
    with PcapngWriter(path, interface="eth0") as writer:
        writer.write(make_batch([PACKETS[0], raw, PACKETS[1]]))
        writer.write(make_batch([raw]))
    packets, description = read(path)
    assert packets == as_read([PACKETS[0], raw, PACKETS[1], raw])
    assert [(interface.name, interface.link_type) for interface in description.interfaces] == [
        ("eth0", 1),
        ("eth0", 101),
    ]


def test_comments_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "saved.pcapng"
    comments = {1: ["one", "caf\u00e9"], 3: ["\ud800", "x" * 70_000]}
    with PcapngWriter(path) as writer:
        writer.write(make_batch(PACKETS), comments)
    packets, description = read(path)
    assert packets == as_read(PACKETS)
    read_comments = [(comment.number, comment.text[:10]) for comment in description.comments]
    assert sorted(read_comments) == [(2, "caf\u00e9"), (2, "one"), (4, "\\ud800"), (4, "x" * 10)]


def test_without_packets_there_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "saved.pcapng"
    with PcapngWriter(path) as writer:
        writer.write(make_batch([]))
        writer.roll()
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_packets_keeps_the_existing_file(tmp_path: Path) -> None:
    """The run may be repeated."""
    path = tmp_path / "saved.pcapng"
    for count in (1, 0, 0):
        with PcapngWriter(path, max_files=2) as writer:
            writer.write(make_batch(PACKETS[:count]))
    assert names_in(tmp_path) == ["saved.pcapng"]
    assert len(read(path)[0]) == 1


def test_files_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "saved.pcapng"
    before = os.umask(0)
    try:
        with PcapngWriter(path, max_bytes=1) as writer:
            writer.write(make_batch(PACKETS))
            writer.write(make_batch(PACKETS))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    """A link may also be created after the start."""
    path, target = tmp_path / "saved.pcapng", tmp_path / "target"
    path.symlink_to(target)
    with pytest.raises(KanalyzeError, match=r"saved\.pcapng: it is a link$"):
        PcapngWriter(path)
    path.unlink()
    with PcapngWriter(path) as writer:
        path.symlink_to(target)
        with pytest.raises(FileExistsError, match="it is a link"):
            writer.write(make_batch(PACKETS))
        path.unlink()
        writer.write(make_batch(PACKETS))
    assert not target.exists()
    assert len(read(path)[0]) == len(PACKETS)


def test_a_link_with_the_name_of_a_numbered_file_is_replaced(tmp_path: Path) -> None:
    path, target = tmp_path / "saved.pcapng", tmp_path / "target"
    target.write_bytes(b"unchanged")
    (tmp_path / "saved-000001.pcapng").symlink_to(target)
    with PcapngWriter(path, max_bytes=1) as writer:
        writer.write(make_batch(PACKETS))
        writer.write(make_batch(PACKETS))
    assert target.read_bytes() == b"unchanged"
    assert not (tmp_path / "saved-000001.pcapng").is_symlink()


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "saved.pcapng"
    with PcapngWriter(path) as first, PcapngWriter(path) as second:
        first.write(make_batch(PACKETS))
        with pytest.raises(KanalyzeError, match="another run writes to it"):
            PcapngWriter(path)
        with pytest.raises(FileExistsError, match="another run writes to it"):
            second.write(make_batch(PACKETS))
        assert len(read(path)[0]) == len(PACKETS)
    PcapngWriter(path).close()


def test_a_new_file_is_started_after_the_file_is_moved(tmp_path: Path) -> None:
    """Tools that rotate log files move a file, and then ask for a new one."""
    path = tmp_path / "saved.pcapng"
    with PcapngWriter(path) as writer:
        writer.write(make_batch(PACKETS[:2]))
        path.rename(tmp_path / "was-moved")
        writer.roll()
        writer.write(make_batch(PACKETS[2:]))
    assert names_in(tmp_path) == ["saved.pcapng", "was-moved"]
    assert [len(read(tmp_path / name)[0]) for name in names_in(tmp_path)] == [4, 2]


def test_a_file_that_reaches_the_limit_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "saved.pcapng"
    with PcapngWriter(path, max_bytes=1000, max_files=3) as writer:
        for _ in range(12):
            writer.write(make_batch(PACKETS[:3]))
    names = names_in(tmp_path)
    assert (len(names), names[-1]) == (3, "saved.pcapng")
    first, second = (int(name[6:12]) for name in names[:2])
    assert second == first + 1 > 2
    counts = []
    for name in names_in(tmp_path):
        assert (tmp_path / name).stat().st_size <= 1000
        packets = read(tmp_path / name)[0]
        assert packets == as_read(PACKETS[:3]) * (len(packets) // 3)
        counts.append(len(packets))
    assert min(counts) > 0


def test_the_packets_of_one_write_are_in_one_file(tmp_path: Path) -> None:
    with PcapngWriter(tmp_path / "saved.pcapng", max_bytes=1, max_files=9) as writer:
        for _ in range(3):
            writer.write(make_batch(PACKETS))
    assert names_in(tmp_path) == ["saved-000001.pcapng", "saved-000002.pcapng", "saved.pcapng"]
    assert [len(read(path)[0]) for path in tmp_path.iterdir()] == [len(PACKETS)] * 3


def test_one_file_replaces_that_of_the_earlier_run(tmp_path: Path) -> None:
    for _ in range(3):
        with PcapngWriter(tmp_path / "saved.pcapng", max_files=1) as writer:
            writer.write(make_batch(PACKETS))
    assert names_in(tmp_path) == ["saved.pcapng"]


@pytest.mark.parametrize("content", [b"notes", b"\x0a\x0d\x0d\x0a another program's"])
def test_a_file_that_kanalyze_did_not_write_is_not_overwritten(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "saved.pcapng"
    os.mkfifo(path)
    with pytest.raises(KanalyzeError, match="not written by kanalyze"):
        PcapngWriter(path)
    path.unlink()
    path.write_bytes(content)
    with pytest.raises(KanalyzeError, match="not written by kanalyze"):
        PcapngWriter(path)
    assert path.read_bytes() == content


def test_files_with_other_names_are_never_removed(tmp_path: Path) -> None:
    others = [
        "saved-1.pcapng",
        "saved-000001.pcap",
        "other-000001.pcapng",
        "saved-000001.pcapng.gz",
    ]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    with PcapngWriter(tmp_path / "saved.pcapng", max_bytes=1, max_files=1) as writer:
        for _ in range(3):
            writer.write(make_batch(PACKETS))
    assert names_in(tmp_path) == sorted([*others, "saved.pcapng"])


def test_an_invalid_path_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(KanalyzeError, match="cannot write to") as caught:
        PcapngWriter(tmp_path / "no" / "saved.pcapng")
    assert "\n" not in str(caught.value)


@contextlib.contextmanager
def file_limit(size: int) -> Iterator[None]:
    """Limit the size of files: writes beyond it fail, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The system also sends a signal, which Python ignores.
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


RAW = Packet(segment()[14:], START_NS, link_type=101)


@pytest.mark.parametrize("free_bytes", [0, 1, 30, 200])
@pytest.mark.parametrize("packets_before", [0, 3])
def test_the_file_can_be_read_after_a_failed_write(
    tmp_path: Path, packets_before: int, free_bytes: int
) -> None:
    """The write may fail in the header, the description of an interface, or a packet."""
    path = tmp_path / "saved.pcapng"
    with PcapngWriter(path) as writer:
        writer.write(make_batch(PACKETS[:packets_before]))
        size = path.stat().st_size if packets_before else 0
        with file_limit(size + free_bytes):
            for _ in range(2):
                with pytest.raises(OSError, match="too large"):
                    writer.write(make_batch([RAW, *PACKETS]))
        assert path.stat().st_size == size
        assert writer.packets == packets_before
        writer.write(make_batch([PACKETS[0], RAW]))
    assert read(path)[0] == as_read([*PACKETS[:packets_before], PACKETS[0], RAW])


def test_renaming_a_full_file_is_tried_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "saved.pcapng"

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(errno.EROFS, "Read-only file system")

    with PcapngWriter(path, max_bytes=1) as writer:
        writer.write(make_batch(PACKETS[:1]))
        with monkeypatch.context() as patched:
            patched.setattr(pathlib.Path, "rename", refuse)
            for _ in range(2):
                with pytest.raises(OSError, match="Read-only"):
                    writer.write(make_batch(PACKETS))
        assert read(path)[0] == as_read(PACKETS[:1])
        writer.write(make_batch(PACKETS[1:2]))
    assert names_in(tmp_path) == ["saved-000001.pcapng", "saved.pcapng"]
    assert read(path)[0] == as_read(PACKETS[1:2])


KILLED = """
    import os, sys
    from kanalyze.live.recorder.files import PcapngWriter
    from tests.live.recorder.test_pcapng_writer import PACKETS
    from tests.support.packets import make_batch

    writer = PcapngWriter(sys.argv[1])
    writer.write(make_batch(PACKETS))
    os.kill(os.getpid(), 9)
"""


def test_the_file_of_a_killed_run_is_complete_and_renamed_by_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "saved.pcapng"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(path)]
    assert subprocess.run(command, check=False, timeout=LONG_S).returncode == -9
    assert read(path)[0] == as_read(PACKETS)
    with PcapngWriter(path) as writer:
        writer.write(make_batch(PACKETS[:1]))
    assert len(read(tmp_path / "saved-000001.pcapng")[0]) == len(PACKETS)
    assert len(read(path)[0]) == 1


@pytest.mark.parametrize("limit", ["max_bytes", "max_files"])
def test_limits_of_0_are_refused(tmp_path: Path, limit: str) -> None:
    with pytest.raises(UsageError):
        PcapngWriter(tmp_path / "saved.pcapng", **{limit: 0})


def test_each_file_has_the_secrets_of_all_used_sessions_once(tmp_path: Path) -> None:
    path, log = tmp_path / "saved.pcapng", KeyLog()
    lines = [f"CLIENT_RANDOM {number:064x} {number:096x}\n".encode() for number in range(3)]
    log.feed(b"".join(lines))
    batch = make_batch(PACKETS)

    def secrets_in(file: Path) -> list[bytes]:
        return [block.data for block in read(file)[1].decryption_secrets]

    with PcapngWriter(path, key_log=log) as writer:
        writer.write(batch)
        assert secrets_in(path) == []
        log.note_used((0).to_bytes(32, "big"))
        writer.write(batch)
        writer.write(batch)
        log.note_used((2).to_bytes(32, "big"))
        writer.write(batch)
        assert secrets_in(path) == [lines[0], lines[2]]
        writer.roll()
        writer.write(batch)
    assert secrets_in(path) == [lines[0] + lines[2]]
    assert read(path)[0] == as_read(PACKETS)
