"""Ranges of bytes that are tokens, or may be."""

from __future__ import annotations

from kanalyze.common.saved import load, save
from kanalyze.kafka.session.token_ranges import TokenRanges
from tests.kafka.session.test_message_reader import frame_of
from tests.kafka.session.test_sync_losses import TCP
from tests.support import kafka as k
from tests.support.talk import BROKER, CLIENT

FRAME = frame_of(k.heartbeat(1))


def test_a_frame_holds_a_token_after_its_size_or_where_it_was_found() -> None:
    tokens = TokenRanges(TCP)
    assert tokens.of_frame(FRAME, CLIENT)[1:5] == (CLIENT, 0, 4, FRAME.length)
    assert tokens.of_frame(FRAME, BROKER, 9, 12)[1:5] == (BROKER, 0, 9, 12)
    assert tokens.of_none(FRAME, CLIENT)[3:5] == (0, 0)
    assert tokens.of_unread(CLIENT, 70, 90)[2:5] == (70, 70, 90)


def test_an_incomplete_frame_may_hold_a_token_until_it_is_complete() -> None:
    tokens, other = TokenRanges(TCP), TokenRanges(TCP)
    assert not tokens.has_partial
    assert not tokens.was_partial(FRAME, BROKER)
    assert tokens.of_partial(FRAME, BROKER).end == FRAME.length
    assert tokens.has_partial
    assert tokens.was_partial(FRAME, BROKER)
    assert not tokens.was_partial(FRAME, CLIENT)
    load(other, save(tokens))
    assert other.was_partial(FRAME, BROKER)
    assert other.has_partial
