"""The alert rules use existing metrics and labels."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from kanalyze.kafka.schema.error_table import ERRORS
from tests.live.test_grafana import FROM_PROMETHEUS, LABELS
from tests.support.cases import for_each

RULES: list[dict[str, Any]] = [
    rule
    for group in json.loads(
        files("kanalyze.live").joinpath("alerts.json").read_text(encoding="utf-8")
    )["groups"]
    for rule in group["rules"]
]


@for_each("rule", RULES)
def test_rules_use_existing_metrics_and_labels(rule: dict[str, Any]) -> None:
    names = re.findall(r"kanalyze_\w+", rule["expr"])
    assert names
    assert set(names) <= set(LABELS)
    matched = re.findall(r'(\w+)\s*(?:=|!=|=~|!~)"', rule["expr"])
    grouped = re.findall(r"\w+", ",".join(re.findall(r"by \(([^)]*)\)", rule["expr"])))
    known = set.union(FROM_PROMETHEUS, *(LABELS[name] for name in names))
    assert set(matched) | set(grouped) <= known
    is_counter = names[0].endswith(("_total", "_bucket"))
    assert is_counter is (f"rate({names[0]}" in rule["expr"])


@for_each("rule", RULES)
def test_rules_say_what_is_wrong_with_labels_of_their_result(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    texts = rule["annotations"]
    assert texts["description"].endswith(".")
    result = set(re.findall(r"\w+", ",".join(re.findall(r"by \(([^)]*)\)", rule["expr"]))))
    used = set(re.findall(r"\$labels\.(\w+)", texts["summary"]))
    assert used <= (result or FROM_PROMETHEUS)


def test_rules_have_names_of_their_own_and_codes_that_kafka_has() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))
    codes = re.findall(r'error!~"([^"]+)"', " ".join(rule["expr"] for rule in RULES))
    assert codes
    assert set("|".join(codes).split("|")) <= {name for name, _ in ERRORS.values()}
