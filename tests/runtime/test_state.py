"""A run that is interrupted and resumed gives the same as a run without interruption."""

from __future__ import annotations

import io
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.common.plain_values import to_bytes
from kanalyze.errors import KanalyzeError
from kanalyze.runtime import state as saved
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.state import StateError, load_state, split
from kanalyze.spec.rows.tables import stored_columns
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.captures import CHOSEN, NAMES, in_turn, often, path
from tests.support.conversations import conversations
from tests.support.cut_captures import packets_of, write_pcap
from tests.support.disorder import altered
from tests.support.packets import SYN, pcap_file, segment, timed
from tests.support.saved_state import Run, first_part, opened, run, second_part
from tests.support.traffic import Line, Part, capture_of, fetch, fetch_answer, produce
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import RowBlock

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "measured": {"connections": True, "every_anomaly": True},
    "kept": {"keep": lambda api_key: api_key in (0, 1)},
}
SMALL = ("snaplen", "kraft-3-9")
IN_DISORDER = (
    "a direction shuffled, each with its time",
    "blocks shuffled, clock rising",
    "cut to single bytes",
    "every packet twice",
    "fragments interleaved",
    "fragments shuffled",
    "probed",
    "sent again",
    "sequence numbers wrap",
    "VXLAN in fragments",
)


def at_random(seed: int, *choices: Any) -> Callable[[], Any]:
    dice = Random(seed)
    return lambda: dice.choice(choices)


def assert_same_when_interrupted(capture: Callable[[], Any], seed: int, **settings: Any) -> None:
    """Compare two runs over the same batches; one is interrupted after some of them."""
    sizes = (1, 2, 7, 40, 300)
    uninterrupted = run(capture(), most_packets=at_random(seed, *sizes), **settings)
    interrupted = run(
        capture(),
        most_packets=at_random(seed, *sizes),
        breaks=at_random(seed + 1, True, False),
        **settings,
    )
    for actual, expected in zip(interrupted.rows, uninterrupted.rows, strict=True):
        assert actual == expected
    assert interrupted == uninterrupted


@pytest.mark.few(5)
@pytest.mark.parametrize(("name", "settings"), in_turn(NAMES, SETTINGS, CHOSEN))
def test_a_run_resumes_where_it_was_interrupted(name: str, settings: str) -> None:
    assert_same_when_interrupted(lambda: str(path(name)), len(name), **SETTINGS[settings])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", NAMES)
def test_a_run_resumes_wherever_it_was_interrupted(name: str, settings: str, seed: int) -> None:
    assert_same_when_interrupted(lambda: str(path(name)), 100 * seed, **SETTINGS[settings])


@pytest.mark.few(2)
@pytest.mark.parametrize(("settings", "name"), in_turn(SETTINGS, SMALL))
def test_a_run_may_be_interrupted_after_every_packet(name: str, settings: str) -> None:
    chosen = SETTINGS[settings]
    interrupted = run(str(path(name)), most_packets=lambda: 1, breaks=lambda: True, **chosen)
    assert interrupted == run(str(path(name)), most_packets=lambda: 1, **chosen)


@pytest.mark.few(2)
@pytest.mark.parametrize("change", IN_DISORDER)
def test_reordering_and_reassembly_are_resumed(change: str) -> None:
    (data,) = altered("waits", change).files
    assert_same_when_interrupted(lambda: io.BytesIO(data), 5, connections=True)


@pytest.mark.parametrize("seed", often(range(8), range(4)))
def test_odd_conversations_are_resumed(seed: int) -> None:
    data = conversations(Random(seed), is_calm=seed % 2 == 0)
    assert_same_when_interrupted(lambda: io.BytesIO(data), seed)


@pytest.mark.parametrize("name", ["sasl", "old-0-9-0-1", "mock"])
def test_brokers_named_by_the_user_are_used_after_resuming(name: str) -> None:
    assert_same_when_interrupted(lambda: str(path(name)), 3, is_broker=lambda _, port: port == 9092)


