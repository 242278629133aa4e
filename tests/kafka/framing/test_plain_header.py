"""The position of a body is that of the full reader of headers, or none is returned."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.framing import plain_header
from kanalyze.kafka.framing.headers import parse_request_header, parse_response_header
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.wire import WireError
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

CATALOG = Catalog()
HEADS = [struct.pack(">hh", *each) for each in ((0, 3), (0, 9), (7, 0), (18, 3))]


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def core(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The module: first compiled, then uncompiled."""
    if request.param == "compiled":
        yield plain_header
        return
    with uncompiled() as modules:
        pass
    yield modules["kanalyze.kafka.framing.plain_header"]


@given(st.sampled_from(HEADS), st.integers(-3, 12), st.binary(max_size=12))
def test_a_request_has_the_body_that_its_header_says(core, head, length, rest):
    data = bytes(4) + head + bytes(4) + struct.pack(">h", length) + rest
    version = CATALOG.request_header_version(*struct.unpack(">hh", head))
    body_at = core.plain_body(data, head, version)
    try:
        expected = parse_request_header(data, 4, len(data), CATALOG).body
    except WireError:
        assert body_at == 0
        return
    # For a header with tags, no position may be returned.
    assert body_at in ((0, expected) if version == 2 else (expected,))


@given(st.binary(max_size=12), st.integers(0, 1))
def test_a_response_has_the_body_that_its_header_says(core, data, version):
    body_at = core.plain_body(data, b"", version)
    try:
        expected = parse_response_header(data, 4, len(data), version).body
    except WireError:
        assert body_at == 0
        return
    assert body_at == (expected if version == 0 or data[8] == 0 else 0)


def test_an_empty_tag_section_is_skipped(core):
    data = bytes(4) + HEADS[1] + bytes(4) + b"\0\3app"
    assert core.plain_body(data + b"\0body", HEADS[1], 2) == 4 + 10 + 3 + 1
    assert core.plain_body(data + b"\1body", HEADS[1], 2) == 0
    assert core.plain_body(data, HEADS[1], 2) == 0


def test_a_request_of_another_api_has_no_position(core):
    data = bytes(4) + HEADS[0] + bytes(4) + b"\xff\xff"
    assert core.plain_body(data, HEADS[0], 1) == 14
    assert core.plain_body(data, HEADS[1], 1) == 0
