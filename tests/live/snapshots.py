"""Snapshots for tests of the view and of rate lines."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kanalyze.live.window.snapshot import CaptureState
from kanalyze.live.window.windows import Windows
from kanalyze.tables.columns.block import RowBlock
from tests.support.rows import START_NS, failed, fetch, orphan, partition, plain_traffic, row

if TYPE_CHECKING:
    from kanalyze.live.window.snapshot import Snapshot
    from kanalyze.spec.rows.requests import Row

SECOND_NS = 1_000_000_000
HOSTILE = "\x1b[31mred[bold]x[/]\u202egnp\n:smile:"
CAPTURE = CaptureState("eth0", 84_000, 65_000_000, 0, 37, 3_725_000_000_000)


def usual_windows(**arguments: Any) -> tuple[Windows, int]:
    """Return windows with ten seconds of traffic, and the time of its end."""
    windows = Windows(**arguments)
    windows.tick(START_NS)
    for second in range(12):
        windows.add(_usual_rows(second), START_NS + (second + 1) * SECOND_NS - 1)
    end_ns = START_NS + 12 * SECOND_NS - 1
    heartbeat = {"api_key": 12, "api_name": "Heartbeat", "group_id": "billing"}
    rejoin = failed(None, 27, "REBALANCE_IN_PROGRESS", **heartbeat)
    waits = {"latency_ns": 2_900_000_000, "waited": True}
    join = row(api_key=11, api_name="JoinGroup", group_id="billing", **waits)
    rows = [_moved(item, 11 * SECOND_NS) for item in (rejoin, join, orphan())]
    windows.add(RowBlock.of_rows(rows), end_ns)
    windows.add_capture(CAPTURE, end_ns)
    return windows, end_ns


@cache
def _usual_rows(second: int) -> RowBlock:
    count = 200 + 300 * (second % 4)
    return RowBlock.of_rows([_moved(item, second * SECOND_NS) for item in plain_traffic(count)])


@cache
def usual() -> Snapshot:
    """Return a snapshot of a small cluster."""
    windows, end_ns = usual_windows()
    return windows.snapshot(end_ns)


def lossy() -> Snapshot:
    """Return the snapshot of a small cluster with dropped packets."""
    snapshot = usual()
    return snapshot._replace(capture=CAPTURE._replace(dropped_packets=1234))


@cache
def hostile() -> Snapshot:
    """Return a snapshot with control sequences in texts, and with too many keys."""
    windows = Windows(key_limit=20)
    rows = [
        failed(HOSTILE, 3, HOSTILE, client_id=HOSTILE, partitions=[partition(HOSTILE)]),
        row(api_name="JoinGroup", api_key=11, group_id=HOSTILE, client_id="-"),
        row(api_name=HOSTILE, api_key=777, wire=HOSTILE, client_id=""),
        row(api_name=None, api_key=-3, client_id=None),
        fetch(client_id="\u6f22\u5b57" * 40, partitions=[partition("e\u0301" * 60)]),
        row(client_id="x" * 32_000, status="malformed", latency_ns=-5),
        *(row(client_id=f"c{n}", partitions=[partition(f"t{n}")]) for n in range(30)),
        *(row(api_name="SyncGroup", group_id=f"g{n}", client_id="y") for n in range(30)),
    ]
    windows.add(RowBlock.of_rows(rows), START_NS + SECOND_NS)
    capture = CAPTURE._replace(source=HOSTILE, dropped_packets=None)
    windows.add_capture(capture, START_NS + SECOND_NS)
    return windows.snapshot(START_NS + SECOND_NS)


def nothing() -> Snapshot:
    """Return a snapshot without any packets."""
    return Windows().snapshot(START_NS)


def _moved(item: Row, later_ns: int) -> Row:
    def moved(time_ns: int | None) -> int | None:
        return None if time_ns is None else time_ns + later_ns

    return item._replace(
        request_start_ns=moved(item.request_start_ns),
        response_start_ns=moved(item.response_start_ns),
    )