# -- made-up traffic ------------------------------------------------------------------------------


def in_pieces(frame: bytes, size: int = 1400) -> list[bytes]:
    return [frame[at : at + size] for at in range(0, len(frame), size)]


def test_only_the_fields_needed_are_saved_of_large_partial_frames() -> None:
    records = k.record_batch(records=3, size=1 << 20)
    packets: list[bytes] = []
    line = Line(packets).open()
    line.client(*in_pieces(produce(1, 9, [Part(records=records)])))
    line.client(fetch(2, 12))
    line.broker(*in_pieces(fetch_answer(2, 12, [Part(records=records)])))
    data = capture_of(packets)
    assert_same_when_interrupted(lambda: io.BytesIO(data), 1)
    with opened(io.BytesIO(data), lambda: 400) as captures:
        current_run = Run(captures)
        sizes = []
        for batch in captures.batches():
            current_run.take(batch)
            sizes.append(len(current_run.saved_state()))
            current_run.load_state(current_run.saved_state())
        current_run.take(None)
    assert [row.record_bytes for row in current_run.outcome().rows] == [len(records), len(records)]
    assert max(sizes) < 100_000


def test_partial_frames_are_saved_completely_if_their_bytes_are_requested() -> None:
    # These bytes cannot be compressed.
    records = k.record_batch(size=0) + Random(1).randbytes(300_000)
    packets: list[bytes] = []
    Line(packets).open().client(*in_pieces(produce(1, 9, [Part(records=records)])))
    data = capture_of(packets[:-20])
    with opened(io.BytesIO(data), lambda: 1 << 20) as captures:
        current_run = Run(captures, keep=lambda api_key: api_key == 0)
        for batch in captures.batches():
            current_run.take(batch)
    assert len(current_run.saved_state()) > 250_000
    data = capture_of(packets)
    assert_same_when_interrupted(lambda: io.BytesIO(data), 1, keep=lambda api_key: api_key == 0)


def old_traffic() -> bytes:
    """Kafka 0.7: a Produce, Fetches from the middle of the log, one of them unanswered."""
    at, turns = 64, []
    for payload in (b"first", b"second", b"third"):
        messages = old.message(payload)
        turns += [(True, old.fetch(at)), (False, old.fetched(messages))]
        at += len(messages)
    turns += [(True, old.produce()), (True, old.offsets()), (False, old.offsets_answer(1, 2))]
    turns.append((True, old.fetch(at)))
    packets, seqs = [], {True: 1000, False: 5000}
    for to_broker, frame in turns:
        for piece in in_pieces(frame, 11):
            seq, ack = seqs[to_broker], seqs[not to_broker]
            packets.append(segment(to_broker=to_broker, seq=seq, ack=ack, payload=piece))
            seqs[to_broker] += len(piece)
    return pcap_file(timed(packets))


def test_kafka_0_7_is_resumed_with_its_guesses() -> None:
    data = old_traffic()
    uninterrupted = run(io.BytesIO(data), most_packets=lambda: 1)
    assert [row.wire for row in uninterrupted.rows].count("kafka-0.7") >= 5
    assert run(io.BytesIO(data), most_packets=lambda: 1, breaks=lambda: True) == uninterrupted


def login_with_raw_tokens() -> bytes:
    mechanism = k.string("SCRAM-SHA-256")
    packets: list[bytes] = []
    line = Line(packets).open().client(k.request(k.SASL_HANDSHAKE, 0, 1, mechanism))
    line.broker(k.response(1, bytes(2) + b"\0\0\0\1" + mechanism))
    for ours, theirs in ((b"n,,n=bob,r=f", b"r=fg,s=Q,i=4096"), (b"c=biws,r=fg,p=d", b"v=6r")):
        line.client(len(ours).to_bytes(4) + ours).broker(len(theirs).to_bytes(4) + theirs)
    line.client(k.heartbeat(2)).broker(k.heartbeat_answer(2)).close()
    return capture_of(packets)


