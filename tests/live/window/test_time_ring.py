from __future__ import annotations

from collections import Counter

from kanalyze.live.window.time_ring import TimeRing


def ring_at(number: int, length: int = 3) -> TimeRing[Counter[str]]:
    ring: TimeRing[Counter[str]] = TimeRing(Counter, length)
    ring.begin(number)
    return ring


def test_a_step_has_one_item():
    ring = ring_at(10)
    ring.of(10)["a"] += 1
    ring.of(10)["a"] += 1
    assert list(ring.items()) == [Counter(a=2)]


def test_steps_beyond_the_length_are_dropped():
    ring = ring_at(10)
    for number in range(10, 20):
        ring.advance(number)
        ring.of(number)[str(number)] += 1
    assert [next(iter(item)) for item in ring.items()] == ["17", "18", "19"]
    assert (ring.oldest, ring.newest) == (17, 19)


def test_advance_returns_dropped_items_oldest_first():
    ring = ring_at(10)
    for number in (10, 8, 9):
        ring.of(number)[str(number)] += 1
    assert ring.advance(10) == []
    assert ring.advance(12) == [(8, Counter({"8": 1})), (9, Counter({"9": 1}))]
    assert list(ring.items()) == [Counter({"10": 1})]


def test_a_jump_drops_all_steps():
    ring = ring_at(10)
    ring.of(10)["a"] += 1
    ring.advance(10**9)
    assert list(ring.items()) == []


def test_the_newest_step_does_not_go_back():
    ring = ring_at(10)
    ring.advance(9)
    assert ring.newest == 10


def test_the_nearest_step_is_used_for_a_step_that_is_not_kept():
    ring = ring_at(10)
    ring.of(0)["old"] += 1
    ring.of(99)["new"] += 1
    assert ring.at(8) == Counter(old=1)
    assert ring.at(10) == Counter(new=1)
    assert ring.at(9) is None


def test_items_come_in_the_order_of_steps():
    ring = ring_at(10)
    for number in (9, 10, 8):
        ring.of(number)[str(number)] += 1
    assert [next(iter(item)) for item in ring.items()] == ["8", "9", "10"]


def test_begin_drops_everything():
    ring = ring_at(10)
    ring.of(10)["a"] += 1
    ring.begin(3)
    assert list(ring.items()) == []
    assert ring.newest == 3
