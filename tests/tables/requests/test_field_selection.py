"""The fields that rows need are selected by rules, in messages that nobody described by hand."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.kafka.codec.compiler import compile_decoder
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.tables.requests.field_selection import field_roles, projection_of
from kanalyze.tables.requests.summaries import (
    FIELD_NUMBERS,
    BodyWalk,
    ExchangeSummary,
    PartitionColumns,
)
from kanalyze.tables.requests.topics import TopicTable
from tests.support.cases import for_each
from tests.support.messages import Generator, Writer

if TYPE_CHECKING:
    from kanalyze.kafka.schema.schema_ast import MessageSpec

CATALOG = Catalog()


def codes_in(value: object) -> list[int]:
    """Return all error codes other than 0 in a message, in wire order."""
    if isinstance(value, list):
        return [code for item in value for code in codes_in(item)]
    if not isinstance(value, dict):
        return []
    found = []
    for name, item in value.items():
        if name.lower().endswith("errorcode") and isinstance(item, int) and item:
            found.append(item)
        found += codes_in(item)
    return found


def summary_of(
    message: MessageSpec, version: int, values: dict[str, Any], *, is_request: bool
) -> ExchangeSummary:
    """Return the summary that a walk makes of a message with these values."""
    decode = compile_decoder(message, version, projection_of(message))
    body = Writer(message, version).write(values)
    _, end = decode(body, 0)
    assert end == len(body)
    level = field_roles(message, projection_of(message))
    topics = TopicTable()
    found = ExchangeSummary(topics)
    walk = BodyWalk(level, topics, is_request=is_request)
    walk.read(decode.take(None), found, PartitionColumns(topics), PartitionColumns(topics))
    return found


@for_each("api", CATALOG.apis)
def test_every_error_code_of_every_response_is_found_in_its_order(api) -> None:  # type: ignore[no-untyped-def]
    message = CATALOG.message(api.key, "response")
    for version in {api.versions.lowest, api.versions.highest}:
        noise = random.Random(api.key)
        for _ in range(10):
            values = Generator(message, version, noise).values()
            found = summary_of(message, version, values, is_request=False)
            assert [code for *_, code in found.errors] == codes_in(values)


def test_an_error_code_has_the_topic_and_partition_of_its_outer_structs() -> None:
    message = CATALOG.message(0, "response")
    values = {
        "responses": [
            {
                "name": "orders",
                "partitionResponses": [
                    {"index": 3, "errorCode": 6, "baseOffset": 0, "logAppendTimeMs": -1}
                ],
            }
        ],
        "throttleTimeMs": 5,
    }
    found = summary_of(message, 2, values, is_request=False)
    assert found.errors == [("orders", bytes(16), 3, 6)]


@pytest.mark.parametrize(
    ("key", "kind", "ids"),
    [
        (11, "request", {"group_id", "member_id", "rebalance_timeout_ms", "session_timeout_ms"}),
        (11, "response", {"member_id", "throttle_time_ms"}),
        (12, "request", {"group_id", "member_id"}),
        (22, "request", {"transactional_id"}),
        (68, "request", {"group_id", "member_id", "rack_id", "rebalance_timeout_ms"}),
    ],
)
def test_ids_are_found_by_their_entity_type_or_name(key: int, kind: str, ids: set[str]) -> None:
    message = CATALOG.message(key, kind)  # type: ignore[arg-type]
    level = field_roles(message, projection_of(message))
    assert {role for role, _ in level.fields if role in FIELD_NUMBERS} == ids


def test_no_secret_is_ever_requested() -> None:
    for api in CATALOG.apis:
        for kind in ("request", "response"):
            paths = projection_of(CATALOG.message(api.key, kind)).paths  # type: ignore[arg-type]
            assert not [
                path for path in paths if "Auth" in path or "Hmac" in path or "Salt" in path
            ]


WITH_NAMES = [
    (3, "response"),
    (4, "request"),
    (6, "request"),
    (19, "response"),
    (20, "response"),
    (69, "response"),
    (75, "response"),
    (77, "response"),
]


@pytest.mark.parametrize(("key", "kind"), WITH_NAMES)
def test_names_are_learned_from_every_struct_with_both_name_and_id(key: int, kind: str) -> None:
    message = CATALOG.message(key, kind)  # type: ignore[arg-type]
    version = CATALOG.api(key).versions.highest  # type: ignore[union-attr]
    assert field_roles(message, projection_of(message)).finds_names
    names: list[tuple[bytes, str]] = []
    for seed in range(20):
        values = Generator(message, version, random.Random(seed)).values()
        names += summary_of(message, version, values, is_request=kind == "request").names
    assert names
    assert all(name and topic_id != bytes(16) for topic_id, name in names)


def test_messages_with_only_a_name_or_only_an_id_give_no_names() -> None:
    for key in (0, 1, 8, 9):
        for kind in ("request", "response"):
            message = CATALOG.message(key, kind)  # type: ignore[arg-type]
            assert not field_roles(message, projection_of(message)).finds_names
