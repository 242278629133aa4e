"""The most frequent keys: those of plain counting, and within their bounds if there are many."""

from __future__ import annotations

import json
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.spec.rows.records import RECORD_COLUMNS
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.records.hot_keys import HotKeys
from tests.support.captures import path

NOTHING = dict.fromkeys(column.name for column in RECORD_COLUMNS)


def block_of(keys: list[str | None], **changes: Any) -> RowBlock:
    columns = {"topic": "orders", "api_name": "Produce", "key_encoding": "text", **changes}
    rows = [
        SimpleNamespace(**{**NOTHING, "headers": (), "header_names": (), **columns, "key": key})
        for key in keys
    ]
    return RowBlock.of_rows(rows, RECORD_COLUMNS)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["codecs", "basics", "transactions"])
def test_keys_of_a_capture_are_those_of_its_records(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["records", str(path(name)), "--values", "--top-keys", "2", "--format", "jsonl"]
    assert main(words) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    counts: Counter[Any] = Counter()
    of_topics: Counter[Any] = Counter()
    for row in kanalyze.records(path(name), values=True):
        if row.problem is None and not row.is_control:
            counts[row.topic, row.api_name, row.key, row.key_encoding] += 1
            of_topics[row.topic, row.api_name] += 1
    assert {(line["topic"], line["api_name"]) for line in found} == {*of_topics}
    for topic in of_topics:
        lines = [line for line in found if (line["topic"], line["api_name"]) == topic]
        highest = sorted((count for key, count in counts.items() if key[:2] == topic), reverse=True)
        assert [line["records"] for line in lines] == highest[:2]
        for line in lines:
            assert (
                line["records"]
                == line["at_most"]
                == counts[*topic, line["key"], line["key_encoding"]]
            )
            assert line["of_topic"] == of_topics[topic]


@pytest.mark.parametrize("seed", range(5))
def test_counts_of_many_keys_are_within_their_bounds(seed: int) -> None:
    dice = random.Random(seed)
    keys, counted = HotKeys(most_kept=20), Counter[str]()
    for _ in range(60):
        some = [f"k{int(dice.paretovariate(0.7))}" for _ in range(100)]
        counted.update(some)
        keys.add(block_of([*some]))
    lines = list(keys.most(5))
    assert any(line.records < line.at_most for line in lines)
    for line in lines:
        assert line.key is not None
        assert line.records <= counted[line.key] <= line.at_most
        assert line.at_most - line.records <= 6000 / 20
    most, times = counted.most_common(1)[0]
    assert times > 6000 / 20
    assert most in {line.key for line in lines}


def test_long_keys_are_told_apart_and_what_is_no_record_is_not_counted() -> None:
    keys = HotKeys()
    keys.add(block_of(["x" * 10_000, "x" * 10_001, "x" * 10_000, None]))
    keys.add(block_of(["marker"], is_control=True))
    keys.add(block_of([None], problem="missing_bytes"))
    lines = list(keys.most(9))
    assert [line.records for line in lines] == [2, 1, 1]
    assert max(len(line.key or "") for line in lines) < 300
    assert lines[0].of_topic == 4


def test_keys_are_shown_only_with_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["records", str(path("codecs")), "--top-keys", "3"]) == 2
    assert "--values" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["codecs", "basics"])
def test_sizes_are_those_of_the_records(name: str) -> None:
    sizes: dict[Any, list[int]] = {}
    for row in kanalyze.records(path(name)):
        if row.problem is None and not row.is_control:
            size = (row.key_bytes or 0) + (row.value_bytes or 0)
            sizes.setdefault((row.topic, row.api_name), []).append(size)
    lines = kanalyze.sql(str(path(name)), "record_sizes").to_pylist()
    assert {(line["topic"], line["api_name"]) for line in lines} == {*sizes}
    for line in lines:
        of_topic = sorted(sizes[line["topic"], line["api_name"]])
        assert (line["records"], line["bytes"]) == (len(of_topic), sum(of_topic))
        assert (line["least"], line["most"]) == (of_topic[0], of_topic[-1])
        for name_of, share in (("p50", 50), ("p90", 90), ("p99", 99)):
            assert line[name_of] == of_topic[-(-len(of_topic) * share // 100) - 1]
