from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import zlib

import pytest

from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.io.source import capture_name, open_source
from kanalyze.capture.merge import MergedCaptures
from kanalyze.errors import CaptureError
from tests.support.packets import Packet, pcap_file, pcapng_file
from tests.support.waiting import LONG_S

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def test_reading_continues_at_the_offset_of_a_seek(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"0123456789")
    source = open_source(path)
    assert source.can_seek
    target = bytearray(4)
    for offset, expected in ((7, b"789"), (1, b"1234"), (99, b"")):
        source.seek(offset)
        count = source.readinto(memoryview(target))
        assert bytes(target[:count]) == expected
    assert source.bytes_read == 7
    source.close()


def test_a_pipe_cannot_be_read_from_another_offset():
    reading, writing = os.pipe()
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        source = open_source(pipe, "pipe")
        assert not source.can_seek
        with pytest.raises(CaptureError, match=r"^pipe: illegal seek$"):
            source.seek(4)


PRINT_BATCHES = """
import sys
from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
with MergedCaptures(find_inputs(sys.argv[1:])) as merged:
    for batch in merged.batches():
        print(batch.number[0], batch.number[-1], merged.names, flush=True)
"""


def packed_in_two(form: str, first: bytes, second: bytes) -> list[bytes]:
    """Two portions of one compressed stream, the first flushed."""
    packer = zlib.compressobj(wbits=31) if form == "gzip" else zstd.ZstdCompressor()
    flush = zlib.Z_SYNC_FLUSH if form == "gzip" else zstd.ZstdCompressor.FLUSH_BLOCK
    return [packer.compress(first) + packer.flush(flush), packer.compress(second) + packer.flush()]


def portions(form: str) -> list[bytes]:
    """A capture of 3 and 2 packets, in two portions that both end with a packet."""
    packets = [Packet(b"packet %d" % i, i) for i in range(5)]
    build = pcapng_file if form == "pcapng" else pcap_file
    whole, first = build(packets), build(packets[:3])
    assert whole.startswith(first)
    if form in {"gzip", "zstd"}:
        return packed_in_two(form, first, whole[len(first) :])
    return [first, whole[len(first) :]]


FORMS = pytest.mark.parametrize("form", ["pcap", "pcapng", "gzip", "zstd"])


@FORMS
def test_packets_on_standard_input_are_given_before_the_writer_ends(form):
    first, second = portions(form)
    with subprocess.Popen(
        [sys.executable, "-c", PRINT_BATCHES, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdin.write(first)
        process.stdin.flush()
        # The writer continues only after the reader has printed this.
        assert process.stdout.readline() == b"1 3 ['-']\n"
        process.stdin.write(second)
        process.stdin.close()
        assert process.stdout.readline() == b"4 5 ['-']\n"
        assert process.wait() == 0


@FORMS
def test_packets_from_a_named_pipe_are_given_before_the_writer_ends(form, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    first, second = portions(form)
    seen = threading.Event()
    in_time = []

    def write() -> None:
        with fifo.open("wb", buffering=0) as sink:
            sink.write(first)
            in_time.append(seen.wait(LONG_S))
            sink.write(second)

    writer = threading.Thread(target=write)
    writer.start()
    sizes = []
    with MergedCaptures(find_inputs([fifo])) as merged:
        for batch in merged.batches():
            sizes.append(len(batch))
            seen.set()
    writer.join()
    assert in_time == [True]
    assert sizes == [3, 2]
    assert merged.names == [str(fifo)]
    assert merged.progress[1] is None
    assert merged.anomalies == []


def test_a_capture_is_named_by_its_argument_without_credentials():
    assert capture_name("-") == "-"
    assert capture_name("a/b.pcap") == "a/b.pcap"
    assert capture_name("") == "''"
    assert capture_name(io.BytesIO()) == "<stream>"
    assert capture_name("s3://key:word@bucket/a.pcap?x=y") == "s3://bucket/a.pcap"
