"""Random captures: connections on which most goes well, and nearly anything may go wrong.

In: a random generator. Out: captures.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from tests.support import kafka as k
from tests.support.batches import message
from tests.support.packets import pcap_file, timed
from tests.support.traffic import (
    CATALOG,
    NO_ID,
    TO_BROKER,
    TO_CLIENT,
    Line,
    Part,
    fetch,
    fetch_answer,
    metadata,
    metadata_answer,
    produce,
    produce_answer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

_TOPICS = (
    "orders",
    "t",
    "",
    "a topic with a name of more than sixty-four bytes, which is long ....",
)
_IDS = (NO_ID, b"\1" * 16, b"\2" * 16, bytes(15) + b"\1", b"\3" * 16)
_CODES = (0, 0, 0, 0, 0, 6, -1, 9999)
_FIRST_IDS = (0, 1, 7, -5, 2**31 - 4, -(2**31))
_SIZES = (1, 2, 3, 5, 14, 40, 100, 536, 1460, 70_000)


class _Mood(NamedTuple):
    """How often something happens; 0 to 1."""

    odd: float
    """Requests and responses that are valid, but of a rare kind."""
    other: float
    """Other APIs, and unknown versions."""
    trouble: float
    """Messages that are missing, damaged or misplaced."""
    loss: float
    """Segments that were not captured."""


_CALM = (_Mood(0, 0, 0, 0), _Mood(0.02, 0, 0, 0), _Mood(0.2, 0, 0, 0), _Mood(0.02, 0.03, 0, 0))
_WILD = (*_CALM, _Mood(0.1, 0.02, 0.02, 0), _Mood(0.2, 0.3, 0.3, 0), _Mood(0, 0.02, 0.02, 0.02))


class _Turn(NamedTuple):
    """A request and its answer, as bytes; either may be empty."""

    request: bytes
    response: bytes


def conversations(
    dice: Random, *, is_calm: bool, most_lines: int = 3, most_turns: int = 60
) -> bytes:
    """Return a capture of a few connections, their packets mixed.

    Calm connections are captured whole, from their first byte on, and every request is followed by
    its response, valid or not; otherwise anything may happen.
    """
    lines = [
        list(_packets(dice, 50_000 + number, dice.randint(1, most_turns), is_calm=is_calm))
        for number in range(dice.randint(1, most_lines))
    ]
    mixed: list[bytes] = []
    while lines:
        line = dice.choice(lines)
        count = dice.choice((1, 1, 2, 5, 30))
        mixed += line[:count]
        del line[:count]
        lines = [line for line in lines if line]
    packets = timed(mixed)
    if not is_calm and dice.random() < 0.1:
        # A snap length: the ends of long packets are not captured.
        for packet in packets:
            packet.wire_bytes, packet.data = len(packet.data), packet.data[:200]
    return pcap_file(packets)


# -- messages -------------------------------------------------------------------------------------


def _records(dice: Random) -> bytes | None:
    kind = dice.choice(("batch", "batch", "batch", "batches", "null", "none", "old", "part", "bad"))
    first = dice.choice((0, 5, 100))
    size = dice.choice((0, 20, 20, 20, 600, 20_000))
    if kind == "batches":
        return b"".join(k.record_batch(3, 10, offset) for offset in (first, first + 3))
    made = {
        "null": None,
        "none": b"",
        "old": message(1, offset=first),
        "part": k.record_batch(2, size, first)[: dice.randint(1, 61)],
        "bad": k.record_batch(2, size, first)[:8] + b"\x7f" * 60,
    }
    return made.get(kind, k.record_batch(dice.randint(1, 9), size, first))


def _part(dice: Random, *, is_odd: bool) -> Part:
    count = dice.randint(1, 5)
    records = _records(dice) if is_odd else k.record_batch(count, 20 * count)
    return Part(
        dice.choice(_TOPICS) if is_odd else dice.choice(_TOPICS[:2]),
        dice.choice(_IDS),
        dice.choice((0, 0, 1, 2, -1)),
        records,
        dice.choice(_CODES),
        dice.choice((0, 5, -1, 2**40)),
        dice.choice((-1, 0, 10, 10, 2**40)),
    )


def _answered_parts(dice: Random, asked: list[Part]) -> list[Part]:
    """The same partitions, or others, or in another order."""
    kind = dice.choice(("same",) * 6 + ("none", "fewer", "other", "turned"))
    if kind == "none":
        return []
    if kind == "fewer":
        return asked[1:]
    if kind == "other":
        return [part._replace(partition=part.partition + 1) for part in asked]
    return asked[::-1] if kind == "turned" else asked


def _data_turn(
    dice: Random, api_key: int, correlation_id: int, version: int, *, is_odd: bool
) -> _Turn:
    parts = [_part(dice, is_odd=is_odd) for _ in range(dice.choice((1, 1, 1, 2, 3)))]
    if not is_odd:
        parts = list({part[:3]: part for part in parts}.values())
    answered = _answered_parts(dice, parts) if is_odd else parts
    client_id = dice.choice(("test", "test", "caf\u00e9", "", None))
    throttle_ms = dice.choice((0, 0, 30))
    if api_key == k.PRODUCE:
        acks = dice.choice((-1, 1, 0)) if is_odd else -1
        asked = produce(
            correlation_id,
            version,
            parts,
            acks=acks,
            transactional_id=dice.choice((None, None, "", "tx", "x" * 130)),
            client_id=client_id,
        )
        answer = produce_answer(correlation_id, version, answered, throttle_ms=throttle_ms)
        return _Turn(asked, answer if acks else b"")
    session_id, epoch = dice.choice(((0, -1), (0, -1), (0, -1), (0, 0), (9, 1), (9, -1)))
    if not is_odd:
        session_id, epoch = 0, -1
    asked = fetch(
        correlation_id,
        version,
        parts,
        session_id=session_id,
        epoch=epoch,
        min_bytes=dice.choice((0, 1, 100)),
        max_wait_ms=dice.choice((0, 500)),
        client_id=client_id,
    )
    answer = fetch_answer(
        correlation_id,
        version,
        answered,
        throttle_ms=throttle_ms,
        error_code=dice.choice(_CODES) if is_odd else 0,
        session_id=session_id,
    )
    return _Turn(asked, answer)


def _damaged(dice: Random, frame: bytes) -> bytes:
    """A frame with the right size and a wrong byte or length."""
    content = bytearray(frame[4:])
    kind = dice.choice(("cut", "more", "byte", "byte"))
    if kind == "cut":
        del content[dice.randint(min(len(content), 12), len(content)) :]
    elif kind == "more":
        content += bytes(dice.randint(1, 9))
    elif len(content) > 12:
        content[dice.randrange(12, len(content))] ^= 1 << dice.randrange(8)
    return struct.pack(">i", len(content)) + bytes(content)


def _other_turn(dice: Random, correlation_id: int) -> _Turn:
    kind = dice.choice(("heartbeat", "names", "versions", "unknown api", "unknown version"))
    if kind == "names":
        names = [(dice.choice(_IDS), dice.choice(("orders", "t"))) for _ in range(2)]
        return _Turn(metadata(correlation_id), metadata_answer(correlation_id, names))
    if kind == "versions":
        name = dice.choice(("lib", "other"))
        answer = k.api_versions_answer_v0(correlation_id, 35)
        return _Turn(k.api_versions(correlation_id, name=name), answer)
    if kind == "unknown api":
        return _Turn(k.request(999, 0, correlation_id, b"what"), k.response(correlation_id, b"so"))
    if kind == "unknown version":
        key = dice.choice((k.PRODUCE, k.FETCH))
        asked = k.request(key, 90, correlation_id, b"\0\0\0\1\0\0\0")
        return _Turn(asked, k.response(correlation_id, bytes(9)))
    return _Turn(k.heartbeat(correlation_id), k.heartbeat_answer(correlation_id))


def _turns(dice: Random, count: int, mood: _Mood) -> Iterator[_Turn]:
    correlation_id = dice.choice(_FIRST_IDS)
    pace = dice.choice((1, 1, 1, 1, 0, 2)) if mood.odd else 1
    key = dice.choice((k.PRODUCE, k.FETCH))
    version = _any_version(dice, key)
    for _ in range(count):
        if dice.random() < 0.05:
            key = dice.choice((k.PRODUCE, k.FETCH))
            version = _any_version(dice, key)
        if dice.random() < mood.other:
            turn = _other_turn(dice, correlation_id)
        else:
            is_odd = dice.random() < mood.odd
            turn = _data_turn(dice, key, correlation_id, version, is_odd=is_odd)
            if is_odd and dice.random() < 0.2:
                turn = _Turn(*(frame and _damaged(dice, frame) for frame in turn))
        yield _in_trouble(dice, turn) if dice.random() < mood.trouble else turn
        correlation_id += pace
        if dice.random() < mood.trouble:
            correlation_id += dice.choice((-3, -1, 1, 50))
        correlation_id = (correlation_id + 2**31) % 2**32 - 2**31


def _any_version(dice: Random, api_key: int) -> int:
    api = CATALOG.api(api_key)
    assert api is not None
    return dice.randint(api.versions.lowest, api.versions.highest)


def _in_trouble(dice: Random, turn: _Turn) -> _Turn:
    request, response = turn
    kind = dice.choice(("unanswered", "orphan", "bad request", "bad response", "other id", "size"))
    if kind == "unanswered":
        return _Turn(request, b"")
    if kind == "orphan":
        return _Turn(b"", response)
    if kind == "bad request":
        return _Turn(_damaged(dice, request), response)
    if kind == "size":
        return _Turn(request, struct.pack(">i", dice.choice((-1, 3, 2**30))) + response[4:])
    if not response:
        return turn
    if kind == "bad response":
        return _Turn(request, _damaged(dice, response))
    return _Turn(request, response[:4] + struct.pack(">i", 77) + response[8:])


# -- packets --------------------------------------------------------------------------------------


def _order(dice: Random, turns: list[_Turn], *, is_hasty: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the messages of both ends; a response before its request is rare."""
    window = dice.choice((1, 1, 5, 20, 1000))
    asked = answered = 0
    while answered < len(turns):
        may_ask = asked < len(turns) and asked - answered < window
        may_answer = answered < asked or (is_hasty and answered < len(turns))
        if may_ask and (not may_answer or dice.random() < 0.7):
            yield TO_BROKER, turns[asked].request
            asked += 1
        else:
            yield TO_CLIENT, turns[answered].response
            answered += 1


