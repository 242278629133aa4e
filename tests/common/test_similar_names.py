from __future__ import annotations

from kanalyze.common.similar_names import known_or_similar, similar

NAMES = ["Produce", "Fetch", "ListOffsets"]


def test_similar_names_are_suggested_in_their_own_case() -> None:
    assert similar("produc", NAMES) == "; did you mean Produce?"
    assert similar("LISTOFFSET", NAMES) == "; did you mean ListOffsets?"
    assert similar("xyz", NAMES) == ""


def test_at_most_three_names_are_suggested_the_nearest_first() -> None:
    names = ["client_port", "client_ip", "client_id", "client_software_name", "client_ids"]
    assert similar("client_id", names) == "; did you mean client_id, client_ids, client_ip?"


def test_all_names_are_listed_if_none_is_similar() -> None:
    assert known_or_similar("xyz", NAMES) == "; there are Produce, Fetch, ListOffsets"
    assert known_or_similar("fetsh", NAMES) == "; did you mean Fetch?"
