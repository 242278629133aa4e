"""0-RTT: early data are read if the server accepts them, and left out if it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.model.streams import Gap
from kanalyze.tls.keys import cipher_suite, keys_13
from tests.support import tls_made as made
from tests.support.tls_talk import CLIENT, SERVER, Sent, items_of, log_with, read_items

if TYPE_CHECKING:
    from kanalyze.tls.keylog import KeyLog

EARLY = bytes(range(200, 232))
ACCEPTED = made.message(8, made.vector(2, made.extension(42, b"")))
REJECTED = made.message(8, made.vector(2, b""))


def conversation(extensions: bytes) -> list[Sent]:
    suite = cipher_suite(made.SUITE_13)
    assert suite is not None
    early = made.Sealer(keys_13(suite, EARLY), is_13=True)
    handshake = [made.Sealer(keys_13(suite, made.HANDSHAKE[end]), is_13=True) for end in (0, 1)]
    traffic = [made.Sealer(keys_13(suite, made.TRAFFIC[end]), is_13=True) for end in (0, 1)]
    offer = made.client_hello()[9:] + made.extension(42, b"")
    hello = made.record(22, made.message(1, grown(offer)))
    wire = [
        Sent(CLIENT, hello + made.CHANGE + early.seal(23, b"early request")),
        Sent(SERVER, made.server_hello(made.SUITE_13) + made.CHANGE),
        Sent(SERVER, handshake[1].seal(22, extensions + made.FINISHED)),
        Sent(SERVER, traffic[1].seal(23, b"response")),
    ]
    if extensions == ACCEPTED:
        wire.append(Sent(CLIENT, early.seal(22, made.message(5, b""))))
    wire.append(Sent(CLIENT, handshake[0].seal(22, made.FINISHED)))
    wire.append(Sent(CLIENT, traffic[0].seal(23, b", late request")))
    return wire


def grown(body: bytes) -> bytes:
    """A ClientHello's body with one more extension, and the right length of all extensions."""
    at = 2 + 32 + 1 + 32
    at += 2 + int.from_bytes(body[at : at + 2], "big") + 2
    return body[:at] + (len(body) - at - 2).to_bytes(2, "big") + body[at + 2 :]


def log(*, has_early: bool = True) -> KeyLog:
    line = f"CLIENT_EARLY_TRAFFIC_SECRET {made.CLIENT_RANDOM.hex()} {EARLY.hex()}\n"
    return log_with(made.KEYS + (line.encode() if has_early else b""))


@pytest.mark.parametrize("step", [1, 100])
def test_accepted_early_data_comes_first(step: int) -> None:
    read = read_items(items_of(conversation(ACCEPTED)), log(), step=step)
    assert read.plaintext(CLIENT) == b"early request, late request"
    assert read.plaintext(SERVER) == b"response"
    assert read.session.facts.accepted_early_data is True
    assert read.gaps(CLIENT) == []


@pytest.mark.parametrize("step", [1, 100])
def test_rejected_early_data_was_never_read_by_the_server(step: int) -> None:
    read = read_items(items_of(conversation(REJECTED)), log(), step=step)
    assert read.plaintext(CLIENT) == b", late request"
    assert read.session.facts.accepted_early_data is False
    assert read.gaps(CLIENT) == []


def test_early_data_without_its_key_is_a_gap() -> None:
    read = read_items(items_of(conversation(ACCEPTED)), log(has_early=False))
    assert isinstance(read.items[CLIENT][0], Gap)
    assert read.plaintext(CLIENT) == b", late request"
