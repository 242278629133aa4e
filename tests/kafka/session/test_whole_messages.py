"""A message is the same, read from structs or from objects, however it is segmented or damaged."""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from crc32c import crc32c

from kanalyze.common.saved import save
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.kafka.session.exchange import Peers
from kanalyze.kafka.session.exchange_builder import ExchangeBuilder
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.kafka.session.resync import RequestLocator
from kanalyze.tables.requests.extract import Extractors
from tests.support import batches as made
from tests.support import kafka as k
from tests.support.session import CATALOG, READER, TCP, cut_of
from tests.support.talk import CLIENT
from tests.support.vectors import read_vectors

if TYPE_CHECKING:
    from kanalyze.kafka.framing.framer import CutFrames

LOCATOR = RequestLocator(READER, CATALOG)


CHECKING = MessageReader(
    CATALOG, Decoders(CATALOG), Extractors(CATALOG).needed_fields, checks_crc=True
)


def new_builder(reader: MessageReader) -> ExchangeBuilder:
    peers = Peers(TCP, *TCP.endpoints)
    return ExchangeBuilder(
        *(peers, CLIENT, reader, LOCATOR), from_start=True, keep=None, tokens_first=False
    )


def outcome(
    messages: list[tuple[str, CutFrames]], *, as_objects: bool, reader: MessageReader = READER
) -> Any:
    """Read messages; return exchanges, anomalies and what is left, as plain values."""
    builder, events = new_builder(reader), ConnectionEvents()
    for kind, cut in messages:
        if as_objects:
            assert len(cut.frames) == cut.count
        for index in range(cut.count):
            add = builder.add_request if kind == "request" else builder.add_response
            add(cut, index, events)
    builder.bodies.detach_pending()
    waiting = save(builder)
    builder.close(events)
    exchanges = [exchange.state(builder) for exchange in events.exchanges]
    values = [
        [None if message is None else message.values for message in (each.request, each.response)]
        for each in events.exchanges
    ]
    bodies = builder.bodies
    batches = bodies.batches.batches, bodies.batches.checked, bodies.batches.wrong
    counts = bodies.decoded_bytes, bodies.undecoded_bytes, batches
    anomalies = [(each.kind, each.detail, each.stream_offset) for each in events.anomalies]
    return waiting, exchanges, values, counts, anomalies


def sound_batches() -> bytes:
    """Return batches with right CRCs, which are longer than a segment together."""
    contents = [made.batch(payload=payload) for payload in (0, 100, 700, 2000)]
    return b"".join(
        content[:17] + struct.pack(">I", crc32c(content[21:])) + content[21:]
        for content in contents
    )


def conversations() -> list[tuple[bytes, bytes]]:
    """Requests and responses: made up, and what Kafka's own serializer wrote of some APIs."""
    pairs = [
        (k.heartbeat(1), k.heartbeat_answer(1)),
        (k.heartbeat(-3, client_id=None), k.heartbeat_answer(-3, error_code=27)),
        (
            k.produce(7, acks=1, version=7, records=k.record_batch(5)),
            k.produce_answer(7, version=7),
        ),
        (k.produce(8, acks=0, version=3, records=k.record_batch(2)), k.heartbeat_answer(9)),
        (k.produce(9, 1, version=7, records=sound_batches()), k.produce_answer(9, version=7)),
        (k.api_versions(2, 3), k.api_versions_answer_v0(2, 35)),
    ]
    bodies: dict[tuple[int, int], dict[str, bytes]] = {}
    for vector in read_vectors():
        if vector.api_key is not None and len(vector.content) < 1500:
            bodies.setdefault((vector.api_key, vector.version), {})[vector.kind] = vector.content
    for number, ((key, version), both) in enumerate(sorted(bodies.items())):
        if len(both) != 2 or number % 5:
            continue
        flexible = CATALOG.request_header_version(key, version) == 2
        tagged = CATALOG.response_header_version(key, version) == 1
        request = k.request(key, version, number, both["request"], tags=b"\0" if flexible else b"")
        response = k.response(number, both["response"], tags=b"\0" if tagged else b"")
        pairs.append((request, response))
    return pairs


def in_segments(data: bytes, random: Random) -> CutFrames:
    sizes = [random.choice((4, 9, 30, 200, 1400)) for _ in range(random.randrange(6))]
    return cut_of(data, sizes)


@pytest.mark.parametrize("reader", [READER, CHECKING], ids=["", "checking CRCs"])
@pytest.mark.parametrize("damage", [0, 1, 3])
def test_structs_and_objects_of_a_message_give_the_same_exchange(
    damage: int, reader: MessageReader
) -> None:
    random = Random(damage)
    pairs = conversations()
    assert len(pairs) > 50
    for request, response in pairs:
        changed = []
        for message in (request, response):
            data = bytearray(message)
            for _ in range(damage):
                data[random.randrange(4, len(data))] = random.randrange(256)
            changed.append(bytes(data))
        seed = random.random()
        results = []
        for as_objects in (False, True):
            again = Random(seed)
            messages = [
                (kind, in_segments(data, again))
                for kind, data in zip(("request", "response"), changed, strict=True)
            ]
            results.append(outcome(messages, as_objects=as_objects, reader=reader))
        assert results[0] == results[1], changed


def test_what_was_read_of_pending_requests_outlives_the_shared_tape() -> None:
    random = Random(5)
    messages = [
        ("request", in_segments(k.produce(number, acks=1, version=7, topic=f"t{number}"), random))
        for number in range(20)
    ]
    waiting, _, values, _, _ = outcome(messages, as_objects=False)
    assert waiting == outcome(messages, as_objects=True)[0]
    assert len({repr(both[0]) for both in values}) == 20


def test_readers_that_check_crcs_and_others_may_share_decoders() -> None:
    decoders, needed = Decoders(CATALOG), Extractors(CATALOG).needed_fields
    checking = MessageReader(CATALOG, decoders, needed, checks_crc=True)
    other = MessageReader(CATALOG, decoders, needed)
    message = k.produce(9, 1, version=7, records=sound_batches())
    counts = []
    for reader in (checking, other, checking):
        messages = [("request", in_segments(message, Random(1)))]
        counts.append(outcome(messages, as_objects=False, reader=reader)[3][2])
    assert counts == [(4, 4, 0), (0, 0, 0), (4, 4, 0)]
