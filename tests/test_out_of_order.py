"""Some proxies and servers answer requests in another order: nothing waits for the one before."""

from __future__ import annotations

import io
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.runtime.pipeline import Analysis
from tests.support import kafka as k
from tests.support.packets import START_NS, Packet, pcap_file
from tests.support.traffic import Line, produce, produce_answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row

MS = 1_000_000


def captured(order: Sequence[int], *, opened: bool = True, then: int = 0) -> bytes:
    """A capture: requests at once, an answer each ms in this order, then some that wait in line.

    The round trip to the broker is 10 us.
    """
    packets: list[bytes] = []
    line = Line(packets)
    times = [START_NS, START_NS + 10_000, START_NS + 20_000]
    if opened:
        line.open()
    else:
        times = [START_NS, START_NS + 10_000]
        line.client(k.heartbeat(900)).broker(k.heartbeat_answer(900))
    now = START_NS + MS
    line.client(b"".join(produce(number, 9) for number in sorted(order)))
    times.append(now)
    for number in order:
        now += MS
        line.broker(produce_answer(number, 9))
        times.append(now)
    first = 1000
    line.client(b"".join(produce(number, 9) for number in range(first, first + then)))
    times += [now + MS] * bool(then)
    for number in range(first, first + then):
        line.broker(produce_answer(number, 9))
        times.append(now + (2 + number - first) * MS)
    return pcap_file(map(Packet, packets, times))


def rows_of(data: bytes) -> dict[int | None, Row]:
    rows = [row for rows in Analysis([io.BytesIO(data)]).row_batches() for row in rows]
    return {row.correlation_id: row for row in rows if row.api_name == "Produce"}


def test_a_late_response_is_an_anomaly_and_its_request_waited_for_none() -> None:
    rows = rows_of(captured([2, 1]))
    assert rows[1].anomalies == ["response_out_of_order"]
    assert (rows[1].latency_ns, rows[1].pipeline_wait_ns) == (2 * MS, 0)
    assert rows[1].broker_time_ns == 2 * MS - 10_000
    assert rows[2].anomalies == []
    assert (rows[2].pipeline_wait_ns, rows[2].broker_time_ns) == (0, MS - 10_000)


@pytest.mark.parametrize("order", list(permutations((1, 2, 3)))[1:])
def test_no_order_but_that_of_the_requests_has_a_queue(order: tuple[int, ...]) -> None:
    rows = rows_of(captured(order))
    assert {row.status for row in rows.values()} == {"ok"}
    for place, number in enumerate(order):
        is_late = any(other > number for other in order[:place])
        assert rows[number].anomalies == (["response_out_of_order"] if is_late else [])
        if is_late or any(other < number for other in order[place + 1 :]):
            assert rows[number].pipeline_wait_ns == 0


def test_responses_in_order_wait_for_each_other() -> None:
    rows = rows_of(captured([1, 2, 3]))
    assert [row.anomalies for row in rows.values()] == [[]] * 3
    waits = [row.pipeline_wait_ns for row in rows.values()]
    assert waits == [0, MS - 10_000, 2 * MS - 10_000]


def test_after_a_late_response_nothing_on_the_connection_counts_as_queued() -> None:
    rows = rows_of(captured([2, 1], then=3))
    assert [rows[number].pipeline_wait_ns for number in (1000, 1001, 1002)] == [0, 0, 0]
    assert not any(rows[number].anomalies for number in (1000, 1001, 1002))


def test_a_connection_that_began_before_the_capture_has_late_responses_too() -> None:
    rows = rows_of(captured([2, 1], opened=False))
    assert rows[1].anomalies == ["response_out_of_order"]
    assert rows[1].pipeline_wait_ns in (0, None)


def test_a_skipped_response_is_no_late_one() -> None:
    packets: list[bytes] = []
    line = Line(packets).open().client(produce(1, 9), produce(2, 9), produce(3, 9))
    line.broker(produce_answer(1, 9), produce_answer(3, 9)).close()
    rows = rows_of(pcap_file([Packet(data, START_NS + i) for i, data in enumerate(packets)]))
    assert rows[3].anomalies == []
    assert rows[2].status == "unanswered"


def test_late_responses_are_listed_as_anomalies(tmp_path: Path) -> None:
    file = tmp_path / "late.pcap"
    file.write_bytes(captured([3, 1, 2]))
    kinds = [anomaly.kind for anomaly in kanalyze.anomalies(str(file))]
    assert kinds == ["response_out_of_order"] * 2
