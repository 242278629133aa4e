"""TLS 1.2 resumed by a ticket alone: the server sends another session id, or none."""

from __future__ import annotations

import pytest

from kanalyze.model.streams import Gap
from kanalyze.tls.keylog import KeyLog
from tests.support import tls_made as made
from tests.support.tls_talk import Sent, items_of, read_items

TICKET = made.extension(35, b"what the server gave before")
DONE = made.record(22, made.message(14, b""))
CONTENTS = [(0, b"request"), (1, b"response")]


def parts_of(*, has_ticket: bool, is_full: bool) -> list[Sent]:
    talk = made.conversation(made.SUITE_12, CONTENTS)
    parts = [part for part in talk.parts if is_full or part[1] != DONE]
    if has_ticket:
        parts[0] = (0, made.client_hello(TICKET))
    if not is_full:  # the server finishes first
        begin = [n for n, (_, data) in enumerate(parts) if data == made.CHANGE]
        client, server = (parts[at : at + 2] for at in begin)
        parts[begin[0] : begin[1] + 2] = [*server, *client]
    return [Sent(side, data) for side, data in parts]


@pytest.mark.parametrize("keys", [made.KEYS, b""])
@pytest.mark.parametrize(
    ("has_ticket", "is_full", "resumed"),
    [(True, False, True), (True, True, False), (False, True, False), (False, False, False)],
)
def test_a_session_is_resumed_by_a_ticket_without_a_full_handshake(
    keys: bytes, has_ticket: bool, is_full: bool, resumed: bool
) -> None:
    log = made_log(keys)
    read = read_items(items_of(parts_of(has_ticket=has_ticket, is_full=is_full)), log)
    assert read.session.facts.resumed is resumed
    if keys:
        assert (read.plaintext(0), read.plaintext(1)) == (b"request", b"response")


def test_a_missing_record_leaves_the_resumption_unknown() -> None:
    items = list(items_of(parts_of(has_ticket=True, is_full=True)))
    without_done = [
        item if n != 2 else (1, Gap(item[1].stream_offset, len(DONE), 1, 1))
        for n, item in enumerate(items)
    ]
    assert read_items(without_done, made_log(b"")).session.facts.resumed is None


def made_log(keys: bytes) -> KeyLog:
    log = KeyLog()
    log.feed(keys)
    log.end()
    return log
