from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.framing.headers import (
    RequestHeader,
    ResponseHeader,
    parse_request_header,
    parse_response_header,
)
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.wire import Malformed, Truncated, WireError
from tests.support.messages import Generator, Writer

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Kind


def head(key: int, version: int, client_id: bytes | None, tags: bytes = b"") -> bytes:
    length = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, 5, length) + (client_id or b"") + tags


def test_version_0_has_no_client_id(catalog: Catalog) -> None:
    header = parse_request_header(struct.pack(">hhi", 7, 0, -9), 0, 8, catalog)
    assert header == RequestHeader(7, 0, -9, None, 8)


def test_version_1_ends_with_the_client_id(catalog: Catalog) -> None:
    view = b"size" + head(1, 4, b"me") + b"body"
    assert parse_request_header(view, 4, len(view), catalog) == RequestHeader(1, 4, 5, "me", 16)


def test_version_2_ends_with_tags(catalog: Catalog) -> None:
    plain = head(1, 12, b"me", b"\0")
    tagged = head(1, 12, b"me", b"\x01\x07\x03abc")
    assert parse_request_header(plain, 0, len(plain), catalog).body == len(plain)
    assert parse_request_header(tagged, 0, len(tagged), catalog).body == len(tagged)


def test_a_client_id_may_be_null_empty_or_no_text(catalog: Catalog) -> None:
    for written, expected in ((None, None), (b"", ""), (b"a\xff", "a\\xff"), ("é".encode(), "é")):
        view = head(1, 4, written)
        assert parse_request_header(view, 0, len(view), catalog).client_id == expected


def test_a_client_id_below_null_is_malformed(catalog: Catalog) -> None:
    view = struct.pack(">hhih", 1, 4, 5, -2) + bytes(100)
    with pytest.raises(Malformed):
        parse_request_header(view, 0, len(view), catalog)


def test_a_request_header_that_is_cut_is_truncated(catalog: Catalog) -> None:
    view = head(1, 12, b"client", b"\x01\x07\x03abc")
    for limit in range(len(view)):
        with pytest.raises(Truncated):
            parse_request_header(view, 0, limit, catalog)
        with pytest.raises(Truncated):
            parse_request_header(view[:limit], 0, limit, catalog)


def test_a_response_header_has_tags_in_version_1_only() -> None:
    view = struct.pack(">i", 77) + b"\x01\x00\x01x"
    assert parse_response_header(view, 0, len(view), 0) == ResponseHeader(77, 4)
    assert parse_response_header(view, 0, len(view), 1) == ResponseHeader(77, 8)


def test_a_response_header_that_is_cut_is_truncated() -> None:
    view = struct.pack(">i", 77) + b"\x01\x00\x01x"
    for limit in range(len(view)):
        with pytest.raises(Truncated):
            parse_response_header(view, 0, limit, 1)


@pytest.mark.parametrize("kind", ["request", "response"])
def test_headers_are_read_as_their_definitions_say(catalog: Catalog, kind: Kind) -> None:
    message = catalog.header(kind)
    apis = {("request", 0): (7, 0), ("request", 1): (1, 4), ("request", 2): (1, 12)}
    for version in message.valid_versions.each():
        for seed in range(30):
            values = Generator(message, version, Random(seed)).values()
            key, api_version = apis.get((kind, version), (0, 0))
            if kind == "request":
                values |= {"requestApiKey": key, "requestApiVersion": api_version}
            view = Writer(message, version).write(values)
            if kind == "request":
                request = parse_request_header(view, 0, len(view), catalog)
                assert request.client_id == values.get("clientId")
                found = (request.correlation_id, request.body)
            else:
                found = parse_response_header(view, 0, len(view), version)
            assert found == (values["correlationId"], len(view))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_header_or_a_wire_error(view: bytes) -> None:
    catalog = Catalog()
    try:
        header = parse_request_header(view, 0, len(view), catalog)
    except WireError:
        return
    assert 8 <= header.body <= len(view)
