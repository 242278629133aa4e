"""Runs with fake feeds and clocks, and with captures that are read like a live feed."""

from __future__ import annotations

import errno
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.capture.reader import open_capture
from kanalyze.errors import CaptureError
from kanalyze.live.kept_rows import FindingSearch, KeptRows
from kanalyze.live.run import LiveRun, LiveSource
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.net.headers import EndpointFilter
from kanalyze.runtime.pipeline import Analysis
from tests.support import kafka as k
from tests.support.captures import NAMES, in_turn, often, path
from tests.support.compare import in_any_order, nameless
from tests.support.few_findings import FEW_FINDINGS
from tests.support.findings import kinds_of
from tests.support.packets import ACK, RST, START_NS, SYN, Packet, make_batch, segment, timed
from tests.support.traffic import Line
from tests.support.watched import part_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.capture.file_metadata import FileMetadata
    from kanalyze.live.window.snapshot import CaptureState
    from kanalyze.model.packets import PacketBatch
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock


MS = 1_000_000
FEW_NAMES = ("basics", "errors", "ipv6", "loopback", "tls")


class Clock:
    """A clock that advances when the test says so."""

    def __init__(self) -> None:
        self.ns = 5_000

    def __call__(self) -> int:
        return self.ns


class Feed:
    """A feed of batches, where None is a read without packets. After the last step it ends."""

    dropped_packets: int | None = None
    about: FileMetadata | None = None

    def __init__(
        self,
        steps: Iterable[PacketBatch | Exception | None],
        clock: Clock | None = None,
        step_ns: int = 0,
    ) -> None:
        self.anomalies: list[Anomaly] = []
        self.is_at_end = False
        self.reads = 0
        self._steps = iter(steps)
        self._clock = clock or Clock()
        self._step_ns = step_ns

    def read(self, timeout_s: float) -> PacketBatch | None:
        assert timeout_s > 0
        self.reads += 1
        self._clock.ns += self._step_ns
        step = next(self._steps, self)
        if step is self:
            self.is_at_end = True
            return None
        if isinstance(step, Exception):
            raise step
        return step


@dataclass
class Sink:
    """A sink that stores what it receives, and appends its calls to a shared ``log``."""

    name: str = ""
    log: list[tuple[str, str]] = field(default_factory=list)
    turns_left: int = 1_000_000
    fails_with: Exception | None = None
    states: list[CaptureState] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    row_times: list[int] = field(default_factory=list)
    packets: int = 0

    def add_packets(self, packets: PacketBatch) -> None:
        self.log.append((self.name, "packets"))
        self.packets += len(packets)

    def add(self, rows: RowBlock, now_ns: int) -> None:
        self.log.append((self.name, "rows"))
        self.rows += rows.rows()
        self.row_times.append(now_ns)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        self.log.append((self.name, "tick"))
        self.states.append(state)
        self.times.append((now_ns, clock_ns))
        self.turns_left -= 1
        return self.turns_left > 0

    def roll(self) -> None:
        self.log.append((self.name, "roll"))

    def close(self) -> None:
        self.log.append((self.name, "close"))
        if self.fails_with is not None:
            raise self.fails_with


def live_run(feed: Feed, sinks: Sequence[Any], clock: Clock | None = None, **more: Any) -> LiveRun:
    """Return a run that ends with its feed, unless ``more`` says otherwise."""
    never: dict[str, Any] = {"is_over": lambda: False, "should_roll": lambda: False}
    more = {"clock_ns": clock or Clock(), "now_ns": START_NS, **never, **more}
    return LiveRun(feed, "made up", sinks, **more)


def run_of(feed: Feed, *sinks: Sink, clock: Clock | None = None, **more: Any) -> dict[str, Any]:
    kept = KeptRows(FindingSearch(kinds_of(*FEW_FINDINGS), pytest.fail))
    run = live_run(feed, sinks, clock, kept=kept, **more)
    report = run.run(Analysis((), source=run.source))
    assert report is not None
    return report


def packets_at(*times_ns: int, first_number: int = 1, port: int = 50_000) -> PacketBatch:
    data = segment(payload=b"x" * 10, client=("10.0.0.1", port))
    return make_batch([Packet(data, time_ns) for time_ns in times_ns], first_number)


