from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.window.keyed_sums import KeyedSums


@dataclass
class Count:
    value: int = 0

    def merge(self, other: Count) -> None:
        self.value += other.value


def counts_of(keys, limit: int) -> KeyedSums[Count]:
    counts = KeyedSums(Count, limit)
    for key in keys:
        counts.of((key,)).value += 1
    return counts


def plain(counts: KeyedSums[Count]) -> dict:
    return {key: item.value for key, item in counts}


KEYS = st.lists(st.sampled_from("abcdef"), max_size=20)


@given(KEYS, KEYS)
def test_below_the_limit_merging_equals_counting_everything(one, two):
    merged = counts_of(one, 6)
    merged.merge(counts_of(two, 6))
    assert plain(merged) == plain(counts_of(one + two, 6))
    assert merged.others is None


@given(KEYS, KEYS)
def test_nothing_is_lost_beyond_the_limit(one, two):
    merged = counts_of(one, 2)
    merged.merge(counts_of(two, 2))
    assert sum(item.value for item in merged.sums()) == len(one + two)
    assert len(merged) <= 2


def test_keys_beyond_the_limit_share_one_sum():
    counts = counts_of("abcbca", 1)
    assert plain(counts) == {("a",): 2}
    assert counts.others == Count(4)


def test_merged_sums_are_independent_of_the_other():
    one, two = counts_of("a", 9), counts_of("b", 9)
    one.merge(two)
    one.of(("b",)).value += 5
    assert plain(two) == {("b",): 1}


def test_long_texts_in_a_key_are_shortened():
    long_text = "x" * 100_000
    counts = KeyedSums(Count, 9)
    counts.of((long_text, 1)).value += 1
    counts.of((long_text, 1)).value += 1
    ((key, count),) = list(counts)
    assert count.value == 2
    assert len(str(key[0])) < 300
