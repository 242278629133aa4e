"""Only the bytes that a decoder reads are kept of an incomplete frame; its result is the same."""

from __future__ import annotations

import random

import pytest

from kanalyze.kafka.codec.compiler import Decoders, Projection
from kanalyze.kafka.framing.frame import Frame
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.kafka.wire import MissingBytes
from tests.support import kafka as k

CATALOG = Catalog()
RECORDS = "TopicData.PartitionData.Records"


def reader(*paths: str) -> MessageReader:
    projection = Projection.of(*paths)
    return MessageReader(CATALOG, Decoders(CATALOG), lambda _key, _kind: projection)


def large_produce(noise: random.Random) -> bytes:
    """A produce request with some batches of up to 60 kB."""
    batches = (k.record_batch(count, noise.randrange(60_000)) for count in range(1, 12))
    return k.produce(7, 1, topic="topic", records=b"".join(batches))


def fed_frame(data: bytes, *, size: int, skims: int = 0) -> tuple[Frame, list[int]]:
    """Return a frame that came in pieces, and how many bytes it had after each skim."""
    frame, buffered_sizes = Frame(len(data) - 4, 0, 0, 1), []
    read = reader(RECORDS)
    pieces = range(0, len(data), size)
    for count, at in enumerate(pieces, 1):
        frame.add(at, memoryview(data[at : at + size]))
        if skims and at + size < len(data) and count % (len(pieces) // skims) == 0:
            skim(read, frame)
            buffered_sizes.append(frame.buffered_bytes)
    return frame, buffered_sizes


def skim(read: MessageReader, frame: Frame) -> None:
    header = read.request_header(frame)
    read.skim("request", frame, header.api_key, header.api_version, header.body)


def values(frame: Frame) -> object:
    read = reader(RECORDS)
    body = read.request_body(frame, read.request_header(frame))
    return body.values, body.version, body.problem, body.detail


@pytest.mark.parametrize("seed", range(8))
def test_a_skimmed_frame_is_decoded_like_a_whole_one(seed: int) -> None:
    noise = random.Random(seed)
    data = large_produce(noise)
    size = noise.choice((100, 1448, 65_000))
    skimmed, buffered_sizes = fed_frame(data, size=size, skims=4)
    assert values(skimmed) == values(fed_frame(data, size=size)[0])
    assert buffered_sizes


def test_record_data_is_dropped() -> None:
    data = large_produce(random.Random(3))
    frame, buffered_sizes = fed_frame(data, size=1448, skims=8)
    assert len(data) > 200_000
    assert max(buffered_sizes) < 30_000
    with pytest.raises(MissingBytes):
        frame.read(0, len(data))


def test_the_bytes_of_a_selected_field_are_kept() -> None:
    data = k.request(k.SASL_AUTHENTICATE, 0, 1, (150_000).to_bytes(4, "big") + b"t" * 150_000)
    frame = Frame(len(data) - 4, 0, 0, 1)
    read = reader("AuthBytes")
    frame.add(0, memoryview(data[:100_000]))
    skim(read, frame)
    assert frame.buffered_bytes == 100_000
    frame.add(100_000, memoryview(data[100_000:]))
    assert read.request_body(frame, read.request_header(frame)).values == (b"t" * 150_000,)


def test_the_frame_of_an_unknown_api_is_kept_whole() -> None:
    data = k.request(999, 0, 7, bytes(90_000))
    frame = Frame(len(data) - 4, 0, 0, 1)
    frame.add(0, memoryview(data[:80_000]))
    read = reader(RECORDS)
    skim(read, frame)
    assert frame.buffered_bytes == 80_000
