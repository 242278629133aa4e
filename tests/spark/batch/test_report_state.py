from __future__ import annotations

import contextlib
import functools
import json
import random
from typing import Any

import pytest

from kanalyze.spark.batch import report_state
from kanalyze.spark.batch.report_state import (
    ReportStateError,
    load_quality,
    load_statistics,
    save_quality,
    save_statistics,
)
from kanalyze.statistics.summary import Statistics
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import analysis
from tests.support.rows import START_NS, row

NAMES = ("codecs", "errors", "groups", "old-0-8-2-2", "tls")


def added(name: str) -> tuple[Statistics, CaptureQuality]:
    rows, quality = analysis(name)
    statistics = Statistics()
    statistics.add(rows)
    return statistics, quality


@functools.cache
def texts(name: str) -> tuple[str, str]:
    """Both as JSON."""
    statistics, quality = added(name)
    return json.dumps(save_statistics(statistics)), json.dumps(save_quality(quality))


def through_json(plain: Any) -> Any:
    return json.loads(json.dumps(plain))


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_the_same_again(name):
    statistics, quality = added(name)
    again = load_statistics(through_json(save_statistics(statistics)))
    quality_again = load_quality(through_json(save_quality(quality)))
    assert again.summary(quality_again) == statistics.summary(quality)
    assert vars(quality_again).keys() == vars(quality).keys()


def test_sums_go_on():
    one, of_one = added("codecs")
    other, of_other = added("errors")
    kept = load_statistics(through_json(save_statistics(one)))
    kept_quality = load_quality(through_json(save_quality(of_one)))
    kept.merge(other)
    kept_quality.merge(of_other)
    whole, quality = added("codecs")
    whole.merge(other)
    merged = CaptureQuality()
    merged.merge(quality)
    merged.merge(of_other)
    assert kept.summary(kept_quality) == whole.summary(merged)


def test_many_rows_and_names_that_are_no_text_of_any_encoding():
    draw = random.Random(5)
    statistics = Statistics()
    statistics.add(
        row(
            capture="\udcff.pcap",
            client_id=f"client-{draw.randrange(300)}\ud800",
            latency_ns=draw.randrange(1, 10**10),
            request_start_ns=START_NS + draw.randrange(10**12),
        )
        for _ in range(5000)
    )
    again = load_statistics(through_json(save_statistics(statistics)))
    assert again.summary(CaptureQuality()) == statistics.summary(CaptureQuality())


def test_more_keys_than_stand_alone(monkeypatch):
    monkeypatch.setattr(report_state, "KEY_LIMIT", 20)
    statistics = Statistics(key_limit=20)
    statistics.add(row(client_id=f"client-{number}") for number in range(50))
    again = load_statistics(through_json(save_statistics(statistics)))
    summary = again.summary(CaptureQuality())
    assert summary["limited"] == ["clients"]
    assert summary == statistics.summary(CaptureQuality())


def changed(plain: Any, draw: random.Random) -> Any:
    """Return plain values, of which one is of another type, more, or less."""
    if isinstance(plain, list) and plain and draw.random() < 0.9:
        at = draw.randrange(len(plain))
        return [*plain[:at], changed(plain[at], draw), *plain[at + 1 :]]
    if isinstance(plain, dict) and plain and draw.random() < 0.9:
        name = draw.choice(sorted(plain))
        return {**plain, name: changed(plain[name], draw)}
    return draw.choice([None, "x", -1, 1 << 70, 1.5, [], {}, [[]], ["x", "x"], True])


@pytest.mark.parametrize("seed", range(300))
def test_what_is_no_sums_is_refused_or_sums_of_something(seed):
    draw = random.Random(seed)
    plain, plain_of_quality = map(json.loads, texts("codecs"))
    with contextlib.suppress(ReportStateError):
        quality = load_quality(changed(plain_of_quality, draw))
        assert (
            load_statistics(changed(plain, draw)).summary(quality)["quality"] == quality.to_dict()
        )


@pytest.mark.parametrize("plain", [None, 1, [], [1], "x", {}])
def test_what_is_something_else_is_refused(plain):
    with pytest.raises(ReportStateError, match=r"^the state of the report is damaged$"):
        load_statistics(plain)
    with pytest.raises(ReportStateError):
        load_quality(plain)
