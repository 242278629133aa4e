from __future__ import annotations

import bz2
import gzip
import lzma
import os
import sys
from pathlib import Path

import lz4.frame
import pytest

from kanalyze.capture.inputs import (
    find_inputs,
    find_readable,
    look_at,
)
from kanalyze.capture.io.stores import Stores
from kanalyze.common import paths
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import AnomalyKind
from tests.support.packets import Packet, pcap_file, pcapng_file

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@pytest.fixture
def folder(tmp_path):
    """Captures whose names are not in the order of their times, and other files."""
    (tmp_path / "a.pcap").write_bytes(pcap_file([Packet(b"x", 3_000)]))
    (tmp_path / "b.dat").write_bytes(pcapng_file([Packet(b"x", 1_000), Packet(b"y", 9_000)]))
    (tmp_path / "c.pcap.gz").write_bytes(gzip.compress(pcap_file([Packet(b"x", 2_000)])))
    (tmp_path / "no packets.pcap").write_bytes(pcap_file([]))
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "log.gz").write_bytes(gzip.compress(b"log"))
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8b\x08\x00garbage!")
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "d.pcap").write_bytes(pcap_file([Packet(b"x", 4_000)]))
    return tmp_path


def find_captures(arguments):
    return [found.path for found in find_inputs(arguments)]


def names(paths):
    return [Path(path).name for path in paths]


def test_a_folder_gives_its_captures_in_the_order_of_their_first_packets(folder):
    assert names(find_captures([folder])) == ["b.dat", "c.pcap.gz", "a.pcap", "no packets.pcap"]


def test_captures_in_a_folder_are_recognized_in_every_compression(tmp_path):
    skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    packers = {
        "gzip": gzip.compress,
        "zstd": zstd.compress,
        "zstd after a frame to be skipped": lambda data: skippable + zstd.compress(data),
        "lz4": lz4.frame.compress,
        "bzip2": bz2.compress,
        "xz": lzma.compress,
        "nothing": bytes,
    }
    for time, (name, pack) in enumerate(packers.items()):
        (tmp_path / name).write_bytes(pack(pcap_file([Packet(b"x", time)])))
        (tmp_path / f"{name}, no capture").write_bytes(pack(b"something else"))
        (tmp_path / f"{name}, twice").write_bytes(gzip.compress(pack(pack(b"")) or b"x"))
    assert names(find_captures([tmp_path])) == list(packers)


def test_inputs_have_the_first_time_and_size_that_were_read(folder):
    found = find_inputs([folder / "a.pcap", folder / "no packets.pcap"])
    assert [(each.looked_at, each.first_time_ns, each.total_bytes) for each in found] == [
        (True, 3_000, 41),
        (True, None, 24),
    ]
    assert find_inputs([folder / "a.pcap"])[0].looked_at is False


def test_a_glob_gives_the_files_it_matches(folder):
    assert names(find_captures([f"{folder}/*.pcap.gz"])) == ["c.pcap.gz"]
    assert names(find_captures([f"{folder}/[ab].*"])) == ["b.dat", "a.pcap"]
    assert names(find_captures([f"{folder}/a.pcap"])) == ["a.pcap"]


def test_a_file_with_the_signs_of_a_glob_in_its_name_is_that_file(folder):
    strange = folder / "a[1].pcap"
    strange.write_bytes(pcap_file([]))
    assert find_captures([strange]) == [str(strange)]


def test_files_named_in_several_ways_are_read_once(folder, monkeypatch):
    monkeypatch.chdir(folder)
    found = find_captures(["inner/d.pcap", "a.pcap", "./a.pcap", folder / "a.pcap", "inner"])
    assert found == ["a.pcap", "inner/d.pcap"]


def test_a_single_argument_is_returned_unread(folder):
    assert find_captures(["-"]) == ["-"]
    assert find_captures([f"{folder}/notes.txt"]) == [f"{folder}/notes.txt"]
    assert find_captures(["/no/such/file"]) == ["/no/such/file"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "^no capture given$"),
        (["{}/*.nothing"], r"\*\.nothing: no file has such a name$"),
        (["{}/inn*"], r"inn\*: no file has such a name$"),
        (["{}/hollow"], "hollow: no capture in this folder$"),
        (["{}/a.pcap", "{}/gone"], "gone: no such file$"),
        (["{}/notes.txt", "{}/empty.pcap"], r"no capture that can be read: .*notes\.txt: is not"),
        (["{}/e*.pcap", "{}/*.txt"], r"empty\.pcap: is empty, and 1 more$"),
        (["{}/a.pcap", "-"], "^-: can only be read alone"),
        (["{}/a.pcap", "{}/fifo"], "fifo: can only be read alone"),
    ],
)
def test_an_unreadable_argument_is_an_error_of_one_line(folder, arguments, message):
    (folder / "hollow").mkdir()
    os.mkfifo(folder / "fifo")
    with pytest.raises(CaptureError, match=message) as caught:
        find_captures([argument.format(folder) for argument in arguments])
    assert "\n" not in str(caught.value)


