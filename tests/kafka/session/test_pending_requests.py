"""Pending requests are found by their correlation id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.framing.frame import Frame
from kanalyze.kafka.session.exchange import Exchange, Message
from kanalyze.kafka.session.pending_requests import PendingRequests

if TYPE_CHECKING:
    from kanalyze.kafka.session.exchange import Peers


def exchange(correlation_id: int, packet: int, peers: Peers | None = None) -> Exchange:
    message = Message(Frame(4, 0, packet, packet))
    return Exchange(peers, message, None, 12, 0, correlation_id, None)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), max_size=60))
def test_pending_requests_behave_like_a_list_searched_from_its_oldest_end(
    turns: list[tuple[bool, bool, int]],
) -> None:
    pending, model = PendingRequests(), list[Exchange]()
    for packet, (is_request, is_looked_up, correlation_id) in enumerate(turns):
        if is_request:
            added = exchange(correlation_id, packet)
            model.append(added)
            assert pending.add(added) is None
        else:
            expected = next((e for e in model if e.correlation_id == correlation_id), None)
            if is_looked_up:
                assert pending.oldest(correlation_id) is expected
            assert pending.pop(correlation_id) is expected
            if expected is not None:
                model.remove(expected)
        assert len(pending) == len(model)
    assert set(pending.apis()) == {e.correlation_id for e in model}
    assert pending.pop_all() == model
    assert len(pending) == 0


def test_beyond_the_limit_the_oldest_request_is_returned() -> None:
    pending = PendingRequests(most=2)
    first, second, third = (exchange(number, number) for number in (7, 8, 9))
    assert pending.add(first) is None
    assert pending.add(second) is None
    assert pending.add(third) is first
    assert pending.pop(7) is None