def parts(name: str, at_once: int) -> Iterator[PacketBatch]:
    """Yield a capture, some packets at a time, all in one reused buffer."""
    buffer = bytearray(1 << 22)  # more than any capture here
    with MergedCaptures(find_inputs([str(path(name))])) as captures:
        for batch in captures.batches():
            for first in range(0, len(batch), at_once):
                yield part_of(batch, first, first + at_once, buffer)


def with_silence(batches: Iterable[PacketBatch]) -> Iterator[PacketBatch | None]:
    for batch in batches:
        yield from (batch, None)


def test_sinks_tick_without_packets():
    clock = Clock()
    sink = Sink()
    run_of(Feed([None] * 4, clock, 200 * MS), sink, clock=clock)
    # Four ticks, the tick in which the feed ends, and the last tick.
    assert [now_ns - START_NS for now_ns, _ in sink.times] == [n * 200 * MS for n in range(1, 7)]
    assert [clock_ns - 5_000 for _, clock_ns in sink.times] == [n * 200 * MS for n in range(1, 7)]
    assert [state.elapsed_ns for state in sink.states] == [n * 200 * MS for n in range(1, 7)]
    assert {(state.packets, state.connections) for state in sink.states} == {(0, 0)}
    assert sink.log == [("", "tick")] * 6 + [("", "close")]


def test_the_time_is_that_of_the_last_packet_plus_elapsed_time():
    clock = Clock()
    sink = Sink()
    hour = 3600 * 1000 * MS
    batches = [
        packets_at(START_NS - hour, START_NS - hour + 7),
        None,
        # The clock of the packets is set back, then forward.
        packets_at(START_NS - 2 * hour, first_number=3),
        None,
        packets_at(START_NS + hour, first_number=4),
    ]
    run_of(Feed(batches, clock, 100 * MS), sink, clock=clock)
    assert [now_ns - START_NS for now_ns, _ in sink.times] == [
        -hour + 7,
        -hour + 7 + 100 * MS,
        -2 * hour,
        -2 * hour + 100 * MS,
        hour,
        hour + 100 * MS,
        hour + 200 * MS,
    ]


@pytest.mark.parametrize("time_ns", [0, (1 << 63) - 1])
def test_the_least_and_the_greatest_time_are_valid(time_ns):
    clock = Clock()
    sink = Sink()
    run_of(Feed([packets_at(time_ns), None], clock, MS), sink, clock=clock)
    assert [now_ns - time_ns for now_ns, _ in sink.times] == [0, MS, 2 * MS, 3 * MS]


def test_sinks_get_packets_before_rows_and_in_the_order_of_sinks():
    log: list[tuple[str, str]] = []
    one, other = Sink("one", log), Sink("other", log)
    run_of(Feed(parts("basics", 2000)), one, other)
    assert one.rows == other.rows
    assert one.packets == other.packets == 1722
    assert log == [
        *(("one", "packets"), ("one", "tick"), ("other", "packets"), ("other", "tick")),
        *(("one", "rows"), ("other", "rows")),
        *(("one", "tick"), ("other", "tick")) * 2,
        *(("one", "rows"), ("other", "rows")) * (len(one.row_times) - 1),
        *(("one", "close"), ("other", "close")),
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "at_once"), in_turn(FEW_NAMES, [3, 5000], ("errors", "ipv6", "tls"))
)
def test_rows_and_report_are_those_of_the_capture(name, at_once):
    check_capture(name, at_once)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_rows_and_report_of_every_capture(name):
    check_capture(name, 10)


def check_capture(name: str, at_once: int) -> None:
    expected = kanalyze.report(path(name))
    sink = Sink()
    feed = Feed(with_silence(parts(name, at_once)))
    feed.dropped_packets = expected["capture"]["dropped_packets"]
    with open_capture(str(path(name))) as capture:
        list(capture.batches())
        feed.about = capture.description
    report = nameless(run_of(feed, sink))
    assert {name: report.get(name) for name in expected} == nameless(expected)
    assert in_any_order(sink.rows) == in_any_order(kanalyze.requests(path(name)))


