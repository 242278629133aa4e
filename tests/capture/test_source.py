from __future__ import annotations

import io
import subprocess
import sys

import pytest

from kanalyze.capture.source import open_source
from kanalyze.errors import CaptureError
from tests.support.packets import Packet, pcap_file

COUNT_STDIN = """
from kanalyze.capture.reader import open_capture
with open_capture("-") as reader:
    print(sum(len(batch) for batch in reader.batches()), reader.name, reader.total_bytes)
"""


def test_bytes_are_counted_as_they_are_read():
    source = open_source(io.BytesIO(b"0123456789"), "x")
    target = bytearray(4)
    sizes = [source.readinto(memoryview(target)) for _ in range(4)]
    assert sizes == [4, 4, 2, 0]
    assert source.bytes_read == 10


def test_standard_input_is_read_to_its_end():
    run = subprocess.run(
        [sys.executable, "-c", COUNT_STDIN],
        input=pcap_file([Packet(b"x")] * 5),
        capture_output=True,
        check=True,
    )
    assert run.stdout.decode().strip() == "5 standard input None"


def test_an_unreadable_path_is_an_error():
    with pytest.raises(CaptureError, match="no such file"):
        open_source("/no/such/file")
