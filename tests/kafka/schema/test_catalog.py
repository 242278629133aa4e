from __future__ import annotations

import re
import subprocess
import sys

import pytest

from kanalyze.kafka.schema.catalog import RELEASES, Catalog
from kanalyze.kafka.schema.versions import NONE, VersionRange
from tests.support.facts import rows

FACTS = rows("apikeys.txt")


def header_version(notation: str, version: int) -> int:
    """Read ``1;2@9+`` or ``0@0;1@1-2;2@3+`` for one version."""
    found = None
    for part in notation.split(";"):
        header, _, versions = part.partition("@")
        if not versions or VersionRange.parse(versions).contains(version):
            found = int(header)
    assert found is not None
    return found


def test_the_table_is_that_of_the_facts(catalog: Catalog) -> None:
    assert [api.key for api in catalog.apis] == list(range(95))
    for row, api in zip(FACTS, catalog.apis, strict=True):
        key, name, versions, *release_versions = row[:10]
        assert (api.key, api.name, str(api.versions)) == (int(key), name, versions)
        assert catalog.api(int(key)) is api
        assert catalog.named(name) is api
        assert [
            "-" if text == "-" else str(api.spoken_by(release))
            for release, text in zip(RELEASES, release_versions, strict=True)
        ] == release_versions
        assert api.first_release == row[12].removeprefix("<=")
        assert ",".join(api.listeners) == row[15]
        assert (",".join(api.unstable) or "-") == row[16]


def test_every_header_version_is_that_of_the_facts(catalog: Catalog) -> None:
    checked = 0
    for row in FACTS:
        key, versions = int(row[0]), VersionRange.parse(row[2])
        for version in versions.each():
            assert catalog.request_header_version(key, version) == header_version(row[13], version)
            assert catalog.response_header_version(key, version) == header_version(row[14], version)
            checked += 1
    assert checked > 350


def test_controlled_shutdown_version_0_alone_has_request_header_0(catalog: Catalog) -> None:
    found = {
        (api.key, version)
        for api in catalog.apis
        for version in api.versions.each()
        if catalog.request_header_version(api.key, version) == 0
    }
    assert found == {(7, 0)}


def test_api_versions_responses_have_header_0_even_in_unknown_versions(catalog: Catalog) -> None:
    assert {catalog.response_header_version(18, version) for version in range(40)} == {0}


def test_versions_and_apis_newer_than_the_table_have_the_newest_headers(catalog: Catalog) -> None:
    assert catalog.request_header_version(1, 99) == 2
    assert catalog.response_header_version(1, 99) == 1
    assert catalog.request_header_version(17, 99) == 1
    assert catalog.request_header_version(1000, 0) == 2
    assert catalog.response_header_version(1000, 0) == 1


def test_unknown_apis_messages_and_releases_are_not_found(catalog: Catalog) -> None:
    assert catalog.api(95) is None
    assert catalog.api(-1) is None
    assert catalog.named("produce") is None
    with pytest.raises(KeyError):
        catalog.message(95, "request")
    with pytest.raises(KeyError):
        catalog.data("Nothing")
    with pytest.raises(KeyError):
        catalog.data("../000_Produce")
    with pytest.raises(KeyError):
        catalog.apis[0].spoken_by("1.0")


def test_a_removed_api_is_spoken_by_no_later_release(catalog: Catalog) -> None:
    leader_and_isr = catalog.named("LeaderAndIsr")
    assert leader_and_isr is not None
    assert leader_and_isr.spoken_by("3.9") == (0, 7)
    assert leader_and_isr.spoken_by("4.0") == NONE


def test_a_definition_is_read_once_in_a_process() -> None:
    assert Catalog().message(0, "request") is Catalog().message(0, "request")
    assert Catalog().header("response") is Catalog().header("response")


def test_messages_are_found_by_api_and_kind(catalog: Catalog) -> None:
    assert catalog.message(1, "request").name == "FetchRequest"
    assert catalog.message(1, "response").name == "FetchResponse"
    assert catalog.header("request").name == "RequestHeader"
    assert catalog.header("response").name == "ResponseHeader"
    assert catalog.data("ConsumerProtocolSubscription").kind == "data"


def test_loading_the_catalog_imports_no_slow_module() -> None:
    script = (
        "import sys; from kanalyze.kafka.schema.catalog import Catalog; Catalog(); "
        "print(*sorted(sys.modules))"
    )
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    definitions = r"kanalyze\.kafka\.(codec.*|schema\.(layout|loader|overlay|schema_ast|user_.*))"
    slow = re.compile(rf"dataclasses|json|importlib\.resources|{definitions}")
    assert [name for name in loaded if slow.fullmatch(name)] == []