def _cut(dice: Random) -> Callable[[bytes], Iterator[bytes]]:
    """Return a function that cuts messages into segments: whole, of a fixed size, or anywhere."""
    kind = dice.choice(("whole", "whole", "whole", "sizes", "anywhere"))
    fixed = dice.choice(_SIZES)

    def pieces(data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            size = len(data)
            if kind == "sizes":
                size = max(fixed, len(data) // 40)
            elif kind == "anywhere":
                size = max(dice.choice(_SIZES), len(data) // 40)
            size = min(size, 60_000)
            yield data[at : at + size]
            at += size

    return pieces


def _packets(dice: Random, client_port: int, count: int, *, is_calm: bool) -> Iterator[bytes]:
    mood = dice.choice(_CALM if is_calm else _WILD)
    packets: list[bytes] = []
    line = Line(packets, client_port)
    sends = _Sender(dice, line, mood.loss)
    is_wild = mood not in _CALM
    if is_calm or dice.random() < 0.8:
        line.open()
    turns = list(_turns(dice, count, mood))
    said = list(_order(dice, turns, is_hasty=is_wild and dice.random() < 0.1))
    if is_wild and dice.random() < 0.2:
        # The capture begins in the middle of a message.
        said[0] = (said[0][0], said[0][1][dice.randint(1, 50) :])
    for side, data in said[: dice.randint(1, len(said))] if is_wild else said:
        sends(side, data)
    sends.rest()
    if dice.random() < 0.7:
        line.close()
    elif dice.random() < 0.3:
        line.reset()
    yield from packets


class _Sender:
    """Sends messages, some of them together, in segments of some sizes."""

    def __init__(self, dice: Random, line: Line, loss: float) -> None:
        self._dice = dice
        self._line = line
        self._loss = loss
        self._pieces = _cut(dice)
        self._joined = dice.choice((1, 1, 4, 30))
        self._held: tuple[list[bytes], list[bytes]] = ([], [])

    def __call__(self, side: int, data: bytes) -> None:
        # A response never comes before its request.
        if self._held[1 - side]:
            self._send(1 - side)
        self._held[side].append(data)
        if len(self._held[side]) >= self._joined:
            self._send(side)

    def rest(self) -> None:
        for side in (TO_BROKER, TO_CLIENT):
            self._send(side)

    def _send(self, side: int) -> None:
        for piece in self._pieces(b"".join(self._held[side])):
            if self._dice.random() < self._loss:
                self._line.loses(side, len(piece))
            else:
                self._line.says(side, piece)
        self._held[side].clear()
