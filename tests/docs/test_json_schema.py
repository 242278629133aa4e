"""All JSON that kanalyze writes conforms to the published schemas."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

import kanalyze
from kanalyze.api.inputs import make_filter
from kanalyze.api.tables import fill
from kanalyze.cli.main import main
from kanalyze.queries.database import Database
from kanalyze.render.json import summary_json
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.tables import ALWAYS, SQL_TABLES, TABLES
from kanalyze.tables.names import AddressNames
from tests.support.captures import FOLDER, ROOT, often, path, truth
from tools.json_schema import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

OFTEN = ("basics", "tls", "fault-not-allowed")
"""One has lines in every table, one has no Kafka at all, one has findings."""
CAPTURES = often(
    sorted(file.name.removesuffix(".truth.json") for file in FOLDER.glob("*.truth.json")), OFTEN
)
FILTER = SCHEMAS["report"]["properties"]["filter"]
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}


def violations(schema: str, value: Any) -> list[str]:
    """The violations of a schema by a value."""
    errors = VALIDATORS[schema].iter_errors(value)
    return [f"{error.json_path}: {error.message[:200]}" for error in errors]


def sample(name: str) -> dict[str, Any]:
    """The report of a capture that is in the repository; another test keeps it up to date."""
    report: dict[str, Any] = json.loads((ROOT / "reports" / f"{name}.json").read_text("utf-8"))
    return report


def described(schema: dict[str, Any], at: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and the schemas of all fields in it, each with its path."""
    yield at, schema
    for part in ("properties", "$defs"):
        for name, each in schema.get(part, {}).items():
            yield from described(each, f"{at}.{name}")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict) and schema[part].keys() != {"type"}:
            yield from described(schema[part], f"{at}[]")


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_field_is_described_with_the_meaning_of_null(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    for at, schema in described(SCHEMAS[name]):
        if "anyOf" in schema:
            continue
        assert schema.get("description"), at
        assert "null" not in schema.get("type", ()) or "null" in schema["description"], at
        if at.endswith(("_ns", "_ms")) and "integer" in schema.get("type", ()):
            assert f"Unit: {at[-2:]}" in schema["description"], at


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CAPTURES)
def test_reports_and_findings_conform_to_their_schemas(name: str) -> None:
    report = json.loads(summary_json(kanalyze.report(path(name))))
    assert violations("report", report) == []
    assert [
        violation for finding in report["findings"] for violation in violations("finding", finding)
    ] == []
    assert bool(report["findings"]) >= ("fault" in truth(name))


def test_unknown_and_missing_fields_are_violations() -> None:
    report = sample("tls")
    assert violations("report", report) == []
    assert violations("report", {**report, "new": 1}) != []
    assert violations("report", {**report, "totals": {**report["totals"], "new": 1}}) != []
    report["quality"].pop("packets")
    assert len(violations("report", report)) == 1


def test_every_condition_of_a_filter_is_described() -> None:
    conditions = make_filter(
        api=["Fetch"],
        client_id=["a*"],
        principal=["a*"],
        client_ip=["10.0.0.0/8"],
        broker=["10.0.0.1:9092"],
        port=[9092],
        client_app=["a*"],
        zone=["east"],
        names=AddressNames(),
        topic=["t"],
        partition=["t-1"],
        group=["g"],
        connection=["10.0.0.1:5>10.0.0.2:9092"],
        packet=["1"],
        correlation_id=["1"],
        anomaly=["lost_bytes"],
        status=["error"],
        error=["NOT_COORDINATOR"],
        errors=True,
        slower_than="5ms",
        since="2026-01-01T00:00:00Z",
        until="2026-01-02T00:00:00Z",
    ).conditions
    assert conditions.keys() == FILTER["properties"].keys() - {"host", "filter"}
    assert list(Draft202012Validator(FILTER).iter_errors(conditions)) == []


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CAPTURES)
def test_lines_of_commands_conform_to_the_schemas_of_their_tables(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = 0
    for table, more in (*((table_name, ()) for table_name in ALWAYS), ("records", ("--values",))):
        assert main([table, str(path(name)), "--format", "jsonl", *more]) == 0
        for line in capsys.readouterr().out.splitlines():
            assert violations(table, json.loads(line)) == []
            lines += 1
    assert lines


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CAPTURES)
def test_lines_of_every_sql_table_conform_to_their_schemas(name: str) -> None:
    tables_with_lines = set()
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([str(path(name))]), TABLES)
        for table in SQL_TABLES:
            with database.answer_file(f"FROM {table}", {}, "jsonl") as file:
                for line in file.readlines():
                    assert violations(table, json.loads(line)) == []
                    tables_with_lines.add(table)
    assert {"connections", "capture_quality"} <= tables_with_lines
    assert tables_with_lines >= SQL_TABLES.keys() or name != "basics"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("waits", "basics"),
        pytest.param("errors", "waits", marks=pytest.mark.long),
        pytest.param("basics", "snaplen", marks=pytest.mark.long),
    ],
)
def test_comparisons_of_captures_and_reports_conform_to_their_schema(a: str, b: str) -> None:
    for sides in ((path(a), path(b)), (sample(a), sample(b)), (path(a), sample(b))):
        comparison = json.loads(summary_json(kanalyze.compare(*sides, at_least=1.01, least_ms=0)))
        assert violations("compare", comparison) == []
        assert comparison["new"]
        assert comparison["may_be_chance"] or comparison["slower"] or comparison["too_few"]
