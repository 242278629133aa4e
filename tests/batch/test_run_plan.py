from __future__ import annotations

import json
from typing import Any

import pytest

from kanalyze.batch.run_plan import captures_text, options_of
from kanalyze.spark.source.readers import make_plan


def options(**given: str) -> dict[str, Any]:
    found = options_of(make_plan(given))
    # Options are saved as JSON, and compared after they are loaded.
    assert json.loads(json.dumps(found)) == found
    return found


def test_options_that_change_rows_are_distinguished():
    plain = options()
    others = [
        options(api="Fetch"),
        options(api="Fetch,Produce"),
        options(errors="true"),
        options(slowerThan="10ms"),
        options(broker="10.0.0.1:9092"),
        options(port="9092"),
        options(maxMemory="2G"),
    ]
    for index, other in enumerate(others):
        assert other not in [plain, *others[:index]]


def test_options_that_do_not_change_rows_are_ignored():
    assert options(errors="false") == options()
    assert options(numPartitions="3", mode="quarantine") == options()


@pytest.mark.parametrize(("count", "text"), [(1, "1 capture"), (2, "2 captures")])
def test_captures_are_counted(count, text):
    assert captures_text(count) == text
