"""However a prefix is cut into segments and batches, only what is behind it is passed on."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kanalyze.common.plain_values import from_bytes, to_bytes
from kanalyze.common.saved import load, save
from kanalyze.model.streams import Gap, Segments, StreamUpdate
from kanalyze.model.tcp import Endpoint, ProxiedBy, TcpConnection
from kanalyze.net.proxy.streams import StreamsBehindProxies
from tests.support import proxied
from tests.support.cases import for_each
from tests.support.proxied import OTHER, PREFIXES, SENDER, sent
from tests.support.streams import TIME_NS, chunk, cut

if TYPE_CHECKING:
    from kanalyze.model.streams import StreamItem

REQUESTS = b"\0\0\0\x20\0\x12\0\3\0\0\0\0\0\4test" + bytes(range(20)) * 30
RESPONSES = b"\0\0\0\x08\0\0\0\0" + bytes(range(7)) * 50


class Fed:
    """One connection through the streams, and what came out: bytes by stream offset."""

    def __init__(self, *, opened_by: int | None = 0, most_bytes: int = 1 << 20) -> None:
        ends = (Endpoint("10.0.0.1", 50000), Endpoint("10.0.0.2", 9092))
        self.tcp = TcpConnection(7, ends, 1, opened_by, TIME_NS, TIME_NS)
        self.most_bytes = most_bytes
        self.streams = StreamsBehindProxies(most_bytes)
        self.sent = [0, 0]
        self.passed: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.packets: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.gaps: tuple[list[Gap], list[Gap]] = ([], [])
        self.buffers: list[bytearray] = []
        self.next = [0, 0]
        self.number = 0
        self.tokens: list[tuple[int, int, int | None]] = []

    def says(self, side: int, *pieces: bytes, snap: int | None = None) -> Fed:
        item = chunk(pieces, stream_offset=self.sent[side], first_packet=self.number + 1, snap=snap)
        self.number += len(pieces)
        self.sent[side] += sum(map(len, pieces))
        self.buffers.append(bytearray(item.segments.buffer))
        columns = item.segments
        segments = Segments(
            memoryview(self.buffers[-1]),
            *(columns.start, columns.length, columns.captured, columns.time_ns, columns.packet),
        )
        return self.feed(side, item._replace(segments=segments))

    def loses(self, side: int, size: int) -> Fed:
        self.sent[side] += size
        return self.feed(side, Gap(self.sent[side] - size, size, TIME_NS, self.number + 1))

    def feed(self, side: int, *added: StreamItem, closed: bool = False) -> Fed:
        update = StreamUpdate(self.tcp, ([], []), closed)
        update.items[side].extend(added)
        unwrapped = self.streams.feed([update])
        for passed in unwrapped.updates:
            assert passed.connection is self.tcp
            for direction in (0, 1):
                for item in passed.items[direction]:
                    self._take(direction, item)
        for buffer in self.buffers:  # a batch's buffer is used again
            buffer[:] = bytes(len(buffer))
        self.buffers.clear()
        self.tokens += [(t.direction, t.begin, t.end) for t in unwrapped.credentials]
        return self

    def close(self) -> Fed:
        self.feed(0, closed=True)
        assert save(self.streams) == ((), ())
        assert self.streams.buffered_bytes == 0
        return self

    def reload(self) -> Fed:
        """Continue in other objects, with what was saved."""
        state = from_bytes(to_bytes(save(self.streams)))
        self.streams = StreamsBehindProxies(self.most_bytes)
        load(self.streams, state, {7: self.tcp})
        assert save(self.streams) == state
        return self

    def bytes_of(self, side: int) -> bytes:
        return bytes(self.passed[side].values())

    def _take(self, direction: int, item: StreamItem) -> None:
        if isinstance(item, Gap):
            self.gaps[direction].append(item)
            return
        segments, offset = item.segments, item.stream_offset
        for index in range(item.first, item.last):
            start, captured = segments.start[index], segments.captured[index]
            for at, value in enumerate(bytes(segments.view(start, start + captured)), offset):
                assert at >= self.next[direction]
                self.next[direction] = at + 1
                self.passed[direction][at] = value
                self.packets[direction][at] = segments.packet[index]
            offset += segments.length[index]


def dealt(dice: Random, whole: tuple[bytes, bytes]) -> list[tuple[int, list[bytes]]]:
    """The bytes of both sides in batches of segments, in any order of the sides."""
    turns = []
    for side in (SENDER, OTHER):
        sizes = [dice.choice((1, 1, 2, 5, 40, 1460)) for _ in range(len(whole[side]))]
        pieces, batches = cut(whole[side], sizes), []
        while pieces:
            count = dice.randint(1, 4)
            batches.append((side, pieces[:count]))
            del pieces[:count]
        turns.append(batches)
    mixed: list[tuple[int, list[bytes]]] = []
    while any(turns):
        mixed.append(dice.choice([batches for batches in turns if batches]).pop(0))
    return mixed


@for_each("seed", range(12))
def test_any_cuts_in_any_order_pass_on_what_is_behind(seed: int) -> None:
    for name, turns in PREFIXES.items():
        dice = Random(f"{seed} {name}")
        prefix = sent(turns, SENDER), sent(turns, OTHER)
        fed = Fed(opened_by=dice.choice((0, None)))
        for side, pieces in dealt(dice, (prefix[0] + REQUESTS, prefix[1] + RESPONSES)):
            fed.says(side, *pieces)
            if dice.random() < 0.3:
                fed.reload()
        fed.close()
        assert (fed.bytes_of(0), fed.bytes_of(1)) == (REQUESTS, RESPONSES), name
        for side in (0, 1):
            assert min(fed.passed[side]) == len(prefix[side])
        assert fed.tcp.proxy is not None
        assert fed.tcp.proxy.kind == proxied.kind_of(name)


@for_each("seed", range(12))
def test_a_connection_without_a_prefix_is_passed_on_whole(seed: int) -> None:
    dice = Random(seed)
    starts = (
        b"",
        b"\5\1\0",
        b"\4\1\0",
        b"PROXY ",
        b"\r\n\r\n\0",
        b"CONNECT a",
        b"HTTP/1.1 ",
        b"\0\x5a",
    )
    whole = dice.choice(starts) + REQUESTS, dice.choice(starts) + RESPONSES
    fed = Fed(opened_by=dice.choice((0, 1, None)))
    for side, pieces in dealt(dice, whole):
        fed.says(side, *pieces)
        if dice.random() < 0.3:
            fed.reload()
    fed.close()
    assert (fed.bytes_of(0), fed.bytes_of(1)) == whole
    assert fed.tcp.proxy is None


def test_an_update_of_no_beginning_connection_is_the_same_object() -> None:
    fed = Fed()
    fed.says(0, REQUESTS).says(1, RESPONSES)
    later = [StreamUpdate(fed.tcp, ([chunk([b"ab"], stream_offset=900)], []), closed=False)]
    assert fed.streams.feed(later).updates is later
    assert save(fed.streams) == ((), ())


def test_the_packet_of_the_first_byte_behind_is_the_first_packet() -> None:
    fed = Fed().says(0, proxied.v1()[:20], proxied.v1()[20:] + REQUESTS, b"more").close()
    first = len(proxied.v1())
    assert fed.packets[0][first] == 2
    assert max(fed.packets[0].values()) == 3


def test_the_rest_of_a_prefix_after_a_hole_is_skipped_if_its_length_is_known() -> None:
    header = proxied.v2(tlvs=bytes(500))
    fed = Fed().says(0, header[:100]).loses(0, 200).says(0, header[300:] + REQUESTS).close()
    assert (fed.bytes_of(0), fed.gaps[0]) == (REQUESTS, [])
    assert fed.tcp.proxy == ProxiedBy("proxy-v2", *proxied.CLIENT, None)
    fed = Fed().says(0, header + REQUESTS, snap=80).says(0, b"rest").close()
    assert fed.bytes_of(0) == b"rest"
    assert fed.tcp.proxy is not None


@pytest.mark.parametrize("lost", [10, 600])
def test_a_hole_in_a_prefix_is_where_the_rest_begins(lost: int) -> None:
    """Also if the hole reaches beyond the prefix; its kind is known, the client is not."""
    whole = proxied.v1() + REQUESTS
    fed = Fed().says(0, whole[:20]).loses(0, lost).says(0, whole[20 + lost :]).close()
    assert [(gap.stream_offset, gap.length) for gap in fed.gaps[0]] == [(20, lost)]
    assert fed.bytes_of(0) == whole[20 + lost :]
    assert fed.tcp.proxy == ProxiedBy("proxy-v1", None, None, None)


def test_a_hole_that_reaches_beyond_the_prefix_is_cut() -> None:
    header = proxied.v2(tlvs=bytes(100))
    fed = Fed().says(0, header[:60]).loses(0, len(header)).says(0, REQUESTS).close()
    assert [(gap.stream_offset, gap.length) for gap in fed.gaps[0]] == [(len(header), 60)]


def test_a_beginning_that_was_not_captured_is_no_prefix() -> None:
    whole = proxied.v1() + REQUESTS
    fed = Fed().loses(0, 9).says(0, whole[9:]).close()
    assert (fed.tcp.proxy, fed.bytes_of(0)) == (None, whole[9:])


def test_a_prefix_and_a_close_pass_nothing_on() -> None:
    fed = Fed().says(0, proxied.local()).close()
    assert fed.passed == ({}, {})
    assert fed.tcp.proxy == ProxiedBy("proxy-v2", None, None, None)


def test_the_last_client_and_the_last_target_count() -> None:
    turns = [*proxied.socks5("inner"), *proxied.http_connect()]
    whole = sent(turns, 0) + proxied.v2(("10.9.9.9", 1)) + proxied.v1()
    fed = Fed().says(0, whole + REQUESTS).says(1, sent(turns, 1)).close()
    kinds = "socks5+http-connect+proxy-v2+proxy-v1"
    assert fed.tcp.proxy == ProxiedBy(kinds, *proxied.CLIENT, f"{proxied.TARGET}:9092")
    assert fed.bytes_of(0) == REQUESTS


def test_too_little_memory_passes_the_bytes_on() -> None:
    fed = Fed(most_bytes=1 << 10).says(0, b"PROXY ").says(0, b"TCP4").says(1, RESPONSES)
    assert (fed.bytes_of(0), fed.bytes_of(1)) == (b"PROXY TCP4", RESPONSES)
    assert fed.streams.buffered_bytes == 0
    fed.close()


def test_an_answer_that_never_comes_is_not_waited_for_without_end() -> None:
    fed = Fed(most_bytes=1 << 24).says(0, sent(proxied.http_connect(), 0))
    for _ in range(40):
        fed.says(0, bytes(1 << 12))
        assert fed.streams.buffered_bytes < 1 << 19
    assert fed.bytes_of(0) == bytes(40 << 12)
    assert fed.tcp.proxy == ProxiedBy("http-connect", None, None, f"{proxied.TARGET}:9092")


def test_segments_without_end_behind_a_hole_are_not_buffered_without_end() -> None:
    fed = Fed(most_bytes=1 << 24).says(0, b"\5\1\0").loses(0, 5)
    for _ in range(300):
        fed.says(0, bytes(1 << 12))
        assert fed.streams.buffered_bytes < 1 << 21
    assert len(fed.bytes_of(0)) >= 300 << 12


def test_credentials_are_marked_before_they_come_and_where_they_are() -> None:
    turns = proxied.socks5(password=proxied.PASSWORD)
    fed = Fed().says(0, b"\5\2\0\2")
    assert fed.tokens == [(0, 0, None)]
    for side, data in turns[1:]:
        fed.says(side, data)
    fed.says(0, REQUESTS).close()
    final = {begin: (direction, end) for direction, begin, end in fed.tokens}
    begin = sent(turns, 0).index(proxied.PASSWORD)
    assert final == {0: (0, 0), begin: (0, begin + len(proxied.PASSWORD))} | (
        {0: (1, 0)} if final[0][0] else {}
    )


def test_credentials_of_a_refused_request_stay_marked() -> None:
    request = proxied.connect(proxied.AUTHORIZATION)
    fed = Fed().says(0, request).says(1, proxied.REFUSED).close()
    assert fed.tokens[-1] == (0, 0, len(request))
    assert fed.bytes_of(0) == request


def test_what_only_looked_like_a_request_for_a_proxy_is_no_longer_marked() -> None:
    fed = Fed().says(0, b"C").says(0, b"OPY a\r\n").close()
    assert fed.tokens == [(0, 0, None), (0, 0, 0)]


@for_each(
    "state",
    [
        None,
        (),
        ((), (), ()),
        (((7, (None, None, ((), ()))),), ((8, 0),)),
        (((8, (None, None, ((), ()))),), ()),
        (((7, (2, None, ((), ()))),), ()),
        (((7, (None, (1, -1), ((), ()))),), ()),
        (((7, (None, (1,), ((), ()))),), ()),
        (((7, (None, None, ((1,), ()))),), ()),
        ((), ((7, 2),)),
    ],
)
def test_a_state_of_something_else_is_refused(state: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - as every state
        load(StreamsBehindProxies(1 << 20), state, {7: Fed().tcp})
