from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.statistics.bounded_counters import BoundedCounters, SmallestTexts, bounded_text


@dataclass
class Count:
    value: int = 0

    def merge(self, other: Count) -> None:
        self.value += other.value


def counts_of(keys, limit: int) -> BoundedCounters[Count]:
    counts = BoundedCounters(Count, limit)
    for key in keys:
        counts.of((key,)).value += 1
    return counts


def plain(counts: BoundedCounters[Count]) -> dict:
    return {key: item.value for key, item in counts}


KEYS = st.lists(st.sampled_from("abcdef"), max_size=20)


@given(KEYS, KEYS)
def test_below_the_limit_merging_equals_counting_everything(one, two):
    merged = counts_of(one, 6)
    merged.merge(counts_of(two, 6))
    assert plain(merged) == plain(counts_of(one + two, 6))
    assert merged.others is None


@given(KEYS, KEYS)
def test_beyond_the_limit_nothing_is_lost(one, two):
    merged = counts_of(one, 2)
    merged.merge(counts_of(two, 2))
    assert sum(item.value for item in merged.sums()) == len(one + two)
    assert len(merged) <= 2


def test_keys_beyond_the_limit_share_one_sum():
    counts = counts_of("abcbca", 1)
    assert plain(counts) == {("a",): 2}
    assert counts.others == Count(4)


def test_a_merge_shares_nothing_with_the_other():
    one, two = counts_of("a", 9), counts_of("b", 9)
    one.merge(two)
    one.of(("b",)).value += 5
    assert plain(two) == {("b",): 1}


def test_long_texts_of_one_key_are_shortened_and_still_one_key():
    long = "x" * 100_000
    counts = BoundedCounters(Count, 9)
    counts.of((long, 1)).value += 1
    counts.of((long, 1)).value += 1
    ((key, count),) = list(counts)
    assert count.value == 2
    assert len(str(key[0])) < 300


def test_a_shortened_text_says_how_long_it_was():
    assert bounded_text("y" * 300).endswith("y... (300 characters)")
    assert bounded_text("y" * 256) == "y" * 256


@given(st.lists(st.lists(st.sampled_from("abcdefgh"))), st.randoms(use_true_random=False))
def test_the_smallest_texts_do_not_depend_on_the_order_of_parts(parts, dice):
    whole = SmallestTexts(3)
    for part in parts:
        for text in part:
            whole.add(text)
    shuffled = list(parts)
    dice.shuffle(shuffled)
    merged = SmallestTexts(3)
    for part in shuffled:
        piece = SmallestTexts(3)
        for text in part:
            piece.add(text)
        merged.merge(piece)
    assert (merged.to_list(), merged.more) == (whole.to_list(), whole.more)
    different = sorted({text for part in parts for text in part})
    assert (whole.to_list(), whole.more) == (different[:3], len(different) > 3)
