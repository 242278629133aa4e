from __future__ import annotations

import pytest

from kanalyze.api.tables import fill
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.queries.database import Database
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.anomalies import QUALITY, QualityFact
from kanalyze.tables.quality import CaptureQuality, quality_facts
from tests.support.captures import path


def test_each_known_count_is_a_line_and_unknown_counts_are_omitted() -> None:
    quality = CaptureQuality()
    quality.packets = 5
    quality.refused_by = {"10.0.0.2:9092": 2}
    quality.count_anomaly(AnomalyKind.CAPTURE_UNREADABLE, 100, 3)
    facts = list(quality_facts(quality))
    assert QualityFact("packets", None, 5) in facts
    assert QualityFact("refused_by", "10.0.0.2:9092", 2) in facts
    assert QualityFact("anomalies", "capture_unreadable", 3) in facts
    assert "dropped_packets" not in {fact.fact for fact in facts}
    quality.dropped_packets = 0
    assert QualityFact("dropped_packets", None, 0) in quality_facts(quality)


@pytest.mark.parametrize("name", ["snaplen", "errors"])
def test_the_table_matches_the_quality_of_the_run(name: str) -> None:
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        run = Analysis([str(path(name))])
        fill(database, run, [QUALITY])
        lines = database.ask(f"SELECT fact, value FROM {QUALITY} WHERE about IS NULL").to_pylist()
        plain = {line["fact"]: line["value"] for line in lines}
        expected = run.quality.to_dict()
        assert plain == {key: expected[key] for key in plain}
        assert plain["packets"] > 0
        assert plain["snapped_bytes"] == expected["snapped_bytes"]
