from __future__ import annotations

import contextlib
import functools
import json
import random
from typing import Any

import pytest

from kanalyze.batch.checkpoint import (
    _NAMES_ONCE,
    _NO_COUNTS,
    QualityStateError,
    load_quality,
    save_quality,
)
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import analysis
from tests.support.cases import for_each

NAMES = ("codecs", "errors", "groups", "old-0-8-2-2", "tls")


@functools.cache
def text(name: str) -> str:
    """The quality of a capture as JSON."""
    return json.dumps(save_quality(analysis(name)[1]))


@pytest.mark.parametrize("name", NAMES)
def test_quality_is_loaded_unchanged(name: str) -> None:
    quality = analysis(name)[1]
    loaded = load_quality(json.loads(text(name)))
    assert loaded.to_dict() == quality.to_dict()
    assert loaded.extent() == quality.extent()
    assert vars(loaded).keys() == vars(quality).keys()


def test_the_pairs_that_earlier_versions_saved_are_loaded() -> None:
    plain = {
        name: [list(pair) for pair in value.items()] if isinstance(value, dict) else value
        for name, value in json.loads(text("groups")).items()
    }
    loaded = load_quality({**plain, "lost_bytes": 0, "snapped_bytes": 0})
    assert loaded.to_dict() == analysis("groups")[1].to_dict()


def test_loaded_quality_can_be_merged() -> None:
    loaded = load_quality(json.loads(text("codecs")))
    whole = CaptureQuality()
    whole.merge(analysis("codecs")[1])
    for quality in (loaded, whole):
        quality.merge(analysis("errors")[1])
    assert loaded.to_dict() == whole.to_dict()


def test_names_of_undecodable_bytes_are_kept() -> None:
    quality = CaptureQuality(["\udcff.pcap"])
    loaded = load_quality(json.loads(json.dumps(save_quality(quality))))
    assert loaded.captures == quality.captures


COUNTS_ONCE = tuple(name for name in _NAMES_ONCE if name not in _NO_COUNTS)
NEWER = vars(CaptureQuality()).keys() - set(_NAMES_ONCE)
"""Counts that lists without names do not have."""


@pytest.mark.parametrize("name", sorted(NEWER))
def test_quality_of_a_checkpoint_without_a_newer_counter_is_loaded(name: str) -> None:
    quality = analysis("tls")[1]
    plain = json.loads(text("tls"))
    del plain[name]
    loaded = load_quality(plain)
    unset = vars(CaptureQuality())[name]
    assert vars(loaded)[name] == unset
    vars(loaded)[name] = vars(quality)[name]
    assert loaded.to_dict() == quality.to_dict()


def test_a_checkpoint_without_a_count_that_every_version_has_is_refused() -> None:
    for name in COUNTS_ONCE:
        plain = json.loads(text("tls"))
        del plain[name]
        with pytest.raises(QualityStateError):
            load_quality(plain)
    once = [json.loads(text("tls")).get(name, 0) for name in _NAMES_ONCE]
    for wrong in (once[:-1], [*once, []]):
        with pytest.raises(QualityStateError):
            load_quality(wrong)


def changed(plain: Any, noise: random.Random) -> Any:
    """Return plain values, one of which is replaced by another, often of another type."""
    if isinstance(plain, dict) and plain and noise.random() < 0.9:
        name = noise.choice(list(plain))
        return {**plain, name: changed(plain[name], noise)}
    if isinstance(plain, list) and plain and noise.random() < 0.9:
        at = noise.randrange(len(plain))
        return [*plain[:at], changed(plain[at], noise), *plain[at + 1 :]]
    return noise.choice([None, "x", -1, 1 << 70, 1.5, [], {}, [[]], ["x", "x"], True])


@for_each("seed", range(300))
def test_damaged_quality_is_refused_or_loaded(seed: int) -> None:
    plain = changed(json.loads(text("codecs")), random.Random(seed))
    with contextlib.suppress(QualityStateError):
        assert json.dumps(load_quality(plain).to_dict())


def test_quality_that_earlier_versions_saved_is_loaded() -> None:
    """They had a list without names, of the counts that there were; later ones may have more."""
    plain = json.loads(text("errors"))
    assert tuple(name for name in vars(CaptureQuality()) if name not in NEWER) == COUNTS_ONCE
    assert {"tls_outcomes", "untimed_packets", "record_batches", "checked_batches"} <= NEWER
    unset = vars(CaptureQuality())
    expected = load_quality(plain)
    vars(expected).update({name: unset[name] for name in NEWER})
    once = load_quality([plain.get(name, 7) for name in _NAMES_ONCE])
    assert once.to_dict() == expected.to_dict()
    fewer = {name: value for name, value in plain.items() if name in _NAMES_ONCE}
    assert load_quality(fewer).to_dict() == expected.to_dict()


@pytest.mark.parametrize("plain", [None, 1, [], [1], "x", {}, {"packets": 1}, {"unknown": 1}])
def test_a_value_that_is_no_quality_is_refused(plain: Any) -> None:
    with pytest.raises(QualityStateError, match=r"^the quality of the captures is damaged$"):
        load_quality(plain)
