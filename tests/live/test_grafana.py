"""The queries of the dashboard use existing metrics and labels."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.process_collector import ProcessCollector

from kanalyze.live.metrics import Metrics
from kanalyze.live.window.snapshot import CaptureState, LagOfTopic, LatestFindings
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.runtime.monitor import InFlight
from kanalyze.tables.columns.block import RowBlock
from tests.support import rows as sample_rows
from tests.support.cases import for_each

BOARD: dict[str, Any] = json.loads(
    files("kanalyze.live").joinpath("grafana.json").read_text(encoding="utf-8")
)
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
FROM_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds to all scraped samples."""


def all_metrics() -> Metrics:
    """Return metrics with every possible sample."""
    metrics = Metrics()
    rejoin = {"errors": [], "error_name": "REBALANCE_IN_PROGRESS", "group_id": "g"}
    metrics.add(
        RowBlock.of_rows(
            [
                sample_rows.row(),
                sample_rows.fetch(waited=True),
                sample_rows.failed("t", 6, "X", throttle_time_ms=5),
                sample_rows.orphan(),
                sample_rows.row(api_name="JoinGroup", **rejoin),
            ]
        ),
        0,
    )
    in_flight = InFlight(1, ())
    unanswered = SimpleNamespace(name="unanswered", severity=80, last_time_ns=None)
    lag = LagOfTopic("g", "t", 1, 1, 0, 7, 7, 9, 1)
    state = CaptureState(
        *("-", 1, 1, 0, 1, 0),
        last_packet_ns=1,
        anomalies={AnomalyKind.LOST_BYTES: 1},
        in_flight=in_flight,
        write_failures={"rows": 1},
        findings=LatestFindings(0, 1, 1, (unanswered,), {}, (lag,)),  # type: ignore[arg-type]
    )
    metrics.tick(state, 1, 0)
    return metrics


def possible_labels() -> dict[str, set[str]]:
    """Return the labels of every possible sample, by the name of the sample."""
    metrics = all_metrics()
    ProcessCollector(registry=metrics.registry)
    return {
        sample.name: set(sample.labels)
        for family in parse_text(generate_latest(metrics.registry).decode())
        for sample in family.samples
    }


LABELS = possible_labels()


@for_each("query", QUERIES)
def test_queries_use_existing_metrics_and_labels(query: str) -> None:
    selectors = re.findall(r"\b([a-z]\w+)\{([^}]*)\}", query)
    assert selectors
    assert len(selectors) == query.count("kanalyze_") + query.count("process_")
    # Metrics of processes exist for other programs too.
    assert "process_" not in query or "and on (instance, job) kanalyze_build_info{" in query
    grouping_labels = set(re.findall(r"\w+", ",".join(re.findall(r"by \(([^)]*)\)", query))))
    for name, matchers in selectors:
        assert name in LABELS
        assert set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)\"", matchers)) <= (
            LABELS[name] | FROM_PROMETHEUS
        )
        assert grouping_labels <= LABELS[name] | FROM_PROMETHEUS
        is_gauge = not name.endswith(("_total", "_bucket", "_sum", "_count"))
        assert is_gauge or f"rate({name}" in query


@for_each("panel", PANELS)
def test_legends_name_labels_of_the_query_result(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        legend_labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        result_labels = set(
            re.findall(r"\w+", ",".join(re.findall(r"by \(([^)]*)\)", target["expr"])))
        )
        if "by (" not in target["expr"]:
            result_labels = set.union(
                *(LABELS[name] for name in re.findall(r"kanalyze_\w+", target["expr"]))
            )
        assert legend_labels <= result_labels


def test_the_dashboard_shows_nearly_all_metrics() -> None:
    """The dashboard has no room for a few of them."""
    shown = set(re.findall(r"kanalyze_\w+", " ".join(QUERIES)))
    left_out = {name for name in LABELS if name.endswith(("_count", "_sum", "_bucket"))}
    left_out |= {name for name in LABELS if name.startswith("process_")}
    left_out |= {"kanalyze_client_throttled_responses_total", "kanalyze_label_folded_total"}
    assert set(LABELS) - left_out <= shown


def test_panels_have_unique_ids_and_titles_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    titles = [panel["title"] for panel in BOARD["panels"]]
    assert len(titles) == len(set(titles))
    cells = [
        (x, y)
        for position in (panel["gridPos"] for panel in BOARD["panels"])
        for x in range(position["x"], position["x"] + position["w"])
        for y in range(position["y"], position["y"] + position["h"])
    ]
    assert len(cells) == len(set(cells))
    assert all(0 <= x < 24 for x, _ in cells)


@for_each("panel", PANELS)
def test_panels_have_a_unit_a_description_and_the_chosen_source(panel: dict[str, Any]) -> None:
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["description"].endswith(".")
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    references = [target["refId"] for target in panel["targets"]]
    assert len(references) == len(set(references))


def test_all_variables_are_used() -> None:
    names = [variable["name"] for variable in BOARD["templating"]["list"]]
    assert names == ["datasource", "instance"]
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD["panels"])))
    assert used - {"__rate_interval"} == set(names)
