"""The text of decoders, where how it is written matters: speed, and no names from outside."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from kanalyze.protocol.compiler import decoder_source
from kanalyze.protocol.projection import Projection
from tests.support.messages import every_message

if TYPE_CHECKING:
    from kanalyze.protocol.catalog import Catalog


def lines(catalog: Catalog, version: int, *paths: str) -> list[str]:
    text = decoder_source(catalog.message(1, "response"), version, Projection.of(*paths))
    return [line.strip() for line in text.splitlines()]


def test_fixed_fields_and_the_length_after_them_are_one_unpack(catalog: Catalog) -> None:
    found = lines(catalog, 11, "ThrottleTimeMs", "ErrorCode", "SessionId")
    unpacks = [line for line in found if "unpack" in line]
    assert re.fullmatch(r"v\d+, v\d+, v\d+, v\d+, = unpack0\(view, pos\)", unpacks[0])


def test_unwanted_text_is_stepped_over_without_being_read(catalog: Catalog) -> None:
    assert not any("str(" in line for line in lines(catalog, 11, "ErrorCode"))


def test_unwanted_arrays_of_fixed_elements_are_one_multiplication(catalog: Catalog) -> None:
    found = lines(catalog, 11, "Responses.Partitions.PartitionIndex")
    assert any(re.fullmatch(r"pos \+= v\d+ \* 16", line) for line in found)


def test_unwanted_fixed_fields_are_one_addition(catalog: Catalog) -> None:
    text = decoder_source(catalog.message(2, "response"), 1, Projection.of())
    assert re.search(r"pos \+= v\d+ \* 22", text)


@pytest.mark.parametrize("projection", [Projection.ALL, Projection.of()])
def test_every_source_uses_known_names_only(catalog: Catalog, projection: Projection) -> None:
    known = re.compile(
        r"v\d+|unpack\d+|pos|base|view|source|limit|_|varint|peek_records|read_raw_records|"
        r"read_tags|read_uuids|skip_tags|check_frame_holds|unpack_from|Truncated|Malformed|"
        r"StructError|IndexError|len|str|bytes|list|range"
    )
    seen = 0
    for message, version in every_message(catalog):
        if version != message.valid_versions.highest:
            continue
        tree = ast.parse(decoder_source(message, version, projection))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert {name for name in names if not known.fullmatch(name)} == set()
        seen += 1
    assert seen == 203
