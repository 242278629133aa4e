"""Kafka's APIs by the tables of facts, and those that a user adds."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kanalyze.errors import DefinitionError, UsageError
from kanalyze.kafka.codec.compiler import Decoders, Projection
from kanalyze.kafka.schema import loader
from kanalyze.kafka.schema.api_table import RELEASES
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.schema.loader import read_definitions
from kanalyze.kafka.schema.schema_ast import NONE, VersionRange
from tests.support.definitions import built_in, field, folder, message, next_fetch, vendor_folder
from tests.support.facts import rows
from tests.support.messages import Writer

if TYPE_CHECKING:
    from pathlib import Path


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


def test_loading_the_catalog_imports_no_slow_module() -> None:
    script = (
        "import sys; from kanalyze.kafka.schema.catalog import Catalog; Catalog(); "
        "print(*sorted(sys.modules))"
    )
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    definitions = r"kanalyze\.kafka\.(codec.*|schema\.(loader|overlay))"
    slow = re.compile(rf"dataclasses|json|importlib\.resources|{definitions}")
    assert [name for name in loaded if slow.fullmatch(name)] == []


REQUEST, RESPONSE = message("VendorRequest"), message("VendorResponse")


def refusal(path: Path) -> str:
    with pytest.raises(DefinitionError) as caught:
        Catalog(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_api_that_a_user_defines_is_in_the_catalog(tmp_path: Path) -> None:
    catalog = Catalog(vendor_folder(tmp_path))
    api = catalog.api(1000)
    assert api is not None
    assert catalog.named("VendorThing") is api
    assert catalog.apis[-1] is api
    assert (api.versions, api.first_release, api.listeners) == ((0, 1), "-", ())
    assert api.spoken_by("4.0").is_empty
    assert [catalog.request_header_version(1000, version) for version in (0, 1, 2)] == [1, 2, 2]
    assert [catalog.response_header_version(1000, version) for version in (0, 1, 2)] == [0, 1, 1]
    assert catalog.message(1000, "response").struct.field("Parts") is not None
    assert len(catalog.apis) == len(Catalog().apis) + 1


def test_a_newer_version_of_a_built_in_api_is_added(tmp_path: Path) -> None:
    catalog, original = Catalog(next_fetch(tmp_path)), Catalog()
    api, original_api = catalog.named("Fetch"), original.named("Fetch")
    assert api is not None
    assert original_api is not None
    assert api == original_api._replace(versions=api.versions)
    assert api.versions == (0, 19)
    request = catalog.message(1, "request")
    mood = request.struct.field("Mood")
    assert mood is not None
    assert str(mood.versions) == "19+"
    assert catalog.message(0, "request").name == original.message(0, "request").name


def test_decoders_of_user_definitions_are_for_their_catalog_alone(tmp_path: Path) -> None:
    own, projection = Catalog(next_fetch(tmp_path)), Projection.of("Mood")
    numbers = ("maxWaitMs", "minBytes", "maxBytes", "isolationLevel", "sessionId", "sessionEpoch")
    values = dict.fromkeys(numbers, 0) | {"topics": [], "forgottenTopicsData": [], "rackId": ""}
    body = Writer(own.message(1, "request"), 19).write(values | {"mood": "sad"})
    for _ in range(2):
        with pytest.raises(UsageError, match="no version 19"):
            Decoders(Catalog()).get(1, "request", 19, Projection.ALL)
        with pytest.raises(UsageError, match="no field 'Mood'"):
            Decoders(Catalog()).get(1, "request", 17, projection)
        decode = Decoders(own).get(1, "request", 19, projection)
        assert decode(body, 0)[0] == ("sad",)


def test_the_built_in_files_over_themselves_change_nothing(tmp_path: Path) -> None:
    texts = {f"api{api.key}": built_in(f"{api.key:03d}_{api.name}.json") for api in Catalog().apis}
    assert Catalog(folder(tmp_path, **texts)).apis == Catalog().apis


def test_a_request_alone_may_be_redefined_with_another_name(tmp_path: Path) -> None:
    text = message("ListThingsRequest", key=74, flexibleVersions="0+", validVersions="0")
    catalog = Catalog(folder(tmp_path, One=text))
    assert catalog.named("ListThings") is catalog.api(74)
    assert catalog.named("ListConfigResources") is None
    assert catalog.message(74, "request").name == "ListThingsRequest"
    assert catalog.message(74, "response").name == "ListConfigResourcesResponse"


def test_data_inside_messages_may_be_defined_too(tmp_path: Path) -> None:
    subscription = built_in("data_ConsumerProtocolSubscription.json").replace('"0-3"', '"0-4"')
    own = folder(tmp_path, Sub=subscription, New=message("VendorData", key=None))
    catalog = Catalog(own)
    assert catalog.data("ConsumerProtocolSubscription").valid_versions == (0, 4)
    assert catalog.data("VendorData").valid_versions == (0, 1)
    assert catalog.data("ConsumerProtocolAssignment").valid_versions == (0, 3)


def test_headers_and_messages_of_other_kinds_are_ignored(tmp_path: Path) -> None:
    texts = {
        "Header": message("RequestHeader", key=None, type="header"),
        "Record": message("TopicRecord", key=None, type="metadata", apiKey=2),
        "Gone": message("OldRequest", key=4, validVersions="none", flexibleVersions="none"),
    }
    definitions = read_definitions(folder(tmp_path, **texts))
    assert definitions == ({}, {}, {})


def test_only_json_files_of_the_folder_itself_are_read(tmp_path: Path) -> None:
    vendor_folder(tmp_path)
    (tmp_path / "README.md").write_text("no definition")
    folder(tmp_path / "below", Bad="{")
    assert set(read_definitions(tmp_path).requests) == {1000}


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"A": REQUEST}, "A.json: VendorRequest: there is no response with apiKey 1000"),
        ({"A": RESPONSE}, "A.json: VendorResponse: there is no request with apiKey 1000"),
        ({"A": REQUEST, "B": REQUEST}, "B.json: VendorRequest: the request stands in "),
        (
            {"A": REQUEST + message("VendorResponse", validVersions="0-2")},
            "A.json: VendorRequest: requests have versions 0-1, responses 0-2",
        ),
        (
            {"A": message("Vendor")},
            "A.json: Vendor: the name of a response ends in Response",
        ),
        (
            {"A": message("MetadataRequest") + message("MetadataResponse")},
            "A.json: MetadataRequest: the APIs 3 and 1000 have one name",
        ),
        (
            {"A": message("HeartbeatRequest", field("GroupId", "int32"), key=12)},
            "A.json: HeartbeatRequest.GroupId: type int32 is not the built-in string",
        ),
        (
            {"A": message("HeartbeatRequest", key=12, validVersions="0-5")},
            "A.json: HeartbeatRequest: requests have versions 0-5, responses 0-4",
        ),
        ({"A": message("Big", key=None, validVersions="0-2000")}, "more than 1000 versions"),
        ({"A": "{"}, "A.json: not the JSON of a message"),
        ({"A": message("X", {"name": "F", "type": "int33", "versions": "0+"}, key=None)}, "X.F: "),
    ],
)
def test_a_broken_folder_is_refused_with_file_field_and_reason(
    texts: dict[str, str], reason: str, tmp_path: Path
) -> None:
    assert reason in refusal(folder(tmp_path, **texts))


def test_a_missing_or_empty_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "missing").endswith("not a folder of message definitions")
    assert refusal(tmp_path).endswith("there is no *.json with message definitions")
    (tmp_path / "sub.json").mkdir()
    assert "sub.json: " in refusal(tmp_path)


def test_a_file_that_is_not_utf8_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"// \xff\n")
    assert refusal(tmp_path) == f"{path}: not UTF-8 at byte 3"
    monkeypatch.setattr(loader, "MAX_FILE_BYTES", 1 << 20)
    path.write_bytes(b" " * ((1 << 20) + 1))
    assert refusal(tmp_path) == f"{path}: more than 1 MiB"


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "MAX_FILES", 1)
    assert refusal(vendor_folder(tmp_path)).endswith("more than 1 files")
