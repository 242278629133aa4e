"""All stages together: captures go in, rows come out, and bad arguments are refused."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from kanalyze.errors import UsageError
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.filters import RowFilter
from tests.support.captures import analysis, path, truth
from tests.support.disorder import PLACES, packets_of
from tests.support.disorder.formats import pcap
from tests.support.exchange_batches import exchange_batches
from tests.support.loss import pcap_without
from tests.support.packets import START_NS
from tests.support.traffic import Line, asks, body, capture_of, fetch, produce, produce_answer

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row


def without(rows: list[Row] | tuple[Row, ...], *columns: str) -> list[Row]:
    """Rows with some columns blanked, in the order of connections and ids."""
    blanked = [row._replace(**dict.fromkeys(columns)) for row in rows]
    return sorted(blanked, key=lambda row: (row.connection, row.correlation_id, repr(row)))


def test_several_files_are_one_stream_and_each_counts_its_own_packets(tmp_path: Path) -> None:
    packets = packets_of("large")
    third = len(packets) // 3
    for number in range(3):
        part = packets[number * third : (number + 1) * third if number < 2 else None]
        (tmp_path / f"part{2 - number}.pcap").write_bytes(pcap(part))
    run = Analysis([str(tmp_path)])
    rows = [row for batch in run.row_batches() for row in batch]
    assert without(rows, *PLACES) == without(analysis("large")[0], *PLACES)
    assert {row.capture for row in rows} == {str(tmp_path / f"part{n}.pcap") for n in range(3)}
    assert max(row.request_packet or 0 for row in rows) <= third + 2
    assert run.quality.packets == truth("large")["packets"]


def test_a_filter_gives_only_the_rows_that_match() -> None:
    run = Analysis([str(path("basics"))], row_filter=RowFilter.parse(api=["fetch"]))
    rows = [row for batch in run.row_batches() for row in batch]
    assert rows == [row for row in analysis("basics")[0] if row.api_name == "Fetch"]
    assert run.quality.to_dict() == analysis("basics")[1].to_dict()


def test_a_forced_port_swaps_client_and_broker() -> None:
    clients = {row.client_port for row in analysis("ipv6")[0]}
    run = Analysis([str(path("ipv6"))], ports=sorted(clients))
    assert not [row for batch in run.row_batches() for row in batch if row.status == "ok"]


@pytest.mark.parametrize(
    "bad", [{"ports": [0]}, {"ports": [70_000]}, {"brokers": ["not an address"]}]
)
def test_bad_arguments_are_refused_before_captures_are_opened(
    bad: dict[str, list[str]],
) -> None:
    with pytest.raises(UsageError):
        Analysis(["missing.pcap"], **bad)  # type: ignore[arg-type]


def test_an_analysis_runs_once() -> None:
    run = Analysis([str(path("mock"))])
    assert list(run.row_batches())
    with pytest.raises(UsageError, match="once"):
        list(run.row_batches())


def test_progress_ends_at_the_size_of_the_files() -> None:
    run = Analysis([str(path("mock")), str(path("waits"))])
    list(run.row_batches())
    size = path("mock").stat().st_size + path("waits").stat().st_size
    assert run.progress == (size, size)


def test_the_bytes_of_messages_are_kept_only_if_requested() -> None:
    run = Analysis([str(path("basics"))], keep=lambda api_key: api_key == 0)
    kept = []
    for pairs in exchange_batches(run):
        for exchange, row in pairs:
            assert exchange.request is not None
            if row.api_name != "Produce":
                assert exchange.request.data is None
                continue
            assert exchange.request.data is not None
            assert len(exchange.request.data) == row.request_bytes
            if exchange.response is not None:
                assert len(exchange.response.data or b"") == row.response_bytes
            kept.append(row.client_id)
    assert len(kept) == 63


def test_anomalies_of_ended_connections_have_the_same_client_as_the_rows(tmp_path: Path) -> None:
    # Cut here, a connection has no SYN, and its first packet is from the broker.
    cut = tmp_path / "middle.pcap"
    cut.write_bytes(pcap_without("basics", range(1, 250)))
    connections = {row.connection for batch in Analysis([str(cut)]).row_batches() for row in batch}
    found = [row for batch in Analysis([str(cut)]).anomaly_batches() for row in batch]
    unanswered = [row.connection for row in found if row.kind == "unanswered_request"]
    assert unanswered
    assert set(unanswered) <= connections


def test_a_fetch_may_be_held_back_up_to_its_max_wait() -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    for number in range(20):
        line.client(produce(number, 9)).broker(produce_answer(number, 9))
    line.client(fetch(20, 11, max_wait_ms=20_000), produce(21, 9))
    run = Analysis([io.BytesIO(capture_of(packets))])
    next(run.batches())
    by_second = {
        seconds: run.monitor.in_flight(START_NS + seconds * 10**9) for seconds in (1, 19, 21)
    }
    assert {seconds: waiting.requests for seconds, waiting in by_second.items()} == {
        1: 2,
        19: 2,
        21: 2,
    }
    names = {
        seconds: [request.api_name for request in waiting.oldest]
        for seconds, waiting in by_second.items()
    }
    assert names == {1: ["Produce"], 19: ["Produce"], 21: ["Fetch", "Produce"]}
    run.close()


def test_group_members_may_wait_but_the_leader_may_not() -> None:
    packets: list[bytes] = []
    line = Line(packets).open().client(produce(1, 9)).broker(produce_answer(1, 9))
    group = {"groupId": "g", "memberId": "m"}
    assignments = [{"memberId": "m", "assignment": b""}]
    line.client(
        asks(11, 5, 2, body(11, "request", 5, **group)),
        asks(14, 3, 3, body(14, "request", 3, **group)),
        asks(14, 3, 4, body(14, "request", 3, **group, assignments=assignments)),
        asks(78, 1, 5, body(78, "request", 1, **group, maxWaitMs=20_000, minBytes=1)),
    )
    run = Analysis([io.BytesIO(capture_of(packets))])
    next(run.batches())
    waiting = {seconds: run.monitor.in_flight(START_NS + seconds * 10**9) for seconds in (10, 30)}
    assert [in_flight.requests for in_flight in waiting.values()] == [4, 4]
    names = [[request.api_name for request in in_flight.oldest] for in_flight in waiting.values()]
    assert names == [["SyncGroup"], ["SyncGroup", "ShareFetch"]]
    run.close()
