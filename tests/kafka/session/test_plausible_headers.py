"""Limits of what a request header may say, and that all who look at headers keep the same ones."""

from __future__ import annotations

import pytest

from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.header_candidates import RequestCandidates
from kanalyze.kafka.session.plausible_headers import (
    LONGEST_CLIENT_ID_BYTES,
    highest_plausible_version,
    is_plausible_client_id,
    is_plausible_version,
)
from tests.support import kafka as k
from tests.support.talk import Talk

CATALOG = Catalog()
FIRST_BYTES = Talk().tracker._undecided._detector._first


@pytest.mark.parametrize("api", CATALOG.apis, ids=lambda api: api.name)
def test_a_slightly_newer_version_is_plausible(api):
    highest = highest_plausible_version(api)
    assert highest > api.versions.highest
    assert is_plausible_version(CATALOG, api.key, 0)
    assert is_plausible_version(CATALOG, api.key, highest)
    assert not is_plausible_version(CATALOG, api.key, highest + 1)
    assert not is_plausible_version(CATALOG, api.key, -1)


def test_an_unknown_api_has_no_plausible_version():
    assert not is_plausible_version(CATALOG, 30_000, 0)


def test_a_client_id_is_short_text_without_control_characters_or_null():
    assert is_plausible_client_id(None)
    assert is_plausible_client_id("")
    assert is_plausible_client_id("é" * (LONGEST_CLIENT_ID_BYTES // 4))
    assert not is_plausible_client_id("é" * (LONGEST_CLIENT_ID_BYTES // 4 + 1))
    assert not is_plausible_client_id("consumer\n")
    # Kafka allows all of these, and what is printable depends on the version of Unicode.
    for text in ("a\u200db", "\U000e0fff", "\ue000", "\u202eb", "a\u00a0b", "a\x85b"):
        assert is_plausible_client_id(text)


def test_the_longest_client_id_is_accepted_before_and_after_its_last_byte():
    client_id = "\N{GRINNING FACE}" * (LONGEST_CLIENT_ID_BYTES // 4)
    request = k.heartbeat(1, client_id=client_id)
    incomplete = request[:100]
    # A candidate is looked for in bytes that have come, so there the header has to be complete.
    assert RequestCandidates(CATALOG).find(memoryview(request), 1) == [0]
    assert FIRST_BYTES.verdict(memoryview(incomplete)) == "perhaps"
    assert FIRST_BYTES.verdict(memoryview(request)) == "yes"
