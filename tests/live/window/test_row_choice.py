from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.common.bounded_text import bounded_text
from kanalyze.live.window.row_choice import RowChoice, text_matches
from kanalyze.model.tcp import Endpoint
from kanalyze.tables.columns.block import RowBlock
from tests.support.cases import examples
from tests.support.rows import failed, fetch, orphan, partition, row, rows

LONG = "x" * 9000


def chosen(choice: RowChoice, made) -> list[int]:
    return [number for number, is_so in enumerate(choice(RowBlock.of_rows(made))) if is_so]


def names_of(item) -> list[str | None]:
    """Yield each name in a row."""
    broker = str(Endpoint(item.broker_ip, item.broker_port))
    texts = [item.api_name, item.client_id, item.client_ip, item.group_id, item.error_name, broker]
    for part in item.partitions:
        texts += [part.topic, part.topic_id]
    for error in item.errors:
        texts += [error.topic, error.name]
    return texts


@settings(max_examples=examples(40))
@given(
    st.lists(rows(), min_size=1, max_size=12), st.sampled_from(["a", "1", "9092", "o?d*", "*", ""])
)
def test_a_pattern_is_looked_for_in_all_that_a_request_names(made, pattern):
    wanted = [n for n, item in enumerate(made) if text_matches(pattern, names_of(item))]
    assert chosen(RowChoice(naming=pattern), made) == wanted


@settings(max_examples=examples(40))
@given(st.lists(rows(), min_size=1, max_size=12), st.integers(0, 11), st.data())
def test_columns_have_the_values_of_a_row(made, number, data):
    one = made[number % len(made)]
    names = data.draw(
        st.lists(st.sampled_from(["client_id", "client_ip", "broker_port", "api_key", "group_id"]))
    )
    columns = {name: getattr(one, name) for name in names}
    columns = {n: bounded_text(v) if isinstance(v, str) else v for n, v in columns.items()}
    wanted = [
        n for n, item in enumerate(made) if all(getattr(item, x) == getattr(one, x) for x in names)
    ]
    assert chosen(RowChoice(columns), made) == wanted


def test_unknown_waiting_counts_as_not_waited():
    made = [fetch(waited=True), fetch(waited=False), fetch(waited=None)]
    assert chosen(RowChoice({"waited": 0}), made) == [1, 2]
    assert chosen(RowChoice({"waited": 1}), made) == [0]


def test_requests_of_a_topic_name_it_in_a_partition_or_an_error():
    made = [
        row(partitions=[partition("a"), partition("b", 1)]),
        row(partitions=[partition("b")]),
        failed("b", 3, "X", partitions=[]),
        fetch(partitions=[partition(None, topic_id="id")]),
        fetch(partitions=[partition("c", topic_id="id")]),
        row(partitions=[]),
    ]
    assert chosen(RowChoice(topic=("b", None)), made) == [0, 1, 2]
    assert chosen(RowChoice(topic=(None, "id")), made) == [3]


def test_the_values_of_an_error_are_those_of_one_item():
    one = failed("a", 6, "SIX")
    both = one._replace(errors=[*one.errors, *failed("b", 3, "THREE").errors])
    made = [one, both, row()]
    assert chosen(RowChoice(error={"code": 3, "topic": "b"}), made) == [1]
    assert chosen(RowChoice(error={"code": 3, "topic": "a"}), made) == []
    assert chosen(RowChoice(error={"name": "SIX"}), made) == [0, 1]


def test_a_shortened_name_finds_the_long_one():
    made = [row(client_id=LONG), row(client_id="x")]
    assert chosen(RowChoice({"client_id": bounded_text(LONG)}), made) == [0]


def test_responses_alone_are_of_no_client():
    made = [row(client_id=None), orphan()]
    assert chosen(RowChoice({"client_id": None}), made) == [0, 1]
    assert chosen(RowChoice({"client_id": None}, requests_only=True), made) == [0]


@pytest.mark.parametrize(
    ("pattern", "does"), [("[::1]:9092", False), ("::1]:90", True), ("*::1*:9092", True)]
)
def test_a_broker_is_named_by_address_and_port(pattern, does):
    made = [row(broker_ip="::1", broker_port=9092, client_ip="10.0.0.1")]
    assert chosen(RowChoice(naming=pattern), made) == [0] * does