def test_a_login_with_raw_tokens_is_resumed() -> None:
    data = login_with_raw_tokens()
    interrupted = run(
        io.BytesIO(data), most_packets=lambda: 1, breaks=lambda: True, every_anomaly=True
    )
    assert [row.principal for row in interrupted.rows] == [None, "bob"]
    assert interrupted.anomalies == []
    assert interrupted == run(io.BytesIO(data), most_packets=lambda: 1, every_anomaly=True)


def test_numbers_of_connections_on_the_same_ports_continue() -> None:
    packets: list[bytes] = []
    for number in range(3):
        line = Line(packets)
        line._sequence = [1000 + 99_999 * number] * 2
        line.open().client(k.heartbeat(number)).broker(k.heartbeat_answer(number)).close()
        packets.append(segment(to_broker=True, seq=line._sequence[0], ack=line._sequence[1]))
    data = capture_of(packets)
    interrupted = run(io.BytesIO(data), most_packets=lambda: 1, breaks=lambda: True)
    assert [row.connection_number for row in interrupted.rows] == [1, 2, 3]
    assert interrupted == run(io.BytesIO(data), most_packets=lambda: 1)


def test_another_process_resumes_a_run(tmp_path: Path) -> None:
    state_file = tmp_path / "state"
    capture, packets = str(path("waits")), 300
    state_file.write_bytes(first_part(capture, packets))
    from_this_process = second_part(capture, packets, state_file.read_bytes())
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        future = executor.submit(second_part, capture, packets, state_file.read_bytes())
        from_other_process = future.result(timeout=LONG_S)
    assert len(from_other_process.rows) > 10
    assert from_other_process == from_this_process


# -- size -----------------------------------------------------------------------------------------


def idle(connections: int) -> bytes:
    packets: list[bytes] = []
    for number in range(connections):
        line = Line(packets, client_port=10_000 + number).open()
        line.client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).client(k.heartbeat(2))
    return capture_of(packets)


def saved_size(connections: int) -> int:
    with opened(io.BytesIO(idle(connections)), lambda: 1 << 20) as captures:
        current_run = Run(captures)
        for batch in captures.batches():
            current_run.take(batch)
    return len(current_run.saved_state())


def test_an_idle_connection_is_saved_in_less_than_a_kilobyte() -> None:
    assert saved_size(1) < 8_000
    assert (saved_size(600) - saved_size(500)) / 100 < 1000


def test_ended_connections_are_not_saved() -> None:
    packets: list[bytes] = []
    for number in range(3):
        line = Line(packets, client_port=10_000 + number).open()
        line.client(fetch(1, 12)).broker(fetch_answer(1, 12))
        if number:
            line.reset()
    with opened(io.BytesIO(capture_of(packets)), lambda: 1 << 20) as captures:
        current_run = Run(captures)
        for batch in captures.batches():
            current_run.take(batch)
    assert len(current_run.maker.long_polls._ends) == 3
    current_run.load_state(current_run.saved_state())
    assert (
        len(current_run.maker.long_polls._ends) == len(current_run.maker.long_polls._fetches) == 1
    )


# -- damaged states -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def state() -> bytes:
    return first_part(str(path("waits")), 200)


def new_run(**settings: Any) -> Run:
    with opened(str(path("waits")), lambda: 1) as captures:
        return Run(captures, **settings)


def assert_refused(data: bytes, message: str | None = None, **settings: Any) -> None:
    current_run = new_run(**settings)
    before = (
        current_run.stages._reassembler,
        current_run.stages._tracker,
        current_run.maker.long_polls,
    )
    with pytest.raises(KanalyzeError, match=message) as caught:
        load_state(data, current_run.stages, current_run.maker)
    assert "\n" not in str(caught.value)
    assert before == (
        current_run.stages._reassembler,
        current_run.stages._tracker,
        current_run.maker.long_polls,
    )


