"""Bodies that are read within bounds."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.session.message_bodies import RECORD_APIS
from kanalyze.kafka.session.tracker import ConnectionTracker
from tests.support import kafka as k
from tests.support.kafka import string
from tests.support.talk import Talk

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import Struct


@pytest.mark.parametrize("keeps_bytes", [False, True])
def test_a_body_that_is_too_large_to_read_keeps_its_header_times_and_sizes(
    keeps_bytes: bool,
) -> None:
    """Also where bytes are kept, as by `decode`: its values would take 43 times the memory."""
    talk = Talk()
    if keeps_bytes:
        talk = Talk(tracker=ConnectionTracker(talk.reader, talk.catalog, keep=lambda _: True))
    topics = struct.pack(">i", 5_000_000) + string("t" * 2) * 5_000_000
    request = k.request(k.METADATA, 0, 1, topics)
    assert len(request) > 16 << 20
    for at in range(0, len(request), 4 << 20):
        talk.client(request[at : at + (4 << 20)])
    talk.client(k.heartbeat(2)).broker(k.heartbeat_answer(2)).close()
    (large,) = [exchange for exchange in talk.exchanges if exchange.correlation_id == 1]
    assert large.request is not None
    assert (large.request.length, large.request.values) == (len(request), None)
    assert "memory_limit" in large.anomalies
    assert not large.malformed
    assert (2, 6, 7) in talk.pairs()


def test_apis_with_record_data_are_those_of_the_definitions(catalog: Catalog) -> None:
    def has_records(struct: Struct) -> bool:
        return any(
            field.element_type == "records"
            or (field.struct is not None and has_records(field.struct))
            for field in struct.fields
        )

    with_records = {
        api.key
        for api in catalog.apis
        for kind in ("request", "response")
        if has_records(catalog.message(api.key, kind).struct)
    }
    assert with_records == RECORD_APIS