@pytest.mark.parametrize("ending_sink", ["one", "other"])
def test_a_sink_can_end_the_run(ending_sink):
    """The other sink gets the same ticks. Packets that were read last are counted."""
    sinks = [Sink(name, turns_left=2 if name == ending_sink else 99) for name in ("one", "other")]
    feed = Feed(packets_at(START_NS, first_number=number) for number in range(1, 100))
    feed.anomalies = [Anomaly(AnomalyKind.CAPTURE_TRUNCATED, length=12)]
    feed.dropped_packets = 17
    report = run_of(feed, *sinks)
    assert {state.dropped_packets for state in sinks[0].states} == {17}
    assert report["capture"]["dropped_packets"] == 17
    assert AnomalyKind.CAPTURE_TRUNCATED.value in repr(report["quality"])
    assert feed.reads == 3
    assert [sink.packets for sink in sinks] == [3, 3]
    assert [len(sink.times) for sink in sinks] == [3, 3]
    assert report["capture"]["packets"] == 3


def test_sinks_start_new_files_when_should_roll_returns_true():
    roll_answers = iter([False, True, False, False, False])
    log: list[tuple[str, str]] = []
    run_of(
        Feed([None, None, None]),
        Sink("one", log),
        Sink("other", log),
        should_roll=lambda: next(roll_answers),
    )
    tick = [("one", "tick"), ("other", "tick")]
    assert log[:6] == [*tick, ("one", "roll"), ("other", "roll"), *tick]
    assert [call for _, call in log].count("roll") == 2


def test_all_sinks_are_closed_although_one_fails():
    log: list[tuple[str, str]] = []
    full = OSError(errno.ENOSPC, "No space left on device")
    sinks = [Sink("one", log), Sink("two", log, fails_with=full), Sink("three", log)]
    with pytest.raises(OSError, match="No space left") as caught:
        run_of(Feed([]), *sinks)
    assert caught.value is full
    assert log[-3:] == [("one", "close"), ("two", "close"), ("three", "close")]


@pytest.mark.parametrize(
    "error", [CaptureError("x: is empty"), OSError(errno.EIO, "Input/output error")]
)
def test_sinks_are_closed_when_the_feed_fails(error):
    one, other = Sink(), Sink()
    with pytest.raises(type(error)) as caught:
        run_of(Feed([packets_at(START_NS), error]), one, other)
    assert caught.value is error
    assert one.log[-1] == other.log[-1] == ("", "close")
    assert one.packets == 1


def test_an_error_between_two_reads_is_raised_by_the_next_read():
    """The thread that reads a pipe may fail between a read and the check for the end."""

    class LateFeed(Feed):
        def read(self, timeout_s: float) -> PacketBatch | None:
            if self.is_at_end:
                raise CaptureError("-: is no capture")
            self.is_at_end = True
            return None

    with pytest.raises(CaptureError, match="is no capture"):
        run_of(LateFeed([]), Sink())


