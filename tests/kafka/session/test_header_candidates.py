"""Candidates for headers: no request is missed, and responses are those of a plain search."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.header_candidates import RequestCandidates, responses

CATALOG = Catalog()
CANDIDATES = RequestCandidates(CATALOG)
VERSIONS = [
    (api.key, version)
    for api in CATALOG.apis
    for version in range(api.versions.lowest, api.versions.highest + 1)
    if api.key > 7  # those up to 7 have forms of their own in their first versions
]


@given(
    st.binary(max_size=40),
    st.sampled_from(VERSIONS),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text("abcXYZ-0", max_size=20),
    st.binary(max_size=40),
)
def test_no_request_is_missed(before, api, correlation_id, client_id, body):
    name = (client_id or "").encode()
    length = -1 if client_id is None else len(name)
    head = struct.pack(">hhih", *api, correlation_id, length) + name + body
    data = before + struct.pack(">i", len(head)) + head
    candidates = CANDIDATES.find(memoryview(data), len(before) + 1)
    assert len(before) in candidates


@given(st.binary(max_size=80), st.sets(st.integers(-(2**31), 2**31 - 1), max_size=4), st.data())
def test_responses_are_found_at_a_size_and_a_pending_id(data, pending, draw):
    for number in pending:
        at = draw.draw(st.integers(0, len(data)))
        size = draw.draw(st.integers(0, 300))
        data = data[:at] + struct.pack(">ii", size, number) + data[at:]
    limit = max(len(data) - 7, 0)
    expected = [
        at
        for at in range(limit)
        if (head := struct.unpack_from(">ii", data, at))[1] in pending
        and 4 <= head[0] <= 100 * 1024 * 1024
    ]
    assert responses(memoryview(data), limit, pending) == expected
