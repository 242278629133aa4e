"""Permutations are permutations: no two numbers get the same stand-in."""

from __future__ import annotations

from kanalyze.anonymization.permutations import Permutation, random_bytes
from tests.support.cases import for_each

KEY = b"k" * 32


@for_each("size", [1, 2, 3, 10, 30, 33, 64, 65, 255, 256, 257, 1000])
def test_each_number_has_a_stand_in_of_its_own(size: int) -> None:
    permutation = Permutation(KEY, b"test", size)
    assert sorted(map(permutation.of, range(size))) == list(range(size))


def test_numbers_that_stay_are_the_stand_in_of_no_other() -> None:
    permutation = Permutation(KEY, b"test", 100)
    found = [permutation.of(number, lambda each: each % 7 == 0) for number in range(100)]
    assert sorted(found) == list(range(100))
    assert all(found[number] == number for number in range(0, 100, 7))


def test_keys_and_labels_have_permutations_of_their_own() -> None:
    made = {
        tuple(Permutation(key, label, 50).of(number) for number in range(50))
        for key in (KEY, b"o" * 32)
        for label in (b"a", b"b")
    }
    assert len(made) == 4


def test_large_domains_are_permuted_too() -> None:
    permutation = Permutation(KEY, b"test", 65**300)
    numbers = [*range(20), *(65**300 - each for each in range(1, 20))]
    found = [permutation.of(number) for number in numbers]
    assert len(set(found)) == len(numbers)
    assert all(0 <= each < 65**300 for each in found)


def test_random_bytes_have_the_requested_length() -> None:
    assert [len(random_bytes(KEY, b"x", size)) for size in (0, 1, 32, 33, 1000)] == [
        *(0, 1, 32, 33, 1000)
    ]
    assert random_bytes(KEY, b"x", 1000) != random_bytes(KEY, b"y", 1000)
