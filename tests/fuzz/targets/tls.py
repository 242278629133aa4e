"""TLS: records, handshakes and key logs with any content."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from kanalyze.common.saved import load, make, save
from kanalyze.model.streams import Gap, StreamUpdate
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.model.tls import HEADER_BYTES, TlsConnection
from kanalyze.tls.keylog import KeyLog
from kanalyze.tls.late_start import LateStarts
from kanalyze.tls.session import TlsSession
from kanalyze.tls.watcher import TlsWatcher
from tests.fuzz.invariant import holds
from tests.fuzz.turns import items_of, turns_in, turns_of
from tests.support import tls_made as made

if TYPE_CHECKING:
    from kanalyze.model.streams import StreamItem

_CONTENTS = [(0, b"request " * 9), (1, b"response " * 40), (0, b"x"), (1, bytes(700)), (0, b"end")]
_MAX_BUFFERED_BYTES = 1 << 20
_MAX_TRIALS = 4096


@functools.cache
def _conversations() -> tuple[made.Made, ...]:
    aead = [made.conversation(suite, _CONTENTS) for suite in (made.SUITE_13, made.SUITE_12)]
    cbc = [
        made.conversation(made.SUITE_CBC, _CONTENTS, encrypt_then_mac=is_behind)
        for is_behind in (False, True)
    ]
    return (*aead, *cbc)


def tls_turns() -> list[bytes]:
    """Return whole conversations, some that begin late, and some with a lost record."""
    inputs = []
    for each in _conversations():
        parts = each.parts
        inputs += [turns_of(parts), turns_of(parts[8:]), turns_of(parts[:4])]
        for lost in range(5, len(parts), 2):
            torn = [(side + 2 * (n == lost), data) for n, (side, data) in enumerate(parts)]
            inputs.append(turns_of(torn, b"\x01\x05\x02\xff"))
    return inputs


def read_tls(data: bytes) -> None:
    """Follow a session with its keys; only plaintext that was sent comes out."""
    log = KeyLog()
    log.feed(made.KEYS)
    turns = turns_in(data)
    from_start = data[:1] != b"\x01"
    late_starts = LateStarts(log, _MAX_TRIALS)
    session = TlsSession(log, late_starts, (from_start, from_start))
    contents = {content for _, content in _CONTENTS}
    ends = [0, 0]
    for side, item in items_of(turns, data[:4]):
        both: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        both[side].append(item)
        _check(session.feed(both), ends, contents)
        holds(session.buffered_bytes < _MAX_BUFFERED_BYTES, "more bytes buffered than allowed")
    _check(session.close(), ends, contents)
    sent = sum(len(turn.data) for turn in turns if not turn.is_lost)
    counts = session.facts.counts
    holds(sum(each.bytes for each in counts) <= sent, "more bytes in records than were sent")
    for each in counts:
        holds(each.opened_records + each.unopened_records <= each.records, "more than there are")
        holds(each.plaintext_bytes <= each.bytes, "more plaintext than ciphertext")


def _check(
    items: tuple[list[StreamItem], list[StreamItem]], ends: list[int], contents: set[bytes]
) -> None:
    for side in (0, 1):
        for item in items[side]:
            holds(item.stream_offset == ends[side], "streams that do not continue where they ended")
            if isinstance(item, Gap):
                holds(item.length > 0, "an empty gap")
                ends[side] += item.length
                continue
            segments = item.segments
            ends[side] += sum(segments.length[item.first : item.last])
            rest = bytes(segments.buffer)
            while rest:
                found = [content for content in contents if rest.startswith(content)]
                holds(found, "plaintext that nobody sent")
                rest = rest[max(map(len, found)) :]


def watch_tls(data: bytes) -> None:
    """Watch a connection without keys; the facts continue from any saved state."""
    turns = turns_in(data)
    tcp = TcpConnection(1, (Endpoint("10.0.0.1", 40_000), Endpoint("10.0.0.2", 9093)), 1, 0, 0, 0)
    tcp.start_seen = (data[:1] != b"\x01",) * 2
    watcher = TlsWatcher(_MAX_BUFFERED_BYTES)
    for number, (side, item) in enumerate(items_of(turns, data[:4])):
        both: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        both[side].append(item)
        watcher.feed([StreamUpdate(tcp, both, closed=False)])
        holds(watcher.buffered_bytes < 2 * _MAX_BUFFERED_BYTES, "more bytes buffered than allowed")
        if number % 3 == 1:
            state, watcher = save(watcher), TlsWatcher(_MAX_BUFFERED_BYTES)
            load(watcher, state, {tcp.serial: tcp})
            holds(save(watcher) == state, "another state than was loaded")
    watcher.feed([StreamUpdate(tcp, ([], []), closed=True)])
    holds(not watcher.buffered_bytes, "bytes buffered of a closed connection")
    if tcp.tls is None:
        return
    tls = make(TlsConnection, save(tcp.tls))
    holds(save(tls) == save(tcp.tls), "facts that their state does not have")
    for side in (0, 1):
        sent = sum(len(turn.data) for turn in turns if turn.side == side and not turn.is_lost)
        holds(tls.records[side] * HEADER_BYTES <= sent, "more records than there is room for")
    holds((tls.estimated_requests or 0) <= sum(tls.records), "more requests than records")


def key_logs() -> list[bytes]:
    """Return a key log, and one with other lines that a key log may have."""
    agent = b"RSA Session-ID:" + b"ab" * 32 + b" Master-Key:" + b"cd" * 48 + b"\n"
    return [made.KEYS, b"# comment\r\n" + agent + b"RSA 0011 2233\n" + made.KEYS]


def read_key_log(data: bytes) -> None:
    """Read a key log in pieces and at once: the results are the same."""
    whole, pieces = KeyLog(8), KeyLog(8)
    whole.feed(data)
    step = 1 + data[0] if data else 1
    for at in range(0, len(data), step):
        pieces.feed(data[at : at + step])
    for log in (whole, pieces):
        log.end()
        holds(len(log) <= 8, "more secrets than are allowed")
        holds(log.other_lines + log.wrong_lines <= log.lines, "more lines than there are")
    same = ("lines", "other_lines", "wrong_lines", "version")
    holds(
        len(whole) == len(pieces)
        and all(getattr(whole, name) == getattr(pieces, name) for name in same),
        "a log that depends on its pieces",
    )
