"""An update is taken in step by step, and given back whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.connection.undecided import Undecided, client_hello_side
from kanalyze.model import Gap, StreamItem, StreamUpdate
from tests.connection.test_held import told
from tests.support.streams import TIME_NS, chunk
from tests.support.talk import Talk

TCP = Talk().tcp


@given(
    st.lists(
        st.one_of(st.integers(1, 9), st.lists(st.integers(1, 30_000), min_size=1)), max_size=6
    ),
    st.integers(0, 5),
)
def test_what_is_held_and_what_is_left_are_the_whole(
    parts: list[int | list[int]], steps: int
) -> None:
    items: list[StreamItem] = []
    offset = payload = 0
    for part in parts:
        if isinstance(part, int):
            items.append(Gap(offset, part, TIME_NS, 1))
            offset += part
        else:
            items.append(chunk([b"x" * size for size in part], stream_offset=offset))
            offset += sum(part)
            payload += sum(part)
    state = Undecided(TCP)
    state.begin(StreamUpdate(state.tcp, ([], items), closed=False))
    for _ in range(steps):
        state.step()
    assert told(state.rest(1)) == told(items)
    assert state.payload_bytes == payload
    while state.step():
        pass
    state.end_step()
    assert told(state.rest(1)) == told(items)


def test_a_step_copies_little() -> None:
    state = Undecided(Talk().tcp)
    state.begin(StreamUpdate(state.tcp, ([chunk([b"x" * 1448] * 2000)], []), closed=False))
    state.step()
    assert state.held_bytes < 20_000


def test_the_side_that_says_hello_is_known() -> None:
    state = Undecided(Talk().tcp)
    assert client_hello_side(state) is None
    hello = bytes.fromhex("16030100c8010000c40303")
    state.begin(StreamUpdate(state.tcp, ([], [chunk([hello])]), closed=False))
    state.step()
    assert (client_hello_side(state), state.tls_sides) == (1, [1])
