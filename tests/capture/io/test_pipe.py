from __future__ import annotations

import contextlib
import gzip
import io
import os
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, BinaryIO

import pytest

from kanalyze.capture.io.pipe import PipeCapture
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import AnomalyKind
from tests.support.packets import pcap_file, pcapng_file, segment, timed
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.model.packets import PacketBatch
    from tests.support.netns import Namespace

FORMATS = {"pcap": pcap_file, "pcapng": pcapng_file}


@contextlib.contextmanager
def open_pipe() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    reading, writing = os.pipe()
    with (
        os.fdopen(reading, "rb", buffering=0) as reader,
        os.fdopen(writing, "wb", buffering=0) as writer,
    ):
        yield reader, writer


def data(batch: PacketBatch | None) -> list[bytes]:
    assert batch is not None
    pairs = zip(batch.offset.tolist(), batch.captured_bytes.tolist(), strict=True)
    return [bytes(batch.buffer[offset : offset + size]) for offset, size in pairs]


def packets_of(count: int) -> list[bytes]:
    return [segment(seq=number, payload=b"%05d" % number) for number in range(count)]


@pytest.mark.parametrize("format_name", FORMATS)
def test_packets_are_read_as_they_come(format_name: str) -> None:
    sent = packets_of(6)
    whole = FORMATS[format_name](timed(sent))
    before_last = FORMATS[format_name](timed(sent[:5]))
    with open_pipe() as (reader, writer), PipeCapture(reader, gather_s=0.02) as capture:
        assert capture.read(0.05) is None
        assert (capture.packets, capture.dropped_packets, capture.anomalies) == (0, None, [])
        writer.write(before_last)
        first = capture.read(LONG_S)
        assert data(first) == sent[:5]
        assert first is not None
        assert first.number.tolist() == [1, 2, 3, 4, 5]
        assert capture.read(0.05) is None
        writer.write(whole[len(before_last) : -3])
        assert capture.read(0.05) is None
        assert not capture.is_at_end
        writer.write(whole[-3:])
        second = capture.read(LONG_S)
        assert data(second) == sent[5:]
        assert second is not None
        assert second.number.tolist() == [6]
        assert capture.packets == 6
        writer.close()
        assert capture.read(LONG_S) is None
        assert capture.is_at_end
        assert capture.read(LONG_S) is None
        assert capture.anomalies == []


def test_packets_of_one_gathering_interval_are_one_batch() -> None:
    """The gathering interval lasts until the pipe's end, however slowly it is written to."""
    sent = packets_of(50)
    whole = pcap_file(timed(sent))
    with open_pipe() as (reader, writer), PipeCapture(reader, gather_s=LONG_S) as capture:

        def trickle() -> None:
            for start in range(0, len(whole), 100):
                writer.write(whole[start : start + 100])
                time.sleep(0.001)
            writer.close()

        thread = threading.Thread(target=trickle)
        thread.start()
        # The file's header is read by itself; packets that came with it make a batch of their own.
        batches = []
        while sum(map(len, batches)) < len(sent):
            batches.append(data(capture.read(LONG_S)))
        thread.join()
        assert [packet for batch in batches for packet in batch] == sent
        assert len(batches) <= 2


def test_a_batch_is_gathered_for_the_interval() -> None:
    sent = packets_of(2)
    whole = pcap_file(timed(sent))
    with open_pipe() as (reader, writer), PipeCapture(reader, gather_s=0.2) as capture:
        began_s = time.monotonic()
        writer.write(whole)
        assert data(capture.read(LONG_S)) == sent
        assert time.monotonic() - began_s >= 0.2


def test_a_batch_does_not_change_until_the_next_read() -> None:
    sent = packets_of(3000)
    whole = pcap_file(timed(sent))
    with open_pipe() as (reader, writer):
        thread = threading.Thread(target=writer.write, args=(whole,))
        thread.start()
        read = []
        with PipeCapture(reader, buffer_bytes=4096, gather_s=0.0) as capture:
            while len(read) < len(sent):
                batch = capture.read(LONG_S)
                before = data(batch)
                if len(read) < 500:
                    time.sleep(0.002)
                assert data(batch) == before
                read += before
        thread.join()
    assert read == sent


