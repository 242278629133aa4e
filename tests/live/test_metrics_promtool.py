"""Prometheus' own tool checks names, units and help texts, and the queries of the dashboard.

Without promtool this file is not collected (see conftest.py, which says so).
"""

from __future__ import annotations

import json
import subprocess
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from prometheus_client.exposition import generate_latest

from kanalyze.tables.columns.block import RowBlock
from tests.live.test_alert_rules import RULES
from tests.live.test_grafana import QUERIES, all_metrics
from tests.support import rows as sample_rows
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from pathlib import Path


def test_promtool_has_no_complaints_about_the_metrics() -> None:
    metrics = all_metrics()
    metrics.add(RowBlock.of_rows(sample_rows.plain_traffic(300)), 0)
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=generate_latest(metrics.registry),
        capture_output=True,
        check=False,
        timeout=LONG_S,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_promtool_can_read_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(QUERIES)
    ]
    path = tmp_path / "rules.json"  # JSON is YAML
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, check=False, timeout=LONG_S
    )
    assert done.returncode == 0, done.stderr.decode()
    assert f"{len(QUERIES)} rules found" in done.stdout.decode()


def test_promtool_can_read_the_alert_rules() -> None:
    with as_file(files("kanalyze.live").joinpath("alerts.json")) as path:
        done = subprocess.run(
            ["promtool", "check", "rules", str(path)],
            capture_output=True,
            check=False,
            timeout=LONG_S,
        )
    assert done.returncode == 0, done.stderr.decode()
    assert f"{len(RULES)} rules found" in done.stdout.decode()