def test_states_count_open_connections_and_traffic():
    batches = [packets_at(START_NS, first_number=n, port=40_000 + n) for n in range(1, 4)]
    sink = Sink()
    run_of(Feed(batches), sink)
    # Sinks get the state of a tick before its packets are analyzed.
    assert [state.connections for state in sink.states] == [0, 1, 2, 3, 3]
    assert [state.packets for state in sink.states] == [1, 2, 3, 3, 3]
    size = int(batches[0].wire_bytes[0])
    assert [state.wire_bytes // size for state in sink.states] == [1, 2, 3, 3, 3]
    assert {state.source for state in sink.states} == {"made up"}


@pytest.mark.parametrize("name", often(["snaplen", "mock", "cluster"], ["snaplen"]))
def test_states_have_buffered_bytes_and_anomalies(name):
    sink = Sink()
    report = run_of(Feed(parts(name, 40)), sink)
    states = sink.states
    connection_counts = [state.connections_seen for state in states]
    assert connection_counts == sorted(connection_counts)
    assert connection_counts[-1] == report["quality"]["connections"]
    assert any(state.held_bytes for state in states)
    assert states[0].last_packet_ns is not None
    counts = [state.anomalies or {} for state in states]
    for before, after in itertools.pairwise(counts):
        assert all(after[kind] >= count for kind, count in before.items())
    reported = {kind: anomaly["count"] for kind, anomaly in report["quality"]["anomalies"].items()}
    assert counts[-1].items() <= reported.items()
    assert counts[-1]
    # Requests that stay unanswered are known only at the end.
    assert reported.keys() - counts[-1].keys() <= {"unanswered_request"}


def test_states_count_refused_and_unread_connections():
    packets: list[bytes] = []
    for port in (50_000, 50_001):
        client = ("10.0.0.1", port)
        packets.append(segment(flags=SYN, seq=1000, client=client))
        refusal = segment(to_broker=False, flags=RST | ACK, ack=1001, client=client)
        packets.append(refusal if port == 50_000 else packets[-1])
    Line(packets, 51_000).open().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    # Bytes of a connection that is younger than ten seconds are not reported as unread yet.
    Line(packets, 51_001).client(*[b"?" * 1000] * 12)
    step_ns = 1000 * MS
    batches = [
        make_batch([Packet(packet, START_NS + number * step_ns)], number + 1)
        for number, packet in enumerate(packets)
    ]
    clock, sink = Clock(), Sink()
    report = run_of(Feed([*batches, None], clock, step_ns), sink, clock=clock)
    doubts = [state.doubts for state in sink.states]
    assert doubts[0] is not None
    assert doubts[0]["unread_ports"] == {}
    # Only refused connections are closed.
    assert sink.states[-1].connections == 3
    assert doubts[-1] == {
        "refused_connections": 1,
        "refused_by": {"10.0.0.2:9092": 1},
        "unanswered_connections": 1,
        "unanswered_by": {"10.0.0.2:9092": 1},
        "unread_ports": {"9092": {"connections": 1, "packets": 12, "bytes": 12_000}},
        "late_packets": 0,
        "late_bytes": 0,
        "out_of_window_packets": 0,
        "out_of_window_bytes": 0,
        "before_start_bytes": 0,
    }
    assert doubts[-1].items() <= report["quality"].items()
    # The last state is complete even in a short run.
    run_of(Feed([make_batch([Packet(packets[0]), Packet(packets[1])], 1)]), sink)
    assert sink.states[-1].doubts is not None
    assert sink.states[-1].doubts["refused_connections"] == 1


def packets(*ports: int, first_number: int = 1):
    segments = [segment(broker=("10.0.0.2", port), payload=bytes([port & 0xFF])) for port in ports]
    return make_batch(timed(segments), first_number)


def filtered(*batches):
    """Return what an analysis reads, and what each tick has."""
    ticks, feed = [], Feed(batches)
    feed.dropped_packets = 7
    feed.anomalies = [Anomaly(AnomalyKind.CAPTURE_TRUNCATED)]
    source = LiveSource(
        feed,
        "-",
        lambda packets: ticks.append(packets) or True,
        filters=[EndpointFilter([9092, 443], []), EndpointFilter([9092], [])],
    )
    return list(source.batches()), ticks, source


def test_packets_that_all_filters_select_keep_all_their_columns():
    batch = packets(22, 9092, 443, 9092, first_number=101)
    (selected,), _, _ = filtered(batch)
    assert selected.number.tolist() == [102, 104]
    assert selected.buffer is batch.buffer
    for name in ("time_ns", "offset", "captured_bytes", "wire_bytes", "link_type"):
        assert getattr(selected, name).tolist() == getattr(batch, name)[1::2].tolist()


def test_a_batch_of_only_selected_packets_is_not_copied():
    batch = packets(9092, 9092)
    assert filtered(batch)[0][0] is batch


def test_a_batch_without_selected_packets_does_not_end_a_capture():
    batches = [packets(22), packets(9092, first_number=2), None, packets(443, first_number=3)]
    selected, ticks, source = filtered(*batches)
    assert [batch.number.tolist() for batch in selected] == [[2]]
    assert [packets is None for packets in ticks] == [True, False, *[True] * 4]
    assert [anomaly.kind for anomaly in source.anomalies] == [AnomalyKind.CAPTURE_TRUNCATED]
    assert source.dropped_packets == 7
