"""Valid inputs for the mutator, made in memory from the repository's captures and vectors.

Each function returns inputs for one sort of target, always the same and in the same order. Those
that are captures are in :mod:`tests.fuzz.seed_captures`.
"""

from __future__ import annotations

import functools
import gzip
import random
import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

import cramjam
import lz4.frame

from kanalyze.capture.reader import open_capture
from kanalyze.kafka.codec.compiler import Projection
from kanalyze.kafka.framing.frame import parse_request_header, parse_response_header
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.kafka.wire import WireError
from kanalyze.net.tcp.reassembly import Reassembler
from tests.fuzz.shapes import BATCHES
from tests.fuzz.targets.common import CATALOG, DECODERS, EXTRACTORS
from tests.fuzz.turns import turns_of
from tests.support import kafka07 as old
from tests.support.captures import NAMES, path
from tests.support.vectors import read_vectors, records_in

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.session.exchange import Exchange

_LONGEST_FRAME_BYTES = 4096
_LONGEST_LARGE_BYTES = 40_000
_SAME_MESSAGES = 2
"""How many messages of the captures are taken of one API, version and kind."""
_TURNS = 12


class Body(NamedTuple):
    """The body of a message, with its API, version and kind."""

    api_key: int
    version: int
    kind: Kind
    content: bytes


class _Frame(NamedTuple):
    api_key: int
    version: int
    kind: Kind
    connection: tuple[str, int]
    """The capture's name, and the connection's serial."""
    data: bytes


# -- messages -------------------------------------------------------------------------------------


@functools.cache
def _frames() -> list[_Frame]:
    """Return every whole message of the captures, in the order of exchanges."""
    return [frame for name in NAMES for frame in _frames_of(name)]


def _frames_of(name: str) -> Iterator[_Frame]:
    reassembler = Reassembler()
    reader = MessageReader(CATALOG, DECODERS, EXTRACTORS.needed_fields)
    tracker = ConnectionTracker(reader, CATALOG, keep=lambda _: True)
    with open_capture(str(path(name))) as capture:
        for batch in capture.batches():
            yield from _frames_in(name, tracker.feed(reassembler.feed(batch).updates).exchanges)
        yield from _frames_in(name, tracker.feed(reassembler.finish().updates).exchanges)


def _frames_in(name: str, exchanges: Iterable[Exchange]) -> Iterator[_Frame]:
    for exchange in exchanges:
        key, version = exchange.api_key, exchange.api_version
        if key is None or version is None or exchange.wire != "kafka":
            continue
        place = (name, exchange.peers.tcp.serial)
        if exchange.request is not None and exchange.request.data is not None:
            yield _Frame(key, version, "request", place, exchange.request.data)
        if exchange.response is not None and exchange.response.data is not None:
            yield _Frame(key, version, "response", place, exchange.response.data)


@functools.cache
def _some_frames() -> list[_Frame]:
    """Return short messages, a few of each API, version and kind."""
    taken: dict[tuple[int, int, str], set[int]] = {}
    some = []
    for frame in _frames():
        lengths = taken.setdefault(frame[:3], set())
        size = len(frame.data)
        if size <= _LONGEST_FRAME_BYTES and size not in lengths and len(lengths) < _SAME_MESSAGES:
            lengths.add(size)
            some.append(frame)
    return some


def request_frames() -> list[bytes]:
    """Return whole frames, of requests and of responses."""
    return [frame.data for frame in _some_frames()]


@functools.cache
def bodies() -> list[Body]:
    """Return bodies of every message in every version: the vectors, and some of the captures."""
    known = {api.key: api for api in CATALOG.apis}
    made = []
    for vector in read_vectors():
        if vector.api_key in known and len(vector.content) <= _LONGEST_FRAME_BYTES:
            kind: Kind = "request" if vector.kind == "request" else "response"
            made.append(Body(vector.api_key, vector.version, kind, vector.content))
    made += [
        Body(frame.api_key, frame.version, frame.kind, content)
        for frame in _some_frames()
        if (content := _content(frame)) is not None
    ]
    return [body for body in made if known[body.api_key].versions.contains(body.version)]


