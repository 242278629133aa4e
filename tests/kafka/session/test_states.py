"""The table of states is whole, and both directions of a connection follow it."""

from __future__ import annotations

from pathlib import Path

import pytest

import kanalyze
from kanalyze.common.saved import load, save
from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.kafka.session.exchange import Peers
from kanalyze.kafka.session.exchange_builder import ExchangeBuilder
from kanalyze.kafka.session.resync import RequestLocator
from kanalyze.kafka.session.states import TRANSITIONS, StreamEvent, StreamState, after
from tests.support import kafka as k
from tests.support.session import CATALOG, READER, TCP, begun, cut_of
from tests.support.talk import CLIENT

LOCATOR = RequestLocator(READER, CATALOG)
HANDSHAKE = k.request(k.SASL_HANDSHAKE, 0, 1, k.string("PLAIN"))
ACCEPTED = k.response(1, b"\0\0\0\0\0\0")
PLAIN = b"\0\0\0\x08\0user\0pw"
REFUSED = k.response(1, b"\0\x21\0\0\0\0")


def new_builder(*, tokens_first: bool = False) -> ExchangeBuilder:
    peers = Peers(TCP, *TCP.endpoints)
    return ExchangeBuilder(
        *(peers, CLIENT, READER, LOCATOR), from_start=True, keep=None, tokens_first=tokens_first
    )


def states_of(builder: ExchangeBuilder) -> tuple[StreamState, StreamState]:
    slow = builder.slow
    return StreamState(slow.request_state), StreamState(slow.response_state)


def test_every_state_has_a_row_and_is_reached_from_the_first_one() -> None:
    assert set(TRANSITIONS) == set(StreamState)
    reached, left = set(), [StreamState.IN_SYNC]
    while left:
        state = left.pop()
        if state not in reached:
            reached.add(state)
            left += TRANSITIONS[state].values()
    assert reached == set(StreamState)


def test_every_state_but_the_last_may_end_and_every_event_leads_somewhere() -> None:
    for state, row in TRANSITIONS.items():
        assert (StreamEvent.ENDED in row) == (state is not StreamState.CLOSED)
    assert {event for row in TRANSITIONS.values() for event in row} == set(StreamEvent)


def test_whatever_the_wire_brings_has_a_row_in_every_state_that_is_not_closed() -> None:
    """Bytes may lose sync at any time, and any incomplete frame may be a token."""
    for state in set(StreamState) - {StreamState.CLOSED}:
        assert {StreamEvent.SYNC_LOST, StreamEvent.SUSPECTED} <= TRANSITIONS[state].keys()
        # A frame is looked at in every state but the one in which nothing has to be found out.
        assert (StreamEvent.READ in TRANSITIONS[state]) == (state is not StreamState.IN_SYNC)
        is_login = state in (StreamState.LOGIN, StreamState.LOST_IN_LOGIN)
        assert (StreamEvent.LOGIN_ENDED in TRANSITIONS[state]) == is_login
        assert (StreamEvent.LOGIN_BEGAN in TRANSITIONS[state]) != is_login


def test_only_the_login_itself_begins_or_ends_it() -> None:
    """So both directions are in it, or neither is."""
    in_login = {StreamState.LOGIN, StreamState.LOST_IN_LOGIN}
    changes = {StreamEvent.LOGIN_BEGAN, StreamEvent.LOGIN_ENDED}
    for state in set(StreamState) - {StreamState.CLOSED}:
        for event, end in TRANSITIONS[state].items():
            if event is not StreamEvent.ENDED:
                assert ((state in in_login) != (end in in_login)) == (event in changes)


def test_the_table_for_contributors_is_the_one_of_the_code() -> None:
    text = (Path(kanalyze.__file__).parent.parent / "CONTRIBUTING.md").read_text("utf-8")
    shown = {}
    for line in text.splitlines():
        name, *cells = line.replace("`", "").replace(" ", "")[1:-1].split("|")
        if name in StreamState.__members__:
            ends = dict(zip(StreamEvent, cells, strict=True))
            shown[StreamState[name]] = {
                event: StreamState[end] for event, end in ends.items() if end
            }
    assert shown == TRANSITIONS


