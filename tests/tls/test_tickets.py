"""TLS 1.2 resumed by a ticket alone: the server sends another session id, or none."""

from __future__ import annotations

import hashlib

import pytest

from kanalyze.common.saved import load, save
from kanalyze.model.streams import Gap
from kanalyze.tls.late_start import EarlierSessions, LateStarts
from kanalyze.tls.negotiation import Decryption
from kanalyze.tls.session import TlsSession
from tests.support import tls_made as made
from tests.support.tls_talk import Sent, bytes_of, items_of, log_with, read_items

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
    log = log_with(keys)
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
    assert read_items(without_done, log_with(b"")).session.facts.resumed is None


# -- the key log has the secret of the earlier session alone --------------------------------------

EARLIER = bytes(range(32, 64))
"""The random of the connection on which the session began, or its id."""
ENDS = ("10.0.0.1", "10.0.0.2")
CHANNELS = [made.SUITE_12, 0xC030, made.SUITE_CBC]


def line_of(name: bytes, secret: bytes, *, is_id: bool = False) -> bytes:
    words = name.hex().encode(), secret.hex().encode()
    form = b"RSA Session-ID:%b Master-Key:%b\n" if is_id else b"CLIENT_RANDOM %b %b\n"
    return form % words


OTHERS = b"".join(
    line_of(hashlib.sha256(bytes((n,))).digest(), hashlib.sha384(bytes((n,))).digest())
    for n in range(200)
)


def resumed(suite: int, *, random: bytes = made.CLIENT_RANDOM) -> list[Sent]:
    """A session that is resumed, with a ticket in its hello."""
    talk = made.conversation(suite, CONTENTS, client_random=random)
    parts = [part for part in talk.parts if part[1] != DONE]
    parts[0] = (0, made.client_hello(TICKET, random))
    begin = [n for n, (_, data) in enumerate(parts) if data == made.CHANGE]
    client, server = (parts[at : at + 2] for at in begin)
    parts[begin[0] : begin[1] + 2] = [*server, *client]
    return [Sent(side, data) for side, data in parts]


@pytest.mark.parametrize("is_id", [False, True])
@pytest.mark.parametrize("suite", CHANNELS)
def test_a_session_is_read_with_the_secret_of_the_one_that_it_resumes(
    suite: int, is_id: bool
) -> None:
    log = log_with(OTHERS + line_of(EARLIER, made.MASTER, is_id=is_id) + OTHERS)
    read = read_items(items_of(resumed(suite)), log)
    assert (read.plaintext(0), read.plaintext(1)) == (b"request", b"response")
    assert read.session.facts.resumed is True
    # What is written with the packets decrypts them again.
    read.session.note_used()
    copied = log_with(b"".join(log.used_lines(set())))
    assert len(copied) == 1
    again = read_items(items_of(resumed(suite)), copied)
    assert (again.plaintext(0), again.plaintext(1)) == (b"request", b"response")


def test_a_server_that_repeats_the_id_of_the_client_resumes_too() -> None:
    """As rustls does: the id was made up by the client, and is in no log."""
    parts = resumed(made.SUITE_12)
    hello = parts[0].data.replace(made.SESSION_ID, made.SESSION_ID[::-1])
    log = log_with(line_of(EARLIER, made.MASTER))
    read = read_items(items_of([Sent(0, hello), *parts[1:]]), log)
    assert (read.plaintext(0), read.plaintext(1)) == (b"request", b"response")


@pytest.mark.parametrize("lost", range(2, 6))
def test_a_lost_record_of_the_handshake_does_not_hide_the_session(lost: int) -> None:
    items = list(items_of(resumed(made.SUITE_12)))
    side, item = items[lost]
    size = sum(item.segments.length)
    items[lost] = (side, Gap(item.stream_offset, size, 1, 1))
    read = read_items(items, log_with(OTHERS + line_of(EARLIER, made.MASTER)))
    assert b"request" in read.plaintext(0)
    assert b"response" in read.plaintext(1)


def test_a_new_session_without_a_secret_is_not_tried() -> None:
    log = log_with(OTHERS + line_of(EARLIER, made.MASTER))
    late_starts = LateStarts(log)
    before = save(late_starts)
    session = TlsSession(log, late_starts, (True, True), ENDS)
    for side, item in items_of(parts_of(has_ticket=True, is_full=True)):
        session.feed(([item], []) if side == 0 else ([], [item]))
    session.close()
    assert session.facts.decryption is Decryption.NO_SECRET
    assert save(late_starts) == before


def feed_all(session: TlsSession, parts: list[Sent]) -> bytes:
    """Read a conversation; return the plaintext of the client."""
    found = b""
    for side, item in items_of(parts):
        plaintext = session.feed(([item], []) if side == 0 else ([], [item]))
        found += b"".join(bytes_of(each) for each in plaintext[0])
    return found


def test_the_sessions_of_the_same_ends_are_tried_first_and_whatever_was_tried_before() -> None:
    first = line_of(made.CLIENT_RANDOM, made.MASTER)
    log = log_with(first + OTHERS)
    late_starts = LateStarts(log)
    late_starts.earlier = EarlierSessions(log, 0)  # no trial is left
    whole = parts_of(has_ticket=False, is_full=True)
    assert feed_all(TlsSession(log, late_starts, (True, True), ENDS), whole) == b"request"
    again = resumed(made.SUITE_12, random=EARLIER)
    other_ends = ("10.0.0.1", "10.0.0.3")
    assert feed_all(TlsSession(log, late_starts, (True, True), other_ends), again) == b""
    assert feed_all(TlsSession(log, late_starts, (True, True), ENDS), again) == b"request"
    # They are known after a break, too.
    later = LateStarts(log)
    load(later, save(late_starts))
    assert save(later) == save(late_starts)
    assert feed_all(TlsSession(log, later, (True, True), ENDS), again) == b"request"


def test_the_trials_are_bounded() -> None:
    log = log_with(OTHERS)
    late_starts = LateStarts(log)
    late_starts.earlier = EarlierSessions(log, 150)
    for _ in range(3):
        assert feed_all(TlsSession(log, late_starts, (True, True)), resumed(made.SUITE_12)) == b""
    left, _ = save(late_starts.earlier)
    assert -10 < left <= 0
