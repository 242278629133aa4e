"""TLS 1.3 with a HelloRetryRequest: the server asks for another ClientHello."""

from __future__ import annotations

import pytest

from kanalyze.model.streams import StreamUpdate
from kanalyze.tls.keylog import KeyLog
from kanalyze.tls.negotiation import Decryption
from kanalyze.tls.watcher import TlsWatcher
from tests.support.tls_talk import Sent, Setting, Talk, items_of, read_items, talk
from tests.tls.test_watcher import MAX_BYTES, TURNS, connection

CHANGE = bytes.fromhex("140303000101")
RETRIED = Setting(server_group="secp384r1")
REQUESTS = sum(side == 0 for side, _ in TURNS)


def without_change(wire: list[Sent]) -> list[Sent]:
    """The same without the ChangeCipherSpec records, which an end need not send."""
    return [Sent(side, data.replace(CHANGE, b"", 1)) for side, data in wire]


def conversation(*, has_change: bool) -> Talk:
    one = talk(RETRIED, TURNS)
    return one if has_change else one._replace(wire=without_change(one.wire))


@pytest.mark.parametrize("has_change", [True, False])
@pytest.mark.parametrize("has_keys", [True, False])
@pytest.mark.parametrize("step", [1, 2, 3, 5, 100])
def test_a_session_is_read_in_batches_of_any_size(
    step: int, has_keys: bool, has_change: bool
) -> None:
    one = conversation(has_change=has_change)
    read = read_items(items_of(one.wire), one.log() if has_keys else KeyLog(), step=step)
    facts = read.session.facts
    assert facts.retried
    assert facts.version == 0x0304
    if has_keys:
        assert (read.plaintext(0), read.plaintext(1)) == one.said
    else:
        assert facts.decryption is Decryption.NO_SECRET


@pytest.mark.parametrize("has_change", [True, False])
@pytest.mark.parametrize("step", [1, 2, 3, 5, 100])
def test_requests_are_estimated_as_without_one(step: int, has_change: bool) -> None:
    tcp = connection()
    items = items_of(conversation(has_change=has_change).wire)
    updates = []
    for begin in range(0, len(items), step):
        both: tuple[list, list] = ([], [])
        for side, item in items[begin : begin + step]:
            both[side].append(item)
        updates.append(StreamUpdate(tcp, both, closed=False))
    TlsWatcher(MAX_BYTES).feed([*updates, StreamUpdate(tcp, ([], []), closed=True)])
    assert tcp.tls is not None
    assert (tcp.tls.version, tcp.tls.estimated_requests) == ("TLS 1.3", REQUESTS)
    assert tcp.tls.handshake_ns is not None
