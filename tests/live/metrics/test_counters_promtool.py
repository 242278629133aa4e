"""Prometheus' own tool checks names, units and help texts, and the queries of the dashboard.

Without promtool this file is not collected (see conftest.py, which says so).
"""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from typing import TYPE_CHECKING

from prometheus_client.exposition import generate_latest

from kanalyze.live.metrics import Metrics
from kanalyze.live.window.snapshot import CaptureState
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.runtime.monitor import InFlight
from kanalyze.tables.columns.block import RowBlock
from tests.support import rows as sample_rows
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from pathlib import Path


def test_promtool_has_no_complaints_about_the_metrics() -> None:
    metrics = Metrics()
    rows = [
        *sample_rows.plain_traffic(300),
        sample_rows.orphan(),
        sample_rows.fetch(waited=True, throttle_time_ms=9),
    ]
    metrics.add(RowBlock.of_rows([*rows, sample_rows.row(api_name="JoinGroup", group_id="g")]))
    in_flight = InFlight(1, ())
    state = CaptureState(
        *("-", 1, 1, 0, 1, 0),
        last_packet_ns=1,
        anomalies={AnomalyKind.LOST_BYTES: 1},
        in_flight=in_flight,
    )
    metrics.set_capture(state, 1, 1)
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
