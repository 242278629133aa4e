"""Topics as numbers: equal names have one number, whatever the order and however many there are."""

from __future__ import annotations

from random import Random

from kanalyze.tables.requests.topics import KeyTable, TopicTable

ENDS = [0, 1, -1, 2**31 - 1, -(2**31), 2**62 - 1, 2**63 - 1]


def test_keys_are_found_by_all_their_numbers_also_after_others_were_removed() -> None:
    rng = Random(1)
    table = KeyTable()
    expected: dict[tuple[int, int, int, int], None] = {}
    for _ in range(20_000):
        key = rng.choice(ENDS), rng.randrange(5), rng.choice(ENDS), rng.randrange(2000)
        if rng.random() < 0.3 and expected:
            gone = rng.choice(list(expected)[:50])
            table.remove(table.find(*gone))
            del expected[gone]
        if key not in expected:
            assert table.find(*key) == -1
            table.add(*key)
            expected[key] = None
    assert list(table) == list(expected)
    assert len(table) == len(expected)
    table.clear()
    assert list(table) == []
    assert table.find(0, 0, 0, 0) == -1


def test_names_and_ids_get_their_numbers_back() -> None:
    topics = TopicTable()
    assert [topics.number_of(name) for name in (None, "", "__cluster_metadata")] == [-1, 0, 1]
    names = [f"topic-{number}" for number in range(10_000)]
    ids = [Random(number).randbytes(16) for number in range(10_000)]
    numbers = [topics.number_of(name) for name in names]
    id_numbers = [topics.number_of_id(topic_id) for topic_id in ids]
    assert len(set(numbers)) == len(set(id_numbers)) == 10_000
    assert [topics.name(number) for number in numbers] == names
    assert [topics.id(number) for number in id_numbers] == ids
    generation = topics.generation
    topics.clear()
    assert topics.generation > generation
    assert topics.number_of("later") == topics.number_of("later") == 2
