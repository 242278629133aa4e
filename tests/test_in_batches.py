"""Rows do not depend on the batches that their packets come in.

The reference (:mod:`tests.support.reference`) takes packet by packet. Where a capture holds all
that was sent, its rows come in the same order too. Where bytes are missing or out of order, what is
found again after a loss depends on how much was there to look at, and so on the batches.
"""

from __future__ import annotations

import functools
import io
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.export.open import FORMATS, open_writer
from tests.support import kafka as k
from tests.support.captures import CHOSEN, NAMES, often, path
from tests.support.cases import for_each
from tests.support.conversations import conversations
from tests.support.disorder import TRANSFORMATIONS, altered
from tests.support.disorder.compare import write
from tests.support.packets import pcap_file, segment, timed
from tests.support.reference import Reading, read, reference
from tests.support.traffic import (
    CATALOG,
    Line,
    Part,
    capture_of,
    fetch,
    fetch_answer,
    metadata,
    metadata_answer,
    produce,
    produce_answer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Turn: TypeAlias = Callable[[int], tuple[bytes, bytes]]

MAX_AT_ONCE = 1 << 30
MAX_SEGMENT = 60_000
SMALL = ("loopback", "kraft-3-9", "old-1-1-1", "old-2-8-2", "waits")
KINDS = [
    (api.key, version)
    for api in map(CATALOG.api, (k.PRODUCE, k.FETCH))
    if api is not None
    for version in api.versions.each()
]
A, B = b"\1" * 16, b"\2" * 16


@functools.cache
def slow(name: str) -> Reading:
    return reference([str(path(name))])


def assert_same(fast: Reading, expected: Reading) -> None:
    for ours, theirs in zip(fast.rows, expected.rows, strict=True):
        assert ours == theirs
    assert fast.quality.to_dict() == expected.quality.to_dict()


def at_random(seed: int, *sizes: int) -> Callable[[], int]:
    """Sizes of batches, the same for the same seed."""
    dice = Random(seed)
    return lambda: dice.choice(sizes)


def test_the_reference_takes_packet_by_packet() -> None:
    sizes: list[int] = []

    def one() -> int:
        sizes.append(1)
        return 1

    reading = read([str(path("mock"))], most_packets=one)
    assert len(sizes) == reading.quality.packets
    assert len(slow("mock").blocks) > len(read([str(path("mock"))]).blocks)


# -- the captures of the repository ---------------------------------------------------------------


@pytest.mark.few(3)
@pytest.mark.parametrize("name", often(NAMES, CHOSEN))
def test_rows_of_a_capture_are_those_of_packet_by_packet(name: str) -> None:
    assert_same(read([str(path(name))]), slow(name))


@pytest.mark.few(6)
@pytest.mark.parametrize("name", often(NAMES, CHOSEN))
def test_rows_are_the_same_in_other_batches_of_packets(name: str) -> None:
    fast = read([str(path(name))], most_packets=at_random(1, 1, 2, 40, 300))
    assert_same(fast, slow(name))


@pytest.mark.parametrize("name", often(NAMES, CHOSEN))
def test_files_written_from_blocks_and_from_rows_are_equal(name: str, tmp_path: Path) -> None:
    fast = read([str(path(name))])
    for row_format in FORMATS:
        by_block, by_rows = tmp_path / f"blocks.{row_format}", tmp_path / f"rows.{row_format}"
        with open_writer(str(by_block), row_format) as writer:
            for block in fast.blocks:
                writer.write_block(block)
        with open_writer(str(by_rows), row_format) as writer:
            writer.write(slow(name).rows)
        assert by_block.read_bytes() == by_rows.read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("most", [2, 3, 5, 10, 30, 100, 700])
def test_rows_are_the_same_in_batches_of_every_size(name: str, most: int) -> None:
    assert_same(read([str(path(name))], most_packets=lambda: most), slow(name))


# -- disorder -------------------------------------------------------------------------------------


def assert_same_after(name: str, label: str, folder: Path) -> None:
    """A transformed capture has the same rows in batches as packet by packet."""
    write(altered(name, label), folder, name)
    fast, expected = read([str(folder)]), reference([str(folder)])
    ours, theirs = Counter(map(repr, fast.rows)), Counter(map(repr, expected.rows))
    if "shuffled" in label:
        # The end of a connection may come before its data: looking at one packet at a time, less
        # of it is left.
        assert theirs <= ours
        return
    assert ours == theirs
    assert fast.quality.to_dict() == expected.quality.to_dict()


# Every one of them is tried in test_disorder.py, with the rows that are expected.
@pytest.mark.few(6)
@pytest.mark.parametrize("label", often(list(TRANSFORMATIONS)[::3], list(TRANSFORMATIONS)[::6]))
def test_a_transformed_capture_has_the_rows_of_packet_by_packet(label: str, tmp_path: Path) -> None:
    assert_same_after(Random(label).choice(SMALL), label, tmp_path)


def test_packets_in_the_wrong_order_are_not_counted_whatever_the_batches(tmp_path: Path) -> None:
    """A response is captured before its request, and packets are sent again between the two."""
    assert_same_after("admin-many", "a direction shuffled, each with its time", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("label", TRANSFORMATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_every_transformed_capture_has_the_rows_of_packet_by_packet(
    name: str, label: str, tmp_path: Path
) -> None:
    assert_same_after(name, label, tmp_path)


# -- by hand --------------------------------------------------------------------------------------


def exchanged(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A connection from its SYN on, with a packet for each message."""
    packets: list[bytes] = []
    line = Line(packets).open()
    for request, response in pairs:
        line.client(request).broker(response)
    return capture_of(packets)


def streams_of(data: bytes) -> list[io.BytesIO]:
    return [io.BytesIO(data)]


def assert_same_in_batches(data: bytes, *most: Callable[[], int]) -> Reading:
    """Check that rows in these batches are those of packet by packet; return the last reading."""
    expected = reference(streams_of(data))
    for most_packets in most or (lambda: MAX_AT_ONCE,):
        fast = read(streams_of(data), most_packets=most_packets)
        assert_same(fast, expected)
    return fast


def test_a_response_without_a_request_keeps_its_place_among_other_connections() -> None:
    packets: list[bytes] = []
    line, other = Line(packets).open(), Line(packets, client_port=50001).open()
    line.client(k.heartbeat(1)).broker(k.heartbeat_answer(1), k.heartbeat_answer(99))
    other.client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    line.client(k.heartbeat(2)).broker(k.heartbeat_answer(2))
    fast = assert_same_in_batches(capture_of(packets))
    statuses = [(row.client_port, row.status) for row in fast.rows]
    orphan = (50000, "orphan_response")
    assert statuses == [(50000, "ok"), (50001, "ok"), orphan, (50000, "ok")]


@pytest.mark.parametrize("size", [1, 5, 8, 30])
def test_a_response_that_does_not_fit_is_the_same_in_any_batches(size: int) -> None:
    """The first request has no client id, and a correlation id of zeros; the second one has."""
    packets: list[bytes] = []
    line = Line(packets).open()
    answer = k.response(0, bytes(40))
    line.client(k.heartbeat(0, client_id=None))
    line.broker(*(answer[at : at + size] for at in range(0, len(answer), size)))
    line.client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    fast = assert_same_in_batches(capture_of(packets))
    assert [row.status for row in fast.rows] == ["ok", "ok"]
    assert "trailing_bytes" in fast.rows[0].anomalies


def test_a_malformed_first_request_with_a_client_id_is_kafka_in_any_batches() -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    request = k.request(k.HEARTBEAT, 0, 1, b"\x7f\xff more than fits")
    line.client(request[:14], request[14:], k.heartbeat(2))
    line.broker(k.heartbeat_answer(1), k.heartbeat_answer(2))
    fast = assert_same_in_batches(capture_of(packets))
    assert [row.status for row in fast.rows] == ["malformed", "ok"]


def test_the_opener_is_the_client_however_slowly_the_first_response_comes() -> None:
    """The response looks like the head of a Produce request, whose id is in the first request."""
    packets: list[bytes] = []
    line = Line(packets).open()
    request, _ = message_pair(k.PRODUCE, 1, 0)
    request = request[:8] + bytes(4) + b"\xff\xff" + request[14 + len("test") :]
    request = (len(request) - 4).to_bytes(4, "big") + request[4:]
    answer = k.response(0, bytes.fromhex("00000001000174") + k.produce_answer(0, version=1)[15:])
    line.client(request).broker(*(answer[at : at + 5] for at in range(0, len(answer), 5)))
    fast = assert_same_in_batches(capture_of(packets))
    assert [(row.client_port, row.api_name) for row in fast.rows] == [(50000, "Produce")]


def test_a_connection_that_ends_within_its_first_response_is_kafka_in_any_batches() -> None:
    packets: list[bytes] = []
    answer = k.heartbeat_answer(0)[:-1]
    line = Line(packets).open().client(k.heartbeat(0, client_id=None))
    line.broker(*(answer[at : at + 3] for at in range(0, len(answer), 3)))
    fast = assert_same_in_batches(capture_of(packets))
    assert [row.status for row in fast.rows] == ["malformed"]


def message_pair(key: int, version: int, number: int, *parts: Part) -> tuple[bytes, bytes]:
    """A request and its answer, of Produce or Fetch."""
    partitions = parts or (Part(partition=number % 3, error_code=6 * (number % 5 == 0)),)
    if key == k.PRODUCE:
        return produce(number, version, partitions), produce_answer(number, version, partitions)
    return fetch(number, version, partitions), fetch_answer(number, version, partitions)


@pytest.mark.few(17)
@pytest.mark.parametrize(("key", "version"), KINDS)
def test_rows_of_every_version_are_the_same_in_batches(key: int, version: int) -> None:
    fast = assert_same_in_batches(exchanged(message_pair(key, version, n) for n in range(20)))
    assert [(row.api_key, row.api_version) for row in fast.rows] == 20 * [(key, version)]


def pipelined(count: int, window: int) -> bytes:
    """As many requests as ``count``, of which ``window`` are under way at a time."""
    packets: list[bytes] = []
    line = Line(packets).open()
    pairs = [message_pair(k.PRODUCE, 9, number) for number in range(count)]
    for number in range(count + window):
        if number < count:
            line.client(pairs[number][0])
        if number >= window:
            line.broker(pairs[number - window][1])
    line.close()
    return capture_of(packets)


def test_requests_wait_for_answers_of_later_batches() -> None:
    fast = assert_same_in_batches(pipelined(400, 150), at_random(1, 50, 200), lambda: 300)
    assert len(fast.rows) == 400


@pytest.mark.few(3)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 13])
def test_messages_are_cut_at_every_byte(size: int) -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    pairs = [message_pair(k.FETCH, 11, number) for number in range(8)]
    for side in (0, 1):
        stream = b"".join(pair[side] for pair in pairs)
        line.says(side, *(stream[at : at + size] for at in range(0, len(stream), size)))
    fast = assert_same_in_batches(
        capture_of(packets), at_random(size, 1, 7, 50), lambda: MAX_AT_ONCE
    )
    assert len(fast.rows) == 8


def test_a_capture_may_begin_in_the_middle_of_messages() -> None:
    pairs = [message_pair(k.FETCH, 11, number) for number in range(20)]
    for skipped in range(1, len(pairs[0][0]), 5):
        packets: list[bytes] = []
        line = Line(packets).client(pairs[0][0][skipped:]).broker(pairs[0][1][skipped:])
        for request, response in pairs[1:]:
            line.client(request).broker(response)
        fast = read(streams_of(capture_of(packets)), most_packets=lambda: 20)
        found = [row.correlation_id for row in fast.rows if row.status in ("ok", "error")]
        assert found == list(range(1, 20))


@pytest.mark.parametrize("lost", [slice(300, 340), slice(301, 340), slice(300, 301)], ids=str)
def test_messages_before_and_after_a_loss_are_read(lost: slice) -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    for number in range(400):
        request, response = message_pair(k.FETCH, 11, number)
        line.client(request).broker(response)
    del packets[lost]
    fast = read(streams_of(capture_of(packets)), most_packets=lambda: MAX_AT_ONCE)
    assert sum(row.status in ("ok", "error") for row in fast.rows) > 370


def with_losses(losses: list[tuple[int, int]], count: int = 300, window: int = 3) -> bytes:
    """A connection seen from its SYN on, pipelined, without the packets of these ranges.

    A packet comes every 100 ms, so that a hole is given up after a few packets.
    """
    packets: list[bytes] = []
    line = Line(packets).open()
    pairs = [message_pair(k.FETCH, 11, number) for number in range(count)]
    for number in range(count + window):
        if number < count:
            line.client(*cut_at(pairs[number][0], 40))
        if number >= window:
            line.broker(*cut_at(pairs[number - window][1], 60))
    line.close()
    gone = {number for first, last in losses for number in range(first, last)}
    kept = [
        packet for number, packet in enumerate(timed(packets, 100_000_000)) if number not in gone
    ]
    return pcap_file(kept)


def cut_at(message: bytes, size: int) -> list[bytes]:
    return [message[:size], message[size:]]


LOSSES = {
    "one": [(300, 310)],
    "two": [(300, 310), (900, 905)],
    "two in the last packets": [(1150, 1152), (1180, 1190)],
    "one packet of each direction": [(300, 301), (406, 407), (700, 701), (803, 804)],
    "close to each other": [(300, 302), (304, 306), (309, 310), (313, 318)],
    "every fiftieth packet": [(at, at + 1) for at in range(100, 1200, 50)],
}


def test_a_later_loss_takes_no_part_of_latency_from_earlier_exchanges() -> None:
    rows = read(streams_of(with_losses(LOSSES["two"])), most_packets=lambda: MAX_AT_ONCE).rows
    known = [row.correlation_id for row in rows if row.pipeline_wait_ns is not None]
    assert set(range(70)) <= set(known)
    assert set(range(90, 210)) <= set(known)
    assert set(range(240, 300)) <= set(known)


@pytest.mark.few(12)
@pytest.mark.parametrize("losses", [*LOSSES, *range(60)])
def test_rows_after_losses_are_the_same_in_any_batches(losses: str | int) -> None:
    """Losses by chance have a number."""
    dice = Random(losses)
    firsts = sorted(dice.sample(range(20, 1200), dice.randint(2, 12)))
    by_chance = [(at, at + dice.choice((1, 1, 2, 3, 10, 40))) for at in firsts]
    window = 3 if isinstance(losses, str) else dice.choice((1, 2, 5, 20))
    data = with_losses(LOSSES.get(str(losses), by_chance), window=window)
    expected = Counter(map(repr, reference(streams_of(data)).rows))
    for most in (lambda: MAX_AT_ONCE, at_random(1, 1, 3, 20, 100, 300)):
        assert Counter(map(repr, read(streams_of(data), most_packets=most).rows)) == expected


def segments(message: bytes) -> list[bytes]:
    return [message[at : at + MAX_SEGMENT] for at in range(0, len(message), MAX_SEGMENT)]


def talk_with(*turns: tuple[bytes, bytes]) -> bytes:
    """A connection from its SYN on: valid exchanges, then ``turns``, then valid exchanges."""
    packets: list[bytes] = []
    line = Line(packets).open()
    sound = [message_pair(k.PRODUCE, 9, number) for number in range(60)]
    for request, response in [*sound[:30], *turns, *sound[31:]]:
        line.client(*segments(request)).broker(*segments(response))
    line.close()
    return capture_of(packets)


SOUND = message_pair(k.PRODUCE, 9, 30)
LARGE = Part(records=k.record_batch(9, 200_000))
OLD = Part(records=k.record_batch()[:16] + b"\1" + k.record_batch()[17:])
ODD_TURNS = {
    "acks 0": (produce(30, 9, acks=0), b""),
    "no answer": (SOUND[0], b""),
    "no request": (b"", SOUND[1]),
    "an id again": message_pair(k.PRODUCE, 9, 3),
    "an id below all": message_pair(k.PRODUCE, 9, -7),
    "an id far above": message_pair(k.PRODUCE, 9, 2**31 - 1),
    "an answer with another id": (SOUND[0], produce_answer(31, 9)),
    "a body that ends early": (k.request(k.PRODUCE, 9, 30, b"\0", tags=b"\0"), SOUND[1]),
    "an answer that ends early": (SOUND[0], k.response(30, b"\2", tags=b"\0")),
    "bytes after a body": (SOUND[0], k.response(30, SOUND[1][9:] + b"more", tags=b"\0")),
    "a header without a client id": (b"\0\0\0\x08" + SOUND[0][4:12], SOUND[1]),
    "tags in a header": (
        k.request(k.PRODUCE, 9, 30, SOUND[0][19:], tags=b"\1\7\2ab"),
        SOUND[1],
    ),
    "an unknown API": (k.request(999, 0, 30, b"what"), k.response(30, b"so")),
    "an unknown version": (k.request(k.PRODUCE, 99, 30, b"what"), k.response(30, b"so")),
    "a size that none has": (SOUND[0], b"\xff\xff\xff\xff" + SOUND[1]),
    "a large request": message_pair(k.PRODUCE, 9, 30, LARGE),
    "null records": message_pair(k.PRODUCE, 9, 30, Part(records=None)),
    "records of another kind": message_pair(k.PRODUCE, 9, 30, OLD),
    "no partition": message_pair(k.PRODUCE, 9, 30, *()),
    "a partition twice": message_pair(k.PRODUCE, 9, 30, Part(), Part(error_code=3)),
    "other partitions": (produce(30, 9), produce_answer(30, 9, [Part(partition=5)])),
    "another order": (
        produce(30, 9, [Part(), Part(partition=1)]),
        produce_answer(30, 9, [Part(partition=1), Part(error_code=7)]),
    ),
    "a fetch session": (fetch(30, 11, epoch=0), fetch_answer(30, 11, session_id=5)),
    "an error above all": (fetch(30, 11), fetch_answer(30, 11, (), error_code=71)),
    "names": (metadata(30), metadata_answer(30, [(A, "a")])),
    "another software": (k.api_versions(30), k.api_versions_answer_v0(30, 35)),
    "a login": (k.request(k.SASL_HANDSHAKE, 1, 30, k.string("PLAIN")), k.response(30, b"\0\0" * 3)),
}


@pytest.mark.few(14)
@pytest.mark.parametrize("oddity", ODD_TURNS)
def test_odd_messages_leave_the_messages_around_them_readable(oddity: str) -> None:
    data = talk_with(ODD_TURNS[oddity])
    readings = [
        read(streams_of(data), most_packets=at_random(1, most)) for most in (MAX_AT_ONCE, 64, 63)
    ]
    for reading in readings:
        assert sum(row.status in ("ok", "error") for row in reading.rows) > 55


def test_a_one_way_request_ends_before_earlier_requests_are_answered() -> None:
    # The request ends its exchange when it is sent, before the responses to earlier requests: the
    # broker is known by then to answer no such request.
    packets: list[bytes] = []
    line = Line(packets).open().client(produce(-1, 9, acks=0))
    for number in range(20):
        request, response = message_pair(k.PRODUCE, 9, number)
        line.client(request).broker(response)
    last = message_pair(k.PRODUCE, 9, 20)
    line.client(last[0], produce(21, 9, acks=0)).broker(last[1]).close()
    fast = assert_same_in_batches(capture_of(packets))
    assert [row.correlation_id for row in fast.rows[-2:]] == [21, 20]


@pytest.mark.parametrize("acks", [0, 1])
@pytest.mark.parametrize("end", [Line.close, Line.reset])
def test_an_unanswered_request_ends_with_its_connection(
    acks: int, end: Callable[[Line], Line]
) -> None:
    packets: list[bytes] = []
    silent, other = Line(packets).open(), Line(packets, 50_001).open()
    silent.client(k.produce(1, acks))
    other.client(k.heartbeat(2)).broker(k.heartbeat_answer(2))
    end(silent)
    # The last FIN is acknowledged only now.
    packets.append(segment(to_broker=True, seq=silent._sequence[0], ack=silent._sequence[1]))
    other.client(k.heartbeat(3)).broker(k.heartbeat_answer(3)).close()
    rows = assert_same_in_batches(capture_of(packets), lambda: 1, lambda: MAX_AT_ONCE).rows
    assert [row.correlation_id for row in rows] == [2, 1, 3]


def test_correlation_ids_of_an_earlier_batch_may_come_again() -> None:
    data = exchanged(message_pair(k.PRODUCE, 9, number) for number in [*range(20), *range(20)])
    fast = assert_same_in_batches(data, lambda: 3 + 40)
    assert len(fast.rows) == 40


def test_a_response_captured_before_its_request_is_marked() -> None:
    # The first answer comes last: by then all requests were sent, also the one whose answer was
    # captured before it.
    pairs = [message_pair(k.FETCH, 11, number) for number in (2, 3)]
    packets: list[bytes] = []
    line = Line(packets).open().client(k.api_versions(1), *(request for request, _ in pairs))
    line.broker(k.api_versions_answer_v0(1, 35), *(response for _, response in pairs))
    sent = packets[3:]
    packets[3:] = [sent[place] for place in (1, 4, 0, 5, 2, 3)]
    fast = read(streams_of(capture_of(packets)))
    assert [row.anomalies for row in fast.rows] == [[], [], ["response_before_request"]]


# -- names of topics ------------------------------------------------------------------------------


def fetches(topic_id: bytes, count: int, *, epoch: int = -1) -> list[Turn]:
    part = Part("", topic_id)
    return [
        lambda number: (fetch(number, 13, [part], epoch=epoch), fetch_answer(number, 13, [part]))
    ] * count


def tells(topic_id: bytes, name: str) -> list[Turn]:
    return [lambda number: (metadata(number), metadata_answer(number, [(topic_id, name)]))]


NAMINGS = {
    "before": tells(A, "a") + fetches(A, 5),
    "between": fetches(A, 3) + tells(A, "a") + fetches(A, 3),
    "after": fetches(A, 3) + fetches(B, 3) + tells(A, "a") + tells(B, "b"),
    "never": fetches(A, 5),
    "twice": tells(A, "a") + fetches(A, 3) + tells(A, "b") + fetches(A, 3),
    "beside objects": fetches(A, 2) + fetches(A, 1, epoch=0) + tells(A, "a") + fetches(A, 2),
    "twice, and another looked for": tells(A, "a")
    + fetches(A, 3)
    + fetches(B, 1, epoch=0)
    + fetches(A, 3)
    + tells(A, "b"),
}


@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("is_file", [True, False])
def test_topic_names_are_the_same_in_batches(naming: str, is_file: bool, tmp_path: Path) -> None:
    file = tmp_path / "names.pcap"
    file.write_bytes(exchanged(turn(number) for number, turn in enumerate(NAMINGS[naming])))

    def inputs() -> list[str | io.BytesIO]:
        return [str(file)] if is_file else [io.BytesIO(file.read_bytes())]

    fast, expected = read(inputs()), reference(inputs())
    expected.quality.captures[:] = fast.quality.captures
    assert_same(fast, expected)


# -- by chance ------------------------------------------------------------------------------------

BATCHES = st.sampled_from([(MAX_AT_ONCE,), (1, 3, 10), (1, 3, 20, 100, 300)])


@settings(max_examples=8)
@given(st.randoms(use_true_random=False), BATCHES)
def test_calm_conversations_in_any_batches(dice: Random, sizes: tuple[int, ...]) -> None:
    data = conversations(dice, is_calm=True)
    fast = read(streams_of(data), most_packets=at_random(1, *sizes))
    assert_same(fast, reference(streams_of(data)))


@settings(max_examples=8)
@given(st.randoms(use_true_random=False), BATCHES)
def test_wild_conversations_are_the_same_each_time(dice: Random, sizes: tuple[int, ...]) -> None:
    data = conversations(dice, is_calm=False)
    readings = [read(streams_of(data), most_packets=at_random(1, *sizes)) for _ in range(2)]
    assert_same(*readings)


@pytest.mark.long
@for_each("seed", range(3000))
def test_many_calm_conversations_are_the_same_in_batches(seed: int) -> None:
    data = conversations(Random(seed), is_calm=True)
    sizes = ((MAX_AT_ONCE,), (1, 3, 10), (1, 3, 20, 100, 300))[seed % 3]
    fast = read(streams_of(data), most_packets=at_random(seed, *sizes))
    assert_same(fast, reference(streams_of(data)))


def test_conversations_by_chance_have_rows_of_every_kind() -> None:
    readings = [read(streams_of(conversations(Random(seed), is_calm=True))) for seed in range(20)]
    found = [row for reading in readings for row in reading.rows]
    assert {row.status for row in found} >= {"ok", "error", "one_way", "malformed"}