def test_a_batch_that_came_after_a_timeout_does_not_change_either() -> None:
    """It comes after a read gave up; more packets come before the next read."""
    sent = packets_of(200)
    whole = pcap_file(timed(sent))
    half = len(pcap_file(timed(sent[:100])))
    with (
        open_pipe() as (reader, writer),
        PipeCapture(reader, buffer_bytes=half + 100, gather_s=0.0) as capture,
    ):
        writer.write(whole[:24])
        assert capture.read(0.05) is None
        writer.write(whole[24:half])
        time.sleep(0.1)
        writer.write(whole[half:])
        batch = capture.read(LONG_S)
        before = data(batch)
        time.sleep(0.1)
        assert data(batch) == before == sent[: len(before)]
        read = list(before)
        while len(read) < len(sent):
            read += data(capture.read(LONG_S))
    assert read == sent


def test_a_compressed_pipe_is_read_as_it_is_flushed() -> None:
    sent = packets_of(20)
    with open_pipe() as (reader, writer), PipeCapture(reader, gather_s=0.02) as capture:
        with gzip.GzipFile(fileobj=writer, mode="wb") as compressed:
            compressed.write(pcap_file(timed(sent[:10])))
            compressed.flush()
            assert data(capture.read(LONG_S)) == sent[:10]
            compressed.write(pcap_file(timed(sent))[len(pcap_file(timed(sent[:10]))) :])
            compressed.flush()
            assert data(capture.read(LONG_S)) == sent[10:]
        writer.close()
        assert capture.read(LONG_S) is None
        assert capture.is_at_end


def test_a_pipe_without_a_capture_is_an_error() -> None:
    with open_pipe() as (reader, writer), PipeCapture(reader, name="the pipe") as capture:
        writer.write(b"tcpdump: eth0: You don't have permission\n")
        with pytest.raises(CaptureError, match=r"^the pipe: is not a pcap or pcapng file"):
            capture.read(LONG_S)
        assert capture.is_at_end
        assert capture.read(LONG_S) is None


def test_an_empty_pipe_is_an_error() -> None:
    with open_pipe() as (reader, writer), PipeCapture(reader, name="the pipe") as capture:
        writer.close()
        with pytest.raises(CaptureError, match=r"^the pipe: is empty$"):
            capture.read(LONG_S)


def test_a_cut_capture_is_an_anomaly() -> None:
    with open_pipe() as (reader, writer), PipeCapture(reader, gather_s=0.02) as capture:
        writer.write(pcap_file(timed(packets_of(3)))[:-2])
        assert len(data(capture.read(LONG_S))) == 2
        writer.close()
        assert capture.read(LONG_S) is None
        assert capture.is_at_end
        assert [one.kind for one in capture.anomalies] == [AnomalyKind.CAPTURE_TRUNCATED]


def test_a_file_object_is_read_like_a_pipe() -> None:
    sent = packets_of(5)
    with PipeCapture(io.BytesIO(pcap_file(timed(sent))), name="x") as capture:
        assert data(capture.read(LONG_S)) == sent
        assert capture.read(LONG_S) is None
        assert capture.is_at_end
        assert capture.description == "x: a capture as it is written"


def test_packets_of_tcpdump_are_read_through_a_pipe(namespace: Namespace) -> None:
    namespace.add_pair()
    sent = packets_of(200)
    words = ["tcpdump", "-i", "other", "-w", "-", "-U", "--immediate-mode", "-B", "65536"]
    with (
        subprocess.Popen(
            namespace.command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        ) as tcpdump,
        PipeCapture(tcpdump.stdout) as capture,
    ):
        assert any(b"listening on" in line for line in tcpdump.stderr)
        namespace.send(sent)
        read: list[bytes] = []
        while len(read) < len(sent):
            read += data(capture.read(LONG_S))
        tcpdump.send_signal(signal.SIGINT)
        assert capture.read(LONG_S) is None
        assert capture.is_at_end
    assert read == sent


def test_the_thread_of_a_capture_ends_with_it() -> None:
    before = set(threading.enumerate())
    with open_pipe() as (reader, writer):
        with PipeCapture(reader) as silent:
            assert silent.read(0.01) is None
        with PipeCapture(reader):
            pass
        writer.write(pcap_file(timed(packets_of(5))))
        with PipeCapture(reader) as busy:
            assert busy.read(LONG_S) is not None
        assert set(threading.enumerate()) <= before
        assert busy.read(0.01) is None
