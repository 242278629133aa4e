"""Recorded packets give the rows that matched when they are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.live.recorder.files import PcapngWriter
from kanalyze.live.recorder.packet_recorder import PacketRecorder
from kanalyze.render.wireshark import comments_of
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.filters import RowFilter
from tests.support import rows as sample_rows
from tests.support.captures import CHOSEN, NAMES, often, path
from tests.support.disorder import altered
from tests.support.packets import START_NS, Packet, make_batch, segment
from tests.support.row_blocks import matches
from tests.support.watched import watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kanalyze.model.packets import PacketBatch
    from kanalyze.spec.rows.requests import Row

FILTERS = (RowFilter.parse(errors=True), RowFilter.parse(slower_than="20ms"))
SECOND_NS = 1_000_000_000


class Sink:
    """A sink that stores what it receives."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.times: list[int] = []
        self.comments: dict[int, list[str]] = {}
        self.closed = False

    def write(
        self, packets: PacketBatch, comments: Mapping[int, Sequence[str]] | None = None, /
    ) -> None:
        self.numbers += packets.number.tolist()
        self.times += packets.time_ns.tolist()
        for row, texts in (comments or {}).items():
            self.comments[int(packets.number[row])] = list(texts)

    def close(self) -> None:
        self.closed = True


def packet_fields(row: Row) -> tuple[object, ...]:
    """Return the fields of a row that depend only on its own packets."""
    return (
        row.client_port,
        row.broker_port,
        row.api_key,
        row.correlation_id,
        row.request_start_ns,
        row.request_end_ns,
        row.response_start_ns,
        row.response_end_ns,
        row.request_bytes,
        row.response_bytes,
        row.status,
        row.error_code,
        # Names of topics are left out: the name of a topic id comes from earlier packets.
        tuple((error.partition, error.code) for error in row.errors),
    )


def matched_and_recorded(
    source: Path, folder: Path, lead_s: float = 1.0
) -> tuple[list[Row], list[Row]]:
    """Return the rows of a capture that match, and all rows of its recorded packets."""
    target = folder / "recorded.pcapng"
    recorder = PacketRecorder(PcapngWriter(target, interface="lo"), FILTERS, lead_s=lead_s)
    watch(source, recorder)
    matched = [
        row
        for row in kanalyze.requests(source)
        if any(matches(row_filter, row) for row_filter in FILTERS)
    ]
    assert (recorder.rows, recorder.late_rows) == (len(matched), 0)
    ports = {row.broker_port for row in matched}
    return matched, list(kanalyze.requests(target, port=ports)) if matched else []


