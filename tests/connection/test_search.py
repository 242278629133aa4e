"""Requests in bytes that begin anywhere."""

from __future__ import annotations

from kanalyze.connection.held import HeldStream
from kanalyze.connection.search import Search
from kanalyze.model import Gap
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.streams import TIME_NS, chunk
from tests.support.talk import Talk

SEARCHER = Talk().tracker._judge._searcher
LOTS = 1 << 30


def held(*pieces: bytes | int, snap: int | None = None) -> HeldStream:
    """Segments; a number is a gap."""
    stream, offset = HeldStream(), 0
    for piece in pieces:
        if isinstance(piece, int):
            stream.add(Gap(offset, piece, TIME_NS, 1), -1, LOTS)
            offset += piece
        else:
            stream.add(chunk([piece], stream_offset=offset, snap=snap), 0, LOTS)
            offset += len(piece)
    return stream


def look(stream: HeldStream, other: HeldStream | None = None, *, last: bool = False) -> str | None:
    return SEARCHER.look(Search(), stream, other or HeldStream(), last=last)


def test_a_named_request_is_enough() -> None:
    assert look(held(b"\xee" * 99 + k.heartbeat(1))) == "kafka"
    assert look(held(b"\xee" * 99 + old.produce())) == "kafka-0.7"


def test_a_request_without_a_name_needs_two_answers() -> None:
    requests = held(*(k.heartbeat(n, client_id="") for n in (5, 6)))
    assert look(requests, held(k.heartbeat_answer(5), k.heartbeat_answer(6))) == "kafka"
    assert look(requests, held(k.heartbeat_answer(5))) is None
    assert look(requests, held(k.heartbeat_answer(5)), last=True) is None


def test_requests_in_a_row_are_enough_where_the_other_end_was_not_captured() -> None:
    for many, found in ((3, "kafka"), (2, None)):
        requests = held(*(k.heartbeat(n, client_id="") for n in range(many)))
        assert look(requests) is None
        assert look(requests, last=True) == found
    repeated = held(*[k.heartbeat(4, client_id="")] * 4)
    assert look(repeated, last=True) is None


def test_after_a_loss_the_search_goes_on_behind_it() -> None:
    big = k.produce(1, 1, records=k.record_batch(9, 3000))
    assert look(held(big[100:900], 500, k.heartbeat(2))) == "kafka"


def test_a_request_that_the_snap_length_cut_needs_an_answer() -> None:
    frame = k.produce(9, 1, records=k.record_batch(9, 600))
    assert look(held(frame, snap=60), last=True) is None
    assert look(held(frame, snap=60), held(k.produce_answer(9), snap=20), last=True) == "kafka"
    assert look(held(b"x" + frame, snap=60), held(k.produce_answer(9)), last=True) is None


def test_a_request_that_has_only_begun_hides_none_behind_it() -> None:
    begun = b"\0\x10\0\0" + k.produce(1, 1)[4:]
    assert look(held(begun + k.heartbeat(2))) == "kafka"
