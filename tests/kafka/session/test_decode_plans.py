"""Plans for the messages of API versions, known and unknown."""

from __future__ import annotations

from kanalyze.kafka.codec.compiler import Decoders, Projection
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.decode_plans import DecodePlans
from tests.support import kafka as k

CATALOG = Catalog()


def new_plans() -> DecodePlans:
    return DecodePlans(CATALOG, Decoders(CATALOG), lambda _key, _kind: Projection.ALL)


def test_a_plan_is_made_once_and_kept() -> None:
    plans = new_plans()
    first = plans.request(k.HEARTBEAT, 0)
    other = plans.request(k.HEARTBEAT, 1)
    assert plans.request(k.HEARTBEAT, 0) is first
    assert plans.of_kind(k.HEARTBEAT, 1, "request") is other
    assert plans.of_kind(k.HEARTBEAT, 0, "response") is plans.response(k.HEARTBEAT, 0)
    assert first.known
    assert first.reads_all_that_is_needed
    assert first.version == 0


def test_a_newer_version_is_read_as_the_newest_known_one_and_an_unknown_api_is_not_read() -> None:
    plans = new_plans()
    api = CATALOG.api(k.HEARTBEAT)
    assert api is not None
    newer = plans.request(k.HEARTBEAT, api.versions.highest + 1)
    assert (newer.known, newer.version) == (False, api.versions.highest)
    assert not newer.reads_all_that_is_needed
    unknown = plans.request(999, 0)
    assert (unknown.known, unknown.decode, unknown.definition) == (False, None, None)


def test_an_api_is_known_by_its_key_and_a_version_by_its_range() -> None:
    plans = new_plans()
    assert plans.has_api(k.HEARTBEAT)
    assert not plans.has_api(999)
    plans.request(999, 0)
    assert not plans.has_api(999)
    assert plans.has_version(k.HEARTBEAT, 0)
    assert not plans.has_version(k.HEARTBEAT, 99)
    assert not plans.has_version(999, 0)