def test_an_event_that_a_state_does_not_expect_is_an_error() -> None:
    for state in StreamState:
        for event in set(StreamEvent) - TRANSITIONS[state].keys():
            with pytest.raises(KeyError):
                after(state, event)


def test_a_loss_is_over_with_the_first_frame_of_its_direction() -> None:
    builder, events = new_builder(), ConnectionEvents()
    assert states_of(builder) == (StreamState.IN_SYNC, StreamState.IN_SYNC)
    builder.slow.begin((True, False), is_whole=False)
    assert states_of(builder) == (StreamState.IN_SYNC, StreamState.LOST)
    builder.add_request(cut_of(k.heartbeat(1)), 0, events)
    assert states_of(builder) == (StreamState.IN_SYNC, StreamState.LOST)
    builder.add_response(cut_of(k.heartbeat_answer(1)), 0, events)
    assert states_of(builder) == (StreamState.IN_SYNC, StreamState.IN_SYNC)


def test_a_login_with_raw_tokens_concerns_both_directions_until_it_is_over() -> None:
    login = (StreamState.LOGIN, StreamState.LOGIN)
    builder, events = new_builder(), ConnectionEvents()
    builder.add_request(cut_of(HANDSHAKE), 0, events)
    assert states_of(builder) == login
    builder.add_response(cut_of(ACCEPTED), 0, events)
    builder.add_request(cut_of(PLAIN), 0, events)
    assert states_of(builder) == login
    builder.add_response(cut_of(b"\0\0\0\0"), 0, events)
    assert states_of(builder) == (StreamState.SUSPECT, StreamState.SUSPECT)
    builder.add_request(cut_of(k.heartbeat(2)), 0, events)
    builder.add_response(cut_of(k.heartbeat_answer(2)), 0, events)
    assert states_of(builder) == (StreamState.IN_SYNC, StreamState.IN_SYNC)
    assert [exchange.correlation_id for exchange in events.exchanges] == [1, 2]


def test_a_refused_handshake_ends_the_login_of_a_direction_with_a_loss_too() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.slow.begin((False, True), is_whole=False)
    builder.add_request(cut_of(HANDSHAKE), 0, events)
    assert states_of(builder) == (StreamState.LOGIN, StreamState.LOGIN)
    builder.add_response(cut_of(REFUSED), 0, events)
    assert states_of(builder) == (StreamState.SUSPECT, StreamState.SUSPECT)


def test_an_incomplete_frame_that_may_be_a_token_is_looked_at_when_it_is_whole() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.trim_response(begun(k.heartbeat_answer(7)[:-1]), events)
    assert states_of(builder) == (StreamState.IN_SYNC, StreamState.SUSPECT)
    builder.add_response(cut_of(k.heartbeat_answer(7)), 0, events)
    assert states_of(builder) == (StreamState.IN_SYNC, StreamState.IN_SYNC)


def test_the_end_closes_both_directions() -> None:
    builder, events = new_builder(tokens_first=True), ConnectionEvents()
    assert states_of(builder) == (StreamState.LOGIN, StreamState.LOGIN)
    builder.close(events)
    assert states_of(builder) == (StreamState.CLOSED, StreamState.CLOSED)


def test_a_loaded_connection_is_in_the_states_of_the_saved_one() -> None:
    events = ConnectionEvents()
    lost, suspect, login = new_builder(), new_builder(), new_builder(tokens_first=True)
    lost.slow.begin((False, True), is_whole=False)
    suspect.trim_response(begun(k.heartbeat_answer(7)[:-1]), events)
    login.slow.begin((True, False), is_whole=False)
    for builder in (new_builder(), lost, suspect, login):
        other = new_builder()
        load(other, save(builder))
        assert states_of(other) == states_of(builder)
    assert states_of(login) == (StreamState.LOGIN, StreamState.LOST_IN_LOGIN)