def test_files_that_are_no_captures_are_left_out_and_reported(folder):
    arguments = [folder / name for name in ("a.pcap", "b.dat", "notes.txt", "nowhere.pcap")]
    found, left_out = find_readable([*arguments, folder / "x*", folder / "a.pcap"], Stores())
    assert names(each.path for each in found) == ["b.dat", "a.pcap"]
    assert all(each.looked_at for each in found)
    assert {each.kind for each in left_out} == {AnomalyKind.CAPTURE_UNREADABLE}
    reasons = sorted(each.detail.removeprefix(f"{folder}/") for each in left_out)
    assert [text.partition(" (")[0] for text in reasons] == [
        "notes.txt: is not a pcap or pcapng file",
        "nowhere.pcap: no such file",
        "x*: no file has such a name",
    ]


def test_a_folder_in_which_nothing_is_a_capture_is_left_out(tmp_path):
    found, left_out = find_readable([tmp_path], Stores())
    assert found == []
    assert [each.detail for each in left_out] == [f"{tmp_path}: no capture in this folder"]


def test_unreadable_captures_in_a_folder_are_reported(folder, monkeypatch):
    """A file of another kind without the name of a capture is not reported."""
    (folder / "cut.dat").write_bytes(pcap_file([])[:20])
    (folder / "junk.pcap3.gz").write_bytes(b"junk")
    (folder / "junk.PCAPNG").write_bytes(b"junk")
    (folder / "gone").symlink_to("nowhere")
    (folder / "loop.cap").symlink_to("loop.cap")
    # Any user can open it, but not read it.
    (folder / "failing").symlink_to("/proc/self/mem")
    (folder / "locked.dat").write_bytes(pcap_file([]))
    before = paths.opened

    def opened(path):
        if Path(path).name == "locked.dat":
            raise PermissionError(13, "Permission denied", str(path))
        return before(path)

    monkeypatch.setattr(paths, "opened", opened)
    left_out = []
    found = find_inputs([folder], leave_out=left_out.append)
    assert names(each.path for each in found) == [
        "b.dat",
        "c.pcap.gz",
        "a.pcap",
        "no packets.pcap",
    ]
    assert {each.kind for each in left_out} == {AnomalyKind.CAPTURE_UNREADABLE}
    reasons = dict(each.detail.removeprefix(f"{folder}/").split(": ", 1) for each in left_out)
    assert {name: text.partition(" (")[0] for name, text in reasons.items()} == {
        "bad.gz": reasons["bad.gz"],
        "cut.dat": "the file's header is cut short",
        "empty.pcap": "is empty",
        "failing": "input/output error",
        "gone": "no such file",
        "junk.PCAPNG": "is not a pcap or pcapng file",
        "junk.pcap3.gz": "is not a pcap or pcapng file",
        "locked.dat": "permission denied",
        "loop.cap": "too many levels of symbolic links",
    }
    assert find_readable([folder], Stores())[1] == left_out


def test_a_folder_without_readable_captures_is_an_error_with_the_reason(tmp_path):
    (tmp_path / "a.pcap").write_bytes(b"")
    (tmp_path / "b.pcap").write_bytes(b"junk")
    with pytest.raises(CaptureError, match=r"that can be read: .*a\.pcap: is empty, and 1 more$"):
        find_inputs([tmp_path])


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("names", [["a.pcap", "b.pcap", "c.pcap"], ["*.pcap"], ["[bc]*", "a*"]])
def test_of_several_named_files_those_that_cannot_be_read_are_left_out(tmp_path, names, scheme):
    (tmp_path / "a.pcap").write_bytes(b"junk")
    (tmp_path / "b.pcap").write_bytes(pcap_file([]))
    (tmp_path / "c.pcap").write_bytes(b"")
    left_out = []
    arguments = [f"{scheme}{tmp_path}/{name}" for name in names]
    found = find_inputs(arguments, leave_out=left_out.append)
    assert [each.path for each in found] == [f"{scheme}{tmp_path}/b.pcap"]
    assert {each.kind for each in left_out} == {AnomalyKind.CAPTURE_UNREADABLE}
    reasons = sorted(each.detail.split(": ")[1].partition(" (")[0] for each in left_out)
    assert reasons == ["is empty", "is not a pcap or pcapng file"]


def test_a_glob_of_one_file_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "a.pcap").write_bytes(b"")
    [found] = find_inputs([f"{tmp_path}/*.pcap"])
    with pytest.raises(CaptureError, match=r"a\.pcap: is empty$"):
        look_at(found, Stores())


def test_files_that_are_written_are_skipped_where_they_are_not_named_themselves(folder):
    outputs = {paths.file_identity(folder / "a.pcap")}
    for argument in (folder, f"{folder}/*.pcap", f"file://{folder}", f"file://{folder}/*.pcap"):
        found = find_inputs([argument], outputs=outputs)
        assert "a.pcap" in names(find_captures([argument]))
        assert "a.pcap" not in names(each.path for each in found)
    found = find_inputs([folder / "a.pcap", folder / "b.dat"], outputs=outputs)
    assert names(each.path for each in found) == ["b.dat", "a.pcap"]
    with pytest.raises(CaptureError, match="no file has such a name"):
        find_inputs([f"{folder}/a.pc*"], outputs=outputs)


def test_a_pipe_is_an_error_and_not_left_out(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CaptureError, match="pipe: can be read only once"):
        find_readable([tmp_path / "pipe"], Stores())