@functools.cache
def large_bodies() -> list[Body]:
    """Return bodies of Produce and Fetch that are longer than a few packets."""
    found = [
        Body(frame.api_key, frame.version, frame.kind, content)
        for frame in _frames()
        if frame.api_key in (0, 1)
        and _LONGEST_FRAME_BYTES < len(frame.data) <= _LONGEST_LARGE_BYTES
        and (content := _content(frame)) is not None
    ]
    return found[:: max(1, len(found) // 60)]


def _content(frame: _Frame) -> bytes | None:
    """Return a frame without its headers; None if they cannot be read."""
    data = frame.data
    try:
        if frame.kind == "request":
            return data[parse_request_header(data, 4, len(data), CATALOG).body :]
        version = CATALOG.response_header_version(frame.api_key, frame.version)
        return data[parse_response_header(data, 4, len(data), version).body :]
    except WireError:
        return None


@functools.cache
def connections() -> list[bytes]:
    """Return the beginnings of connections as turns (see :mod:`tests.fuzz.turns`)."""
    talks: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    for frame in _frames():
        talk = talks.setdefault(frame.connection, [])
        if len(frame.data) <= _LONGEST_FRAME_BYTES and len(talk) < _TURNS:
            talk.append((int(frame.kind == "response"), frame.data))
    made = [turns_of(talk) for talk in talks.values()][::3]
    made += [turns_of([(2, b"lost" * 9), *talk], b"\x01\x02\x03\x04") for talk in talks.values()][
        ::9
    ]
    answers = [(0, old.fetch(64)), (1, old.fetched(old.message()))]
    made.append(turns_of([(0, old.produce()), *answers, *answers, (0, old.produce())]))
    tls = b"\x16\x03\x01\x00\x05hello"
    made.append(turns_of([(0, tls), (1, tls)]))
    token = b"\x60\x12\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02token"
    heads = [(0, old.sized(token)), (1, old.sized(b"answer")), (0, old.sized(b"last"))]
    made.append(turns_of([*heads, *next(iter(talks.values()))]))
    return made


# -- records --------------------------------------------------------------------------------------


@functools.cache
def record_sets() -> list[bytes]:
    """Return the contents of records fields of the captures, of every format and codec."""
    by_look: dict[tuple[int, ...], list[bytes]] = {}
    for frame in _frames():
        content = _content(frame) if frame.api_key in (0, 1) else None
        if content is None:
            continue
        decode = DECODERS.get(frame.api_key, frame.kind, frame.version, Projection.ALL)
        try:
            values, _ = decode(content, 0)
        except WireError:
            continue
        struct_of = CATALOG.message(frame.api_key, frame.kind).struct
        for records in records_in(struct_of, values):
            if 17 < len(records) <= _LONGEST_FRAME_BYTES:
                attributes = records[22] if records[16] == 2 else records[17]
                look = (records[16], attributes, len(records) // 256)
                by_look.setdefault(look, []).append(records)
    return [records for found in by_look.values() for records in found[:6]]


@functools.cache
def compressed() -> list[bytes]:
    """Return payloads with the codec's number in front, from captures and made here."""
    first = [BATCHES.split(records)[0] for records in record_sets()]
    made = [
        bytes((batch[22] & 7,)) + batch[61:]
        for batch in first
        if len(batch) > 61
        and batch[16] == 2
        and batch[22] & 7
        and BATCHES.mend(b"", batch) == batch
    ]
    chance = random.Random(7)
    for plain in (b"", b"kafka" * 40, bytes(4000), chance.randbytes(900), b"ab" * 30_000):
        block = bytes(cramjam.snappy.compress_raw(plain))
        xerial = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + old.sized(block) * 2
        made += [
            b"\x01" + gzip.compress(plain, mtime=0) * 2,
            b"\x02" + block,
            b"\x02" + xerial,
            b"\x03" + lz4.frame.compress(plain, content_checksum=True),
            b"\x03" + lz4.frame.compress(plain, store_size=False, block_linked=False),
            b"\x04" + zstd.compress(plain) * 2,
        ]
    return made


# -- Kafka 0.7 ------------------------------------------------------------------------------------


@functools.cache
def message_sets07() -> list[bytes]:
    """Return fields of messages of Kafka 0.7."""
    plain = old.message(b"one") + old.message(b"", magic=0) + old.message(b"three" * 30)
    packed = old.message(gzip.compress(plain, mtime=0), codec=1)
    snappy = old.message(bytes(cramjam.snappy.compress_raw(plain)), codec=2)
    nested = old.message(gzip.compress(packed + plain, mtime=0), codec=1)
    deeper = old.message(gzip.compress(nested * 3, mtime=0), codec=1)
    return [plain, packed, snappy, nested, deeper, plain + packed + snappy, b""]


@functools.cache
def frames07() -> list[bytes]:
    """Return requests of Kafka 0.7, each followed by the response to it if there is one."""
    sets = message_sets07()
    made = [old.produce(found) for found in sets]
    made += [old.fetch(64) + old.fetched(found) for found in sets]
    made.append(old.offsets() + old.offsets_answer(100, 64, 0))
    fetches = old.request(old.MULTIFETCH, old.fetch_part(0), old.fetch_part(64))
    made.append(fetches + old.sized(b"\0\0" + old.fetched(sets[0]) + old.fetched(sets[1])))
    made.append(old.request(old.MULTIPRODUCE, *map(old.produce_part, sets[:3])))
    return made


# -- SASL -----------------------------------------------------------------------------------------


def tokens() -> list[bytes]:
    """Return SASL tokens with a byte in front that stands for the mechanism."""
    gssapi = b"\x60\x12\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02token"
    return [
        b"\0\0alice\0secret",
        b"\0admin\0alice\0secret",
        b"\x01n,,n=alice,r=nonce",
        b"\x01y,a=admin,n=a=2Cl=3Dice,r=nonce,tokenauth=true",
        b"\x02" + gssapi,
    ]
