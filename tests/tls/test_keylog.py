"""Key logs: valid logs in any pieces, and hostile logs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.tls.keylog import LONGEST_LINE_BYTES, MAX_SECRETS, KeyLog, SecretKind
from tests.support.effort import took_soon

RANDOM, SECRET, MASTER = b"\x01" * 32, b"\x02" * 32, b"\x03" * 48


def line(label: bytes, name: bytes, secret: bytes) -> bytes:
    return b" ".join((label, name.hex().encode(), secret.hex().encode())) + b"\n"


def read(data: bytes, most_secrets: int = 100) -> KeyLog:
    log = KeyLog(most_secrets)
    log.feed(data)
    log.end()
    return log


LABELS = {
    b"CLIENT_RANDOM": SecretKind.MASTER,
    b"CLIENT_EARLY_TRAFFIC_SECRET": SecretKind.CLIENT_EARLY,
    b"CLIENT_HANDSHAKE_TRAFFIC_SECRET": SecretKind.CLIENT_HANDSHAKE,
    b"SERVER_HANDSHAKE_TRAFFIC_SECRET": SecretKind.SERVER_HANDSHAKE,
    b"CLIENT_TRAFFIC_SECRET_0": SecretKind.CLIENT_TRAFFIC,
    b"SERVER_TRAFFIC_SECRET_0": SecretKind.SERVER_TRAFFIC,
}


def test_each_label_is_a_secret() -> None:
    text = b"# a comment\n\n" + b"".join(line(label, RANDOM, MASTER) for label in LABELS)
    log = read(text)
    assert MASTER.hex() not in repr(log)
    assert [log.find(RANDOM, kind) for kind in LABELS.values()] == [MASTER] * 6
    assert (len(log), log.lines, log.version) == (6, 6, 6)
    assert (log.other_lines, log.wrong_lines) == (0, 0)


def test_lines_of_the_java_agent_are_found_by_session_id() -> None:
    text = b"RSA Session-ID:" + b"AB" * 32 + b" Master-Key:" + MASTER.hex().upper().encode()
    assert read(text).find(b"\xab" * 32, SecretKind.SESSION) == MASTER


def test_other_labels_are_counted() -> None:
    text = line(b"EXPORTER_SECRET", RANDOM, SECRET) + b"RSA 0011 2233\n" + b"ECH_CONFIG 00 11\n"
    log = read(text)
    assert (log.lines, log.other_lines, log.wrong_lines, len(log)) == (3, 3, 0, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        b"CLIENT_RANDOM",
        b"client_random " + RANDOM.hex().encode() + b" " + MASTER.hex().encode(),
        line(b"CLIENT_RANDOM", RANDOM[:31], MASTER),
        line(b"CLIENT_RANDOM", RANDOM, MASTER[:32]),
        line(b"CLIENT_TRAFFIC_SECRET_0", RANDOM, SECRET[:16]),
        line(b"CLIENT_RANDOM", RANDOM, MASTER)[:-2],
        b"CLIENT_RANDOM " + b"z" * 64 + b" " + b"0" * 96,
        b"CLIENT_RANDOM " + "é".encode() * 32 + b" " + b"0" * 96,
        b"\xff\x00\x01",
        b"x" * (LONGEST_LINE_BYTES * 5),
        line(b"CLIENT_RANDOM", RANDOM, MASTER)[:-1] + b" more",
    ],
)
def test_a_wrong_line_does_not_affect_the_next_one(wrong: bytes) -> None:
    good = line(b"CLIENT_RANDOM", RANDOM, MASTER)
    for size in (1, 100, 1 << 20):
        log = KeyLog()
        text = wrong.rstrip(b"\n") + b"\r\n" + good
        for at in range(0, len(text), size):
            log.feed(text[at : at + size])
        assert (log.lines, log.wrong_lines, len(log)) == (2, 1, 1)


@given(st.lists(st.integers(1, 300)))
def test_a_log_may_grow_in_any_pieces(sizes: list[int]) -> None:
    text = b"".join(line(label, RANDOM, MASTER) for label in LABELS)
    log, at = KeyLog(), 0
    for size in [*sizes, len(text)]:
        log.feed(memoryview(text)[at : at + size])
        at += size
    assert (len(log), log.lines, log.wrong_lines) == (6, 6, 0)


def test_the_oldest_secrets_are_dropped() -> None:
    randoms = [number.to_bytes(32, "big") for number in range(1000)]
    log = read(b"".join(line(b"CLIENT_RANDOM", name, MASTER) for name in randoms), 100)
    assert log.version == 1000
    log.feed(line(b"CLIENT_RANDOM", randoms[-1], MASTER))
    assert log.version == 1000  # it was there
    assert 75 <= len(log) <= 100
    assert log.find(randoms[-1], SecretKind.MASTER) == MASTER
    assert log.find(randoms[0], SecretKind.MASTER) is None
    latest = list(log.randoms(SecretKind.MASTER))
    assert latest == randoms[::-1][: len(log)]


@pytest.mark.parametrize("count", [1 << 14, pytest.param(1 << 20, marks=pytest.mark.long)])
def test_a_log_of_any_length_is_bounded_and_read_in_proportion(count: int) -> None:
    text = b"".join(
        line(b"CLIENT_RANDOM", number.to_bytes(32, "big"), MASTER) for number in range(count)
    )
    began_s = time.thread_time()
    log = KeyLog()
    for at in range(0, len(text), 1 << 16):
        log.feed(text[at : at + (1 << 16)])
    assert took_soon(time.thread_time() - began_s, 100e-6 * count)
    assert (log.lines, log.wrong_lines) == (count, 0)
    assert log.version == count
    assert min(count, 3 * MAX_SECRETS // 4) <= len(log) <= MAX_SECRETS
    assert log.find((count - 1).to_bytes(32, "big"), SecretKind.MASTER) == MASTER
