"""The view with random rows: ``python -m tests.live.drive [--seconds N] [--fail]``.

People can look at the view, and tests press keys. The program ends by itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Any

from rich.console import Console

from kanalyze.live.view.terminal import Terminal
from kanalyze.live.view.view import ViewController
from kanalyze.live.window.snapshot import CaptureState
from kanalyze.live.window.windows import Windows
from kanalyze.tables.columns.block import RowBlock
from tests.support.rows import failed, fetch, partition, row

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row

TURN_S = 0.1
HOSTILE = "\x1b[2Jbad[bold]\u202e\n"


def random_rows(count: int, end_ns: int, random: Random) -> RowBlock:
    """Return random rows of the last tenth of a second."""
    rows = [_row(number, end_ns - random.randrange(100_000_000), random) for number in range(count)]
    return RowBlock.of_rows(rows)


def _row(number: int, end_ns: int, random: Random) -> Row:
    latency_ns = int(random.lognormvariate(14, 1))
    host = random.randrange(12)
    topic = random.choice(["orders", "payments", "clicks", "audit.log", HOSTILE])
    size = random.randrange(200, 20_000)
    items = [partition(topic, 0, record_count=size // 100, record_bytes=size)]
    common: dict[str, Any] = {
        "connection": f"10.0.1.{host}:40001>10.0.0.9:9092",
        "client_ip": f"10.0.1.{host}",
        "client_id": HOSTILE if host == 11 else f"{random.choice(['web', 'billing'])}-{host}",
        "request_start_ns": end_ns - latency_ns,
        "response_start_ns": end_ns,
        "latency_ns": latency_ns,
        "request_packet": number,
    }
    group = {"group_id": f"group-{host % 3}", "member_id": f"member-{host}", "partitions": []}
    match random.randrange(40):
        case 0:
            return failed(topic, 6, "NOT_LEADER_OR_FOLLOWER", **common)
        case 1:
            heartbeat = common | group | {"api_key": 12, "api_name": "Heartbeat"}
            return failed(None, 27, "REBALANCE_IN_PROGRESS", **heartbeat)
        case 2:
            join = {"api_key": 11, "api_name": "JoinGroup", "waited": True}
            return row(**(common | group | join))
        case 3 | 4 | 5:
            return row(**(common | group | {"api_key": 12, "api_name": "Heartbeat"}))
        case choice if choice < 15:
            waits = common | {"latency_ns": 500_000_000}
            return fetch(**waits, waited=True, partitions=items, response_bytes=size)
        case choice if choice < 25:
            return fetch(**common, partitions=items, response_bytes=size)
    return row(**common, partitions=items, request_bytes=size + 100)


def drive(seconds: float, rows_per_s: int, *, fail: bool) -> None:
    """Show the view until the user quits or the time is over."""
    windows, random = Windows(), Random(1)
    began = time.monotonic_ns()
    with Terminal(Console(highlight=False)) as terminal:
        view = ViewController(windows, terminal)
        for turn in range(round(seconds / TURN_S)):
            now_ns, clock_ns = time.time_ns(), time.monotonic_ns()
            divisor = 1 + (turn // 15) % 3
            windows.add(random_rows(int(rows_per_s * TURN_S) // divisor, now_ns, random), now_ns)
            packets = turn * 1200
            state = CaptureState("eth0", packets, packets * 900, turn // 30, 37, clock_ns - began)
            windows.add_capture(state, now_ns)
            if not view.tick(now_ns, clock_ns):
                break
            if fail and turn > 5:
                raise RuntimeError("the feed broke")
            time.sleep(TURN_S)
    sys.stdout.write(f"left with {view.state.pattern!r}\n")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rows-per-s", type=int, default=2000)
    parser.add_argument("--fail", action="store_true")
    arguments = parser.parse_args()
    drive(arguments.seconds, arguments.rows_per_s, fail=arguments.fail)


if __name__ == "__main__":
    main()
