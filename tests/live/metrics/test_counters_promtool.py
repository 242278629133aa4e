"""Prometheus' own tool checks names, units and help texts, and the queries of the dashboard.

Without promtool this file is not collected (see conftest.py, which says so).
"""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from typing import TYPE_CHECKING

from prometheus_client.exposition import generate_latest

from kanalyze.live.metrics.counters import Metrics
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.tables.columns.block import RowBlock
from tests.support import rows as sample_rows
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from pathlib import Path


def test_promtool_has_no_complaints_about_the_metrics() -> None:
    metrics = Metrics(labels={"interface": "eth0"})
    rows = [
        *sample_rows.plain_traffic(300),
        sample_rows.orphan(),
        sample_rows.fetch(waited=True, throttle_time_ms=9),
    ]
    metrics.add(RowBlock.of_rows([*rows, sample_rows.row(api_name="JoinGroup", group_id="g")]))
    metrics.set_capture(
        packets=1,
        captured_bytes=1,
        dropped_packets=0,
        connections=1,
        open_connections=1,
        held_bytes=1,
        last_packet_time_ns=sample_rows.START_NS,
        in_flight_requests=1,
        oldest_in_flight_ns=1,
    )
    metrics.set_anomalies({AnomalyKind.LOST_BYTES: 1})
    metrics.set_write_failures({"rows": 1})
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=generate_latest(metrics.registry),
        capture_output=True,
        check=False,
        timeout=LONG_S,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_promtool_can_read_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    board = json.loads(files("kanalyze.live").joinpath("grafana.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "rules.json"  # JSON is YAML
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, check=False, timeout=LONG_S
    )
    assert done.returncode == 0, done.stderr.decode()
    assert f"{len(queries)} rules found" in done.stdout.decode()
