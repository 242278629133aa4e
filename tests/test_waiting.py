"""Waiting on purpose is not slowness: the same rule holds in rows, reports and filters."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.filters import RowFilter
from tests.support import kafka as k
from tests.support.captures import path
from tests.support.packets import START_NS, Packet, pcap_file
from tests.support.traffic import Line, answers, asks, body

if TYPE_CHECKING:
    from kanalyze.tables.row import Row

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
        content = body(api_key, "request", version, **request)
        self._line.client(asks(api_key, version, self._number, content))
        self._stamp(request_ms)
        content = body(api_key, "response", version, **response)
        self._line.broker(answers(api_key, version, self._number, content))
        self._stamp(response_ms)

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
    assert api_name not in {row.api_name for row in rows if row_filter.matches(row)}
