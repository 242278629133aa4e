"""Secrets may come after their connections: these wait, and the results are the same."""

from __future__ import annotations

from array import array

import pytest

import kanalyze.tls.streams as tls_streams
from kanalyze.capture.merge import MergedCaptures
from kanalyze.net.tcp.reassembly import Reassembler
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tls.keylog import KeyLog
from kanalyze.tls.negotiation import Decryption
from kanalyze.tls.streams import DecryptedStreams
from tests.support import tls_captures
from tests.support.building import OneCapture

FEW = ["tls13-aes128gcm", "tls12-aes128gcm", "tls12-aes256cbc-sha1", "tls13-mutual"]
OTHER = "tls-no-suite"
"""A capture whose key log has no secret of another capture."""
STEP_PACKETS = 16
LAST = 1 << 62


class Captured(OneCapture):
    """A capture, a few packets at a time; secrets are added between two batches."""

    can_be_read_again = False
    description = None
    dropped_packets = None
    progress = (0, None)

    def __init__(self, name: str, log: KeyLog, keys: dict[int, bytes]) -> None:
        """``keys`` are pieces of the key log, by the number of the batch before which they come."""
        super().__init__(name)
        self.names = [name]
        self.anomalies: list[object] = []
        self._log, self._keys = log, keys

    def batches(self):
        number = 0
        with MergedCaptures([str(tls_captures.path(self.names[0]))]) as captures:
            for batch in captures.batches():
                for first in range(0, len(batch), STEP_PACKETS):
                    rows = range(first, min(first + STEP_PACKETS, len(batch)))
                    self._log.feed(self._keys.pop(number, b""))
                    yield batch.select(array("q", rows))
                    number += 1
        for piece in self._keys.values():
            self._log.feed(piece)


def analysis(name: str, keys: dict[int, bytes], *, grows: bool = True) -> Analysis:
    log = KeyLog(grows=grows)
    return Analysis((), source=Captured(name, log, dict(keys)), keylog=log)


def rows_of(read: Analysis) -> list[str]:
    return sorted(repr(row) for rows in read.row_batches() for row in rows)


def connections_of(read: Analysis) -> list[str]:
    return sorted(repr(row) for rows in read.connection_batches() for row in rows)


def keys_of(name: str) -> bytes:
    return tls_captures.keylog(name).read_bytes()


def spread(data: bytes, pieces: int) -> dict[int, bytes]:
    """Cut a key log anywhere, also within lines and between the secrets of one session."""
    size = len(data) // pieces + 1
    return {7 * n: data[n * size : (n + 1) * size] for n in range(pieces)}


@pytest.mark.parametrize("name", FEW)
def test_rows_are_the_same_as_with_keys_from_the_start(name):
    keys = keys_of(name)
    expected = rows_of(analysis(name, {0: keys}, grows=False))
    assert len(expected) == len(tls_captures.read_by_tshark(name))
    for given in ({0: keys}, {5: keys}, {LAST: keys}, spread(keys, 23)):
        assert rows_of(analysis(name, given)) == expected


@pytest.mark.parametrize("name", FEW[:2])
def test_connections_are_the_same_as_with_keys_from_the_start(name):
    keys = keys_of(name)
    expected = connections_of(analysis(name, {0: keys}, grows=False))
    for given in ({LAST: keys}, spread(keys, 23)):
        assert connections_of(analysis(name, given)) == expected


@pytest.mark.parametrize("name", FEW[:2])
def test_connections_without_their_secrets_are_the_same_as_without_keys(name):
    expected = connections_of(analysis(name, {}, grows=False))
    assert connections_of(analysis(name, {3: keys_of(OTHER)})) == expected


def buffered_by(name: str, log: KeyLog, most_kept_bytes: int) -> tuple[DecryptedStreams, int]:
    """Read a capture whose secrets do not come; return also the most bytes that were buffered."""
    streams, reassembler = DecryptedStreams(log, most_kept_bytes), Reassembler()
    most = 0
    for batch in Captured(name, log, {}).batches():
        streams.feed(reassembler.feed(batch).updates)
        most = max(most, streams.buffered_bytes)
    streams.feed(reassembler.finish().updates, is_last=True)
    return streams, most


@pytest.mark.parametrize(("bound", "value"), [("MAX_WAIT_NS", 0), ("MAX_WAITING_BYTES", 20_000)])
def test_a_connection_that_waited_too_long_is_given_up_and_reported(bound, value, monkeypatch):
    monkeypatch.setattr(tls_streams, bound, value)
    name = FEW[0]
    streams, _ = buffered_by(name, KeyLog(grows=True), 1 << 27)
    given_up = streams.take_given_up()
    found = {str(each.tcp.endpoints[0]) for each in given_up}
    assert found >= {each.client for each in tls_captures.read_by_tshark(name)}
    assert {each.reason for each in given_up} == {Decryption.NO_SECRET}
    assert streams.given_up_connections == len(given_up)
    assert (streams.buffered_bytes, streams.waiting_connections) == (0, 0)
    assert streams.take_given_up() == []


def test_the_buffered_bytes_of_all_connections_are_bounded():
    name = FEW[0]
    _, most = buffered_by(name, KeyLog(grows=True), 1 << 27)
    assert buffered_by(name, KeyLog(grows=True), most // 4)[1] <= most // 4


def test_no_connection_is_given_up_where_the_key_log_is_complete():
    streams, _ = buffered_by(FEW[0], KeyLog(), 1 << 27)
    assert (streams.take_given_up(), streams.given_up_connections) == ([], 0)


def test_only_lines_of_decrypted_sessions_are_returned_as_used():
    name = FEW[0]
    log = KeyLog(grows=True)
    log.feed(keys_of(OTHER))
    log.feed(keys_of(name))
    read = Analysis((), source=Captured(name, log, {}), keylog=log)
    expected = rows_of(read)
    given: set[bytes] = set()
    lines = list(log.used_lines(given))
    assert list(log.used_lines(given)) == []
    assert {line.lower() for line in lines} <= set(keys_of(name).lower().splitlines(keepends=True))
    assert rows_of(analysis(name, {0: b"".join(lines)})) == expected
