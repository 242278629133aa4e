"""An update is buffered in steps and returned whole; some connections need no buffering."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.session.detection import (
    KafkaMatch,
    UndecidedConnection,
    client_hello_direction,
)
from kanalyze.model.streams import Gap, StreamItem, StreamUpdate
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.cases import for_each
from tests.support.session import rows_of
from tests.support.streams import TIME_NS, chunk, cut
from tests.support.talk import Talk

TCP = Talk().tcp
DETECTOR = Talk().tracker._undecided._detector
HELLO = bytes.fromhex("16030100c8010000c40303")
ALERT = bytes.fromhex("15030300020228")


@given(
    st.lists(
        st.one_of(st.integers(1, 9), st.lists(st.integers(1, 30_000), min_size=1)), max_size=6
    ),
    st.integers(0, 5),
)
def test_buffered_and_remaining_items_are_the_whole_update(
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
    state = UndecidedConnection(TCP)
    state.begin(StreamUpdate(state.tcp, ([], items), closed=False))
    for _ in range(steps):
        state.step()
    assert rows_of(state.rest(1)) == rows_of(items)
    assert state.payload_bytes == payload
    while state.step():
        pass
    state.end_step()
    assert rows_of(state.rest(1)) == rows_of(items)


def test_a_step_copies_few_bytes() -> None:
    state = UndecidedConnection(Talk().tcp)
    state.begin(StreamUpdate(state.tcp, ([chunk([b"x" * 1448] * 2000)], []), closed=False))
    state.step()
    assert state.buffered_bytes < 20_000


def test_the_direction_of_the_client_hello_is_known() -> None:
    state = UndecidedConnection(Talk().tcp)
    assert client_hello_direction(state) is None
    state.begin(StreamUpdate(state.tcp, ([], [chunk([HELLO])]), closed=False))
    state.step()
    assert (client_hello_direction(state), state.tls_directions) == (1, [1])


# At first sight.

FIRST_BYTES = st.one_of(
    st.sampled_from(
        [
            b"",
            HELLO,
            ALERT,
            b"GET / HTTP/1.1\r\n\r\n",
            k.heartbeat(1),
            k.heartbeat(1, client_id=None) + k.heartbeat(2),
            k.heartbeat(0, client_id="abc"),
            k.heartbeat(1, client_id="abcd") + HELLO,
            k.api_versions(1) + k.heartbeat(2),
            k.produce(1, acks=1, records=k.record_batch(9, size=3000)),
            k.heartbeat_answer(1),
            k.heartbeat_answer(0) + k.heartbeat_answer(2),
            old.fetch(0),
        ]
    ),
    st.binary(max_size=40),
)


def first_update(
    opened_by: int | None, first_bytes: tuple[bytes, bytes], sizes: list[int], gaps: tuple[int, int]
) -> StreamUpdate:
    """The first update of a connection: gaps, and then bytes in segments of these sizes."""
    tcp = Talk(opened_by=opened_by).tcp
    items: tuple[list[StreamItem], list[StreamItem]] = ([], [])
    for side, (data, gap) in enumerate(zip(first_bytes, gaps, strict=True)):
        if gap:
            items[side].append(Gap(0, gap, TIME_NS, 1))
        if data:
            items[side].append(chunk(cut(data, sizes), stream_offset=gap))
    return StreamUpdate(tcp, items, closed=False)


@given(
    st.sampled_from([None, 0, 1]),
    st.tuples(FIRST_BYTES, FIRST_BYTES),
    st.one_of(st.just([]), st.lists(st.integers(1, 60), max_size=30)),
    st.one_of(st.just((0, 0)), st.tuples(st.integers(0, 2), st.integers(0, 2))),
    st.sampled_from([None, 0, 1]),
)
def test_the_decision_at_first_sight_agrees_with_that_of_buffering(
    opened_by: int | None,
    first_bytes: tuple[bytes, bytes],
    sizes: list[int],
    gaps: tuple[int, int],
    forced: int | None,
) -> None:
    update = first_update(opened_by, first_bytes, sizes, gaps)
    at_once = DETECTOR.locate.client_at_first_sight(update, forced)
    if at_once < 0:
        return
    state = UndecidedConnection(update.connection)
    state.begin(update)
    state.step()
    by_buffering = DETECTOR.find(state) if forced is None else DETECTOR.forced(state, forced)
    assert (by_buffering, state.tls_directions) == (KafkaMatch(at_once, "kafka"), [])
    assert tuple(stream.from_start for stream in state.streams) == update.connection.start_seen


@for_each("response", [b"", k.heartbeat_answer(1), k.heartbeat_answer(7)])
def test_a_request_with_a_good_client_id_is_enough(response: bytes) -> None:
    for opened_by, first in enumerate([(k.heartbeat(1), response), (response, k.heartbeat(1))]):
        update = first_update(opened_by, first, [], (0, 0))
        assert DETECTOR.locate.client_at_first_sight(update, None) == opened_by
        assert DETECTOR.locate.client_at_first_sight(update, 1 - opened_by) == -1


CUT = chunk([k.heartbeat(1) + b"more"], snap=len(k.heartbeat(1)))


@for_each(
    "update",
    [
        first_update(0, (k.heartbeat(1, client_id="abc"), b""), [], (0, 0)),  # it is too short
        first_update(0, (k.heartbeat(1)[:-1], b""), [], (0, 0)),
        first_update(0, (k.heartbeat(1), b""), [9], (0, 0)),
        first_update(0, (k.heartbeat(1), b""), [], (1, 0)),
        first_update(0, (k.heartbeat(1), ALERT), [], (0, 0)),
        first_update(0, (k.heartbeat(1), ALERT[:4]), [], (0, 0)),  # may become TLS
        first_update(0, (k.heartbeat(1), k.heartbeat_answer(1)), [], (0, 1)),
        first_update(0, (old.fetch(0), b""), [], (0, 0)),
        first_update(None, (k.heartbeat(1), b""), [], (0, 0)),  # it begins before the capture
        StreamUpdate(Talk().tcp, ([CUT], []), closed=False),
    ],
)
def test_a_connection_in_doubt_is_buffered(update: StreamUpdate) -> None:
    assert DETECTOR.locate.client_at_first_sight(update, None) == -1
    assert DETECTOR.locate.client_at_first_sight(update, 0) == -1
