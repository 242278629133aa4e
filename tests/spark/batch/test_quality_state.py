from __future__ import annotations

import contextlib
import functools
import json
import random
from typing import Any

import pytest

from kanalyze.spark.batch.quality_state import QualityStateError, load_quality, save_quality
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import analysis
from tests.support.cases import for_each

NAMES = ("codecs", "errors", "groups", "old-0-8-2-2", "tls")


@functools.cache
def text(name: str) -> str:
    """The quality of a capture as JSON."""
    return json.dumps(save_quality(analysis(name)[1]))


@pytest.mark.parametrize("name", NAMES)
def test_quality_is_the_same_again(name: str) -> None:
    quality = analysis(name)[1]
    again = load_quality(json.loads(text(name)))
    assert again.to_dict() == quality.to_dict()
    assert again.extent() == quality.extent()
    assert vars(again).keys() == vars(quality).keys()


def test_quality_goes_on() -> None:
    kept = load_quality(json.loads(text("codecs")))
    whole = CaptureQuality()
    whole.merge(analysis("codecs")[1])
    for quality in (kept, whole):
        quality.merge(analysis("errors")[1])
    assert kept.to_dict() == whole.to_dict()


def test_names_that_are_no_text_of_any_encoding() -> None:
    quality = CaptureQuality(["\udcff.pcap"])
    again = load_quality(json.loads(json.dumps(save_quality(quality))))
    assert again.captures == quality.captures


def changed(plain: Any, draw: random.Random) -> Any:
    """Return plain values, of which one is of another type, more, or less."""
    if isinstance(plain, list) and plain and draw.random() < 0.9:
        at = draw.randrange(len(plain))
        return [*plain[:at], changed(plain[at], draw), *plain[at + 1 :]]
    return draw.choice([None, "x", -1, 1 << 70, 1.5, [], {}, [[]], ["x", "x"], True])


@for_each("seed", range(300))
def test_what_is_no_quality_is_refused_or_quality_of_something(seed: int) -> None:
    plain = changed(json.loads(text("codecs")), random.Random(seed))
    with contextlib.suppress(QualityStateError):
        assert json.dumps(load_quality(plain).to_dict())


@pytest.mark.parametrize("plain", [None, 1, [], [1], "x", {}])
def test_what_is_something_else_is_refused(plain: Any) -> None:
    with pytest.raises(QualityStateError, match=r"^the quality of the captures is damaged$"):
        load_quality(plain)
