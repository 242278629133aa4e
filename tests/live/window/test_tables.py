"""Rebalances of groups, and the shares in a snapshot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kanalyze
from kanalyze.live.window.snapshot import Amounts
from kanalyze.live.window.tables import MEMBER_LIMIT
from kanalyze.live.window.windows import Windows
from kanalyze.spec.rows.requests import ErrorItem
from kanalyze.tables.columns.block import RowBlock
from tests.live.snapshots import nothing
from tests.support.captures import path
from tests.support.cases import for_each
from tests.support.rows import START_NS, failed, row


def test_requests_whose_response_was_not_read_have_no_part_in_the_error_share():
    assert nothing().error_share == 0
    assert nothing()._replace(traffic=Amounts(8, 2, 0, 0)).error_share == 0.25
    assert nothing()._replace(traffic=Amounts(8, 2, 0, 0, 4)).error_share == 0.5
    assert nothing()._replace(traffic=Amounts(8, 0, 0, 0, 8)).error_share is None


DAY_S = 86_400
BARE_BYTES = 49
"""Size of a heartbeat response without an assignment, to a member with an id of 22 characters: from
brokers of Kafka 4.3 (captures/next-groups.pcap)."""


def groups_of(rows) -> dict[str | None, Any]:
    """Return the groups in a window with all rows."""
    windows = Windows(DAY_S, 3600)
    windows.add(RowBlock.of_rows(list(rows)), START_NS)
    return {group.group_id: group for group in windows.snapshot(START_NS).groups}


def group_of(*rows) -> Any:
    (group,) = groups_of(rows).values()
    return group


def request_of(api_name: str, **changes: Any):
    """Return a request of a member."""
    columns = {"group_id": "g", "member_id": "m" * 22, "api_version": 1, "partitions": []}
    return row(**(columns | {"api_name": api_name} | changes))


def refused(api_name: str, error_name: str, **changes: Any):
    errors = [ErrorItem(None, None, 99, error_name)]
    columns = {"status": "error", "error_code": 99, "error_name": error_name, "errors": errors}
    return request_of(api_name, **(columns | changes))


# -- captures of real brokers and clients ---------------------------------------------------------


def test_groups_of_the_newer_protocols_in_a_capture():
    groups = groups_of(kanalyze.requests(path("next-groups")))
    # Two members each. The first one got all partitions, then half, then all when the second left.
    protocols = {name: (group.protocol, group.members) for name, group in groups.items()}
    assert protocols == {"next-group": ("consumer", 2), "next-share": ("share", 2)}
    assert groups["next-group"].rebalances == 3
    assert groups["next-share"].rebalances == 2
    assert all(group.last_error_name is None for group in groups.values())


def test_a_classic_group_in_a_capture():
    group = groups_of(kanalyze.requests(path("groups")))["groups-classic"]
    assert (group.protocol, group.members, group.rebalances) == ("classic", 2, 3)
    # MEMBER_ID_REQUIRED is the first response to each of two new members: no failure.
    counts = (group.joins, group.syncs, group.leaves, group.told, group.errors)
    assert counts == (6, 4, 2, 2, 0)
    assert group.longest_join_ns is not None
    assert group.longest_join_ns > 500_000_000


# -- classic groups -------------------------------------------------------------------------------


def test_rebalances_are_the_most_assignments_of_a_member():
    rows = [request_of("SyncGroup", member_id=member) for member in ("a", "b", "a", "c", "a")]
    group = group_of(*rows, refused("SyncGroup", "UNKNOWN_MEMBER_ID", member_id="b"))
    assert (group.rebalances, group.members) == (3, 3)


def test_the_number_of_rebalances_is_unknown_without_members():
    assert group_of(request_of("JoinGroup", member_id=None)).rebalances is None
    assert group_of(request_of("JoinGroup", member_id="")).rebalances is None
    assert group_of(request_of("JoinGroup")).rebalances == 0


def test_rebalance_in_progress_is_no_failure():
    heartbeat = refused("Heartbeat", "REBALANCE_IN_PROGRESS")
    # The error code of one partition is enough.
    errors = [ErrorItem("t", 0, 3, "UNKNOWN"), ErrorItem("t", 1, 27, "REBALANCE_IN_PROGRESS")]
    commit = failed("t", 3, "UNKNOWN", api_name="OffsetCommit", group_id="g", errors=errors)
    group = group_of(heartbeat, refused("OffsetCommit", "REBALANCE_IN_PROGRESS"), commit)
    assert (group.told, group.errors, group.last_error_name) == (3, 0, None)


def test_requests_without_a_rebalance_are_not_counted():
    rows = [
        request_of("Heartbeat"),
        request_of("OffsetCommit"),
        refused("OffsetCommit", "UNKNOWN_TOPIC_OR_PARTITION"),
        refused("DescribeGroups", "GROUP_AUTHORIZATION_FAILED"),
        request_of("ConsumerGroupHeartbeat", response_bytes=BARE_BYTES),
        request_of("ConsumerGroupHeartbeat", api_version=2, response_bytes=500),
        request_of("StreamsGroupHeartbeat", response_bytes=5_000),
        request_of("JoinGroup", group_id=None),
    ]
    assert groups_of(rows) == {}


# -- the newer protocols --------------------------------------------------------------------------


@pytest.mark.parametrize("api_name", ["ConsumerGroupHeartbeat", "ShareGroupHeartbeat"])
@pytest.mark.parametrize("version", [0, 1])
def test_a_longer_heartbeat_response_has_an_assignment(api_name, version):
    bare = request_of(api_name, response_bytes=BARE_BYTES, api_version=version)
    # The shortest assignment: an array without items, and no tags.
    assigned = bare._replace(response_bytes=BARE_BYTES + 2)
    assert groups_of([bare]) == {}
    group = group_of(bare, assigned, assigned)
    assert (group.rebalances, group.members) == (2, 1)
    assert group.last_time_ns == assigned.response_start_ns


@for_each("case", [("", 1), ("x" * 126, 127), ("x" * 127, 129), ("\u00e9", 3), (None, 1)])
def test_the_size_of_a_response_depends_on_the_member_id(case):
    member_id, id_bytes = case
    bare = request_of("ConsumerGroupHeartbeat", member_id=member_id, response_bytes=26 + id_bytes)
    assert groups_of([bare]) == {}
    assert groups_of([bare._replace(response_bytes=27 + id_bytes)])["g"].protocol == "consumer"


@for_each(
    "case",
    [
        ("Heartbeat", "FENCED_MEMBER_EPOCH", "classic"),
        ("JoinGroup", "NOT_COORDINATOR", "classic"),
        ("ConsumerGroupHeartbeat", "UNRELEASED_INSTANCE_ID", "consumer"),
        ("ShareGroupHeartbeat", "FENCED_MEMBER_EPOCH", "share"),
        ("StreamsGroupHeartbeat", "UNKNOWN_MEMBER_ID", "streams"),
        ("OffsetCommit", "UNKNOWN_MEMBER_ID", None),
        ("OffsetCommit", "STALE_MEMBER_EPOCH", None),
        ("OffsetCommit", "ILLEGAL_GENERATION", None),
        ("OffsetCommit", "FENCED_INSTANCE_ID", None),
    ],
)
def test_members_that_fail_are_counted(case):
    api_name, error_name, protocol = case
    group = group_of(refused(api_name, error_name))
    assert (group.protocol, group.errors, group.last_error_name) == (protocol, 1, error_name)
    # Assignments of streams groups are not known.
    assert group.rebalances == (None if protocol in ("streams", None) else 0)


def test_the_last_failure_is_that_of_the_latest_response():
    later = {"response_start_ns": START_NS + 10**9}
    rows = [
        refused("Heartbeat", "UNKNOWN_MEMBER_ID", **later),
        refused("Heartbeat", "ILLEGAL_GENERATION"),
    ]
    assert group_of(*rows).last_error_name == "UNKNOWN_MEMBER_ID"
    assert group_of(*reversed(rows)).last_error_name == "UNKNOWN_MEMBER_ID"


def test_a_group_may_change_to_the_newer_protocol():
    rows = [request_of("SyncGroup"), request_of("ConsumerGroupHeartbeat", response_bytes=85)]
    assert group_of(*rows).protocol == group_of(*reversed(rows)).protocol == "consumer"
    assert group_of(*rows).rebalances == 2


# -- bounds ---------------------------------------------------------------------------------------


@given(st.permutations(range(3 * MEMBER_LIMIT)), st.integers(0, 3 * MEMBER_LIMIT))
def test_beyond_the_limit_the_same_members_are_counted_in_any_order(numbers, cut):
    rows = [request_of("SyncGroup", member_id=f"m{number}") for number in numbers for _ in range(2)]
    # Rows in the same second, and in two seconds.
    later = [item._replace(response_start_ns=START_NS + 7 * 10**9) for item in rows[cut:]]
    for all_rows in (rows, [*rows[:cut], *later]):
        group = group_of(*all_rows)
        assert (group.members, group.members_known) == (MEMBER_LIMIT, False)
        assert group.rebalances == 2
        assert group.syncs == 6 * MEMBER_LIMIT
