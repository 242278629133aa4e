from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.repeat import FILE_HEADER_BYTES, repeat
from benchmarks.rotate import rotate
from tests.support.captures import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 20_000
LARGEST_PACKET_BYTES = 65_600


def test_the_files_together_are_one_long_capture(tmp_path: Path) -> None:
    repeat(FOLDER / "basics.pcap", 3, tmp_path / "long.pcap")
    files = rotate(FOLDER / "basics.pcap", 3, MAX_BYTES, tmp_path / "rotated")

    long = (tmp_path / "long.pcap").read_bytes()
    header = long[:FILE_HEADER_BYTES]
    contents = [file.read_bytes() for file in files]
    assert sorted((tmp_path / "rotated").iterdir()) == files
    assert {data[:FILE_HEADER_BYTES] for data in contents} == {header}
    assert header + b"".join(data[FILE_HEADER_BYTES:] for data in contents) == long


def test_a_file_ends_with_the_packet_that_makes_it_too_large(tmp_path: Path) -> None:
    files = rotate(FOLDER / "basics.pcap", 3, MAX_BYTES, tmp_path / "rotated")
    sizes = [file.stat().st_size for file in files]
    assert len(files) > 2
    assert all(MAX_BYTES < size < MAX_BYTES + LARGEST_PACKET_BYTES for size in sizes[:-1])
    assert sizes[-1] > FILE_HEADER_BYTES


def test_a_file_that_is_no_capture_makes_no_folder(tmp_path: Path) -> None:
    (tmp_path / "no.pcap").write_bytes(b"x" * 100)
    with pytest.raises(BenchmarkError, match=r"no\.pcap"):
        rotate(tmp_path / "no.pcap", 3, MAX_BYTES, tmp_path / "rotated")
    assert not (tmp_path / "rotated").exists()
