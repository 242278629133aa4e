"""What a query needs to find anything: never more than it really needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.api.tables import fill
from kanalyze.queries.conditions import conditions_of, promising
from kanalyze.queries.database import Database
from kanalyze.queries.files import built_in
from kanalyze.queries.findings import findings_of, kind_of_finding
from kanalyze.runtime.pipeline import Analysis
from tests.support import rows as made
from tests.support.captures import CHOSEN, TROUBLED, WHOLE, often, path
from tests.support.cases import examples
from tests.support.filled import filled
from tests.support.findings import kinds_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.queries.files import Query

LIMITS = {"most_keys": 10_000, "most": 10}
TABLES = ("groups", "metadata", "changes", "capture_quality")


def asked(factors: Mapping[str, float]) -> list[tuple[Query, dict[str, Any]]]:
    """Return all queries with conditions, with their thresholds multiplied by some factors."""
    tables = [(query, dict(LIMITS)) for query in built_in("report").values()]
    findings = [
        (kind.query, {name: value * factors[name] for name, value in kind.thresholds.items()})
        for kind in kinds_of()
    ]
    return [(query, values) for query, values in [*tables, *findings] if conditions_of(query)]


THRESHOLDS = sorted({name for kind in kinds_of() for name in kind.thresholds})
FACTORS = st.fixed_dictionaries(
    {name: st.sampled_from([0, 0.01, 0.5, 1, 2]) for name in THRESHOLDS}
)


@pytest.mark.few(8)
@pytest.mark.parametrize("name", often([*WHOLE, *TROUBLED], {*CHOSEN, *TROUBLED[::4]}))
def test_a_query_that_finds_anything_is_run(name: str) -> None:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([str(path(name))]), TABLES)

        @settings(max_examples=examples(10))
        @given(FACTORS)
        def is_run(factors: Mapping[str, float]) -> None:
            queries = asked(factors)
            run = promising(database, queries)
            for query, values in queries:
                if query not in run:
                    assert query.name == "hidden_records" or not database.answer(query, values)

        is_run()


def test_a_broker_above_a_norm_is_looked_for_where_the_norm_is_below_the_least_time() -> None:
    (kind,) = kinds_of("broker_slowed")
    values = kind.thresholds | {"least_ms": 1e4, "memory_norm_ms": 1e-3, "disk_norm_ms": 2e4}
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        fill(database, Analysis([str(path("basics"))]), TABLES)
        assert database.answer(kind.query, values)
        assert promising(database, [(kind.query, values)]) == {kind.query}


def test_without_rows_only_totals_are_counted() -> None:
    with filled({}) as database:
        kinds = kinds_of()
        queries = [(query, LIMITS) for query in built_in("report").values()]
        queries += [(kind.query, kind.thresholds) for kind in kinds]
        run = {query.name for query in promising(database, queries)}
    assert run == {"totals"}


def test_a_query_is_run_if_all_of_its_conditions_hold() -> None:
    kind = kinds_of("too_large")[0]

    def found(*conditions: str) -> bool:
        lines = "\n".join(f"only if {condition}" for condition in conditions)
        query = kind.query._replace(description=lines)
        return query in promising(database, [(query, {"least_requests": 2})])

    with filled({"requests": made.plain_traffic(3)}) as database:
        assert found()
        assert found("requests: count(*) > $least_requests")
        assert not found("requests: count(*) > $least_requests + 1")
        assert not found("requests: count(*) > 2", "requests: max(NULL) > 0")
        assert not found("records: count(*) >= 0")  # there is no such table
        assert found("requests: count(*) > 2", "errors: count(*) = 0")
        assert not found("requests: count(*) > 2", "errors: count(*) > 0")
        assert not found("requests: count(*) < 2", "errors: count(*) = 0")


def test_a_condition_that_fails_hides_no_finding() -> None:
    text = "SELECT 'found' AS what, 1 AS weight FROM requests"
    query = built_in("findings")["refused_by_kafka_4"]
    lines = query.description.splitlines()
    others = [line for line in lines if not line.startswith("only if ")]
    description = "\n".join(["only if requests: max(nothing) > 0", *others])
    kind = kind_of_finding(query._replace(description=description))
    wrong = kind._replace(query=kind.query._replace(sql=text, parameters=()))
    with filled({"requests": made.plain_traffic(1)}) as database:
        assert [finding.what for finding in findings_of(database, [wrong])] == ["found"]
