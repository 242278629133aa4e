"""Waiting on purpose is not slowness: the same rule holds in rows, reports and filters."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.filters import RowFilter
from tests.support import kafka as k
from tests.support.captures import path
from tests.support.packets import START_NS, Packet, pcap_file
from tests.support.row_blocks import matches
from tests.support.traffic import (
    Line,
    Part,
    answers,
    asks,
    body,
    fetch,
    fetch_answer,
    produce,
    produce_answer,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row

MS = 1_000_000
JOIN_GROUP, SYNC_GROUP, HEARTBEAT, SHARE_FETCH = 11, 14, 68, 78


class Dialog:
    """One connection; each exchange has a chosen time of its request and of its response."""

    def __init__(self) -> None:
        self._packets: list[bytes] = []
        self._times: list[int] = []
        self._line = Line(self._packets).open()
        self._number = 0
        self._stamp(0)

    def exchange(
        self,
        api_key: int,
        version: int,
        request_ms: float,
        response_ms: float,
        request: dict[str, Any],
        response: dict[str, Any],
    ) -> None:
        """Add a request and its response."""
        self._number += 1
        asked = asks(api_key, version, self._number, body(api_key, "request", version, **request))
        content = body(api_key, "response", version, **response)
        self.say(request_ms, response_ms, asked, answers(api_key, version, self._number, content))

    def say(self, request_ms: float, response_ms: float, asked: bytes, answered: bytes) -> None:
        """Add a request and its response as bytes; no response if they are empty."""
        self._line.client(asked)
        self._stamp(request_ms)
        self._line.broker(answered)
        self._stamp(response_ms)

    def fetch(
        self,
        request_ms: float,
        response_ms: float,
        asked: list[Part],
        answered: list[Part],
        *,
        version: int = 12,
        error_code: int = 0,
        **options: Any,
    ) -> None:
        """Add a Fetch and its response, with these partitions."""
        self._number += 1
        session_id = 7 if options.get("epoch", -1) >= 0 else 0
        if options.get("epoch", -1) > 0:
            options["session_id"] = session_id
        self.say(
            request_ms,
            response_ms,
            fetch(self._number, version, asked, **options),
            fetch_answer(
                self._number, version, answered, session_id=session_id, error_code=error_code
            ),
        )

    def _stamp(self, time_ms: float) -> None:
        new = len(self._packets) - len(self._times)
        self._times += [START_NS + int(time_ms * MS)] * new

    def rows(self) -> list[Row]:
        """The rows of this connection."""
        capture = pcap_file(map(Packet, self._packets, self._times))
        run = Analysis([io.BytesIO(capture)])
        return [row for batch in run.row_batches() for row in batch]

    def waited(self) -> list[bool | None]:
        """Whether each response was held back."""
        return [row.waited for row in self.rows()]

    def waits_ms(self) -> list[float | None]:
        """For how long each response was held back."""
        return [None if row.waited_ns is None else row.waited_ns / MS for row in self.rows()]

    def file(self, folder: Path) -> str:
        """A capture of this connection."""
        (folder / "dialog.pcap").write_bytes(pcap_file(map(Packet, self._packets, self._times)))
        return str(folder / "dialog.pcap")


# -- requests that never wait ----------------------------------------------------------------------


def test_requests_of_apis_that_never_wait_did_not_wait() -> None:
    dialog = Dialog()
    dialog.exchange(3, 12, 0, 900, {}, {})
    dialog.exchange(22, 4, 1000, 9000, {}, {})
    dialog.say(9100, 9100, produce(3, 9, acks=0), b"")
    dialog.say(9200, 9900, produce(4, 9), produce_answer(4, 9))
    dialog.say(9910, 9920, produce(5, 9), b"")
    rows = dialog.rows()
    assert {row.status for row in rows} == {"ok", "one_way", "unanswered"}
    assert [(row.waited, row.waited_ns) for row in rows] == [(False, 0)] * 5


def test_it_is_unknown_whether_a_request_without_a_response_or_a_known_api_waited() -> None:
    dialog = Dialog()
    dialog.say(0, 10, k.heartbeat(9), k.heartbeat_answer(9))
    dialog.say(20, 30, k.request(999, 0, 10, b"what"), k.response(10, b"so"))
    dialog.say(40, 50, b"", k.heartbeat_answer(77))
    dialog.say(60, 70, fetch(11, 12), b"")
    rows = dialog.rows()
    assert [row.correlation_id for row in rows] == [9, 10, 77, 11]
    waits = [(row.waited, row.waited_ns) for row in rows]
    assert waits == [(False, 0), *[(None, None)] * 3]


def test_a_question_for_requests_that_did_not_wait_has_those_of_all_apis(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dialog = Dialog()
    dialog.say(0, 5, produce(1, 9), produce_answer(1, 9))
    dialog.fetch(10, 511, [Part()], [Part(records=None)])
    dialog.fetch(600, 603, [Part()], [Part(records=None)])
    question = "SELECT api_name FROM requests WHERE NOT waited ORDER BY 1"
    assert main(["sql", dialog.file(tmp_path), question, "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ["api_name", "Fetch", "Produce"]


# -- fetches ---------------------------------------------------------------------------------------

EMPTY = Part(records=None)
HELD_UP = [(600, True, 500), (601, False, 500), (6030, False, 500)]


@pytest.mark.parametrize(("latency_ms", "waited", "waited_ms"), HELD_UP)
def test_what_is_beyond_max_wait_is_broker_time(
    latency_ms: float, waited: bool, waited_ms: float
) -> None:
    dialog = Dialog()
    dialog.fetch(0, latency_ms, [EMPTY], [EMPTY])
    (row,) = dialog.rows()
    assert (row.waited, row.waited_ns) == (waited, waited_ms * MS)
    assert row.broker_network_ns is not None
    assert row.broker_time_ns is not None
    parts = row.broker_network_ns + row.waited_ns + row.broker_time_ns
    assert parts == row.latency_ns == int(latency_ms * MS)


def test_a_fetch_that_took_far_longer_than_max_wait_is_in_latency_figures(tmp_path: Path) -> None:
    dialog = Dialog()
    dialog.fetch(0, 6030, [EMPTY], [EMPTY])
    dialog.fetch(6100, 6601, [EMPTY], [EMPTY])
    report = kanalyze.report(dialog.file(tmp_path))
    (api,) = (line for line in report["apis"] if line["api_name"] == "Fetch")
    assert api["waited"]["requests"] == 1
    assert (api["latency_ns"]["count"], api["latency_ns"]["max"]) == (1, 6030 * MS)
    assert [entry["latency_ns"] for entry in report["slowest"]] == [6030 * MS]
    (line,) = report["latency_parts"]
    assert line["broker_time_ns"]["mean"] == line["total_time_ns"]["mean"] == 5530 * MS


METADATA_ID = bytes(15) + b"\1"
METADATA = Part("__cluster_metadata", METADATA_ID, records=None)


@pytest.mark.parametrize("version", [4, 11, 12, 13, 15, 17, 18])
@pytest.mark.parametrize("part", [METADATA, EMPTY])
def test_raft_and_replicas_wait_with_a_minimum_of_0_bytes(version: int, part: Part) -> None:
    dialog = Dialog()
    dialog.fetch(0, 501, [part], [part], version=version, min_bytes=0, replica_id=2)
    dialog.fetch(510, 514, [part], [part], version=version, min_bytes=0, replica_id=2)
    dialog.fetch(520, 1021, [EMPTY], [EMPTY], version=version, min_bytes=0, replica_id=-1)
    assert dialog.waited() == [True, False, False]


@pytest.mark.parametrize("version", [12, 17])
def test_an_observer_of_the_metadata_log_waits_without_a_replica_id(version: int) -> None:
    dialog = Dialog()
    dialog.fetch(0, 501, [METADATA], [METADATA], version=version, min_bytes=0)
    assert dialog.waited() == [True]


def test_records_and_a_higher_high_watermark_end_a_wait_of_raft() -> None:
    dialog = Dialog()
    some = METADATA._replace(records=k.record_batch(base_offset=10), high_watermark=10)
    higher = METADATA._replace(high_watermark=12)
    dialog.fetch(0, 2, [METADATA], [METADATA], min_bytes=0, replica_id=2)
    dialog.fetch(3, 450, [METADATA], [some], min_bytes=0, replica_id=2)
    dialog.fetch(452, 600, [METADATA], [higher], min_bytes=0, replica_id=2)
    dialog.fetch(900, 904, [METADATA], [higher], min_bytes=0, replica_id=2)
    assert dialog.waited() == [False, True, True, False]


def batch_at(offset: int, partition: int = 0) -> Part:
    """A partition with a record at its former end."""
    return Part(
        partition=partition,
        records=k.record_batch(base_offset=offset),
        high_watermark=offset + 1,
    )


def test_a_partition_that_a_fetch_session_leaves_out_had_nothing_new() -> None:
    one, two = Part(partition=0, records=None), Part(partition=1, records=None)
    dialog = Dialog()
    dialog.fetch(0, 3, [one, two], [one, two], epoch=0)
    dialog.fetch(4, 505, [], [], epoch=1)
    dialog.fetch(506, 800, [], [batch_at(10, 0)], epoch=2)
    dialog.fetch(801, 1302, [batch_at(11, 0)], [], epoch=3)
    dialog.fetch(1303, 1700, [], [batch_at(10, 1)], epoch=4)
    dialog.fetch(1701, 2202, [batch_at(11, 1)], [], epoch=5)
    dialog.fetch(2203, 2500, [], [batch_at(11, 0)], epoch=6)
    assert dialog.waited() == [False, True, True, True, True, True, True]


def test_a_fetch_session_from_before_the_capture_shows_what_was_not_new() -> None:
    dialog = Dialog()
    dialog.fetch(0, 501, [], [], epoch=40)
    dialog.fetch(502, 800, [], [batch_at(10)], epoch=41)
    # The client was away: the record may have come meanwhile.
    dialog.fetch(5000, 5004, [batch_at(11)], [batch_at(11)], epoch=42)
    assert dialog.waited() == [True, True, False]


def test_a_fetch_session_of_which_a_fetch_is_missing_proves_nothing() -> None:
    dialog = Dialog()
    dialog.fetch(0, 501, [], [], epoch=40)
    dialog.fetch(502, 800, [], [batch_at(10)], epoch=42)
    assert dialog.waited() == [True, False]


@pytest.mark.parametrize(
    ("code", "waited"), [(6, True), (74, True), (56, True), (29, False), (76, False)]
)
def test_an_error_that_ends_a_wait_of_a_fetch_is_a_wait(code: int, waited: bool) -> None:
    failed = Part(records=None, error_code=code, high_watermark=-1)
    dialog = Dialog()
    dialog.fetch(0, 501, [EMPTY], [EMPTY])
    dialog.fetch(502, 800, [EMPTY], [failed])
    # It is no news for the next fetch, which was answered slowly.
    dialog.fetch(801, 1100, [EMPTY], [failed])
    assert dialog.waited() == [True, waited, False]


def test_an_error_of_a_whole_fetch_is_sent_at_once() -> None:
    dialog = Dialog()
    dialog.fetch(0, 501, [EMPTY], [EMPTY])
    dialog.fetch(502, 1100, [EMPTY], [], error_code=70)
    assert dialog.waited() == [True, False]


# -- the members of a group -----------------------------------------------------------------------


def join(error_code: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"groupId": "g", "memberId": "m"}, {"errorCode": error_code, "memberId": "m"}


def sync(*, leads: bool, error_code: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    assignments = [{"memberId": "m", "assignment": b"x"}] if leads else []
    request = {"groupId": "g", "memberId": "m", "assignments": assignments}
    return request, {"errorCode": error_code}


def test_a_member_that_joins_waits_for_the_others() -> None:
    dialog = Dialog()
    dialog.exchange(JOIN_GROUP, 5, 0, 3000, *join())
    (row,) = dialog.rows()
    assert row.waited is True
    assert (row.api_name, row.group_id, row.member_id) == ("JoinGroup", "g", "m")


def test_a_member_waits_for_the_assignments_that_the_leader_brings() -> None:
    dialog = Dialog()
    dialog.exchange(SYNC_GROUP, 3, 0, 900, *sync(leads=False))
    dialog.exchange(SYNC_GROUP, 3, 1000, 1900, *sync(leads=True))
    rows = dialog.rows()
    assert [row.waited for row in rows] == [True, False]
    assert [(row.group_id, row.member_id) for row in rows] == [("g", "m")] * 2


@pytest.mark.parametrize(("error_code", "waited"), [(79, False), (27, True), (25, True)])
def test_an_error_that_ends_no_wait_comes_at_once(error_code: int, waited: bool) -> None:
    dialog = Dialog()
    dialog.exchange(JOIN_GROUP, 5, 0, 900, *join(error_code))
    assert dialog.waited() == [waited]


def test_a_member_waits_for_its_rebalance_timeout_at_most() -> None:
    dialog = Dialog()
    request, response = join()
    timeouts = {"rebalanceTimeoutMs": 2000, "sessionTimeoutMs": 9000}
    dialog.exchange(JOIN_GROUP, 5, 0, 2050, request | timeouts, response)
    dialog.exchange(SYNC_GROUP, 3, 2100, 4000, *sync(leads=False))
    dialog.exchange(JOIN_GROUP, 5, 5000, 8000, request | timeouts, response)
    dialog.exchange(SYNC_GROUP, 3, 8100, 12_100, *sync(leads=False))
    dialog.exchange(JOIN_GROUP, 0, 13_000, 24_000, request | timeouts, response)
    assert dialog.waited() == [True, True, False, False, False]
    waits = dialog.waits_ms()
    assert [round(wait or 0) for wait in waits] == [2000, 1900, 2000, 2000, 9000]


# -- records of a share group ---------------------------------------------------------------------


def share(
    acquired: int = 0, *, max_wait_ms: int = 500, min_bytes: int = 1, epoch: int = 1
) -> tuple[dict[str, Any], dict[str, Any]]:
    request = {
        "groupId": "g",
        "memberId": "m",
        "shareSessionEpoch": epoch,
        "maxWaitMs": max_wait_ms,
        "minBytes": min_bytes,
        "maxBytes": 1 << 20,
        "maxRecords": 500,
    }
    if not acquired:
        return request, {"responses": []}
    partition = {
        "partitionIndex": 0,
        "errorCode": 0,
        "errorMessage": None,
        "acknowledgeErrorCode": 0,
        "acknowledgeErrorMessage": None,
        "currentLeader": {"leaderId": 0, "leaderEpoch": 0},
        "records": k.record_batch(acquired, size=acquired * 8),
        "acquiredRecords": [{"firstOffset": 0, "lastOffset": acquired - 1, "deliveryCount": 1}],
    }
    return request, {"responses": [{"topicId": bytes(15) + b"\1", "partitions": [partition]}]}


def test_a_share_fetch_without_records_until_its_max_wait_waited() -> None:
    dialog = Dialog()
    dialog.exchange(SHARE_FETCH, 1, 0, 501, *share())
    dialog.exchange(SHARE_FETCH, 1, 510, 530, *share())
    dialog.exchange(SHARE_FETCH, 1, 600, 1200, *share(max_wait_ms=0))
    dialog.exchange(SHARE_FETCH, 1, 1300, 1900, *share(epoch=-1))
    assert dialog.waited() == [True, False, False, False]


def test_a_share_fetch_is_held_for_its_max_wait_at_most() -> None:
    dialog = Dialog()
    dialog.exchange(SHARE_FETCH, 1, 0, 3000, *share())
    assert dialog.waited() == [False]
    assert dialog.waits_ms() == [500]


def test_a_share_fetch_whose_records_came_while_it_was_held_waited() -> None:
    dialog = Dialog()
    dialog.exchange(SHARE_FETCH, 1, 0, 400, *share(acquired=3))
    dialog.exchange(SHARE_FETCH, 1, 401, 700, *share(acquired=3))
    assert dialog.waited() == [False, True]


def test_a_share_fetch_whose_records_may_have_been_there_before_did_not_wait() -> None:
    dialog = Dialog()
    dialog.exchange(SHARE_FETCH, 1, 0, 501, *share())
    dialog.exchange(SHARE_FETCH, 1, 5000, 5004, *share(acquired=3))
    assert dialog.waited() == [True, False]


def test_records_that_a_share_fetch_could_not_take_are_there_for_the_next() -> None:
    dialog = Dialog()
    dialog.exchange(SHARE_FETCH, 1, 0, 4, *share(acquired=500))
    dialog.exchange(SHARE_FETCH, 1, 5, 300, *share(acquired=500))
    assert dialog.waited() == [False, False]


# -- heartbeats -----------------------------------------------------------------------------------


def beat(*, assigned: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    topics = [{"topicId": bytes(15) + b"\1", "partitions": [0]}]
    assignment = {"topicPartitions": topics} if assigned else None
    request = {"groupId": "g", "memberId": "m", "memberEpoch": 1}
    return request, {"heartbeatIntervalMs": 5000, "assignment": assignment, "memberId": "m"}


def test_a_heartbeat_that_brings_an_assignment_made_while_it_was_held_waited() -> None:
    dialog = Dialog()
    dialog.exchange(HEARTBEAT, 0, 0, 300, *beat(assigned=True))
    dialog.exchange(HEARTBEAT, 0, 310, 1310, *beat(assigned=True))
    assert dialog.waited() == [False, True]


def test_a_heartbeat_that_brings_nothing_is_not_held() -> None:
    dialog = Dialog()
    dialog.exchange(HEARTBEAT, 0, 0, 2, *beat(assigned=False))
    dialog.exchange(HEARTBEAT, 0, 10, 3000, *beat(assigned=False))
    dialog.exchange(HEARTBEAT, 0, 8000, 8003, *beat(assigned=True))
    assert dialog.waited() == [False, False, False]


# -- in reports and filters -----------------------------------------------------------------------

_SLOW_TO_ALL = [("next-groups", "ShareFetch"), ("groups", "JoinGroup")]


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "api_name"), _SLOW_TO_ALL)
def test_requests_that_waited_are_neither_among_the_slowest_nor_in_latencies(
    name: str, api_name: str
) -> None:
    run = Analysis([str(path(name))])
    rows = [row for batch in run.row_batches() for row in batch]
    waited = [row for row in rows if row.api_name == api_name and row.waited]
    assert max(row.latency_ns or 0 for row in waited) > 500 * MS
    report = kanalyze.report(str(path(name)))
    packets = {row.request_packet for row in waited}
    assert not packets & {entry["request_packet"] for entry in report["slowest"]}
    for party in ("brokers", "clients"):
        counted = sum(entry["latency_ns"]["count"] for entry in report[party])
        assert counted == sum(row.latency_ns is not None and not row.waited for row in rows)


@pytest.mark.parametrize(("name", "api_name"), _SLOW_TO_ALL)
def test_requests_that_waited_do_not_match_slower_than(name: str, api_name: str) -> None:
    row_filter = RowFilter.parse(slower_than="500ms")
    rows = [row for batch in Analysis([str(path(name))]).row_batches() for row in batch]
    assert api_name not in {row.api_name for row in rows if matches(row_filter, row)}