@pytest.mark.few(6)
@pytest.mark.parametrize("name", often(NAMES, CHOSEN))
def test_recorded_packets_have_all_rows_that_matched(name: str, tmp_path: Path) -> None:
    # Without a lead there are fewer packets before those of a request.
    lead_s = 0 if name in ("errors", "groups") else 1
    matched, recorded = matched_and_recorded(path(name), tmp_path, lead_s)
    assert set(map(packet_fields, matched)) <= set(map(packet_fields, recorded))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "change",
    ["fragments", "VXLAN", "blocks shuffled, clock rising", "a direction shuffled, clock rising"],
)
def test_recorded_packets_have_all_rows_that_matched_despite_disorder(
    change: str, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    (data,) = altered("errors", change).files
    source.write_bytes(data)
    matched, recorded = matched_and_recorded(source, tmp_path)
    assert set(map(packet_fields, matched)) <= set(map(packet_fields, recorded))


def test_few_packets_are_written_each_once_and_in_order(tmp_path: Path) -> None:
    sink = Sink()
    recorder = PacketRecorder(sink, [RowFilter.parse(errors=True)], lead_s=0.001)
    watch(path("groups"), recorder, at_once=10)
    with MergedCaptures(find_inputs([str(path("groups"))])) as captures:
        total = sum(map(len, captures.batches()))
    assert 0 < len(sink.numbers) < total / 3
    assert sink.numbers == sorted(set(sink.numbers))
    assert sink.closed


def test_each_row_that_matched_has_a_comment() -> None:
    sink = Sink()
    watch(path("errors"), PacketRecorder(sink, [RowFilter.parse(errors=True)]))
    expected: dict[int | None, list[str]] = {}
    for row in kanalyze.requests(path("errors"), errors=True):
        expected.setdefault(row.request_packet, []).append(comments_of(RowBlock.of_rows([row]))[0])
    assert sink.comments == expected


def test_no_packets_are_recorded_if_no_row_matches() -> None:
    sink = Sink()
    recorder = PacketRecorder(
        sink, [RowFilter.parse(client_id=["nobody"]), RowFilter.parse(api=["99"])]
    )
    watch(path("basics"), recorder)
    assert (recorder.rows, sink.numbers) == (0, [])


def traffic(count: int) -> list[Packet]:
    """Return alternating requests and responses, 1 ms apart, on the connection of the rows."""
    ends = {"client": ("10.0.0.1", 40001), "broker": ("10.0.0.9", 9092)}
    return [
        Packet(
            segment(to_broker=number % 2 == 0, seq=number // 2, payload=b"x", **ends),
            START_NS + number * 1_000_000,
        )
        for number in range(count)
    ]


def row_of(number: int, **changes: object) -> Row:
    """Return the row of the request in packet ``number + 1``, answered by the next packet."""
    time_ns = START_NS + number * 1_000_000
    columns: dict[str, object] = {
        "client_ip": "10.0.0.1",
        "client_port": 40001,
        "broker_ip": "10.0.0.9",
        "broker_port": 9092,
        "request_start_ns": time_ns,
        "request_end_ns": time_ns,
        "response_start_ns": time_ns + 1_000_000,
        "response_end_ns": time_ns + 1_000_000,
        "request_packet": number + 1,
        "response_packet": number + 2,
    }
    return sample_rows.failed("t", 6, "NOT_LEADER_OR_FOLLOWER", **(columns | changes))


def recorder_of(sink: Sink, packets: list[Packet], **limits: float) -> PacketRecorder:
    recorder = PacketRecorder(sink, FILTERS, **limits)
    for first in range(0, len(packets), 10):
        recorder.add_packets(make_batch(packets[first : first + 10], first + 1))
    return recorder


def test_packets_from_the_lead_to_the_response_are_written() -> None:
    sink = Sink()
    recorder = recorder_of(sink, traffic(40), lead_s=0.004)
    assert recorder.add_rows(RowBlock.of_rows([row_of(20)])) == 1
    recorder.close()
    assert sink.numbers == [17, 18, 19, 20, 21, 22]
    assert list(sink.comments) == [21]


@pytest.mark.parametrize("status", ["unanswered", "malformed"])
def test_packets_up_to_the_newest_are_written_if_the_response_has_no_end(status: str) -> None:
    sink = Sink()
    recorder = recorder_of(sink, traffic(40), lead_s=0)
    changes = {"status": status, "response_end_ns": None}
    recorder.add_rows(RowBlock.of_rows([row_of(20, **changes)]))
    recorder.close()
    assert sink.numbers == list(range(21, 41))


def test_long_polls_are_not_slow() -> None:
    recorder = PacketRecorder(Sink(), [RowFilter.parse(slower_than="1us")])
    rows = [
        sample_rows.fetch(latency_ns=10**9, waited=True),
        sample_rows.fetch(latency_ns=10**9, waited=False),
        sample_rows.fetch(latency_ns=1000),
        sample_rows.unanswered(),
    ]
    assert recorder.add_rows(RowBlock.of_rows(rows)) == 1


def test_packets_are_written_after_a_delay() -> None:
    sink = Sink()
    packets = traffic(40)
    recorder = recorder_of(sink, packets, lead_s=0.001)
    recorder.add_rows(RowBlock.of_rows([row_of(20)] * 400))
    recorder.tick(packets[21].time_ns)
    assert sink.numbers == []
    recorder.add_rows(RowBlock.of_rows([row_of(10)]))
    recorder.tick(packets[21].time_ns + 3 * SECOND_NS)
    assert sink.numbers == [10, 11, 12, 20, 21, 22]
    assert 10 <= len(sink.comments[21]) <= 100
    assert not sink.closed


def test_rows_whose_packets_are_no_longer_buffered_are_counted() -> None:
    sink = Sink()
    recorder = recorder_of(sink, traffic(400), limit_bytes=20_000)
    assert recorder.add_rows(RowBlock.of_rows([row_of(0), row_of(398)])) == 2
    recorder.close()
    assert recorder.late_rows == 1
    assert set(sink.comments) == {399}


def test_a_comment_moves_to_the_response_if_the_request_packet_is_already_written() -> None:
    sink = Sink()
    recorder = recorder_of(sink, traffic(40), lead_s=0)
    recorder.add_rows(RowBlock.of_rows([row_of(20)]))
    recorder.flush()
    later = {"response_packet": 24, "response_end_ns": START_NS + 23_000_000}
    recorder.add_rows(RowBlock.of_rows([row_of(20, **later)]))
    recorder.close()
    assert list(sink.comments) == [21, 24]
    assert recorder.late_rows == 0


def failures(second: int, count: int) -> list[Row]:
    """Return rows of one second, each on its own connection."""
    time_ns = START_NS + second * SECOND_NS
    times = dict.fromkeys(("request_start_ns", "request_end_ns", "response_start_ns"), time_ns)
    return [row_of(0, client_port=n, response_end_ns=time_ns, **times) for n in range(count)]


def test_the_number_of_recorded_rows_per_second_is_limited() -> None:
    recorder = PacketRecorder(Sink(), FILTERS, max_rows_per_s=10)
    recorded_counts = [
        # Rows that do not match do not count for the limit.
        recorder.add_rows(RowBlock.of_rows([*[sample_rows.row()] * 100, *rows]))
        for rows in (
            failures(0, 7),
            failures(0, 7),
            failures(1, 4) + failures(0, 4) + failures(1, 4),  # some end later than others
            failures(2, 3) + failures(3, 30),
            failures(3, 5),
            failures(9, 9),
        )
    ]
    assert recorded_counts == [7, 3, 10, 13, 0, 9]
    assert (recorder.rows, recorder.skipped_rows) == (42, 4 + 2 + 20 + 5)


@pytest.mark.parametrize("jump", [-3600, -365 * 86_400, 3600, 365 * 86_400])
def test_the_limit_per_second_holds_after_the_clock_jumps(jump: int) -> None:
    recorder = PacketRecorder(Sink(), FILTERS, max_rows_per_s=10)
    assert recorder.add_rows(RowBlock.of_rows(failures(0, 20))) == 10
    for second in range(3):
        assert recorder.add_rows(RowBlock.of_rows(failures(jump + second, 20))) == 10


@pytest.mark.parametrize("back_ns", [0, 3600 * SECOND_NS])
def test_an_exchange_is_recorded_if_the_clock_is_set_back_during_it(back_ns: int) -> None:
    sink = Sink()
    packets = [
        Packet(packet.data, packet.time_ns - back_ns * (number > 20))
        for number, packet in enumerate(traffic(40))
    ]
    recorder = recorder_of(sink, packets, lead_s=0)
    answered_ns = packets[21].time_ns
    times = {"response_start_ns": answered_ns, "response_end_ns": answered_ns}
    recorder.add_rows(RowBlock.of_rows([row_of(20, **times)]))
    recorder.close()
    assert {21, 22} <= set(sink.numbers)


class FullSink(Sink):
    """A sink that fails for the first writes, as on a full disk."""

    refusals = 2

    def write(self, packets: PacketBatch, comments: object = None, /) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError(28, "No space left on device")
        super().write(packets)


def test_packets_that_cannot_be_written_are_counted_and_not_buffered_again() -> None:
    sink = FullSink()
    recorder = recorder_of(sink, traffic(40), lead_s=0)
    for number, refused in ((10, True), (20, True), (30, False)):
        recorder.add_rows(RowBlock.of_rows([row_of(number)]))
        if refused:
            with pytest.raises(OSError, match="No space"):
                recorder.flush()
        else:
            recorder.flush()
    assert recorder.lost_packets == 4
    assert sink.numbers == [31, 32]