def test_a_flipped_bit_is_detected(state: bytes) -> None:
    dice = Random(1)
    for at in [*range(60), *dice.sample(range(len(state)), 100)]:
        bad = bytearray(state)
        bad[at] ^= 1 << dice.randrange(8)
        assert_refused(bytes(bad))


def test_a_truncated_state_is_detected(state: bytes) -> None:
    for length in (0, 1, 13, 40, 100, len(state) // 2, len(state) - 1):
        assert_refused(state[:length])
    assert_refused(state + b"\0", "damaged")


def with_word(state: bytes, at: int, word: object) -> bytes:
    """Return a state whose line has another word, and the right checksum."""
    line, _, packed = state.partition(b"\n")
    words = [*line.split()[:at], str(word).encode(), *line.split()[at + 1 : -1], b""]
    head = b" ".join(words)
    return head + saved._digest(head, packed) + b"\n" + packed


def test_a_state_of_another_format_is_refused(state: bytes) -> None:
    for word in (0, saved.FORMAT - 2, saved.FORMAT + 1, "x", 10**20):
        assert_refused(with_word(state, 1, word), "another version")
    assert_refused(b"\xd4\xc3\xb2\xa1" + bytes(100), "not the state")


@pytest.mark.parametrize("version", ["0.0.9", "0.1.1", "9.9.9", "1.0rc1"])
def test_a_state_of_the_last_two_formats_is_read_whichever_version_wrote_it(
    state: bytes, version: str
) -> None:
    written = with_word(state, 2, version)
    for data in (written, with_word(written, 1, saved.FORMAT - 1)):
        current_run = new_run()
        load_state(data, current_run.stages, current_run.maker)
        assert list(current_run.stages.open_tcp())


STATES = Path(__file__).parent / "states"


def resumed(capture: bytes, state: bytes | None, *, keeps_open: bool = False) -> Any:
    """Return a run over a capture that continues from a state, and all its rows."""
    analysis = Analysis([io.BytesIO(capture)])
    made = analysis.resumable(
        state, keeps_open=keeps_open, more=("groups", "metadata"), others=True
    )
    found = [
        (table, repr(row))
        for rows in made.rows()
        for table, block in rows.blocks()
        for row in zip(*block.values(_columns_of_old_states(table, block)), strict=True)
    ]
    return made, found


def _columns_of_old_states(table: str, block: RowBlock) -> list[Column]:
    """Return the columns of a block that there were when the format of states was written."""
    columns = stored_columns(table)[-len(block.columns) :]
    return [column for column in columns if column.field is None or not column.field.is_newer]


@pytest.mark.parametrize("name", ["groups", "errors", "waits"])
def test_a_state_that_a_version_before_has_written_gives_the_same_rows(
    tmp_path: Path, name: str
) -> None:
    """The states are those of the first half of a capture, written in format 12 by 0.1.0."""
    packets = packets_of(path(name))
    halves = []
    for number, part in enumerate((packets[: len(packets) // 2], packets[len(packets) // 2 :])):
        write_pcap(tmp_path / f"{number}.pcap", part)
        halves.append((tmp_path / f"{number}.pcap").read_bytes())
    first, _ = resumed(halves[0], None, keeps_open=True)
    expected, expected_rows = resumed(halves[1], first.saved_state)
    old_state = (STATES / f"{name}-format-12.state").read_bytes()
    assert old_state.startswith(b"kanalyze-state 12 0.1.0 ")
    found, found_rows = resumed(halves[1], old_state)
    assert (found.closed, expected.closed) == (None, None)
    assert found_rows == expected_rows
    assert len(found_rows) > 20
    assert found_rows != resumed(halves[1], None)[1]
    # What is left of it is saved again, with all that is open still.
    again, _ = resumed(pcap_file([]), old_state, keeps_open=True)
    assert resumed(halves[1], again.saved_state)[1] == expected_rows


@pytest.mark.parametrize("name", ["groups", "errors", "waits", "mock"])
def test_where_a_state_cannot_be_read_its_connections_are_closed(tmp_path: Path, name: str) -> None:
    packets = packets_of(path(name))
    cut_at = len(packets) // 2
    write_pcap(tmp_path / "0.pcap", packets[:cut_at])
    write_pcap(tmp_path / "1.pcap", packets[cut_at:])
    first, last = ((tmp_path / f"{number}.pcap").read_bytes() for number in (0, 1))
    made, rows = resumed(first, None, keeps_open=True)
    _, whole = resumed(first, None)
    # What closing the open connections makes, and no run has made yet.
    closing = list((Counter(whole) - Counter(rows)).elements())
    assert closing
    _, alone = resumed(last, None)
    kept, state = split(made.saved_state)
    assert kept is not None
    head = made.saved_state[: -len(state)]
    bad = bytearray(state)
    bad[len(bad) // 2] ^= 1
    for unreadable in (
        with_word(state, 1, 99),
        with_word(state, 1, 11),
        bytes(bad),
        b"",
        state[:9],
    ):
        again, found = resumed(last, head + unreadable)
        assert again.closed is not None
        assert Counter(found) == Counter(closing) + Counter(alone)
    again, found = resumed(last, head + state)
    assert again.closed is None
    # Damaged rows do no harm where the state can be read.
    bad_head = head[:-1] + bytes((head[-1] ^ 1,))
    assert resumed(last, bad_head + state)[1] == found
    with pytest.raises(StateError, match="another version"):
        resumed(last, bad_head + with_word(state, 1, 99))


@pytest.mark.parametrize(
    "settings",
    [
        {"connections": True},
        {"keep": lambda _: True},
        {"is_broker": lambda *_: True},
        {"every_anomaly": True},
    ],
)
def test_a_state_of_other_settings_is_refused(state: bytes, settings: dict[str, Any]) -> None:
    assert_refused(state, "other settings", **settings)


def test_a_state_of_other_tables_is_refused(state: bytes) -> None:
    current_run = new_run()
    with pytest.raises(StateError, match="other tables"):
        load_state(state, current_run.stages)
    without = Run(current_run.captures, is_asked=False)
    assert_refused(without.saved_state(), "other tables")


def test_a_false_size_takes_no_memory() -> None:
    bomb = saved._sealed(bytes(50_000_000))
    assert len(bomb) < 300_000
    assert_refused(bomb, "damaged")
    line = saved._sealed(b"").partition(b"\n")[0].split()
    for size in (b"%d" % (1 << 62), b"-1", b"many"):
        head = b" ".join([*line[:3], size]) + b" "
        assert_refused(head + saved._digest(head, b"x") + b"\nx", "damaged")


def test_values_that_are_not_a_state_are_refused() -> None:
    for value in (3, (), (1, 2, 3, 4, 5), "state", ((), None, None), ((), (), ())):
        assert_refused(saved._sealed(to_bytes(value)), "damaged|other settings")


def mutated(data: bytes, dice: Random) -> Iterator[bytes]:
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        yield bytes(changed)


def test_changed_values_raise_only_a_state_error(state: bytes) -> None:
    plain = saved._opened(state)
    for data in mutated(plain, Random(3)):
        current_run = new_run()
        try:
            load_state(saved._sealed(data), current_run.stages, current_run.maker)
        except StateError:
            continue


def test_a_connection_with_only_a_syn_is_resumed() -> None:
    data = capture_of([segment(to_broker=True, seq=5, ack=0, flags=SYN)])
    interrupted = run(io.BytesIO(data), most_packets=lambda: 1, breaks=lambda: True)
    assert interrupted == run(io.BytesIO(data), most_packets=lambda: 1)
